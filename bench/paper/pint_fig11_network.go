package paper

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// shortBytes is up to where a flow is short: 10 kB, of which Hadoop's flows are three quarters. They end within a
// round trip or little more, so what slows them down is others' queues.
const shortBytes = 10_000

// fig11Loads are the loads at which fig11Network runs, the paper's last.
var fig11Loads = []int{30, 50}

// fig11Network runs the three queries together in the network of section 6.1, Hadoop at 30 and 50 % of load, beside HPCC
// that has 16 bits on each packet for itself.
func fig11Network(ctx context.Context, o Options, t *table) error {
	n, err := newHPCCNetwork(o)
	if err != nil {
		return err
	}
	plan, err := fig11NetworkPlan(o)
	if err != nil {
		return err
	}
	together, err := fabric.NewReader(plan, "congestion")
	if err != nil {
		return err
	}
	alone, err := congestionFeedback(o, 16, 1)
	if err != nil {
		return err
	}
	var all []scenario
	var traces []*networkTrace
	for _, load := range fig11Loads {
		for _, r := range []*fabric.Reader{alone, together} {
			s, err := n.scenario(o, fmt.Sprintf("hadoop, %d %%", load), transport.Hadoop, float64(load)/100, r)
			if err != nil {
				return err
			}
			if r == together {
				traces = append(traces, newNetworkTrace(n, &s))
			}
			all = append(all, s)
		}
	}
	out, err := simulate(ctx, o, all)
	if err != nil {
		return err
	}
	const source = "PINT section 6.4, Fig. 11; Hadoop, 50 % load"
	aloneRun, togetherRun := &out[len(out)-2], &out[len(out)-1]
	for _, g := range []struct {
		name      string
		in        func(int64) bool
		reference float64
	}{
		{"short", func(bytes int64) bool { return bytes <= shortBytes }, 0.066},
		{"long", func(bytes int64) bool { return bytes >= 1_000_000 }, 0},
	} {
		a, b := aloneRun.p95(g.in), togetherRun.p95(g.in)
		t.against("hpcc.slowdown95_increase."+g.name, "ratio", b/a-1, g.reference, source, "lower")
		t.add("hpcc.slowdown95_alone."+g.name, "slowdown", a, "16 bits on each packet", "lower")
		t.add("hpcc.slowdown95_combined."+g.name, "slowdown", b, "8 of 16 bits on 1 of 16 packets", "lower")
	}
	a, b := aloneRun.deciles(), togetherRun.deciles()
	for d := range a {
		t.add(fmt.Sprintf("hpcc.slowdown95.combined_over_alone.decile%d", d+1), "ratio", b[d]/a[d], source, "lower")
	}
	for i, load := range fig11Loads {
		if err := fig11Latency(ctx, o, plan, traces[i], fmt.Sprintf("network.load%d.", load), t); err != nil {
			return err
		}
	}
	return nil
}

// fig11Latency adds what sinks decode of the flows that are longer than fig11Packets: from the digests that
// the network's switches wrote for the three queries together, and of the same packets for the latency alone.
func fig11Latency(ctx context.Context, o Options, plan *pintplan.Plan, trace *networkTrace, prefix string, t *table) error {
	if len(trace.order) == 0 {
		return nil
	}
	together, err := trace.decode(ctx, plan, true, 0)
	if err != nil {
		return err
	}
	latency, _ := plan.Query("latency")
	q := *latency
	q.Frequency = 1
	single, err := pintplan.New(pintplan.Config{ID: 2, Seed: o.Seed + 1, Bits: q.Bits, Queries: []pint.Query{q}})
	if err != nil {
		return err
	}
	alone, err := trace.decode(ctx, single, false, 0)
	if err != nil {
		return err
	}
	flows := fmt.Sprintf("%d flows of %d packets or more, %d hops", len(trace.order), fig11Packets, together.hops)
	t.add(prefix+"path_decoded", "ratio", together.decoded, flows+", all three queries; none is wrong", "higher")
	t.against(prefix+"latency_error", "ratio", together.errors[0], 0.05, "median, beside the path and HPCC's congestion; "+flows, "lower")
	t.add(prefix+"latency_error_alone", "ratio", alone.errors[0], "the same packets, the latency alone on all of them", "lower")
	t.against(prefix+"latency_error_increase", "ratio", together.errors[0]-alone.errors[0], 0.007, "PINT section 6.4, Fig. 11", "lower")
	return nil
}

// p95 is the 95th percentile of the slowdown of flows of some sizes.
func (r *simulated) p95(in func(bytes int64) bool) float64 {
	return slowdownQuantile(slices.DeleteFunc(slices.Clone(r.flows), func(f flowTime) bool { return !in(f.bytes) }), 0.95)
}

// fig11NetworkPlan is figure 11's, with latencies from 20 ns: a packet is in a switch of this
// network for 46 ns at least.
func fig11NetworkPlan(o Options) (*pintplan.Plan, error) {
	plans, err := fig11Plans(o)
	if err != nil {
		return nil, err
	}
	queries := slices.Clone(plans[0].plan.Queries)
	for i := range queries {
		if queries[i].Aggregation == pint.Quantiles {
			numeric := *queries[i].Numeric
			numeric.Min = 20
			queries[i].Numeric = &numeric
		}
	}
	return pintplan.New(pintplan.Config{ID: 1, Seed: o.Seed, Bits: 16, Queries: queries})
}
