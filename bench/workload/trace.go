package workload

import "github.com/weirswitch/weir/pipeline/packet"

// Packet is a packet as telemetry sees it.
type Packet struct {
	// ID is the packet id: distinct for all packets of a synthetic trace; in a
	// capture equal only for packets whose bytes do not distinguish them.
	ID uint64
	// TimeNs is the arrival, in nanoseconds from the beginning of the trace.
	TimeNs int64
	// Flow is the index of its flow in Trace.Flows.
	Flow uint32
	// Bytes is the length on the wire, without FCS.
	Bytes uint32
}

// Flow is a flow of a trace, with its exact counts.
type Flow struct {
	Key packet.FlowKey
	// Hash is the hash of the key, as Packet.FlowHash but with all 64 bits.
	Hash    uint64
	Packets uint64
	Bytes   uint64
}

// Trace is packets in the order of their times. Flows that no packet belongs
// to do not occur.
type Trace struct {
	// Name says in a clause what the trace is, for reports.
	Name  string
	Flows []Flow
	// DurationNs is the time from the beginning to the end of the trace.
	DurationNs int64

	packets []Packet   // of a capture
	order   []uint32   // of a synthetic trace: flow by packet
	draw    *Synthetic // how the rest of a packet is made
}

// Len is the number of packets.
func (t *Trace) Len() int { return max(len(t.packets), len(t.order)) }

// At returns packet i, 0 <= i < Len. It does not allocate.
func (t *Trace) At(i int) Packet {
	if t.draw != nil {
		return t.draw.packet(i, t.order[i])
	}
	return t.packets[i]
}

// Bytes is the sum of the packets' lengths.
func (t *Trace) Bytes() (sum uint64) {
	for i := range t.Flows {
		sum += t.Flows[i].Bytes
	}
	return sum
}
