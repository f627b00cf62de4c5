// Package ttlguard drops IP packets whose TTL or hop limit is too low (RFC 5082).
//
// Config keys: min_ttl. Drop reasons: example_ttl_too_low. Cost: one comparison per packet.
package ttlguard

import (
	"fmt"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// ReasonTTL is the drop reason of packets below the minimum.
var ReasonTTL = packet.Register("example_ttl_too_low", "the TTL or hop limit is below ttlguard's min_ttl")

// Module is the stage of one switch.
type Module struct {
	minTTL atomic.Uint32 // control writes it, all workers read it
}

// New makes the module of a configuration.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{}
	commit, err := m.Prepare(c, env.Ports)
	if err != nil {
		return nil, err
	}
	commit()
	return m, nil
}

// Prepare checks a new configuration; commit puts it into force between two batches.
func (m *Module) Prepare(c Config, _ []pipeline.Port) (commit func(), err error) {
	if err := c.Validate(nil); err != nil {
		return nil, err
	}
	return func() { m.minTTL.Store(uint32(c.MinTTL)) }, nil
}

// Role implements pipeline.Module: the stage permits or drops.
func (m *Module) Role() pipeline.Role { return pipeline.RolePolicy }

// Needs implements pipeline.Module: the parser's metadata suffice.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module.
func (m *Module) Stage(int) pipeline.Stage { return &stage{m} }

type stage struct{ module *Module }

// Process implements pipeline.Stage. The minimum is loaded once per batch.
func (s *stage) Process(b *packet.Batch) {
	minTTL := uint8(s.module.minTTL.Load())
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason == 0 && p.Flags.Has(packet.FlagIP) && p.TTL < minTTL {
			b.Drop(p, ReasonTTL)
		}
	}
}

// Explain implements pipeline.Explainer, for `weir ctl trace` and `weir replay --trace`.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	return fmt.Sprintf("TTL %d, at least %d wanted", p.TTL, s.module.minTTL.Load())
}
