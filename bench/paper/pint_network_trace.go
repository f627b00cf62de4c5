package paper

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	pintsink "github.com/weirswitch/weir/telemetry/pint/sink"
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

func (t *networkTrace) arrived(flow int, _ event.Time, p *fabric.Packet) {
	f, ok := t.flows[uint32(flow)]
	if !ok {
		return
	}
	packet := t.moving[p.ID]
	delete(t.moving, p.ID)
	packet.digest = p.Digest
	f.packets = append(f.packets, packet)
}

// networkDecoded is what a sink made of a trace.
type networkDecoded struct {
	decoded     float64                 // share of the flows whose path is certain
	errors      [len(fig9Ranks)]float64 // mean relative errors of hops' quantiles
	compression [len(fig9Ranks)]float64 // the same, if the codes of all hops and packets were known
	hops        int
}

// decode gives the first packets of each flow, 0: all, to a recorder, with a plan's digests; those that the network
// has written must be the same.
func (t *networkTrace) decode(plan *pintplan.Plan, written bool, packets int) (networkDecoded, error) {
	var out networkDecoded
	encoder, err := plan.Compile()
	if err != nil {
		return out, err
	}
	q, _ := plan.Query("latency")
	codec, err := encode.NewCodec(encode.CodecConfig{Bits: q.Bits, Multiplicative: true, Min: q.Numeric.Min, Max: q.Numeric.Max})
	if err != nil {
		return out, err
	}
	config := pintsink.RecorderConfig{ByOrder: true}
	if _, has := plan.Query("path"); has {
		config.Decoders = map[string]pintsink.DecoderConfig{"path": {Values: t.ids}}
	}
	recorder, err := pintsink.NewRecorder(plan, config)
	if err != nil {
		return out, err
	}
	for _, flow := range t.order {
		f, key := t.flows[flow], pint.FlowKey{Version: 4}
		binary.BigEndian.PutUint32(key.Src[:], flow)
		if packets > 0 {
			f = &networkFlow{f.path, f.packets[:min(packets, len(f.packets))]}
		}
		for _, p := range f.packets {
			digest := uint64(0)
			for i, sw := range f.path {
				digest = encoder.Encode(p.id, i+1, digest, &pint.Observed{pint.SwitchID: sw, pint.HopLatency: uint64(p.latency[i]), pint.EgressUtilisation: p.use[i]})
			}
			if written && digest != p.digest {
				return out, fmt.Errorf("flow %d, packet %x: the network wrote %x, the plan gives %x", flow, p.id, p.digest, digest)
			}
			recorder.Record(&pint.Record{Flow: key, ID: p.id, Digest: digest, Plan: plan.ID, Hops: uint8(len(f.path))})
		}
		if a, known := recorder.Path("path", key); known && a.Path != nil {
			if !slices.Equal(a.Path, f.path) {
				return out, fmt.Errorf("flow %d: decoded %v, the path is %v", flow, a.Path, f.path)
			}
			out.decoded++
		}
		if err := out.add(recorder, codec, key, f); err != nil {
			return out, fmt.Errorf("flow %d: %w", flow, err)
		}
	}
	out.decoded /= float64(len(t.order))
	for i := range out.errors {
		out.errors[i] /= float64(out.hops)
		out.compression[i] /= float64(out.hops)
	}
	return out, nil
}

// add sums the errors of one flow's hops.
func (d *networkDecoded) add(recorder *pintsink.Recorder, codec *encode.Codec, key pint.FlowKey, f *networkFlow) error {
	for hop := range f.path {
		exact, decoded := make([]float64, len(f.packets)), make([]float64, len(f.packets))
		for i, p := range f.packets {
			exact[i] = float64(p.latency[hop])
			decoded[i] = codec.Decode(codec.Encode(uint64(p.latency[hop]), p.id%encode.RoundOne))
		}
		slices.Sort(exact)
		slices.Sort(decoded)
		for i, rank := range fig9Ranks {
			got, known := recorder.Quantile("latency", key, hop+1, rank.rank)
			if !known {
				return fmt.Errorf("hop %d has no sample after %d packets", hop+1, len(f.packets))
			}
			want := quantileOf(exact, rank.rank)
			d.errors[i] += math.Abs(got.Value/want - 1)
			d.compression[i] += math.Abs(quantileOf(decoded, rank.rank)/want - 1)
		}
		d.hops++
	}
	return nil
}
