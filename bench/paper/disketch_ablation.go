package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/netsim"
	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// What the ablation compares. Synthetic and bursty traces are a tenth of the paper's, with a tenth of the memory, so that
// cells are as crowded; a capture is what it is. Some flows are asked about: all would change no
// ratio, and take most of the time.
const (
	dsAblationShrink = 10
	dsAblationFlows  = 2000
)

// dsBursty is on/off traffic of web search and Hadoop flows, which come and go; nil: the distributions are not there.
func dsBursty(o Options, packets int) (*workload.Trace, error) {
	data := o.Data
	if data == "" {
		data = netsim.DataDir()
	}
	var sizes []func(float64) float64
	for i, name := range []string{transport.WebSearch, transport.Hadoop} {
		d, err := transport.LoadDistribution(data, name)
		if err != nil {
			return nil, nil // as a capture that is not there
		}
		// One flow in 20 is of web search: these have most of the packets.
		sizes = append(sizes, slices.Repeat([]func(float64) float64{d.Quantile}, 1+18*i)...)
	}
	return workload.OnOff{Packets: packets, Seconds: 5, Sizes: sizes, Seed: o.Seed}.Trace()
}

// dsScenario is a trace in the fat tree.
type dsScenario struct {
	name    string
	trace   *workload.Trace
	traffic *dsTraffic
	shrink  int
}

// dsScenarios are synthetic, bursty and realmix, as far as their data are there.
func dsScenarios(o Options) (all []dsScenario, err error) {
	net, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	synthetic, err := workload.Synthetic{Packets: 2_000_000 / dsAblationShrink, Flows: 200_000 / dsAblationShrink, Seconds: 5, Seed: o.Seed}.Trace()
	if err != nil {
		return nil, err
	}
	bursty, err := dsBursty(o, 2_000_000/dsAblationShrink)
	if err != nil {
		return nil, err
	}
	realmix, err := dsRealmix(o)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct {
		name   string
		trace  *workload.Trace
		shrink int
	}{{"synthetic", synthetic, dsAblationShrink}, {"bursty", bursty, dsAblationShrink}, {"realmix", realmix, 1}} {
		if s.trace == nil {
			o.progress(0, 1, s.name+" is not there: see --data")
			continue
		}
		tr, err := newDSTraffic(net, s.trace, o.Seed)
		if err != nil {
			return nil, err
		}
		all = append(all, dsScenario{s.name, s.trace, tr, s.shrink})
	}
	return all, nil
}

// some says of flows with paths of a number of switches (0: any) whether they are asked about.
func (t *dsTraffic) some(switches int) func(*dsFlow) bool {
	all := 0
	for i := range t.flows {
		if switches == 0 || len(t.flows[i].path) == switches {
			all++
		}
	}
	step := uint64(1 + (all-1)/dsAblationFlows)
	return func(f *dsFlow) bool {
		return (switches == 0 || len(f.path) == switches) && hash.Uint64(dsSample, f.hash)%step == 0
	}
}

// dsSample is the seed by which flows are asked about.
const dsSample = 0x73616d70

// wholeWindow is DISCO read by any composition: one row on each switch, one hash function for all epochs.
func (t *dsTraffic) wholeWindow(c dsRun) (*dsOutcome, error) {
	var records disketch.Records
	counters := make([]*disketch.Counter, len(c.memory))
	for i := range c.memory {
		f, err := disketch.NewFragment(c.config(i))
		if err != nil {
			return nil, err
		}
		if counters[i], err = f.NewCounter(); err != nil {
			return nil, err
		}
		counters[i].Begin(f.Schedule(0, 0), 0)
	}
	for i := range t.flows {
		for _, node := range t.flows[i].path {
			counters[node].Add(t.flows[i].hash, int64(t.flows[i].packets), false)
		}
	}
	for _, counter := range counters {
		if err := records.Add(counter.Record()); err != nil {
			return nil, err
		}
	}
	out := &dsOutcome{}
	for range c.ways {
		out.sums = append(out.sums, make([]disketch.Sum, len(t.flows)))
	}
	var wanted []int
	for i := range t.flows {
		if c.wanted == nil || c.wanted(&t.flows[i]) {
			wanted = append(wanted, i)
		}
	}
	t.ask(c, 0, &records, wanted, []*dsOutcome{out})
	out.finish(1)
	return out, nil
}

// distributed is a sketch that is spread by columns (Gu et al., "Per-flow network measurement with Distributed Sketch", as
// the paper describes it): of each row a switch has as many columns as its memory holds, and a flow's cell in a row
// is one of all columns on its path. UnivMon has one for each level, with an equal part of the memory. Rows are joined as the sketch does, and as the
// default decoder would, by the cells of the row on the switch that has the flow's.
func (t *dsTraffic) distributed(kind disketch.Kind, memory []int, seed uint64) (byRows, likeliest []float64) {
	const rows = aggregatedRows
	levels := 1
	if kind == disketch.UnivMon {
		levels = univmon.Levels
	}
	width := make([]uint64, len(memory))
	cells := make([][]int64, len(memory))
	for i, m := range memory {
		width[i] = max(uint64(m/4/rows/levels), 1)
		cells[i] = make([]int64, rows*width[i]*uint64(levels))
	}
	where := func(f *dsFlow, row uint64) (node, at uint64, sign int64) {
		total := uint64(0)
		for _, node := range f.path {
			total += width[node]
		}
		h := hash.Uint64x2(seed, 'd'<<8|row, f.hash)
		column := hash.Reduce(h, total)
		if sign = 1; kind != disketch.CountMin && h&1 != 0 {
			sign = -1
		}
		if levels > 1 {
			row += rows * uint64(univmon.Level(levels, dsLevelSeed(seed), f.hash))
		}
		for _, node := range f.path {
			if column < width[node] {
				return node, row*width[node] + column, sign
			}
			column -= width[node]
		}
		return 0, 0, 0 // not reached: columns of a path add up to total
	}
	for i := range t.flows {
		for row := range uint64(rows) {
			node, at, sign := where(&t.flows[i], row)
			cells[node][at] += sign * int64(t.flows[i].packets)
		}
	}
	noise := make([][]*disketch.Cells, len(memory))
	for i, all := range cells {
		for row := range slices.Chunk(all, int(width[i])) {
			narrow := make([]int32, len(row))
			for j, n := range row {
				narrow[j] = int32(n)
			}
			noise[i] = append(noise[i], disketch.NewCells(narrow))
		}
	}
	byRows, likeliest = make([]float64, len(t.flows)), make([]float64, len(t.flows))
	x, of := make([]float64, rows), make([]*disketch.Cells, rows)
	var join disketch.Joiner
	for i := range t.flows {
		for row := range uint64(rows) {
			node, at, sign := where(&t.flows[i], row)
			x[row], of[row] = float64(sign*cells[node][at]), noise[node][at/width[node]]
		}
		likeliest[i] = join.Join(kind, disketch.Likeliest, x, of)
		byRows[i] = joinRows(kind, x)
	}
	return byRows, likeliest
}

// dsSystem is one line of the ablation.
type dsSystem struct{ name, source string }

// dsDecoders are the compositions, in the order in which runs have them.
var dsDecoders = []struct {
	name string
	how  disketch.Composition
}{{"rows", disketch.Rows}, {"likeliest", disketch.Likeliest}, {"checked", disketch.Checked}}

// dsDivisions are the ways to divide epochs.
var dsDivisions = []struct {
	name string
	how  dsHow
}{{"n1", dsFixed}, {"central", dsCentral}, {"autonomous", dsAutonomous}, {"coordinated", dsCoordinated}}

// dsDivided are the same, for divide.
func dsDivided() (by []dsDivision) {
	for _, d := range dsDivisions {
		by = append(by, dsDivision{how: d.how})
	}
	return by
}

// dsSystems are the lines: a way to divide time, and a decoder.
func dsSystems() (all []dsSystem) {
	add := func(name, source string) { all = append(all, dsSystem{name, source}) }
	add("disco.rows", "DISCO, as the paper has it: one row on each switch, one hash function for all epochs, the median")
	add("disco.likeliest", "DISCO, read by Likeliest")
	add("distributed.rows", "Distributed Sketch, by columns, the median of 5 rows")
	add("distributed.likeliest", "Distributed Sketch, by columns, read by Likeliest")
	for _, how := range []dsSystem{
		{"n1", "DISCO with hash functions renewed each epoch: n = 1"},
		{"central", "the paper's DiSketch: one target for all, which takes flows to send evenly"},
		{"autonomous", "each switch chooses n by both errors"},
		{"coordinated", "the collector chooses n of all switches by both errors"},
	} {
		for _, d := range dsDecoders {
			add(how.name+"."+d.name, how.source+"; "+d.name)
		}
	}
	return all
}

// dsPlaced is what all systems say with one placement of memory.
type dsPlaced struct {
	estimate  map[string][]float64
	subepochs map[string]float64
}

// placed runs all systems.
func (t *dsTraffic) placed(ctx context.Context, kind disketch.Kind, memory []int, seed uint64, trials int, wanted func(*dsFlow) bool, singleHop bool) (*dsPlaced, error) {
	p := &dsPlaced{map[string][]float64{}, map[string]float64{}}
	var err error
	if p.estimate["disco.rows"], err = t.disco(kind, memory, seed); err != nil {
		return nil, err
	}
	p.estimate["distributed.rows"], p.estimate["distributed.likeliest"] = t.distributed(kind, memory, seed)
	run := dsRun{kind: kind, memory: memory, seed: seed, trials: trials, wanted: wanted}
	run.ways = []disketch.Composition{disketch.Likeliest}
	whole, err := t.wholeWindow(run)
	if err != nil {
		return nil, err
	}
	p.estimate["disco.likeliest"] = whole.estimate[0]
	run.ways, run.singleHop = nil, singleHop
	for _, d := range dsDecoders {
		run.ways = append(run.ways, d.how)
	}
	outs, err := t.divide(ctx, run, dsDivided())
	if err != nil {
		return nil, err
	}
	for k, out := range outs {
		name := dsDivisions[k].name
		for i, d := range dsDecoders {
			p.estimate[name+"."+d.name] = out.estimate[i]
		}
		p.subepochs[name] = out.subepochs
	}
	return p, nil
}

// squaresOf is the mean squared error over the flows that are asked about.
func (t *dsTraffic) squaresOf(estimate []float64, wanted func(*dsFlow) bool) float64 {
	sum, n := 0.0, 0
	for i := range t.flows {
		if wanted(&t.flows[i]) {
			d := estimate[i] - t.flows[i].packets
			sum += d * d
			n++
		}
	}
	return sum / float64(max(n, 1))
}

// dsErrors are mean squared errors by system, one of each placement.
type dsErrors map[string]sample

func (e dsErrors) rmse(system string) float64 { return math.Sqrt(e[system].mean()) }

// dsNoError is what counts as no error, in packets: ratios of smaller ones say nothing.
const dsNoError = 0.001

// over is the ratio of two systems' errors, those below dsNoError taken as that.
func (e dsErrors) over(a, b string) float64 {
	return max(e.rmse(a), dsNoError) / max(e.rmse(b), dsNoError)
}

// interval is that of 95 % of rmse, over the draw of placements.
func (e dsErrors) interval(system string) (low, high float64) {
	root, logs := e.rmse(system), sample(nil)
	for i := range e[system] {
		logs = append(logs, e.part(system, i, 0))
	}
	half := logs.half()
	return root * math.Exp(-half), root * math.Exp(half)
}

// ratioInterval is that of 95 % of over, over the draw of placements, which both systems have in common: to the first order, the logarithm of a ratio of
// roots of means is the mean of half the differences of the placements' shares.
func (e dsErrors) ratioInterval(a, b string) (low, high float64) {
	logs := sample(nil)
	for i := range e[a] {
		logs = append(logs, e.part(a, i, dsNoError)-e.part(b, i, dsNoError))
	}
	ratio, half := e.over(a, b), logs.half()
	return ratio * math.Exp(-half), ratio * math.Exp(half)
}

// part is half of a placement's squared error over the mean; 0 where the root of the mean counts as least at most.
func (e dsErrors) part(system string, i int, least float64) float64 {
	if e.rmse(system) <= least {
		return 0
	}
	return e[system][i] / e[system].mean() / 2
}

// leastOver is that of both in which the default gains less over DISCO; nil is more than any.
func (e dsErrors) leastOver(o dsErrors) dsErrors {
	if e == nil || o.over("disco.rows", "autonomous.checked") < e.over("disco.rows", "autonomous.checked") {
		return o
	}
	return e
}

// ratio says of over how sure it is.
func (e dsErrors) ratio(a, b, what string) string {
	low, high := e.ratioInterval(a, b)
	return fmt.Sprintf("%s; 95 %% of the ratio over %d placements: %.3g to %.3g", what, len(e[a]), low, high)
}

// addRatio adds the ratio of two systems' errors.
func (t *table) addRatio(metric string, e dsErrors, a, b, what, better string) {
	low, high := e.ratioInterval(a, b)
	t.within(metric, "ratio", e.over(a, b), (high-low)/2, e.ratio(a, b, what), better)
}

// half is that of the interval of 95 % of the mean, by Student's distribution.
func (s sample) half() float64 {
	if len(s) < 2 {
		return math.Inf(1)
	}
	_, half := interval(s)
	return half
}

// placements is how many placements of memory the ablation has.
func (o Options) placements() int {
	if o.Quick {
		return 2
	}
	return 10
}

// ablation adds the rows of all systems for a scenario and a mean memory of a switch, and returns the errors.
func (t *table) ablation(ctx context.Context, o Options, s *dsScenario, kb int) (dsErrors, error) {
	e := dsErrors{}
	wanted := s.traffic.some(s.traffic.net.full)
	subepochs := map[string]sample{}
	for i := range o.placements() {
		seed := o.Seed + uint64(i)
		memory := dsMemories(len(s.traffic.net.graph.Nodes), kb<<10/s.shrink, true, seed)
		p, err := s.traffic.placed(ctx, disketch.CountSketch, memory, seed, 500, wanted, false)
		if err != nil {
			return nil, err
		}
		for name, estimate := range p.estimate {
			e[name] = append(e[name], s.traffic.squaresOf(estimate, wanted))
		}
		for name, n := range p.subepochs {
			subepochs[name] = append(subepochs[name], n)
		}
	}
	name := fmt.Sprintf("%s.%dKB.", s.name, kb)
	for _, system := range dsSystems() {
		low, high := e.interval(system.name)
		t.within(name+"rmse."+system.name, "packets", e.rmse(system.name), (high-low)/2, fmt.Sprintf("%s; 95 %% of %d placements: %.4g to %.4g", system.source, o.placements(), low, high), "lower")
	}
	for _, how := range []string{"central", "autonomous", "coordinated"} {
		t.add(name+"subepochs."+how, "subepochs", subepochs[how].mean(), "mean n of the last epoch", "neither")
	}
	t.addRatio(name+"autonomous_over_n1", e, "autonomous.checked", "n1.checked", "of the default decoder", "lower")
	t.addRatio(name+"coordinated_over_n1", e, "coordinated.checked", "n1.checked", "of the default decoder", "lower")
	t.addRatio(name+"disco_over_autonomous", e, "disco.rows", "autonomous.checked", "DISCO as the paper has it, over the default", "higher")
	t.addRatio(name+"gain.renewed", e, "disco.rows", "n1.rows", "what renewed hash functions contribute", "higher")
	t.addRatio(name+"gain.decoder", e, "n1.rows", "n1.checked", "what the decoder contributes behind it", "higher")
	t.addRatio(name+"gain.subepochs", e, "n1.checked", "autonomous.checked", "what subepochs contribute behind both", "higher")
	return e, nil
}

// disketchAblation is the ablation of figure 12 alone.
func disketchAblation(ctx context.Context, o Options) ([]Row, error) {
	var t table
	err := t.ablations(ctx, o)
	return t, err
}

// hops adds the systems' errors by the number of switches on the path, for figure 16.
func (t *table) hops(ctx context.Context, o Options) error {
	all, err := dsScenarios(o)
	if err != nil {
		return err
	}
	sizes := []struct {
		name string
		kb   int
	}{{"8KB", 8}, {"1MB", 1024}}
	for i := range all {
		s := &all[i]
		var least dsErrors
		wanted := s.traffic.some(0)
		for j, size := range sizes {
			o.progress(i*len(sizes)+j, len(all)*len(sizes), fmt.Sprintf("by path length, %s, %s", s.name, size.name))
			var e [6]dsErrors
			for h := range e {
				e[h] = dsErrors{}
			}
			for p := range o.placements() {
				seed := o.Seed + uint64(p)
				memory := dsMemories(len(s.traffic.net.graph.Nodes), size.kb<<10/s.shrink, true, seed)
				placed, err := s.traffic.placed(ctx, disketch.CountSketch, memory, seed, 500, wanted, true)
				if err != nil {
					return err
				}
				for name, estimate := range placed.estimate {
					for _, h := range []int{1, 3, 5} {
						e[h][name] = append(e[h][name], s.traffic.squaresOf(estimate, func(f *dsFlow) bool { return len(f.path) == h && wanted(f) }))
					}
				}
			}
			for _, h := range []int{1, 3, 5} {
				name := fmt.Sprintf("%s.%s.hops%d.", s.name, size.name, h)
				for _, system := range dsSystems() {
					low, high := e[h].interval(system.name)
					t.within(name+"rmse."+system.name, "packets", e[h].rmse(system.name), (high-low)/2, fmt.Sprintf("%s; 95 %% of %d placements: %.4g to %.4g", system.source, o.placements(), low, high), "lower")
				}
				t.addRatio(name+"disco_over_disketch", e[h], "disco.rows", "autonomous.checked", "DISCO as the paper has it, over the default", "higher")
				least = least.leastOver(e[h])
			}
		}
		t.addRatio("disco_over_disketch."+s.name, least, "disco.rows", "autonomous.checked", "the least of all path lengths and memories", "higher")
	}
	return nil
}

// ablations adds the ablation of all scenarios, and its summary.
func (t *table) ablations(ctx context.Context, o Options) error {
	all, err := dsScenarios(o)
	if err != nil {
		return err
	}
	sizes := dsMemorySizes
	if o.Quick {
		sizes = []int{8, 64, 1024}
	}
	for i := range all {
		s := &all[i]
		t.describe("ablation."+s.name, s.traffic)
		worst, coordinated := 0.0, 0.0
		var least dsErrors
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(all)*len(sizes), fmt.Sprintf("ablation, %s, %d KB", s.name, kb))
			e, err := t.ablation(ctx, o, s, kb)
			if err != nil {
				return err
			}
			worst = max(worst, e.over("autonomous.checked", "n1.checked"))
			coordinated = max(coordinated, e.over("coordinated.checked", "n1.checked"))
			if kb == 64 || kb == 1024 {
				least = least.leastOver(e)
			}
		}
		t.add("autonomous_over_n1."+s.name, "ratio", worst, "the worst of all memories", "lower")
		t.add("coordinated_over_n1_worst."+s.name, "ratio", coordinated, "the worst of all memories", "lower")
		t.addRatio("disco_over_autonomous."+s.name, least, "disco.rows", "autonomous.checked", "the least of 64 KB and 1 MB", "higher")
	}
	return t.regime(ctx, o)
}
