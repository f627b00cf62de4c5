package lds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFold: a point that is folded has the cells of one that counted with so many fewer rows and columns, where these divide; it comes back from its form as it
// is, and compares with the point itself, whatever is folded more.
func TestFold(t *testing.T) {
	for _, c := range []Config{{Rows: 4, Columns: 17500}, {Rows: 1, Columns: 4096}, {Rows: 3, Columns: 37}, {Rows: 2, Columns: 1}} {
		c.Virtual, c.IntervalNs, c.Seed = 1, 1e9, 3
		r := rand.New(rand.NewPCG(3, uint64(c.Columns)))
		p, late := newPoint(t, c), newPoint(t, c)
		plain := map[[2]int]*Point{}
		for rows := 1; rows <= c.Rows; rows++ {
			for fold := uint8(0); c.Columns>>fold<<fold == c.Columns && fold < 5; fold++ {
				small := c
				small.Rows, small.Columns = rows, c.Columns>>fold
				plain[[2]int{rows, int(fold)}] = newPoint(t, small)
			}
		}
		for range 5000 {
			flow, id, at := r.Uint64N(300), r.Uint64(), r.Int64N(9e8)
			p.Add(flow, id, at, 100)
			late.Add(flow, id, at+3000, 100)
			for _, q := range plain {
				q.Add(flow, id, at, 100)
			}
		}
		for rows := 1; rows <= c.Rows; rows++ {
			for fold := uint8(0); fold <= leastFold(&c); fold++ {
				q := p.foldTo(rows, fold)
				for flow := range uint64(300) {
					for row := range rows {
						if got, want := q.base(flow, row), p.base(flow, row)>>fold; got != want {
							t.Fatalf("flow %d is in column %d of row %d, want %d", flow, got, row, want)
						}
					}
				}
				if same := plain[[2]int{rows, int(fold)}]; same != nil {
					for i, cell := range q.wide() {
						if same.at(i) != cell {
							t.Fatalf("%d rows, fold %d: cell %d has %+v, want %+v", rows, fold, i, cell, same.at(i))
						}
					}
				}
				back, err := Decode(encode(t, q), c.Hash)
				if err != nil {
					t.Fatal(err)
				}
				for _, pair := range [][2]*Point{{q, late}, {back, late.foldTo(1, 0)}, {q, back}, {p.foldTo(1, 0), late.foldTo(c.Rows, fold)}} {
					d, err := Subtract(pair[0], pair[1], AnyDelay())
					if err != nil {
						t.Fatal(err)
					}
					want := 3000.0
					if pair[1] == back {
						want = 0
					}
					if mean, ok := d.MeanNs(); !ok || math.Abs(mean-want) > 1e-6 || d.Refused() != 0 {
						t.Fatalf("%d rows, fold %d: a mean of %g, want %g; %d cells are refused", rows, fold, mean, want, d.Refused())
					}
				}
			}
		}
	}
}

// TestFoldOfNothing: where nothing arrives, the receiver's short record does not spoil what is known of single flows' losses.
func TestFoldOfNothing(t *testing.T) {
	c := Config{Rows: 4, Columns: 1000, Virtual: 1, IntervalNs: 1e9}
	p, nothing := newPoint(t, c), newPoint(t, c)
	for i := range uint64(100) {
		for range i {
			p.Add(i, i, 5, 100)
		}
	}
	form, cells, _ := nothing.AppendWithin(nil, 1000)
	back, err := Decode(form, c.Hash)
	if err != nil || len(form) > 150 || cells != 4000 {
		t.Fatalf("nothing takes %d bytes, %d cells: %v", len(form), cells, err)
	}
	d := subtract(t, p, back)
	if lost, known := d.Lost(); !known || lost != 99*50 || d.Kept() != 1 {
		t.Errorf("%d lost (%t), %g of the cells", lost, known, d.Kept())
	}
	if e := d.Flow(50, 1, Balanced); !e.HasLoss || e.Lost != 50 {
		t.Errorf("%+v", e)
	}
	if kept := subtract(t, back, nothing).Kept(); kept != 1 {
		t.Errorf("of nothing %g is kept", kept)
	}
}

// TestAppendWithin: whatever the flows are, records of points keep within a number of bytes and compare; few flows have all cells, and what is known of
// flows gets less step by step. Points whose packets scatter keep some cells whole.
func TestAppendWithin(t *testing.T) {
	const room, packets = 200_000, 2_000_000
	for _, x := range []struct {
		flows, virtual int
		kept, worst    float64 // share of the cells at the least, median of relative errors of flows of 1,000 packets at the most
	}{{1000, 1, 1, 0.001}, {17_000, 1, 0.25, 0.1}, {100_000, 1, 0.125, 0.1}, {1_000_000, 1, 0.125, 0.1}, {17_000, 4, 0.1, 1}} {
		c := DefaultConfig()
		c.Virtual = x.virtual
		from, to := newPoint(t, c), newPoint(t, c)
		for _, p := range []*Point{from, to} {
			if x.virtual == 1 {
				p.SetRows(c.BestRows(float64(x.flows), room))
			}
		}
		r := rand.New(rand.NewPCG(21, uint64(x.flows)))
		const large = 500
		delay := func(flow uint64) int64 { return int64(1+flow%97) * 100_000 }
		var a, b blockOf
		pass := func(flow uint64) {
			id, at := r.Uint64(), r.Int64N(8e8)
			a.put(from, flow, id, at, 500, 1)
			b.put(to, flow, id, at+delay(flow), 500, 1)
		}
		for flow := range uint64(large) {
			for range 1000 {
				pass(flow)
			}
		}
		for i := range uint64(packets - large*1000) {
			pass(large + i%uint64(x.flows-large))
		}
		a.flush()
		b.flush()
		var points [2]*Point
		for i, p := range []*Point{from, to} {
			limit := room >> i // one end has less room
			form, cells, all := p.AppendWithin(nil, limit)
			if len(form) > limit || all < len(form) {
				t.Errorf("%d flows: %d bytes, of about %d, want at most %d", x.flows, len(form), all, limit)
			}
			t.Logf("%d flows, virtual %d: %d cells of %d in %d bytes, of about %d", x.flows, x.virtual, cells, len(p.cells), len(form), all)
			var err error
			if points[i], err = Decode(form, c.Hash); err != nil {
				t.Fatal(err)
			}
		}
		d := subtract(t, points[0], points[1])
		if lost, known := d.Lost(); !known || lost != 0 || d.Kept() < x.kept/2 || x.kept == 1 && d.Kept() < 1 {
			t.Errorf("%d flows: %d lost, %g of the cells are there", x.flows, lost, d.Kept())
		}
		var errors []float64
		for flow := range uint64(large) {
			e := d.Flow(flow, 1, Balanced)
			if e.Unsent {
				continue
			}
			if !e.HasDelay || e.Packets < 1000 {
				t.Fatalf("%d flows: flow %d has %+v", x.flows, flow, e)
			}
			errors = append(errors, math.Abs(e.MeanNs/float64(delay(flow))-1))
		}
		t.Logf("median %.4f of %d flows, %.3f of the cells", median(errors), len(errors), d.Kept())
		if x.virtual == 1 && len(errors) < large || median(errors) > x.worst {
			t.Errorf("%d flows: %d of %d are known, with a median error of %g", x.flows, len(errors), large, median(errors))
		}
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
