package parse

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/hash"
)

const (
	fv4    = packet.FlagIPv4
	fv6    = packet.FlagIPv6
	fL4    = packet.FlagL4
	fPorts = packet.FlagL4 | packet.FlagPorts
	fOpt   = packet.FlagIPOptions
	fFrag  = packet.FlagFragment
	fLater = packet.FlagFragment | packet.FlagLaterFragment
	fBad   = packet.FlagMalformed
	fVLAN  = packet.FlagVLAN
	fQinQ  = packet.FlagVLAN | packet.FlagQinQ
)

// want is what the parser shall find. Ports are 1000 and 2000 with FlagPorts.
type want struct {
	flags       packet.Flags
	l4, payload uint16
	proto       uint8
	fault       Fault
}

// packets is the table of crafted packets: wire is the length on the wire if
// it is not the data's, l3 the end of the link header if it is not 14.
var packets = []struct {
	name string
	data []byte
	wire int
	l3   uint16
	want
}{
	{name: "UDP", data: eth(0x0800, v4(17, 0, nil, udpOf(ramp(18)))), want: want{fv4 | fPorts, 34, 42, 17, 0}},
	{name: "UDP without payload", data: eth(0x0800, v4(17, 0, nil, udpOf())), want: want{fv4 | fPorts, 34, 42, 17, 0}},
	{name: "UDP, padded", data: eth(0x0800, v4(17, 0, nil, udpOf()), zeros(18)), want: want{fv4 | fPorts, 34, 42, 17, 0}},
	{name: "shim truncated", data: eth(0x88b5, []byte{0x11, 1, 0, 7, 0xab, 0xcd}), want: want{fBad, 0, 0, 0, ShimTruncated}},
	{name: "shim version", data: eth(0x88b5, []byte{0x21, 1, 0, 7, 0xab, 0xcd, 8, 0}, zeros(40)), want: want{fBad, 0, 0, 0, ShimVersion}},
	{name: "TCP", data: eth(0x0800, v4(6, 0x4000, nil, tcpOf(nil, ramp(9)))), want: want{fv4 | fPorts, 34, 54, 6, 0}},
	{name: "TCP options", data: eth(0x0800, v4(6, 0x4000, nil, tcpOf(ramp(12), ramp(9)))), want: want{fv4 | fPorts, 34, 66, 6, 0}},
	{name: "TCP, most options", data: eth(0x0800, v4(6, 0, nil, tcpOf(ramp(40)))), want: want{fv4 | fPorts, 34, 94, 6, 0}},
	{name: "IPv4 options", data: eth(0x0800, v4(6, 0, ramp(40), tcpOf(nil))), want: want{fv4 | fPorts | fOpt, 74, 94, 6, 0}},
	{name: "ICMP", data: eth(0x0800, v4(1, 0, nil, ramp(64))), want: want{fv4 | fL4, 34, 42, 1, 0}},
	{name: "SCTP", data: eth(0x0800, v4(132, 0, nil, be16(1000), be16(2000), zeros(8))), want: want{fv4 | fPorts, 34, 46, 132, 0}},
	{name: "UDP-Lite", data: eth(0x0800, v4(136, 0, nil, be16(1000), be16(2000), be16(0), zeros(2))), want: want{fv4 | fPorts, 34, 42, 136, 0}},
	{name: "DCCP", data: eth(0x0800, v4(33, 0, nil, be16(1000), be16(2000), []byte{3}, zeros(7))), want: want{fv4 | fPorts, 34, 46, 33, 0}},
	{name: "DCCP, extended and options", data: eth(0x0800, v4(33, 0, nil, be16(1000), be16(2000), []byte{5, 0, 0, 0, 1}, zeros(11))),
		want: want{fv4 | fPorts, 34, 54, 33, 0}},
	{name: "GRE", data: eth(0x0800, v4(47, 0, nil, ramp(30))), want: want{fv4 | fL4, 34, 34, 47, 0}},
	{name: "ESP", data: eth(0x0800, v4(50, 0, nil, ramp(30))), want: want{fv4 | fL4, 34, 34, 50, 0}},
	{name: "first fragment", data: eth(0x0800, v4(17, 0x2000, nil, set(udpOf(ramp(16)), 4, 0x05, 0xdc))),
		want: want{fv4 | fPorts | fFrag, 34, 42, 17, 0}},
	{name: "first fragment, TCP cut", data: eth(0x0800, v4(6, 0x2000, nil, tcpOf(nil)[:8])), want: want{fv4 | fFrag, 0, 0, 6, 0}},
	{name: "first fragment, TCP options cut", data: eth(0x0800, v4(6, 0x2000, nil, tcpOf(ramp(12))[:24])), want: want{fv4 | fFrag, 0, 0, 6, 0}},
	{name: "later fragment", data: eth(0x0800, v4(17, 0x00b9, nil, ramp(30))), want: want{fv4 | fLater, 0, 0, 17, 0}},
	{name: "last of the longest datagram", data: eth(0x0800, v4(17, 0x1ffd, nil, ramp(3))), want: want{fv4 | fLater, 0, 0, 17, 0}},

	{name: "VLAN", data: eth(0x8100, tag(0x600a, 0x0800, v4(17, 0, nil, udpOf()))), l3: 18, want: want{fv4 | fPorts | fVLAN, 38, 46, 17, 0}},
	{name: "802.1ad", data: eth(0x88a8, tag(0x600a, 0x8100, tag(7, 0x0800, v4(17, 0, nil, udpOf())))), l3: 22, want: want{fv4 | fPorts | fQinQ, 42, 50, 17, 0}},
	{name: "0x9100 twice", data: eth(0x9100, tag(0x600a, 0x9100, tag(7, 0x0806, zeros(28)))), l3: 22, want: want{flags: fQinQ}},
	{name: "eight tags", data: eth(0x8100, tag(0x600a, 0x8100), repeat(6, tag(1, 0x8100)), tag(1, 0x0800), v4(17, 0, nil, udpOf())),
		l3: 46, want: want{fv4 | fPorts | fQinQ, 66, 74, 17, 0}},
	{name: "nine tags", data: eth(0x8100, tag(0x600a, 0x8100), repeat(7, tag(1, 0x8100)), tag(1, 0x0800), v4(17, 0, nil, udpOf())),
		l3: 46, want: want{flags: fQinQ}},
	{name: "VLAN truncated", data: eth(0x8100, zeros(3)), want: want{flags: fBad, fault: VLANTruncated}},
	{name: "second tag truncated", data: eth(0x8100, tag(0x600a, 0x8100, zeros(3))), l3: 18, want: want{flags: fVLAN | fBad, fault: VLANTruncated}},
	{name: "VLAN cut", data: eth(0x8100, zeros(3)), wire: 60, want: want{}},

	{name: "MPLS", data: eth(0x8847, ramp(46)), want: want{flags: packet.FlagMPLS}},
	{name: "MPLS multicast", data: eth(0x8848, ramp(46)), want: want{flags: packet.FlagMPLS}},
	{name: "LLC", data: eth(0x0026, ramp(46)), want: want{}},
	{name: "unknown type", data: eth(0x88cc, ramp(46)), want: want{}},
	{name: "header alone", data: eth(0x88cc), want: want{}},
	{name: "multicast", data: set(eth(0x88cc, ramp(46)), 0, 1), want: want{flags: packet.FlagMulticast}},
	{name: "broadcast", data: set(eth(0x88cc, ramp(46)), 0, 255, 255, 255, 255, 255, 255), want: want{flags: packet.FlagMulticast | packet.FlagBroadcast}},
	{name: "UDP, multicast", data: set(eth(0x0800, v4(17, 0, nil, udpOf(ramp(18)))), 0, 1), want: want{fv4 | fPorts | packet.FlagMulticast, 34, 42, 17, 0}},
	{name: "UDP, broadcast", data: set(eth(0x0800, v4(17, 0, nil, udpOf(ramp(18)))), 0, 255, 255, 255, 255, 255, 255),
		want: want{fv4 | fPorts | packet.FlagMulticast | packet.FlagBroadcast, 34, 42, 17, 0}},

	{name: "ARP", data: eth(0x0806, []byte{0, 1, 8, 0, 6, 4, 0, 1}, zeros(20)), want: want{flags: packet.FlagARP}},
	{name: "ARP of other hardware", data: eth(0x0806, []byte{0, 2, 8, 0, 6, 4, 0, 1}, zeros(2)), want: want{}},
	{name: "ARP truncated", data: eth(0x0806, []byte{0, 1, 8, 0, 6, 4, 0, 1}, zeros(19)), want: want{flags: fBad, fault: ARPTruncated}},
	{name: "ARP truncated early", data: eth(0x0806, zeros(7)), want: want{flags: fBad, fault: ARPTruncated}},
	{name: "ARP cut", data: eth(0x0806, []byte{0, 1, 8, 0, 6, 4, 0, 1}, zeros(19)), wire: 60, want: want{}},

	{name: "IPv4 truncated", data: eth(0x0800, v4(17, 0, nil)[:19]), want: want{flags: fBad, fault: IPv4Truncated}},
	{name: "IPv4 cut", data: eth(0x0800, v4(17, 0, nil)[:19]), wire: 60, want: want{}},
	{name: "IPv4 version", data: eth(0x0800, set(v4(17, 0, nil, udpOf(ramp(18))), 0, 0x55)), want: want{flags: fBad, fault: IPv4Version}},
	{name: "IPv4 header length", data: eth(0x0800, set(v4(17, 0, nil, udpOf(ramp(18))), 0, 0x44)), want: want{flags: fBad, fault: IPv4HeaderLength}},
	{name: "IPv4 total length below header", data: eth(0x0800, set(v4(17, 0, nil, udpOf(ramp(18))), 3, 19)), want: want{flags: fBad, fault: IPv4TotalLength}},
	{name: "IPv4 total length of zero", data: eth(0x0800, set(v4(6, 0, nil, tcpOf(nil)), 2, 0, 0)), want: want{flags: fBad, fault: IPv4TotalLength}},
	{name: "IPv4 total length beyond packet", data: eth(0x0800, set(v4(17, 0, nil, udpOf(ramp(18))), 3, 47)), want: want{flags: fBad, fault: IPv4TotalLength}},
	{name: "IPv4 total length beyond capture", data: eth(0x0800, set(v4(17, 0, nil, udpOf(ramp(18))), 3, 47)), wire: 61, want: want{fv4 | fPorts, 34, 42, 17, 0}},
	{name: "IPv4 options cut", data: eth(0x0800, v4(17, 0, ramp(40), udpOf())[:50]), wire: 82, want: want{}},
	{name: "IPv4 fragment beyond the longest", data: eth(0x0800, v4(17, 0x1ffe, nil, ramp(3))), want: want{flags: fBad, fault: IPv4Fragment}},

	{name: "TCP truncated", data: eth(0x0800, v4(6, 0, nil, tcpOf(nil)[:19]), zeros(20)), want: want{flags: fv4 | fBad, proto: 6, fault: TCPTruncated}},
	{name: "TCP cut", data: eth(0x0800, v4(6, 0, nil, tcpOf(nil)))[:53], wire: 54, want: want{flags: fv4, proto: 6}},
	{name: "TCP options cut", data: eth(0x0800, v4(6, 0, nil, tcpOf(ramp(12), ramp(9))))[:60], wire: 75, want: want{fv4 | fPorts, 34, 60, 6, 0}},
	{name: "TCP data offset below header", data: eth(0x0800, v4(6, 0, nil, set(tcpOf(nil, ramp(9)), 12, 0x4f))), want: want{flags: fv4 | fBad, proto: 6, fault: TCPDataOffset}},
	{name: "TCP data offset beyond packet", data: eth(0x0800, v4(6, 0, nil, set(tcpOf(nil, ramp(3)), 12, 0x60)), zeros(20)), want: want{flags: fv4 | fBad, proto: 6, fault: TCPDataOffset}},
	{name: "UDP truncated", data: eth(0x0800, v4(17, 0, nil, ramp(7)), zeros(20)), want: want{flags: fv4 | fBad, proto: 17, fault: UDPTruncated}},
	{name: "UDP length below header", data: eth(0x0800, v4(17, 0, nil, set(udpOf(ramp(18)), 5, 7))), want: want{flags: fv4 | fBad, proto: 17, fault: UDPLength}},
	{name: "UDP length beyond packet", data: eth(0x0800, v4(17, 0, nil, set(udpOf(ramp(18)), 5, 27)), zeros(20)), want: want{flags: fv4 | fBad, proto: 17, fault: UDPLength}},
	{name: "UDP length below packet", data: eth(0x0800, v4(17, 0, nil, set(udpOf(ramp(18)), 5, 25))), want: want{fv4 | fPorts, 34, 42, 17, 0}},
	{name: "UDP-Lite coverage", data: eth(0x0800, v4(136, 0, nil, set(udpOf(ramp(18)), 5, 7))), want: want{flags: fv4 | fBad, proto: 136, fault: UDPLiteCoverage}},
	{name: "ICMP truncated", data: eth(0x0800, v4(1, 0, nil, ramp(7)), zeros(20)), want: want{flags: fv4 | fBad, proto: 1, fault: ICMPTruncated}},
	{name: "SCTP truncated", data: eth(0x0800, v4(132, 0, nil, ramp(11)), zeros(20)), want: want{flags: fv4 | fBad, proto: 132, fault: SCTPTruncated}},
	{name: "DCCP truncated", data: eth(0x0800, v4(33, 0, nil, ramp(11)), zeros(20)), want: want{flags: fv4 | fBad, proto: 33, fault: DCCPTruncated}},
	{name: "DCCP data offset", data: eth(0x0800, v4(33, 0, nil, zeros(4), []byte{3, 0, 0, 0, 1}, zeros(11))), want: want{flags: fv4 | fBad, proto: 33, fault: DCCPDataOffset}},

	{name: "IPv6 UDP", data: eth(0x86dd, v6(17, udpOf(ramp(4)))), want: want{fv6 | fPorts, 54, 62, 17, 0}},
	{name: "IPv6 TCP", data: eth(0x86dd, v6(6, tcpOf(ramp(4), ramp(4)))), want: want{fv6 | fPorts, 54, 78, 6, 0}},
	{name: "ICMPv6", data: eth(0x86dd, v6(58, ramp(24))), want: want{fv6 | fL4, 54, 62, 58, 0}},
	{name: "no next header", data: eth(0x86dd, v6(59, ramp(4))), want: want{flags: fv6, proto: 59}},
	{name: "IPv6 in IPv6", data: eth(0x86dd, v6(41, v6(17, udpOf()))), want: want{fv6 | fL4, 54, 54, 41, 0}},
	{name: "extension headers", data: eth(0x86dd, v6(0, ext(60, 0, ext(43, 1, ext(135, 0, ext(139, 0, ext(140, 0, ext(6, 2, tcpOf(nil, ramp(4)))))))))),
		want: want{fv6 | fPorts | fOpt, 54 + 8 + 8 + 16 + 8 + 8 + 24, 54 + 72 + 20, 6, 0}},
	{name: "AH", data: eth(0x86dd, v6(51, []byte{17, 4}, zeros(22), udpOf())), want: want{fv6 | fPorts | fOpt, 78, 86, 17, 0}},
	{name: "ESP behind options", data: eth(0x86dd, v6(60, ext(50, 0, ramp(16)))), want: want{fv6 | fL4 | fOpt, 62, 62, 50, 0}},
	{name: "IPv6 atomic fragment", data: eth(0x86dd, v6(44, frag6(17, 0, udpOf()))), want: want{fv6 | fPorts | fOpt, 62, 70, 17, 0}},
	{name: "IPv6 first fragment", data: eth(0x86dd, v6(44, frag6(60, 1, ext(17, 0, set(udpOf(ramp(8)), 4, 0x05, 0xdc))))), want: want{fv6 | fPorts | fOpt | fFrag, 70, 78, 17, 0}},
	{name: "IPv6 later fragment", data: eth(0x86dd, v6(44, frag6(60, 0x550, ramp(30)))), want: want{flags: fv6 | fOpt | fLater, proto: 60}},
	{name: "16 extension headers", data: eth(0x86dd, v6(60, manyExt(16, 17, udpOf()))), want: want{fv6 | fPorts | fOpt, 54 + 128, 54 + 136, 17, 0}},
	{name: "17 extension headers", data: eth(0x86dd, v6(60, manyExt(17, 17, udpOf()))), want: want{flags: fv6 | fOpt | fBad, proto: 60, fault: IPv6ExtensionCount}},

	{name: "IPv6 truncated", data: eth(0x86dd, v6(17)[:39]), want: want{flags: fBad, fault: IPv6Truncated}},
	{name: "IPv6 cut", data: eth(0x86dd, v6(17)[:39]), wire: 80, want: want{}},
	{name: "IPv6 version", data: eth(0x86dd, set(v6(17, udpOf()), 0, 0x40)), want: want{flags: fBad, fault: IPv6Version}},
	{name: "IPv6 payload length", data: eth(0x86dd, set(v6(17, udpOf()), 5, 9)), want: want{flags: fBad, fault: IPv6PayloadLength}},
	{name: "IPv6 extension beyond payload", data: eth(0x86dd, v6(60, ext(17, 1)[:15]), zeros(8)), want: want{flags: fv6 | fOpt | fBad, proto: 60, fault: IPv6Extension}},
	{name: "IPv6 extension without room", data: eth(0x86dd, v6(60, zeros(7)), zeros(8)), want: want{flags: fv6 | fOpt | fBad, proto: 60, fault: IPv6Extension}},
	{name: "IPv6 extension cut", data: eth(0x86dd, v6(60, ext(17, 1, udpOf())))[:60], wire: 78, want: want{flags: fv6 | fOpt, proto: 60}},
	{name: "IPv6 transport cut", data: eth(0x86dd, v6(60, ext(47, 1, ramp(8))))[:64], wire: 78, want: want{flags: fv6 | fOpt, proto: 47}},
	{name: "IPv6 fragment beyond the longest", data: eth(0x86dd, v6(44, frag6(17, 0xfff8, ramp(8)))), want: want{flags: fv6 | fOpt | fBad, proto: 17, fault: IPv6Fragment}},
	{name: "jumbogram", data: eth(0x86dd, set(v6(0, ext(17, 0, udpOf())), 4, 0, 0)), want: want{flags: fv6 | fOpt | fBad, proto: 0, fault: IPv6Extension}},
}

func repeat(n int, b []byte) []byte { return bytes.Repeat(b, n) }

// manyExt chains n extension headers of eight bytes in front of rest.
func manyExt(n, last int, rest []byte) []byte {
	for i := range n {
		next := 60
		if i == 0 {
			next = last
		}
		rest = ext(next, 0, rest)
	}
	return rest
}

func TestPackets(t *testing.T) {
	b := newBatch(t, 64)
	for _, c := range packets {
		t.Run(c.name, func(t *testing.T) {
			m, s := newStage(t, DefaultConfig(), 0)
			wire := max(c.wire, len(c.data))
			got := parseOne(s, b, c.data, wire)
			want := packet.Packet{
				Len: uint32(len(c.data)), WireLen: uint32(wire), OutPort: packet.NoPort,
				Flags: c.flags, L3: max(c.l3, 14), L4: c.l4, Payload: c.payload, Proto: c.proto,
			}
			want.EtherType = binary.BigEndian.Uint16(c.data[want.L3-2:])
			if c.flags.Has(fVLAN) {
				want.VLAN = 0x600a
			}
			if c.flags.Has(packet.FlagIPv4) {
				want.TTL = 64
			}
			if c.flags.Has(packet.FlagIPv6) {
				want.TTL = 61
			}
			if c.flags.Has(packet.FlagPorts) {
				want.SrcPort, want.DstPort = 1000, 2000
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			for name, n := range m.Counters().Malformed {
				if wantN := uint64(0); name == c.fault.String() {
					wantN = 1
					if n != wantN {
						t.Errorf("counted %s %d times", name, n)
					}
				} else if n != wantN {
					t.Errorf("counted %s %d times, want %s", name, n, c.fault)
				}
			}
		})
	}
}

// TestEveryFaultHasAPacket keeps the table complete.
func TestEveryFaultHasAPacket(t *testing.T) {
	seen := map[Fault]bool{NoFault: true}
	for _, c := range packets {
		seen[c.fault] = true
	}
	names := map[string]bool{}
	for f := range numFaults {
		if !seen[f] {
			t.Errorf("no packet has the fault %s", f)
		}
		if f.String() == "" || f.Help() == "" || names[f.String()] {
			t.Errorf("fault %d: name %q, help %q", f, f, f.Help())
		}
		names[f.String()] = true
	}
}

// TestOldMetadataIsReplaced parses a packet over the metadata of another.
func TestOldMetadataIsReplaced(t *testing.T) {
	_, s := newStage(t, DefaultConfig(), 0)
	b := newBatch(t, 4)
	var addrs [1]uint64
	b.Frames.Alloc(addrs[:])
	for _, c := range packets {
		for _, old := range []packet.Packet{{}, {
			Flags: ^packet.Flags(0), L3: 9, L4: 9, Payload: 9, Proto: 9, TTL: 9, VLAN: 9, SrcPort: 9, DstPort: 9, EtherType: 9,
		}} {
			b.Reset()
			p := b.Append()
			old.Addr, old.Len, old.WireLen = addrs[0], uint32(len(c.data)), uint32(max(c.wire, len(c.data)))
			*p = old
			copy(b.Mem[p.Addr:], c.data)
			s.Process(b)
			clean := packet.Packet{Addr: old.Addr, Len: old.Len, WireLen: old.WireLen}
			headers(&clean, c.data)
			if *p != clean {
				t.Errorf("%s over %v:\n%s", c.name, old.Flags, cmp.Diff(clean, *p))
			}
		}
	}
}

func TestRuntsAndMalformed(t *testing.T) {
	b := newBatch(t, 64)
	bad := eth(0x0800, set(v4(17, 0, nil, udpOf(ramp(18))), 0, 0x55))
	for _, c := range []struct {
		config Config
		data   []byte
		want   packet.Reason
	}{
		{Config{Malformed: Forward}, nil, reasonRunt},
		{Config{Malformed: Forward}, zeros(13), reasonRunt},
		{Config{Malformed: Forward}, zeros(14), 0},
		{Config{Malformed: Forward}, bad, 0},
		{Config{Malformed: Drop}, bad, reasonMalformed},
		{Config{Malformed: Drop}, zeros(13), reasonRunt},
		{Config{Malformed: Drop}, eth(0x0800, v4(17, 0, nil, udpOf())), 0},
	} {
		m, s := newStage(t, c.config, allNeeds)
		got := parseOne(s, b, c.data, len(c.data))
		if got.Reason != c.want || b.Dropped != map[bool]int{true: 1}[c.want != 0] {
			t.Errorf("%s, %x: reason %s, dropped %d; want %s", c.config.Malformed, c.data, got.Reason, b.Dropped, c.want)
		}
		if n := m.Counters().Malformed["ipv4_version"]; (n == 1) != (fmt.Sprintf("%x", c.data) == fmt.Sprintf("%x", bad)) {
			t.Errorf("%s, %x: ipv4_version counted %d times", c.config.Malformed, c.data, n)
		}
	}
}

// TestSkipsDropped leaves packets alone that a driver has dropped.
func TestSkipsDropped(t *testing.T) {
	_, s := newStage(t, DefaultConfig(), allNeeds&^packet.NeedArrival)
	b := newBatch(t, 4)
	addr, _ := b.Frames.AllocOne()
	p := b.Append()
	p.Addr, p.Len, p.WireLen = addr, 60, 60
	b.Drop(p, packet.ReasonTooLong)
	before := *p
	s.Process(b)
	if *p != before || b.Dropped != 1 {
		t.Errorf("a dropped packet was parsed:\n%s", cmp.Diff(before, *p))
	}
}

func TestConfig(t *testing.T) {
	if c := DefaultConfig(); c.Validate(nil) != nil || c.Malformed != Forward {
		t.Errorf("default %+v: %v", c, c.Validate(nil))
	}
	c := Config{Malformed: "maybe"}
	want := `malformed = "maybe": choose "forward" or "drop"`
	if err := c.Validate(nil); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if m, err := New(c, pipeline.Env{}); err == nil || m != nil {
		t.Error("New took a configuration that Validate refuses")
	}
}

// TestCountersOfAllWorkers sums what two workers counted.
func TestCountersOfAllWorkers(t *testing.T) {
	m, err := New(DefaultConfig(), pipeline.Env{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(t, 4)
	for w := range 2 {
		for range w + 1 {
			parseOne(m.Stage(w).(*stage), b, eth(0x0800, zeros(4)), 18)
		}
	}
	if n := m.Counters().Malformed["ipv4_truncated"]; n != 3 {
		t.Errorf("counted %d, want 3", n)
	}
}

func TestAllocatesNothing(t *testing.T) {
	for _, config := range []Config{{Malformed: Forward}, {Malformed: Drop}} {
		_, s := newStage(t, config, allNeeds)
		b := newBatch(t, 2*len(packets))
		addrs := make([]uint64, len(packets))
		b.Frames.Alloc(addrs)
		if n := testing.AllocsPerRun(50, func() {
			for i, c := range packets {
				if i%packet.BatchSize == 0 {
					b.Reset()
				}
				p := b.Append()
				p.Addr = addrs[i]
				p.Len = uint32(copy(b.Mem[p.Addr:], c.data))
				p.WireLen = max(p.Len, uint32(c.wire))
				s.Process(b)
			}
		}); n != 0 {
			t.Errorf("malformed = %q: %v allocations", config.Malformed, n)
		}
	}
}

// TestInlined fails if what the loop of Process calls for every packet stops
// being inlined.
func TestInlined(t *testing.T) {
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Skipf("no compiler here: %v", err)
	}
	for _, f := range []string{"plainPayload", "plainHeader", "groupFlags", "touch"} {
		if !strings.Contains(string(out), "inlining call to "+f+"\n") {
			t.Errorf("%s is no longer inlined", f)
		}
	}
}

// TestNeeds computes what is asked for and nothing else.
func TestNeeds(t *testing.T) {
	b := newBatch(t, 64)
	b.Now = 77
	data := eth(0x0800, v4(17, 0, nil, udpOf(ramp(18))))
	for needs := range allNeeds + 1 {
		_, s := newStage(t, Config{Malformed: Forward, Seed: 5}, needs)
		p := parseOne(s, b, data, len(data))
		if (p.FlowHash != 0) != (needs&packet.NeedFlowHash != 0) || (p.ID != 0) != (needs&packet.NeedID != 0) ||
			(p.Arrival == 77) != (needs&packet.NeedArrival != 0) {
			t.Errorf("needs %b: flow hash %x, id %x, arrival %d", needs, p.FlowHash, p.ID, p.Arrival)
		}
	}
}

// TestArrivalOfDriver keeps the time that a driver gave.
func TestArrivalOfDriver(t *testing.T) {
	_, s := newStage(t, DefaultConfig(), packet.NeedArrival)
	b := newBatch(t, 4)
	b.Now = 77
	addr, _ := b.Frames.AllocOne()
	for _, arrival := range []int64{0, 55} {
		p := b.Append()
		p.Addr, p.Len, p.WireLen, p.Arrival = addr, 60, 60, arrival
	}
	s.Process(b)
	if b.Pkts[0].Arrival != 77 || b.Pkts[1].Arrival != 55 {
		t.Errorf("arrivals %d and %d, want 77 and 55", b.Pkts[0].Arrival, b.Pkts[1].Arrival)
	}
}

// TestHashes compares flow hash and id with XXH64 over the documented bytes.
func TestHashes(t *testing.T) {
	b := newBatch(t, 64)
	const seed = 42
	for _, c := range packets {
		_, s := newStage(t, Config{Malformed: Forward, Seed: seed}, allNeeds)
		got := parseOne(s, b, c.data, max(c.wire, len(c.data)))

		var flow []byte
		if k, ok := got.Key(c.data); ok {
			words, n := k.Words()
			flow = bytesOf(words[:n])
		} else {
			flow = cat(c.data[:12], []byte{byte(got.EtherType), byte(got.EtherType >> 8), 0, 0})
		}
		if want := uint32(hash.Bytes(seed, flow)); got.FlowHash != want {
			t.Errorf("%s: flow hash %08x, want %08x", c.name, got.FlowHash, want)
		}
		var w packet.IDBlock
		n := w.Fill(c.data, &got, false)
		if want := hash.Bytes(seed, bytesOf(w[:n])); got.ID != want {
			t.Errorf("%s: id %016x, want %016x", c.name, got.ID, want)
		}
	}
}

func bytesOf(words []uint64) []byte {
	var b []byte
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}
