package paper

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

func TestGroupedMedian(t *testing.T) {
	for _, c := range []struct {
		s    sample
		want float64
	}{
		{sample{7}, 7},
		{sample{7, 7, 7, 7}, 7},
		{sample{6, 7}, 6.5},
		{sample{6, 6, 7}, 6.25},
		{sample{5, 6, 6, 7}, 6},
		{sample{5, 6, 6, 6, 7, 8}, 5.5 + 2./3},
		{sample{1, 2, 3, 3, 3, 3, 50}, 2.5 + 1.5/4},
	} {
		if got := c.s.groupedMedian(); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("the grouped median of %v is %v, want %v", c.s, got, c.want)
		}
	}
}

// TestCRCRunsSuffice: the standard errors of the ratios of a quick run are such that luck alone does
// not take them 3 % from 1. It draws quick runs anew from a thousand of xxhash (the bootstrap),
// whose estimate of a standard error is itself off by a standard deviation of about a tenth. So it
// asks for 0.6 %; the seed is fixed, so a pass is one for ever.
func TestCRCRunsSuffice(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	const runs, draws = 1000, 60
	for _, s := range crcSchemes {
		for j, k := range crcLengths {
			packets, err := s.packets(context.Background(), Options{Seed: 5}, hash.XX, k, runs)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(5, uint64(k)))
			var means, medians [draws]float64
			for i := range draws {
				means[i], medians[i] = redraw(packets, r, s.runs[j])
			}
			for what, x := range map[string][]float64{"mean": means[:], "median": medians[:]} {
				deviation := math.Sqrt2 * relativeDeviation(x) // of two families
				t.Logf("%s%s of %d hops: %.3f %%", s.prefix(), what, k, 100*deviation)
				if deviation > 0.006 {
					t.Errorf("%s%s of %d hops: the standard error of the ratio is %.2f %%, want 0.52 %%", s.prefix(), what, k, 100*deviation)
				}
			}
		}
	}
}

// redraw draws n of the sample with replacement.
func redraw(from sample, r *rand.Rand, n int) (mean, median float64) {
	drawn := make(sample, 0, n)
	times := make([]int, len(from))
	for range n {
		times[r.IntN(len(from))]++
	}
	for i, n := range times {
		for range n {
			drawn = append(drawn, from[i])
		}
	}
	return drawn.mean(), drawn.groupedMedian()
}

// relativeDeviation is the standard deviation over the mean.
func relativeDeviation(x []float64) float64 {
	mean, squares := sample(x).mean(), 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares/float64(len(x)-1)) / mean
}
