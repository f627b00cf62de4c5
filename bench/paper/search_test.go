package paper

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
)

// dataDir finds the shared data from a test's folder, or skips.
func dataDir(t testing.TB) string {
	for _, dir := range []string{netsim.DataDir(), filepath.Join("..", "..", netsim.DataDir())} {
		if _, err := os.Stat(filepath.Join(dir, "topologies")); err == nil {
			return dir
		}
	}
	t.Skip("no topologies: set WEIR_SHARED")
	return ""
}

// TestLayerSearch: a short search must find something better than its start,
// and always layers that are a scheme.
func TestLayerSearch(t *testing.T) {
	ctx, o := context.Background(), Options{Seed: 3, Quick: true}
	cost := wholeCost(ctx, o, pintpath.NewPeeling)
	start, err := cost(layersOf(make([]float64, 3)))
	if err != nil {
		t.Fatal(err)
	}
	layers, found, err := layerSearch(ctx, o, 1, 40, cost)
	if err != nil || found >= start || math.IsInf(found, 0) {
		t.Fatalf("the search goes from %v to %v, %v", start, found, err)
	}
	if _, err := encode.NewStatic(encode.StaticConfig{Bits: 8, ValueBits: 8, Layers: layers}); err != nil {
		t.Error(err)
	}
}

// BenchmarkLayerSearch finds the layers of this package again:
//
//	go test -run - -bench LayerSearch -benchtime 1x -v ./bench/paper
func BenchmarkLayerSearch(b *testing.B) {
	ctx, o, steps := context.Background(), Options{Seed: 1, Data: dataDir(b)}, 120
	if testing.Short() {
		o.Quick, steps = true, 2
	}
	networks, err := fig10Networks(o)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		xors int
		cost func([]pint.Layer) (float64, error)
	}{
		{"pintpath.NewPeeling", 3, wholeCost(ctx, o, pintpath.NewPeeling)},
		{"pintpath.NewElimination", 2, wholeCost(ctx, o, pintpath.NewElimination)},
		{"hashed", 3, hashedCost(ctx, o, networks[0])},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				layers, cost, err := layerSearch(ctx, o, c.xors, steps, c.cost)
				if err != nil {
					b.Fatal(err)
				}
				b.Logf("%.3v", layers)
				b.ReportMetric(cost, "packets")
			}
		})
	}
}

// BenchmarkLinkShare tries shares of Baseline and probabilities of XOR for the
// decoder that knows the links, on the longest paths.
func BenchmarkLinkShare(b *testing.B) {
	o := Options{Seed: 1, Data: dataDir(b), Quick: testing.Short()}
	networks, err := fig10Networks(o)
	if err != nil {
		b.Fatal(err)
	}
	n := networks[0]
	for _, tau := range []float64{0.5, 0.6, 0.65, 0.7, 0.8} {
		for _, p := range []float64{0.5, 1} {
			b.Run(fmt.Sprintf("tau%v/p%v", tau, p), func(b *testing.B) {
				for b.Loop() {
					c := linkPlan(8, 2)
					c.Layers, c.ValueBits = encode.Interleaved(tau, p), n.valueBits()
					packets, err := n.trials(context.Background(), o, "share", c, n.walks, n.longest(), 300)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportMetric(packets.mean(), "packets")
					b.ReportMetric(packets.quantile(0.99), "p99")
				}
			})
		}
	}
}

// wholeCost is the sum of median and 99th percentile for k = d = 25, whole
// values and the given decoder.
func wholeCost(ctx context.Context, o Options, solver func(*encode.Static) pintpath.Solver) func([]pint.Layer) (float64, error) {
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
		packets, err := n.trials(ctx, o, "search.hashed", hashedPlan(8, 2, layers), n.candidates, n.longest(), o.runs(200))
		if err != nil {
			return math.Inf(1), ctx.Err()
		}
		return packets.mean() + packets.quantile(0.95), nil
	}
}

// layerSearch looks for layers with which a decoder needs few packets: an
// evolution strategy, (1+1) with a step that shrinks while nothing improves,
// over the shares and probabilities of one Baseline layer and n XOR layers.
// cost measures layers; every candidate meets the same randomness, so that
// differences are not noise. It is how the layers in this package were found.
func layerSearch(ctx context.Context, o Options, n, steps int, cost func([]pint.Layer) (float64, error)) ([]pint.Layer, float64, error) {
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
