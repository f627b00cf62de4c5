package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// networkTrace is what switches saw of some flows' packets, which so can be given to any plan: digests of
// equal size do not change what a network does.
type networkTrace struct {
	ids    []uint64 // of the network's switches
	flows  map[uint32]*networkFlow
	order  []uint32
	moving map[uint64]*networkPacket // by packet id
}

type networkFlow struct {
	path    []uint64
	packets []*networkPacket // as they arrived
}

type networkPacket struct {
	id, digest uint64
	arrived    uint64                  // ns
	latency    [fabric.MaxRoute]uint32 // by hop, ns
	use        [fabric.MaxRoute]uint64
}

// networkFlows is how many flows are traced: of those of fig11Packets packets or more.
const networkFlows = 200

// newNetworkTrace traces flows of a scenario that will run.
func newNetworkTrace(n *hpccNetwork, s *scenario) *networkTrace {
	t := &networkTrace{ids: n.graph.IDs(), flows: map[uint32]*networkFlow{}, moving: map[uint64]*networkPacket{}}
	for i, f := range s.flows {
		if len(t.flows) < networkFlows && f.Bytes >= fig11Packets*hpccPayload {
			t.flows[uint32(i)] = &networkFlow{}
			t.order = append(t.order, uint32(i))
		}
	}
	s.config.Arrived, s.config.Fabric.Telemetry.Observed = t.arrived, t.observed
	return t
}

func (t *networkTrace) observed(p *fabric.Packet, v *pint.Observed) {
	f, ok := t.flows[p.Flow]
	if !ok {
		return
	}
	hop := int(p.Hops) - 1
	if hop == len(f.path) {
		f.path = append(f.path, v[pint.SwitchID])
	}
	packet := t.moving[p.ID]
	if packet == nil {
		packet = &networkPacket{id: p.ID}
		t.moving[p.ID] = packet
	}
	packet.latency[hop], packet.use[hop] = uint32(v[pint.HopLatency]), v[pint.EgressUtilisation]
}

func (t *networkTrace) arrived(flow int, at event.Time, p *fabric.Packet) {
	f, ok := t.flows[uint32(flow)]
	if !ok {
		return
	}
	packet := t.moving[p.ID]
	delete(t.moving, p.ID)
	packet.digest, packet.arrived = p.Digest, uint64(at/event.Nanosecond)
	f.packets = append(f.packets, packet)
}

// networkDecoded is what a sink, or who asks about its records, made of a trace.
type networkDecoded struct {
	decoded     float64                 // share of the flows whose path is certain
	errors      [len(fig9Ranks)]float64 // mean relative errors of hops' quantiles
	compression [len(fig9Ranks)]float64 // the same, if the codes of all hops and packets were known
	hops        int
}

// decode gives the first packets of each flow, 0: all, to a sink, with a plan's digests; those that the network
// has written must be the same. Latencies are what weir query latency answers from the sink's records, or, of a query with a sketch,
// what the sink reads on the fly.
func (t *networkTrace) decode(ctx context.Context, plan *pintplan.Plan, written bool, packets int) (networkDecoded, error) {
	var out networkDecoded
	q, _ := plan.Query("latency")
	codec, err := encode.NewCodec(encode.CodecConfig{Bits: q.Bits, Multiplicative: true, Min: q.Numeric.Min, Max: q.Numeric.Max})
	if err != nil {
		return out, err
	}
	s, err := newNetworkSink(plan, t.ids)
	if err != nil {
		return out, err
	}
	for _, flow := range t.order {
		f := t.flows[flow]
		if packets > 0 {
			f = &networkFlow{f.path, f.packets[:min(packets, len(f.packets))]}
		}
		if err := s.take(flow, f, written); err != nil {
			return out, err
		}
	}
	s.store.Sort()
	for _, flow := range t.order {
		f, key := t.flows[flow], networkKey(flow)
		if packets > 0 {
			f = &networkFlow{f.path, f.packets[:min(packets, len(f.packets))]}
		}
		if a, known := s.recorder.Path("path", key); known && a.Path != nil {
			if !slices.Equal(a.Path, f.path) {
				return out, fmt.Errorf("flow %d: decoded %v, the path is %v", flow, a.Path, f.path)
			}
			out.decoded++
		}
		quantiles, err := s.quantiles(ctx, key, len(f.path), q.SpaceBytes > 0)
		if err != nil {
			return out, fmt.Errorf("flow %d, %d packets: %w", flow, len(f.packets), err)
		}
		out.add(quantiles, codec, f)
	}
	out.decoded /= float64(len(t.order))
	for i := range out.errors {
		out.errors[i] /= float64(out.hops)
		out.compression[i] /= float64(out.hops)
	}
	return out, nil
}

// add sums the errors of one flow's hops.
func (d *networkDecoded) add(quantiles []hopQuantiles, codec *encode.Codec, f *networkFlow) {
	for hop := range f.path {
		exact, decoded := make([]float64, len(f.packets)), make([]float64, len(f.packets))
		for i, p := range f.packets {
			exact[i] = float64(p.latency[hop])
			decoded[i] = codec.Decode(codec.Encode(uint64(p.latency[hop]), p.id%encode.RoundOne))
		}
		slices.Sort(exact)
		slices.Sort(decoded)
		for i, rank := range fig9Ranks {
			want := quantileOf(exact, rank.rank)
			d.errors[i] += math.Abs(quantiles[hop][i]/want - 1)
			d.compression[i] += math.Abs(quantileOf(decoded, rank.rank)/want - 1)
		}
		d.hops++
	}
}
