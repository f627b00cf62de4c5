package paper

import (
	"context"
	"math"
	"testing"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/lds"
)

// TestTwoQueues: the means are the model's, and a packet's delay says nothing
// about the next one's. 6 standard errors have a chance of 2e-9; the tabulated
// quantiles cut the tail, which costs below 0.1 % of the mean.
func TestTwoQueues(t *testing.T) {
	q := newTwoQueues()
	const n, seed = 200_000, 7
	sum, count := map[bool]float64{}, map[bool]float64{}
	lag, last := 0.0, 0.0
	for i := range uint64(n) {
		flow := uint32(i % 1000)
		wait, low := float64(q.of(seed, flow, i, 0))-propagationNs, q.lowPriority(seed, flow)
		sum[low] += wait
		count[low]++
		x := wait/lowPriorityNs - 1
		if !low {
			x = wait/highPriorityNs - 1
		}
		lag, last = lag+x*last, x
	}
	for low, mean := range map[bool]float64{false: highPriorityNs, true: lowPriorityNs} {
		if got := sum[low] / count[low]; math.Abs(got/mean-1) > 6/math.Sqrt(count[low])+0.001 {
			t.Errorf("low priority %v: a mean wait of %.0f ns, want %.0f", low, got, mean)
		}
	}
	if z := lag / math.Sqrt(n); math.Abs(z) > 6 {
		t.Errorf("delays of neighbours correlate: deviate %.1f", z)
	}
}

// constantDelay delays all packets alike.
type constantDelay int64

func (c constantDelay) of(uint64, uint32, uint64, int64) int64 { return int64(c) }
func (c constantDelay) String() string                         { return "constant" }

// flowDelay gives each flow its own delay.
type flowDelay struct{}

func (flowDelay) of(_ uint64, flow uint32, _ uint64, _ int64) int64 { return 1000 * int64(1+flow) }
func (flowDelay) String() string                                    { return "by flow" }

func smallTrace(t *testing.T, packets, flows int) *workload.Trace {
	t.Helper()
	tr, err := workload.Synthetic{Packets: packets, Flows: flows, Seconds: 1, Seed: 1}.Trace()
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestLDSRivalsOnConstantDelay: where delays do not vary, every estimator must
// be exact, so a rival's error is its model's and not its implementation's.
func TestLDSRivalsOnConstantDelay(t *testing.T) {
	x := &crossing{trace: smallTrace(t, 20000, 500), delays: constantDelay(4321), loss: 0.05, seed: 3}
	ldsErrs, err := ldsScheme(700)(x)
	if err != nil {
		t.Fatal(err)
	}
	for name, errs := range map[string][]flowError{
		"average": x.averageErrors(), "mpe": x.mpeErrors(0.1), "rli": x.rliErrors(1000, 0), "lds": ldsErrs,
	} {
		if len(errs) < 400 {
			t.Errorf("%s: errors of %d flows", name, len(errs))
		}
		exact := 0
		for _, e := range errs {
			if e.err < 1e-9 {
				exact++
			} else if name != "lds" || !math.IsInf(e.err, 1) {
				t.Fatalf("%s: an error of %g", name, e.err)
			}
		}
		if exact == 0 {
			t.Errorf("%s: no estimate", name)
		}
	}
}

// TestMPEKnowsALoneFlow: if the only flow is sampled whole, the estimate lies
// between its two samples; if delays are by flow, flows that do not overlap are
// told exactly.
func TestMPEKnowsALoneFlow(t *testing.T) {
	x := &crossing{trace: smallTrace(t, 100, 1), delays: flowDelay{}, seed: 3}
	for _, e := range x.mpeErrors(1) {
		if e.err > 1e-9 {
			t.Errorf("an error of %g", e.err)
		}
	}
	// Without samples, all flows get the mean of all.
	y := &crossing{trace: smallTrace(t, 1000, 50), delays: flowDelay{}, seed: 3}
	mpe, average := y.mpeErrors(1e-12), y.averageErrors()
	for i := range mpe {
		if mpe[i] != average[i] {
			t.Fatalf("flow %d: %+v without a sample, %+v by the mean", i, mpe[i], average[i])
		}
	}
}

// TestCrossing: losses come at their rate, and the truth is that of the packets
// that came.
func TestCrossing(t *testing.T) {
	x := &crossing{trace: smallTrace(t, 50000, 100), delays: flowDelay{}, loss: 0.1, seed: 9}
	lost := 0
	x.arrivals(func(_ workload.Packet, _ int64, l bool) {
		if l {
			lost++
		}
	})
	if z := (float64(lost) - 5000) / math.Sqrt(4500); math.Abs(z) > 6 {
		t.Errorf("%d of 50,000 packets lost, expected a tenth", lost)
	}
	for f, mean := range x.truth().mean {
		if !math.IsNaN(mean) && math.Abs(mean-1000*float64(1+f)) > 1e-6 {
			t.Fatalf("flow %d: a mean of %g", f, mean)
		}
	}
	d, err := x.sketch(lds.Config{Rows: 2, Columns: 100, Virtual: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, known := d.Lost(); n != int64(lost) || !known {
		t.Errorf("the points say %d lost, %d were", n, lost)
	}
}

func TestWithin(t *testing.T) {
	s := sample{1, 2, 2, 3, math.Inf(1)}
	for bound, want := range map[float64]float64{0.5: 0, 1: 0.2, 2: 0.6, 2.5: 0.6, 3: 0.8, math.MaxFloat64: 0.8} {
		if got := s.within(bound); got != want {
			t.Errorf("within %g: %g, want %g", bound, got, want)
		}
	}
}

// TestLDSFloors: what the figures must reach, in quick runs too.
func TestLDSFloors(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long")
	}
	for name, figure := range map[string]struct {
		run    func(context.Context, Options) ([]Row, error)
		bounds map[string][2]float64
	}{
		"sizing": {ldsSizing, ldsSizingBounds},
		"fig10":  {ldsFig10, ldsFig10Bounds},
		"fig9": {ldsFig9Test, map[string][2]float64{
			"all_flows.lds_over_best_rival": {0, 0.9},
		}},
		"network": {ldsNetworkFigure, map[string][2]float64{
			"refused_cells.lossless": {0, 0.01}, "wrong_losses": {0, 0}, "wrong_named_losses": {0, 0}, "median_error": {0, 0.02}, "worst_error": {0, 0.05}, "p99_worst_error": {0, 0.05},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := figure.run(context.Background(), Options{Seed: 2, Quick: true, Data: dataDir(t)})
			if err != nil {
				t.Fatal(err)
			}
			rows := map[string]float64{}
			for _, r := range all {
				rows[r.Metric] = r.Value
			}
			for metric, bound := range figure.bounds {
				if v, ok := rows[metric]; !ok || v < bound[0] || v > bound[1] {
					t.Errorf("%s is %v, not in %v", metric, v, bound)
				}
			}
		})
	}
}

// ldsFig9Test is the part of figure 9 about all flows.
func ldsFig9Test(ctx context.Context, o Options) ([]Row, error) {
	measured, err := readDelays(o)
	if err != nil {
		return nil, err
	}
	var t table
	err = ldsAllFlows(ctx, o, measured, &t)
	return t, err
}

var (
	ldsSizingBounds = map[string][2]float64{
		"one_row.computed":       {0.90, 0.92},
		"one_row.simulated":      {0.90, 0.92},
		"four_rows.computed":     {0.975, 0.995},
		"four_rows.simulated":    {0.975, 0.995},
		"size.losses500.virtual": {5, 5},
		"size.losses0.rows":      {4, 4},
	}
	ldsFig10Bounds = map[string][2]float64{
		"median_error.500_999":              {0, 0.012},
		"median_error.1000_9999":            {0, 0.004},
		"median_error.10000_up":             {0, 0.0006},
		"two_queues.median_error.500_999":   {0, 0.012},
		"two_queues.median_error.1000_9999": {0, 0.004},
		"two_queues.median_error.10000_up":  {0, 0.0006},
		"columns_175000.median_error.10_99": {0, 0.01},
		"columns_1750.median_error.500_999": {0.05, 0.5},
		"capture.median_error.1000_9999":    {0, 0.01},
	}
)

// TestShortRecords: where records are short, rows that adapt to them know more flows than those that adapt to flows alone, and records keep within their bound.
func TestShortRecords(t *testing.T) {
	x := &crossing{trace: smallTrace(t, 90_000, 1700), delays: flowDelay{}, seed: 3}
	const bytes = 19_000
	c := lds.Config{Rows: 4, Columns: 1750, Virtual: 1}
	if rows := c.BestRows(1700, bytes); rows != 1 {
		t.Fatalf("%d rows", rows)
	}
	var within [3]float64
	for i, rows := range []int{c.BestRows(1700, bytes), c.BestRows(1700, 0), c.BestRows(1700, 0)} {
		errs, err := x.recordErrors(c.WithRows(rows), []int{bytes, bytes, math.MaxInt32}[i])
		if err != nil {
			t.Fatal(err)
		}
		within[i] = pick(errs, 1, math.MaxUint64).within(0.1)
	}
	if within[0] < within[1]+0.1 || within[2] < within[0] {
		t.Errorf("%.3f of the flows are within 10 %%, %.3f by flows alone, %.3f in whole records", within[0], within[1], within[2])
	}
}
