package oblivious

import (
	"github.com/weirswitch/weir/pipeline/epoch"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// What follows is for a module without workers: a P4 target copies the packets that it admits
// to its control plane, which keeps the sample.

// Sampler makes an empty sampler of packets.
func (m *Module) Sampler() *oblivious.Sampler {
	main, _ := m.config.samplers(m.family)
	return mustSampler(main)
}

// EpochBits is the base-2 logarithm of an epoch in ns.
func (m *Module) EpochBits() uint8 { return uint8(m.config.EpochBits) }

// Insert enters a parsed packet that was admitted into a sampler. It does not count it.
func (m *Module) Insert(s *oblivious.Sampler, b *packet.Batch, p *packet.Packet) {
	if n := length(b.Mem, p); s.Admits(p.ID, n) {
		key := sampleKey(m.keyer.key(b.Data(p), p))
		s.Insert(p.ID, n, &key)
	}
}

// Emit makes the record of an epoch of what a sampler has.
func (m *Module) Emit(s *oblivious.Sampler, slice epoch.Slice, missed uint64, partial bool, emit record.Emit) {
	c := &cells{}
	c.merge(&cells{main: s})
	m.emit(&epoch.Merged[cells]{Slice: slice, Missed: missed, Partial: partial, Cells: c}, emit)
}
