package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/topk"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// What fig13 keeps beside the cells, the same for both systems.
const (
	fig13Entries = 1024 // candidates for each level, at each edge switch
	fig13Heavy   = 1000 // heavy flows of each level that the answer uses
)

// disketchFig13 measures figure 13: the relative error of the entropy of all flows by
// UnivMon, in the fat tree with unequal memories. In the synthetic trace each
// flow has its own source address, so the entropy of the flows is that of these
// addresses.
func disketchFig13(ctx context.Context, o Options) ([]Row, error) {
	tr, err := dsTreeTraffic(o)
	if err != nil {
		return nil, err
	}
	var t table
	t.describe("synthetic", tr)
	if o.Quick {
		err := t.fig13(ctx, o, tr, "", []int{32, 128, 512}, 3)
		return t, err // A capture does not shrink.
	}
	if err := t.fig13(ctx, o, tr, "", []int{16, 32, 64, 128, 256, 512}, 3); err != nil {
		return nil, err
	}
	if tr, err = dsRealmixTraffic(o); err != nil || tr == nil {
		return t, err
	}
	t.describe("realmix", tr)
	err = t.fig13(ctx, o, tr, "realmix.", []int{16, 64, 256}, 1)
	return t, err
}

// fig13 adds the rows of a trace, over several placements of the memories.
func (t *table) fig13(ctx context.Context, o Options, tr *dsTraffic, prefix string, sizes []int, seeds uint64) error {
	exact := tr.entropy()
	t.add(prefix+"entropy.exact", "bits", exact, "of the flows' packets", "neither")
	var ratios []float64
	for i, kb := range sizes {
		var disco, sketch float64
		systems := map[string]sample{}
		for s := range seeds {
			o.progress(i*int(seeds)+int(s), len(sizes)*int(seeds), fmt.Sprintf("%s%d KB", prefix, kb))
			a, b, all, err := tr.entropies(ctx, o, kb<<10/o.dsShrink(), o.Seed+s)
			if err != nil {
				return err
			}
			for name, bits := range all {
				systems[name] = append(systems[name], math.Abs(bits-exact)/exact)
			}
			disco += math.Abs(a-exact) / exact / float64(seeds)
			sketch += math.Abs(b-exact) / exact / float64(seeds)
		}
		name := fmt.Sprintf("%sentropy.%dKB.", prefix, kb)
		t.add(name+"error.disco", "ratio", disco, fmt.Sprintf("mean of %d placements of memory", seeds), "neither")
		t.add(name+"error.disketch", "ratio", sketch, "Fig. 13 shows curves", "lower")
		for _, how := range dsDivisions {
			for _, d := range dsDecoders {
				system := how.name + "." + d.name
				t.add(name+"error."+system, "ratio", systems[system].mean(), fmt.Sprintf("mean of %d placements of memory", seeds), "lower")
			}
		}
		t.against(name+"disco_over_disketch", "ratio", disco/sketch, 2, "DiSketch, Section 6.2", "higher")
		ratios = append(ratios, math.Log(disco/sketch))
	}
	t.against(prefix+"entropy.disco_over_disketch", "ratio", math.Exp(sample(ratios).mean()), 2, "DiSketch, Section 6.2; geometric mean over the sizes", "higher")
	return nil
}

// entropy of the flows' packets, exact.
func (t *dsTraffic) entropy() float64 {
	sum, total := 0.0, float64(t.packets)
	for i := range t.flows {
		if n := t.flows[i].packets; n > 0 {
			sum += n * math.Log2(n)
		}
	}
	return math.Log2(total) - sum/total
}

// entropies are the estimates of DISCO and of DiSketch, from the same candidates.
func (t *dsTraffic) entropies(ctx context.Context, o Options, memory int, seed uint64) (disco, sketch float64, all map[string]float64, err error) {
	memories := dsMemories(len(t.net.graph.Nodes), memory, true, seed)
	candidate, err := t.candidates(seed)
	if err != nil {
		return 0, 0, nil, err
	}
	x, err := t.disco(disketch.UnivMon, memories, seed)
	if err != nil {
		return 0, 0, nil, err
	}
	entropy := func(estimate []float64) float64 {
		var flows []univmon.Flow
		for i := range t.flows {
			if h := t.flows[i].hash; candidate[h] {
				flows = append(flows, univmon.Flow{Hash: h, Level: univmon.Level(univmon.Levels, dsLevelSeed(seed), h), Value: estimate[i]})
			}
		}
		bits, _ := univmon.NewSample(fig13Heavy, flows).Entropy(float64(t.packets))
		return bits
	}
	all = map[string]float64{}
	run := dsRun{kind: disketch.UnivMon, memory: memories, seed: seed, trials: 1000, wanted: func(f *dsFlow) bool { return candidate[f.hash] }}
	for _, d := range dsDecoders {
		run.ways = append(run.ways, d.how)
	}
	outs, err := t.divide(ctx, run, dsDivided())
	if err != nil {
		return 0, 0, nil, err
	}
	for k, out := range outs {
		for i, d := range dsDecoders {
			all[dsDivisions[k].name+"."+d.name] = entropy(out.estimate[i])
		}
	}
	return entropy(x), all["autonomous.checked"], all, nil
}

// candidates are the flows in the tables beside the fragments of the edge
// switches, where each flow enters the network.
func (t *dsTraffic) candidates(seed uint64) (map[uint64]bool, error) {
	tables := map[uint64]*univmon.Candidates[struct{}]{}
	for _, e := range t.net.edge {
		c, err := univmon.NewCandidates[struct{}](univmon.Levels, fig13Entries, hash.Uint64(seed, uint64(e)))
		if err != nil {
			return nil, err
		}
		tables[uint64(e)] = c
	}
	for e := range t.at {
		for _, node := range t.net.edge {
			for _, p := range t.at[e][node] {
				if f := &t.flows[p.flow]; f.path[0] == uint64(node) {
					tables[uint64(node)].Offer(univmon.Level(univmon.Levels, dsLevelSeed(seed), f.hash), f.hash, &struct{}{}, 1)
				}
			}
		}
	}
	found := map[uint64]bool{}
	var entries []topk.Entry[struct{}]
	for _, c := range tables {
		entries = c.AppendEntries(entries[:0])
		for _, e := range entries {
			found[e.Hash] = true
		}
	}
	return found, nil
}
