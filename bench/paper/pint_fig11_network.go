package paper

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
)

// shortBytes is up to where a flow is short: 10 kB, of which Hadoop's flows are three quarters. They end within a
// round trip or little more, so what slows them down is others' queues.
const shortBytes = 10_000

// fig11Network runs the three queries together in the network of section 6.1, Hadoop at 50 % of load, beside HPCC that
// has 16 bits on each packet for itself.
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
	for _, r := range []*fabric.Reader{alone, together} {
		s, err := n.scenario(o, "hadoop", transport.Hadoop, 0.5, r)
		if err != nil {
			return err
		}
		all = append(all, s)
	}
	sink, err := newFig11Sink(plan, n, all[1].flows)
	if err != nil {
		return err
	}
	all[1].config.Arrived, all[1].config.Fabric.Telemetry.Observed = sink.arrived, sink.observed
	out, err := simulate(ctx, o, all)
	if err != nil {
		return err
	}
	const source = "PINT section 6.4, Fig. 11; Hadoop, 50 % load"
	for _, g := range []struct {
		name      string
		in        func(int64) bool
		reference float64
	}{
		{"short", func(bytes int64) bool { return bytes <= shortBytes }, 0.066},
		{"long", func(bytes int64) bool { return bytes >= 1_000_000 }, 0},
	} {
		a, b := out[0].p95(g.in), out[1].p95(g.in)
		t.against("hpcc.slowdown95_increase."+g.name, "ratio", b/a-1, g.reference, source, "lower")
		t.add("hpcc.slowdown95_alone."+g.name, "slowdown", a, "16 bits on each packet", "lower")
		t.add("hpcc.slowdown95_combined."+g.name, "slowdown", b, "8 of 16 bits on 1 of 16 packets", "lower")
	}
	a, b := out[0].deciles(), out[1].deciles()
	for d := range a {
		t.add(fmt.Sprintf("hpcc.slowdown95.combined_over_alone.decile%d", d+1), "ratio", b[d]/a[d], source, "lower")
	}
	return sink.addRows(t)
}

// p95 is the 95th percentile of the slowdown of flows of some sizes.
func (r *simulated) p95(in func(bytes int64) bool) float64 {
	return slowdownQuantile(slices.DeleteFunc(slices.Clone(r.flows), func(f flowTime) bool { return !in(f.bytes) }), 0.95)
}

// fig11NetworkPlan is figure 11's, with latencies from 10 ns: the queues of this network are short.
func fig11NetworkPlan(o Options) (*pintplan.Plan, error) {
	plans, err := fig11Plans(o)
	if err != nil {
		return nil, err
	}
	queries := slices.Clone(plans[0].plan.Queries)
	for i := range queries {
		if queries[i].Aggregation == pint.Quantiles {
			numeric := *queries[i].Numeric
			numeric.Min = 10
			queries[i].Numeric = &numeric
		}
	}
	return pintplan.New(pintplan.Config{ID: 1, Seed: o.Seed, Bits: 16, Queries: queries})
}

// fig11Sink records the digests of some flows, beside what switches really saw.
type fig11Sink struct {
	plan     *pintplan.Plan
	recorder *pintsink.Recorder
	flows    map[uint32]*fig11Flow
	order    []uint32
}

type fig11Flow struct {
	path    []uint64
	latency [fabric.MaxRoute][]float64 // by hop, ns
}

// fig11Sampled is how many flows are recorded: those of fig11Packets packets or more.
const fig11Sampled = 200

func newFig11Sink(plan *pintplan.Plan, n *hpccNetwork, flows []transport.Flow) (*fig11Sink, error) {
	r, err := pintsink.NewRecorder(plan, pintsink.RecorderConfig{Decoders: map[string]pintsink.DecoderConfig{"path": {Values: n.graph.IDs()}}})
	if err != nil {
		return nil, err
	}
	s := &fig11Sink{plan: plan, recorder: r, flows: map[uint32]*fig11Flow{}}
	for i, f := range flows {
		if len(s.flows) < fig11Sampled && f.Bytes >= fig11Packets*hpccPayload {
			s.flows[uint32(i)] = &fig11Flow{}
			s.order = append(s.order, uint32(i))
		}
	}
	return s, nil
}

// observed notes what a switch saw.
func (s *fig11Sink) observed(p *fabric.Packet, v *pint.Observed) {
	f, ok := s.flows[p.Flow]
	if !ok {
		return
	}
	hop := int(p.Hops) - 1
	if hop == len(f.path) {
		f.path = append(f.path, v[pint.SwitchID])
	}
	f.latency[hop] = append(f.latency[hop], float64(v[pint.HopLatency]))
}

// arrived records a packet.
func (s *fig11Sink) arrived(flow int, now event.Time, p *fabric.Packet) {
	if _, ok := s.flows[uint32(flow)]; ok {
		s.recorder.Record(&pint.Record{Flow: fig11Key(uint32(flow)), ID: p.ID, Digest: p.Digest, TimeNs: uint64(now / event.Nanosecond), Plan: s.plan.ID, Hops: p.Hops})
	}
}

func fig11Key(flow uint32) pint.FlowKey {
	k := pint.FlowKey{Version: 4}
	binary.BigEndian.PutUint32(k.Src[:], flow)
	return k
}

// addRows compares what was decoded with the truth. Hops whose median is less than the smallest latency of the
// code are left out: their relative error says nothing.
func (s *fig11Sink) addRows(t *table) error {
	decoded, hops, sum := 0, 0, 0.0
	for _, flow := range s.order {
		f, key := s.flows[flow], fig11Key(flow)
		if a, known := s.recorder.Path("path", key); known && a.Path != nil {
			if !slices.Equal(a.Path, f.path) {
				return fmt.Errorf("flow %d: decoded %v, the path is %v", flow, a.Path, f.path)
			}
			decoded++
		}
		for i := range f.path {
			want := quantileOf(sortedCopy(f.latency[i]), 0.5)
			got, known := s.recorder.Quantile("latency", key, i+1, 0.5)
			if known && want >= 10 {
				sum += math.Abs(got.Value/want - 1)
				hops++
			}
		}
	}
	if len(s.flows) == 0 || hops == 0 {
		return nil
	}
	t.add("network.path_decoded", "ratio", float64(decoded)/float64(len(s.flows)), fmt.Sprintf("%d flows of 500 packets or more, all three queries in the simulated network; none is wrong", len(s.flows)), "higher")
	t.add("network.latency_error", "ratio", sum/float64(hops), fmt.Sprintf("median of %d flows' hops, beside the path and HPCC's congestion", hops), "lower")
	return nil
}
