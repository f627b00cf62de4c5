package lds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// seen is a packet as both points see it: a list of timestamps at each, empty
// where it was lost, longer than one where it was duplicated.
type seen struct {
	flow, id uint64
	at       [2][]int64
}

// world is a network between two points with all its faults, and the truth.
type world struct {
	config  Config
	packets []seen
}

// faults are probabilities per packet.
type faults struct {
	loss, duplicate, reorder float64
}

// newWorld lets packets of heavy-tailed flows pass over three intervals. Delays
// differ from packet to packet, so they overtake each other; reordered ones
// take up to half an interval more, and cross interval edges.
func newWorld(c Config, flows, packets int, f faults, r *rand.Rand) *world {
	w := &world{config: c}
	for range packets {
		p := seen{flow: uint64(float64(flows) * math.Pow(r.Float64(), 3)), id: r.Uint64()}
		sent := r.Int64N(3 * c.IntervalNs)
		p.at[0] = []int64{sent}
		copies := 1
		for copies < 4 && r.Float64() < f.duplicate {
			copies++
		}
		for range copies {
			delay := c.IntervalNs/1000 + r.Int64N(c.IntervalNs/1000)
			if r.Float64() < f.reorder {
				delay += r.Int64N(c.IntervalNs / 2)
			}
			if r.Float64() >= f.loss {
				p.at[1] = append(p.at[1], sent+delay)
			}
		}
		w.packets = append(w.packets, p)
	}
	return w
}

// points runs both points over interval 1, by the clock, and returns for each
// cell the packets that each point counted in it.
func (w *world) points(t *testing.T) (p [2]*Point, truth [2][][]int) {
	t.Helper()
	for side := range p {
		p[side] = newPoint(t, w.config)
		p[side].Begin(1)
		truth[side] = make([][]int, len(p[side].cells))
		for i := range w.packets {
			for _, at := range w.packets[i].at[side] {
				if at/w.config.IntervalNs != 1 {
					continue
				}
				p[side].Add(w.packets[i].flow, w.packets[i].id, at, 100)
				for _, c := range cellsOf(p[side], w.packets[i].flow, w.packets[i].id) {
					truth[side][c] = append(truth[side][c], i)
				}
			}
		}
	}
	return p, truth
}

// TestWrongCellsAreRefused: whatever loss, duplication, reordering over the
// edges and merging do, a cell is used exactly if both points counted the same
// packets in it, and its sum is the sum of their delays. A digest fails to tell
// with a chance of 2^-60 per cell.
func TestWrongCellsAreRefused(t *testing.T) {
	for i, f := range []faults{
		{}, {loss: 0.001}, {loss: 0.1}, {duplicate: 0.05}, {reorder: 0.05},
		{loss: 0.01, duplicate: 0.01, reorder: 0.01}, {loss: 0.1, duplicate: 0.2, reorder: 0.1},
	} {
		for _, c := range []Config{
			{Rows: 3, Columns: 101, Virtual: 1, IntervalNs: 1e7, Seed: 11},
			{Rows: 4, Columns: 300, Virtual: 5, Rates: []float64{0.05, 0.25, 0.5, 1}, IntervalNs: 1e7, Seed: 12},
		} {
			r := rand.New(rand.NewPCG(uint64(i), c.Seed))
			w := newWorld(c, 60, 1500, f, r)
			p, truth := w.points(t)
			d, err := Subtract(p[0], p[1], AnyDelay())
			if err != nil {
				t.Fatal(err)
			}
			used, hidden := 0, 0
			for cell := range truth[0] {
				a, b := truth[0][cell], truth[1][cell]
				slices.Sort(a)
				slices.Sort(b)
				state := d.states[cell]
				if same := slices.Equal(a, b); same != (state == Usable || state == Empty) {
					t.Fatalf("%+v, %+v: cell %d: packets %v and %v, state %s", c, f, cell, a, b, state)
				}
				if state == DigestDiffers {
					hidden++
				}
				if state != Usable {
					continue
				}
				used++
				want := int64(0)
				for side, list := range [2][]int{a, b} {
					for k, i := range list {
						if k > 0 && list[k-1] == i {
							continue // all its copies are summed at once
						}
						for _, at := range w.packets[i].at[side] {
							if at/c.IntervalNs == 1 {
								want += int64(2*side-1) * at
							}
						}
					}
				}
				if got := p[1].at(cell).Sum - p[0].at(cell).Sum; got != want {
					t.Fatalf("%+v, %+v: cell %d sums up to %d, want %d", c, f, cell, got, want)
				}
			}
			if used != d.Cells(Usable) || d.Cells(CountDiffers)+d.Cells(DigestDiffers) != d.Refused() {
				t.Errorf("%+v: the tally is wrong", f)
			}
			t.Logf("k=%d %+v: %d cells used, %d refused, %d of them by the digest", c.Virtual, f, used, d.Refused(), hidden)
			if f.reorder+f.loss > 0 && d.Refused() == 0 || used == 0 {
				t.Errorf("%+v: %d used, %d refused: the test shows nothing", f, used, d.Refused())
			}
		}
	}
}

// TestDigestSeesEqualCounts: one packet lost and another one duplicated, or
// replaced, or thrice, leave the count as it was.
func TestDigestSeesEqualCounts(t *testing.T) {
	for name, got := range map[string][]uint64{
		"replaced": {1, 2, 9}, "one for another": {1, 2, 2}, "thrice": {3, 3, 3},
	} {
		a, b := newPoint(t, shapes()[0]), newPoint(t, shapes()[0])
		for i, id := range []uint64{1, 2, 3} {
			a.Add(1, id, 5, 60)
			b.Add(1, got[i], 7, 60)
		}
		d, err := Subtract(a, b, AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		if d.State(0, 0) != DigestDiffers || d.Flow(1, 1, 0.1).HasDelay {
			t.Errorf("%s: %s", name, d.State(0, 0))
		}
	}
}

// TestRestart: a point that restarts within the interval keeps what it counted
// since. Cells whose packets all came later are right; all others are refused,
// and loss is not reported.
func TestRestart(t *testing.T) {
	for side := range 2 {
		c := Config{Rows: 2, Columns: 500, Virtual: 3, IntervalNs: 1e9, Seed: 6}
		r := rand.New(rand.NewPCG(7, 7))
		p := [2]*Point{newPoint(t, c), newPoint(t, c)}
		last := make([]int, c.Rows*c.Columns) // the largest number of packets before the restart
		type key struct{ flow, id uint64 }
		var all []key
		for i := range 1000 {
			k := key{r.Uint64N(300), r.Uint64()}
			all = append(all, k)
			if i == 500 {
				p[side] = newPoint(t, c)
				p[side].Mark(Partial)
			}
			p[0].Add(k.flow, k.id, int64(i)*1000, 60)
			p[1].Add(k.flow, k.id, int64(i)*1000+70, 60)
			if i < 500 {
				for _, cell := range cellsOf(p[0], k.flow, k.id) {
					last[cell]++
				}
			}
		}
		d, err := Subtract(p[0], p[1], AnyDelay())
		if err != nil {
			t.Fatal(err)
		}
		for cell, before := range last {
			if (before > 0) != (d.states[cell] == CountDiffers) {
				t.Fatalf("cell %d with %d packets before the restart is %s", cell, before, d.states[cell])
			}
		}
		for _, k := range all {
			e := d.Flow(k.flow, 1, Balanced)
			if e.HasDelay && math.Abs(e.MeanNs-70) > 1e-9 {
				t.Fatalf("flow %d has a delay of %g ns, not 70", k.flow, e.MeanNs)
			}
			if e.HasLoss {
				t.Fatal("loss is told by a point that saw half of the interval")
			}
		}
		if _, known := d.Lost(); known {
			t.Error("loss of all is told by a point that saw half of the interval")
		}
	}
}

// TestClockSteps: a step beyond an interval puts packets outside, one that is
// known refuses all, one that makes delays implausible refuses the cells that
// show it. What is still used is right.
func TestClockSteps(t *testing.T) {
	c := Config{Rows: 2, Columns: 400, Virtual: 2, IntervalNs: 1e9, Seed: 16}
	run := func(step int64, limits Limits, mark Flags) *Difference {
		a, b := newPoint(t, c), newPoint(t, c)
		r := rand.New(rand.NewPCG(8, 8))
		for i := range 1000 {
			flow, id, at := r.Uint64N(100), r.Uint64(), int64(i)*1000
			a.Add(flow, id, at, 60)
			if at += 70; i >= 500 {
				at += step
			}
			b.Add(flow, id, at, 60)
		}
		b.Mark(mark)
		d, err := Subtract(a, b, limits)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for name, d := range map[string]*Difference{
		"far ahead":    run(5e9, AnyDelay(), 0),
		"far back":     run(-5e9, AnyDelay(), 0),
		"known":        run(1e6, AnyDelay(), Stepped),
		"ahead":        run(1e8, Limits{0, 1e5}, 0),
		"before cause": run(-1e8, Limits{0, 1e5}, 0),
	} {
		if d.Refused() == 0 {
			t.Errorf("%s: no cell is refused", name)
		}
		for flow := range uint64(100) {
			if e := d.Flow(flow, 1, Balanced); e.HasDelay && (math.Abs(e.MeanNs-70) > 1e-9 || name == "known") {
				t.Errorf("%s: flow %d has a delay of %g", name, flow, e.MeanNs)
			}
		}
	}
	for _, step := range []int64{0, 5e9} { // what a point refused is no loss
		d := run(step, AnyDelay(), 0)
		if _, known := d.Lost(); known != (step == 0) {
			t.Errorf("a step of %d ns: loss of all is told: %v", step, known)
		}
		if e := d.Flow(7, 1, Balanced); e.HasLoss != (step == 0) {
			t.Errorf("a step of %d ns: loss of a flow is told: %v", step, e.HasLoss)
		}
	}
	if d := run(0, Limits{0, 1e5}, 0); d.Refused() != 0 {
		t.Errorf("without a step %d cells are refused", d.Refused())
	}
	if d := run(0, Limits{0, 69}, 0); d.Cells(Usable) != 0 {
		t.Errorf("a limit below all delays leaves %d cells", d.Cells(Usable))
	}
}

func TestSubtractRefuses(t *testing.T) {
	a := newPoint(t, shapes()[1])
	later := newPoint(t, shapes()[1])
	later.Begin(1)
	other := shapes()[1]
	other.Seed++
	foreign := shapes()[1]
	foreign.Hash = hash.CRC
	for name, b := range map[string]*Point{"interval": later, "shape": newPoint(t, shapes()[2]), "seed": newPoint(t, other), "hash": newPoint(t, foreign)} {
		if _, err := Subtract(a, b, AnyDelay()); err == nil {
			t.Errorf("another %s: no error", name)
		}
	}
}
