package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/lds"
)

// sizeBins are the flow sizes of figure 10, with the paper's medians for
// 17,500 x 4 cells, as far as the text gives them.
var sizeBins = []struct {
	name      string
	low, high uint64
	median    float64
}{
	{"1_9", 1, 10, 0}, {"10_99", 10, 100, 0}, {"100_499", 100, 500, 0},
	{"500_999", 500, 1000, 0.012}, {"1000_9999", 1000, 10000, 0.004}, {"10000_up", 10000, math.MaxUint64, 0.0006},
}

// levels are the flows' delays over the mean of all, for the lower half of
// figure 10.
var levels = []struct {
	name      string
	low, high float64
}{{"delay_0_50", 0, 0.5}, {"delay_50_150", 0.5, 1.5}, {"delay_150_up", 1.5, math.Inf(1)}}

// alphaPrefix is of rows whose cells of a flow are picked as in the paper, by lds.PaperAlpha.
const alphaPrefix = "paper_alpha."

// ldsFig10 measures figure 10: the median and the 95th percentile of the
// relative error by flow size, for three sizes of the sketch, and by flow size
// and delay; adapted rows have as many rows as users get for that many flows; delay_0_50 are flows whose delay is 0 to 50 % of the mean of all
// packets, and so on. Rows named paper_alpha pick a flow's cells as the paper does, all others as users get it (lds.Balanced). Rows without a prefix have 17,500 x 4 cells and measured
// delays; capture rows have the packets of a real trace, in as many cells
// per flow.
func ldsFig10(ctx context.Context, o Options) ([]Row, error) {
	synthetic, captured, measured, err := ldsInputs(o, ldsSeconds)
	if err != nil {
		return nil, err
	}
	four := func(columns int) lds.Config { return lds.Config{Rows: 4, Columns: columns, Virtual: 1} }
	cases := []struct {
		prefix string
		all    *crossings
		config lds.Config
		delays delays
		alpha  float64
	}{
		{"", synthetic, four(17500), measured, lds.Balanced},
		{alphaPrefix, synthetic, four(17500), measured, lds.PaperAlpha},
		{"two_queues.", synthetic, four(17500), newTwoQueues(), lds.Balanced},
		{"capture.", captured, four(ldsColumns(captured.trace, 17500)), measured, lds.Balanced},
		{"columns_1750.", synthetic, four(1750), measured, lds.Balanced},
		{"columns_1750." + alphaPrefix, synthetic, four(1750), measured, lds.PaperAlpha},
		{"columns_175000.", synthetic, four(175000), measured, lds.Balanced},
		{"adapted.", synthetic, ldsAdapted(17500, len(synthetic.trace.Flows)), measured, lds.Balanced},
	}
	var jobs []ldsJob
	for _, c := range cases {
		jobs = append(jobs, ldsJob{fmt.Sprintf("%s%d columns", c.prefix, c.config.Columns), func(seed uint64) ([]flowError, error) {
			return c.all.of(c.delays, 0, seed).ldsErrors(c.config, nil, c.alpha)
		}})
	}
	results, err := ldsMeasure(ctx, o, 8, jobs)
	if err != nil {
		return nil, err
	}
	var t table
	for i, c := range cases {
		source := fmt.Sprintf("%d x %d cells; %s; %s", c.config.Columns, c.config.Rows, c.delays, c.all.trace.Name)
		for _, bin := range sizeBins {
			s := pick(results[i], bin.low, bin.high)
			if len(s) == 0 {
				continue // a capture need not have flows of all sizes
			}
			if bin.median > 0 && c.config.Rows*c.config.Columns == 4*17500 {
				t.against(c.prefix+"median_error."+bin.name, "ratio", s.quantile(0.5), bin.median, "LDS Section 5.1, Fig. 10; "+source, "lower")
			} else {
				t.add(c.prefix+"median_error."+bin.name, "ratio", s.quantile(0.5), source, "lower")
			}
			t.add(c.prefix+"p95_error."+bin.name, "ratio", s.quantile(0.95), source, "lower")
		}
	}
	source := fmt.Sprintf("LDS Fig. 10, bottom; 17500 x 4 cells; %s", measured)
	for i, c := range cases[:2] { // ours, and by alpha
		for _, bin := range sizeBins[2:] {
			for _, l := range levels {
				of := slices.DeleteFunc(slices.Clone(results[i]), func(e flowError) bool { return e.level < l.low || e.level >= l.high })
				if s := pick(of, bin.low, bin.high); len(s) > 0 {
					t.add(c.prefix+l.name+".median_error."+bin.name, "ratio", s.quantile(0.5), source, "lower")
				}
			}
		}
	}
	return t, nil
}

// ldsColumns is how many columns a trace gets where the paper's gets so many: as many
// per flow.
func ldsColumns(t *workload.Trace, ofPaper int) int {
	return (len(t.Flows)*ofPaper + ldsFlows/2) / ldsFlows
}
