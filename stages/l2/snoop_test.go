package l2

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// groupFrame is a frame with what a message says.
func groupFrame(m *message, proto, ttl uint8, body []byte) []byte {
	return append(ether(groupEthernet(m.dst), stationMAC(1), map[bool]uint16{false: 0x0800, true: 0x86dd}[m.v6], 14), build(m, proto, ttl, body)...)
}

func parsed(t testing.TB, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// igmp is a frame of IGMPv2: of type 0x11, 0x16 or 0x17.
func igmp(t testing.TB, typ byte, group string) []byte {
	a := parsed(t, group)
	m := &message{src: parsed(t, "10.0.0.1"), dst: a}
	code := byte(0)
	switch typ {
	case 0x11:
		if code = 10; a.IsUnspecified() {
			m.dst = parsed(t, "224.0.0.1")
		}
	case 0x17:
		m.dst = parsed(t, "224.0.0.2")
	}
	return groupFrame(m, header.ProtoIGMP, 1, append([]byte{typ, code, 0, 0}, a.AsSlice()...))
}

// toGroup is a UDP packet to a group.
func toGroup(t testing.TB, group string) []byte {
	m := &message{src: parsed(t, "10.0.0.7"), dst: parsed(t, group)}
	if m.v6 = m.dst.Is6(); m.v6 {
		m.src = parsed(t, "fe80::7")
	}
	return groupFrame(m, header.ProtoUDP, 64, make([]byte, 20))
}

// put appends a frame with the metadata that the parser finds.
func put(t testing.TB, b *packet.Batch, port uint16, data []byte) *packet.Packet {
	p := addPacket(t, b, port, data)
	l3 := data[p.L3:]
	p.Flags |= packet.FlagIPv4
	if l3[0]>>4 == 6 {
		p.Flags ^= packet.FlagIP
	}
	p.Proto = protoOf(l3)
	return p
}

// goes sends frames from a port in one batch and says where the last one goes: its ports, or a drop reason.
func goes(t testing.TB, s pipeline.Stage, b *packet.Batch, port uint16, frames ...[]byte) string {
	t.Helper()
	for i, data := range frames {
		put(t, b, port, data).ID = uint64(i + 1)
	}
	s.Process(b)
	var out []int
	reason := ""
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.ID == uint64(len(frames)) {
			if p.Reason != 0 {
				reason = p.Reason.String()
			} else {
				out = append(out, int(p.OutPort))
			}
		}
	}
	release(b)
	slices.Sort(out)
	return strings.Trim(reason+fmt.Sprint(out), "[]")
}

func snoopConfig() Config {
	c := DefaultConfig()
	c.Snooping, c.FloodUnregistered = true, false
	c.StormMulticast = 0
	return c
}

// until repeats what a worker does until it is so: the writer is another goroutine.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestSnoopRun: a worker's messages come to the writer, by the ring, and what it makes of them to the worker.
func TestSnoopRun(t *testing.T) {
	c := snoopConfig()
	c.FastLeave = []string{"p2"}
	m, b, stop := startModule(t, c, 1)
	defer stop()
	s := m.Stage(0).(*stage)
	b.Now = clockTAI()
	if got := goes(t, s, b, 0, toGroup(t, "239.1.1.1")); got != "1 2 3" {
		t.Errorf("without a querier: %s", got)
	}
	if got := goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0")); got != "1 2 3" {
		t.Errorf("a query leaves by %s", got)
	}
	until(t, "a querier is heard", func() bool {
		_, snooped, ok := m.Memberships(b.Now)
		return ok && len(snooped) == 1 && snooped[0].QuerierPort == 0
	})
	b.Now += 2 * second // hosts have answered
	for i, want := range []string{"not_joined", "0", "0"} {
		if got := goes(t, s, b, uint16(i), igmp(t, 0x16, "239.1.1.1")); got != want {
			t.Errorf("a report of p%d leaves by %s, want %s", i, got, want)
		}
	}
	until(t, "groups are joined", func() bool { return goes(t, s, b, 3, toGroup(t, "239.1.1.1")) == "0 1 2" })
	for group, want := range map[string]string{"239.1.1.2": "not_joined", "224.0.0.5": "1 2 3", "ff15::1": "1 2 3", "239.1.1.1": "1 2"} {
		if got := goes(t, s, b, 0, toGroup(t, group)); got != want {
			t.Errorf("a packet to %s leaves by %s, want %s", group, got, want)
		}
	}
	goes(t, s, b, 1, igmp(t, 0x17, "239.1.1.1"))
	goes(t, s, b, 2, igmp(t, 0x17, "239.1.1.1"))
	until(t, "the host of p2 has left at once", func() bool { return goes(t, s, b, 0, toGroup(t, "239.1.1.1")) == "1" })
	ports := slices.Clone(m.env.Ports)
	ports[1].Down = true
	m.FollowPorts(ports)
	if got := goes(t, s, b, 0, toGroup(t, "239.1.1.1")); got != "not_joined" {
		t.Errorf("with p1 down: %s", got)
	}
	m.FollowPorts(m.env.Ports)
	if got := goes(t, s, b, 0, toGroup(t, "239.1.1.1")); got != "1" {
		t.Errorf("with p1 up again, whose hosts may not know: %s", got)
	}
}

// TestSnoopShare: a port that sends messages without end fills its own share of the ring, and gets all groups.
func TestSnoopShare(t *testing.T) {
	m := newModule(t, snoopConfig(), eight[:4]...)
	s, b := m.Stage(0).(*stage), newBatch(t, 1024)
	b.Now = clockTAI()
	goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0"))
	for i := range 200 {
		goes(t, s, b, 1, igmp(t, 0x16, fmt.Sprintf("239.1.1.%d", i)))
	}
	goes(t, s, b, 2, igmp(t, 0x16, "239.2.2.2"))
	m.write()
	memberships, snooped, _ := m.Memberships(b.Now)
	if len(memberships) != mostMessages+1 || memberships[len(memberships)-1].Port != 2 {
		t.Errorf("%d memberships, want those of one share, and p2's", len(memberships))
	}
	if fmt.Sprint(snooped[0].All) != "[0 1]" {
		t.Errorf("%+v", snooped[0])
	}
	lost := 0.0
	m.Metrics(func(v pipeline.Metric) {
		if v.Name == "snooped_messages_total" && v.Labels[0][1] == "lost" {
			lost = v.Value
		}
	})
	if lost != 200-mostMessages {
		t.Errorf("%v messages are lost", lost)
	}
	b.Now += 11 * second
	if got := goes(t, s, b, 3, toGroup(t, "239.1.1.199")); got != "0 1" {
		t.Errorf("a group whose report was lost leaves by %s", got)
	}
}

// TestSnoopChange: settings change while what is known stays; without snooping all is flooded.
func TestSnoopChange(t *testing.T) {
	c := DefaultConfig()
	m := newModule(t, c, eight[:4]...)
	s, b := m.Stage(0).(*stage), newBatch(t, 256)
	b.Now = clockTAI()
	speak := func() {
		goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0"))
		goes(t, s, b, 1, igmp(t, 0x16, "239.1.1.1"))
		m.write()
		b.Now += 11 * second
	}
	speak()
	if got := goes(t, s, b, 2, toGroup(t, "239.1.1.1")); got != "0 1 3" {
		t.Errorf("without snooping: %s", got)
	}
	if _, _, ok := m.Memberships(b.Now); ok {
		t.Error("memberships without snooping")
	}
	c = snoopConfig()
	change(t, m, c)
	b.Now = clockTAI()
	speak()
	if got := goes(t, s, b, 2, toGroup(t, "239.1.1.1")); got != "0 1" {
		t.Errorf("with snooping: %s", got)
	}
	c.MulticastRouters = []string{"p3"}
	change(t, m, c)
	if got := goes(t, s, b, 2, toGroup(t, "239.1.1.1")); got != "0 1 3" {
		t.Errorf("with a router at p3: %s", got)
	}
	c.Ports = []Port{{Port: "p1", Access: 5}}
	change(t, m, c)
	if got := goes(t, s, b, 2, toGroup(t, "239.1.1.1")); got != "0 3" {
		t.Errorf("with p1 in another VLAN: %s", got)
	}
	c.Ports = nil
	change(t, m, c)
	if got := goes(t, s, b, 2, toGroup(t, "239.1.1.9")); got != "0 1 3" { // its hosts have reported elsewhere
		t.Errorf("with p1 back in the VLAN: %s", got)
	}
	c.RouterGuard = []string{"p0"}
	change(t, m, c)
	if got := goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0")); got != "router_guard" {
		t.Errorf("a query of a guarded port: %s", got)
	}
	change(t, m, DefaultConfig())
	if got := goes(t, s, b, 2, toGroup(t, "239.1.1.1")); got != "0 1 3" {
		t.Errorf("without snooping again: %s", got)
	}
}

// TestSnoopRouted: the router gets what is to groups at its routed interface, joined or not, and what it sends goes to listeners.
func TestSnoopRouted(t *testing.T) {
	c := snoopConfig()
	c.Domains = []Domain{{Name: "blue", Ports: []string{"p0", "p1", "p2", "irb0"}}, {Name: "green", Ports: []string{"p3"}}}
	env := pipeline.Env{Name: "s1", Workers: 1}
	for _, p := range []string{"p0", "p1", "p2", "p3", "irb0"} {
		env.Ports = append(env.Ports, pipeline.Port{Name: p, MaxFrame: 1514, Routed: p == "irb0"})
	}
	m, err := New(c, env)
	if err != nil {
		t.Fatal(err)
	}
	m.Inline()
	r := &IRB{}
	if err := pipeline.Join([]pipeline.Named{{Name: "l2", Module: m}, {Name: "irb", Module: r}}); err != nil {
		t.Fatal(err)
	}
	m.Route([]pipeline.RoutedPort{{Port: 4, MAC: stationMAC(44)}})
	s, b := m.Stage(0).(*stage), newBatch(t, 256)
	b.Now = 1000 * second
	goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0"))
	goes(t, s, b, 1, igmp(t, 0x16, "239.1.1.1"))
	b.Now += 11 * second
	for group, want := range map[string]string{"239.1.1.1": "0 1 4", "239.1.1.2": "0 4"} {
		if got := goes(t, s, b, 2, toGroup(t, group)); got != want {
			t.Errorf("a packet to %s leaves by %s, want %s", group, got, want)
		}
	}
	if got := goes(t, s, b, 3, toGroup(t, "239.1.1.1")); got != "no_member" {
		t.Errorf("in the other domain: %s", got)
	}
	out := r.Stage(0)
	put(t, b, 3, toGroup(t, "239.1.1.1")).OutPort = 4
	out.Process(b)
	var left []int
	for i := range b.Pkts {
		left = append(left, int(b.Pkts[i].OutPort))
	}
	slices.Sort(left)
	if fmt.Sprint(left) != "[0 1]" {
		t.Errorf("what the router sends leaves by %v", left)
	}
	release(b)
	if m.DomainName(1) != "blue" || m.DomainName(7) != "" {
		t.Errorf("domains %q, %q", m.DomainName(1), m.DomainName(7))
	}
}

// TestSnoopExplain: a traced packet says why it went where it went.
func TestSnoopExplain(t *testing.T) {
	c := snoopConfig()
	m := newModule(t, c, eight[:4]...)
	m.Inline()
	s, b := m.Stage(0).(*stage), newBatch(t, 64)
	b.Now = 1000 * second
	explain := func(port uint16, data []byte) string {
		put(t, b, port, data)
		s.Process(b)
		text := s.Explain(b, &b.Pkts[len(b.Pkts)-1])
		release(b)
		_, text, _ = strings.Cut(text, ": ")
		return text
	}
	for _, step := range []struct {
		port uint16
		data []byte
		want string
	}{
		{2, toGroup(t, "239.1.1.1"), "group, flooded: no IGMP querier was heard, leaves by p3"},
		{0, igmp(t, 0x11, "0.0.0.0"), "IGMP query, flooded, leaves by p3"},
		{1, igmp(t, 0x16, "239.1.1.1"), "IGMP report, to multicast routers, leaves by p0"},
		{2, toGroup(t, "239.1.1.1"), "group, to listeners and multicast routers, leaves by p1"},
		{2, toGroup(t, "239.1.1.2"), "group without listeners, to multicast routers, leaves by p0"},
		{2, toGroup(t, "224.0.0.2"), "group of all hosts or of the link, flooded, leaves by p3"},
		{2, toGroup(t, "ff15::1"), "group, flooded: no MLD querier was heard, leaves by p3"},
		{2, ether(groupMAC(0xff), stationMAC(1), 0x0800, 60), "group, flooded, leaves by p3"},
	} {
		if got := explain(step.port, step.data); got != step.want {
			t.Errorf("explained as %q, want %q", got, step.want)
		}
		if b.Now == 1000*second && step.port == 0 {
			b.Now += 11 * second
		}
	}
	c.FloodUnregistered = true
	change(t, m, c)
	if got, want := explain(2, toGroup(t, "239.1.1.2")), "group without listeners, flooded, leaves by p3"; got != want {
		t.Errorf("explained as %q, want %q", got, want)
	}
}

// TestSnoopDoesNotAllocate: neither packets to groups nor messages.
func TestSnoopDoesNotAllocate(t *testing.T) {
	m := newModule(t, snoopConfig(), eight...)
	s, b := m.Stage(0).(*stage), newBatch(t, 8*packet.BatchSize)
	b.Now = clockTAI()
	goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0"))
	goes(t, s, b, 1, igmp(t, 0x16, "239.1.1.1"))
	goes(t, s, b, 2, igmp(t, 0x16, "239.1.1.1"))
	m.write()
	b.Now += 11 * second
	frames := [][]byte{toGroup(t, "239.1.1.1"), toGroup(t, "239.1.1.2"), toGroup(t, "ff15::1"), igmp(t, 0x16, "239.1.1.1"), igmp(t, 0x17, "239.1.1.1"), igmp(t, 0x11, "239.1.1.1")}
	if n := testing.AllocsPerRun(200, func() {
		b.Now += 1e6
		for i := range 48 {
			data := frames[i%len(frames)]
			addr, _ := b.Frames.AllocOne()
			p := b.Append()
			*p = packet.Packet{Addr: addr + testHeadroom, Len: uint32(len(data)), WireLen: uint32(len(data)), InPort: uint16(i % 8), L3: 14, Proto: protoOf(data[14:]), Flags: packet.FlagIPv4 | packet.FlagMulticast}
			if data[12] == 0x86 {
				p.Flags ^= packet.FlagIP
			}
			copy(b.Mem[p.Addr:], data)
		}
		s.Process(b)
		release(b)
	}); n != 0 {
		t.Errorf("a batch allocates %v times", n)
	}
	if lost := s.messages.Load().Len(); lost == 0 {
		t.Error("no message was given to the writer")
	}
}

// TestSnoopManyWorkers: reports come by all workers, while groups are looked up, ports go down and settings change. Run it under the race detector.
func TestSnoopManyWorkers(t *testing.T) {
	const workers = 4
	c := snoopConfig()
	m, _, stop := startModule(t, c, workers)
	done := make(chan struct{})
	for w := range workers {
		s, b := m.Stage(w).(*stage), newBatch(t, 256)
		go func() {
			defer func() { done <- struct{}{} }()
			rng := rand.New(rand.NewPCG(uint64(w), 3))
			for range 500 {
				b.Now = clockTAI() + 2*second
				group := fmt.Sprintf("239.1.1.%d", rng.IntN(20))
				typ := []byte{0x11, 0x16, 0x16, 0x17}[rng.IntN(4)]
				if typ == 0x11 {
					group = "0.0.0.0"
				}
				goes(t, s, b, uint16(rng.IntN(4)), igmp(t, typ, group), toGroup(t, fmt.Sprintf("239.1.1.%d", rng.IntN(20))))
			}
		}()
	}
	for left := workers; left > 0; {
		select {
		case <-done:
			left--
		default:
			c.FloodUnregistered = !c.FloodUnregistered
			change(t, m, c)
			m.Memberships(clockTAI())
			m.FollowPorts([]pipeline.Port{{Name: "p0"}, {Name: "p1", Down: true}, {Name: "p2"}, {Name: "p3"}})
		}
	}
	stop()
	if c := m.groups.Counters(); c.Reports == 0 || c.Queries == 0 {
		t.Errorf("%+v", c)
	}
}

// TestSnoopFaults: what is refused.
func TestSnoopFaults(t *testing.T) {
	for _, tt := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(c *Config) { c.FastLeave = []string{"p0"} }, "fast_leave: without snooping it has no effect: set snooping = true, or remove it"},
		{func(c *Config) { c.Snooping, c.GroupTable = true, 0 }, "group_table: 0 is out of range: choose 1 to 1048576"},
		{func(c *Config) { c.Snooping, c.RouterGuard = true, []string{"p9"} }, `router_guard[0]: port "p9" is not defined: define [[port]] name = "p9" or correct the name`},
		{func(c *Config) { c.Snooping, c.RouterGuard, c.MulticastRouters = true, []string{"p0"}, []string{"p0"} }, `router_guard[0]: port "p0" is one of multicast_routers: remove it from one of the two`},
	} {
		c := DefaultConfig()
		tt.change(&c)
		if err := c.Validate([]string{"p0"}); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// TestSnoopTags: what is of VLANs that are not the bridge's is flooded, and says nothing: no querier is known of them.
func TestSnoopTags(t *testing.T) {
	c := snoopConfig()
	c.Domains = []Domain{{Name: "customer", Ports: []string{"p0", "p1", "p2"}, Tagged: true}}
	m := newModule(t, c, "p0", "p1", "p2", "p3")
	m.Inline()
	s, b := m.Stage(0).(*stage), newBatch(t, 64)
	b.Now = 1000 * second
	tagged := func(data []byte) []byte { return slices.Concat(data[:12], []byte{0x81, 0, 0, 7}, data[12:]) }
	goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0"))
	goes(t, s, b, 1, tagged(igmp(t, 0x16, "239.1.1.1")))
	b.Now += 11 * second
	for _, step := range []struct {
		data []byte
		want string
	}{
		{toGroup(t, "239.1.1.1"), "0"},
		{tagged(toGroup(t, "239.1.1.1")), "0 1"},
		{tagged(igmp(t, 0x16, "239.1.1.1")), "0 1"},
	} {
		if got := goes(t, s, b, 2, step.data); got != step.want {
			t.Errorf("% x leaves by %s, want %s", step.data[12:18], got, step.want)
		}
	}
	if all, _, _ := m.Memberships(b.Now); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestSnoopRenumbered: a domain that takes over another one's number does not take over its querier.
func TestSnoopRenumbered(t *testing.T) {
	c := snoopConfig()
	c.Domains = []Domain{{Name: "blue", Ports: []string{"p0", "p1"}}}
	m := newModule(t, c, "p0", "p1", "p2", "p3", "p4")
	s, b := m.Stage(0).(*stage), newBatch(t, 64)
	b.Now = clockTAI()
	goes(t, s, b, 0, igmp(t, 0x11, "0.0.0.0"))
	m.write()
	b.Now += 11 * second
	if got := goes(t, s, b, 1, toGroup(t, "239.1.1.1")); got != "0" {
		t.Errorf("with a querier: %s", got)
	}
	c.Domains = []Domain{{Name: "green", Ports: []string{"p2", "p3", "p4"}}}
	change(t, m, c)
	if got := goes(t, s, b, 3, toGroup(t, "239.1.1.1")); got != "2 4" {
		t.Errorf("in a domain without querier: %s", got)
	}
}
