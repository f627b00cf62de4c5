package vlan

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Config is [stages.vlan], which has no keys.
type Config struct {
	_ byte // two configurations have two addresses
}

// DefaultConfig returns the configuration.
func DefaultConfig() Config { return Config{} }

// Validate implements stages.Kind.
func (*Config) Validate([]string) error { return nil }

// TagConfig is [stages.tag], which has no keys.
type TagConfig struct {
	_ byte
}

// DefaultTagConfig returns the configuration.
func DefaultTagConfig() TagConfig { return TagConfig{} }

// Validate implements stages.Kind.
func (*TagConfig) Validate([]string) error { return nil }

// tables are the subinterfaces of a switch. They never change: another set of ports makes others.
type tables struct {
	ports []pipeline.Port
	// below has, for each port with subinterfaces, the entries by outer VLAN; nil for the others.
	below []*entries
	inner []*entries // by inner VLAN
}

// entries say by VLAN which subinterface a packet belongs to.
type entries [4096]entry

// entry is that of a VLAN: the subinterface of the tag, and where those with a second tag are.
type entry struct {
	port  uint16 // plus one; 0: none
	inner uint16 // of tables.inner, plus one; 0: none
}

const vidMask = 0x0fff

func newTables(ports []pipeline.Port) *tables {
	t := &tables{ports: ports, below: make([]*entries, len(ports))}
	for i := range ports {
		p := &ports[i]
		if p.Name == "" || p.VLAN == 0 {
			continue
		}
		if t.below[p.Parent] == nil {
			t.below[p.Parent] = &entries{}
		}
		e := &t.below[p.Parent][p.VLAN&vidMask]
		if p.Inner == 0 {
			e.port = uint16(i) + 1
			continue
		}
		if e.inner == 0 {
			t.inner = append(t.inner, &entries{})
			e.inner = uint16(len(t.inner))
		}
		t.inner[e.inner-1][p.Inner&vidMask].port = uint16(i) + 1
	}
	return t
}

// half is what the modules of both stages have in common.
type half struct{ tables atomic.Pointer[tables] }

// FollowPorts implements pipeline.PortFollower.
func (h *half) FollowPorts(ports []pipeline.Port) { h.tables.Store(newTables(ports)) }

// TakesLarge implements pipeline.LargeTaker: a tag is that of each segment.
func (h *half) TakesLarge() bool { return true }

// Needs implements pipeline.Module.
func (h *half) Needs() packet.Needs { return 0 }

// Module is the stage vlan of one switch.
type Module struct{ half }

// New makes the module.
func New(_ Config, env pipeline.Env) (*Module, error) {
	m := &Module{}
	m.FollowPorts(env.Ports)
	return m, nil
}

// Prepare implements stages.Kind: subinterfaces come and go.
func (m *Module) Prepare(_ Config, ports []pipeline.Port) (commit func(), err error) {
	t := newTables(ports)
	return func() { m.tables.Store(t) }, nil
}

// Join implements pipeline.Joined.
func (m *Module) Join(chain []pipeline.Named) error {
	for _, n := range chain {
		if _, ok := n.Module.(*Tag); ok {
			return nil
		}
	}
	return errors.New("nothing would put tags on what leaves by subinterfaces: add \"tag\" behind the forwarding stages")
}

// Role implements pipeline.Module: what is behind the stage sees packets without the tags of subinterfaces.
func (m *Module) Role() pipeline.Role { return pipeline.RoleIngress }

// Receives implements pipeline.Receiver: a port with subinterfaces receives for the addresses of them all.
func (m *Module) Receives(port int) packet.Reception {
	t := m.tables.Load()
	return packet.Reception{All: port < len(t.below) && t.below[port] != nil}
}

// Stage implements pipeline.Module.
func (m *Module) Stage(int) pipeline.Stage { return &stage{half: &m.half} }

type stage struct {
	*half
	*tables // of the present batch
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	t := s.half.tables.Load()
	s.tables = t
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if !p.Flags.Has(packet.FlagVLAN) || p.Reason != 0 || int(p.InPort) >= len(t.below) || t.below[p.InPort] == nil {
			continue
		}
		port, tags := t.find(b, p)
		if port == packet.NoPort {
			continue
		}
		b.PopTags(p, tags)
		b.Enter(p, port)
		if t.ports[port].Down {
			b.Drop(p, packet.ReasonPortDown)
		}
	}
}

// find returns the subinterface of a packet with a tag, and how many tags are those of the subinterface; packet.NoPort if there is none.
func (t *tables) find(b *packet.Batch, p *packet.Packet) (port uint16, tags int) {
	e := &t.below[p.InPort][p.VLAN&vidMask]
	if e.inner != 0 && p.Flags.Has(packet.FlagQinQ) {
		const innerAt = 18 // behind two addresses, a tag and a type
		tci := binary.BigEndian.Uint16(b.Mem[p.Addr+innerAt:])
		if two := &t.inner[e.inner-1][tci&vidMask]; two.port != 0 {
			return two.port - 1, 2
		}
	}
	return e.port - 1, 1 // NoPort is 0 less one
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	if int(p.InPort) >= len(s.ports) || s.ports[p.InPort].VLAN == 0 {
		return ""
	}
	return "arrived at " + describe(s.ports, p.InPort)
}

func describe(ports []pipeline.Port, number uint16) string {
	p := &ports[number]
	text := fmt.Sprintf("%s, VLAN %d of %s", p.Name, p.VLAN, ports[p.Parent].Name)
	if p.Inner != 0 {
		text = fmt.Sprintf("%s, VLAN %d in %d of %s", p.Name, p.Inner, p.VLAN, ports[p.Parent].Name)
	}
	return text
}
