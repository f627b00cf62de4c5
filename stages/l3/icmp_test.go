package l3

import (
	"bytes"
	"net"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/weirswitch/weir/pipeline/packet"
)

// TestErrors: what the sender is told, from which address, with which quote,
// and that the packet itself is dropped for its own reason.
func TestErrors(t *testing.T) {
	df := func(ip *layers.IPv4) { ip.Flags = layers.IPv4DontFragment }
	for _, tc := range []struct {
		name       string
		data       []byte
		reason     packet.Reason
		src        string
		kind, code uint8
		rest       uint32
	}{
		{"TTL 1", udp(t, "10.0.1.2", "10.9.8.7", 1, 30), reasonTTLExpired, "10.0.1.1", 11, 0, 0},
		{"TTL 0", udp(t, "10.0.1.2", "10.9.8.7", 0, 30), reasonTTLExpired, "10.0.1.1", 11, 0, 0},
		{"hop limit 1", udp(t, "fd00:1::2", "fd09::1", 1, 30), reasonTTLExpired, "fd00:1::1", 3, 0, 0},
		{"no route", udp(t, "10.0.1.2", "192.0.2.1", 9, 30), reasonNoRoute, "10.0.1.1", 3, 0, 0},
		{"no route, v6", udp(t, "fd00:1::2", "2001:db8::1", 9, 30), reasonNoRoute, "fd00:1::1", 1, 0, 0},
		{"DF", udp(t, "10.0.1.2", "10.0.3.2", 9, 1373, df), reasonMTU, "10.0.1.1", 3, 4, 1400},
		{"too big", udp(t, "fd00:1::2", "fd00:3::2", 9, 1353), reasonMTU, "fd00:1::1", 2, 0, 1400},
		{"UDP to the switch", udp(t, "10.0.1.2", "10.0.2.1", 9, 30), reasonNoListener, "10.0.1.1", 3, 3, 0},
		{"UDP to the switch, v6", udp(t, "fd00:1::2", "fd00:2::1", 9, 30), reasonNoListener, "fd00:1::1", 1, 4, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, testConfig())
			got := b.one(0, tc.data)
			if b.got.reasons[tc.reason.String()] != 1 || !got.copy || got.port != 0 ||
				!bytes.Equal(got.data[:6], hostMAC) || !bytes.Equal(got.data[6:12], ownMAC(0)) {
				t.Fatalf("reasons %v, port %d, %x", b.got.reasons, got.port, got.data[:14])
			}
			p := verified(t, got.data)
			var quote []byte
			if ip, ok := p.Layer(layers.LayerTypeIPv4).(*layers.IPv4); ok {
				m := p.Layer(layers.LayerTypeICMPv4).(*layers.ICMPv4)
				if !ip.SrcIP.Equal(net.ParseIP(tc.src)) || m.TypeCode != layers.CreateICMPv4TypeCode(tc.kind, tc.code) || uint32(m.Id)<<16|uint32(m.Seq) != tc.rest {
					t.Errorf("from %s: %v, %d %d", ip.SrcIP, m.TypeCode, m.Id, m.Seq)
				}
				quote = m.Payload
				if len(got.data) > 14+576 {
					t.Errorf("%d bytes long", len(got.data))
				}
			} else {
				ip := p.Layer(layers.LayerTypeIPv6).(*layers.IPv6)
				m := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6)
				rest := uint32(m.Payload[0])<<24 | uint32(m.Payload[1])<<16 | uint32(m.Payload[2])<<8 | uint32(m.Payload[3])
				if !ip.SrcIP.Equal(net.ParseIP(tc.src)) || m.TypeCode != layers.CreateICMPv6TypeCode(tc.kind, tc.code) || rest != tc.rest {
					t.Errorf("from %s: %v, %d", ip.SrcIP, m.TypeCode, rest)
				}
				quote = m.Payload[4:]
				if len(got.data) > 14+1280 {
					t.Errorf("%d bytes long", len(got.data))
				}
			}
			if len(quote) < 48 || !bytes.HasPrefix(tc.data[14:], quote) {
				t.Errorf("quoted\n%x of\n%x", quote, tc.data[14:])
			}
		})
	}
}

// TestFits: a packet as long as the MTU passes, and one without DF that is
// longer goes without a word.
func TestFits(t *testing.T) {
	b := newBench(t, testConfig())
	if got := b.one(0, udp(t, "10.0.1.2", "10.0.3.2", 9, 1372)); got.port != 2 || len(got.data) != 1414 {
		t.Errorf("port %d, %d bytes", got.port, len(got.data))
	}
	if got := b.one(0, udp(t, "fd00:1::2", "fd00:3::2", 9, 1352)); got.port != 2 || len(got.data) != 1414 {
		t.Errorf("port %d, %d bytes", got.port, len(got.data))
	}
	b.none(0, udp(t, "10.0.1.2", "10.0.3.2", 9, 1373), reasonMTU)
}

// TestNoErrors: never about errors, groups, later fragments, or to nobody.
func TestNoErrors(t *testing.T) {
	icmp := func(typ uint8, frag uint16) []byte {
		ip := ip4("10.0.1.2", "10.9.8.7", 1, layers.IPProtocolICMPv4)
		ip.FragOffset = frag
		return frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv4), ip,
			&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(typ, 0)}, gopacket.Payload(make([]byte, 40)))
	}
	icmp6 := func(typ uint8) []byte {
		return frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv6), ip6("fd00:1::2", "fd09::1", 1, layers.IPProtocolICMPv6),
			&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(typ, 0)}, gopacket.Payload(make([]byte, 40)))
	}
	b := newBench(t, testConfig())
	for _, typ := range []uint8{3, 4, 5, 11, 12} {
		b.none(0, icmp(typ, 0), reasonTTLExpired)
	}
	for _, typ := range []uint8{1, 2, 3, 4, 100, 137} {
		b.none(0, icmp6(typ), reasonTTLExpired)
	}
	b.none(0, udp(t, "10.0.1.2", "10.9.8.7", 1, 30, func(ip *layers.IPv4) { ip.FragOffset = 10 }), reasonTTLExpired)
	for _, data := range [][]byte{icmp(8, 0), icmp(0, 0), icmp(13, 0), icmp6(128), icmp6(129), udp(t, "10.0.1.2", "10.9.8.7", 1, 30, func(ip *layers.IPv4) { ip.Flags = layers.IPv4MoreFragments })} {
		b.one(0, data)
	}
	b.none(0, icmp(8, 10), reasonTTLExpired)
}

// TestEcho: the switch answers on all of its addresses, at every length.
func TestEcho(t *testing.T) {
	b := newBench(t, testConfig())
	for n := 0; n <= 1400; n += 7 {
		payload := gopacket.Payload(bytes.Repeat([]byte{byte(n), 0xff, 0}, n/3+1)[:n])
		for _, dst := range []string{"10.0.1.1", "10.0.3.1"} {
			got := b.one(0, frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv4), ip4("10.0.1.2", dst, 1, layers.IPProtocolICMPv4),
				&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: 5, Seq: 9}, payload))
			want := frame(t, ether(hostMAC, ownMAC(0), layers.EthernetTypeIPv4), ip4(dst, "10.0.1.2", ownTTL, layers.IPProtocolICMPv4),
				&layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(0, 0), Id: 5, Seq: 9}, payload)
			if got.port != 0 || !bytes.Equal(got.data, want) {
				t.Fatalf("port %d\n%x, want\n%x", got.port, got.data, want)
			}
		}
		got := b.one(0, frame(t, ether(ownMAC(0), hostMAC, layers.EthernetTypeIPv6), ip6("fd00:1::2", "fd00:2::1", 1, layers.IPProtocolICMPv6),
			&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}, &layers.ICMPv6Echo{Identifier: 5, SeqNumber: 9}, payload))
		want := frame(t, ether(hostMAC, ownMAC(0), layers.EthernetTypeIPv6), ip6("fd00:2::1", "fd00:1::2", ownTTL, layers.IPProtocolICMPv6),
			&layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(129, 0)}, &layers.ICMPv6Echo{Identifier: 5, SeqNumber: 9}, payload)
		if got.port != 0 || !bytes.Equal(got.data, want) {
			t.Fatalf("port %d\n%x, want\n%x", got.port, got.data, want)
		}
	}
	if c := b.module.Counters(); c.EchoReplies != uint64(b.got.copiesOut) || b.got.consumed != b.got.copiesOut {
		t.Errorf("counters %+v, books %+v", c, b.got)
	}
}

// TestErrorsOfOthers: a port whose packets expire without end keeps no other port's senders from their errors.
func TestErrorsOfOthers(t *testing.T) {
	c := testConfig()
	c.ICMPRate = 100
	b := newBench(t, c)
	for range 50 {
		b.run(in{0, udp(t, "10.0.1.2", "10.9.8.7", 1, 30)})
	}
	other := udp(t, "10.0.2.2", "10.9.8.7", 1, 30)
	copy(other, ownMAC(1))
	if left := b.run(in{1, other}); len(left) != 1 || left[0].port != 1 {
		t.Errorf("%+v", left)
	}
}

// TestErrorsAreLimited: a burst of a tenth of the rate, then the rate; what is not
// said is counted.
func TestErrorsAreLimited(t *testing.T) {
	c := testConfig()
	c.ICMPRate = 100
	b := newBench(t, c)
	said := 0
	expired := udp(t, "10.0.1.2", "10.9.8.7", 1, 30)
	for range 50 {
		said += len(b.run(in{0, expired}))
	}
	if said != 10 {
		t.Errorf("%d errors at once, want 10", said)
	}
	for range 1000 { // 2 s, in steps of 2 ms
		b.now += int64(2 * time.Millisecond)
		said += len(b.run(in{0, expired}))
	}
	if said != 210 {
		t.Errorf("%d errors after 2 s, want 210", said)
	}
	if k := b.module.Counters(); k.ICMPErrors != 210 || k.ICMPLimited != 1050-210 {
		t.Errorf("counters %+v", k)
	}
	b.now -= int64(time.Hour) // a clock that steps back stops nothing
	if len(b.run(in{0, expired})) != 1 {
		t.Error("no error after the clock stepped back")
	}
}
