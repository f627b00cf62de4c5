package paper

import (
	"context"
	"math/rand/v2"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
)

// pintK2 measures the example of section 4.2: two hops, whole values. Baseline
// takes 3 packets on average, and interleaved with an XOR of both 8/3.
func pintK2(ctx context.Context, o Options) ([]Row, error) {
	var t table
	for i, c := range []struct {
		metric string
		layers []pint.Layer
		paper  float64
	}{
		{"baseline.mean", encode.Baseline(), 3},
		{"interleaved.mean", encode.Interleaved(0.5, 1), 8.0 / 3},
	} {
		o.progress(i, 2, c.metric)
		packets, err := wholeTrials(ctx, o, "k2."+c.metric, 2, c.layers, pintpath.NewPeeling, o.runs(200000))
		if err != nil {
			return nil, err
		}
		t.against(c.metric, "packets", packets.mean(), c.paper, "PINT section 4.2", "lower")
	}
	return t, nil
}

// peeling and elimination make the solvers for whole values.

// wholeTrials counts packets until a path of k random values is known, where
// a digest has room for a whole value, as in figure 5.
func wholeTrials(ctx context.Context, o Options, name string, k int, layers []pint.Layer, solver func(*encode.Static) pintpath.Solver, n int) (sample, error) {
	return codedTrials(ctx, o, name, k, encode.StaticConfig{
		Bits: wholeBits, ValueBits: wholeBits, Layers: layers, Values: pint.Whole,
	}, solver, n)
}

// wholeBits is the width of value and digest where values are written whole.
// It does not change how many packets the schemes take.
const wholeBits = 16

func codedTrials(ctx context.Context, o Options, name string, k int, c encode.StaticConfig, solver func(*encode.Static) pintpath.Solver, n int) (sample, error) {
	c.Seed = o.Seed
	s, err := encode.NewStatic(c)
	if err != nil {
		return nil, err
	}
	return trials(ctx, o, name, n, func() (trial, error) {
		values := make([]uint64, k)
		return decodeTrial(s, solver(s), func(r *rand.Rand) []uint64 {
			for i := range values {
				values[i] = r.Uint64() & (1<<c.ValueBits - 1)
			}
			return values
		}, 100*k+1000), nil
	})
}
