package header

import (
	"bytes"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

func serialised(t *testing.T, parts ...gopacket.SerializableLayer) []byte {
	t.Helper()
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, parts...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestDecrementTTL compares the incremental update with the whole sum, on random
// headers and on those whose checksum is near its ends, where the carry is.
func TestDecrementTTL(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 24))
	near := 0
	for i := range 300000 {
		var h IPv4
		h.Init([4]byte{byte(r.Uint32()), 1, 2, 3}, [4]byte{4, 5, byte(r.Uint32()), 7}, byte(r.Uint32()), byte(1+r.IntN(255)), byte(r.Uint32()), uint16(r.Uint32()), r.IntN(65536))
		if i%2 == 0 { // choose the id so that the checksum ends up at an end
			want := uint16(r.IntN(0x300))
			if i%4 == 0 {
				want = -want
			}
			h.SetID(h.ID() + (h.Checksum() - want))
		}
		if c := h.Checksum(); c < 0x200 || c > 0xfd00 {
			near++
		}
		if !h.ValidChecksum() || Checksum(h[:]) != 0 {
			t.Fatalf("%x is not valid", h)
		}
		ttl := h.TTL()
		h.DecrementTTL()
		want := h
		want[10], want[11] = 0, 0
		if h.TTL() != ttl-1 || h.Checksum() != Checksum(want[:]) {
			t.Fatalf("%x: TTL %d, checksum %04x, want %04x", h, h.TTL(), h.Checksum(), Checksum(want[:]))
		}
		h[r.IntN(20)] ^= byte(1 + r.IntN(255))
		if h.ValidChecksum() != (Checksum(h[:]) == 0) {
			t.Fatalf("%x: valid %v, the sum says %v", h, h.ValidChecksum(), !h.ValidChecksum())
		}
	}
	if near < 50000 {
		t.Errorf("only %d checksums were near an end", near)
	}
}

// TestInit compares whole headers with gopacket's.
func TestInit(t *testing.T) {
	src, dst := [4]byte{10, 1, 2, 3}, [4]byte{10, 4, 5, 6}
	var ip IPv4
	ip.Init(src, dst, ProtoUDP, 64, 0x28, 77, 20+5)
	want := serialised(t, &layers.IPv4{Version: 4, IHL: 5, TOS: 0x28, Id: 77, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: src[:], DstIP: dst[:]}, gopacket.Payload("12345"))
	if !bytes.Equal(ip[:], want[:20]) {
		t.Errorf("%x, want %x", ip, want[:20])
	}
	a, b := [16]byte{0xfd, 15: 1}, [16]byte{0xfd, 15: 2}
	var ip6 IPv6
	ip6.Init(a, b, ProtoICMPv6, 255, 5)
	want = serialised(t, &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255, SrcIP: a[:], DstIP: b[:]}, gopacket.Payload("12345"))
	if !bytes.Equal(ip6[:], want[:40]) {
		t.Errorf("%x, want %x", ip6, want[:40])
	}
	ip.SwapAddrs()
	ip6.SwapAddrs()
	if ip.Src() != dst || ip.Dst() != src || !ip.ValidChecksum() || ip6.Src() != b || ip6.Dst() != a {
		t.Errorf("%x %x", ip, ip6)
	}
	var arp ARP
	m, n := [6]byte{2, 1}, [6]byte{2, 2}
	arp.Init(ARPReply, m, src, n, dst)
	want = serialised(t, &layers.ARP{AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4,
		Operation: 2, SourceHwAddress: m[:], SourceProtAddress: src[:], DstHwAddress: n[:], DstProtAddress: dst[:]})
	if !bytes.Equal(arp[:], want) {
		t.Errorf("%x, want %x", arp, want)
	}
}

// TestNeighbour compares a neighbour solicitation with gopacket's, and reads its
// option back.
func TestNeighbour(t *testing.T) {
	mac := [6]byte{2, 0xaa, 0, 0, 1, 2}
	src, dst := net.ParseIP("fd00::1"), net.ParseIP("ff02::1:ff00:2")
	ip := &layers.IPv6{Version: 6, NextHeader: layers.IPProtocolICMPv6, HopLimit: 255, SrcIP: src, DstIP: dst}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(135, 0)}
	_ = icmp.SetNetworkLayerForChecksum(ip)
	want := serialised(t, ip, icmp, &layers.ICMPv6NeighborSolicitation{TargetAddress: net.ParseIP("fd00::2"),
		Options: layers.ICMPv6Options{{Type: layers.ICMPv6OptSourceAddress, Data: mac[:]}}})
	got := make([]byte, NeighbourLen+NeighbourOptLen)
	ICMPAt(got, 0).Init(ICMPv6NeighbourSolicit, 0, 0)
	h := NeighbourAt(got, 0)
	h.SetTarget([16]byte(net.ParseIP("fd00::2")))
	PutLinkOption((*[8]byte)(got[NeighbourLen:]), OptSourceLink, mac)
	ICMPAt(got, 0).SetChecksum(^Sum(got, PseudoSum6(IPv6At(want, 0), ProtoICMPv6, len(got))))
	if !bytes.Equal(got, want[40:]) {
		t.Errorf("%x, want %x", got, want[40:])
	}
	if h.Type() != 135 || h.Code() != 0 || h.Flags() != 0 || h.Target() != [16]byte(net.ParseIP("fd00::2")) {
		t.Errorf("%x", h)
	}
	ip16, group := SolicitedNode([16]byte(net.ParseIP("fd00::1:2:3:4")))
	if !net.IP(ip16[:]).Equal(net.ParseIP("ff02::1:ff03:4")) || group != [6]byte{0x33, 0x33, 0xff, 3, 0, 4} {
		t.Errorf("%v %x", net.IP(ip16[:]), group)
	}
	if NeighbourAt(got[:23], 0) != nil {
		t.Error("a view of a message that is not all there")
	}
}

func TestLinkOption(t *testing.T) {
	for _, tc := range []struct {
		options      []byte
		found, valid bool
	}{
		{nil, false, true},
		{[]byte{1, 1, 2, 3, 4, 5, 6, 7}, true, true},
		{[]byte{2, 1, 2, 3, 4, 5, 6, 7}, false, true},
		{[]byte{14, 1, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7}, true, true},
		{[]byte{1, 2, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0}, false, true}, // not of Ethernet
		{[]byte{1, 0, 2, 3, 4, 5, 6, 7}, false, false},
		{[]byte{1, 2, 2, 3, 4, 5, 6, 7}, false, false},
		{[]byte{1}, false, false},
	} {
		mac, found, valid := LinkOption(tc.options, OptSourceLink)
		if found != tc.found || valid != tc.valid || found && mac != [6]byte{2, 3, 4, 5, 6, 7} {
			t.Errorf("%x: %x, found %v, valid %v", tc.options, mac, found, valid)
		}
	}
}

// TestICMPType: the type changes, the checksum stays right.
func TestICMPType(t *testing.T) {
	for typ := range 256 {
		m := []byte{8, 0, 0, 0, 0, byte(typ), 0, 1, 0xff, 0xee}
		h := ICMPAt(m, 0)
		h.SetChecksum(Checksum(m))
		h.SetType(uint8(typ))
		if h.Type() != uint8(typ) || Checksum(m) != 0 {
			t.Fatalf("%x", m)
		}
	}
	for typ, want := range map[uint8][2]bool{0: {false, true}, 3: {true, true}, 5: {true, true}, 8: {false, true}, 11: {true, true}, 128: {false, false}, 137: {false, true}} {
		if ICMPIsError(typ) != want[0] || ICMPv6IsError(typ) != want[1] {
			t.Errorf("type %d", typ)
		}
	}
}
