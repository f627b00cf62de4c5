package l2

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
	"github.com/weirswitch/weir/stages/l2/snooping"
)

// The drop reasons of snooping.
var (
	reasonNotJoined   = packet.Register("not_joined", "IGMP or MLD snooping: no other port has joined the packet's group, or has a multicast router")
	reasonRouterGuard = packet.Register("router_guard", "a query or a multicast router's message arrived on a port of router_guard")
)

// maxGroupTable is the most memberships that the table holds.
const maxGroupTable = 1 << 20

// A worker's ring of messages has so many, and a port may use its part of them, at least leastMessages and at most mostMessages, in a
// window of 2^windowShift ticks, about the longest pause of the writer.
const (
	messageRing   = 256
	leastMessages = 4
	mostMessages  = 16
	windowShift   = 4
)

// snoopPlan is the configuration of snooping, by port number.
type snoopPlan struct {
	on    bool
	ports snooping.Ports
	guard []bool
}

func (c *Config) planSnooping(ports []string, f *faults) (p snoopPlan) {
	p.on = c.Snooping
	if c.Snooping && (c.GroupTable < 1 || c.GroupTable > maxGroupTable) {
		f.add("group_table: %d is out of range: choose 1 to %d", c.GroupTable, maxGroupTable)
	}
	list := func(key string, names []string) []bool {
		set := make([]bool, len(ports))
		if len(names) > 0 && !c.Snooping {
			f.add("%s: without snooping it has no effect: set snooping = true, or remove it", key)
		}
		for i, name := range names {
			if number := slices.Index(ports, name); number < 0 {
				f.add("%s[%d]: %w", key, i, pipeline.UndefinedPort(name))
			} else {
				set[number] = true
			}
		}
		return set
	}
	p.ports.Always = list("multicast_routers", c.MulticastRouters)
	p.ports.FastLeave = list("fast_leave", c.FastLeave)
	p.guard = list("router_guard", c.RouterGuard)
	p.ports.Never = p.guard
	for i, name := range c.RouterGuard {
		if slices.Contains(c.MulticastRouters, name) {
			f.add("router_guard[%d]: port %q is one of multicast_routers: remove it from one of the two", i, name)
		}
	}
	return p
}

// snooper is what workers need of snooping.
type snooper struct {
	*snooping.Table
	flood bool   // packets of groups that no port has joined
	guard []bool // by port: messages of queriers and routers are dropped
}

// newSnooper brings the table in line with the settings that are about to be in force; nil without snooping. The caller has the lock.
func (m *Module) newSnooper(c *Config, p *plan, ports []portVLANs) *snooper {
	if !p.snoop.on {
		m.groups = nil
		return nil
	}
	if m.groups == nil {
		seed := rand.Uint64()
		if m.inline {
			seed = 1
		}
		m.groups = snooping.New(c.GroupTable, seed)
	}
	m.groups.Configure(c.GroupTable, p.snoop.ports, func(vlan, port uint16) bool {
		return int(port) < len(ports) && (ports[port].has(vlan) || ports[port].blocked != 0)
	}, m.groupsNow())
	// Hosts of a port that has come, or carries a VLAN more than before, have reported elsewhere.
	if old := m.settings.Load(); old != nil {
		for i := range ports {
			if i >= len(old.ports) || ports[i].gains(&old.ports[i]) {
				m.groups.Widen(uint16(i), m.groupsNow())
			}
		}
	}
	for _, s := range m.stages {
		s.giveRing()
	}
	return &snooper{m.groups, c.FloodUnregistered, p.snoop.guard}
}

// giveRing has the worker keep what it hears for the writer.
func (s *stage) giveRing() {
	if s.messages.Load() == nil && !s.inline {
		s.messages.Store(ring.New[snooping.Event](messageRing))
	}
}

// groupsNow is the time of the table of groups.
func (m *Module) groupsNow() int64 {
	if m.inline {
		return m.inlineNow
	}
	return clockTAI()
}

// takeGroups is the writer's part: what workers heard, and time.
func (m *Module) takeGroups(now int64) (n int) {
	if m.groups == nil {
		return 0
	}
	for _, s := range m.stages {
		if r := s.messages.Load(); r != nil {
			n += r.Drain(m.groups.Take)
		}
	}
	m.groups.TakeLosses(now)
	m.groups.Age(now)
	return n
}

// followPorts has what is known of groups follow the links: what was said on a port that is down is forgotten, and one that is up again gets all groups,
// as its hosts may not notice that it was down.
func (m *Module) followPorts(ports []pipeline.Port) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.down) < len(ports) {
		m.down = append(m.down, false)
	}
	now := m.groupsNow()
	for i := range ports {
		down := ports[i].Down
		switch {
		case m.groups == nil:
		case down:
			m.groups.PortDown(uint16(i), now)
		case m.down[i]:
			m.groups.Widen(uint16(i), now)
		}
		m.down[i] = down
	}
}

// floodGroup appends a packet to a group, as floodOne does, to the ports that want it. It reports false if that is all of the VLAN.
func (s *stage) floodGroup(b *packet.Batch, p *packet.Packet, from, vlan uint16, originals int) bool {
	if !p.Flags.Has(packet.FlagIP) || p.Flags.Has(packet.FlagQinQ) || p.Flags.Has(packet.FlagVLAN) && s.ports[from].opaque {
		return false // not IP, or of a VLAN that is not the bridge's, of which no querier is known
	}
	v6, ip := p.Flags.Has(packet.FlagIPv6), b.Data(p)[p.L3:]
	mac := [6]byte(b.Mem[p.Addr:])
	source, group, ok := snooping.Addresses(mac, v6, ip)
	if !ok {
		return false
	}
	kind := snooping.Data
	if snooping.IsControl(v6, p.Proto) && !s.ports[from].routed {
		if kind = s.hear(b, p, mac, v6, ip, from, vlan); kind == snooping.Query || kind == snooping.Router {
			if s.snoop.guard[from] {
				o := b.Append()
				*o = *p
				o.OutPort = packet.NoPort
				b.Drop(o, reasonRouterGuard)
				return true
			}
			return false
		}
	}
	view := s.snoop.View(vlan, v6)
	if !view.Active(b.Now) {
		return false
	}
	if kind == snooping.Report {
		s.sendGroup(b, p, from, vlan, originals, nil, view.Routers, source)
		return true
	}
	if group.Always(v6) {
		return false
	}
	listeners := s.snoop.Look(vlan, group)
	if listeners == nil && (s.snoop.flood || group.LinkScope(v6)) {
		return false
	}
	s.sendGroup(b, p, from, vlan, originals, listeners, view.All, source)
	return true
}

// sendGroup appends a packet to the ports of two lists, each in ascending order, and to the routed interface of the VLAN unless it comes from there.
func (s *stage) sendGroup(b *packet.Batch, p *packet.Packet, from, vlan uint16, originals int, listeners []snooping.Listener, all []uint16, source snooping.Address) {
	last := packet.NoPort
	if router := s.floods.router(vlan); router != from {
		last = router
	}
	for len(listeners) > 0 || len(all) > 0 {
		var port uint16
		if len(listeners) == 0 || len(all) > 0 && all[0] <= listeners[0].Port {
			port, all = all[0], all[1:]
			if len(listeners) > 0 && listeners[0].Port == port {
				listeners = listeners[1:]
			}
		} else {
			l := &listeners[0]
			listeners = listeners[1:]
			if !l.Wants(source) {
				continue
			}
			port = l.Port
		}
		// The table may be of a moment before or behind the settings.
		if port == from || int(port) >= len(s.ports) || !s.ports[port].has(vlan) || s.ports[port].routed {
			continue
		}
		if last != packet.NoPort {
			s.copyTo(b, p, last, vlan, originals)
		}
		last = port
	}
	o := b.Append()
	*o = *p
	if last == packet.NoPort {
		o.OutPort = packet.NoPort
		b.Drop(o, reasonNotJoined)
		return
	}
	s.leave(b, o, last, vlan)
}

// hear says what a packet of a control protocol is, and gives it to the writer unless it says nothing, or its port is guarded.
func (s *stage) hear(b *packet.Batch, p *packet.Packet, mac [6]byte, v6 bool, ip []byte, from, vlan uint16) snooping.Kind {
	if p.Len != p.WireLen || p.Next != 0 { // a report may lie beyond the first frame, and a query be hidden
		s.snoop.Lose(from)
		if s.snoop.guard[from] {
			return snooping.Query
		}
		return snooping.Data
	}
	kind, source, body := snooping.Read(mac, v6, ip)
	switch kind {
	case snooping.Data:
		return kind
	case snooping.Invalid:
		s.snoop.Reject()
		if s.snoop.guard[from] {
			return snooping.Query // hosts may take it for one: they look at less, as at no TTL
		}
		return kind
	case snooping.Query, snooping.Router:
		if s.snoop.guard[from] {
			return kind
		}
	}
	if s.inline {
		e := &s.message
		e.Set(b.Now, vlan, from, kind, v6, source, body)
		s.snoop.Take(e)
		return kind
	}
	if r := s.messages.Load(); r != nil && s.takeMessage(from) {
		if e := r.Ahead(0); e != nil {
			e.Set(b.Now, vlan, from, kind, v6, source, body)
			r.Commit(1)
			return kind
		}
	}
	s.snoop.Lose(from)
	return kind
}

// takeMessage reports whether a port may send the writer another message now.
func (s *stage) takeMessage(port uint16) bool {
	most := min(max(messageRing/len(s.ports), leastMessages), mostMessages)
	u, window := &s.messageShares[port], s.tick>>windowShift
	if u.tick != window {
		u.tick, u.n = window, 0
	}
	u.n++
	return u.n <= uint32(most)
}

// explainGroup says how a packet to a group was forwarded.
func (s *stage) explainGroup(b *packet.Batch, p *packet.Packet, vlan uint16) string {
	const flooded = "group, flooded"
	if s.snoop == nil || !p.Flags.Has(packet.FlagIP) || p.Flags.Has(packet.FlagQinQ) || p.Flags.Has(packet.FlagVLAN) && s.ports[p.InPort].opaque {
		return flooded
	}
	v6, ip, mac := p.Flags.Has(packet.FlagIPv6), b.Data(p)[p.L3:], [6]byte(b.Mem[p.Addr:])
	_, group, ok := snooping.Addresses(mac, v6, ip)
	if !ok {
		return flooded
	}
	kind := snooping.Data
	if snooping.IsControl(v6, p.Proto) {
		kind, _, _ = snooping.Read(mac, v6, ip)
	}
	protocol := "IGMP"
	if v6 {
		protocol = "MLD"
	}
	switch {
	case kind == snooping.Query:
		return protocol + " query, flooded"
	case kind == snooping.Router:
		return "multicast router's message, flooded"
	case !s.snoop.View(vlan, v6).Active(b.Now):
		return fmt.Sprintf("group, flooded: no %s querier was heard", protocol)
	case kind == snooping.Report:
		return protocol + " report, to multicast routers"
	case group.Always(v6):
		return "group of all hosts or of the link, flooded"
	}
	listeners := s.snoop.Look(vlan, group)
	switch {
	case listeners != nil:
		return "group, to listeners and multicast routers"
	case s.snoop.flood || group.LinkScope(v6):
		return "group without listeners, flooded"
	}
	return "group without listeners, to multicast routers"
}

// Memberships returns what ports want of groups, and what is known of VLANs; ok is false without snooping. now is nanoseconds of CLOCK_TAI.
func (m *Module) Memberships(now int64) (memberships []snooping.Membership, snooped []snooping.Snooped, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.groups == nil {
		return nil, nil, false
	}
	return m.groups.Memberships(now), m.groups.Snooped(now), true
}

// DomainName returns the name of the domain that memberships call by a VLAN, "" where there are no domains.
func (m *Module) DomainName(vlan uint16) string {
	if domains := m.settings.Load().domains; int(vlan) < len(domains) {
		return domains[vlan]
	}
	return ""
}

// emitGroups reports the metrics of snooping. The caller has the lock.
func (m *Module) emitGroups(emit func(pipeline.Metric)) {
	var c snooping.Counters // without snooping all are zero
	if m.groups != nil {
		c = m.groups.Counters()
	}
	const messages = "messages of IGMP, MLD, PIM and multicast router discovery that were heard"
	for _, k := range []struct {
		kind string
		n    uint64
	}{{"query", c.Queries}, {"report", c.Reports}, {"router", c.Routers}, {"invalid", c.Invalid}, {"lost", c.Lost}} {
		emit(pipeline.Metric{Name: "snooped_messages_total", Help: messages, Labels: [][2]string{{"kind", k.kind}}, Value: float64(k.n)})
	}
	for _, v := range []struct {
		name, help string
		value      uint64
		gauge      bool
	}{
		{"refused_memberships_total", "memberships not taken: the table of groups was full, and no port had more", c.Refused, false},
		{"displaced_memberships_total", "memberships forgotten for those of other ports: the table of groups was full", c.Displaced, false},
		{"widened_memberships_total", "memberships of more sources than are kept, made of all sources", c.TooManySources, false},
		{"aged_memberships_total", "memberships that were not renewed", c.Aged, false},
		{"memberships", "memberships: groups that ports listen to", c.Memberships, true},
		{"group_table_used", "what memberships and their sources take of the table of groups", c.Used, true},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: float64(v.value), Gauge: v.gauge})
	}
}
