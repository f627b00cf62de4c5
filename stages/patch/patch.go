package patch

import (
	"fmt"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// ReasonUnpatched is the drop reason of packets from a port in no pair.
var ReasonUnpatched = packet.Register("unpatched", "the input port is in no pair of the patch stage")

// Module is the patch stage of one switch. It never changes, so all workers
// read the one table.
type Module struct {
	env  pipeline.Env
	peer []uint16 // by port number; NoPort for a port in no pair
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	names := make([]string, len(env.Ports))
	for i := range env.Ports {
		names[i] = env.Ports[i].Name
	}
	if err := c.Validate(names); err != nil {
		return nil, err
	}
	m := &Module{env: env, peer: make([]uint16, len(env.Ports))}
	for i := range m.peer {
		m.peer[i] = packet.NoPort
	}
	for _, pair := range c.Pairs {
		a, _ := env.PortNumber(pair[0])
		b, _ := env.PortNumber(pair[1])
		m.peer[a], m.peer[b] = b, a
	}
	return m, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleForward }

// Needs implements pipeline.Module: the packets are not even looked at.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module. A worker's stage holds nothing of its own.
func (m *Module) Stage(int) pipeline.Stage { return &stage{peer: m.peer, env: &m.env} }

type stage struct {
	peer []uint16
	env  *pipeline.Env
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	peer := s.peer
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
	in := s.env.Ports[p.InPort].Name
	if p.OutPort == packet.NoPort {
		return fmt.Sprintf("%s is in no pair", in)
	}
	return fmt.Sprintf("%s is patched to %s", in, s.env.Ports[p.OutPort].Name)
}
