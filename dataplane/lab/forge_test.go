package lab

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline/header"
)

func testForger() *forger {
	return &forger{
		own: net.HardwareAddr{2, 0, 0, 0, 0, 1}, next: net.HardwareAddr{2, 0, 0, 0, 0, 2}, victim: net.HardwareAddr{2, 0, 0, 0, 0, 3},
		ownIP: netip.MustParseAddr("10.1.0.1"), victimIP: netip.MustParseAddr("10.2.0.1"), router: netip.MustParseAddr("10.1.0.254"),
		ownIP6: netip.MustParseAddr("fd00:1::1"), victimIP6: netip.MustParseAddr("fd00:2::1"),
		vlans: []int{10, 20, 30}, vnis: []int{1010, 1020}, underlay: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")},
		outside: []netip.Addr{netip.MustParseAddr("203.0.113.5")}, secret: 0x0123456789abcdef,
	}
}

// TestForgedFrames: another parser reads the frames of all kinds as what they shall be, with the right checksums, and the mark is the last 16 bytes.
func TestForgedFrames(t *testing.T) {
	want := map[string][]gopacket.LayerType{
		"neighbour": {layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP}, "source-mac": {layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP},
		"source-address": {layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeICMPv4},
		"vlan":           {layers.LayerTypeEthernet, layers.LayerTypeDot1Q, layers.LayerTypeIPv4, layers.LayerTypeUDP},
		"double-tag":     {layers.LayerTypeEthernet, layers.LayerTypeDot1Q, layers.LayerTypeDot1Q, layers.LayerTypeIPv4, layers.LayerTypeUDP},
		"vxlan": {layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP, layers.LayerTypeVXLAN, layers.LayerTypeEthernet,
			layers.LayerTypeIPv4, layers.LayerTypeUDP},
		"geneve": {layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP, layers.LayerTypeGeneve, layers.LayerTypeEthernet,
			layers.LayerTypeIPv4, layers.LayerTypeUDP},
		"arp":                 {layers.LayerTypeEthernet, layers.LayerTypeARP},
		"neighbour-discovery": {layers.LayerTypeEthernet, layers.LayerTypeIPv6, layers.LayerTypeICMPv6, layers.LayerTypeICMPv6NeighborAdvertisement},
		"outside-address":     {layers.LayerTypeEthernet, layers.LayerTypeIPv4, layers.LayerTypeUDP},
	}
	g := testForger()
	f, mark := make([]byte, forgedSize), make([]byte, 8)
	binary.BigEndian.PutUint64(mark, g.secret)
	for kind := range forgeries {
		k := &forgeries[kind]
		if !k.has(g) {
			t.Errorf("%s is left out", k.name)
		}
		distinct := map[string]bool{}
		for n := range uint64(64) {
			g.build(f, kind, n)
			end := f[forgedSize-markSize:]
			if !bytes.Equal(end[:8], mark) || end[8] != byte(kind) || binary.BigEndian.Uint64(end[8:])&(1<<56-1) != n {
				t.Fatalf("%s %d: mark %x", k.name, n, end)
			}
			distinct[string(f[:forgedSize-markSize])] = true
			types := want[k.name]
			if k.name == "routed" {
				types = []gopacket.LayerType{layers.LayerTypeEthernet, []gopacket.LayerType{layers.LayerTypeIPv4, layers.LayerTypeIPv6}[n%2], layers.LayerTypeUDP}
			}
			p := gopacket.NewPacket(f, layers.LayerTypeEthernet, gopacket.Default)
			for i, layer := range types {
				if i >= len(p.Layers()) || p.Layers()[i].LayerType() != layer {
					t.Fatalf("%s %d: %v, want %v", k.name, n, p, types)
				}
			}
			checkForged(t, k.name, p)
		}
		if varied := map[string]bool{"source-address": true}; len(distinct) < 2 && !varied[k.name] {
			t.Errorf("%s: all frames are equal", k.name)
		}
	}
}

// checkForged verifies the checksums of all IPv4 headers, and those of ICMP and of UDP over IPv6.
func checkForged(t *testing.T, kind string, p gopacket.Packet) {
	t.Helper()
	for _, l := range p.Layers() {
		switch l := l.(type) {
		case *layers.IPv4:
			if header.Checksum(l.Contents) != 0 {
				t.Errorf("%s: the checksum of IPv4 is wrong", kind)
			}
		case *layers.ICMPv4:
			if header.Checksum(append(bytes.Clone(l.Contents), l.Payload...)) != 0 {
				t.Errorf("%s: the checksum of ICMP is wrong", kind)
			}
		case *layers.IPv6:
			sum := append(bytes.Clone(l.SrcIP), l.DstIP...)
			sum = binary.BigEndian.AppendUint32(sum, uint32(l.Length))
			sum = append(sum, 0, 0, 0, byte(l.NextHeader))
			if header.Checksum(append(sum, l.Payload[:l.Length]...)) != 0 {
				t.Errorf("%s: the checksum over IPv6 is wrong", kind)
			}
		}
	}
}

// TestShare: each kind has its frames, one behind the other, and none is left out.
func TestShare(t *testing.T) {
	for count := range uint64(40) {
		for kinds := uint64(1); kinds < 13; kinds++ {
			var sent [13]uint64
			last := 0
			for i := range count {
				kind, n := share(count, kinds, i)
				if n != sent[kind] || kind < last {
					t.Fatalf("%d of %d: kind %d, number %d", i, count, kind, n)
				}
				sent[kind]++
				last = kind
			}
			for i := range kinds {
				if want := (count + kinds - 1 - i) / kinds; sent[i] != want {
					t.Fatalf("%d frames of %d kinds: %d of kind %d, want %d", count, kinds, sent[i], i, want)
				}
			}
		}
	}
}
