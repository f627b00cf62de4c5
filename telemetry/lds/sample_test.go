package lds

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestQuantiles: from samples of a class, in blocks, by two workers, through records and with losses, the quantiles of delays are
// within their bounds, which hold with a chance to fail below 1e-9 each, and the sample is of the right rate.
func TestQuantiles(t *testing.T) {
	c := Config{Rows: 2, Columns: 500, Virtual: 1, IntervalNs: 1 << 30, Seed: 4, Samples: 1000}
	from, to := newPoint(t, c), newPoint(t, c)
	other := newPoint(t, c)
	r := rand.New(rand.NewPCG(5, 5))
	var delays, ofFlow []float64
	var block blockOf
	for range 60_000 {
		flow, id, at := r.Uint64N(4), r.Uint64(), r.Int64N(1<<29)
		p := from
		if id&1 != 0 {
			p = other
		}
		block.put(p, flow, id, at, 60, 1)
		if r.IntN(100) == 0 {
			continue
		}
		d := r.ExpFloat64() * 1e6 * float64(1+flow)
		delays = append(delays, d)
		if flow == 2 {
			ofFlow = append(ofFlow, d)
		}
		to.Add(flow, id, at+int64(d), 60)
	}
	block.flush()
	if err := from.Merge(other); err != nil {
		t.Fatal(err)
	}
	sent, err := Decode(encode(t, from), 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(encode(t, to), 0)
	if err != nil {
		t.Fatal(err)
	}
	d, err := Subtract(sent, got, AnyDelay())
	if err != nil {
		t.Fatal(err)
	}
	s := d.Delays()
	all := s.All()
	if n := float64(len(all)); math.Abs(n-60_000*0.99*s.Rate) > 7*math.Sqrt(60_000*s.Rate) || n < 200 || s.Lost > 60 {
		t.Errorf("%d samples at a rate of %g, %d lost", len(all), s.Rate, s.Lost)
	}
	for _, x := range []struct{ sample, truth []float64 }{{all, delays}, {s.Of(2), ofFlow}} {
		slices.Sort(x.truth)
		for _, q := range []float64{0.1, 0.5, 0.9, 0.99} {
			v := Quantile(x.sample, q, 1-1e-9)
			truth := x.truth[int(q*float64(len(x.truth)))]
			if v.Value < v.Low || v.Value > v.High || truth < v.Low-1 || truth > v.High+1 && !v.Open {
				t.Errorf("quantile %g of %d is %+v; the truth %g", q, len(x.sample), v, truth)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		for i := range uint64(64) {
			block.put(from, 0, r.Uint64(), int64(i), 60, 1)
		}
		block.flush()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	from.Begin(3)
	if len(from.samples.list) != 0 || from.samples.limit != 1<<32 {
		t.Error("samples of the interval before")
	}
}
