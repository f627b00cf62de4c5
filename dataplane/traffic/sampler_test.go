package traffic

import (
	"math"
	"testing"
)

// masses gives the exact probability that a table gives each flow.
func masses(columns []column, flows int) []float64 {
	p := make([]float64, flows)
	add := func(b bucket, mass float64) {
		for f := b.base; f < b.base+b.width; f++ {
			p[f] += mass / float64(b.width)
		}
	}
	each := 1 / float64(len(columns))
	for _, c := range columns {
		own := float64(c.threshold) / (1 << 32)
		add(c.own, each*own)
		add(c.alias, each*(1-own))
	}
	return p
}

func TestZipfTable(t *testing.T) {
	for _, c := range []struct {
		flows    int
		exponent float64
	}{{1, 1}, {2, 0.5}, {1000, 1}, {4097, 1.2}, {1_000_000, 0.8}, {1_000_000, 1.3}, {300_000, 4}} {
		columns := zipfColumns(c.flows, c.exponent)
		if len(columns) > 16384 {
			t.Errorf("%d flows: %d columns do not fit a cache", c.flows, len(columns))
		}
		sum := 0.0
		for f := range c.flows {
			sum += math.Pow(float64(f+1), -c.exponent)
		}
		allowed := c.exponent/bucketsPerE*1.5 + 1e-4 // the rest is the 32-bit threshold
		for f, got := range masses(columns, c.flows) {
			want := math.Pow(float64(f+1), -c.exponent) / sum
			// A threshold is off by up to 2^-32 of a column.
			if math.Abs(got-want) > want*allowed+1/(float64(len(columns))*(1<<31)) {
				t.Fatalf("%d flows, exponent %v: flow %d has probability %v, want %v", c.flows, c.exponent, f, got, want)
			}
		}
	}
}

// The draws follow the table: each flow's count is within six standard deviations, which
// fails with a probability below 10^-6 over all flows, and the seed is fixed.
func TestDrawFollowsOrder(t *testing.T) {
	const draws = 500_000
	for name, w := range map[string]Workload{
		"uniform":     with(func(w *Workload) { w.Flows = 200 }),
		"zipf":        with(func(w *Workload) { w.Flows, w.Order, w.Exponent = 200, Zipf, 1 }),
		"round-robin": with(func(w *Workload) { w.Flows, w.Order = 200, RoundRobin }),
	} {
		d := newDrawer(w)
		expected := make([]float64, w.Flows)
		for f := range expected {
			expected[f] = 1 / float64(w.Flows)
		}
		if w.Order == Zipf {
			expected = masses(d.columns, w.Flows)
		}
		count := make([]float64, w.Flows)
		for seq := range uint64(draws) {
			count[d.flow(seq)]++
		}
		for f, p := range expected {
			if sigma := math.Sqrt(draws * p * (1 - p)); math.Abs(count[f]-draws*p) > 6*sigma {
				t.Errorf("%s: flow %d drawn %v times, want %v ± %v", name, f, count[f], draws*p, sigma)
			}
		}
	}
}

func TestDrawReachesTheTail(t *testing.T) {
	w := with(func(w *Workload) { w.Flows, w.Order, w.Exponent = MaxFlows, Zipf, 0.6 })
	d := newDrawer(w)
	seen, highest := map[uint32]bool{}, uint32(0)
	for seq := range uint64(100_000) {
		f := d.flow(seq)
		if f >= MaxFlows {
			t.Fatalf("flow %d of %d", f, MaxFlows)
		}
		seen[f], highest = true, max(highest, f)
	}
	// Half of the mass of this law is beyond rank 1.7 million, so draws hardly repeat.
	if len(seen) < 80_000 || highest < 9_900_000 {
		t.Errorf("%d different flows, the highest %d", len(seen), highest)
	}
}

func BenchmarkDraw(b *testing.B) {
	for name, w := range map[string]Workload{
		"uniform-10M": with(func(w *Workload) { w.Flows = MaxFlows }),
		"zipf-10M":    with(func(w *Workload) { w.Flows, w.Order, w.Exponent = MaxFlows, Zipf, 1 }),
	} {
		d := newDrawer(w)
		b.Run(name, func(b *testing.B) {
			seq, sum := uint64(0), uint32(0)
			for b.Loop() {
				sum += d.flow(seq)
				seq++
			}
			_ = sum
		})
	}
}
