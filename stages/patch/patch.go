package patch

import (
	"fmt"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// ReasonUnpatched is the drop reason of packets from a port in no pair.
var ReasonUnpatched = packet.Register("unpatched", "the input port is in no pair of the patch stage")

// Module is the patch stage of one switch. All workers read the one table.
type Module struct {
	env  pipeline.Env
	peer atomic.Pointer[[]uint16] // by port number; NoPort for a port in no pair. Control swaps it
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env}
	commit, err := m.Prepare(c)
	if err != nil {
		return nil, err
	}
	commit()
	return m, nil
}

// Prepare makes the table of a configuration without putting it into force,
// which commit does: a batch meets the old pairs or the new ones.
func (m *Module) Prepare(c Config) (commit func(), err error) {
	names := make([]string, len(m.env.Ports))
	for i := range m.env.Ports {
		names[i] = m.env.Ports[i].Name
	}
	if err := c.Validate(names); err != nil {
		return nil, err
	}
	peer := make([]uint16, len(m.env.Ports))
	for i := range peer {
		peer[i] = packet.NoPort
	}
	for _, pair := range c.Pairs {
		a, _ := m.env.PortNumber(pair[0])
		b, _ := m.env.PortNumber(pair[1])
		peer[a], peer[b] = b, a
	}
	return func() { m.peer.Store(&peer) }, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleForward }

// Needs implements pipeline.Module: the packets are not even looked at.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module. A worker's stage holds nothing of its own.
func (m *Module) Stage(int) pipeline.Stage { return &stage{m} }

type stage struct{ module *Module }

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	peer := *s.module.peer.Load()
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		out := peer[p.InPort]
		if out == packet.NoPort {
			b.Drop(p, ReasonUnpatched)
			continue
		}
		p.OutPort = out
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	in := s.module.env.Ports[p.InPort].Name
	if p.OutPort == packet.NoPort {
		return fmt.Sprintf("%s is in no pair", in)
	}
	return fmt.Sprintf("%s is patched to %s", in, s.module.env.Ports[p.OutPort].Name)
}
