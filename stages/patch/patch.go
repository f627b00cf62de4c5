package patch

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonUnpatched is the drop reason of packets from a port in no pair.
var reasonUnpatched = packet.Register("unpatched", "the input port is in no pair of the patch stage")

// Module is the patch stage of one switch. All workers read the one table.
type Module struct {
	table atomic.Pointer[table] // control swaps it
}

// table is immutable; all workers read it.
type table struct {
	peer  []uint16 // by port number; NoPort for a port in no pair
	names []string // by port number
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{}
	commit, err := m.Prepare(c, env.Ports)
	if err != nil {
		return nil, err
	}
	commit()
	return m, nil
}

// Prepare makes the table of a configuration, for the ports that there are then,
// without putting it into force, which commit does: a batch meets the old pairs or
// the new ones.
func (m *Module) Prepare(c Config, ports []pipeline.Port) (commit func(), err error) {
	t := &table{peer: make([]uint16, len(ports)), names: pipeline.PortNames(ports)}
	if err := c.Validate(t.names); err != nil {
		return nil, err
	}
	for i := range t.peer {
		t.peer[i] = packet.NoPort
	}
	for _, pair := range c.Pairs {
		a, b := slices.Index(t.names, pair[0]), slices.Index(t.names, pair[1])
		t.peer[a], t.peer[b] = uint16(b), uint16(a)
	}
	return func() { m.table.Store(t) }, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleForward }

// TakesLarge implements pipeline.LargeTaker: it looks at ports alone.
func (m *Module) TakesLarge() bool { return true }

// Needs implements pipeline.Module: the packets are not even looked at.
func (m *Module) Needs() packet.Needs { return 0 }

// Stage implements pipeline.Module. A worker's stage has no state.
func (m *Module) Stage(int) pipeline.Stage { return &stage{m} }

type stage struct{ module *Module }

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	peer := s.module.table.Load().peer
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			continue
		}
		out := peer[p.InPort]
		if out == packet.NoPort {
			b.Drop(p, reasonUnpatched)
			continue
		}
		p.OutPort = out
	}
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	names := s.module.table.Load().names
	in := names[p.InPort]
	if p.OutPort == packet.NoPort {
		return fmt.Sprintf("%s is in no pair", in)
	}
	return fmt.Sprintf("%s is patched to %s", in, names[p.OutPort])
}
