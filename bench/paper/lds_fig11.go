package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/lds"
)

// ldsFig11 measures figure 11: 4 rows of 5 * 17,500 cells, k = 5, under random
// loss, with banks that sample at 0.01, 0.1, 0.5 and 1, and with all rows at
// 0.05 and at 1. within10 is the share of the flows of more than 1,000 packets
// whose estimate is within 10 %; a flow without an estimate is not. Rows without
// a prefix have banks and measured delays; capture rows have the packets of a real trace,
// in as many cells per flow. Quick runs have only banks.
func ldsFig11(ctx context.Context, o Options) ([]Row, error) {
	synthetic, captured, measured, err := ldsInputs(o, ldsSeconds)
	if err != nil {
		return nil, err
	}
	cases := []ldsFig11Case{
		{"", synthetic, []float64{0.01, 0.1, 0.5, 1}, measured, lds.Balanced, "banks of 0.01, 0.1, 0.5, 1"},
		{"two_queues.", synthetic, []float64{0.01, 0.1, 0.5, 1}, newTwoQueues(), lds.Balanced, "banks of 0.01, 0.1, 0.5, 1"},
		{"capture.", captured, []float64{0.01, 0.1, 0.5, 1}, measured, lds.Balanced, "banks of 0.01, 0.1, 0.5, 1"},
		{"all_rows_5.", synthetic, []float64{0.05, 0.05, 0.05, 0.05}, measured, lds.Balanced, "all rows at 0.05"},
		{"all_rows_100.", synthetic, nil, measured, lds.Balanced, "all rows at 1"},
		{"paper_alpha.", synthetic, []float64{0.01, 0.1, 0.5, 1}, measured, lds.PaperAlpha, "banks of 0.01, 0.1, 0.5, 1, cells picked by alpha = 0.1"},
	}
	if o.Quick {
		cases = cases[:3]
	}
	var jobs []ldsJob
	for _, c := range cases {
		jobs = append(jobs, c.jobs(ldsColumns(c.all.trace, 17500))...)
	}
	results, err := ldsMeasure(ctx, o, 5, jobs)
	if err != nil {
		return nil, err
	}
	var t table
	for i, c := range cases {
		t.ldsFig11(c, results[i*len(ldsLosses):])
	}
	return t, nil
}

// ldsLosses are the rates of loss of figure 11.
var ldsLosses = []struct {
	name string
	rate float64
}{{"loss0.1", 0.001}, {"loss0.5", 0.005}, {"loss1", 0.01}}

// ldsFig11Case is a trace, a model of delays, and how packets are sampled.
type ldsFig11Case struct {
	prefix string
	all    *crossings
	rates  []float64
	delays delays
	alpha  float64
	about  string
}

// jobs are one for each rate of loss, in 4 rows of 5 times as many columns.
func (c ldsFig11Case) jobs(columns int) (jobs []ldsJob) {
	for _, l := range ldsLosses {
		jobs = append(jobs, ldsJob{c.prefix + l.name, func(seed uint64) ([]flowError, error) {
			config := lds.Config{Rows: 4, Columns: 5 * columns, Virtual: 5, Rates: c.rates}
			return c.all.of(c.delays, l.rate, seed).ldsErrors(config, nil, c.alpha)
		}})
	}
	return jobs
}

// ldsFig11 adds the rows of a case, of whose jobs the results are the first.
func (t *table) ldsFig11(c ldsFig11Case, of [][]flowError) {
	for j, l := range ldsLosses {
		source := fmt.Sprintf("LDS Fig. 11; %s; %s; %s", c.about, c.delays, c.all.trace.Name)
		large := pick(of[j], 1001, math.MaxUint64)
		t.add(c.prefix+"within10."+l.name, "ratio", large.within(0.1), source, "higher")
		t.add(c.prefix+"estimated."+l.name, "ratio", large.within(math.MaxFloat64), source, "higher")
		medium := pick(of[j], 101, math.MaxUint64)
		t.add(c.prefix+"over_100.within10."+l.name, "ratio", medium.within(0.1), source, "higher")
	}
}
