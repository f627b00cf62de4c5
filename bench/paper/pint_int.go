package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/intmd"
	"github.com/weirswitch/weir/bench/netsim/transport"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// intMetadata answers what figure 11's three queries do: the path, latencies of hops, the most used link.
const intMetadata = intmd.NodeID | intmd.HopLatency | intmd.Utilisation

// shimBytes is what Weir's own shim adds for 16 bits (docs/pint.md).
const shimBytes = 8

// pintINT puts PINT next to INT-MD, the stacks of the INT specification as bytes, in the network of section 6.1 with Hadoop's flows, as
// figure 11. HPCC runs on each: on the three queries of figure 11 in 16 bits, and on the largest use in a stack of each switch's
// id, latency and use, which grows hop by hop. Errors are of the same packets, those of the network with INT-MD: decoded from
// their stacks, and from the digests that the plan makes of what the switches saw.
func pintINT(ctx context.Context, o Options) ([]Row, error) {
	n, err := newHPCCNetwork(o)
	if err != nil {
		return nil, err
	}
	plan, err := fig11NetworkPlan(o)
	if err != nil {
		return nil, err
	}
	reader, err := fabric.NewReader(plan, "congestion")
	if err != nil {
		return nil, err
	}
	var t table
	var all []scenario
	var stacks []*stackTrace
	for _, load := range fig11Loads {
		digests, err := n.scenario(o, fmt.Sprintf("PINT, %d %%", load), transport.Hadoop, float64(load)/100, reader)
		if err != nil {
			return nil, err
		}
		s, err := n.scenario(o, fmt.Sprintf("INT-MD, %d %%", load), transport.Hadoop, float64(load)/100, nil)
		if err != nil {
			return nil, err
		}
		// What an acknowledgement brings back is the largest use, not the stack.
		s.config.Fabric.Telemetry.INT, s.config.TelemetryBytes, s.config.AckBytes = false, 0, hpccAck+4
		s.config.Fabric.Telemetry.INTMD = &intmd.Config{Instructions: intMetadata, MaxHops: fabric.MaxRoute}
		stacks = append(stacks, newStackTrace(n, &s))
		all = append(all, digests, s)
	}
	out, err := simulate(ctx, o, all)
	if err != nil {
		return nil, err
	}
	for i, load := range fig11Loads {
		prefix := fmt.Sprintf("load%d.", load)
		if err := stacks[i].rows(ctx, prefix, plan, reader, &t); err != nil {
			return nil, err
		}
		digests, md := &out[2*i], &out[2*i+1]
		for _, g := range []struct {
			name string
			in   func(int64) bool
		}{{"short", func(bytes int64) bool { return bytes <= shortBytes }}, {"long", func(bytes int64) bool { return bytes >= 1_000_000 }}} {
			a, b := digests.p95(g.in), md.p95(g.in)
			t.add(prefix+"slowdown95.pint."+g.name, "slowdown", a, "HPCC on 8 of 16 bits of 1 of 16 packets", "lower")
			t.add(prefix+"slowdown95.int_md."+g.name, "slowdown", b, "HPCC on the largest use in a stack, on each packet", "lower")
			t.add(prefix+"slowdown95.int_md_over_pint."+g.name, "ratio", b/a, "flows that are "+g.name, "higher")
		}
	}
	return t, nil
}

// stackTrace is what the stacks of a network's packets say, next to what its switches saw.
type stackTrace struct {
	*networkTrace
	hops []intmd.Hop

	packets, crossings, added, own uint64
	wrong                          uint64 // stacks that say what their switches did not see
	said                           map[uint32][]*networkPacket
}

// newStackTrace traces flows of a scenario that will run, and counts the bytes of all.
func newStackTrace(n *hpccNetwork, s *scenario) *stackTrace {
	t := &stackTrace{networkTrace: newNetworkTrace(n, s), said: map[uint32][]*networkPacket{}}
	s.config.Stacks = t.stack
	return t
}

// stack takes in the stack of a packet that has arrived.
func (t *stackTrace) stack(flow int, p *fabric.Packet, s intmd.Stack) {
	var ok bool
	if t.hops, ok = s.Hops(t.hops[:0], 0); !ok || len(t.hops) != int(p.Hops) || s.HopsExceeded() || s.MTUExceeded() {
		t.wrong++
		return
	}
	each := uint64(s.HopWords() * 4)
	t.packets++
	for i := range t.hops {
		t.crossings++
		t.own += uint64(p.Bytes)
		t.added += intmd.FixedLen + uint64(i+1)*each
	}
	f, ok := t.flows[uint32(flow)]
	if !ok {
		return
	}
	// Transport calls arrived in front of stack: the packet is the flow's last one.
	saw := f.packets[len(f.packets)-1]
	said := &networkPacket{id: p.ID}
	for i := range t.hops {
		h := &t.hops[i]
		said.latency[i], said.use[i] = h.Latency, uint64(h.Utilisation)
		if uint64(h.Node) != f.path[i] || said.latency[i] != saw.latency[i] || said.use[i] != saw.use[i] {
			t.wrong++
		}
	}
	t.said[uint32(flow)] = append(t.said[uint32(flow)], said)
}

// rows adds what both cost and say.
func (t *stackTrace) rows(ctx context.Context, prefix string, plan *pintplan.Plan, reader *fabric.Reader, to *table) error {
	if t.wrong > 0 {
		return fmt.Errorf("%sstacks of %d hops are not what their switches saw", prefix, t.wrong)
	}
	if len(t.order) == 0 {
		return fmt.Errorf("%sno flow has %d packets", prefix, fig11Packets)
	}
	decoded, err := t.decode(ctx, plan, false, 0)
	if err != nil {
		return err
	}
	source := fmt.Sprintf("INT 2.1: 16 bytes, and at each hop %s; %d packets over %d links behind switches, of %.0f bytes", intMetadata, t.packets, t.crossings, float64(t.own)/float64(t.crossings))
	own, added := float64(t.own)/float64(t.crossings), float64(t.added)/float64(t.crossings)
	to.add(prefix+"added_bytes.int_md", "bytes", added, source, "lower")
	to.add(prefix+"added_bytes.pint", "bytes", float64(reader.Bytes()), "as the paper counts", "lower")
	to.add(prefix+"added_bytes.pint_shim", "bytes", shimBytes, "Weir's shim, for hosts that know nothing of it", "lower")
	to.add(prefix+"share.int_md", "ratio", added/(own+added), source, "lower")
	to.add(prefix+"share.pint", "ratio", float64(reader.Bytes())/(own+float64(reader.Bytes())), "as the paper counts", "lower")
	to.add(prefix+"share.pint_shim", "ratio", shimBytes/(own+shimBytes), "Weir's shim", "lower")

	flows := fmt.Sprintf("%d flows of %d packets or more, %d hops; the same packets", len(t.order), fig11Packets, decoded.hops)
	to.add(prefix+"path_decoded.int_md", "ratio", t.decodedPaths(), "from the first packet on; "+flows, "higher")
	to.add(prefix+"path_decoded.pint", "ratio", decoded.decoded, "none is wrong; "+flows, "higher")
	for i, rank := range fig9Ranks {
		to.add(prefix+"latency_error.int_md."+rank.name, "ratio", t.latencyError(rank.rank), flows, "lower")
		to.add(prefix+"latency_error.pint."+rank.name, "ratio", decoded.errors[i], flows, "lower")
	}
	use, err := t.uses(plan, reader, "congestion")
	if err != nil {
		return err
	}
	to.add(prefix+"use_error.int_md", "ratio", use.errorINT, "mean error of the largest use on a packet's path; "+flows, "lower")
	to.add(prefix+"use_error.pint", "ratio", use.errorPINT, "of the packets that carry the query; "+flows, "lower")
	to.add(prefix+"use_packets.pint", "ratio", use.carry, "of the packets say how used the most used link is; with INT-MD all do, and which it is", "higher")
	to.add(prefix+"use_below.pint", "ratio", use.below, "of the packets met a largest use above 0 and below the plan's least value, where errors have no bound", "lower")
	return nil
}

// decodedPaths is the share of the flows whose every stack names their path, which rows has checked.
func (t *stackTrace) decodedPaths() float64 {
	whole := 0
	for _, flow := range t.order {
		if n := len(t.said[flow]); n > 0 && n == len(t.flows[flow].packets) {
			whole++
		}
	}
	return float64(whole) / float64(len(t.order))
}

// latencyError is the mean error of a quantile of hops' latencies by the stacks.
func (t *stackTrace) latencyError(rank float64) float64 {
	sum, hops := 0.0, 0
	for _, flow := range t.order {
		f := t.flows[flow]
		for hop := range f.path {
			quantile := func(packets []*networkPacket) float64 {
				var all []float64
				for _, p := range packets {
					all = append(all, float64(p.latency[hop]))
				}
				slices.Sort(all)
				return quantileOf(all, rank)
			}
			sum += math.Abs(quantile(t.said[flow])/quantile(f.packets) - 1)
			hops++
		}
	}
	return sum / float64(hops)
}

// uses are what both say of the largest use on packets' paths, of those that met a use above 0.
type uses struct {
	errorINT, errorPINT float64 // means
	carry               float64 // share of the packets whose digests say it
	below               float64 // share of the packets whose largest use is below the plan's least value
}

func (t *stackTrace) uses(plan *pintplan.Plan, reader *fabric.Reader, query string) (u uses, err error) {
	q, ok := plan.Query(query)
	if !ok {
		return u, fmt.Errorf("plan %d has no query %q", plan.ID, query)
	}
	encoder, err := plan.Compile()
	if err != nil {
		return u, err
	}
	packets, carry, below := 0, 0, 0
	for _, flow := range t.order {
		f := t.flows[flow]
		for i, p := range f.packets {
			truth, digest := slices.Max(p.use[:len(f.path)]), uint64(0)
			if truth == 0 {
				continue // no error in proportion
			}
			packets++
			if truth < q.Numeric.Min {
				below++
			}
			u.errorINT += math.Abs(float64(slices.Max(t.said[flow][i].use[:len(f.path)]))/float64(truth) - 1)
			for hop, sw := range f.path {
				digest = encoder.Encode(p.id, hop+1, digest, &pint.Observed{pint.SwitchID: sw, pint.HopLatency: uint64(p.latency[hop]), pint.EgressUtilisation: p.use[hop]})
			}
			if use, ok := reader.Read(p.id, digest); ok {
				carry++
				u.errorPINT += math.Abs(use/float64(truth) - 1)
			}
		}
	}
	u.errorINT /= float64(max(packets, 1))
	u.errorPINT /= float64(max(carry, 1))
	u.carry = float64(carry) / float64(max(packets, 1))
	u.below = float64(below) / float64(max(packets, 1))
	return u, nil
}
