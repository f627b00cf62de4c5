package paper

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/telemetry/pint"
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
	cost := wholeCost(ctx, o, peeling)
	start, err := cost(layersOf(make([]float64, 3)))
	if err != nil {
		t.Fatal(err)
	}
	layers, found, err := LayerSearch(ctx, o, 1, 40, cost)
	if err != nil || found >= start || math.IsInf(found, 0) {
		t.Fatalf("the search goes from %v to %v, %v", start, found, err)
	}
	if _, err := pint.NewStatic(pint.StaticConfig{Bits: 8, ValueBits: 8, Layers: layers}); err != nil {
		t.Error(err)
	}
}

// BenchmarkLayerSearch finds the layers of this package again:
//
//	go test -run - -bench LayerSearch -benchtime 1x -v ./bench/paper
func BenchmarkLayerSearch(b *testing.B) {
	ctx, o := context.Background(), Options{Seed: 1, Data: dataDir(b)}
	networks, err := fig10Networks(o)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		xors int
		cost func([]pint.Layer) (float64, error)
	}{
		{"peeling", 3, wholeCost(ctx, o, peeling)},
		{"elimination", 2, wholeCost(ctx, o, elimination)},
		{"hashed", 3, hashedCost(ctx, o, networks[0])},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				layers, cost, err := LayerSearch(ctx, o, c.xors, 120, c.cost)
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
	o := Options{Seed: 1, Data: dataDir(b)}
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
					c.Layers, c.ValueBits = pint.Interleaved(tau, p), n.valueBits()
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
