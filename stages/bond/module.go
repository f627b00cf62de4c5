package bond

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/pipeline/ring"
	"github.com/weirswitch/weir/stages/bond/lacp"
)

// Module is the stage bond of one switch, and the tables of the stage distribute.
type Module struct {
	tables     atomic.Pointer[tables] // swapped under mu
	workers    []*worker
	announcers atomic.Pointer[[]pipeline.Announcer]    // of the graph
	distribute atomic.Pointer[Distribute]              // of the graph
	send       func(port uint16, frames ...[]byte) int // nil where no frames of the switch's own leave, as in a replay
	changed    func()
	wake       chan struct{} // Run has something to send; holds one

	mu      sync.Mutex // guards what follows
	ports   []pipeline.Port
	groups  []*group
	pending []originated // to be sent with the next step: the last LACPDUs of bonds that went among them
	sending []originated // by the step that is under way, and not sent yet
	left    bool         // another process has the bonds
	id      uint32       // the switch's
	clock   func() time.Time
}

// group is a bond as the module's goroutine knows it.
type group struct {
	number   uint16
	name     string
	settings pipeline.Bond
	members  []*member // by port number
	active   *member   // of an active-backup bond
	former   *member   // what active was, until its packets have come
	until    time.Time // when they have
	announce bool      // the stations are to be announced
	changes  uint64    // of the active member

	lacp *lacp.Aggregator // of a bond with LACP
}

// member is a member of a bond.
type member struct {
	port uint16
	name string
	mac  [6]byte
	up   bool // its link
	// sends and receives are what the tables say.
	sends    bool
	receives receives
	lost     uint64 // times that it was used, and its use ended

	lacp   *lacp.Port // of a bond with LACP
	agreed bool       // what lacp said last: packets may leave by it
	takes  bool       // and are taken there
}

// formerTime is how long what was on its way to the former member of an active-backup bond is taken, and flows move to the new one where they pause.
const formerTime = 100 * time.Millisecond

// New makes the module of a configuration.
func New(_ Config, env pipeline.Env) (*Module, error) {
	m := &Module{wake: make(chan struct{}, 1), clock: time.Now, id: env.ID}
	for range max(env.Workers, 1) {
		m.workers = append(m.workers, &worker{ring.New[pdu](ringSize)})
	}
	m.FollowPorts(env.Ports)
	return m, nil
}

// SetSend implements pipeline.Originator.
func (m *Module) SetSend(send func(port uint16, frames ...[]byte) int) { m.send = send }

// OnChange sets what is called when a member's use begins or ends, which must not block. It is called before Run.
func (m *Module) OnChange(changed func()) { m.changed = changed }

// Prepare implements stages.Kind: bonds come and go.
func (m *Module) Prepare(_ Config, ports []pipeline.Port) (commit func(), err error) {
	return func() { m.FollowPorts(ports) }, nil
}

// FollowPorts implements pipeline.PortFollower: a member's use ends with its link.
func (m *Module) FollowPorts(ports []pipeline.Port) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ports = ports
	before := m.groups
	m.groups = nil
	for i := range ports {
		p := &ports[i]
		if p.Name == "" || p.Bond.Mode == pipeline.NoBond {
			continue
		}
		g := &group{number: uint16(i), name: p.Name}
		if at := slices.IndexFunc(before, func(g *group) bool { return g.name == p.Name && g.number == uint16(i) }); at >= 0 {
			g = before[at]
		}
		g.settings = p.Bond
		g.follow(ports)
		m.groups = append(m.groups, g)
	}
	for _, g := range m.groups {
		if g.settings.Mode == pipeline.LACP {
			m.join(g, m.systemOf(&ports[g.number]))
		}
	}
	for _, g := range before {
		if !slices.Contains(m.groups, g) {
			m.pending = g.farewell(m.pending)
		}
	}
	m.update()
}

// Leave implements pipeline.Leaver.
func (m *Module) Leave() {
	m.mu.Lock()
	out := m.pending
	for _, g := range m.groups {
		out = g.farewell(out)
	}
	m.pending, m.groups, m.sending = nil, nil, out
	m.mu.Unlock()
	m.originate(out)
}

// farewell has partners of a bond that goes stop sending by its members.
func (g *group) farewell(out []originated) []originated {
	for _, one := range g.members {
		if one.lacp == nil {
			continue
		}
		if pdu := one.lacp.Farewell(); pdu != nil {
			out = append(out, originated{one.port, [][]byte{one.frame(pdu)}})
		}
	}
	return out
}

// systemOf is the switch as the partner of a bond knows it.
func (m *Module) systemOf(p *pipeline.Port) lacp.System {
	s := lacp.System{Priority: p.Bond.SystemPriority, MAC: p.MAC}
	if s.MAC == [6]byte{} { // all members are in shared memory
		s.MAC = [6]byte{2, 'w', byte(m.id >> 24), byte(m.id >> 16), byte(m.id >> 8), byte(m.id)}
	}
	return s
}

// join makes the ports of LACP, and gives them the states of the links. The caller has the lock.
func (m *Module) join(g *group, system lacp.System) {
	if g.lacp == nil {
		g.lacp = &lacp.Aggregator{System: system, Key: m.unused(g.number+1, func(a *lacp.Aggregator, key uint16) bool { return a.Key == key }), Fast: g.settings.Fast}
	}
	for _, one := range g.members {
		if one.lacp == nil {
			one.lacp = g.lacp.Add(m.unused(one.port+1, hasPort))
		}
	}
	g.setUp(m.clock())
}

// setUp gives the ports of LACP the states of the links.
func (g *group) setUp(now time.Time) {
	for _, one := range g.members {
		one.lacp.SetUp(one.up, now)
		if !one.up {
			one.agreed, one.takes = false, false
		}
	}
}

// unused is a number for LACP that no aggregator uses: number, unless one has that from another process, in which ports had other numbers.
func (m *Module) unused(number uint16, uses func(*lacp.Aggregator, uint16) bool) uint16 {
	for slices.ContainsFunc(m.groups, func(g *group) bool { return g.lacp != nil && uses(g.lacp, number) }) {
		number = max(number+1, 1)
	}
	return number
}

func hasPort(a *lacp.Aggregator, number uint16) bool {
	return slices.ContainsFunc(a.Ports, func(p *lacp.Port) bool { return p.Actor.Port == number })
}

// follow gives a group its members.
func (g *group) follow(ports []pipeline.Port) {
	var members []*member
	for i := range ports {
		p := &ports[i]
		if p.Member == "" || p.Of != g.number {
			continue
		}
		one := &member{port: uint16(i), name: p.Member}
		if at := slices.IndexFunc(g.members, func(m *member) bool { return m.port == one.port }); at >= 0 {
			one = g.members[at]
		}
		one.up, one.mac = !p.Down, p.MAC
		members = append(members, one)
	}
	g.members = members
}

// update decides which members are used, and gives the workers tables of it. The caller has the lock.
func (m *Module) update() {
	now := m.clock()
	t := &tables{roles: make([]role, len(m.ports)), names: pipeline.Devices(m.ports)}
	before := m.tables.Load()
	changed := before == nil
	for i, g := range m.groups {
		use := g.choose(now)
		b := bond{number: g.number, hash: g.settings.Hash, down: len(use) == 0}
		var held *assignment
		if before != nil {
			for k := range before.bonds {
				if before.bonds[k].number == g.number {
					held = &before.bonds[k].targets
				}
			}
		}
		if held == nil {
			held = &assignment{}
			for k := range held {
				held[k] = packet.NoPort
			}
		}
		b.targets = assign(held, use)
		t.roles[g.number] = role{kind: isBond, index: uint16(i)}
		for _, one := range g.members {
			sends := slices.Contains(use, one.port)
			if changed = changed || sends != one.sends; one.sends && !sends {
				one.lost++
			}
			one.sends = sends
			t.roles[one.port] = role{
				kind: isMember, index: uint16(i), receives: one.receives, slow: g.settings.Mode == pipeline.LACP,
				usable: one.up && (sends || one == g.former),
			}
		}
		t.bonds = append(t.bonds, b)
	}
	if before == nil || len(before.bonds) != len(t.bonds) {
		for range m.workers {
			fresh := make([]own, len(t.bonds))
			for i := range fresh {
				fresh[i].number = packet.NoPort
			}
			t.fresh = append(t.fresh, fresh)
		}
	} else {
		t.fresh = before.fresh
	}
	m.tables.Store(t)
	if changed && m.changed != nil {
		m.changed()
	}
	m.nudge()
}

func (m *Module) nudge() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// choose returns the ports of the members by which packets leave, in order, and sets what each receives.
func (g *group) choose(now time.Time) (use []uint16) {
	if g.settings.Mode == pipeline.ActiveBackup {
		return g.chooseActive(now)
	}
	for _, m := range g.members {
		m.receives = everything // of a link that is down: what it still had
		if m.up && (m.lacp == nil || m.agreed) {
			use = append(use, m.port)
		}
		if m.up && m.lacp != nil && !m.takes {
			m.receives = nothing
		}
	}
	if len(use) < int(g.settings.MinLinks) {
		return nil
	}
	return use
}

// chooseActive keeps the active member, unless its link is down or the primary one has come.
func (g *group) chooseActive(now time.Time) (use []uint16) {
	best := g.active
	if best != nil && (!best.up || !slices.Contains(g.members, best)) {
		best = nil
	}
	for _, m := range g.members {
		if m.up && (best == nil || g.settings.Primary == m.port+1) {
			best = m
		}
	}
	if best != g.active {
		if g.changes++; g.active != nil && g.active.up && slices.Contains(g.members, g.active) {
			g.former, g.until = g.active, now.Add(formerTime)
		} else {
			g.former = nil
		}
		g.active, g.announce = best, best != nil
	}
	if g.former != nil && !now.Before(g.until) {
		g.former = nil
	}
	for _, m := range g.members {
		switch {
		case m == g.active || !m.up:
			m.receives = everything // of a link that is down: what it still had
		case m == g.former:
			m.receives = unicast
		default:
			m.receives = nothing
		}
	}
	if g.active == nil {
		return nil
	}
	return []uint16{g.active.port}
}

// every is how often the module's goroutine looks at its clocks and at what workers received.
const every = 10 * time.Millisecond

// Run implements pipeline.Background.
func (m *Module) Run(stop <-chan struct{}) {
	timer := time.NewTicker(every)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		case <-m.wake:
		}
		m.step()
	}
}

// step does what is due.
func (m *Module) step() {
	m.mu.Lock()
	if m.left {
		m.mu.Unlock()
		return
	}
	now, late := m.clock(), false
	out := m.pending
	m.pending = nil
	m.receive(now, &out)
	for _, g := range m.groups {
		late = late || g.former != nil && !now.Before(g.until)
		late = g.speak(now, &out) || late
	}
	if late {
		m.update()
	}
	out = append(out, m.announcements()...)
	m.sending = out
	m.mu.Unlock()
	m.originate(out)
}

// originate sends frames, which are in sending until they are sent: workers that rest while another process takes the switch over take none.
func (m *Module) originate(out []originated) {
	for i, o := range out {
		if m.send != nil {
			m.send(o.port, o.frames...)
		}
		m.mu.Lock()
		m.sending = out[i+1:]
		m.mu.Unlock()
	}
}

// receive gives the ports of LACP what workers have taken for them.
func (m *Module) receive(now time.Time, out *[]originated) {
	for _, w := range m.workers {
		w.pdus.Drain(func(p *pdu) {
			for _, g := range m.groups {
				for _, one := range g.members {
					if one.port != p.port || one.lacp == nil {
						continue
					}
					if response := one.lacp.Receive(p.bytes[:], now); response != nil {
						*out = append(*out, originated{one.port, [][]byte{one.frame(response)}})
					}
				}
			}
		})
	}
}

// speak runs the machines of LACP. It reports whether other members are agreed on than before.
func (g *group) speak(now time.Time, out *[]originated) (changed bool) {
	if g.lacp == nil {
		return false
	}
	pdus := g.lacp.Step(now)
	for _, one := range g.members {
		if active, takes := one.lacp.Active(), one.lacp.Takes(); active != one.agreed || takes != one.takes {
			one.agreed, one.takes, changed = active, takes, true
		}
		for i, p := range g.lacp.Ports {
			if p == one.lacp && pdus[i] != nil {
				*out = append(*out, originated{one.port, [][]byte{one.frame(pdus[i])}})
			}
		}
	}
	return changed
}

// frame is a PDU as it leaves by a member.
func (m *member) frame(pdu []byte) []byte {
	frame := append(make([]byte, 0, 14+len(pdu)), lacp.Group[:]...)
	frame = append(frame, m.mac[:]...)
	return append(binary.BigEndian.AppendUint16(frame, lacp.EtherType), pdu...)
}

// originated are frames to send by a port.
type originated struct {
	port   uint16
	frames [][]byte
}

// maxAnnounced bounds the frames by which a change of the active member announces stations: half of a TX ring of the default size.
const maxAnnounced = 1024

// announcements makes what announces the stations by bonds whose active member is another one. The caller has the lock.
func (m *Module) announcements() (out []originated) {
	var announcers []pipeline.Announcer
	if all := m.announcers.Load(); all != nil {
		announcers = *all
	}
	for _, g := range m.groups {
		if !g.announce || g.active == nil {
			continue
		}
		g.announce = false
		o := originated{port: g.active.port}
		for i := range m.ports {
			p := &m.ports[i]
			if p.Name == "" || uint16(i) != g.number && (p.VLAN == 0 || p.Parent != g.number) {
				continue
			}
			for _, a := range announcers {
				a.Announce(uint16(i), func(frame []byte) {
					if len(o.frames) < maxAnnounced {
						o.frames = append(o.frames, tagged(frame, p))
					}
				})
			}
		}
		out = append(out, o)
	}
	return out
}

// tagged is a copy of a frame with the tags of a VLAN subinterface.
func tagged(frame []byte, p *pipeline.Port) []byte {
	const addresses = 12
	all := slices.Clone(frame[:addresses])
	if p.VLAN != 0 {
		all = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(all, p.TPID), p.VLAN)
	}
	if p.Inner != 0 {
		all = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(all, packet.TypeCustomerTag), p.Inner)
	}
	return append(all, frame[addresses:]...)
}

// Link is the state of a bond.
type Link struct {
	Name    string
	Mode    pipeline.BondMode
	Hash    pipeline.BondHash
	Uses    string // the members that it uses, in words
	Down    string // why it carries no packets; empty if it does
	Changes uint64 // of the active member, of an active-backup bond
	System  lacp.System
	Members []Member
}

// Member is the state of a member.
type Member struct {
	Name             string
	Up               bool // its link
	Active, Receives bool // packets leave by it, and are taken there
	Ends             uint64
	LACP             *lacp.Port // a copy; nil without LACP
}

// Links returns the states of the bonds. It may be called from anywhere.
func (m *Module) Links() (all []Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		l := Link{Name: g.name, Mode: g.settings.Mode, Hash: g.settings.Hash, Changes: g.changes}
		if g.lacp != nil {
			l.System = g.lacp.System
		}
		var use, rest []string
		for _, one := range g.members {
			if one.sends {
				use = append(use, one.name)
			} else {
				rest = append(rest, one.name)
			}
			member := Member{Name: one.name, Up: one.up, Active: one.sends, Receives: one.up && one.receives != nothing, Ends: one.lost}
			if one.lacp != nil {
				p := *one.lacp
				member.LACP = &p
			}
			l.Members = append(l.Members, member)
		}
		if l.Uses = "members " + strings.Join(use, ", "); len(use) == 0 {
			l.Uses = ""
			l.Down = fmt.Sprintf("no member carries packets (%s)", strings.Join(rest, ", "))
			if g.settings.MinLinks > 1 {
				l.Down = fmt.Sprintf("fewer than %d members carry packets (%s)", g.settings.MinLinks, strings.Join(rest, ", "))
			}
		}
		all = append(all, l)
	}
	return all
}

// Metrics implements pipeline.Metered.
func (m *Module) Metrics(emit func(pipeline.Metric)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, g := range m.groups {
		for _, one := range g.members {
			labels, v := [][2]string{{"bond", g.name}, {"member", one.name}}, 0.0
			if one.sends {
				v = 1
			}
			emit(pipeline.Metric{Name: "member_active", Help: "1 if packets of the bond leave by the member", Labels: labels, Value: v, Gauge: true})
			emit(pipeline.Metric{Name: "member_ends_total", Help: "times that the use of the member ended", Labels: labels, Value: float64(one.lost)})
			if one.lacp == nil {
				continue
			}
			for _, c := range []struct {
				name, help string
				value      uint64
			}{
				{"lacpdus_received_total", "LACPDUs received", one.lacp.Received},
				{"lacpdus_sent_total", "LACPDUs sent", one.lacp.Sent},
				{"lacp_markers_total", "marker PDUs received", one.lacp.Markers},
				{"lacp_partner_changes_total", "times that another partner was at the far end than before", one.lacp.Changes},
			} {
				emit(pipeline.Metric{Name: c.name, Help: c.help, Labels: labels, Value: float64(c.value)})
			}
		}
	}
}
