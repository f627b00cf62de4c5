package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
)

// Distributions of the sizes of flows.
const (
	// DistributionEqual gives all flows the same number of packets, and sends one of each in turn.
	DistributionEqual = "equal"
	// DistributionPareto gives them numbers with a heavy tail, and sends them in a random order.
	DistributionPareto = "pareto"
)

// A flow of a heavy-tailed load has at most the share largestFlow of the packets, or largestMean times the mean of all flows where that is more: of
// few flows each has a large share.
const (
	largestFlow = 0.02
	largestMean = 20
)

// maxOrdered bounds the packets of a load whose order is kept in memory, 6 bytes for each.
const maxOrdered = 1 << 26

// flowOrder says to which flow each packet of a load belongs.
type flowOrder struct {
	flows uint64
	of    []uint32 // by packet; nil: packet i is of flow i mod flows
	nth   []uint16 // by packet: how many of its flow came before it
}

func newFlowOrder(t *Traffic) flowOrder {
	o := flowOrder{flows: uint64(t.Flows)}
	if t.Distribution != DistributionPareto {
		return o
	}
	o.of, o.nth = make([]uint32, 0, t.Count), make([]uint16, t.Count)
	for flow, size := range paretoSizes(t.Flows, t.Count, t.Shape) {
		for range size {
			o.of = append(o.of, uint32(flow))
		}
	}
	random := rand.New(rand.NewPCG(t.Seed, uint64(t.Flows)))
	random.Shuffle(len(o.of), func(i, j int) { o.of[i], o.of[j] = o.of[j], o.of[i] })
	seen := make([]uint16, t.Flows)
	for i, flow := range o.of {
		o.nth[i] = seen[flow]
		seen[flow]++
	}
	return o
}

// packet returns the flow of packet i, and how many packets of it came before, modulo 2^16.
func (o *flowOrder) packet(i uint64) (flow uint64, nth uint16) {
	if o.of == nil || i >= uint64(len(o.of)) {
		return i % o.flows, uint16(i / o.flows)
	}
	return uint64(o.of[i]), o.nth[i]
}

// paretoSizes are the sizes of flows, at least 1 each and the largest first, that add up to count: the
// quantiles of P(size > x) = (scale/x)^shape in the middle of as many equal steps, so that the tail does not
// hang on a lucky draw, cut at [largestFlow] or [largestMean]. What the cut or the rounding leaves over goes to the flows in turn.
func paretoSizes(flows, count int, shape float64) []int {
	cut := max(largestFlow, min(largestMean/float64(flows), 1)) * float64(count)
	cut = max(cut, 1)
	quantile := func(scale float64, f int) int {
		x := scale * math.Pow((float64(f)+0.5)/float64(flows), -1/shape)
		return int(min(max(x, 1), cut))
	}
	sum := func(scale float64) (n int) {
		for f := range flows {
			n += quantile(scale, f)
		}
		return n
	}
	low, high := 0.0, float64(count)
	for range 60 {
		if middle := (low + high) / 2; sum(middle) <= count {
			low = middle
		} else {
			high = middle
		}
	}
	sizes := make([]int, flows)
	left := count
	for f := range sizes {
		sizes[f] = quantile(low, f)
		left -= sizes[f]
	}
	for f := 0; left > 0; f = (f + 1) % flows {
		sizes[f]++
		left--
	}
	return sizes
}

// FlowCount is the truth about one flow of a load: what its sender sent and its receiver counted, each packet once. Bytes
// are those of whole frames without FCS.
type FlowCount struct {
	Flow          string `json:"flow"` // "10.0.0.1:1234 > 10.0.0.2:80 udp"
	Sent          uint64 `json:"sent"` // packets
	Received      uint64 `json:"received"`
	SentBytes     uint64 `json:"sent_bytes"`
	ReceivedBytes uint64 `json:"received_bytes"`
}

// LoadCount is the truth about one load of kind "flows".
type LoadCount struct {
	From  string      `json:"from"`
	To    string      `json:"to"`
	Flows []FlowCount `json:"flows"`
}

// counts returns for each flow what was sent and what the tracker saw.
func (l *load) counts(frames *flowFrames, track *tracker, sent uint64) *LoadCount {
	c := &LoadCount{From: l.From, To: l.To, Flows: make([]FlowCount, l.Flows)}
	for i := range sent {
		flow, _ := frames.order.packet(i)
		c.Flows[flow].Sent++
	}
	size := uint64(len(frames.template))
	for flow := range c.Flows {
		f := &c.Flows[flow]
		f.Flow = frames.name(uint64(flow))
		f.Received = track.perFlow[flow]
		f.SentBytes, f.ReceivedBytes = f.Sent*size, f.Received*size
	}
	return c
}

// name is the key of a flow as text.
func (f *flowFrames) name(flow uint64) string {
	source, port := f.source(flow)
	return fmt.Sprintf("%s > %s udp", netip.AddrPortFrom(netip.AddrFrom4(source), port),
		netip.AddrPortFrom(netip.AddrFrom4([4]byte(f.template[30:34])), f.port()))
}
