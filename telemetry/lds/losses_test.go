package lds

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLossesOverIntervals: packets that are under way at the end of an interval arrive in the next. Of a flow that is alone in the cells of one of
// its rows the losses of all intervals together are exact all the same, and where no packet crosses the end of an interval they are
// no worse than those of each interval by itself.
func TestLossesOverIntervals(t *testing.T) {
	const flows, intervals, length = 60, 20, 1 << 20
	c := Config{Rows: 2, Columns: 256, Virtual: 2, IntervalNs: length, Seed: 1}
	for _, under := range []bool{true, false} {
		r := rand.New(rand.NewPCG(1, 1))
		type packet struct{ flow, id, sent, arrived uint64 }
		var packets []packet
		var truth [flows]float64
		for range 20_000 {
			p := packet{flow: r.Uint64N(flows), id: r.Uint64(), sent: r.Uint64N(intervals * length * 63 / 64)}
			p.arrived = p.sent + r.Uint64N(length/64)
			if !under {
				p.arrived = min(p.arrived, p.sent|(length-1))
			}
			if p.flow%3 == 0 && r.IntN(50) == 0 {
				p.arrived = 0
				truth[p.flow]++
			}
			packets = append(packets, p)
		}
		a, b := newPoint(t, c), newPoint(t, c)
		var losses [flows]Losses
		var single [flows]float64
		for k := range uint64(intervals) {
			a.Begin(int64(k))
			b.Begin(int64(k))
			for _, p := range packets {
				if p.sent/length == k {
					a.Add(p.flow, p.id, int64(p.sent), 100)
				}
				if p.arrived != 0 && p.arrived/length == k {
					b.Add(p.flow, p.id, int64(p.arrived), 100)
				}
			}
			d := subtract(t, a, b)
			for f := range losses {
				e := d.Flow(uint64(f), 1, Balanced)
				losses[f].Add(d, &e)
				single[f] += e.Lost
			}
		}
		alone, wrong := 0, 0
		for f := range losses {
			lost, known := losses[f].Lost()
			switch {
			case !known:
				t.Fatalf("flow %d: no interval is whole", f)
			case !under && lost != single[f]:
				t.Errorf("flow %d: %g packets lost, %g by intervals", f, lost, single[f])
			case under && aloneInARow(a, uint64(f), flows):
				alone++
				if single[f] != truth[f] {
					wrong++
				}
				if lost != truth[f] {
					t.Errorf("flow %d: %g packets lost, want %g", f, lost, truth[f])
				}
			}
		}
		if under && (alone < flows/3 || wrong == 0) {
			t.Errorf("of %d flows that are alone in a row, %d are wrong by single intervals: nothing is shown", alone, wrong)
		}
	}
}

// TestLossesBesideShift: flows share cells and lose packets. Where one packet comes twice in an interval, or where the receiver is held up over some and counts
// all their packets in the next, losses of the other intervals are still those of each one's least row.
func TestLossesBesideShift(t *testing.T) {
	const flows, intervals, length, first, last = 300, 60, 1 << 20, 30, 34
	c := Config{Rows: 2, Columns: 512, Virtual: 2, IntervalNs: length, Seed: 1}
	for _, held := range []bool{false, true} {
		r := rand.New(rand.NewPCG(1, 1))
		a, b := newPoint(t, c), newPoint(t, c)
		var losses [flows]Losses
		var single, truth [flows]float64 // single: without a shift
		type packet struct{ flow, id uint64 }
		var waiting []packet
		for k := range int64(intervals) {
			a.Begin(k)
			b.Begin(k)
			still := newPoint(t, c)
			still.Begin(k)
			for f := range uint64(flows) {
				for range r.IntN(20) {
					p := packet{f, r.Uint64()}
					a.Add(p.flow, p.id, k*length, 100)
					if r.IntN(100) == 0 {
						truth[f]++
						continue
					}
					still.Add(p.flow, p.id, k*length+1, 100)
					waiting = append(waiting, p)
				}
			}
			if !held && k == first {
				waiting = append(waiting, packet{0, r.Uint64()})
				truth[0]--
			}
			if !held || k < first || k >= last {
				for _, p := range waiting {
					b.Add(p.flow, p.id, k*length+1, 100)
				}
				waiting = waiting[:0]
			}
			without, d := subtract(t, a, still), subtract(t, a, b)
			for f := range losses {
				e := without.Flow(uint64(f), 1, Balanced)
				single[f] += e.Lost
				e = d.Flow(uint64(f), 1, Balanced)
				losses[f].Add(d, &e)
			}
		}
		off, offSingle := 0.0, 0.0
		for f := range losses {
			lost, known := losses[f].Lost()
			if !known {
				t.Fatalf("flow %d: no interval is whole", f)
			}
			off, offSingle = off+math.Abs(lost-truth[f]), offSingle+math.Abs(single[f]-truth[f])
		}
		t.Logf("held up %v: off by %g packets together, %g without that", held, off, offSingle)
		if off > 1.5*offSingle {
			t.Errorf("held up %v: losses are off by %g packets together, by %g without that", held, off, offSingle)
		}
	}
}

// aloneInARow reports whether a flow shares no cell of one of its rows.
func aloneInARow(p *Point, flow, flows uint64) bool {
	for row := range p.config.Rows {
		alone := true
		for other := range flows {
			off := (p.base(other, row) - p.base(flow, row) + p.config.Columns) % p.config.Columns
			if k := p.config.Virtual; other != flow && (off < k || off > p.config.Columns-k) {
				alone = false
			}
		}
		if alone {
			return true
		}
	}
	return false
}
