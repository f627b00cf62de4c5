package paper

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/lds"
)

// ldsHoldShrink is how many times fewer packets, flows and cells the small versions of LDS's figures have. Flows have the same sizes, so that rows are
// the same but for luck.
const ldsHoldShrink = 25

// ldsHoldRuns are as many as the luck of one run needs.
func ldsHoldRuns() int {
	if testing.Short() {
		return 5
	}
	return 20
}

// ldsHoldTrace is the trace of figures 9 to 12, small.
func ldsHoldTrace(t *testing.T, o Options, seconds float64) *crossings {
	t.Helper()
	trace, err := workload.Synthetic{
		Packets: ldsPackets / ldsHoldShrink, Flows: ldsFlows / ldsHoldShrink, Shape: ldsShape, Largest: ldsLargest * ldsHoldShrink, Seconds: seconds, Seed: o.Seed,
	}.Trace()
	if err != nil {
		t.Fatal(err)
	}
	return &crossings{trace: trace}
}

// ldsHeld is a row of a figure, and how much of it one small run is off by luck: the relative standard deviation over 40 other seeds.
type ldsHeld struct {
	metric    string
	committed string // the metric of the committed row, if it is another
	deviation float64
}

// holdLDS compares rows of n small runs with the committed ones: they are within six standard errors, of which the committed row's own,
// of at least three runs of 25 times as many flows, adds less than a thirtieth. For a row that has at most a tenth of that to either side, a tenth is found.
func holdLDS(t *testing.T, figure string, rows table, n int, held []ldsHeld) {
	t.Helper()
	results, err := ReadResults(filepath.FromSlash(resultsDir))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, r := range rows {
		got[r.Metric] = r.Value
	}
	for _, h := range held {
		name := h.committed
		if name == "" {
			name = h.metric
		}
		want, ok := results[figure][name]
		value, measured := got[h.metric]
		if !ok || !measured {
			t.Errorf("no row %s of %s", name, figure)
			continue
		}
		allowed := 6 * h.deviation / math.Sqrt(float64(n))
		if off := value/want.Value - 1; math.Abs(off) > allowed {
			t.Errorf("%s: %.4g, %.4g is committed: %+.1f %%, by luck at most %.1f %%", h.metric, value, want.Value, 100*off, 100*allowed)
		} else {
			t.Logf("%s: %.4g, %.4g is committed: %+.1f %% of at most %.1f %%", h.metric, value, want.Value, 100*off, 100*allowed)
		}
		holdCommitted(t, h.metric, value)
	}
}

// TestLDSFig9Holds: errors of delays by LDS in three sizes, by the rivals, and by the mean. Six
// standard errors of 11 rows have a chance of 3e-8 by luck. A tenth is found of shares within 10 %, and of medians of all flows; what the larger
// flows' medians are off by luck is far more, as only 36 flows have over 1,000 packets.
func TestLDSFig9Holds(t *testing.T) {
	o := Options{Seed: 78, Data: dataDir(t)}
	measured, err := readDelays(o)
	if err != nil {
		t.Fatal(err)
	}
	m := ldsFig9Model{"", ldsHoldTrace(t, o, ldsSeconds/ldsHoldShrink), 17500 / ldsHoldShrink, measured}
	n := ldsHoldRuns()
	results, err := ldsMeasure(t.Context(), o, n, m.jobs())
	if err != nil {
		t.Fatal(err)
	}
	var rows table
	rows.ldsFig9(m, results)
	holdLDS(t, "lds-fig9", rows, n, []ldsHeld{
		{"lds.within10.over_1000", "", 0.018},
		{"lds.within10.over_100", "", 0.028},
		{"lds.within10.all", "", 0.030},
		{"lds.median_error.all", "", 0.020},
		{"lds.median_error.over_100", "", 0.17},
		{"lds_70.median_error.all", "lds_1750.median_error.all", 0.023},
		{"lds_7000.within10.all", "lds_175000.within10.all", 0.005},
		{"mpe10.median_error.all", "", 0.033},
		{"mpe1.median_error.all", "", 0.024},
		{"rli.median_error.all", "", 0.018},
		{"average.median_error.all", "", 0.023},
	})
}

// TestLDSFig11Holds: shares of flows within 10 %, under loss, by banks of four rates; a single rate fails at the loss that it is not for. Six standard
// errors of 7 rows have a chance of 2e-8 by luck. A tenth of the banks' rows is found.
func TestLDSFig11Holds(t *testing.T) {
	o := Options{Seed: 78, Data: dataDir(t)}
	measured, err := readDelays(o)
	if err != nil {
		t.Fatal(err)
	}
	all := ldsHoldTrace(t, o, ldsSeconds/ldsHoldShrink)
	n := ldsHoldRuns()
	var rows table
	for _, c := range []ldsFig11Case{
		{"", all, []float64{0.01, 0.1, 0.5, 1}, measured, lds.Balanced, ""},
		{"all_rows_100.", all, nil, measured, lds.Balanced, ""},
	} {
		results, err := ldsMeasure(t.Context(), o, n, c.jobs(17500/ldsHoldShrink))
		if err != nil {
			t.Fatal(err)
		}
		rows.ldsFig11(c, results)
	}
	holdLDS(t, "lds-fig11", rows, n, []ldsHeld{
		{"within10.loss0.1", "", 0.036},
		{"within10.loss0.5", "", 0.036},
		{"within10.loss1", "", 0.036},
		{"over_100.within10.loss0.1", "", 0.036},
		{"over_100.within10.loss1", "", 0.036},
		{"all_rows_100.over_100.within10.loss1", "", 0.045},
		{"all_rows_100.within10.loss1", "", 0.19},
	})
}

// TestLDSFig12Holds: what weights of 1, 10 and 100 gain for heavier flows, and cost the others. Six standard errors of 4 rows have a
// chance of 8e-9 by luck. A tenth of what bronze flows pay is found; of the gain of gold flows, of which there are 58, more than half, and
// that they gain twenty times with weights of 1, 50 and 2,500.
func TestLDSFig12Holds(t *testing.T) {
	o := Options{Seed: 78, Data: dataDir(t)}
	measured, err := readDelays(o)
	if err != nil {
		t.Fatal(err)
	}
	m := ldsFig12Model{"", ldsHoldTrace(t, o, 5), lds.Config{Rows: 4, Columns: 25000 / ldsHoldShrink, Virtual: 1}, measured, lds.Balanced}
	n := ldsHoldRuns()
	results, err := ldsMeasure(t.Context(), o, n, m.jobs())
	if err != nil {
		t.Fatal(err)
	}
	var rows table
	rows.ldsFig12(m, results)
	holdLDS(t, "lds-fig12", rows, n, []ldsHeld{
		{"bronze_over_unweighted", "", 0.028},
		{"weights_1_50_2500.bronze_over_unweighted", "", 0.033},
		{"silver_over_unweighted", "", 0.18},
		{"gold_over_unweighted", "", 0.33},
	})
}
