package header

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
)

// A TCP segment with options behind a service tag and a customer tag; every
// field has a value of its own.
const taggedTCP = "ffffffffffff020000000001" + "88a8e00a" + "81000014" + "0800" +
	"4510003c1c4640004006fbb8" + "c0a80001" + "c0a80002" +
	"c2a10050" + "11223344" + "55667788" + "a0c2faf0" + "00000000" +
	"020405b40402080a0102030400000000" + "01030307"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestViewsOfTaggedTCP(t *testing.T) {
	b := unhex(t, taggedTCP)
	eth, outer, inner := EthernetAt(b, 0), VLANAt(b, 14), VLANAt(b, 18)
	ip, tcp := IPv4At(b, 22), TCPAt(b, 42)
	check(t, []field{
		{"dst", eth.Dst(), [6]byte{255, 255, 255, 255, 255, 255}},
		{"src", eth.Src(), [6]byte{2, 0, 0, 0, 0, 1}},
		{"type", eth.Type(), uint16(TypeServiceVLAN)},
		{"multicast", eth.Multicast(), true},
		{"broadcast", eth.Broadcast(), true},
		{"outer id", outer.ID(), uint16(10)},
		{"outer priority", outer.Priority(), uint8(7)},
		{"outer type", outer.Type(), uint16(TypeVLAN)},
		{"inner TCI", inner.TCI(), uint16(20)},
		{"inner type", inner.Type(), uint16(TypeIPv4)},
		{"version", ip.Version(), 4},
		{"header length", ip.HeaderLen(), 20},
		{"TOS", ip.TOS(), uint8(0x10)},
		{"total length", ip.TotalLen(), 60},
		{"id", ip.ID(), uint16(0x1c46)},
		{"DF", ip.DontFragment(), true},
		{"MF", ip.MoreFragments(), false},
		{"fragment", ip.Fragment(), false},
		{"offset", ip.FragmentOffset(), 0},
		{"TTL", ip.TTL(), uint8(64)},
		{"protocol", ip.Protocol(), uint8(ProtoTCP)},
		{"src address", ip.Src(), [4]byte{192, 168, 0, 1}},
		{"dst address", ip.Dst(), [4]byte{192, 168, 0, 2}},
		{"src port", tcp.SrcPort(), uint16(0xc2a1)},
		{"dst port", tcp.DstPort(), uint16(80)},
		{"seq", tcp.Seq(), uint32(0x11223344)},
		{"ack", tcp.Ack(), uint32(0x55667788)},
		{"TCP header length", tcp.HeaderLen(), 40},
		{"TCP flags", tcp.Flags(), uint8(TCPSyn | TCPEce | TCPCwr)},
		{"window", tcp.Window(), uint16(0xfaf0)},
		{"TCP checksum", tcp.Checksum(), uint16(0)},
	})
}

func TestViewsOfIPv6AndExtensions(t *testing.T) {
	b := unhex(t, "6ab12345"+"0018"+"2c"+"40"+
		"20010db8000000000000000000000001"+"20010db8000000000000000000000002"+
		"11000551deadbeef"+"0035c3500010abcd")
	ip, frag, udp := IPv6At(b, 0), IPv6ExtAt(b, 40), UDPAt(b, 48)
	check(t, []field{
		{"version", ip.Version(), 6},
		{"class", ip.TrafficClass(), uint8(0xab)},
		{"label", ip.FlowLabel(), uint32(0x12345)},
		{"payload length", ip.PayloadLen(), 24},
		{"next header", ip.NextHeader(), uint8(ProtoFragment)},
		{"hop limit", ip.HopLimit(), uint8(64)},
		{"src", ip.Src(), [16]byte{0x20, 1, 0x0d, 0xb8, 15: 1}},
		{"dst", ip.Dst(), [16]byte{0x20, 1, 0x0d, 0xb8, 15: 2}},
		{"fragment next", frag.NextHeader(), uint8(ProtoUDP)},
		{"fragment offset", frag.FragmentOffset(), 0x550},
		{"M", frag.MoreFragments(), true},
		{"id", frag.FragmentID(), uint32(0xdeadbeef)},
		{"fragment length", frag.HeaderLen(ProtoFragment), 8},
		{"src port", udp.SrcPort(), uint16(53)},
		{"dst port", udp.DstPort(), uint16(50000)},
		{"length", udp.Len(), 16},
		{"checksum", udp.Checksum(), uint16(0xabcd)},
	})
}

func TestViewsOfARPAndOthers(t *testing.T) {
	arp := ARPAt(unhex(t, "0001080006040002"+"020000000001c0a80001"+"020000000002c0a80002"), 0)
	sctp := SCTPAt(unhex(t, "0b590b5a0001020304050607"), 0)
	dccp := DCCPAt(unhex(t, "138913890700123401000000"), 0)
	icmp := ICMPAt(unhex(t, "0800f7ff00010002"), 0)
	id, seq := icmp.Echo()
	check(t, []field{
		{"IPv4 over Ethernet", arp.EthernetIPv4(), true},
		{"op", arp.Op(), uint16(ARPReply)},
		{"sender", arp.SenderHW(), [6]byte{2, 0, 0, 0, 0, 1}},
		{"sender IP", arp.SenderIP(), [4]byte{192, 168, 0, 1}},
		{"target", arp.TargetHW(), [6]byte{2, 0, 0, 0, 0, 2}},
		{"target IP", arp.TargetIP(), [4]byte{192, 168, 0, 2}},
		{"SCTP src", sctp.SrcPort(), uint16(0x0b59)},
		{"SCTP dst", sctp.DstPort(), uint16(0x0b5a)},
		{"SCTP tag", sctp.Tag(), uint32(0x00010203)},
		{"DCCP src", dccp.SrcPort(), uint16(5001)},
		{"DCCP dst", dccp.DstPort(), uint16(5001)},
		{"DCCP offset", dccp.DataOffset(), 28},
		{"DCCP extended", dccp.Extended(), true},
		{"ICMP type", icmp.Type(), uint8(8)},
		{"ICMP code", icmp.Code(), uint8(0)},
		{"echo id", id, uint16(1)},
		{"echo seq", seq, uint16(2)},
	})
}

type field struct {
	name      string
	got, want any
}

func check(t *testing.T, fields []field) {
	t.Helper()
	for _, f := range fields {
		if f.got != f.want {
			t.Errorf("%s: got %v, want %v", f.name, f.got, f.want)
		}
	}
}

// TestAtRefusesShortData moves each view over a buffer, past its end, and far
// beyond.
func TestAtRefusesShortData(t *testing.T) {
	b := make([]byte, 64)
	for name, c := range map[string]struct {
		size int
		at   func(off int) bool
	}{
		"Ethernet": {EthernetLen, func(o int) bool { return EthernetAt(b, o) != nil }},
		"VLAN":     {VLANLen, func(o int) bool { return VLANAt(b, o) != nil }},
		"ARP":      {ARPLen, func(o int) bool { return ARPAt(b, o) != nil }},
		"IPv4":     {IPv4Len, func(o int) bool { return IPv4At(b, o) != nil }},
		"IPv6":     {IPv6Len, func(o int) bool { return IPv6At(b, o) != nil }},
		"IPv6Ext":  {IPv6ExtLen, func(o int) bool { return IPv6ExtAt(b, o) != nil }},
		"TCP":      {TCPLen, func(o int) bool { return TCPAt(b, o) != nil }},
		"UDP":      {UDPLen, func(o int) bool { return UDPAt(b, o) != nil }},
		"SCTP":     {SCTPLen, func(o int) bool { return SCTPAt(b, o) != nil }},
		"DCCP":     {DCCPLen, func(o int) bool { return DCCPAt(b, o) != nil }},
		"ICMP":     {ICMPLen, func(o int) bool { return ICMPAt(b, o) != nil }},
	} {
		for off := range 200 {
			if got, want := c.at(off), off+c.size <= len(b); got != want {
				t.Errorf("%s at %d of %d bytes: got %v, want %v", name, off, len(b), got, want)
			}
		}
		if c.at(1 << 40) {
			t.Errorf("%s at 2^40: got a view", name)
		}
	}
}

func TestIPv6Ext(t *testing.T) {
	want := map[int]bool{0: true, 43: true, 44: true, 51: true, 60: true, 135: true, 139: true, 140: true}
	for n := range 256 {
		if IsIPv6Ext(uint8(n)) != want[n] {
			t.Errorf("IsIPv6Ext(%d) = %v", n, !want[n])
		}
	}
	h := IPv6Ext{1: 3}
	for self, want := range map[uint8]int{ProtoHopByHop: 32, ProtoAH: 20, ProtoFragment: 8} {
		if got := h.HeaderLen(self); got != want {
			t.Errorf("length field 3 of type %d: %d bytes, want %d", self, got, want)
		}
	}
}

// slowSum is RFC 1071 word by word.
func slowSum(b []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(b); i += 2 {
		w := uint32(b[i]) << 8
		if i+1 < len(b) {
			w |= uint32(b[i+1])
		}
		sum += w
		if sum > 0xffff {
			sum -= 0xffff
		}
	}
	return uint16(sum)
}

func TestSumAgainstSlowTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		b := make([]byte, r.IntN(120))
		for i := range b {
			b[i] = byte(r.Uint32())
			if r.IntN(3) == 0 {
				b[i] = 0xff // long carries
			}
		}
		if got, want := Sum(b, 0), slowSum(b); got != want {
			t.Fatalf("sum of %x: %04x, want %04x", b, got, want)
		}
		cut := r.IntN(len(b)+1) &^ 1
		if got, want := Sum(b[cut:], Sum(b[:cut], 0)), slowSum(b); got != want {
			t.Fatalf("sum of %x in two pieces: %04x, want %04x", b, got, want)
		}
	}
}

// TestChecksumUpdate changes words of headers and compares with summing anew.
// The RFC 1624 example, where RFC 1141 fails, comes first.
func TestChecksumUpdate(t *testing.T) {
	if got := checksumUpdate(0xdd2f, 0x5555, 0x3285); got != 0x0000 {
		t.Fatalf("RFC 1624 example: %04x, want 0000", got)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		var b [20]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		ip := (*IPv4)(&b)
		ip.setChecksum(0)
		ip.setChecksum(Checksum(b[:]))
		ip.SetTTL(uint8(r.Uint32()))
		ip.SetID(uint16(r.Uint32()))
		if Checksum(b[:]) != 0 {
			t.Fatalf("after SetTTL and SetID of %x the checksum is wrong", b)
		}
		old, addr := binary.BigEndian.Uint32(b[16:]), r.Uint32()
		ip.setChecksum(ChecksumUpdate32(ip.Checksum(), old, addr))
		binary.BigEndian.PutUint32(b[16:], addr)
		if Checksum(b[:]) != 0 {
			t.Fatalf("after a new destination in %x the checksum is wrong", b)
		}
	}
}

// TestPseudoSum verifies the checksums of two packets seen on a wire: a DNS
// query over IPv4, and an ICMPv6 neighbour solicitation.
func TestPseudoSum(t *testing.T) {
	v4 := unhex(t, "4500003c647200008011c1b40a0000010a00008afb1e003500285f9c017c01000001"+
		"0000000000000377777706676f6f676c6503636f6d0000010001")
	if Checksum(v4[:20]) != 0 {
		t.Errorf("IPv4 header checksum: %04x", Checksum(v4[:20]))
	}
	if got := Sum(v4[20:], PseudoSum4(IPv4At(v4, 0), len(v4)-20)); got != 0xffff {
		t.Errorf("UDP over IPv4 sums to %04x, want ffff", got)
	}
	v6 := unhex(t, "6000000000183aff00000000000000000000000000000000ff0200000000000000000001ffa4e108"+
		"87000c2000000000fe80000000000000c50d519f96a4e108")
	if got := Sum(v6[40:], PseudoSum6(IPv6At(v6, 0), ProtoICMPv6, len(v6)-40)); got != 0xffff {
		t.Errorf("ICMPv6 sums to %04x, want ffff", got)
	}
}

func TestSetters(t *testing.T) {
	b := unhex(t, taggedTCP)
	eth, tag := EthernetAt(b, 0), VLANAt(b, 14)
	eth.SetDst([6]byte{1, 2, 3, 4, 5, 6})
	eth.SetSrc([6]byte{7, 8, 9, 10, 11, 12})
	eth.SetType(TypeVLAN)
	tag.SetTCI(0x6fff)
	tag.SetType(TypeIPv6)
	if got, want := hex.EncodeToString(b[:18]), "0102030405060708090a0b0c81006fff86dd"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if eth.Multicast() != true || eth.Broadcast() {
		t.Error("01:02:03:04:05:06 is multicast and not broadcast")
	}
	var six IPv6
	six.SetHopLimit(9)
	if six.HopLimit() != 9 {
		t.Error("hop limit not set")
	}
}

// TestInlined fails if an accessor or a constructor stops being inlined: they
// stand in the inner loops of stages.
func TestInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Skipf("no compiler here: %v", err)
	}
	text := string(out)
	for _, f := range []string{
		"EthernetAt", "VLANAt", "ARPAt", "IPv4At", "IPv6At", "IPv6ExtAt", "TCPAt", "UDPAt", "SCTPAt", "DCCPAt", "ICMPAt",
		"(*Ethernet).Broadcast", "(*VLAN).TCI", "(*IPv4).FragmentOffset", "(*IPv4).SetTTL", "(*IPv4).SetID",
		"(*IPv6).Src", "(*IPv6Ext).HeaderLen", "(*TCP).Seq", "IsVLAN", "IsIPv6Ext", "ChecksumUpdate",
	} {
		if !strings.Contains(text, "can inline "+f) {
			t.Errorf("%s is no longer inlined", f)
		}
	}
}
