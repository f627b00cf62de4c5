package paper

import (
	"context"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
)

// pintFig5 measures figure 5: packets until a path of k = d = 25 hops is known
// whose values fit the digest. The paper's schemes are decoded by peeling, as
// there.
//
// Our best scheme was found in three steps. Optimising the layers for the
// peeling decoder (BenchmarkLayerSearch) gives the rows layers.*, little better than
// Algorithm 1. For elimination the same search has no use for Baseline, and ends
// at one XOR layer of probability 0.3 or more: linear network coding, which
// needs 1.6 packets over k on average. What it still loses it loses because
// coefficients are 0 or 1; with a random matrix over GF(2) as each hop's
// coefficient (pint.Linear), and all hops in every packet, it is 0.7 packets.
func pintFig5(ctx context.Context, o Options) ([]Row, error) {
	const k, d = 25, 25
	linear := encode.StaticConfig{Bits: wholeBits, ValueBits: wholeBits, Layers: encode.Dense(pint.Linear), Values: pint.Linear}
	var t table
	schemes := []struct {
		name        string
		layers      []pint.Layer
		solver      func(*encode.Static) pintpath.Solver
		median, p99 float64 // of the paper, 0: not given
		source      string
	}{
		{"baseline", encode.Baseline(), pintpath.NewPeeling, 89, 189, "PINT Fig. 5"},
		{"xor", encode.XOR(1.0 / d), pintpath.NewPeeling, 0, 0, "p = 1/d, Fig. 5 shows a curve"},
		{"hybrid", encode.Hybrid(d), pintpath.NewPeeling, 41, 68, "PINT Fig. 5, tau = 3/4, p = ln ln d / ln d"},
		{"hybrid_log2", encode.HybridBinary(d), pintpath.NewPeeling, 41, 68, "the same with binary logarithms"},
		{"hybrid_eliminated", encode.Hybrid(d), pintpath.NewElimination, 41, 68, "the paper's layers, decoded by elimination"},
		{"multilayer", encode.MultiLayer(d), pintpath.NewPeeling, 0, 0, "Algorithm 1"},
		{"multilayer_revised", encode.MultiLayerRevised(d), pintpath.NewPeeling, 0, 0, "Algorithm 1 with the tau of A.3"},
		{"layers", searchedPeeling25, pintpath.NewPeeling, 0, 0, "best layers found for peeling (LayerSearch)"},
		{"lnc", encode.Dense(pint.Whole), pintpath.NewElimination, 0, 0, "linear network coding, p = 1/2"},
		{"best", nil, pintpath.NewElimination, 0, 0, "one layer of random matrices, elimination"},
	}
	for i, c := range schemes {
		o.progress(i, len(schemes)+3, c.name)
		var packets sample
		var err error
		if c.layers == nil {
			packets, err = codedTrials(ctx, o, "fig5.best", k, linear, pintpath.NewElimination, o.runs(10000))
		} else {
			packets, err = wholeTrials(ctx, o, "fig5."+c.name, k, c.layers, c.solver, o.runs(100000))
		}
		if err != nil {
			return nil, err
		}
		if c.median > 0 {
			t.against(c.name+".median", "packets", packets.quantile(0.5), c.median, c.source, "lower")
			t.against(c.name+".p99", "packets", packets.quantile(0.99), c.p99, c.source, "lower")
			continue
		}
		t.add(c.name+".median", "packets", packets.quantile(0.5), c.source, "lower")
		t.add(c.name+".p99", "packets", packets.quantile(0.99), c.source, "lower")
	}
	// The best scheme knows no d; other lengths show that it needs none.
	for i, length := range []int{5, 50} {
		o.progress(len(schemes)+i, len(schemes)+3, "other lengths")
		packets, err := codedTrials(ctx, o, "fig5.best.other", length, linear, pintpath.NewElimination, o.runs(2000))
		if err != nil {
			return nil, err
		}
		name := map[int]string{5: "best.k5.median", 50: "best.k50.median"}[length]
		t.add(name, "packets", packets.quantile(0.5), "the same plan on a path of another length", "lower")
	}
	return t, nil
}

// searchedPeeling25 are the layers that BenchmarkLayerSearch found for the peeling decoder.
var searchedPeeling25 = []pint.Layer{{Share: 0.33}, {Share: 0.12, P: 0.095}, {Share: 0.35, P: 0.157}, {Share: 0.20, P: 0.298}}
