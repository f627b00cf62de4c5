package pint

import (
	"iter"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// Measured is what the switch itself measured at an output port: of all packets
// that left there. Latencies are in ns, queues in packets.
type Measured struct {
	Port                      string
	Value                     pint.Value // HopLatency or QueueOccupancy
	Packets                   uint64
	Median, P90, P99, Highest float64
}

// PlanAnswer is a live plan, with the digest of its file.
type PlanAnswer struct {
	ID     uint16
	Digest uint64
}

// Plans are the live plans, that of sources first.
func (m *Module) Plans() (list []PlanAnswer) {
	for i := range m.plans {
		list = append(list, PlanAnswer{m.plans[i].id, m.plans[i].digest})
	}
	return list
}

// Sink reports whether digests end at the switch: whether it has an edge port.
func (m *Module) Sink() bool { return slices.Contains(m.loaded.edge, true) }

// Decoding is by what the digests that end at the switch are decoded: the live plans, that of sources first, and the
// network's switches and links, as far as the configuration names them.
func (m *Module) Decoding() (plans []*pintplan.Plan, switches []uint64, links *pintpath.Topology) {
	return m.loaded.plans, m.config.Switches, m.loaded.topology
}

// Asks reports whether any live plan asks for one of the values.
func (m *Module) Asks(values ...pint.Value) bool { return m.asked(values...) }

// Measured returns what this switch measured itself, by output port. It is up to
// 100 ms old.
func (m *Module) Measured(value pint.Value) []Measured {
	var list []Measured
	for i := range m.env.Ports {
		var sum histogram
		for _, s := range m.stages {
			s.shown.mu.Lock()
			if value == pint.HopLatency {
				sum.merge(&s.shown.latency[i])
			} else {
				sum.merge(&s.shown.queue[i])
			}
			s.shown.mu.Unlock()
		}
		if sum.total != 0 {
			list = append(list, Measured{
				Port: m.env.Ports[i].Name, Value: value, Packets: sum.total,
				Median: sum.quantile(0.5), P90: sum.quantile(0.9), P99: sum.quantile(0.99), Highest: float64(sum.highest),
			})
		}
	}
	return list
}

// LatencyBuckets iterates over the histogram of the latencies of all packets that left by a port, as far as plans
// ask for latencies: the least latency in ns of each bucket that is not empty, and its packets. Latencies of
// 2^40 ns and more count as the longest below. It is up to 100 ms old.
func (m *Module) LatencyBuckets(port int) iter.Seq2[uint64, uint64] {
	var sum histogram
	for _, s := range m.stages {
		s.shown.mu.Lock()
		sum.merge(&s.shown.latency[port])
		s.shown.mu.Unlock()
	}
	return func(yield func(ns, packets uint64) bool) {
		for i, n := range sum.counts {
			if low, _ := boundsOf(i); n != 0 && !yield(low, n) {
				return
			}
		}
	}
}
