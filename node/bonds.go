package node

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/bond"
	"github.com/weirswitch/weir/stages/bond/lacp"
)

// addBond notes a port that is a bond, whose state the stage bond knows.
func (n *Node) addBond(p port.Port) {
	if v, ok := p.(*port.Virtual); ok && v.Info().Driver == port.DriverBond {
		n.bonds.Store(v.Info().Name, v)
	}
}

// joinPorts gives modules that come and send frames of their own the way to the ports, and has a stage bond say when a bond has another state.
func (n *Node) joinPorts(come []pipeline.Named) {
	for _, stage := range come {
		if o, ok := stage.Module.(pipeline.Originator); ok {
			o.SetSend(n.sw.Originate)
		}
	}
	if m, ok := moduleOf[*bond.Module](come); ok {
		m.OnChange(func() {
			select {
			case n.portsChanged <- struct{}{}:
			default:
			}
		})
	}
}

// followBonds gives bonds the states that their members leave them.
func (n *Node) followBonds() {
	m, ok := moduleOf[*bond.Module](n.chain())
	if !ok {
		return
	}
	for _, l := range m.Links() {
		found, ok := n.bonds.Load(l.Name)
		if !ok {
			continue
		}
		v := found.(*port.Virtual)
		before := v.Info()
		v.SetLink(l.Uses, l.Down)
		switch after := v.Info(); {
		case after.Mode == before.Mode && after.State == before.State:
		case l.Down != "":
			n.log.Warn("bond changed", zap.String("port", l.Name), zap.String("state", string(after.State)), zap.String("reason", l.Down))
		default:
			n.log.Info("bond changed", zap.String("port", l.Name), zap.String("state", string(after.State)), zap.String("uses", l.Uses))
		}
	}
}

// Bonds returns the bonds and the states of their members; false without the stage bond.
func (n *Node) Bonds() (*api.BondsResponse, bool) {
	m, ok := moduleOf[*bond.Module](n.chain())
	if !ok {
		return nil, false
	}
	r := &api.BondsResponse{}
	for _, l := range m.Links() {
		b := &api.Bond{Name: l.Name, Mode: l.Mode.String(), Up: l.Down == "", Error: l.Down, Changes: l.Changes}
		if l.Mode != pipeline.ActiveBackup {
			b.Hash = l.Hash.String()
		}
		if l.Mode == pipeline.LACP {
			b.System = l.System.String()
		}
		for _, one := range l.Members {
			member := &api.BondMember{Name: one.Name, Link: one.Up, Active: one.Active, Receives: one.Receives, Ends: one.Ends}
			if p := one.LACP; p != nil {
				member.Lacp = &api.LacpPort{
					ReceiveMachine: p.Rx.String(), MuxMachine: p.Mux.String(), Selected: p.Selected, ActorState: p.Actor.State.String(),
					PartnerKey: uint32(p.Partner.Key), PartnerPort: uint32(p.Partner.Port), PartnerState: p.Partner.State.String(),
					Received: p.Received, Sent: p.Sent, PartnerChanges: p.Changes,
				}
				if p.Partner.System != (lacp.System{}) {
					member.Lacp.PartnerSystem = p.Partner.System.String()
				}
			}
			b.Members = append(b.Members, member)
		}
		r.Bonds = append(r.Bonds, b)
	}
	return r, true
}

// checkMembers refuses bonds of ports with different MTUs: a packet's fate would depend on its flow. Those that old has are there already; nil: none is.
func checkMembers(ports []pipeline.Port, old *config.Config) error {
	var errs []error
	for i := range ports {
		b, first := &ports[i], (*pipeline.Port)(nil)
		if b.Bond.Mode == pipeline.NoBond || old != nil && old.PortNamed(b.Name) != nil {
			continue
		}
		for k := range ports {
			m := &ports[k]
			if m.Member == "" || int(m.Of) != i || m.MTU == 0 {
				continue
			}
			if first == nil {
				first = m
			} else if m.MTU != first.MTU {
				errs = append(errs, fmt.Errorf("port %s: its members %s and %s have MTUs of %d and %d bytes: set them equal (ip link set INTERFACE mtu)",
					b.Name, first.Member, m.Member, first.MTU, m.MTU))
			}
		}
	}
	return errors.Join(errs...)
}
