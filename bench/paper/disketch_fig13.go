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

// What fig13 keeps beside the cells, the same for all systems, of a trace of the paper's size.
const (
	fig13Entries = 1024 // candidates for each level, at each edge switch
	fig13Heavy   = 1000 // heavy flows of each level that the answer uses
)

// disketchFig13 measures figure 13: the relative error of the entropy of all flows by
// UnivMon, in the fat tree with unequal memories. In the synthetic trace each
// flow has its own source address, so the entropy of the flows is that of these
// addresses. The ablation is of the traces and memories that it has elsewhere.
func disketchFig13(ctx context.Context, o Options) ([]Row, error) {
	tr, err := dsTreeTraffic(o)
	if err != nil {
		return nil, err
	}
	var t table
	t.describe("synthetic", tr)
	if o.Quick {
		if err := t.fig13(ctx, o, tr, "", []int{32, 128, 512}, 3); err != nil { // A capture does not shrink.
			return nil, err
		}
		err := t.fig13Ablation(ctx, o)
		return t, err
	}
	if err := t.fig13(ctx, o, tr, "", []int{16, 32, 64, 128, 256, 512}, 3); err != nil {
		return nil, err
	}
	if err := t.fig13Ablation(ctx, o); err != nil {
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
		for s := range seeds {
			o.progress(i*int(seeds)+int(s), len(sizes)*int(seeds), fmt.Sprintf("%s%d KB", prefix, kb))
			p, err := tr.entropies(ctx, kb<<10/o.dsShrink(), 1, o.Seed+s, false)
			if err != nil {
				return err
			}
			disco += math.Abs(p["disco.rows"]-exact) / exact / float64(seeds)
			sketch += math.Abs(p["autonomous.checked"]-exact) / exact / float64(seeds)
		}
		name := fmt.Sprintf("%sentropy.%dKB.", prefix, kb)
		t.add(name+"error.disco", "ratio", disco, fmt.Sprintf("mean of %d placements of memory", seeds), "neither")
		t.add(name+"error.disketch", "ratio", sketch, "Fig. 13 shows curves", "lower")
		t.against(name+"disco_over_disketch", "ratio", disco/sketch, 2, "DiSketch, Section 6.2", "higher")
		ratios = append(ratios, math.Log(disco/sketch))
	}
	t.against(prefix+"entropy.disco_over_disketch", "ratio", math.Exp(sample(ratios).mean()), 2, "DiSketch, Section 6.2; geometric mean over the sizes", "higher")
	return nil
}

// fig13Ablation adds the errors of all systems.
func (t *table) fig13Ablation(ctx context.Context, o Options) error {
	all, err := dsScenarios(o)
	if err != nil {
		return err
	}
	sizes := []int{16, 64, 256}
	for i := range all {
		s := &all[i]
		exact := s.traffic.entropy()
		t.add("ablation."+s.name+".entropy.exact", "bits", exact, s.traffic.trace, "neither")
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(all)*len(sizes), fmt.Sprintf("ablation, %s, %d KB", s.name, kb))
			errors := map[string]sample{}
			for p := range o.placements() {
				bits, err := s.traffic.entropies(ctx, kb<<10/s.shrink, s.shrink, o.Seed+uint64(p), true)
				if err != nil {
					return err
				}
				for name, x := range bits {
					errors[name] = append(errors[name], math.Abs(x-exact)/exact)
				}
			}
			name := fmt.Sprintf("ablation.%s.entropy.%dKB.error.", s.name, kb)
			for _, system := range dsSystems() {
				mean, half := errors[system.name].mean(), errors[system.name].half()
				t.within(name+system.name, "ratio", mean, half, fmt.Sprintf("%s; 95 %% of the mean of %d placements: %.3g to %.3g", system.source, o.placements(), max(mean-half, 0), mean+half), "lower")
			}
		}
	}
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

// entropies are the estimates of the systems, from the same candidates, of a trace that is so much smaller than the paper's: of DISCO and of the
// default alone, or of all.
func (t *dsTraffic) entropies(ctx context.Context, memory, shrink int, seed uint64, every bool) (map[string]float64, error) {
	memories := dsMemories(len(t.net.graph.Nodes), memory, true, seed)
	candidate, err := t.candidates(seed, fig13Entries/shrink)
	if err != nil {
		return nil, err
	}
	wanted := func(f *dsFlow) bool { return candidate[f.hash] }
	var p *dsPlaced
	if every {
		if p, err = t.placed(ctx, disketch.UnivMon, memories, seed, 1000, wanted, false); err != nil {
			return nil, err
		}
	} else {
		p = &dsPlaced{estimate: map[string][]float64{}}
		if p.estimate["disco.rows"], err = t.disco(disketch.UnivMon, memories, seed); err != nil {
			return nil, err
		}
		out, err := t.run(ctx, dsRun{kind: disketch.UnivMon, how: dsAutonomous, memory: memories, seed: seed, trials: 1000, wanted: wanted, ways: []disketch.Composition{disketch.Checked}})
		if err != nil {
			return nil, err
		}
		p.estimate["autonomous.checked"] = out.estimate[0]
	}
	all := map[string]float64{}
	for name, estimate := range p.estimate {
		var flows []univmon.Flow
		for i := range t.flows {
			if h := t.flows[i].hash; candidate[h] {
				flows = append(flows, univmon.Flow{Hash: h, Level: univmon.Level(univmon.Levels, dsLevelSeed(seed), h), Value: estimate[i]})
			}
		}
		all[name], _ = univmon.NewSample(fig13Heavy/shrink, flows).Entropy(float64(t.packets))
	}
	return all, nil
}

// candidates are the flows in the tables beside the fragments of the edge
// switches, where each flow enters the network.
func (t *dsTraffic) candidates(seed uint64, room int) (map[uint64]bool, error) {
	tables := map[uint64]*univmon.Candidates[struct{}]{}
	for _, e := range t.net.edge {
		c, err := univmon.NewCandidates[struct{}](univmon.Levels, room, hash.Uint64(seed, uint64(e)))
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
