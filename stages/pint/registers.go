package pint

import "github.com/weirswitch/weir/pipeline/packet"

// Record takes in a digest that a sink of another make took off a packet, as it did at a P4
// target's CPU port: p is the packet as it left, parsed, with the id and the arrival that the sink
// had. It may be called while questions are asked.
func (m *Module) Record(b *packet.Batch, p *packet.Packet, plan uint16, hops int, digest uint64) {
	var r record
	r.describe(b, p, plan, hops, digest, false)
	m.take(&r)
}

// Lose counts digests that were lost on the way to Record: the next batch of digests says so.
func (m *Module) Lose(digests uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outbox != nil {
		m.outbox.missed += digests
		m.outbox.lost.Add(digests)
	}
}
