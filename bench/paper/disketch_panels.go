package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// dsPanel is one of figure 12's curves: a sketch in a network, with a way to place memory.
type dsPanel struct {
	name          string // of its rows
	traffic       *dsTraffic
	shrink        int
	kind          disketch.Kind
	heterogeneous bool
	sizes         []int // mean memories of a switch, KB
}

// dsPanels are the twelve panels of figure 12, and those of the fat tree with unequal memories for a capture, if it is there. The main one, Count Sketch in the
// fat tree with unequal memories, has those sizes from which the memory follows that DiSketch needs for DISCO's error.
func dsPanels(o Options) (all []dsPanel, err error) {
	scenarios, err := dsScenarios(o)
	if err != nil {
		return nil, err
	}
	leaf, err := dsSpineLeaf()
	if err != nil {
		return nil, err
	}
	for _, s := range scenarios {
		if s.name == "bursty" {
			continue // The paper has none, and the ablation has all systems for it.
		}
		prefix, nets := "placed.", []*dsTraffic{s.traffic}
		if s.name == "synthetic" {
			tr, err := newDSTraffic(leaf, s.trace, o.Seed)
			if err != nil {
				return nil, err
			}
			nets = append(nets, tr)
		} else {
			prefix += s.name + "."
		}
		for _, tr := range nets {
			for _, scenario := range []string{"heterogeneous", "homogeneous"} {
				for _, k := range dsKinds {
					p := dsPanel{fmt.Sprintf("%s%s.%s.%s", prefix, tr.net.name, scenario, k.name), tr, s.shrink, k.kind, scenario == "heterogeneous", []int{512}}
					if p.heterogeneous && k.kind == disketch.CountSketch && tr.net.name == "fattree" {
						p.sizes = []int{32, 64, 128, 256, 512, 1024}
					}
					if s.name == "synthetic" || p.heterogeneous {
						all = append(all, p)
					}
				}
			}
		}
	}
	return all, nil
}

// disketchPanels repeats the panels of figure 12 with several placements of the memory, as the ablation does: a tenth of the synthetic trace on a tenth of the
// memory, a capture as it is, and some of the flows. So each row has its interval, which the whole figure would take hours for. Systems are those of the
// figure: disketch_rows is the paper's method, with a target that is searched for by the same composition, disketch composes records by the likeliest values, and disco_renewed is DISCO with new hash functions in each epoch.
func disketchPanels(ctx context.Context, o Options) ([]Row, error) {
	panels, err := dsPanels(o)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, p := range panels {
		total += len(p.sizes)
	}
	var t table
	done := 0
	for _, p := range panels {
		curves := make([]dsErrors, len(p.sizes))
		for i, kb := range p.sizes {
			o.progress(done, total, fmt.Sprintf("%s, %d KB", p.name, kb))
			done++
			if curves[i], err = p.errors(ctx, o, kb); err != nil {
				return nil, err
			}
			t.panel(o, fmt.Sprintf("%s.%dKB.", p.name, kb), curves[i])
		}
		if at := len(p.sizes) - 2; at > 0 { // 512 KB; the last one is for DISCO's error alone
			for _, system := range []string{"disketch_rows", "disketch"} {
				ratio := func(without int) float64 {
					c := make(curve, len(curves))
					for i := range curves {
						c[i] = math.Sqrt(curves[i][system].without(without).mean())
					}
					return memoryFor(p.sizes, c, math.Sqrt(curves[at]["disco"].without(without).mean())) / float64(p.sizes[at])
				}
				t.within(p.name+".memory_ratio."+system, "ratio", ratio(-1), jackknife(o.panelPlacements(), ratio), "memory for DISCO's error at 512 KB, over 512 KB; 95 % by the jackknife over placements", "lower")
			}
		}
	}
	return t, nil
}

// dsPanelSystems are the systems of a panel.
var dsPanelSystems = []struct{ name, source, better string }{
	{"aggregated", "a sketch of 5 rows on each core switch", "neither"},
	{"disco", "one row on each switch", "neither"},
	{"disco_renewed", "DISCO if it renewed its hash functions each epoch", "neither"},
	{"disketch_rows", "DiSketch by the paper's composition", "lower"},
	{"disketch", "DiSketch by the likeliest composition", "lower"},
}

// panelPlacements is how many placements of memory a panel has.
func (o Options) panelPlacements() int {
	if o.Quick {
		return 4
	}
	return 10
}

// errors are those of the systems, by placement.
func (p *dsPanel) errors(ctx context.Context, o Options, kb int) (dsErrors, error) {
	e := dsErrors{}
	tr, wanted := p.traffic, p.traffic.some(p.traffic.net.full)
	for i := range o.panelPlacements() {
		seed := o.Seed + uint64(i)
		memory := dsMemories(len(tr.net.graph.Nodes), kb<<10/p.shrink, p.heterogeneous, seed)
		aggregated, err := tr.aggregated(p.kind, memory, seed)
		if err != nil {
			return nil, err
		}
		disco, err := tr.disco(p.kind, memory, seed)
		if err != nil {
			return nil, err
		}
		run := dsRun{kind: p.kind, memory: memory, seed: seed, trials: 500, wanted: wanted, ways: []disketch.Composition{disketch.Rows, disketch.Likeliest}}
		outs, err := tr.divide(ctx, run, []dsDivision{{how: dsFixed}, {how: dsCentral}})
		if err != nil {
			return nil, err
		}
		run.search, run.ways = disketch.Rows, run.ways[:1]
		paper, err := tr.run(ctx, run) // dsCentral
		if err != nil {
			return nil, err
		}
		for j, estimate := range [][]float64{aggregated, disco, outs[0].estimate[0], paper.estimate[0], outs[1].estimate[1]} {
			name := dsPanelSystems[j].name
			e[name] = append(e[name], tr.squaresOf(estimate, wanted))
		}
	}
	return e, nil
}

// panel adds the rows of a panel with one memory.
func (t *table) panel(o Options, name string, e dsErrors) {
	for _, s := range dsPanelSystems {
		low, high := e.interval(s.name)
		t.within(name+"rmse."+s.name, "packets", e.rmse(s.name), (high-low)/2, fmt.Sprintf("%s; 95 %% of %d placements: %.4g to %.4g", s.source, o.panelPlacements(), low, high), s.better)
	}
	t.addRatio(name+"disco_over_disketch_rows", e, "disco", "disketch_rows", "the paper's composition", "higher")
	t.addRatio(name+"disco_over_disketch", e, "disco", "disketch", "the likeliest composition", "higher")
	t.addRatio(name+"aggregated_over_disketch_rows", e, "aggregated", "disketch_rows", "the paper's composition", "higher")
	t.addRatio(name+"disco_renewed_over_disketch_rows", e, "disco_renewed", "disketch_rows", "what is left when DISCO renews its hash functions", "higher")
}

// without is s but for its i-th value; all of s if i is negative.
func (s sample) without(i int) sample {
	if i < 0 {
		return s
	}
	return append(append(make(sample, 0, len(s)), s[:i]...), s[i+1:]...)
}

// jackknife is half of the 95 % confidence interval of a function of n things, from its values without each of them (Tukey, 1958):
//
//	t(n-1) sqrt((n-1)/n sum (f_i - mean f)²)
func jackknife(n int, f func(without int) float64) float64 {
	values := make(sample, n)
	for i := range values {
		values[i] = f(i)
	}
	return float64(n-1) * values.half()
}
