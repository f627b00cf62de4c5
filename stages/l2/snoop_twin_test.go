package l2

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// message is what a packet to a group says, in words.
type message struct {
	kind       string // "query", "report", "router"; "data" for what is none of these, or malformed
	v6         bool
	version    int
	src, dst   netip.Addr
	group      netip.Addr   // of a query, invalid in a general one
	sources    []netip.Addr // of a query
	records    []groupRecord
	maxDelay   time.Duration
	suppress   bool
	robustness int
	interval   time.Duration
	in         int  // the port where it was heard
	spoiled    bool // a control message that is malformed
}

type groupRecord struct {
	kind    string // as the RFC calls them
	old     int    // the version of reports without records; 0 of those with
	group   netip.Addr
	sources []netip.Addr
}

// groupTwin is snooping again, slow and plain, by the tables of RFC 3376, 6.4, on sets. It is told what messages say.
type groupTwin struct {
	config  Config
	bridge  *twin
	ports   []string
	members map[string]map[netip.Addr]map[int]*groupState // by VLAN, group and port
	domains map[string]*groupDomain                       // by VLAN and family
}

type groupState struct {
	exclude bool
	timer   int64
	old     map[int]int64
	sources map[netip.Addr]int64 // timers; 0 for those that are excluded
}

type groupDomain struct {
	routers     map[int]int64
	from, until int64
	querier     netip.Addr
	querierEnds int64
	membership  time.Duration
	slow        int64 // until when a querier of IGMPv1 may be remembered by hosts
}

func (w *groupTwin) domain(vlan int, v6 bool) *groupDomain {
	k := fmt.Sprint(vlan, v6)
	if w.domains[k] == nil {
		w.domains[k] = &groupDomain{routers: map[int]int64{}, membership: 260 * time.Second}
	}
	return w.domains[k]
}

// expire ends what is over by the RFC's 6.3 and 6.5; it reports whether nothing is left.
func (g *groupState) expire(now int64) bool {
	if g.exclude && g.timer <= now {
		g.exclude = false
	}
	if !g.exclude {
		maps.DeleteFunc(g.sources, func(_ netip.Addr, until int64) bool { return until <= now })
	}
	return !g.exclude && len(g.sources) == 0
}

func (g *groupState) wants(source netip.Addr, now int64) bool {
	until, named := g.sources[source]
	if g.exclude {
		return !named || until > now
	}
	return until > now
}

// age is the passing of time.
func (w *groupTwin) age(now int64) {
	for _, groups := range w.members {
		for _, ports := range groups {
			maps.DeleteFunc(ports, func(_ int, g *groupState) bool { return g.expire(now) })
		}
	}
	for k, d := range w.domains {
		maps.DeleteFunc(d.routers, func(_ int, until int64) bool { return until <= now })
		if d.until <= now && len(d.routers) == 0 {
			delete(w.domains, k)
		}
	}
}

// receive returns the ports that a packet leaves by, and why it does not.
func (w *groupTwin) receive(in, vlan int, m *message, now int64) (out []int, reason packet.Reason) {
	carries := func(port int) bool { return port != in && w.bridge.carries(port, vlan) }
	only := func(ports func(int) bool, otherwise packet.Reason) ([]int, packet.Reason) {
		for port := range w.ports {
			if carries(port) && ports(port) {
				out = append(out, port)
			}
		}
		if out == nil {
			reason = otherwise
		}
		return out, reason
	}
	flood := func() ([]int, packet.Reason) { return only(func(int) bool { return true }, reasonNoMember) }
	d := w.domain(vlan, m.v6)
	switch m.kind {
	case "data":
		if m.spoiled && slices.Contains(w.config.RouterGuard, w.ports[in]) {
			return nil, reasonRouterGuard
		}
	case "query", "router":
		if slices.Contains(w.config.RouterGuard, w.ports[in]) {
			return nil, reasonRouterGuard
		}
		d.routers[in] = max(d.routers[in], now+int64(255*time.Second))
		m.in = in
		if m.kind == "query" {
			w.query(d, vlan, m, now)
		}
		return flood()
	case "report":
		for i := range m.records {
			w.record(d, in, vlan, &m.records[i], now)
		}
	}
	router := func(port int) bool {
		_, heard := d.routers[port]
		return heard || slices.Contains(w.config.MulticastRouters, w.ports[port])
	}
	switch {
	case now < d.from || now >= d.until:
		return flood()
	case m.kind == "report":
		return only(router, reasonNotJoined)
	case everywhere(m.dst):
		return flood()
	}
	listeners := w.members[fmt.Sprint(vlan)][m.dst]
	if len(listeners) == 0 && (w.config.FloodUnregistered || m.dst.Is6() && m.dst.IsLinkLocalMulticast()) {
		return flood()
	}
	return only(func(port int) bool {
		g := listeners[port]
		return router(port) || g != nil && g.wants(m.src, now)
	}, reasonNotJoined)
}

func everywhere(group netip.Addr) bool {
	if group.Is4() {
		return netip.MustParsePrefix("224.0.0.0/24").Contains(group)
	}
	return group == netip.MustParseAddr("ff02::1") || group.IsInterfaceLocalMulticast() || group.As16()[1]&15 == 0
}

func (w *groupTwin) query(d *groupDomain, vlan int, m *message, now int64) {
	robustness, interval := max(m.robustness, 0), m.interval
	if robustness == 0 {
		robustness = 2
	}
	if interval == 0 {
		interval = 125 * time.Second
	}
	if !m.v6 && m.version == 1 {
		d.slow = now + int64(time.Hour)
	}
	if m.group.IsValid() {
		if m.suppress {
			return
		}
		delay := max(m.maxDelay, time.Second)
		if d.slow > now {
			delay = max(delay, 10*time.Second)
		}
		soon := now + int64(max(robustness, 2))*int64(delay)
		for _, g := range w.members[fmt.Sprint(vlan)][m.group] {
			if len(m.sources) == 0 && g.exclude {
				g.timer = min(g.timer, soon)
			}
			for _, a := range m.sources {
				if g.sources[a] > now {
					g.sources[a] = min(g.sources[a], soon)
				}
			}
		}
		return
	}
	present := min(max(time.Duration(robustness)*interval+m.maxDelay/2, 255*time.Second), time.Hour)
	if d.until <= now {
		d.from = now + int64(min(max(m.maxDelay, time.Second), 255*time.Second))
	}
	d.routers[m.in] = max(d.routers[m.in], now+int64(present))
	beaten := !d.querier.IsValid() || d.querierEnds <= now || m.src == d.querier
	if !m.src.IsUnspecified() && d.querier.IsValid() {
		beaten = beaten || d.querier.IsUnspecified() || m.src.Less(d.querier)
	}
	if beaten {
		d.querier, d.querierEnds = m.src, now+int64(present)
		d.membership = max(time.Duration(robustness)*interval+m.maxDelay, 260*time.Second)
	}
	d.until = now + int64(min(present, d.membership))
}

func (w *groupTwin) record(d *groupDomain, port, vlan int, r *groupRecord, now int64) {
	if everywhere(r.group) {
		return
	}
	k := fmt.Sprint(vlan)
	if w.members[k] == nil {
		w.members[k] = map[netip.Addr]map[int]*groupState{}
	}
	if w.members[k][r.group] == nil {
		w.members[k][r.group] = map[int]*groupState{}
	}
	ports := w.members[k][r.group]
	g := ports[port]
	if g == nil {
		g = &groupState{sources: map[netip.Addr]int64{}, old: map[int]int64{}}
		ports[port] = g
	}
	if g.apply(r, slices.Contains(w.config.FastLeave, w.ports[port]), now, now+int64(d.membership)); g.expire(now) {
		delete(ports, port)
	}
}

// apply is RFC 3376, 6.4 and 7.3.2: gmi is when the group membership interval from now is over.
func (g *groupState) apply(r *groupRecord, alone bool, now, gmi int64) {
	list := map[netip.Addr]bool{}
	for _, a := range r.sources {
		list[a] = true
	}
	kind := r.kind
	if alone && (kind == "TO_IN" || kind == "TO_EX" || kind == "BLOCK") {
		switch kind {
		case "TO_IN":
			*g = groupState{sources: map[netip.Addr]int64{}, old: map[int]int64{}}
			for a := range list {
				g.sources[a] = gmi
			}
		case "TO_EX":
			g.exclude, g.timer, g.sources = true, gmi, map[netip.Addr]int64{}
			for a := range list {
				g.sources[a] = 0
			}
		case "BLOCK":
			for a := range list {
				if g.exclude {
					g.sources[a] = 0
				} else {
					delete(g.sources, a)
				}
			}
		}
		return
	}
	v1, v2 := g.old[1] > now, g.old[2] > now
	if r.old == 0 && (v1 || v2) {
		if kind == "BLOCK" {
			return
		}
		if kind == "TO_EX" || kind == "IS_EX" {
			list = nil
		}
	}
	if r.old != 0 && kind == "IS_EX" {
		g.old[r.old] = gmi
	}
	timers := map[netip.Addr]int64{} // of the new state, all excluded ones 0
	switch kind {
	case "IS_IN", "ALLOW", "TO_IN": // A+B, (B)=GMI; X+A, Y-A, (A)=GMI
		maps.Copy(timers, g.sources)
		for a := range list {
			timers[a] = gmi
		}
	case "IS_EX", "TO_EX":
		for a := range list {
			old, named := g.sources[a]
			switch {
			case named: // A*B keep their timers, Y*A stay excluded
				timers[a] = old
			case !g.exclude: // (B-A)=0
				timers[a] = 0
			case kind == "IS_EX": // (A-X-Y)=GMI
				timers[a] = gmi
			default: // (A-X-Y)=Group Timer
				timers[a] = g.timer
			}
		}
		g.exclude, g.timer = true, gmi
	case "BLOCK":
		maps.Copy(timers, g.sources)
		for a := range list {
			if _, named := g.sources[a]; g.exclude && !named {
				timers[a] = g.timer
			}
		}
	}
	g.sources = timers
}

// TestGroupTwin sends random packets to groups, control messages of all versions among them, through the stage and its twin.
func TestGroupTwin(t *testing.T) {
	rounds, packets := 40, 0
	if testing.Short() {
		rounds = 6
	}
	reached := map[string]int{}
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(uint64(seed), 9))
		packets += runGroupTwin(t, rng, seed, reached)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d packets: %v", packets, reached)
	for _, what := range []string{"flooded", "some", "none", "one", "not_joined", "router_guard", "include", "exclude", "sources", "old", "active", "query", "report", "router", "malformed"} {
		if reached[what] == 0 {
			t.Errorf("%s was not reached: the test does not test what it should", what)
		}
	}
}

func runGroupTwin(t *testing.T, rng *rand.Rand, seed int, reached map[string]int) (packets int) {
	ports := []string{"p0", "p1", "p2", "p3", "p4", "p5"}
	c := DefaultConfig()
	c.StormMulticast, c.StormBroadcast, c.StormUnknown, c.LoopMoves = 0, 0, 0, 0
	c.Snooping, c.FloodUnregistered = true, rng.IntN(2) == 0
	c.Ports = []Port{{Port: "p0", Access: 10}, {Port: "p1", Access: 10}, {Port: "p2", Access: 10}, {Port: "p3", Trunk: []int{10, 20}}, {Port: "p4", Access: 20}, {Port: "p5", Trunk: []int{20}, Native: 10}}
	for _, name := range ports {
		switch rng.IntN(6) {
		case 0:
			c.FastLeave = append(c.FastLeave, name)
		case 1:
			c.MulticastRouters = append(c.MulticastRouters, name)
		case 2:
			c.RouterGuard = append(c.RouterGuard, name)
		}
	}
	m := newModule(t, c, ports...)
	m.Inline()
	s := m.Stage(0).(*stage)
	w := &groupTwin{config: c, bridge: newTwin(c, ports), ports: ports, members: map[string]map[netip.Addr]map[int]*groupState{}, domains: map[string]*groupDomain{}}
	b := newBatch(t, packet.BatchSize*len(ports))
	now := int64(1_000_000_000_000)
	type wanted struct {
		out    []int
		reason packet.Reason
		m      *message
		in     int
	}
	for round := range 500 {
		now += int64(1+rng.IntN(10)) * int64(time.Second)
		if rng.IntN(30) == 0 {
			now += int64(rng.IntN(400)) * int64(time.Second)
		}
		b.Now = now
		w.age(now)
		var want []wanted
		for i := range packet.BatchSize {
			in := rng.IntN(len(ports))
			vlan := w.bridge.untagged(in)
			var tags []uint16
			if set := w.bridge.setting(in); len(set.Trunk) > 0 && (vlan < 0 || rng.IntN(2) == 0) {
				vlan = set.Trunk[rng.IntN(len(set.Trunk))]
				tags = []uint16{uint16(vlan)}
			}
			msg, l3 := randomMessage(rng, reached)
			data := append(ether(groupEthernet(msg.dst), stationMAC(in), map[bool]uint16{false: 0x0800, true: 0x86dd}[msg.v6], 14, tags...), l3...)
			p := addPacket(t, b, uint16(in), data)
			p.ID = uint64(i)
			p.Flags |= map[bool]packet.Flags{false: packet.FlagIPv4, true: packet.FlagIPv6}[msg.v6]
			p.Proto = protoOf(l3)
			out, reason := w.receive(in, vlan, msg, now)
			want = append(want, wanted{out, reason, msg, in})
		}
		packets += len(want)
		s.Process(b)
		got := make([]wanted, len(want))
		for i := range b.Pkts {
			p := &b.Pkts[i]
			if g := &got[p.ID]; p.Reason != 0 {
				g.reason = p.Reason
			} else {
				g.out = append(g.out, int(p.OutPort))
			}
		}
		for i := range want {
			slices.Sort(got[i].out)
			if !slices.Equal(got[i].out, want[i].out) || got[i].reason != want[i].reason {
				t.Errorf("seed %d, round %d, packet %d from %d: %+v: leaves by %v (%s), want %v (%s)", seed, round, i, want[i].in, want[i].m, got[i].out, got[i].reason, want[i].out, want[i].reason)
			}
			switch n := len(want[i].out); {
			case n > 2:
				reached["flooded"]++
			case n == 1:
				reached["one"]++
			case n == 0:
				reached["none"]++
			default:
				reached["some"]++
			}
			if want[i].reason != 0 {
				reached[want[i].reason.String()]++
			}
			reached[want[i].m.kind]++
		}
		release(b)
		compareGroups(t, m, w, now, fmt.Sprintf("seed %d, round %d", seed, round), reached)
		if t.Failed() {
			return packets
		}
		if rng.IntN(100) == 0 {
			port := rng.IntN(len(ports))
			m.groups.PortDown(uint16(port), now)
			for _, groups := range w.members {
				for _, all := range groups {
					delete(all, port)
				}
			}
			for _, d := range w.domains {
				delete(d.routers, port)
			}
		}
	}
	return packets
}

// compareGroups compares what is known of groups.
func compareGroups(t *testing.T, m *Module, w *groupTwin, now int64, name string, reached map[string]int) {
	t.Helper()
	memberships, snooped, _ := m.Memberships(now)
	n, used := 0, uint64(0)
	for _, groups := range w.members {
		for _, ports := range groups {
			for _, g := range ports {
				n++
				used += 1 + uint64(len(g.sources))
			}
		}
	}
	if n != len(memberships) {
		t.Errorf("%s: %d memberships, want %d", name, len(memberships), n)
	}
	if c := m.groups.Counters(); c.Used != used || c.Memberships != uint64(n) || c.Lost+c.Refused+c.Displaced+c.TooManySources != 0 {
		t.Errorf("%s: %+v, want %d used", name, c, used)
	}
	for _, e := range memberships {
		g := w.members[fmt.Sprint(e.VLAN)][e.Group][int(e.Port)]
		if g == nil || g.exclude != e.Exclude {
			t.Errorf("%s: %+v, want %+v", name, e, g)
			continue
		}
		var sources []netip.Addr
		left := g.timer
		if !g.exclude {
			left = 0
		}
		for a, until := range g.sources {
			if (until <= now) == g.exclude {
				sources = append(sources, a)
			}
			if !g.exclude {
				left = max(left, until)
			}
		}
		slices.SortFunc(sources, netip.Addr.Compare)
		if !slices.Equal(sources, e.Sources) || time.Duration(left-now) != e.Left {
			t.Errorf("%s: %+v, want sources %v, left %v", name, e, sources, time.Duration(left-now))
		}
		reached[map[bool]string{false: "include", true: "exclude"}[e.Exclude]]++
		if len(sources) != 0 {
			reached["sources"]++
		}
		if e.Version < 2 {
			reached["old"]++
		}
	}
	for _, e := range snooped {
		d := w.domains[fmt.Sprint(e.VLAN, e.V6)]
		if d == nil {
			t.Errorf("%s: %+v, and the twin knows nothing of it", name, e)
			continue
		}
		active := now >= d.from && now < d.until
		if active {
			reached["active"]++
		}
		if e.Active != active || e.Querier.IsValid() != (d.querierEnds > now) || e.Querier.IsValid() && e.Querier != d.querier {
			t.Errorf("%s: %+v, want active %v, %v", name, e, active, d.querier)
		}
	}
}

func groupEthernet(group netip.Addr) MAC {
	a := group.AsSlice()
	if group.Is4() {
		return MAC{1, 0, 0x5e, a[1] & 0x7f, a[2], a[3]}
	}
	return MAC{0x33, 0x33, a[12], a[13], a[14], a[15]}
}

func protoOf(l3 []byte) uint8 {
	if l3[0]>>4 == 4 {
		return l3[9]
	}
	if l3[6] == 0 {
		return l3[40]
	}
	return l3[6]
}

// randomMessage returns a packet to a group from its IP header on, and what it says.
func randomMessage(rng *rand.Rand, reached map[string]int) (*message, []byte) {
	m := &message{kind: "data", v6: rng.IntN(2) == 0}
	addr := func(texts ...string) netip.Addr { return netip.MustParseAddr(texts[rng.IntN(len(texts))]) }
	group := func() netip.Addr {
		if m.v6 {
			return addr("ff02::1", "ff02::1:ff00:7", "ff05::1", "ff15::2", "ff1e::3", "ff01::5")
		}
		return addr("224.0.0.251", "239.1.1.1", "239.1.1.2", "225.129.1.1", "225.1.1.1", "232.1.1.1")
	}
	list := func() (all []netip.Addr) {
		for range rng.IntN(4) * rng.IntN(2) {
			a := netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(5))})
			if m.v6 {
				a = netip.AddrFrom16([16]byte{0xfe, 0x80, 15: byte(rng.IntN(5))})
			}
			all = append(all, a)
		}
		return all
	}
	m.src = netip.AddrFrom4([4]byte{10, 0, 0, byte(rng.IntN(5))})
	if m.v6 {
		m.src = netip.AddrFrom16([16]byte{0xfe, 0x80, 15: byte(rng.IntN(5))})
	}
	m.dst = group()
	proto, ttl := uint8(header.ProtoUDP), uint8(64)
	body := make([]byte, 8+rng.IntN(20))
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	switch n := rng.IntN(100); {
	case n < 8:
		m.kind, proto, ttl = "query", header.ProtoIGMP, 1
		if !m.v6 && rng.IntN(5) == 0 {
			m.src = netip.IPv4Unspecified()
		}
		body = m.makeQuery(rng, group, list)
	case n < 40:
		m.kind, proto, ttl = "report", header.ProtoIGMP, 1
		body = m.makeReport(rng, group, list)
	case n < 42:
		m.kind, proto = "router", 103
		m.dst = addr("224.0.0.13")
		if m.v6 {
			m.dst = addr("ff02::d")
		}
		body = append([]byte{0x20, 0, 0, 0}, body...)
		if rng.IntN(5) == 0 {
			m.kind, body[0] = "data", 0x21 // of a register, not a hello
		}
	}
	if m.v6 && proto == header.ProtoIGMP {
		proto = header.ProtoICMPv6
	}
	l3 := build(m, proto, ttl, body)
	if ttl == 1 && rng.IntN(10) == 0 {
		m.spoil(rng, l3)
		reached["malformed"]++
	}
	return m, l3
}

// makeQuery fills in what a random query says, and returns its body without a checksum.
func (m *message) makeQuery(rng *rand.Rand, group func() netip.Addr, list func() []netip.Addr) []byte {
	m.dst = netip.MustParseAddr("224.0.0.1")
	if m.v6 {
		m.dst = netip.MustParseAddr("ff02::1")
	}
	if rng.IntN(2) == 0 {
		m.group = group()
		if rng.IntN(5) != 0 {
			m.dst = m.group
		}
	}
	m.version = 2 + rng.IntN(2)
	code := []int{1, 5, 20, 100, 127, 0x8a, 0xf1}[rng.IntN(7)]
	delay := map[int]int{0x8a: (0x0a | 0x10) << 3, 0xf1: 0x11 << 10}[code]
	if delay == 0 {
		delay = code
	}
	m.maxDelay = time.Duration(delay) * 100 * time.Millisecond
	if m.version == 2 {
		m.maxDelay = time.Duration(code) * 100 * time.Millisecond
	}
	body := []byte{0x11, byte(code), 0, 0}
	if m.v6 {
		wide := []int{0, 1000, 0x7fff, 0x8000, 0xb123}[rng.IntN(5)]
		m.maxDelay = time.Duration(wide) * time.Millisecond
		if m.version == 3 {
			m.maxDelay = time.Duration(map[int]int{0x8000: 0x1000 << 3, 0xb123: 0x1123 << 6}[wide]) * time.Millisecond
			if wide < 0x8000 {
				m.maxDelay = time.Duration(wide) * time.Millisecond
			}
		}
		body = []byte{130, 0, 0, 0, byte(wide >> 8), byte(wide), 0, 0}
	} else if rng.IntN(5) == 0 {
		m.version, body[1], m.maxDelay = 1, 0, 10*time.Second
	}
	switch {
	case m.group.IsValid():
		body = append(body, m.group.AsSlice()...)
	case m.v6:
		body = append(body, make([]byte, 16)...)
	default:
		body = append(body, 0, 0, 0, 0)
	}
	if m.version == 3 {
		interval := []int{0, 10, 125, 0x9f}[rng.IntN(4)]
		m.robustness, m.suppress, m.interval = rng.IntN(4), rng.IntN(4) == 0, time.Duration(interval)*time.Second
		if interval == 0x9f {
			m.interval = (0x1f << 4) * time.Second
		}
		if m.group.IsValid() {
			m.sources = list()
		}
		flags := byte(m.robustness)
		if m.suppress {
			flags |= 8
		}
		body = append(body, flags, byte(interval), 0, byte(len(m.sources)))
		for _, a := range m.sources {
			body = append(body, a.AsSlice()...)
		}
	}
	return body
}

// makeReport does so for a report.
func (m *message) makeReport(rng *rand.Rand, group func() netip.Addr, list func() []netip.Addr) []byte {
	kinds := []string{"IS_IN", "IS_EX", "TO_IN", "TO_EX", "ALLOW", "BLOCK"}
	if n := rng.IntN(4); n != 0 {
		m.dst = netip.MustParseAddr("224.0.0.22")
		body := []byte{0x22, 0, 0, 0, 0, 0, 0, byte(n)}
		if m.v6 {
			m.dst, body[0] = netip.MustParseAddr("ff02::16"), 143
		}
		for range n {
			k := rng.IntN(6)
			r := groupRecord{kind: kinds[k], group: group(), sources: list()}
			m.records = append(m.records, r)
			extra := rng.IntN(8) / 7
			body = append(body, byte(k+1), byte(extra), 0, byte(len(r.sources)))
			body = append(body, r.group.AsSlice()...)
			for _, a := range r.sources {
				body = append(body, a.AsSlice()...)
			}
			body = append(body, make([]byte, 4*extra)...)
		}
		return body
	}
	r := groupRecord{kind: "IS_EX", old: 2, group: group()}
	m.dst = r.group
	body := []byte{0x16, 0, 0, 0}
	switch rng.IntN(3) {
	case 0:
		r.kind, m.dst = "TO_IN", netip.MustParseAddr("224.0.0.2")
		body[0] = 0x17
	case 1:
		if !m.v6 {
			r.old, body[0] = 1, 0x12
		}
	}
	if m.v6 {
		body = []byte{131, 0, 0, 0, 0, 0, 0, 0}
		if r.kind == "TO_IN" {
			body[0], m.dst = 132, netip.MustParseAddr("ff02::2")
		}
	}
	m.records = []groupRecord{r}
	return append(body, r.group.AsSlice()...)
}

// build returns a packet from its IP header on, with its checksums.
func build(m *message, proto, ttl uint8, body []byte) []byte {
	if !m.v6 {
		l3 := []byte{0x46, 0, 0, byte(24 + len(body)), 0, 0, 0, 0, ttl, proto, 0, 0}
		l3 = append(append(append(l3, m.src.AsSlice()...), m.dst.AsSlice()...), 0x94, 4, 0, 0)
		binary.BigEndian.PutUint16(l3[10:], header.Checksum(l3))
		if proto == header.ProtoIGMP {
			binary.BigEndian.PutUint16(body[2:], header.Checksum(body))
		}
		return append(append(l3, body...), make([]byte, 12)...) // and padding
	}
	var ext []byte
	if next := proto; ttl == 1 {
		ext = []byte{next, 0, 5, 2, 0, 0, 1, 0}
		proto = 0
	}
	l3 := []byte{0x60, 0, 0, 0, 0, byte(len(ext) + len(body)), proto, ttl}
	l3 = append(append(append(l3, m.src.AsSlice()...), m.dst.AsSlice()...), ext...)
	if ext != nil {
		sum := header.Sum(body, header.PseudoSum6(header.IPv6At(l3, 0), header.ProtoICMPv6, len(body)))
		binary.BigEndian.PutUint16(body[2:], ^sum)
	}
	return append(l3, body...)
}

// spoil makes a control message malformed, so that it says nothing.
func (m *message) spoil(rng *rand.Rand, l3 []byte) {
	m.kind, m.spoiled = "data", true
	at := 24
	if m.v6 {
		at = 48
	}
	switch rng.IntN(3) {
	case 0:
		l3[at+2] ^= 0x55 // the checksum
	case 1:
		if m.v6 {
			l3[7] = 2 // the hop limit
		} else {
			l3[8] = 255
			l3[10], l3[11] = 0, 0
			binary.BigEndian.PutUint16(l3[10:], header.Checksum(l3[:24]))
		}
	case 2:
		if m.v6 {
			l3[at-6] = 6 // no router alert, which may be ignored
		} else {
			l3[10] ^= 1
		}
	}
}
