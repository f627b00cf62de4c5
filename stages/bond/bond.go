package bond

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
	"github.com/weirswitch/weir/stages/bond/lacp"
)

// Config is [stages.bond], which has no keys.
type Config struct {
	_ byte // two configurations have two addresses
}

// DefaultConfig returns the configuration.
func DefaultConfig() Config { return Config{} }

// Validate implements stages.Kind.
func (*Config) Validate([]string) error { return nil }

// The drop reasons of both stages.
var (
	ReasonInactive  = packet.Register("bond_inactive", "the member of a bond takes no packets now: another one is active, or LACP has not agreed on it")
	ReasonMalformed = packet.Register("lacp_malformed", "a LACPDU contradicts itself or its length, or is of an unknown version")
	ReasonOverflow  = packet.Register("lacp_overflow", "more LACPDUs arrive than the switch reads")
)

// Role implements pipeline.Module: what is behind the stage sees bonds alone.
func (m *Module) Role() pipeline.Role { return pipeline.RoleIngress }

// Needs implements pipeline.Module.
func (m *Module) Needs() packet.Needs { return 0 }

// TakesLarge implements pipeline.LargeTaker.
func (m *Module) TakesLarge() bool { return true }

// Receives implements pipeline.Receiver: a member receives what the bond's stations do, and LACPDUs.
func (m *Module) Receives(port int) packet.Reception {
	t := m.tables.Load()
	return packet.Reception{All: port < len(t.roles) && t.roles[port].kind == isMember}
}

// Join implements pipeline.Joined: the bonds are made in front of all that is beside the parser, and undone behind all that may send by one.
func (m *Module) Join(chain []pipeline.Named) error {
	if chain[1].Module != pipeline.Module(m) {
		return fmt.Errorf("is behind %q, which would know its members in place of bonds: move it to directly behind \"parse\"", chain[1].Name)
	}
	found := false
	var announcers []pipeline.Announcer
	for _, n := range chain {
		if d, ok := n.Module.(*Distribute); ok {
			d.module, found = m, true
			m.distribute.Store(d)
		}
		if a, ok := n.Module.(pipeline.Announcer); ok {
			announcers = append(announcers, a)
		}
	}
	if !found {
		return errors.New("nothing would choose members for what leaves by bonds: add \"distribute\" as the last stage that sends")
	}
	m.announcers.Store(&announcers) // no lock: the workers may wait, and announcements take the time of a whole table
	return nil
}

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage { return &stage{module: m, worker: m.workers[w]} }

// worker is what one worker gives the goroutine of the module.
type worker struct {
	pdus *ring.Ring[pdu]
}

// pdu is a frame of the slow protocols, without the header of Ethernet.
type pdu struct {
	port  uint16
	bytes [lacp.Length]byte
}

// ringSize is how many PDUs wait at most: far more than all members send in the time between two looks, so a flood of them costs no more.
const ringSize = 64

type stage struct {
	module  *Module
	*tables // of the present batch
	worker  *worker
}

// Process implements pipeline.Stage.
func (s *stage) Process(b *packet.Batch) {
	t := s.module.tables.Load()
	s.tables = t
	if len(t.bonds) == 0 {
		return
	}
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if int(p.InPort) >= len(t.roles) || p.Reason != 0 {
			continue
		}
		r := &t.roles[p.InPort]
		if r.kind != isMember {
			continue
		}
		if r.slow && p.EtherType == lacp.EtherType && !p.Flags.Has(packet.FlagVLAN) && s.take(b, p) {
			continue
		}
		if r.receives != everything && (r.receives == nothing || p.Flags.Has(packet.FlagMulticast)) {
			b.Drop(p, ReasonInactive)
			continue
		}
		b.Enter(p, t.bonds[r.index].number)
	}
}

// take gives the module's goroutine a PDU. It reports false for frames of other slow protocols.
func (s *stage) take(b *packet.Batch, p *packet.Packet) bool {
	const at = 14 // behind the header of Ethernet
	data := b.Data(p)
	if len(data) <= at || data[at] != lacp.SubtypeLACP && data[at] != lacp.SubtypeMarker {
		return false
	}
	if len(data) < at+lacp.Length || data[at] == lacp.SubtypeLACP && !lacp.Valid(data[at:]) {
		b.Drop(p, ReasonMalformed)
		return true
	}
	slot := s.worker.pdus.Ahead(0)
	if slot == nil {
		b.Drop(p, ReasonOverflow)
		return true
	}
	slot.port = p.InPort
	slot.bytes = [lacp.Length]byte(data[at:])
	s.worker.pdus.Commit(1)
	b.Drop(p, packet.Consumed)
	return true
}

// Explain implements pipeline.Explainer.
func (s *stage) Explain(_ *packet.Batch, p *packet.Packet) string {
	switch {
	case int(p.InPort) >= len(s.roles):
		return ""
	case p.Reason == packet.Consumed && s.roles[p.InPort].slow:
		return "a PDU of LACP"
	case s.roles[p.InPort].kind == isBond && p.Reason == 0:
		return "arrived at " + s.names[p.InPort]
	}
	return ""
}
