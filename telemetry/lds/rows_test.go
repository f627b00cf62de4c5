package lds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestRowsInBlocks: points made together that have different rows in an interval have the same cells by blocks as one by one, and as points
// made with those rows.
func TestRowsInBlocks(t *testing.T) {
	defer func(w bool) { wide = w }(wide)
	for _, w := range []bool{wide, false} {
		wide = w
		for _, rows := range []int{1, 2, 3, 4, 6, 16} {
			made := Config{Rows: rows, Columns: 30, Virtual: 1, IntervalNs: 1e9, Seed: 5}
			r := rand.New(rand.NewPCG(9, uint64(rows)))
			together, err := NewPoints(made, 3)
			if err != nil {
				t.Fatal(err)
			}
			for round := range 30 {
				var single, plain []*Point
				for i, p := range together {
					var fewer int
					for fewer = 1 + r.IntN(rows); rows%fewer != 0; fewer-- {
					}
					if round < 3 && i > 0 {
						fewer = together[0].Config().Rows
					}
					p.Begin(int64(i))
					p.SetRows(fewer)
					other := made
					other.Rows, other.Columns = fewer, made.Columns*rows/fewer
					if !p.Config().Equal(other) || !p.Made().Equal(made) {
						t.Fatalf("%+v of %+v, want %+v", p.Config(), p.Made(), other)
					}
					single, plain = append(single, p.Clone()), append(plain, newPoint(t, other))
					plain[i].Enter(int64(i))
				}
				var b blockOf
				for range r.IntN(5 * BlockSize) {
					i, flow, id, at, bytes, times := r.IntN(len(together)), r.Uint64N(20), r.Uint64(), r.Int64N(3*made.IntervalNs), length(r), weight(r)
					single[i].AddWeighted(flow, id, at, bytes, times)
					plain[i].AddWeighted(flow, id, at, bytes, times)
					b.put(together[i], flow, id, at, bytes, times)
				}
				b.flush()
				for i, p := range together {
					if !slices.Equal(single[i].wide(), p.wide()) || !slices.Equal(plain[i].wide(), p.wide()) {
						t.Fatalf("cells of %+v differ with wide = %t", p.Config(), wide)
					}
					p.SetRows(1)
					if p.Packets() > 0 && p.Config().Rows != single[i].Config().Rows {
						t.Fatal("a point that is not empty has other rows")
					}
					sum := newPoint(t, made)
					sum.Enter(p.Interval())
					if err := sum.Merge(p); err != nil || !slices.Equal(sum.wide(), p.wide()) {
						t.Fatalf("an empty point with %+v added: %v", p.Config(), err)
					}
					form, err := p.AppendBinary(nil)
					if err != nil {
						t.Fatal(err)
					}
					back, err := Decode(form, made.Hash)
					if err != nil || !back.Config().Equal(p.Config()) || !slices.Equal(back.wide(), p.wide()) {
						t.Fatalf("%+v does not come back: %v", p.Config(), err)
					}
				}
			}
		}
	}
}

// TestBestRows: more flows have fewer rows, between the limits; where packets scatter rows stay.
func TestBestRows(t *testing.T) {
	c := Config{Rows: 4, Columns: 17500, Virtual: 1, IntervalNs: 1e9}
	for flows, want := range map[float64]int{0: 4, 1: 4, 12_000: 4, 17_000: 4, 17_400: 2, 24_000: 2, 34_000: 2, 34_600: 1, 1e6: 1, math.Inf(1): 1} {
		if rows := c.BestRows(flows, 0); rows != want {
			t.Errorf("%g flows: %d rows, want %d", flows, rows, want)
		}
	}
	// Rows that do not fit into a record are not chosen, however short it is.
	for flows, want := range map[float64]int{1: 4, 7_000: 4, 8_000: 2, 11_000: 2, 12_000: 1, 1e6: 1} {
		if rows := c.BestRows(flows, 190_000); rows != want {
			t.Errorf("%g flows in 190,000 bytes: %d rows, want %d", flows, rows, want)
		}
	}
	if rows := c.BestRows(10, 1); rows != 1 {
		t.Errorf("%d rows in a byte", rows)
	}
	for _, c := range []Config{{Rows: 4, Columns: 10, Virtual: 2}, {Rows: 2, Columns: 10, Virtual: 1, Rates: []float64{0.5, 1}}} {
		if rows := c.BestRows(1e6, 0); rows != c.Rows {
			t.Errorf("%+v: %d rows", c, rows)
		}
	}
}

// TestFlows: linear counting finds the flows within 8 standard deviations of an unbiased estimate (Whang et al., Theorem 3), which it fails
// with a chance below 1e-14 for each of 12 sizes, whatever the rows.
func TestFlows(t *testing.T) {
	for _, rows := range []int{1, 2, 4} {
		for _, flows := range []int{0, 100, 10_000, 40_000} {
			p := newPoint(t, Config{Rows: 4, Columns: 10_000, Virtual: 1, IntervalNs: 1e9, Seed: 3, Hash: hash.XX})
			p.SetRows(rows)
			r := rand.New(rand.NewPCG(1, uint64(flows)))
			for range flows {
				f := r.Uint64()
				for range 1 + r.IntN(3) {
					p.Add(f, r.Uint64(), 5, 100)
				}
			}
			n, m := float64(flows), float64(p.Config().Columns)
			deviation := math.Sqrt(m * (math.Exp(n/m) - n/m - 1))
			if got := p.Flows(); math.Abs(got-n) > 8*deviation+1 {
				t.Errorf("%d flows in %d rows: %.0f, want within %.0f", flows, rows, got, 8*deviation+1)
			}
		}
	}
}
