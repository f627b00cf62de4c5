package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/lds"
)

// ldsClasses are the classes of flows of figures 9, 11 and 12.
var ldsClasses = []struct {
	name string
	low  uint64
}{{"over_1000", 1001}, {"over_100", 101}, {"all", 1}}

// ldsFig9 measures figure 9: the relative error of each flow's delay by LDS in
// three sizes, by MPE with 1 % and 10 % sampling, by RLI with 1,000 probes per
// second, and by the mean of all packets. Rows without a prefix have measured
// delays; mpe10_over_lds and rli_over_lds are for 17,500 x 4 cells and flows of
// more than 1,000 packets. all_flows rows are of the median error of all flows, where small ones have the paper's share of the
// packets: those without a prefix have delays that are correlated over time, by queues, as rivals need it; measured rows have measured
// ones. There every rival has the memory that the cells of LDS take, and lds_over_best_rival is LDS's error over the least one of a
// rival's: lds has its 70,000 cells in as many rows as the default chooses for the flows (one), two_rows and four_rows in so many, and paper_alpha is four_rows with
// the paper's choice of cells. records rows are of ldsRecords. capture rows have the packets of a real trace, in as
// many cells per flow, and a tenth and ten times of these.
func ldsFig9(ctx context.Context, o Options) ([]Row, error) {
	synthetic, captured, measured, err := ldsInputs(o, ldsSeconds)
	if err != nil {
		return nil, err
	}
	models := []ldsFig9Model{
		{"", synthetic, 17500, measured}, {"two_queues.", synthetic, 17500, newTwoQueues()},
		{"capture.", captured, ldsColumns(captured.trace, 17500), measured},
	}
	var jobs []ldsJob
	for _, m := range models {
		jobs = append(jobs, m.jobs()...)
	}
	results, err := ldsMeasure(ctx, o, 6, jobs)
	if err != nil {
		return nil, err
	}
	var t table
	if err := ldsAllFlows(ctx, o, measured, &t); err != nil {
		return nil, err
	}
	if err := ldsRecords(ctx, o, &t); err != nil {
		return nil, err
	}
	for i, m := range models {
		t.ldsFig9(m, results[i*len(jobs)/len(models):])
	}
	return t, nil
}

// ldsFig9Model is a trace and a model of delays.
type ldsFig9Model struct {
	prefix  string
	all     *crossings
	columns int
	delays  delays
}

// jobs are LDS and its rivals.
func (m ldsFig9Model) jobs() (jobs []ldsJob) {
	for _, s := range ldsRivals(m.columns) {
		jobs = append(jobs, ldsJob{m.prefix + s.name, func(seed uint64) ([]flowError, error) {
			return s.run(m.all.of(m.delays, 0, seed))
		}})
	}
	return jobs
}

// ldsFig9 adds the rows of a model, of whose jobs the results are the first.
func (t *table) ldsFig9(m ldsFig9Model, of [][]flowError) {
	source := fmt.Sprintf("LDS Fig. 9; %s; %s", m.delays, m.all.trace.Name)
	over := func(rival int) float64 {
		return pick(of[rival], 1001, math.MaxUint64).quantile(0.5) / pick(of[0], 1001, math.MaxUint64).quantile(0.5)
	}
	t.add(m.prefix+"mpe10_over_lds", "ratio", over(3), fmt.Sprintf("median errors of flows over 1,000 packets, %d x 4 cells; %s", m.columns, source), "higher")
	t.add(m.prefix+"rli_over_lds", "ratio", over(5), source, "higher")
	for j, s := range ldsRivals(m.columns) {
		for _, c := range ldsClasses {
			e := pick(of[j], c.low, math.MaxUint64)
			t.add(m.prefix+s.name+".median_error."+c.name, "ratio", e.quantile(0.5), source, "lower")
			t.add(m.prefix+s.name+".within10."+c.name, "ratio", e.within(0.1), source, "higher")
		}
	}
}

// ldsRival estimates the delays of flows.
type ldsRival struct {
	name string
	run  func(x *crossing) ([]flowError, error)
}

// ldsRivals are LDS of so many columns, of a tenth and of ten times as many, and
// the rivals, and LDS in as many rows as it has by default for that many flows.
func ldsRivals(columns int) []ldsRival {
	return []ldsRival{
		{"lds", ldsScheme(columns)},
		{fmt.Sprintf("lds_%d", columns/10), ldsScheme(columns / 10)},
		{fmt.Sprintf("lds_%d", 10*columns), ldsScheme(10 * columns)},
		{"mpe10", func(x *crossing) ([]flowError, error) { return x.mpeErrors(0.1), nil }},
		{"mpe1", func(x *crossing) ([]flowError, error) { return x.mpeErrors(0.01), nil }},
		{"rli", func(x *crossing) ([]flowError, error) { return x.rliErrors(1000, 0), nil }},
		{"average", func(x *crossing) ([]flowError, error) { return x.averageErrors(), nil }},
		{"paper_alpha", func(x *crossing) ([]flowError, error) {
			return x.ldsErrors(lds.Config{Rows: 4, Columns: columns, Virtual: 1}, nil, lds.PaperAlpha)
		}},
		{"lds_adapted", func(x *crossing) ([]flowError, error) {
			return x.ldsErrors(ldsAdapted(columns, len(x.trace.Flows)), nil, lds.Balanced)
		}},
	}
}

// ldsScheme is LDS without virtual LDAs, in 4 rows.
func ldsScheme(columns int) func(x *crossing) ([]flowError, error) {
	return func(x *crossing) ([]flowError, error) {
		return x.ldsErrors(lds.Config{Rows: 4, Columns: columns, Virtual: 1}, nil, lds.Balanced)
	}
}

// ldsAdapted are the points that users get by default with so many flows in an interval: rows adapt.
func ldsAdapted(columns, flows int) lds.Config {
	c := lds.Config{Rows: 4, Columns: columns, Virtual: 1}
	return c.WithRows(c.BestRows(float64(flows), 0)) // an interval of minutes has room for all cells
}

// ldsAllFlows measures the median error of all flows at equal memory.
func ldsAllFlows(ctx context.Context, o Options, measured delays, t *table) error {
	trace, err := ldsSmallTrace(o, ldsSeconds)
	if err != nil {
		return err
	}
	small := &crossings{trace: trace}
	two, four := lds.Config{Rows: 2, Columns: 35000, Virtual: 1}, lds.Config{Rows: 4, Columns: 17500, Virtual: 1}
	fit := ldsAdapted(four.Columns, len(trace.Flows))
	memory := four.Bytes() // of all three
	by := func(c lds.Config, alpha float64) func(x *crossing) ([]flowError, error) {
		return func(x *crossing) ([]flowError, error) { return x.ldsErrors(c, nil, alpha) }
	}
	schemes := []ldsRival{
		{"lds", by(fit, lds.Balanced)},
		{"two_rows", by(two, lds.Balanced)},
		{"four_rows", by(four, lds.Balanced)},
		{"paper_alpha", by(four, lds.PaperAlpha)},
		{"sampled", func(x *crossing) ([]flowError, error) { return x.sampledErrors(memory / meanEntryBytes), nil }},
		{"mpe", func(x *crossing) ([]flowError, error) {
			return x.mpeErrors(x.samplingRate(float64(memory / mpeEntryBytes))), nil
		}},
		{"rli", func(x *crossing) ([]flowError, error) { return x.rliErrors(1000, memory/meanEntryBytes), nil }},
		{"average", func(x *crossing) ([]flowError, error) { return x.averageErrors(), nil }},
	}
	const rivals = 4 // the first of them
	models := []struct {
		prefix string
		delays delays
	}{{"all_flows.", newQueueing(o.Seed, trace.DurationNs)}, {"all_flows.measured.", measured}, {"all_flows.two_queues.", newTwoQueues()}}
	if o.Quick {
		models = models[:2]
	}
	var jobs []ldsJob
	for _, m := range models {
		for _, s := range schemes {
			jobs = append(jobs, ldsJob{m.prefix + s.name, func(seed uint64) ([]flowError, error) { return s.run(small.of(m.delays, 0, seed)) }})
		}
	}
	results, err := ldsMeasure(ctx, o, 3, jobs)
	if err != nil {
		return err
	}
	for i, m := range models {
		source := fmt.Sprintf("median errors of all flows, %d bytes each; %s; %s", memory, m.delays, trace.Name)
		var errs []float64
		for j := range schemes {
			errs = append(errs, pick(results[i*len(schemes)+j], 1, math.MaxUint64).quantile(0.5))
		}
		for j, s := range schemes[:rivals] {
			t.add(m.prefix+s.name+"_over_best_rival", "ratio", errs[j]/slices.Min(errs[rivals:]), source, "lower")
		}
		for j, s := range schemes {
			t.add(m.prefix+s.name+".median_error", "ratio", errs[j], source, "lower")
			t.add(m.prefix+s.name+".within10", "ratio", pick(results[i*len(schemes)+j], 1, math.MaxUint64).within(0.1), source, "higher")
		}
	}
	return nil
}
