package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/bench"
)

// Name of the result.
const Name = "pipeline"

// Run measures all graphs and the workers. It ends with the context's error when the context ends.
func Run(ctx context.Context, c Config) (*bench.Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	r := &bench.Result{Name: Name, Seed: c.Seed, Machine: bench.ThisMachine()}
	steps := &progress{c.Progress, 0, len(chosen(&c)) * c.Rounds}
	if c.has(Workers) {
		steps.total += workerSteps * c.Rounds
	}
	if c.has(Steering) {
		steps.total += steeringSteps * c.Rounds
	}
	err := bench.InFavouredSession(func() error {
		if err := onCore(c.Core, func() error { return measureGraphs(ctx, &c, steps, r) }); err != nil {
			return err
		}
		if c.has(Workers) {
			if err := measureWorkers(ctx, &c, steps, r); err != nil {
				return err
			}
		}
		if !c.has(Steering) {
			return nil
		}
		return measureSteering(ctx, &c, steps, r)
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// progress counts steps.
type progress struct {
	to          bench.Progress
	done, total int
}

func (p *progress) step(what string) {
	p.to.Report(p.done, p.total, what)
	p.done++
}

func chosen(c *Config) (list []Graph) {
	for _, g := range Graphs {
		if c.has(g.Name) && (!g.Slow || !c.Quick || len(c.Rows) > 0) {
			list = append(list, g)
		}
	}
	return list
}

func measureGraphs(ctx context.Context, c *Config, steps *progress, out *bench.Result) (err error) {
	r, err := newRing(c.Frames, c.Seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var rows []*row
	defer func() {
		for _, u := range rows {
			u.close()
		}
	}()
	var evict *evictor
	for _, g := range chosen(c) {
		u, err := g.open(ctx, r, c.Seed)
		if err != nil {
			return err
		}
		rows = append(rows, u)
		if len(u.sources) > 0 {
			u.warm(r, c.Warm)
		}
		if g.Cold {
			if evict == nil {
				evict = newEvictor()
			}
			u.cold = evict
		}
	}
	err = rounds(ctx, c, r, rows, func(round int, what string) { steps.step(fmt.Sprintf("round %d: %s", round+1, what)) })
	if err != nil {
		return err
	}
	for _, u := range rows {
		if err := u.check(); err != nil {
			return err
		}
		u.report(out)
	}
	reportStages(out, rows)
	reportAll(out, rows)
	reportTables(out, rows)
	reportNew(out, rows)
	return nil
}

// open builds the graph and teaches it its addresses.
func (g Graph) open(ctx context.Context, r *ring, seed uint64) (*row, error) {
	chain, err := newChain(g.Stages, g.configs(), g.env(1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", g.Name, err)
	}
	return g.newRow(ctx, r, chain, seed)
}

// check finds packets that were not forwarded while the row was measured: its figure would be that of
// something else.
func (u *row) check() error {
	if c := u.measured(); c.dropped != 0 || c.copied != 0 {
		return fmt.Errorf("%s: of %d packets %d were dropped and %d copies made: the figure would not be that of forwarding", u.name, c.packets, c.dropped, c.copied)
	}
	if n := u.flooded() - u.beforeFlooded; n != 0 {
		return fmt.Errorf("%s: %d packets were to addresses that l2 did not know: the figure would not be that of forwarding", u.name, n)
	}
	if u.failed != nil {
		return fmt.Errorf("%s: encode a record: %w", u.name, u.failed)
	}
	if n := u.missed() - u.beforeMissed; n != 0 {
		return fmt.Errorf("%s: stages did not measure %.0f packets: the figure would not be that of measuring", u.name, n)
	}
	return nil
}

// report adds a row's figures.
func (u *row) report(out *bench.Result) {
	ns, cpu := each(u.rounds, sample.ns), each(u.rounds, sample.cpuNs)
	note := fmt.Sprintf("wall time, median of %d rounds", len(u.rounds))
	out.Add(u.name+".mpps", "Mpps", 1e3/median(ns), note, bench.Higher)
	out.Add(u.name+".mpps_best", "Mpps", 1e3/slices.Min(ns), "wall time, best round", bench.Higher)
	out.Add(u.name+".ns", "ns/packet", median(ns), note, bench.Lower)
	out.Add(u.name+".cpu_ns", "ns/packet", median(cpu), "the thread's processor time", bench.Lower)
	out.Add(u.name+".spread", "ratio", spread(ns), "(largest - smallest) / median of the rounds", bench.Lower)
}

// reportStages adds what each stage costs: the difference of two graphs within a round.
func reportStages(out *bench.Result, rows []*row) {
	for _, d := range []struct{ stage, with, without string }{
		{"touch", "touch", "drop"},
		{"parse", "parse", "drop"},
		{"patch", "parse_patch", "parse"},
		{"hashes", "parse_hashes_patch", "parse_patch_1M"},
		{"crc", "parse_crc_patch", "parse_patch_1M"},
		{"aes", "parse_aes_patch", "parse_patch_1M"},
		{"l2_2", "parse_l2_2", "parse"},
		{"l2_10k", "parse_l2_10k", "parse"},
		{"conntrack", "parse_conntrack_patch", "parse_patch"},
		{"conntrack_1M", "parse_conntrack_patch_1M", "parse_patch_1M"},
		{"conntrack_new", "parse_conntrack_patch_new", "parse_patch_1M"},
		{"nat", "parse_nat_patch", "parse_patch"},
		{"nat_new", "parse_nat_patch_new", "parse_patch_1M"},
		{"vxlan_encap", "parse_vxlan_encap", "parse_patch"},
		{"vxlan_decap", "parse_vxlan_decap", "parse_patch"},
	} {
		with, without := find(rows, d.with), find(rows, d.without)
		if with == nil || without == nil {
			continue
		}
		out.Add("stage."+d.stage+".ns", "ns/packet", median(differences(with, without)),
			d.with+" less "+d.without+", median of the rounds' differences", bench.Lower)
	}
}

// newFlows is how many connections begin in a second, for that figure.
const newFlows = 200_000

// reportNew adds what of a core goes into connections that begin.
func reportNew(out *bench.Result, rows []*row) {
	for _, d := range []struct{ name, with, without string }{
		{"conntrack", "parse_conntrack_patch_new", "parse_patch_1M"},
		{"nat", "parse_nat_patch_new", "parse_patch_1M"},
	} {
		with, without := find(rows, d.with), find(rows, d.without)
		if with == nil || without == nil {
			continue
		}
		ns := median(differences(with, without))
		out.Add("stage."+d.name+".new_flows_share", "share", ns*newFlows/1e9, fmt.Sprintf("of a core, for %d connections that begin in a second, each of which displaces one", newFlows), bench.Lower)
	}
}

// reportTables adds what a stage costs with a large table over what it costs with a small one, within a round.
func reportTables(out *bench.Result, rows []*row) {
	for _, d := range []struct{ name, large, small, without string }{
		{"l2_1M_over_l2_10k", "parse_l2_1M", "parse_l2_10k", "parse"},
		{"l3_1M_routes_over_1k", "parse_l3_1M", "parse_l3_1k", "parse"},
	} {
		large, small, without := find(rows, d.large), find(rows, d.small), find(rows, d.without)
		if large == nil || small == nil || without == nil {
			continue
		}
		of, over := differences(large, without), differences(small, without)
		for i := range of {
			of[i] /= over[i]
		}
		out.Add(d.name, "ratio", median(of), d.large+" over "+d.small+", both less "+d.without+", median of the rounds", bench.Lower)
	}
}

func find(rows []*row, name string) *row {
	if i := slices.IndexFunc(rows, func(u *row) bool { return u.name == name }); i >= 0 {
		return rows[i]
	}
	return nil
}

func differences(with, without *row) []float64 {
	list := make([]float64, min(len(with.rounds), len(without.rounds)))
	for i := range list {
		list[i] = with.rounds[i].ns() - without.rounds[i].ns()
	}
	return list
}

func each(samples []sample, of func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return values
}

// median of at least one value; of an even number, the middle between the two middle ones.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func spread(values []float64) float64 {
	return (slices.Max(values) - slices.Min(values)) / median(values)
}
