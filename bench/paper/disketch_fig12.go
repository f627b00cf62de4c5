package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

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
// with unequal memories. There from 64 KB on, and with 512 KB everywhere, memory is placed dsPlacements times, of which the intervals are.
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

// curve is the mean squared errors of a system by memory size and placement of the memory.
type curve [][]float64

// rmse is the root of the mean over placements, but for one of them if there are others; -1: of all.
func (c curve) rmse(size, without int) float64 {
	sum, n := 0.0, 0
	for i, square := range c[size] {
		if i != without || len(c[size]) == 1 {
			sum += square
			n++
		}
	}
	return math.Sqrt(sum / float64(n))
}

// all is rmse by memory size.
func (c curve) all(without int) []float64 {
	out := make([]float64, len(c))
	for i := range c {
		out[i] = c.rmse(i, without)
	}
	return out
}

// panelCurves are those of one panel.
type panelCurves struct {
	aggregated, disco, renewed, composed, disketch curve
	converged                                      int
}

// placed adds a row that is a function of the placements, and its interval.
func (f *fig12) placed(row Row, placements int, value func(without int) float64) {
	row.Value = value(-1)
	f.rows = append(f.rows, row)
	if placements < 2 {
		return
	}
	if half := jackknife(placements, value); !math.IsInf(half, 0) && !math.IsNaN(half) { // a curve that never falls so low needs infinite memory
		f.rows.add(row.Metric+".ci95", row.Unit, half, fmt.Sprintf("half the 95 %% confidence interval by %d placements of the memory, jackknife", placements), "neither")
	}
}

// jackknife is half of the 95 % confidence interval of a function of n things, from its values without each of them (Tukey, 1958):
//
//	t(n-1) sqrt((n-1)/n sum (f_i - mean f)^2)
func jackknife(n int, f func(without int) float64) float64 {
	values := make(sample, n)
	for i := range values {
		values[i] = f(i)
	}
	return float64(n-1) * values.half()
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
		sizes := f.sizes(main)
		var p panelCurves
		for _, kb := range sizes {
			placements := 1
			if !f.o.Quick && (main && kb >= 64 || kb == 512) {
				placements = dsPlacements
			}
			f.o.progress(f.done, f.total, fmt.Sprintf("%s%s, %s, %s, %d KB", prefix, tr.net.name, scenario, k.name, kb))
			if err := f.point(&p, tr, k.kind, kb<<10/shrink, heterogeneous, placements, main); err != nil {
				return err
			}
			f.done++
			i := len(p.disco) - 1
			name := fmt.Sprintf("%s%s.%s.%s.%dKB.rmse.", prefix, tr.net.name, scenario, k.name, kb)
			add := func(system string, c curve, source, better string) {
				f.placed(Row{Metric: name + system, Unit: "packets", Source: source, Better: better}, placements, func(without int) float64 { return c.rmse(i, without) })
			}
			add("aggregated", p.aggregated, "a sketch of 5 rows on each core switch", "neither")
			add("disco", p.disco, "one row on each switch", "neither")
			add("disketch", p.disketch, "Fig. 12 shows curves", "lower")
			if main {
				add("disco_renewed", p.renewed, "DISCO if it renewed its hash functions each epoch", "neither")
				add("disketch_rows", p.composed, "DiSketch by the paper's composition", "lower")
			}
		}
		if main {
			f.compare(prefix, sizes, &p)
		}
	}
	return nil
}

// dsPlacements is of how many placements of the memory those rows are that stand in the page: which switches of a path are small decides errors.
const dsPlacements = 4

// point adds one memory size to the curves.
func (f *fig12) point(p *panelCurves, tr *dsTraffic, kind disketch.Kind, memory int, heterogeneous bool, placements int, main bool) error {
	curves := []*curve{&p.aggregated, &p.disco, &p.disketch}
	if main {
		curves = append(curves, &p.renewed, &p.composed)
	}
	for _, c := range curves {
		*c = append(*c, make([]float64, placements))
	}
	converged := make([]int, placements)
	full := tr.net.full
	if err := dsEach(placements, func(i int) error {
		put := func(c curve, estimate []float64) { c[len(c)-1][i] = tr.squares(estimate, full) }
		seed := f.o.Seed + uint64(i)
		memories := dsMemories(len(tr.net.graph.Nodes), memory, heterogeneous, seed)
		aggregated, err := tr.aggregated(kind, memories, seed)
		if err != nil {
			return err
		}
		put(p.aggregated, aggregated)
		disco, err := tr.disco(kind, memories, seed)
		if err != nil {
			return err
		}
		put(p.disco, disco)
		run := dsRun{kind: kind, memory: memories, seed: seed, trials: f.o.runs(4000), ways: []disketch.Composition{disketch.Likeliest, disketch.Rows}, wanted: func(f *dsFlow) bool { return len(f.path) == full }}
		if !main {
			run.ways = run.ways[:1]
		}
		divided, err := tr.run(f.ctx, run)
		if err != nil {
			return err
		}
		put(p.disketch, divided.estimate[0])
		if !main {
			return nil
		}
		converged[i] = divided.converged
		put(p.composed, divided.estimate[1])
		run.how, run.ways = dsFixed, run.ways[1:]
		whole, err := tr.run(f.ctx, run)
		if err != nil {
			return err
		}
		put(p.renewed, whole.estimate[0])
		return nil
	}); err != nil {
		return err
	}
	p.converged = max(p.converged, slices.Max(converged))
	return nil
}

// compare adds the comparisons of the main panel.
func (f *fig12) compare(prefix string, sizes []int, p *panelCurves) {
	const source = "DiSketch Fig. 12(a), heterogeneous fat tree"
	for i, kb := range sizes {
		if kb != 512 {
			continue
		}
		ratio := func(metric string, reference float64, source, better string, value func(without int) float64) {
			f.placed(Row{Metric: prefix + metric, Unit: "ratio", Reference: &reference, Source: source, Better: better}, len(p.disco[i]), value)
		}
		over := func(a, b curve) func(int) float64 {
			return func(without int) float64 { return a.rmse(i, without) / b.rmse(i, without) }
		}
		memory := func(c curve) func(int) float64 {
			return func(without int) float64 {
				return memoryFor(sizes, c.all(without), p.disco.rmse(i, without)) / float64(kb)
			}
		}
		ratio("cs.512KB.disco_over_disketch", 8.9, source, "higher", over(p.disco, p.disketch))
		ratio("cs.512KB.aggregated_over_disketch", 5000, source, "higher", over(p.aggregated, p.disketch))
		ratio("cs.memory_ratio", 0.25, source, "lower", memory(p.disketch))
		ratio("cs.512KB.disco_over_disketch_rows", 8.9, source+", the paper's composition", "higher", over(p.disco, p.composed))
		ratio("cs.memory_ratio_rows", 0.25, source+", the paper's composition", "lower", memory(p.composed))
		f.placed(Row{Metric: prefix + "cs.512KB.disco_renewed_over_disketch", Unit: "ratio", Source: "what is left when DISCO renews its hash functions", Better: "higher"},
			len(p.disco[i]), over(p.renewed, p.disketch))
	}
	f.rows.add(prefix+"cs.epochs_to_converge", "epochs", float64(p.converged),
		"epochs before the first with all fragments within a factor 2 of the target; the most of all sizes", "lower")
}

// memoryFor interpolates, in logarithms, the memory at which a curve falls to an
// error; the smallest size if it is below throughout, infinity if it never is.
func memoryFor(sizes []int, c []float64, err float64) float64 {
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
