package l2

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// A routed interface is a port of the bridge and of the router. What the bridge sends out by it goes on in the router, as arrived there; what
// the router sends out by it comes to the stage irb, which sends it on in the domain:
//
//	p0 ──> l2: destination is the router's, OutPort irb1 ──> l3: arrived at irb1, OutPort irb2 ──> irb: station in the domain of irb2 ──> p1
//
// The router's MAC addresses are static entries of the table, so the bridge looks nothing up that it would not look up anyway.

// IRBConfig is [stages.irb], which has no keys.
type IRBConfig struct {
	_ byte // two configurations have two addresses
}

// DefaultIRBConfig returns the configuration.
func DefaultIRBConfig() IRBConfig { return IRBConfig{} }

// Validate implements stages.Kind.
func (*IRBConfig) Validate([]string) error { return nil }

// IRB is the stage irb of one switch. Its tables are those of the stage l2.
type IRB struct {
	module *Module
	stages []*stage
}

// NewIRB makes the module.
func NewIRB(IRBConfig, pipeline.Env) (*IRB, error) { return &IRB{}, nil }

// Join implements pipeline.Joined.
func (e *IRB) Join(chain []pipeline.Named) error {
	for _, n := range chain {
		if m, ok := n.Module.(*Module); ok {
			e.module = m
			return nil
		}
	}
	return errors.New("has no bridge: add \"l2\" in front of \"l3\"")
}

// Role implements pipeline.Module.
func (e *IRB) Role() pipeline.Role { return pipeline.RoleForward }

// Follows implements pipeline.Follower.
func (e *IRB) Follows() (name string, always bool) { return "l3", true }

// TakesLarge implements pipeline.LargeTaker.
func (e *IRB) TakesLarge() bool { return true }

// Needs implements pipeline.Module.
func (e *IRB) Needs() packet.Needs { return 0 }

// Receives implements pipeline.Receiver: the bridge says what ports receive.
func (e *IRB) Receives(int) packet.Reception { return packet.Reception{} }

// Stage implements pipeline.Module.
func (e *IRB) Stage(int) pipeline.Stage {
	if e.module == nil {
		return &irb{} // of a module that was made without a graph
	}
	s := e.module.newStage()
	e.stages = append(e.stages, s)
	return &irb{stage: s}
}

// Leave implements pipeline.Leaver: the bridge keeps what the stages have counted.
func (e *IRB) Leave() {
	m := e.module
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stages = slices.DeleteFunc(m.stages, func(s *stage) bool {
		if !slices.Contains(e.stages, s) {
			return false
		}
		m.gone.add(&s.workerCounters)
		return true
	})
}

// Route implements pipeline.Bridge: ports of the router that are no routed interfaces leave the bridge, and the router's addresses at those
// are its stations.
func (m *Module) Route(ports []pipeline.RoutedPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joined {
		m.setRouter(ports)
	}
}

// setRouter takes the ports of the router over. The caller has the lock.
func (m *Module) setRouter(ports []pipeline.RoutedPort) {
	m.router = ports
	next := m.newSettings(&m.config, m.guards.inForce(), m.settings.Load().names)
	m.settings.Store(next)
	m.fdb.flush(func(vlan, port uint16) bool { return !next.ports[port].has(vlan) })
	m.setOwn()
}

// setOwn brings the router's entries of the table up to date.
func (m *Module) setOwn() {
	var next []staticEntry
	for _, r := range m.router {
		if int(r.Port) >= len(m.guards.plan.ports) {
			continue // a port about to come
		}
		v := &m.guards.plan.ports[r.Port]
		if e := (staticEntry{makeKey(v.pvid, r.MAC), r.Port}); v.routed && !v.outside && !slices.ContainsFunc(m.static, func(s staticEntry) bool { return s.key == e.key }) {
			next = append(next, e)
		}
	}
	for _, e := range m.own {
		if !slices.Contains(next, e) && !slices.ContainsFunc(m.static, func(s staticEntry) bool { return s.key == e.key }) {
			m.fdb.removeKey(e.key)
		}
	}
	for _, e := range next {
		m.fdb.removeKey(e.key) // it may have been learned
		if !m.fdb.addStatic(e.key, e.port) {
			m.fdb.flush(func(uint16, uint16) bool { return true })
			m.fdb.addStatic(e.key, e.port)
		}
	}
	m.own = next
}

// irb is the stage of one worker.
type irb struct {
	*stage
	at [packet.BatchSize]uint8 // where the packets that are looked up are in the batch
}

// Process implements pipeline.Stage.
func (s *irb) Process(b *packet.Batch) {
	s.settings = s.module.settings.Load()
	floods := 0
	for first := 0; first < len(b.Pkts); first += packet.BatchSize {
		pkts := b.Pkts[first:min(first+packet.BatchSize, len(b.Pkts))]
		n := 0
		for i := range pkts {
			p := &pkts[i]
			if p.Reason != 0 || int(p.OutPort) >= len(s.ports) || !s.ports[p.OutPort].routed {
				continue
			}
			v := &s.ports[p.OutPort]
			if !v.has(v.pvid) {
				b.Drop(p, v.refusal(p))
				continue
			}
			s.keys[n], _ = addresses(b, p, v.pvid)
			s.at[n] = uint8(i)
			n++
		}
		if n == 0 {
			continue
		}
		s.search.find(s.fdb, n)
		for k := range n {
			floods += s.deliver(b, &pkts[s.at[k]&(packet.BatchSize-1)], k)
		}
	}
	if floods != 0 {
		s.floodRouted(b)
	}
}

// deliver sends a packet of the router to its station, by what lookup k has found. It returns 1 if the packet must be flooded, of which its
// OutPort still says where from.
func (s *irb) deliver(b *packet.Batch, p *packet.Packet, k int) int {
	t, l, key := s.fdb, &s.search.first, s.keys[k]
	entry := l.entries[k]
	if key&macGroup == 0 && (entry^l.names[k])&t.name != 0 {
		_, _, entry = t.find(t.mix(key))
	}
	if key&macGroup != 0 || entry == 0 {
		if !s.mayFlood(b, p, p.OutPort) {
			return 0
		}
		return 1
	}
	out := t.port(entry)
	if int(out) >= len(s.ports) || s.ports[out].routed {
		b.Drop(p, reasonSamePort)
		return 0
	}
	s.leave(b, p, out, keyVLAN(key))
	return 0
}

// floodRouted sends packets that are left to routed interfaces to all ports of their domains.
func (s *irb) floodRouted(b *packet.Batch) {
	old := b.Rebuild()
	for i := range old {
		p := &old[i]
		if p.Reason == 0 && int(p.OutPort) < len(s.ports) && s.ports[p.OutPort].routed {
			s.flooded.Add(1)
			s.floodOne(b, p, p.OutPort, s.ports[p.OutPort].pvid, len(old)-i)
		} else {
			*b.Append() = *p
		}
	}
}

// Explain implements pipeline.Explainer.
func (s *irb) Explain(b *packet.Batch, p *packet.Packet) string {
	if int(p.OutPort) >= len(s.ports) {
		return ""
	}
	vlan := s.ports[p.OutPort].classify(p)
	dst, src := addresses(b, p, vlan)
	t := s.fdb
	_, _, from := t.find(t.mix(src))
	if from == 0 || from&t.static == 0 || int(t.port(from)) >= len(s.ports) || !s.ports[t.port(from)].routed {
		return "" // of the bridge, or of another port of the router
	}
	how := "known"
	if _, _, entry := t.find(t.mix(dst)); dst&macGroup != 0 || entry == 0 || t.port(entry) != p.OutPort {
		how = "flooded"
	}
	return fmt.Sprintf("%s, from %s to %s: %s, leaves by %s", s.vlanText(vlan), s.portName(t.port(from)), keyMAC(dst), how, s.portName(p.OutPort))
}
