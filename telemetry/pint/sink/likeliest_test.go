package sink

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// likeliestOf is one for codes of a codec.
func likeliestOf(t testing.TB, config encode.CodecConfig) (*encode.Codec, *Likeliest) {
	t.Helper()
	codec, err := encode.NewCodec(config)
	if err != nil {
		t.Fatal(err)
	}
	return codec, NewLikeliest(codec)
}

// draw adds n samples of values.
func draw(r *rand.Rand, codec *encode.Codec, l *Likeliest, n int, value func() uint64) {
	for range n {
		round := r.Uint64N(encode.RoundOne)
		l.Add(codec.Encode(value(), round), round, 1)
	}
}

// TestLikeliestOfOne: of values that are all the same, a hundred samples leave less than a third of a step on either side, where codes alone leave all of it; in
// each place of the range, and with equal steps, too.
func TestLikeliestOfOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		config encode.CodecConfig
		step   float64 // of a value
		values []uint64
	}{
		{encode.CodecConfig{Bits: 4, Multiplicative: true, Min: 1000, Max: 1 << 16}, 0.348, []uint64{1000, 1500, 3000, 10_000, 20_000, 50_000}},
		{encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 1 << 16}, 0.0166, []uint64{1000, 1500, 3000, 10_000, 60_000}},
		{encode.CodecConfig{Bits: 6, Max: 1 << 16}, 0, []uint64{5000, 30_000, 40_000}},
	} {
		for _, v := range c.values {
			codec, l := likeliestOf(t, c.config)
			draw(r, codec, l, 100, func() uint64 { return v })
			l.Solve(100)
			step := c.step
			if step == 0 {
				step = 1024 / float64(v)
			}
			for _, rank := range []float64{0.1, 0.5, 0.9} {
				if got := l.Quantile(rank); math.Abs(math.Log(got/float64(v))) > step/3 {
					t.Errorf("%+v: %d is %.0f at rank %g", c.config, v, got, rank)
				}
			}
		}
	}
	for _, config := range []encode.CodecConfig{{Bits: 16, Max: 1 << 16}, {Bits: 12, Multiplicative: true, Min: 1000, Max: 1 << 16}, {Bits: 8, Max: 1 << 16, Wrap: true}} {
		if _, l := likeliestOf(t, config); l != nil {
			t.Errorf("%+v: not rounded at random, or too finely, and has a likeliest", config)
		}
	}
}

// TestLikeliestTwin: sums that move along the cells are those that are made anew for each, of random samples with weights.
func TestLikeliestTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for run := range 40 {
		codec, l := likeliestOf(t, encode.CodecConfig{Bits: 3 + run%6, Multiplicative: true, Min: 100, Max: 1 << 14})
		type interval struct {
			at     int
			weight float64
		}
		var all []interval
		for range 1 + r.IntN(60) {
			round, weight := r.Uint64N(encode.RoundOne), 1+r.Uint64N(5)
			code := codec.Encode(uint64(50*math.Exp(6*r.Float64())), round)
			l.Add(code, round, float64(weight))
			all = append(all, interval{l.cells*(int(code)+1) - int(math.Round(float64(l.cells)*float64(round)/encode.RoundOne)), float64(weight)})
		}
		l.Solve(uint64(len(all)))
		share := make([]float64, l.last-l.first)
		for i := range share {
			share[i] = 1 / float64(len(share))
		}
		before := math.Inf(-1)
		for range likeliestSteps {
			likelihood := 0.
			next := make([]float64, len(share))
			for _, x := range all {
				inside, sum := share[x.at-l.first:][:l.cells], 0.
				for _, s := range inside {
					sum += s
				}
				likelihood += x.weight / l.total * float64(len(all)) * math.Log(sum)
				for i, s := range inside {
					next[x.at-l.first+i] += x.weight / l.total * s / sum
				}
			}
			if likelihood < before+1 {
				break
			}
			share, before = next, likelihood
		}
		sum := 0.
		for i := range share {
			sum += share[i]
			if math.Abs(share[i]-l.share[i]) > 1e-9 {
				t.Fatalf("run %d, cell %d: %g, want %g", run, i, l.share[i], share[i])
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("run %d: shares are %g together", run, sum)
		}
		last := 0.
		for rank := 0.; rank <= 1; rank += 0.05 {
			q := l.Quantile(rank)
			if math.IsNaN(q) || q < last {
				t.Fatalf("run %d: %g at rank %g, and %g before", run, q, rank, last)
			}
			last = q
		}
	}
}
