package l3

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline/packet"
)

// TestForward: the packet that leaves is the one that came, with the MAC
// addresses of the next link, one hop less to live and the checksum of that.
func TestForward(t *testing.T) {
	for _, tc := range []struct {
		name     string
		src, dst string
		out      uint16
		mac      net.HardwareAddr
	}{
		{"route", "10.0.1.2", "10.9.8.7", 1, net.HardwareAddr{2, 0xaa, 0, 0, 2, 2}},
		{"host", "10.0.1.2", "10.0.3.2", 2, net.HardwareAddr{2, 0xaa, 0, 0, 3, 2}},
		{"same port", "10.0.1.3", "10.0.1.2", 0, hostMAC},
		{"route6", "fd00:1::2", "fd09::7", 1, net.HardwareAddr{2, 0xaa, 0, 0, 2, 2}},
		{"host6", "fd00:1::2", "fd00:3::2", 2, net.HardwareAddr{2, 0xaa, 0, 0, 3, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, testConfig())
			for ttl := 2; ttl < 256; ttl++ {
				got := b.one(0, udp(t, tc.src, tc.dst, uint8(ttl), 100))
				want := udp(t, tc.src, tc.dst, uint8(ttl-1), 100)
				copy(want, tc.mac)
				copy(want[6:], ownMAC(tc.out))
				if got.port != tc.out || got.copy || !bytes.Equal(got.data, want) {
					t.Fatalf("TTL %d: port %d\n%x, want port %d\n%x", ttl, got.port, got.data, tc.out, want)
				}
				verified(t, got.data)
			}
		})
	}
}

// TestOptionsTravel: IPv4 options and IPv6 extension headers are no obstacle.
func TestOptionsTravel(t *testing.T) {
	b := newBench(t, testConfig())
	got := b.one(0, udp(t, "10.0.1.2", "10.9.8.7", 9, 10, func(ip *layers.IPv4) {
		ip.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}
	}))
	if ip := verified(t, got.data).Layer(layers.LayerTypeIPv4).(*layers.IPv4); ip.TTL != 8 || ip.IHL != 6 || got.port != 1 {
		t.Errorf("port %d, %+v", got.port, ip)
	}
	hop := frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv6), ip6("fd00:1::2", "fd09::1", 9, layers.IPProtocolIPv6Destination),
		gopacket.Payload([]byte{59, 0, 1, 4, 0, 0, 0, 0}))
	if got := b.one(0, hop); got.port != 1 || got.data[21] != 8 || !bytes.Equal(got.data[22:], hop[22:]) {
		t.Errorf("port %d, %x", got.port, got.data)
	}
}

// TestShims: what is behind a telemetry shim is routed, whatever the digest. Read where an
// untagged packet has its IP header, one digest in 65,536 gives a valid checksum, and IPv6 has
// none at all.
func TestShims(t *testing.T) {
	c := testConfig()
	c.Routes = append(c.Routes, Route{Prefix: "0.0.0.0/0", Via: []string{"10.0.3.2"}}, Route{Prefix: "::/0", Via: []string{"fd00:3::2"}})
	b := newBench(t, c)
	const shim = 8
	for name, plain := range map[string][]byte{
		"IPv4": udp(t, "10.0.1.2", "10.9.8.7", 9, 10),
		"IPv6": udp(t, "fd00:1::2", "fd09::1", 9, 10),
	} {
		want := b.one(0, plain).data
		d := slices.Concat(plain[:12], []byte{0x88, 0xb5, 0x11, 2, 0, 1, 0, 0}, plain[12:])
		for digest := range 1 << 16 {
			binary.BigEndian.PutUint16(d[18:], uint16(digest))
			got := b.one(0, d)
			if got.port != 1 || !bytes.Equal(got.data[:12], want[:12]) || !bytes.Equal(got.data[12:12+shim], d[12:12+shim]) || !bytes.Equal(got.data[12+shim:], want[12:]) {
				t.Fatalf("%s, digest %#x: port %d\n% x, want behind the shim\n% x", name, digest, got.port, got.data, want)
			}
		}
	}
}

// TestDrops: what a router must not forward, and that it says nothing about it.
func TestDrops(t *testing.T) {
	good := udp(t, "10.0.1.2", "10.9.8.7", 9, 10)
	change := func(f func(d []byte)) []byte { d := bytes.Clone(good); f(d); return d }
	for _, tc := range []struct {
		name   string
		port   uint16
		data   []byte
		reason packet.Reason
	}{
		{"other MAC", 0, change(func(d []byte) { d[5]++ }), reasonNotForUs},
		{"the MAC of another port", 1, good, reasonNotForUs},
		{"port without addresses", 3, good, reasonNotRouted},
		{"port without addresses, its own MAC", 3, change(func(d []byte) { copy(d, ownMAC(3)) }), reasonNotRouted},
		{"tagged", 0, frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeDot1Q), &layers.Dot1Q{VLANIdentifier: 5, Type: layers.EthernetTypeIPv4}, gopacket.Payload(good[14:])), reasonNotRouted},
		{"no IP", 0, frame(t, ether(ownMAC(0), hostMAC, 0x88b5), gopacket.Payload(make([]byte, 50))), reasonNotRouted},
		{"checksum", 0, change(func(d []byte) { d[25]++ }), reasonBadChecksum},
		{"broadcast", 0, change(func(d []byte) { copy(d, bytes.Repeat([]byte{0xff}, 6)) }), ReasonMulticast},
		{"to multicast", 0, udp(t, "10.0.1.2", "224.0.0.5", 9, 10), ReasonMulticast},
		{"to a directed broadcast", 0, udp(t, "10.0.1.2", "10.0.2.255", 9, 10), ReasonMulticast},
		{"to loopback", 0, udp(t, "10.0.1.2", "127.0.0.1", 9, 10), reasonMartian},
		{"from multicast", 0, udp(t, "224.0.0.5", "10.9.8.7", 9, 10), reasonMartian},
		{"from zero", 0, udp(t, "0.0.0.0", "10.9.8.7", 9, 10), reasonMartian},
		{"from loopback, v6", 0, udp(t, "::1", "fd09::1", 9, 10), reasonMartian},
		{"from link-local", 0, udp(t, "fe80::1", "fd09::1", 9, 10), reasonMartian},
		{"to link-local", 0, udp(t, "fd00:1::2", "fe80::1", 9, 10), reasonMartian},
		{"to multicast, v6", 0, udp(t, "fd00:1::2", "ff0e::1", 9, 10), ReasonMulticast},
	} {
		t.Run(tc.name, func(t *testing.T) {
			newBench(t, testConfig()).none(tc.port, tc.data, tc.reason)
		})
	}
}

// TestStraightPathDoesNotAllocate covers both versions and a group of gateways.
func TestStraightPathDoesNotAllocate(t *testing.T) {
	c := testConfig()
	c.Routes = append(c.Routes, Route{Prefix: "10.8.0.0/16", Via: []string{"10.0.2.2", "10.0.3.2"}})
	b := newBench(t, c)
	frames := [][]byte{udp(t, "10.0.1.2", "10.9.8.7", 9, 10), udp(t, "fd00:1::2", "fd09::1", 9, 10), udp(t, "10.0.1.2", "10.8.8.7", 9, 10)}
	forwarded := 0
	if n := testing.AllocsPerRun(200, func() {
		batch := b.batch
		batch.Now = b.now
		for i := range packet.BatchSize {
			addr, _ := batch.Frames.AllocOne()
			p := batch.Append()
			p.Addr = addr + headroom
			p.Len = uint32(copy(batch.Mem[p.Addr:], frames[i%3]))
			p.WireLen = p.Len
		}
		b.graph.Run(batch)
		for i := range batch.Pkts {
			if batch.Pkts[i].OutPort != packet.NoPort {
				forwarded++
			}
			batch.Frames.FreePacket(&batch.Pkts[i])
		}
		batch.Reset()
	}); n != 0 || forwarded != 201*packet.BatchSize {
		t.Fatalf("%v allocations per batch, %d forwarded", n, forwarded)
	}
}
