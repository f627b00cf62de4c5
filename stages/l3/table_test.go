package l3

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline"
)

// randomPrefix returns a prefix of which some contain others: few first bytes,
// any length.
func randomPrefix(r *rand.Rand, six bool) netip.Prefix {
	if six {
		var a [16]byte
		binary.BigEndian.PutUint64(a[:], r.Uint64())
		binary.BigEndian.PutUint64(a[8:], r.Uint64())
		a[0], a[1] = 0x20|byte(r.IntN(2)), byte(r.IntN(4))
		return netip.PrefixFrom(netip.AddrFrom16(a), r.IntN(129)).Masked()
	}
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], r.Uint32())
	a[0] = 11 + byte(r.IntN(3))
	a[1] = byte(r.IntN(4))
	return netip.PrefixFrom(netip.AddrFrom4(a), r.IntN(33)).Masked()
}

func routable(p netip.Prefix) bool { return p.Bits() == 0 || unroutable(p.Addr()) == 0 }

// scan is the slow twin: the longest of all prefixes that contain the address.
func scan(routes []Route, a netip.Addr) (best int) {
	best, bits := -1, -1
	for i, r := range routes {
		if p := netip.MustParsePrefix(r.Prefix); p.Contains(a) && p.Bits() > bits {
			best, bits = i, p.Bits()
		}
	}
	return best
}

// TestTwin compares the table with a linear scan, through changes: random routes
// of both versions, a part replaced in each round, and addresses in and beside
// their prefixes.
func TestTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 6))
	c := testConfig()
	c.Routes = nil
	m, err := New(c, testEnv(1))
	if err != nil {
		t.Fatal(err)
	}
	var routes []Route
	hits := 0
	for round := range 20 {
		r.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
		routes = routes[:len(routes)/2]
		seen := map[string]bool{}
		for _, x := range routes {
			seen[x.Prefix] = true
		}
		for range 200 {
			six := r.IntN(2) == 0
			p := randomPrefix(r, six)
			if seen[p.String()] || !routable(p) {
				continue
			}
			seen[p.String()] = true
			via := fmt.Sprintf("10.0.2.%d", 2+r.IntN(200))
			if six {
				via = fmt.Sprintf("fd00:2::%x", 2+r.IntN(200))
			}
			routes = append(routes, Route{Prefix: p.String(), Via: []string{via}})
		}
		if err := m.setRoutes(routes); err != nil {
			t.Fatal(err)
		}
		for range 2000 {
			p := randomPrefix(r, r.IntN(2) == 0)
			if len(routes) > 0 && r.IntN(2) == 0 {
				p = netip.MustParsePrefix(routes[r.IntN(len(routes))].Prefix)
			}
			a := p.Addr()
			if r.IntN(2) == 0 { // anywhere in it
				b := a.AsSlice()
				for bit := p.Bits(); bit < len(b)*8; bit++ {
					b[bit/8] |= byte(r.IntN(2)) << (7 - bit%8)
				}
				a, _ = netip.AddrFromSlice(b)
			}
			if unroutable(a) != 0 || a.Is4() && a.As4()[0] == 10 {
				continue
			}
			v, want := m.tables.Load().fibs[0].lookup(a), scan(routes, a)
			if (v == nil) != (want < 0) || v != nil && (v.prefix.String() != routes[want].Prefix || v.hops[0].addr.String() != routes[want].Via[0]) {
				t.Fatalf("round %d: %s finds %+v, want %d", round, a, v, want)
			}
			if v != nil {
				hits++
			}
		}
		if got := len(m.Routes()); got != len(routes)+6 {
			t.Fatalf("%d routes are shown, want %d and the ports' networks", got, len(routes))
		}
	}
	if hits < 10000 {
		t.Errorf("only %d lookups found a route", hits)
	}
}

// TestOwnAddressesWin: no route takes away the switch's own address, a
// neighbour's entry leaves a configured host route alone, and each goes as it
// came.
func TestOwnAddressesWin(t *testing.T) {
	c := testConfig()
	c.Routes = append(c.Routes, Route{Prefix: "10.0.1.1/32", Via: []string{"10.0.2.2"}}, Route{Prefix: "10.0.1.77/32", Via: []string{"10.0.2.2"}})
	b := newBench(t, c)
	find := func(a string) *target { return b.module.tables.Load().fibs[0].lookup(netip.MustParseAddr(a)) }
	if v := find("10.0.1.1"); v.kind != local {
		t.Errorf("%+v", v)
	}
	b.run(in{0, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.77", make([]byte, 6), "10.0.1.1")})
	b.run(in{0, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.78", make([]byte, 6), "10.0.1.1")})
	if v := find("10.0.1.77"); !v.route || v.hops[0].addr.String() != "10.0.2.2" {
		t.Errorf("%+v", v)
	}
	if v := find("10.0.1.78"); v.kind != forward || v.hops[0].addr.String() != "10.0.1.78" {
		t.Errorf("%+v", v)
	}
	b.module.mu.Lock()
	for i := len(b.module.list) - 1; i >= 0; i-- {
		if !b.module.list[i].fixed {
			b.module.forget(i)
		}
	}
	b.module.mu.Unlock()
	if v := find("10.0.1.78"); v.kind != connected {
		t.Errorf("%+v", v)
	}
	if v := find("10.0.1.77"); !v.route {
		t.Errorf("%+v", v)
	}
}

// TestApply: a change keeps what was learned where it still holds, and takes
// effect whole; a configuration with faults changes nothing.
func TestApply(t *testing.T) {
	b := newBench(t, dynamicConfig())
	b.run(in{0, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.2", make([]byte, 6), "10.0.1.1")},
		in{2, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.3.9", make([]byte, 6), "10.0.3.1")})
	state := func() (s []string) {
		for _, n := range b.module.Neighbours() {
			s = append(s, n.Address.String()+" "+n.State)
		}
		return s
	}
	c := dynamicConfig()
	c.Interfaces = c.Interfaces[:2]
	c.Routes = []Route{{Prefix: "10.9.0.0/16", Via: []string{"10.0.1.2"}}}
	if err := b.module.Apply(c); err != nil {
		t.Fatal(err)
	}
	if got, want := state(), []string{"10.0.1.2 reachable"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := b.one(1, toHost(t, 1)); got.port != 0 {
		t.Errorf("%+v", got)
	}
	bad := c
	bad.Routes = []Route{{Prefix: "10.8.0.0/16", Via: []string{"10.0.3.2"}}}
	if err := b.module.Apply(bad); err == nil {
		t.Error("a gateway in no network is taken")
	}
	if r := b.module.Routes(); len(r) != 5 {
		t.Errorf("routes %+v", r)
	}
	// What waits for a neighbour that goes is counted; its room is free again.
	b.run(in{0, udp(t, "10.0.1.2", "10.0.2.50", 9, 1)})
	c.Interfaces = c.Interfaces[:1]
	if err := b.module.Apply(c); err != nil {
		t.Fatal(err)
	}
	if k := b.module.Counters(); k.Abandoned != 1 || len(b.module.arena.free) != arenaSlots {
		t.Errorf("%+v, %d slots free", k, len(b.module.arena.free))
	}
	static := c
	static.Neighbours = []Neighbour{{"10.0.1.2", "02:00:00:00:00:99", "p0"}}
	if err := b.module.Apply(static); err != nil {
		t.Fatal(err)
	}
	if got, want := state(), []string{"10.0.1.2 static"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if err := b.module.Apply(c); err != nil {
		t.Fatal(err)
	}
	if got, want := state(), []string{"10.0.1.2 looked for"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestFollowPorts: what a port can send bounds its MTU from then on, the configured
// one too; senders are told the present one, and nothing else changes.
func TestFollowPorts(t *testing.T) {
	b := newBench(t, testConfig())
	mtus := func() (all []int) {
		for _, p := range b.module.tables.Load().ports {
			all = append(all, p.mtu)
		}
		return all
	}
	follow := func(mtu ...int) {
		ports := slices.Clone(testEnv(1).Ports)
		for i := range ports {
			ports[i].MaxFrame, ports[i].MTU = mtu[i]+18, mtu[i]
		}
		b.module.FollowPorts(ports)
	}
	if got := mtus(); !slices.Equal(got, []int{1500, 1500, 1400, 1500}) {
		t.Fatalf("at the beginning: %v", got)
	}
	neighbours := len(b.module.Neighbours())
	follow(1500, 1300, 1200, 9000)
	if got := mtus(); !slices.Equal(got, []int{1500, 1300, 1200, 1500}) {
		t.Errorf("lower: %v", got)
	}
	packet := func(n int) []byte {
		return udp(t, "10.0.1.2", "10.9.0.1", 64, n-28, func(ip *layers.IPv4) { ip.Flags = layers.IPv4DontFragment })
	}
	if got := b.one(0, packet(1300)); got.port != 1 {
		t.Errorf("a packet of 1300 bytes: %+v", got)
	}
	told := b.run(in{0, packet(1301)})
	if len(told) != 1 || told[0].port != 0 || told[0].data[34] != 3 || told[0].data[35] != 4 || int(told[0].data[40])<<8|int(told[0].data[41]) != 1300 {
		t.Errorf("a packet of 1301 bytes: %+v", told)
	}
	follow(1500, 1500, 1500, 1500)
	if got := mtus(); !slices.Equal(got, []int{1500, 1500, 1400, 1500}) || len(b.module.Neighbours()) != neighbours {
		t.Errorf("as before: %v, %d neighbours", got, len(b.module.Neighbours()))
	}
	if got := b.one(0, packet(1301)); got.port != 1 {
		t.Errorf("a packet of 1301 bytes: %+v", got)
	}
}

// setRoutes replaces all routes, or rejects them all.
func (m *Module) setRoutes(routes []Route) error {
	m.mu.Lock()
	c := m.config
	m.mu.Unlock()
	c.Routes = slices.Clone(routes)
	return m.Apply(c)
}

// TestReceives: a routed port takes its MAC address and multicast, another one nothing more than multicast.
func TestReceives(t *testing.T) {
	c := DefaultConfig()
	c.Interfaces = []Interface{{Port: "p1", Addresses: []string{"10.0.0.1/24"}}}
	m, err := New(c, pipeline.Env{ID: 7, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}}})
	if err != nil {
		t.Fatal(err)
	}
	for port, want := range map[int][][6]byte{0: nil, 1: {DefaultMAC(7, 1)}, 2: nil} {
		if r := m.Receives(port); r.All || !slices.Equal(r.Addresses, want) {
			t.Errorf("port %d receives %+v, want %x", port, r, want)
		}
	}
}
