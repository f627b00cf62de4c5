package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// ldsWeighing is a policy of weights for bronze, silver and gold flows.
type ldsWeighing [3]uint32

// ldsClass assigns flows to customers: 90 % bronze (0), 9 % silver (1), 1 %
// gold (2).
func ldsClass(seed uint64, flow uint32) int {
	switch h := hash.Reduce(hash.Uint64x2(seed, ldsClassSeed, uint64(flow)), 100); {
	case h >= 99:
		return 2
	case h >= 90:
		return 1
	}
	return 0
}

// ldsFig12 measures figure 12: errors by class of customer, with three policies
// of weights and two sizes of the sketch in 4 rows, over the same without
// weights. gold_over_unweighted is the ratio of the gold flows' median errors,
// all sizes of flows, for weights of 1, 10 and 100 and 25,000 x 4 cells and measured
// delays; capture rows have the packets of a real trace, in as many cells per flow. adapted rows have as many rows as users
// get for that many flows; paper_alpha rows pick a flow's cells as the paper does. Quick runs have the first three alone.
//
// The trace is as in the other figures, but takes 5 s: the paper's heaviest
// weights, 2,500, would fill cells beyond what is exact for an interval of 287 s.
func ldsFig12(ctx context.Context, o Options) ([]Row, error) {
	synthetic, captured, measured, err := ldsInputs(o, 5)
	if err != nil {
		return nil, err
	}
	four := func(columns int) lds.Config { return lds.Config{Rows: 4, Columns: columns, Virtual: 1} }
	models := []ldsFig12Model{
		{"", synthetic, four(25000), measured, lds.Balanced},
		{alphaPrefix, synthetic, four(25000), measured, lds.PaperAlpha},
		{"capture.", captured, four(ldsColumns(captured.trace, 25000)), measured, lds.Balanced},
		{"columns_10000.", synthetic, four(10000), measured, lds.Balanced},
		{"columns_10000." + alphaPrefix, synthetic, four(10000), measured, lds.PaperAlpha},
		{"two_queues.", synthetic, four(25000), newTwoQueues(), lds.Balanced},
		{"adapted.", synthetic, ldsAdapted(25000, len(synthetic.trace.Flows)), measured, lds.Balanced},
	}
	if o.Quick {
		models = models[:3]
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
	for i, m := range models {
		t.ldsFig12(m, results[i*len(ldsWeighings):])
	}
	return t, nil
}

// ldsWeighings are the policies of figure 12, of which the first has no weights.
var ldsWeighings = []ldsWeighing{{1, 1, 1}, {1, 10, 100}, {1, 25, 100}, {1, 50, 2500}}

// ldsFig12Model is a trace, a model of delays, and cells.
type ldsFig12Model struct {
	prefix string
	all    *crossings
	config lds.Config
	delays delays
	alpha  float64
}

// jobs are one for each policy.
func (m ldsFig12Model) jobs() (jobs []ldsJob) {
	for _, w := range ldsWeighings {
		jobs = append(jobs, ldsJob{fmt.Sprint(m.prefix, w), func(seed uint64) ([]flowError, error) {
			weight := func(flow uint32) uint32 { return w[ldsClass(seed, flow)] }
			errs, err := m.all.of(m.delays, 0, seed).ldsErrors(m.config, weight, m.alpha)
			for i := range errs {
				errs[i].class = ldsClass(seed, uint32(i))
			}
			return errs, err
		}})
	}
	return jobs
}

// ldsFig12 adds the rows of a model, of whose jobs the results are the first.
func (t *table) ldsFig12(m ldsFig12Model, of [][]flowError) {
	source := fmt.Sprintf("LDS Fig. 12; %d x %d cells; %s; %s", m.config.Columns, m.config.Rows, m.delays, m.all.trace.Name)
	for j, w := range ldsWeighings[1:] {
		name := m.prefix
		if j > 0 {
			name += fmt.Sprintf("weights_%d_%d_%d.", w[0], w[1], w[2])
		}
		about := fmt.Sprintf("weights %d, %d, %d; %s", w[0], w[1], w[2], source)
		for class, customer := range []string{"bronze", "silver", "gold"} {
			for _, c := range []struct {
				suffix string
				low    uint64
			}{{"", 1}, {".over_100", 101}} {
				weighted := pick(ofClass(of[1+j], class), c.low, math.MaxUint64).quantile(0.5)
				plain := pick(ofClass(of[0], class), c.low, math.MaxUint64).quantile(0.5)
				t.add(name+customer+"_over_unweighted"+c.suffix, "ratio", weighted/plain, about, "lower")
				t.add(name+customer+".median_error"+c.suffix, "ratio", weighted, about, "lower")
			}
		}
	}
}

// ofClass keeps the flows of a class.
func ofClass(all []flowError, class int) []flowError {
	var of []flowError
	for _, e := range all {
		if e.class == class {
			of = append(of, e)
		}
	}
	return of
}
