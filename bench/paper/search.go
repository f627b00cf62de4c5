package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
)

// SearchedPeeling25 are the layers that LayerSearch found with wholeCost
// for the peeling decoder.
var SearchedPeeling25 = []pint.Layer{{Share: 0.33}, {Share: 0.12, P: 0.095}, {Share: 0.35, P: 0.157}, {Share: 0.20, P: 0.298}}

// SearchedHashed are the layers that LayerSearch found with hashedCost, for
// paths of 59 hops; for others the probabilities scale with 1/d.
func SearchedHashed(d int) []pint.Layer {
	p := func(n float64) float64 { return min(1, n/float64(d)) }
	return []pint.Layer{{Share: 0.434}, {Share: 0.474, P: p(4)}, {Share: 0.050, P: p(12)}, {Share: 0.042, P: p(30)}}
}

// wholeCost is the sum of median and 99th percentile for k = d = 25, whole
// values and the given decoder.
func wholeCost(ctx context.Context, o Options, solver func(*pint.Static) pint.Solver) func([]pint.Layer) (float64, error) {
	return func(layers []pint.Layer) (float64, error) {
		packets, err := wholeTrials(ctx, o, "search.whole", 25, layers, solver, o.runs(3000))
		if err != nil {
			return math.Inf(1), ctx.Err() // layers that never decode cost most
		}
		return packets.quantile(0.5) + packets.quantile(0.99) + packets.mean()/100, nil
	}
}

// hashedCost is the sum of mean and 95th percentile for the longest paths of a
// network, the paper's value hashes in 2x8 bits, and the joint decoder.
func hashedCost(ctx context.Context, o Options, n *network) func([]pint.Layer) (float64, error) {
	return func(layers []pint.Layer) (float64, error) {
		packets, err := n.trials(ctx, o, "search.hashed", hashedPlan(layers), n.candidates, n.longest(), o.runs(200))
		if err != nil {
			return math.Inf(1), ctx.Err()
		}
		return packets.mean() + packets.quantile(0.95), nil
	}
}

// LayerSearch looks for layers with which a decoder needs few packets: an
// evolution strategy, (1+1) with a step that shrinks while nothing improves,
// over the shares and probabilities of one Baseline layer and n XOR layers.
// cost measures layers; every candidate meets the same randomness, so that
// differences are not noise. It is how the layers in this package were found.
func LayerSearch(ctx context.Context, o Options, n, steps int, cost func([]pint.Layer) (float64, error)) ([]pint.Layer, float64, error) {
	r := rand.New(rand.NewPCG(o.Seed, 1))
	// genes: n+1 logarithms of shares, n logits of probabilities.
	genes := make([]float64, 2*n+1)
	for i := range n {
		genes[n+1+i] = -2 + 2*float64(i)/float64(n)
	}
	best, err := cost(layersOf(genes))
	if err != nil {
		return nil, 0, err
	}
	step := 0.6
	for i := range steps {
		o.progress(i, steps, fmt.Sprintf("layers that cost %.2f", best))
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		next := slices.Clone(genes)
		for j := range next {
			next[j] += step * r.NormFloat64()
		}
		c, err := cost(layersOf(next))
		if err != nil {
			return nil, 0, err
		}
		if c <= best {
			genes, best, step = next, c, step*1.3
		} else {
			step = max(0.02, step*0.95)
		}
	}
	return layersOf(genes), best, nil
}

// layersOf turns genes into layers.
func layersOf(genes []float64) []pint.Layer {
	n := len(genes) / 2
	layers := make([]pint.Layer, n+1)
	sum := 0.0
	for i := range layers {
		layers[i].Share = math.Exp(genes[i])
		sum += layers[i].Share
	}
	for i := range layers {
		layers[i].Share /= sum
		if i > 0 {
			layers[i].P = 1 / (1 + math.Exp(-genes[n+i]))
		}
	}
	return layers
}
