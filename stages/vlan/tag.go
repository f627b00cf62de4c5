package vlan

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Tag is the stage tag of one switch.
type Tag struct{ half }

// NewTag makes the module.
func NewTag(_ TagConfig, env pipeline.Env) (*Tag, error) {
	m := &Tag{}
	m.FollowPorts(env.Ports)
	return m, nil
}

// Prepare implements stages.Kind: subinterfaces come and go.
func (m *Tag) Prepare(_ TagConfig, ports []pipeline.Port) (commit func(), err error) {
	t := newTables(ports)
	return func() { m.tables.Store(t) }, nil
}

// Join implements pipeline.Joined.
func (m *Tag) Join(chain []pipeline.Named) error {
	for _, n := range chain {
		if _, ok := n.Module.(*Module); ok {
			return nil
		}
	}
	return errors.New("no packet would arrive at a subinterface: add \"vlan\" behind \"parse\"")
}

// Role implements pipeline.Module: stages in front of it see packets without the tags of subinterfaces, those behind it with them.
func (m *Tag) Role() pipeline.Role { return pipeline.RoleEgress }

// Stage implements pipeline.Module.
func (m *Tag) Stage(int) pipeline.Stage { return &tagStage{half: &m.half} }

type tagStage struct {
	*half
	*tables // of the present batch
}

// Process implements pipeline.Stage.
func (s *tagStage) Process(b *packet.Batch) {
	t := s.half.tables.Load()
	s.tables = t
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if int(p.OutPort) >= len(t.ports) || p.Reason != 0 {
			continue
		}
		out := &t.ports[p.OutPort]
		if out.VLAN == 0 {
			continue
		}
		if out.Down {
			b.Drop(p, packet.ReasonPortDown)
			continue
		}
		if out.Inner != 0 && !b.PushTag(p, packet.TypeCustomerTag, out.Inner) || !b.PushTag(p, out.TPID, out.VLAN) {
			b.Drop(p, packet.ReasonNoHeadroom)
			continue
		}
		p.OutPort = out.Parent
	}
}

// Explain implements pipeline.Explainer.
func (s *tagStage) Explain(_ *packet.Batch, p *packet.Packet) string {
	if int(p.OutPort) >= len(s.ports) || p.Reason != 0 || !p.Flags.Has(packet.FlagVLAN) || s.below[p.OutPort] == nil {
		return ""
	}
	return fmt.Sprintf("leaves by %s with VLAN %d", s.ports[p.OutPort].Name, p.VLAN&vidMask)
}
