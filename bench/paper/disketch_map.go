package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
)

// dsUneven is a synthetic trace in which a share of the flows send all their packets of a period in one burst: the rest are
// spread evenly at random.
func dsUneven(o Options, share float64) (*workload.Trace, error) {
	return workload.Synthetic{Packets: 2_000_000 / dsAblationShrink, Flows: 200_000 / dsAblationShrink, Seconds: 5, Seed: o.Seed, Bursts: share}.Trace()
}

// Sizes of the map: shares of the flows that send in bursts, and mean memories of a switch in KB.
var (
	dsMapShares = []float64{0, 0.01, 0.1, 1}
	dsMapSizes  = []int{1, 2, 4, 8, 16, 32, 64}
)

// dsMapCell is the beginning of the metrics of a cell of the map.
func dsMapCell(share float64, kb int) string {
	return fmt.Sprintf("bursts%03d.%dKB.", int(share*100), kb)
}

// disketchMapGrids draws the rows of disketchMap: the error with the best n, and with what is chosen, over that of n = 1.
func disketchMapGrids(rows []Row) []bench.Grid {
	values := map[string]float64{}
	for _, r := range rows {
		values[r.Metric] = r.Value
	}
	var lines []string
	for _, share := range dsMapShares {
		lines = append(lines, fmt.Sprintf("%g %%", 100*share))
	}
	var grids []bench.Grid
	for _, of := range []struct{ metric, n, title string }{
		{"best_over_n1", "best_n", "Error with the best n over that with n = 1, and that n"},
		{"coordinated_over_n1", "subepochs.coordinated", "The same with n that a collector chooses, and the mean n"},
		{"autonomous_over_n1", "subepochs.autonomous", "The same with n that each switch chooses"},
	} {
		grids = append(grids, dsGrid(of.title, "flows that send in bursts", lines, dsMapSizes, func(line, kb int) (float64, string) {
			cell := dsMapCell(dsMapShares[line], kb)
			ratio, ok := values[cell+of.metric]
			if !ok {
				ratio = math.NaN()
			}
			return ratio, fmt.Sprintf("%.2f (n = %.3g)", ratio, values[cell+of.n])
		}))
	}
	return grids
}

// dsGrid is a map by the mean memory of a switch in KB. cell is the ratio of a line and a memory, NaN if there is none, and its text.
func dsGrid(title, y string, lines []string, sizes []int, cell func(line, kb int) (float64, string)) bench.Grid {
	g := bench.Grid{Title: title, X: "mean memory of a switch", Y: y, Lines: lines, Ratios: make([][]float64, len(lines)), Texts: make([][]string, len(lines))}
	for _, kb := range sizes {
		g.Columns = append(g.Columns, fmt.Sprintf("%d KB", kb))
		for line := range lines {
			ratio, text := cell(line, kb)
			g.Ratios[line], g.Texts[line] = append(g.Ratios[line], ratio), append(g.Texts[line], text)
		}
	}
	return g
}

// disketchMap shows where subepochs pay: by memory and burstiness, the best fixed n, its error over that of n = 1, and what the
// chosen numbers of subepochs have. It is of the Count Sketch in the fat tree with unequal memories.
func disketchMap(ctx context.Context, o Options) ([]Row, error) {
	net, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	var t table
	m := dsMap{net: net, placements: o.placements()}
	shares, sizes := dsMapShares, dsMapSizes
	if o.Quick {
		shares, sizes = []float64{0, 1}, []int{2, 8, 64}
	}
	for i, share := range shares {
		if err := m.traffic(o, share); err != nil {
			return nil, err
		}
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(shares)*len(sizes), fmt.Sprintf("%g of the flows in bursts, %d KB", share, kb))
			if err := m.cell(ctx, o, &t, share, kb); err != nil {
				return nil, err
			}
		}
	}
	m.summarise(&t)
	return t, nil
}

// regime adds the part of the map in which subepochs pay: little memory, and flows that send evenly.
func (t *table) regime(ctx context.Context, o Options) error {
	net, err := dsFatTree()
	if err != nil {
		return err
	}
	m := dsMap{net: net, placements: 10}
	if err := m.traffic(o, 0); err != nil {
		return err
	}
	sizes := []int{2, 4, 8}
	for i, kb := range sizes {
		o.progress(i, len(sizes), fmt.Sprintf("where subepochs pay, %d KB", kb))
		if err := m.cell(ctx, o, t, 0, kb); err != nil {
			return err
		}
	}
	m.summarise(t)
	return nil
}

// dsPays is the ratio of errors below which subepochs pay.
const dsPays = 0.8

// dsMap measures cells of the map, and notes logarithms of ratios of those in which subepochs pay.
type dsMap struct {
	net        *dsNetwork
	placements int
	now        *dsTraffic
	wanted     func(*dsFlow) bool

	best, coordinated, autonomous sample
}

// traffic makes that with a share of flows in bursts.
func (m *dsMap) traffic(o Options, share float64) error {
	trace, err := dsUneven(o, share)
	if err != nil {
		return err
	}
	if m.now, err = newDSTraffic(m.net, trace, o.Seed); err != nil {
		return err
	}
	m.wanted = m.now.some(m.net.full)
	return nil
}

// cell adds the rows of a cell.
func (m *dsMap) cell(ctx context.Context, o Options, t *table, share float64, kb int) error {
	e, subepochs := dsErrors{}, map[string]sample{}
	for p := range m.placements {
		seed := o.Seed + uint64(p)
		memory := dsMemories(len(m.net.graph.Nodes), kb<<10/dsAblationShrink, true, seed)
		run := dsRun{kind: disketch.CountSketch, memory: memory, seed: seed, trials: 1000, wanted: m.wanted, ways: []disketch.Composition{disketch.Checked}}
		var by []dsDivision
		for log := range uint8(disketch.SliceLog + 1) {
			by = append(by, dsDivision{dsFixed, log})
		}
		outs, err := m.now.divide(ctx, run, append(by, dsDivision{how: dsAutonomous}, dsDivision{how: dsCoordinated}))
		if err != nil {
			return err
		}
		for i, out := range outs {
			name := []string{"autonomous", "coordinated"}[max(i-len(by), 0)]
			if i < len(by) {
				name = fmt.Sprintf("n%d", 1<<i)
			}
			subepochs[name] = append(subepochs[name], out.subepochs)
			e[name] = append(e[name], m.now.squaresOf(out.estimate[0], m.wanted))
		}
	}
	best, least := 1, 1.0
	for log := 1; log <= disketch.SliceLog; log++ {
		if r := e.over(fmt.Sprintf("n%d", 1<<log), "n1"); r < least {
			best, least = 1<<log, r
		}
	}
	name := dsMapCell(share, kb)
	t.add(name+"best_n", "subepochs", float64(best), "of all fragments and epochs", "neither")
	t.addRatio(name+"best_over_n1", e, fmt.Sprintf("n%d", best), "n1", fmt.Sprintf("RMSE; n = 1 has %.4g packets", e.rmse("n1")), "lower")
	t.addRatio(name+"autonomous_over_n1", e, "autonomous", "n1", "RMSE", "lower")
	t.addRatio(name+"coordinated_over_n1", e, "coordinated", "n1", "RMSE", "lower")
	t.add(name+"subepochs.autonomous", "subepochs", subepochs["autonomous"].mean(), "mean n of the last epoch", "neither")
	t.add(name+"subepochs.coordinated", "subepochs", subepochs["coordinated"].mean(), "mean n of the last epoch", "neither")
	if least <= dsPays {
		m.best = append(m.best, math.Log(least))
		m.coordinated = append(m.coordinated, math.Log(e.over("coordinated", "n1")))
		m.autonomous = append(m.autonomous, math.Log(e.over("autonomous", "n1")))
	}
	return nil
}

// summarise adds the means of the cells in which subepochs pay.
func (m *dsMap) summarise(t *table) {
	if len(m.best) == 0 {
		return
	}
	source := fmt.Sprintf("geometric mean over the %d cells of the map in which the best n has at most %g of the error of n = 1", len(m.best), dsPays)
	t.add("best_over_n1", "ratio", math.Exp(m.best.mean()), source, "lower")
	t.add("coordinated_over_n1", "ratio", math.Exp(m.coordinated.mean()), source, "lower")
	t.add("autonomous_over_n1", "ratio", math.Exp(m.autonomous.mean()), source, "lower")
}
