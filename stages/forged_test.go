package stages_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/stages"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
)

// The tenants of the switch: the VRF red with its domain, and the default one with blue, green and two ports of the router.
const (
	noTenant = 'n'
	red      = 'r'
	others   = 'o'
)

// tagsOf returns the VLANs of a frame's tags, outer first, and -1 where a tag is cut off.
func tagsOf(data []byte) (all []int) {
	for at := 12; at+2 <= len(data); at += 4 {
		switch binary.BigEndian.Uint16(data[at:]) {
		case 0x8100, 0x88a8, 0x9100:
		default:
			return all
		}
		if at+6 > len(data) {
			return append(all, -1)
		}
		all = append(all, int(binary.BigEndian.Uint16(data[at+2:])&0xfff))
	}
	return all
}

// tenantOf says whose a frame is on a cable, and how many of its tags say so.
func tenantOf(port uint16, data []byte) (tenant byte, tags int) {
	vlans := tagsOf(data)
	switch port {
	case p0, p2, p3:
		return others, 0
	case p4:
		return red, 0
	}
	switch {
	case len(vlans) == 0:
		return noTenant, 0
	case vlans[0] == 300:
		return red, 1
	case vlans[0] == 100 || vlans[0] == 200 || vlans[0] == 500:
		return others, 1
	case len(vlans) > 1 && vlans[0] == 400 && vlans[1] == 7:
		return others, 2
	}
	return noTenant, 0
}

// forger makes hostile frames. Each has a mark with its tenant and number, where there is room.
type forger struct {
	*rand.Rand
	hosts  []host
	serial uint32
}

func (f *forger) mark(tenant byte) []byte {
	f.serial++
	return binary.BigEndian.AppendUint32([]byte{'W', 'E', 'I', 'R', tenant}, f.serial)
}

const markLength = 9

// attacker is an address that only frames of one tenant have as their source.
func (f *forger) attacker(tenant byte) [6]byte {
	return [6]byte{0x2e, tenant, 0, 0, 0, byte(f.IntN(8))}
}

func (f *forger) mac() [6]byte {
	switch f.IntN(10) {
	case 0, 1, 2, 3:
		return ownMAC([]int{irbBlue, irbGreen, irbRed, p3, p1v500}[f.IntN(5)])
	case 4:
		return [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	case 5:
		return [][6]byte{{1, 0x80, 0xc2, 0, 0, byte(f.IntN(16))}, {1, 0, 0x5e, 0, 0, 1}, {0x33, 0x33, 0, 0, 0, 1}, {0x33, 0x33, 0xff, 0, 0, 1}, {}}[f.IntN(5)]
	case 6:
		return f.attacker([]byte{red, others}[f.IntN(2)])
	}
	return f.hosts[f.IntN(len(f.hosts))].mac
}

func (f *forger) addr() [4]byte {
	switch f.IntN(8) {
	case 0:
		return [4]byte{10, byte(1 + f.IntN(3)), 0, 1} // the router's
	case 1:
		return [][4]byte{{255, 255, 255, 255}, {10, 1, 0, 255}, {10, 2, 0, 255}, {224, 0, 0, 1}, {127, 0, 0, 1}, {}, {10, 2, 0, 0}}[f.IntN(7)]
	case 2:
		return [4]byte{10, byte(1 + f.IntN(9)), 0, byte(f.IntN(256))}
	}
	return f.hosts[f.IntN(len(f.hosts))].addr
}

func (f *forger) addr6() [16]byte {
	a := netip.MustParseAddr([]string{"fd00:1::1", "fd00:2::1", "fd00:1::10", "fd00:2::10", "fe80::1", "ff02::1", "ff02::1:ff00:1", "::", "::1", "fd00:9::9"}[f.IntN(10)]).As16()
	if f.IntN(4) == 0 {
		a[15] = byte(f.IntN(20))
	}
	return a
}

// frame is one for a port; the tenant of its mark is what its tags say.
func (f *forger) frame() arrival {
	port := []uint16{p0, p1, p1, p1, p1, p2, p3, p4}[f.IntN(8)]
	dst, src := f.mac(), f.mac()
	head := slices.Concat(dst[:], src[:])
	if port == p1 || f.IntN(6) == 0 {
		for range []int{0, 1, 1, 1, 2, 2, 3, 9}[f.IntN(8)] {
			vlan := []uint16{0, 7, 100, 200, 300, 300, 400, 500, 600, 4095}[f.IntN(10)]
			head = append(head, [][]byte{{0x81, 0}, {0x88, 0xa8}, {0x91, 0}}[f.IntN(3)]...)
			head = binary.BigEndian.AppendUint16(head, vlan|uint16(f.IntN(16))<<12)
		}
	}
	tenant, _ := tenantOf(port, append(bytes.Clone(head), 8, 0))
	if f.IntN(2) == 0 && tenant != noTenant {
		src = f.attacker(tenant)
		copy(head[6:], src[:])
	} else if src[0] == 0x2e {
		src[0] = 0x2a // no frame of another tenant
		copy(head[6:], src[:])
	}
	data := append(head, f.payload(src, tenant)...)
	if f.IntN(8) == 0 {
		data = data[:12+f.IntN(len(data)-11)]
	}
	if f.IntN(10) == 0 {
		// A bit is wrong; the mark stays true.
		other := bytes.Clone(data)
		other[f.IntN(len(other))] ^= byte(1 << f.IntN(8))
		now, _ := tenantOf(port, other)
		at := bytes.Index(data, []byte("WEIR"))
		if now == tenant && (at < 0 || bytes.HasPrefix(other[at:], data[at:min(len(data), at+markLength)])) && bytes.Equal(other[6:12], data[6:12]) {
			data = other
		}
	}
	return arrival{port, data}
}

func (f *forger) payload(src [6]byte, tenant byte) []byte {
	mark := f.mark(tenant)
	ttl := []uint8{0, 1, 2, 64, 255}[f.IntN(5)]
	switch f.IntN(6) {
	case 0, 1: // ARP: who has, or a lie about where an address is
		var a header.ARP
		sender := src
		if f.IntN(4) == 0 {
			sender = f.mac()
			if sender[0] == 0x2e {
				sender[0] = 0x2a
			}
		}
		a.Init(uint16(1+f.IntN(2)), sender, f.addr(), f.mac(), f.addr())
		return slices.Concat([]byte{8, 6}, a[:], mark, make([]byte, 18-markLength))
	case 2: // neighbour discovery, and echo
		target := f.addr6()
		body := slices.Concat([]byte{[]byte{135, 136, 128, 134, 137}[f.IntN(5)], 0, 0, 0, byte(f.IntN(256)), 0, 0, 0}, target[:], []byte{byte(1 + f.IntN(2)), 1}, src[:], mark)
		var ip header.IPv6
		ip.Init(f.addr6(), f.addr6(), header.ProtoICMPv6, []uint8{255, ttl}[f.IntN(2)], len(body))
		sum := header.PseudoSum6(&ip, header.ProtoICMPv6, len(body))
		binary.BigEndian.PutUint16(body[2:], ^header.Sum(body, sum))
		return slices.Concat([]byte{0x86, 0xdd}, ip[:], body)
	case 3:
		return slices.Concat([]byte{0x88, 0xb5}, mark, make([]byte, 46-markLength))
	}
	proto := []uint8{header.ProtoUDP, header.ProtoTCP, header.ProtoICMP}[f.IntN(3)]
	body := slices.Concat([]byte{8, 0, 0, 0}, make([]byte, 16), mark)
	if proto == header.ProtoICMP {
		binary.BigEndian.PutUint16(body[2:], header.Checksum(body))
	}
	var ip header.IPv4
	ip.Init(f.addr(), f.addr(), proto, ttl, 0, uint16(f.Uint32()), header.IPv4Len+len(body))
	return slices.Concat([]byte{8, 0}, ip[:], body)
}

// TestForgedFrames: hostile stations of two tenants send what they want, with any tags, addresses and lies about neighbours. No frame of one
// tenant leaves to the other one, one without a tenant leaves nowhere, no frame multiplies beyond the ports of a domain, and no table of
// one tenant has an address that only the other one's stations had.
func TestForgedFrames(t *testing.T) {
	frames := 2_000_000
	if testing.Short() {
		frames = 150_000
	}
	c := routerConfig()
	c.ICMPRate = 1000
	c.Neighbours = c.Neighbours[:len(c.Neighbours)/2] // the others are asked for
	s := newRoutedBed(t, bridgeConfig(), c)
	f := &forger{Rand: rand.New(rand.NewPCG(3, 4)), hosts: testHosts()}
	left, marks := map[byte]int{}, map[[markLength]byte]int{}
	for n := 0; n < frames; {
		batch := make([]arrival, 1+f.IntN(8))
		for i := range batch {
			batch[i] = f.frame()
		}
		n += len(batch)
		s.now += int64(time.Millisecond)
		clear(marks)
		for _, o := range s.run(batch...) {
			if o.reason != 0 {
				continue
			}
			if int(o.port) > p4 {
				t.Fatalf("behind %d frames: %x leaves by %d", n, o.data, o.port)
			}
			tenant, tags := tenantOf(o.port, o.data)
			if tenant == noTenant || len(tagsOf(o.data)) != tags {
				t.Fatalf("behind %d frames: %s sends %x, with tags that are no subinterface's", n, portNames[o.port], o.data)
			}
			left[tenant]++
			at := bytes.Index(o.data, []byte("WEIR"))
			if at < 0 || at+markLength > len(o.data) {
				continue // of the router itself, or cut off
			}
			if whose := o.data[at+4]; whose != tenant {
				t.Fatalf("behind %d frames: one of %q leaves by %s to %q: %x", n, whose, portNames[o.port], tenant, o.data)
			}
			mark := [markLength]byte(o.data[at:])
			if marks[mark]++; marks[mark] > 4 { // the three ports of blue, and an ICMP error that quotes it
				t.Fatalf("behind %d frames: %x leaves more often than blue has ports", n, o.data)
			}
		}
	}
	if left[red] < frames/20 || left[others] < frames/10 {
		t.Errorf("frames that left, by tenant: %v: the test does not test what it should", left)
	}
	s.checkTables(map[string]byte{"blue": others, "green": others, "red": red}, map[string]byte{"": others, "red": red})
}

// checkTables looks for attackers' addresses in tables of another tenant, by the names of domains and VRFs.
func (s *routedBed) checkTables(domains, vrfs map[string]byte) {
	s.t.Helper()
	learned, found := 0, 0
	for _, n := range s.chain {
		switch m := n.Module.(type) {
		case *l2.Module:
			for _, e := range m.Entries(nil, s.now) {
				if e.MAC[0] == 0x2e {
					learned++
					if e.MAC[1] != domains[e.Domain] {
						s.t.Errorf("domain %s has learned %s", e.Domain, e.MAC)
					}
				}
			}
			for _, domain := range []struct {
				name string
				port uint16
			}{{"blue", irbBlue}, {"green", irbGreen}, {"red", irbRed}} {
				own := l2.MAC(ownMAC(int(domain.port)))
				if !slices.ContainsFunc(m.Entries(nil, s.now), func(e l2.Entry) bool {
					return e.MAC == own && e.Domain == domain.name && e.Port == domain.port && e.Static
				}) {
					s.t.Errorf("domain %s has lost the router's address", domain.name)
				}
			}
		case *l3.Module:
			for _, e := range m.Neighbours() {
				var kind, whose byte
				if k, err := fmt.Sscanf(e.MAC, "%x:%x", &kind, &whose); k == 2 && err == nil && kind == 0x2e {
					found++
					if whose != vrfs[e.VRF] {
						s.t.Errorf("VRF %q has %s at %s", e.VRF, e.Address, e.MAC)
					}
				}
			}
		}
	}
	if learned == 0 || found == 0 {
		s.t.Errorf("the tables have %d stations and %d neighbours of attackers: the test does not test what it should", learned, found)
	}
}

// TestCutTags: a frame that ends within a VLAN tag, which the next Ethernet would complete with padding, is untagged for no port that tells VLANs
// apart.
func TestCutTags(t *testing.T) {
	mac := []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1}
	for _, c := range []struct {
		name string
		port l2.Port
		want string
	}{
		{"access", l2.Port{Port: "p0", Access: 10}, "tagged_on_access"},
		{"access that accepts tags", l2.Port{Port: "p0", Access: 10, AcceptTagged: true}, "vlan_filtered"},
		{"native VLAN", l2.Port{Port: "p0", Trunk: []int{10}, Native: 10}, "vlan_filtered"},
		{"transparent", l2.Port{}, ""},
	} {
		config := l2.DefaultConfig()
		config.Ports = []l2.Port{{Port: "p1", Access: 10}}
		if c.port.Port != "" {
			config.Ports = append(config.Ports, c.port)
		}
		chain, err := stages.Build([]string{"parse", "l2"}, map[string]any{"l2": &config}, pipeline.Env{ID: 1, Workers: 1, Ports: []pipeline.Port{{Name: "p0"}, {Name: "p1"}, {Name: "p2"}}})
		if err != nil {
			t.Fatal(err)
		}
		stages.Inline(chain)
		s := newRoutedBedOf(t, chain)
		for _, cut := range [][]byte{{0x81, 0}, {0x88, 0xa8, 0x01}, {0x91, 0, 0x01, 0x2c}, {0x81, 0, 0, 10, 8}} {
			out := s.run(arrival{0, slices.Concat(mac, cut)})
			if got := out[0].reason; got != 0 && got.String() != c.want || got == 0 && c.want != "" {
				t.Errorf("%s: %x: %v, want %q", c.name, cut, out, c.want)
			}
		}
	}
}
