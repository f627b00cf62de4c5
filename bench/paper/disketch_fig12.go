package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
)

// disketchFig12 measures figure 12: errors of frequencies against memory, of flows with full-length
// paths, by each sketch in four networks: fat tree and spine-leaf, with
// equal and with unequal memories.
//
// Next to the paper's systems is what its parts contribute: DISCO with hash
// functions renewed each epoch, and DiSketch read by the paper's composition (rows) instead
// of ours. The rows that are compared are those of the Count Sketch in the fat tree
// with unequal memories; there memory is placed several times.
func disketchFig12(ctx context.Context, o Options) ([]Row, error) {
	synthetic, err := dsSynthetic(o)
	if err != nil {
		return nil, err
	}
	realmix, err := dsRealmix(o)
	if err != nil {
		return nil, err
	}
	f := &fig12{ctx: ctx, o: o}
	tree, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	leaf, err := dsSpineLeaf()
	if err != nil {
		return nil, err
	}
	f.total = 5*len(dsKinds)*len(f.sizes(false)) + 2*(len(f.sizes(true))-len(f.sizes(false)))
	for _, net := range []*dsNetwork{tree, leaf} {
		tr, err := newDSTraffic(net, synthetic, o.Seed)
		if err != nil {
			return nil, err
		}
		if net == tree {
			f.rows.describe("synthetic", tr)
		}
		for _, heterogeneous := range []bool{true, false} {
			if err := f.panels("", tr, heterogeneous, o.dsShrink()); err != nil {
				return nil, err
			}
		}
	}
	return f.realmix(tree, realmix)
}

// realmix adds the panels of the fat tree with unequal memories for a capture.
func (f *fig12) realmix(tree *dsNetwork, capture *workload.Trace) ([]Row, error) {
	if capture == nil {
		f.o.progress(f.done, f.total, "realmix is not there: see --data")
		err := f.rows.ablations(f.ctx, f.o)
		return f.rows, err
	}
	tr, err := newDSTraffic(tree, capture, f.o.Seed)
	if err != nil {
		return nil, err
	}
	f.rows.describe("realmix", tr)
	if err := f.panels("realmix.", tr, true, 1); err != nil {
		return nil, err
	}
	err = f.rows.ablations(f.ctx, f.o)
	return f.rows, err
}

// dsMemorySizes are mean memories of a switch in KB.
var dsMemorySizes = []int{8, 16, 32, 64, 128, 256, 512, 1024}

// sizes are the mean memories of a switch in KB.
func (f *fig12) sizes(main bool) []int {
	switch {
	case f.o.Quick && !main:
		return []int{8, 512}
	case f.o.Quick:
		return []int{8, 64, 512}
	case !main:
		return []int{8, 128, 512}
	}
	return dsMemorySizes
}

type fig12 struct {
	ctx         context.Context
	o           Options
	rows        table
	done, total int
}

// curve is the root mean squared errors of a system by memory size.
type curve []float64

// panelCurves are those of one panel.
type panelCurves struct {
	aggregated, disco, renewed, composed, disketch curve
	converged                                      int
}

// panels are those of one network: one for each sketch.
func (f *fig12) panels(prefix string, tr *dsTraffic, heterogeneous bool, shrink int) error {
	scenario := "homogeneous"
	if heterogeneous {
		scenario = "heterogeneous"
	}
	for _, k := range dsKinds {
		if f.o.Quick && prefix != "" && k.kind != disketch.CountSketch {
			continue // A capture does not shrink.
		}
		main := heterogeneous && k.kind == disketch.CountSketch && tr.net.name == "fattree"
		placements := 1
		if main && !f.o.Quick && prefix == "" {
			placements = 2
		}
		sizes := f.sizes(main)
		var p panelCurves
		for _, kb := range sizes {
			f.o.progress(f.done, f.total, fmt.Sprintf("%s%s, %s, %s, %d KB", prefix, tr.net.name, scenario, k.name, kb))
			if err := f.point(&p, tr, k.kind, kb<<10/shrink, heterogeneous, placements, main); err != nil {
				return err
			}
			f.done++
			i := len(p.disco) - 1
			name := fmt.Sprintf("%s%s.%s.%s.%dKB.rmse.", prefix, tr.net.name, scenario, k.name, kb)
			f.rows.add(name+"aggregated", "packets", p.aggregated[i], "a sketch of 5 rows on each core switch", "neither")
			f.rows.add(name+"disco", "packets", p.disco[i], "one row on each switch", "neither")
			f.rows.add(name+"disketch", "packets", p.disketch[i], "Fig. 12 shows curves", "lower")
			if main {
				f.rows.add(name+"disco_renewed", "packets", p.renewed[i], "DISCO if it renewed its hash functions each epoch", "neither")
				f.rows.add(name+"disketch_rows", "packets", p.composed[i], "DiSketch by the paper's composition", "lower")
			}
		}
		if main {
			f.compare(prefix, sizes, &p)
		}
	}
	return nil
}

// point adds one memory size to the curves: the root of the mean over placements.
func (f *fig12) point(p *panelCurves, tr *dsTraffic, kind disketch.Kind, memory int, heterogeneous bool, placements int, main bool) error {
	var aggregated, disco, renewed, composed, sum float64
	full := tr.net.full
	for i := range placements {
		seed := f.o.Seed + uint64(i)
		memories := dsMemories(len(tr.net.graph.Nodes), memory, heterogeneous, seed)
		a, err := tr.aggregated(kind, memories, seed)
		if err != nil {
			return err
		}
		d, err := tr.disco(kind, memories, seed)
		if err != nil {
			return err
		}
		run := dsRun{kind: kind, memory: memories, seed: seed, trials: f.o.runs(4000), ways: []disketch.Composition{disketch.Likeliest, disketch.Rows}, wanted: func(f *dsFlow) bool { return len(f.path) == full }}
		if !main {
			run.ways = run.ways[:1]
		}
		s, err := tr.run(f.ctx, run)
		if err != nil {
			return err
		}
		if main {
			run.how, run.ways = dsFixed, run.ways[1:]
			r, err := tr.run(f.ctx, run)
			if err != nil {
				return err
			}
			renewed += tr.squares(r.estimate[0], full)
			composed += tr.squares(s.estimate[1], full)
			p.converged = max(p.converged, s.converged)
		}
		aggregated += tr.squares(a, full)
		disco += tr.squares(d, full)
		sum += tr.squares(s.estimate[0], full)
	}
	for _, c := range []struct {
		to  *curve
		sum float64
	}{{&p.aggregated, aggregated}, {&p.disco, disco}, {&p.renewed, renewed}, {&p.composed, composed}, {&p.disketch, sum}} {
		*c.to = append(*c.to, math.Sqrt(c.sum/float64(placements)))
	}
	return nil
}

// compare adds the comparisons of the main panel.
func (f *fig12) compare(prefix string, sizes []int, p *panelCurves) {
	const source = "DiSketch Fig. 12(a), heterogeneous fat tree"
	for i, kb := range sizes {
		if kb != 512 {
			continue
		}
		t, name := &f.rows, prefix+"cs.512KB."
		t.against(name+"disco_over_disketch", "ratio", p.disco[i]/p.disketch[i], 8.9, source, "higher")
		t.against(name+"aggregated_over_disketch", "ratio", p.aggregated[i]/p.disketch[i], 5000, source, "higher")
		t.against(prefix+"cs.memory_ratio", "ratio", memoryFor(sizes, p.disketch, p.disco[i])/float64(kb), 0.25, source, "lower")
		t.against(name+"disco_over_disketch_rows", "ratio", p.disco[i]/p.composed[i], 8.9, source+", the paper's composition", "higher")
		t.against(prefix+"cs.memory_ratio_rows", "ratio", memoryFor(sizes, p.composed, p.disco[i])/float64(kb), 0.25, source+", the paper's composition", "lower")
		t.add(name+"disco_renewed_over_disketch", "ratio", p.renewed[i]/p.disketch[i], "what is left when DISCO renews its hash functions", "higher")
	}
	f.rows.add(prefix+"cs.epochs_to_converge", "epochs", float64(p.converged),
		"epochs before the first with all fragments within a factor 2 of the target; the most of all sizes", "lower")
}

// memoryFor interpolates, in logarithms, the memory at which a curve falls to an
// error; the smallest size if it is below throughout, infinity if it never is.
func memoryFor(sizes []int, c curve, err float64) float64 {
	if c[0] <= err {
		return float64(sizes[0])
	}
	for i := 1; i < len(c); i++ {
		if c[i] <= err {
			share := math.Log(c[i-1]/err) / math.Log(c[i-1]/c[i])
			return float64(sizes[i-1]) * math.Pow(float64(sizes[i])/float64(sizes[i-1]), share)
		}
	}
	return math.Inf(1)
}

// disketchFig12Grids draws what users get: by trace and memory, the errors of what is chosen over those of n = 1, and over those of DISCO.
func disketchFig12Grids(rows []Row) []bench.Grid {
	values := map[string]float64{}
	for _, r := range rows {
		values[r.Metric] = r.Value
	}
	traces := []string{"synthetic", "bursty", "realmix"}
	var grids []bench.Grid
	for _, of := range []struct{ over, under, title string }{
		{"autonomous.checked", "n1.checked", "Error of the default, n that each switch chooses, over that with n = 1"},
		{"coordinated.checked", "n1.checked", "Error with n that a collector chooses over that with n = 1"},
		{"autonomous.checked", "disco.rows", "Error of the default over that of DISCO"},
	} {
		grids = append(grids, dsGrid(of.title, "trace", traces, dsMemorySizes, func(line, kb int) (float64, string) {
			name := fmt.Sprintf("%s.%dKB.rmse.", traces[line], kb)
			over, ok := values[name+of.over]
			if !ok {
				return math.NaN(), ""
			}
			ratio := max(over, dsNoError) / max(values[name+of.under], dsNoError)
			return ratio, fmt.Sprintf("%.2g", ratio)
		}))
	}
	return grids
}
