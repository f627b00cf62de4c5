package l3

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// dynamicConfig is testConfig without neighbours.
func dynamicConfig() Config {
	c := testConfig()
	c.Neighbours = nil
	c.Reachable = 10 * time.Second
	return c
}

var broadcastMAC = net.HardwareAddr{255, 255, 255, 255, 255, 255}

func arpFrame(t testing.TB, dst, src net.HardwareAddr, op uint16, senderIP string, targetHW net.HardwareAddr, targetIP string) []byte {
	d := frame(t, ether(dst, src, layers.EthernetTypeARP), &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4, Operation: op,
		SourceHwAddress: src, SourceProtAddress: net.ParseIP(senderIP).To4(), DstHwAddress: targetHW, DstProtAddress: net.ParseIP(targetIP).To4(),
	})
	return append(d, make([]byte, 60-len(d))...)
}

func neighbourFrame(t testing.TB, dstMAC, srcMAC net.HardwareAddr, src, dst string, typ uint8, flags uint8, target string, option layers.ICMPv6Opt, mac net.HardwareAddr) []byte {
	var message gopacket.SerializableLayer
	var options layers.ICMPv6Options
	if mac != nil {
		options = layers.ICMPv6Options{{Type: option, Data: mac}}
	}
	if typ == 135 {
		message = &layers.ICMPv6NeighborSolicitation{TargetAddress: net.ParseIP(target), Options: options}
	} else {
		message = &layers.ICMPv6NeighborAdvertisement{Flags: flags, TargetAddress: net.ParseIP(target), Options: options}
	}
	return frame(t, ether(dstMAC, srcMAC, layers.EthernetTypeIPv6), ip6(src, dst, 255, layers.IPProtocolICMPv6),
		&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, 0)}, message)
}

// TestARPAnswers: for the port's own addresses alone.
func TestARPAnswers(t *testing.T) {
	b := newBench(t, dynamicConfig())
	none := make(net.HardwareAddr, 6)
	got := b.one(0, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.2", none, "10.0.1.1"))
	if want := arpFrame(t, hostMAC, ownMAC(0), 2, "10.0.1.1", hostMAC, "10.0.1.2"); got.port != 0 || !bytes.Equal(got.data, want) {
		t.Errorf("port %d\n%x, want\n%x", got.port, got.data, want)
	}
	// The asker is known from then on.
	if got := b.one(1, toHost(t, 1)); got.port != 0 || !bytes.Equal(got.data[:6], hostMAC) {
		t.Errorf("port %d, %x", got.port, got.data)
	}
	// A probe (RFC 5227) is answered, and nothing learned.
	b.one(0, arpFrame(t, broadcastMAC, hostMAC, 1, "0.0.0.0", none, "10.0.1.1"))
	for _, data := range [][]byte{
		arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.3", none, "10.0.1.9"),    // not ours
		arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.3", none, "10.0.2.1"),    // another port's
		arpFrame(t, broadcastMAC, hostMAC, 2, "10.0.1.3", hostMAC, "10.0.1.3"), // an announcement
		arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.1", none, "10.0.1.1"),    // our own address
	} {
		if left := b.run(in{0, data}); len(left) != 0 {
			t.Errorf("%x is answered by %x", data, left[0].data)
		}
	}
	if list := b.module.Neighbours(); len(list) != 3 || list[0].State != "reachable" || list[1].State != "looked for" {
		t.Errorf("neighbours %+v, want 10.0.1.2 and the gateways", list)
	}
}

// toHost is a packet for 10.0.1.2, arriving at the given port.
func toHost(t testing.TB, port uint16) []byte {
	return frame(t, ether(ownMAC(port), net.HardwareAddr{2, 9, 9, 9, 9, 9}, layers.EthernetTypeIPv4),
		ip4("10.0.2.9", "10.0.1.2", 9, layers.IPProtocolUDP), &layers.UDP{SrcPort: 1, DstPort: 2}, gopacket.Payload(make([]byte, 30)))
}

// TestDiscoveryAnswers: as for ARP, by RFC 4861, and verified to its last rule.
func TestDiscoveryAnswers(t *testing.T) {
	b := newBench(t, dynamicConfig())
	group := net.HardwareAddr{0x33, 0x33, 0xff, 0, 0, 1}
	solicit := neighbourFrame(t, group, hostMAC, "fd00:1::2", "ff02::1:ff00:1", 135, 0, "fd00:1::1", layers.ICMPv6OptSourceAddress, hostMAC)
	got := b.one(0, solicit)
	want := neighbourFrame(t, hostMAC, ownMAC(0), "fd00:1::1", "fd00:1::2", 136, 0xe0, "fd00:1::1", layers.ICMPv6OptTargetAddress, ownMAC(0))
	if got.port != 0 || !bytes.Equal(got.data, want) {
		t.Errorf("port %d\n%x, want\n%x", got.port, got.data, want)
	}
	verified(t, got.data)
	if list := b.module.Neighbours(); list[1].Address.String() != "fd00:1::2" || list[1].State != "reachable" {
		t.Errorf("neighbours %+v", list)
	}
	// The link-local address of the port, and one who looks whether ours is free.
	local := linkLocal(DefaultMAC(testID, 0)).String()
	got = b.one(0, neighbourFrame(t, ownMAC(0), hostMAC, "fe80::2", local, 135, 0, local, layers.ICMPv6OptSourceAddress, hostMAC))
	verified(t, got.data)
	got = b.one(0, neighbourFrame(t, group, hostMAC, "::", "ff02::1:ff00:1", 135, 0, "fd00:1::1", 0, nil))
	want = neighbourFrame(t, net.HardwareAddr{0x33, 0x33, 0, 0, 0, 1}, ownMAC(0), "fd00:1::1", "ff02::1", 136, 0xa0, "fd00:1::1", layers.ICMPv6OptTargetAddress, ownMAC(0))
	if !bytes.Equal(got.data, want) {
		t.Errorf("\n%x, want\n%x", got.data, want)
	}
	hops := bytes.Clone(solicit)
	hops[21] = 254
	sum := bytes.Clone(solicit)
	sum[56]++
	b.none(0, hops, reasonNeighbour)
	b.none(0, sum, reasonBadChecksum)
	b.none(0, neighbourFrame(t, group, hostMAC, "fd00:1::1", "ff02::1:ff00:1", 135, 0, "fd00:1::1", layers.ICMPv6OptSourceAddress, hostMAC), reasonNeighbour)
	b.none(0, neighbourFrame(t, group, hostMAC, "::", "ff02::1:ff00:1", 135, 0, "fd00:1::1", layers.ICMPv6OptSourceAddress, hostMAC), reasonNeighbour)
	if left := b.run(in{0, neighbourFrame(t, group, hostMAC, "fd00:1::2", "ff02::1:ff00:1", 135, 0, "fd00:1::7", layers.ICMPv6OptSourceAddress, hostMAC)}); len(left) != 0 {
		t.Error("answers for others")
	}
}

// TestHold: packets wait while the neighbour is asked for, and leave in order, in
// front of those behind the answer.
func TestHold(t *testing.T) {
	mac := net.HardwareAddr{2, 0xaa, 0, 0, 2, 2}
	for _, v := range []struct {
		name, src, dst string
		request        []byte
		answer         []byte
	}{
		{"ARP", "10.0.1.2", "10.9.8.7",
			arpFrame(t, broadcastMAC, ownMAC(1), 1, "10.0.2.1", make(net.HardwareAddr, 6), "10.0.2.2"),
			arpFrame(t, ownMAC(1), mac, 2, "10.0.2.2", ownMAC(1), "10.0.2.1")},
		{"on link", "10.0.1.2", "10.0.2.2",
			arpFrame(t, broadcastMAC, ownMAC(1), 1, "10.0.2.1", make(net.HardwareAddr, 6), "10.0.2.2"),
			arpFrame(t, ownMAC(1), mac, 2, "10.0.2.2", ownMAC(1), "10.0.2.1")},
		{"ND", "fd00:1::2", "fd09::1",
			neighbourFrame(t, net.HardwareAddr{0x33, 0x33, 0xff, 0, 0, 2}, ownMAC(1), "fd00:2::1", "ff02::1:ff00:2", 135, 0, "fd00:2::2", layers.ICMPv6OptSourceAddress, ownMAC(1)),
			neighbourFrame(t, ownMAC(1), mac, "fd00:2::2", "fd00:2::1", 136, 0x60, "fd00:2::2", layers.ICMPv6OptTargetAddress, mac)},
	} {
		t.Run(v.name, func(t *testing.T) {
			b := newBench(t, dynamicConfig())
			got := b.one(0, udp(t, v.src, v.dst, 9, 1))
			if got.port != 1 || !bytes.Equal(got.data, v.request) {
				t.Fatalf("port %d\n%x, want\n%x", got.port, got.data, v.request)
			}
			verified(t, got.data)
			b.now += int64(100 * time.Millisecond)
			if left := b.run(in{0, udp(t, v.src, v.dst, 9, 2)}); len(left) != 0 {
				t.Fatalf("%x left", left[0].data)
			}
			left := b.run(in{1, v.answer}, in{0, udp(t, v.src, v.dst, 9, 3)})
			if len(left) != 3 {
				t.Fatalf("%d packets left, want 3", len(left))
			}
			for i, o := range left {
				want := udp(t, v.src, v.dst, 8, i+1)
				copy(want, mac)
				copy(want[6:], ownMAC(1))
				if o.port != 1 || !bytes.Equal(o.data, want) {
					t.Errorf("packet %d: port %d\n%x, want\n%x", i, o.port, o.data, want)
				}
			}
			if got := b.one(0, udp(t, v.src, v.dst, 9, 4)); got.copy || !bytes.Equal(got.data[:6], mac) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestHoldIsBounded: for each neighbour, and over all.
func TestHoldIsBounded(t *testing.T) {
	c := dynamicConfig()
	c.Hold = 3
	b := newBench(t, c)
	for range 5 {
		b.run(in{0, udp(t, "10.0.1.2", "10.9.8.7", 9, 1)})
	}
	if b.got.consumed != 3 || b.got.reasons["neighbour_pending"] != 2 {
		t.Errorf("%+v", b.got)
	}
	for i := range 253 {
		for range 3 {
			b.run(in{0, udp(t, "10.0.1.2", net.IPv4(10, 0, 3, byte(i+2)).String(), 9, 1)})
		}
	}
	if b.got.consumed != arenaSlots {
		t.Errorf("%d packets wait, want %d", b.got.consumed, arenaSlots)
	}
}

// TestGiveUp: after three requests the senders of what waited are told, and all
// of it is in the books.
func TestGiveUp(t *testing.T) {
	b := newBench(t, dynamicConfig())
	b.one(0, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.2", make(net.HardwareAddr, 6), "10.0.1.1"))
	requests, told := 0, 0
	count := func(left []out) {
		for _, o := range left {
			if o.port == 1 {
				requests++
				continue
			}
			m := verified(t, o.data).Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
			if m.TypeCode != layers.CreateICMPv4TypeCode(3, 1) {
				t.Errorf("told %v", m.TypeCode)
			}
			told++
		}
	}
	count(b.run(in{0, udp(t, "10.0.1.2", "10.0.2.7", 9, 1)}, in{0, udp(t, "10.0.1.2", "10.0.2.7", 9, 2)}))
	other := arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.3", make(net.HardwareAddr, 6), "10.0.1.9") // any packet moves the clock
	for range 13 {
		b.now += int64(250 * time.Millisecond)
		count(b.run(in{0, other}))
	}
	if requests != 3 || told != 2 || b.got.reasons["neighbour_unreachable"] != 2 {
		t.Errorf("%d requests, %d told, %+v", requests, told, b.got)
	}
	for _, n := range b.module.Neighbours() {
		if n.Address.String() == "10.0.2.7" {
			t.Error("it is still looked for")
		}
	}
}

// TestAgeing: silent for Reachable, a neighbour is asked again by unicast while
// packets go on; silent three times, it is looked for anew; unused, forgotten.
func TestAgeing(t *testing.T) {
	mac := net.HardwareAddr{2, 0xaa, 0, 0, 2, 7}
	b := newBench(t, dynamicConfig())
	hello := func() {
		b.run(in{1, arpFrame(t, broadcastMAC, mac, 1, "10.0.2.7", make(net.HardwareAddr, 6), "10.0.2.1")})
	}
	send := func() (forwarded, unicast, group int) {
		for _, o := range b.run(in{0, udp(t, "10.0.1.2", "10.0.2.7", 9, 1)}) {
			switch {
			case o.data[12] == 8 && o.data[13] == 0:
				forwarded++
			case bytes.Equal(o.data[:6], mac):
				unicast++
			default:
				group++
			}
		}
		return forwarded, unicast, group
	}
	expect := func(what string, wantF, wantU, wantG int) {
		t.Helper()
		if f, u, g := send(); f != wantF || u != wantU || g != wantG {
			t.Errorf("%s: %d forwarded, %d asked by unicast, %d by broadcast, want %d, %d, %d", what, f, u, g, wantF, wantU, wantG)
		}
	}
	hello()
	expect("fresh", 1, 0, 0)
	b.now += int64(11 * time.Second)
	expect("stale at this packet", 1, 0, 0) // the tick is behind it
	expect("stale", 1, 1, 0)
	expect("just asked", 1, 0, 0)
	hello()
	expect("confirmed", 1, 0, 0)
	b.now += int64(11 * time.Second)
	expect("stale at this packet", 1, 0, 0)
	for range 3 {
		expect("stale", 1, 1, 0)
		b.now += int64(time.Second)
	}
	expect("lost", 0, 0, 1)
	hello()
	b.now += int64(101 * time.Second)
	b.run(in{0, arpFrame(t, broadcastMAC, hostMAC, 1, "10.0.1.3", make(net.HardwareAddr, 6), "10.0.1.9")})
	if n := len(b.module.Neighbours()); n != 2 {
		t.Errorf("%d neighbours are left, want the gateways", n)
	}
}

// TestNeighbourTableIsBounded: a scan of a network cannot fill the memory, and
// what is refused is counted.
func TestNeighbourTableIsBounded(t *testing.T) {
	c := dynamicConfig()
	c.NeighbourTable = 20
	b := newBench(t, c)
	for i := 2; i < 250; i++ {
		b.run(in{0, udp(t, "10.0.1.2", net.IPv4(10, 0, 3, byte(i)).String(), 9, 1)})
	}
	if k := b.module.Counters(); k.Neighbours != 20 || k.NeighbourFull != 248-18 {
		t.Errorf("%+v", k)
	}
}

// TestARPFlood: however many forged senders one port has, and however many addresses it scans, hosts on other ports are
// resolved and stay known, and the gateways, too.
func TestARPFlood(t *testing.T) {
	c := DefaultConfig()
	c.Interfaces = []Interface{{Port: "p0", Addresses: []string{"10.1.0.1/16"}}, {Port: "p1", Addresses: []string{"10.0.2.1/24"}}}
	b := newBench(t, c)
	own := make(net.HardwareAddr, 6)
	speak := func(port uint16, mac net.HardwareAddr, ip, router string) {
		b.run(in{port, arpFrame(t, broadcastMAC, mac, 1, ip, own, router)})
	}
	victim := net.HardwareAddr{2, 0xaa, 0, 0, 2, 7}
	speak(1, victim, "10.0.2.7", "10.0.2.1")
	for i := range 4096 {
		ip := net.IPv4(10, 1, byte(1+i>>8), byte(i))
		speak(0, net.HardwareAddr{2, 0xbb, 0, 0, byte(i >> 8), byte(i)}, ip.String(), "10.1.0.1")
		b.now += int64(2 * time.Millisecond)
		b.run(in{0, udp(t, "10.1.0.9", net.IPv4(10, 1, byte(128+i>>8), byte(i)).String(), 9, 1)}) // and a scan
	}
	if k := b.module.Counters(); k.NeighbourEvicted == 0 || k.Neighbours > 1024 {
		t.Fatalf("the table was never full: %+v", k)
	}
	late := net.HardwareAddr{2, 0xaa, 0, 0, 2, 8}
	speak(1, late, "10.0.2.8", "10.0.2.1")
	for mac, ip := range map[string]string{string(victim): "10.0.2.7", string(late): "10.0.2.8"} {
		if got := b.one(0, udp(t, "10.1.0.9", ip, 9, 1)); got.port != 1 || !bytes.Equal(got.data[:6], []byte(mac)) {
			t.Errorf("to %s: port %d, %x", ip, got.port, got.data[:12])
		}
	}
}

// TestClocks: a worker whose batch began a little earlier than the one in which a
// neighbour was heard, or asked for, finds nothing out of date. After a clock
// stepped back by an hour, neighbours are looked for anew.
func TestClocks(t *testing.T) {
	b := newBench(t, dynamicConfig())
	mac := net.HardwareAddr{2, 0xaa, 0, 0, 2, 7}
	b.run(in{1, arpFrame(t, broadcastMAC, mac, 1, "10.0.2.7", make(net.HardwareAddr, 6), "10.0.2.1")})
	for range 3 {
		b.now -= int64(100 * time.Millisecond)
		if got := b.one(0, udp(t, "10.0.1.2", "10.0.2.7", 9, 1)); got.copy {
			t.Fatalf("%x", got.data)
		}
	}
	b.run(in{0, udp(t, "10.0.1.2", "10.0.2.8", 9, 1)})
	for range 3 {
		b.now -= int64(10 * time.Millisecond)
		if left := b.run(in{0, udp(t, "10.0.1.2", "10.0.2.8", 9, 1)}); len(left) != 0 {
			t.Fatalf("%x", left[0].data)
		}
	}
	b.now -= int64(time.Hour)
	b.run(in{0, udp(t, "10.0.1.2", "10.0.2.7", 9, 1)})
	for _, n := range b.module.Neighbours() {
		if n.State != "looked for" {
			t.Errorf("%+v", n)
		}
	}
}
