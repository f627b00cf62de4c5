package paper

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/countmin"
	"github.com/weirswitch/weir/telemetry/sketch/countsketch"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// dsWorkers is how many goroutines a simulation takes.
const dsWorkers = 2

// dsKinds are the sketches, under the names that rows of a result have.
var dsKinds = []struct {
	name string
	kind disketch.Kind
}{{"cs", disketch.CountSketch}, {"cms", disketch.CountMin}, {"um", disketch.UnivMon}}

// dsRun is one simulation of DiSketch: a fragment on each switch.
type dsRun struct {
	kind   disketch.Kind
	memory []int // by node
	seed   uint64
	how    dsHow
	// target that all fragments aim at; 0: as how says.
	target    float64
	singleHop bool
	// wanted says which flows are queried, nil: all.
	wanted func(*dsFlow) bool
	// ways to compose the answer.
	ways []disketch.Composition
	// trials of the search for a target, and the composition that it tries targets out with; by default the default one.
	trials int
	search disketch.Composition
	// log is the logarithm of n where it is fixed.
	log uint8
}

// dsHow is how a run finds the number of subepochs.
type dsHow int

const (
	// dsCentral: one target for all fragments is tried out on the records of all, as if flows sent evenly: the
	// paper's method, with our search for the target that it leaves open.
	dsCentral dsHow = iota
	// dsFixed: n = 2^log in all fragments and epochs; with log = 0, DISCO with renewed hashes.
	dsFixed
	// dsAutonomous: each fragment chooses its own n by both errors.
	dsAutonomous
	// dsCoordinated: n of each fragment is chosen by both errors from the records of all.
	dsCoordinated
)

// config is that of the fragment on a node.
func (c *dsRun) config(node int) disketch.Config {
	slices := uint8(0)
	if c.how >= dsAutonomous {
		slices = disketch.SliceLog
	}
	return disketch.Config{
		Slices: slices, ID: disketch.ID{Switch: uint64(node)}, Kind: c.kind, Memory: c.memory[node], Epochs: dsEpochs,
		Seed: c.seed, Target: c.target, SingleHop: c.singleHop,
	}
}

// dsOutcome is what the queries of a run say at its end.
type dsOutcome struct {
	estimate [][]float64 // by way and flow; of flows that are not wanted 0
	sums     [][]disketch.Sum
	target   float64
	// converged is the number of epochs before the first in which each fragment's
	// estimated error was within a factor 2 of the target, or below with n = 1; dsWindow if
	// there was none.
	converged int
	subepochs float64 // mean n in the last epoch
}

// each runs f for 0 <= i < n on dsWorkers goroutines.
func dsEach(n int, f func(i int) error) error {
	var running errgroup.Group
	running.SetLimit(dsWorkers)
	for i := range n {
		running.Go(func() error { return f(i) })
	}
	return running.Wait()
}

// dsDivision is how epochs are divided: as of a dsRun.
type dsDivision struct {
	how dsHow
	log uint8
}

// dsPlayed is a run that goes on.
type dsPlayed struct {
	dsRun
	out       *dsOutcome
	fragments []*disketch.Fragment
	target    disketch.Target
	choices   []disketch.Choice
}

// run plays the whole trace, epoch by epoch. Each epoch's records are queried and
// dropped, as the answer to a window is the sum over its epochs.
func (t *dsTraffic) run(ctx context.Context, c dsRun) (*dsOutcome, error) {
	out, err := t.divide(ctx, c, []dsDivision{{c.how, c.log}})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// divide is run with each of several divisions of epochs. What some of them have in common in an epoch, the records of a fragment with the same n or the
// answers from the same n of all, is made once.
func (t *dsTraffic) divide(ctx context.Context, c dsRun, by []dsDivision) (outcomes []*dsOutcome, err error) {
	counters := make([]*disketch.Counter, len(c.memory))
	for i := range c.memory {
		every := c
		every.how = dsAutonomous // counters that count slices count the rest as others do
		f, err := disketch.NewFragment(every.config(i))
		if err != nil {
			return nil, err
		}
		if counters[i], err = f.NewCounter(); err != nil {
			return nil, err
		}
	}
	var runs []*dsPlayed
	for _, division := range by {
		r := &dsPlayed{dsRun: c, out: &dsOutcome{converged: dsWindow}, choices: make([]disketch.Choice, len(c.memory))}
		r.how, r.log = division.how, division.log
		for range c.ways {
			r.out.sums = append(r.out.sums, make([]disketch.Sum, len(t.flows)))
		}
		for i := range c.memory {
			f, err := disketch.NewFragment(r.config(i))
			if err != nil {
				return nil, err
			}
			r.fragments = append(r.fragments, f)
		}
		runs, outcomes = append(runs, r), append(outcomes, r.out)
	}
	var wanted []int
	for i := range t.flows {
		if c.wanted == nil || c.wanted(&t.flows[i]) {
			wanted = append(wanted, i)
		}
	}
	paths := t.samplePaths(wanted)
	for e := range uint64(dsWindow) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		counted := make([]dsCounted, len(c.memory))
		alike := map[string][]*dsOutcome{} // by the n of all fragments
		last := map[string]*disketch.Records{}
		for _, r := range runs {
			records, n, err := t.epoch(r, e, counters, counted)
			if err != nil {
				return nil, err
			}
			r.out.follow(e, r.fragments)
			alike[n], last[n] = append(alike[n], r.out), records
			if e+1 == dsWindow {
				continue // No epoch comes after it.
			}
			if err := t.choose(r, e, records, paths); err != nil {
				return nil, err
			}
		}
		for n, records := range last {
			t.ask(c, e, records, wanted, alike[n])
		}
	}
	for _, out := range outcomes {
		out.finish(dsWindow)
	}
	return outcomes, nil
}

// finish makes the estimates from what so many epochs said.
func (o *dsOutcome) finish(epochs uint64) {
	for _, sums := range o.sums {
		estimate := make([]float64, len(sums))
		for i := range sums {
			estimate[i] = sums[i].Answer(disketch.Query{To: epochs}).Value
		}
		o.estimate = append(o.estimate, estimate)
	}
}

// choose has the fragments know the numbers of subepochs of the epochs after e.
func (t *dsTraffic) choose(r *dsPlayed, e uint64, records *disketch.Records, paths [][]uint64) error {
	search := disketch.TargetSearch{Query: disketch.Query{Composition: r.search}, Epoch: e, Paths: paths, Trials: r.trials, Seed: r.seed}
	switch {
	case r.how == dsFixed || r.dsRun.target > 0:
	case r.how == dsCentral:
		if e&(e+1) != 0 && e%8 != 0 {
			return nil // The target is looked for after epochs 0, 1, 3, 7, 8, 15, ...
		}
		found, err := records.FindTarget(search)
		if err != nil {
			return err
		}
		r.target.Found(found)
		for _, f := range r.fragments {
			f.SetTarget(r.target.Rho())
		}
	case r.fragments[0].Slices(e) == 0:
	case r.how == dsCoordinated:
		plan, _, err := records.FindPlan(search)
		if err != nil {
			return err
		}
		for i, f := range r.fragments {
			f.Assign(disketch.Assignment{Log: plan[uint64(i)], From: e + 1, Until: e + 1 + dsWindow})
		}
	default:
		return dsEach(len(r.fragments), func(i int) error {
			own := search
			own.Paths = [][]uint64{slices.Repeat([]uint64{uint64(i)}, t.hops)}
			own.Trials = min(own.Trials, 1000)
			errors, err := records.Choose(own)
			if err == nil {
				r.fragments[i].Aim(r.choices[i].Found(errors))
			}
			return err
		})
	}
	return nil
}

// samplePaths are the paths of some of the flows.
func (t *dsTraffic) samplePaths(flows []int) [][]uint64 {
	var paths [][]uint64
	for i := 0; i < len(flows); i += 1 + len(flows)/500 {
		paths = append(paths, t.flows[flows[i]].path)
	}
	return paths
}

// dsCounted are the records of a fragment in an epoch, by n and the slices it was counted in, both as logarithms.
type dsCounted map[[2]uint8][]*disketch.Prepared

// epoch plays one epoch into the fragments of a run, as far as it is not counted yet, and returns their records, and what n they have.
func (t *dsTraffic) epoch(c *dsPlayed, e uint64, counters []*disketch.Counter, counted []dsCounted) (*disketch.Records, string, error) {
	all, logs := make([][]*disketch.Prepared, len(c.fragments)), make([]byte, len(c.fragments))
	err := dsEach(len(c.fragments), func(i int) error {
		f := c.fragments[i]
		s := f.Begin(e)
		if c.how == dsFixed {
			s = f.Schedule(e, c.log)
		}
		logs[i] = s.Log
		n := [2]uint8{s.Log, f.Slices(e)}
		if counted[i] == nil {
			counted[i] = dsCounted{}
		}
		var err error
		if counted[i][n] == nil {
			if counted[i][n], err = t.count(t.at[e][i], f, s, n[1], counters[i]); err != nil {
				return err
			}
		}
		all[i] = counted[i][n]
		if c.how != dsFixed {
			for _, x := range all[i] {
				f.Observe(x.Record)
			}
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	records := new(disketch.Records)
	for _, some := range all {
		for _, x := range some {
			if err := records.AddPrepared(x); err != nil {
				return nil, "", err
			}
		}
	}
	return records, string(logs), nil
}

// count plays a fragment's packets of one epoch, in slices if there are any, into a counter, and returns the records.
func (t *dsTraffic) count(packets []dsPacket, f *disketch.Fragment, s disketch.Schedule, sliceLog uint8, counter *disketch.Counter) (all []*disketch.Prepared, err error) {
	play := func(log uint8, sub uint64) {
		for len(packets) > 0 && uint64(packets[0].tick)>>(16-log) == sub {
			f := &t.flows[packets[0].flow]
			counter.Add(f.hash, 1, len(f.path) == 1)
			packets = packets[1:]
		}
	}
	if sliceLog > 0 {
		parts, err := f.NewSlices()
		if err != nil {
			return nil, err
		}
		parts.Begin(s, sliceLog)
		for slice := range uint64(1) << sliceLog {
			counter.BeginSlice(s)
			play(sliceLog, slice)
			if err := parts.Add(counter); err != nil {
				return nil, err
			}
		}
		return append(all, parts.Record().Clone().Prepare()), nil
	}
	for sub := range s.N() {
		counter.Begin(s, sub)
		play(s.Log, sub)
		all = append(all, counter.Record().Clone().Prepare())
	}
	return all, nil
}

// follow notes the state of the fragments at the end of epoch e.
func (o *dsOutcome) follow(e uint64, fragments []*disketch.Fragment) {
	there := true
	n := 0.0
	for _, f := range fragments {
		rho, _ := f.Error(e)
		log := f.Begin(e).Log
		o.target = f.Target()
		there = there && o.target > 0 && rho <= 2*o.target && (rho >= o.target/2 || log == 0)
		n += math.Ldexp(1, int(log))
	}
	if there {
		o.converged = min(o.converged, int(e))
	}
	o.subepochs = n / float64(len(fragments))
}

// ask adds the epoch's estimates of the wanted flows to the sums of outcomes.
func (t *dsTraffic) ask(c dsRun, e uint64, records *disketch.Records, wanted []int, outcomes []*dsOutcome) {
	first, window := records.Asker(), disketch.Query{From: e, To: e + 1}
	if slices.Contains(c.ways, disketch.Checked) {
		hashes := make([]uint64, len(wanted))
		paths := make(map[uint64][]uint64, len(wanted))
		for i, f := range wanted {
			hashes[i] = t.flows[f].hash
			paths[hashes[i]] = t.flows[f].path
		}
		first.Learn(window, hashes, disketch.PathFunc(func(flow uint64) []uint64 { return paths[flow] }))
	}
	var wg sync.WaitGroup
	for w := range dsWorkers {
		wg.Go(func() {
			ask := first.Another()
			var path []uint64
			known := disketch.PathFunc(func(uint64) []uint64 { return path })
			var sums []disketch.Composed
			for i := w; i < len(wanted); i += dsWorkers {
				f := &t.flows[wanted[i]]
				path, sums = f.path, sums[:0]
				for _, out := range outcomes {
					for j, how := range c.ways {
						sums = append(sums, disketch.Composed{Sum: &out.sums[j][wanted[i]], How: how})
					}
				}
				ask.AddEach(sums, window, f.hash, e, known)
			}
		})
	}
	wg.Wait()
}

// dsRow is a row of any of the sketches.
type dsRow interface {
	Add(flow uint64, v int64)
	Estimate(flow uint64) int64
}

func newDSRow(kind disketch.Kind, memory int, seed, row uint64) (dsRow, error) {
	s := hash.Uint64x2(seed, 'r', row)
	switch kind {
	case disketch.CountSketch:
		return countsketch.NewRowBytes(memory, s)
	case disketch.CountMin:
		return countmin.NewRowBytes(memory, s)
	case disketch.UnivMon:
		return univmon.NewFragmentBytes(univmon.Levels, memory, dsLevelSeed(seed), s)
	}
	return nil, fmt.Errorf("%v is no sketch", kind)
}

// dsLevelSeed gives UnivMon's levels the seed that DiSketch's fragments have.
func dsLevelSeed(seed uint64) uint64 {
	c := disketch.Config{Seed: seed}
	return c.LevelSeed()
}

// joinRows is the median, of Count-Min the minimum; no count is below 0.
func joinRows(kind disketch.Kind, x []float64) float64 {
	slices.Sort(x)
	if kind == disketch.CountMin {
		return x[0]
	}
	return max((x[(len(x)-1)/2]+x[len(x)/2])/2, 0)
}

// disco is the first rival: one row on each switch over all of its memory, with
// one hash function for the whole window; the rows of a flow's path are read as
// a sketch (Bruschi et al., "Discovering the heavy hitters with disaggregated
// sketches", CoNEXT 2020, as the paper describes it).
func (t *dsTraffic) disco(kind disketch.Kind, memory []int, seed uint64) ([]float64, error) {
	rows := make([]dsRow, len(memory))
	for i, m := range memory {
		var err error
		if rows[i], err = newDSRow(kind, m, seed, uint64(i)); err != nil {
			return nil, err
		}
	}
	for i := range t.flows {
		for _, node := range t.flows[i].path {
			rows[node].Add(t.flows[i].hash, int64(t.flows[i].packets))
		}
	}
	estimate := make([]float64, len(t.flows))
	var x []float64
	for i := range t.flows {
		x = x[:0]
		for _, node := range t.flows[i].path {
			x = append(x, float64(rows[node].Estimate(t.flows[i].hash)))
		}
		estimate[i] = joinRows(kind, x)
	}
	return estimate, nil
}

// aggregatedRows is the depth of an aggregated sketch: as many rows as the
// longest path has fragments.
const aggregatedRows = 5

// aggregated is the second rival: a whole sketch on each core switch, in its
// memory. It sees the flows of full length alone, and says 0 of others.
func (t *dsTraffic) aggregated(kind disketch.Kind, memory []int, seed uint64) ([]float64, error) {
	estimate := make([]float64, len(t.flows))
	for _, core := range t.net.core {
		var rows []dsRow
		for i := range aggregatedRows {
			r, err := newDSRow(kind, memory[core]/aggregatedRows, seed, uint64(core*aggregatedRows+i)|1<<32)
			if err != nil {
				return nil, err
			}
			rows = append(rows, r)
		}
		passes := func(f *dsFlow) bool { return slices.Contains(f.path, uint64(core)) }
		for i := range t.flows {
			if f := &t.flows[i]; passes(f) {
				for _, r := range rows {
					r.Add(f.hash, int64(f.packets))
				}
			}
		}
		var x []float64
		for i := range t.flows {
			if f := &t.flows[i]; passes(f) {
				x = x[:0]
				for _, r := range rows {
					x = append(x, float64(r.Estimate(f.hash)))
				}
				estimate[i] = joinRows(kind, x)
			}
		}
	}
	return estimate, nil
}

// squares is the mean squared error over the flows with paths of the given
// number of switches.
func (t *dsTraffic) squares(estimate []float64, switches int) float64 {
	sum, n := 0.0, 0
	for i := range t.flows {
		if len(t.flows[i].path) == switches {
			d := estimate[i] - t.flows[i].packets
			sum += d * d
			n++
		}
	}
	return sum / float64(max(n, 1))
}
