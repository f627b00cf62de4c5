package paper

import (
	"bytes"
	"encoding/binary"
	"testing"

	samples "github.com/weirswitch/weir/telemetry/oblivious"
)

// change returns a frame with other bytes at an offset.
func change(frame []byte, at int, to ...byte) []byte {
	out := bytes.Clone(frame)
	copy(out[at:], to)
	return out
}

// insert returns a frame with bytes put in at an offset.
func insert(frame []byte, at int, what ...byte) []byte {
	return append(append(bytes.Clone(frame[:at]), what...), frame[at:]...)
}

// udp4 is a UDP packet over IPv4 with an identification, of n bytes.
func udp4(id byte, n int) []byte {
	f := make([]byte, n)
	udpFrame(f, samples.Key{Src: [16]byte{10, 0, 0, 1}, Dst: [16]byte{10, 0, 0, 2}, SrcPort: 7, DstPort: 9}, uint32(n))
	f[19] = id
	return f
}

// tcp4 is a bare TCP segment with an identification, a sequence number and a checksum.
func tcp4(id, seq, sum byte) []byte {
	f := udp4(id, 54)
	f[23], f[41], f[46], f[51] = 6, seq, 0x50, sum
	return f
}

// ip6 is a packet over IPv6 with a chain of headers behind it, and zeros up to n bytes.
func ip6(next byte, n int, chain ...byte) []byte {
	f := make([]byte, n)
	copy(f, udp4(0, 14+40)[:12])
	copy(f[12:], []byte{0x86, 0xdd, 0x60})
	binary.BigEndian.PutUint16(f[18:], uint16(n-54))
	f[20], f[21], f[37], f[53] = next, 64, 1, 2
	copy(f[54:], chain)
	return f
}

// TestWhatCountsAsOnePacket sends frames through real switches, each through all of
// them, and counts what they are together: a packet is the same whatever changes
// on its way, and another one where its header or first bytes tell it apart.
func TestWhatCountsAsOnePacket(t *testing.T) {
	plain := udp4(1, 100)
	arp := append(change(plain[:14], 12, 8, 6), 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2)
	hop := []byte{17, 0, 1, 4, 0, 0, 0, 0} // hop-by-hop options in front of UDP
	udp := []byte{0, 7, 0, 9, 0, 16, 1, 2, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}
	withHop := ip6(0, 54+24, append(hop, udp...)...)
	fragment6 := func(offset byte) []byte { // of the identification 9
		return ip6(44, 54+24, append([]byte{17, 0, offset >> 5, offset<<3 | 1, 0, 0, 0, 9}, udp...)...)
	}
	fragment4 := func(id, offset byte) []byte { return change(udp4(id, 114), 20, 0x20, offset) }
	for _, c := range []struct {
		name   string
		frames [][]byte
		// packets and bytes as the network's sample counts them.
		packets, bytes float64
	}{
		{"as it came", [][]byte{plain, plain}, 1, 100},
		{"routed: MAC addresses, TTL and checksum", [][]byte{plain, change(change(plain, 0, 9, 9, 9, 9), 22, 63, 17, 5, 5)}, 1, 100},
		{"remarked: DSCP and ECN", [][]byte{plain, change(plain, 15, 0xb9)}, 1, 100},
		{"tagged, twice tagged", [][]byte{plain, insert(plain, 12, 0x81, 0, 0, 10), insert(plain, 12, 0x88, 0xa8, 0, 1, 0x81, 0, 0, 10)}, 1, 100},
		{"padded", [][]byte{udp4(1, 50), append(udp4(1, 50), make([]byte, 10)...)}, 1, 50},
		{"another identification", [][]byte{plain, udp4(2, 100)}, 2, 200},
		{"another payload", [][]byte{plain, change(plain, 44, 1)}, 2, 200},
		{"retransmission with another identification", [][]byte{tcp4(1, 1, 1), tcp4(2, 1, 1)}, 2, 108},
		{"retransmission with another checksum", [][]byte{tcp4(0, 1, 1), tcp4(0, 1, 2)}, 2, 108},
		{"another sequence number", [][]byte{tcp4(0, 1, 1), tcp4(0, 2, 1)}, 2, 108},
		{"alike to the bit", [][]byte{tcp4(0, 1, 1), tcp4(0, 1, 1)}, 1, 54},
		{"fragments, and those of another datagram", [][]byte{fragment4(1, 0), fragment4(1, 10), fragment4(1, 20), fragment4(2, 10)}, 4, 4 * 114},
		{"a fragment again", [][]byte{fragment4(1, 10), fragment4(1, 10)}, 1, 114},
		{"IPv6 behind a router", [][]byte{withHop, change(withHop, 21, 63)}, 1, 78},
		{"IPv6 with another traffic class", [][]byte{withHop, change(withHop, 14, 0x6f)}, 1, 78},
		{"IPv6 with another payload behind its options", [][]byte{withHop, change(withHop, 71, 'x')}, 2, 156},
		{"IPv6 fragments", [][]byte{fragment6(0), fragment6(1), fragment6(1)}, 2, 156},
		{"ARP, and as a link pads it", [][]byte{arp, append(bytes.Clone(arp), make([]byte, 18)...)}, 1, 60},
		{"ARP for another address", [][]byte{arp, change(arp, 41, 3)}, 2, 120},
		{"ARP in a VLAN", [][]byte{arp, insert(arp, 12, 0x81, 0, 0, 10)}, 1, 60},
		{"an unknown EtherType", [][]byte{change(plain, 12, 0x12, 0x34), change(plain, 12, 0x12, 0x34)}, 1, 100},
		{"IPv4 that claims to be longer than it is", [][]byte{change(plain, 16, 0xff, 0xff)}, 1, 100},
		{"cut off in the header", [][]byte{plain[:20], plain[:20]}, 1, 60},
		{"nothing but a link header", [][]byte{plain[:14]}, 1, 60},
	} {
		var parts []*samples.Sample
		for range 2 {
			s := newSamplingSwitch(t)
			for _, f := range c.frames {
				s.pass(f)
			}
			parts = append(parts, s.end(t)[0])
		}
		m, err := samples.Union(parts...)
		if err != nil {
			t.Fatal(err)
		}
		packets, err := m.Volume(samples.Packets, 0.1)
		length, err2 := m.Volume(samples.Bytes, 0.1)
		if err != nil || err2 != nil || packets.Value != c.packets || length.Value != c.bytes || int(m.Packets) != 2*len(c.frames) {
			t.Errorf("%s: %g packets, %g bytes of %d sent, want %g and %g", c.name, packets.Value, length.Value, len(c.frames), c.packets, c.bytes)
		}
	}
}
