package virtio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/dataplane/gso"
)

// all are all offloads.
var all = gso.Offloads{Checksum: true, TCP4: true, TCP6: true, UDP: true}

// slowSum is the sum of RFC 1071 of the parts, each of an even length but the last one.
func slowSum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		for i, c := range b {
			sum += uint32(c) << (8 * (1 - i%2))
			sum = sum>>16 + sum&0xffff
		}
	}
	return uint16(sum)
}

// large is a packet as a kernel leaves it to its device: the sum of the pseudo-header in place of the checksum, and what
// the packet's header says.
type large struct {
	name   string
	bytes  []byte
	header [12]byte
	l3, l4 int
	v6     bool
	udp    bool
	head   int // bytes of all headers
	kind   byte
}

func newLarge(v6, udp bool, tags, options, payload, size int) large {
	p := large{name: fmt.Sprintf("v6 %t, udp %t, %d tags, %d bytes of options, %d by %d", v6, udp, tags, options, payload, size), v6: v6, udp: udp}
	b := bytes.Repeat([]byte{2}, 12)
	for range tags {
		b = append(b, 0x81, 0, 0, 7)
	}
	b = append(b, map[bool][]byte{false: {8, 0}, true: {0x86, 0xdd}}[v6]...)
	p.l3 = len(b)
	proto, l4 := byte(6), 20+options
	if udp {
		proto, l4 = 17, 8
	}
	length := l4 + payload
	addresses := []byte{10, 0, 0, 1, 10, 0, 0, 2}
	if v6 {
		addresses = bytes.Repeat(addresses, 4)
		b = append(b, 0x60, 0, 0, 0, byte(length>>8), byte(length), proto, 64)
	} else {
		b = append(b, 0x45, 0, byte((length+20)>>8), byte(length+20), 0xff, 0xfe, 0x40, 0, 64, proto, 0xbe, 0xef)
	}
	b = append(b, addresses...)
	p.l4 = len(b)
	at := p.l4 + 16
	if udp {
		at = p.l4 + 6
		b = append(b, 4, 1, 4, 2, byte(length>>8), byte(length), 0, 0)
	} else {
		b = append(b, 4, 1, 4, 2, 0xff, 0xff, 0xf0, 0, 1, 2, 3, 4, byte((20+options)/4)<<4, 0x80|0x10|8|1, 9, 9, 0, 0, 0, 0)
		b = append(b, bytes.Repeat([]byte{1}, options)...)
	}
	p.head = len(b)
	binary.BigEndian.PutUint16(b[at:], slowSum(addresses, []byte{0, proto, byte(length >> 8), byte(length)}))
	for i := range payload {
		b = append(b, byte(i*7+i>>8))
	}
	p.bytes = b
	p.kind = gso.TCP4
	if v6 {
		p.kind = gso.TCP6
	}
	if udp {
		p.kind = gso.UDP
	}
	p.header[0], p.header[1] = gso.NeedsChecksum, p.kind
	binary.LittleEndian.PutUint16(p.header[2:], uint16(p.head))
	binary.LittleEndian.PutUint16(p.header[4:], uint16(size))
	binary.LittleEndian.PutUint16(p.header[6:], uint16(p.l4))
	binary.LittleEndian.PutUint16(p.header[8:], uint16(at-p.l4))
	return p
}

// send makes the packet available in pieces, from buffer 0 on.
func (p *large) send(d *driver, id uint16) {
	all := append(p.header[:], p.bytes...)
	copy(d.bytes[buffersAt:], all)
	var chain []descriptor
	for at := 0; at < len(all); {
		n := len(all) - at
		if len(chain) < 3 {
			n = min(n, 5+at*13)
		}
		chain = append(chain, descriptor{addr: guestBase + buffersAt + uint64(at), len: uint32(n)})
		at += n
	}
	d.offer(id, chain...)
}

// valid checks a packet's checksums and lengths, and returns its payload.
func (p *large) valid(t *testing.T, got []byte, index, size int, last bool) []byte {
	t.Helper()
	if len(got) < p.head {
		t.Fatalf("%s: segment %d of %d bytes", p.name, index, len(got))
	}
	ip, l4 := got[p.l3:], got[p.l4:]
	proto := byte(6)
	if p.udp {
		proto = 17
	}
	addresses := ip[8:]
	if p.v6 {
		addresses = addresses[:32]
		if n := int(binary.BigEndian.Uint16(ip[4:])); n != len(ip)-40 {
			t.Errorf("%s: segment %d says %d bytes and has %d", p.name, index, n, len(ip)-40)
		}
	} else {
		addresses = ip[12:20]
		if n := int(binary.BigEndian.Uint16(ip[2:])); n != len(ip) {
			t.Errorf("%s: segment %d says %d bytes and has %d", p.name, index, n, len(ip))
		}
		if id := binary.BigEndian.Uint16(ip[4:]); id != uint16(0xfffe+index) {
			t.Errorf("%s: segment %d has identification %#x", p.name, index, id)
		}
		if slowSum(ip[:20]) != 0xffff {
			t.Errorf("%s: segment %d: the checksum of IPv4 is wrong", p.name, index)
		}
	}
	if slowSum(addresses, []byte{0, proto, byte(len(l4) >> 8), byte(len(l4))}, l4) != 0xffff {
		t.Errorf("%s: segment %d: the checksum is wrong", p.name, index)
	}
	if p.udp {
		if n := int(binary.BigEndian.Uint16(l4[4:])); n != len(l4) {
			t.Errorf("%s: segment %d says %d bytes of UDP and has %d", p.name, index, n, len(l4))
		}
		return got[p.head:]
	}
	if seq := binary.BigEndian.Uint32(l4[4:]); seq != 0xfffff000+uint32(index*size) {
		t.Errorf("%s: segment %d has sequence number %#x", p.name, index, seq)
	}
	flags := byte(0x10)
	if index == 0 {
		flags |= 0x80
	}
	if last {
		flags |= 8 | 1
	}
	if l4[13] != flags {
		t.Errorf("%s: segment %d has flags %#x, want %#x", p.name, index, l4[13], flags)
	}
	return got[p.head:]
}

// TestSegments: large packets come as segments with right headers, and together with the payload that was sent. The buffer goes back
// behind the last one; a ring that starts again in the middle begins the packet again.
func TestSegments(t *testing.T) {
	for name, l := range layouts(16) {
		l.Offloads = all
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, l)
			dst := make([]byte, 1700)
			id := uint16(0)
			for _, c := range [][3]int{{0, 60000, 1448}, {1, 1449, 1448}, {2, 1448, 1448}, {0, 5, 8}, {0, 0, 100}, {1, 4001, 536}} {
				for kind := range 4 {
					options := 12
					p := newLarge(kind&1 != 0, kind&2 != 0, c[0], options, c[1], c[2])
					p.send(d, id*4%16)
					var payload []byte
					for index := 0; ; index++ {
						if n := d.ring.Available(64); n != 64 {
							t.Fatalf("%s: segment %d: %d available; faults %s", p.name, index, n, d.text())
						}
						n, ok := d.ring.Get(dst)
						d.ring.Flush()
						if !ok || n == 0 {
							t.Fatalf("%s: segment %d: %d bytes (%t); faults %s", p.name, index, n, ok, d.text())
						}
						last := len(payload)+n-p.head >= c[1]
						payload = append(payload, p.valid(t, dst[:n], index, c[2], last)...)
						if used, _, ok := d.collect(); ok != last || ok && used != id*4%16 {
							t.Fatalf("%s: segment %d: used buffer %d (%t)", p.name, index, used, ok)
						}
						if last {
							break
						}
						if !d.ring.Arm() {
							t.Errorf("%s: segment %d: the worker would sleep beside the rest", p.name, index)
						}
						if index == 3 { // as where a message stops the ring
							d.layout.Base = d.ring.Base()
							d.restart()
							payload = p.rest(t, d, dst, c[2])
							break
						}
					}
					if !bytes.Equal(payload, p.bytes[p.head:]) {
						t.Errorf("%s: %d bytes of payload, want %d", p.name, len(payload), len(p.bytes)-p.head)
					}
					id++
				}
			}
			if d.ring.Available(64) != 0 || d.faults.Packets() != 0 {
				t.Errorf("%d available, faults %s", d.ring.Available(64), d.text())
			}
		})
	}
}

// rest returns the payload of all segments that come.
func (p *large) rest(t *testing.T, d *driver, dst []byte, size int) (payload []byte) {
	t.Helper()
	for index := 0; ; index++ {
		n, ok := d.ring.Get(dst)
		if !ok {
			d.ring.Flush()
			if _, _, ok := d.collect(); !ok {
				t.Errorf("%s: the buffer does not come back", p.name)
			}
			return payload
		}
		payload = append(payload, p.valid(t, dst[:n], index, size, len(payload)+n-p.head >= len(p.bytes)-p.head)...)
	}
}

// TestChecksum: a partial checksum is completed, in a packet of any protocol.
func TestChecksum(t *testing.T) {
	l := layouts(16)["split"]
	l.Offloads = all
	d := newDriver(t, l)
	dst := make([]byte, 1700)
	for n := range 200 {
		p := newLarge(n&1 != 0, n&2 != 0, n%3, 0, n, 1)
		p.header[1] = gso.None
		p.send(d, 0)
		got, ok := d.ring.Get(dst)
		d.ring.Flush()
		if _, _, back := d.collect(); !back || !ok || got != len(p.bytes) {
			t.Fatalf("%s: %d bytes (%t, %t)", p.name, got, ok, back)
		}
		at := p.l4 + int(binary.LittleEndian.Uint16(p.header[8:]))
		want := bytes.Clone(p.bytes)
		check := ^slowSum(want[p.l4:])
		if check == 0 {
			check = 0xffff
		}
		binary.BigEndian.PutUint16(want[at:], check)
		if !bytes.Equal(dst[:got], want) {
			t.Fatalf("%s: got %x, want %x", p.name, dst[:got], want)
		}
	}
}

// TestSegmentsAllocateNothing is the hot path of a large packet.
func TestSegmentsAllocateNothing(t *testing.T) {
	l := layouts(16)["packed"]
	l.Offloads = all
	d := newDriver(t, l)
	p := newLarge(false, false, 0, 12, 20000, 1448)
	dst := make([]byte, 1700)
	copy(d.bytes[buffersAt:], append(p.header[:], p.bytes...))
	segments := 0
	if avg := testing.AllocsPerRun(100, func() {
		d.offer(0, descriptor{addr: buffer0(0), len: uint32(12 + len(p.bytes))})
		for {
			if _, ok := d.ring.Get(dst); !ok {
				break
			}
			segments++
		}
		d.ring.Flush()
		d.collect()
	}); avg != 0 {
		t.Errorf("%v allocations for a large packet", avg)
	}
	if segments != 101*14 {
		t.Errorf("%d segments, want %d", segments, 101*14)
	}
}

// TestOffloadRefusals: what a header says must be what the packet has.
func TestOffloadRefusals(t *testing.T) {
	for name, l := range layouts(16) {
		l.Offloads = all
		for _, c := range []struct {
			name  string
			want  Fault
			spoil func(p *large, l *Layout)
		}{
			{"the checksum behind the end", FaultChecksum, func(p *large, _ *Layout) {
				p.header[1], p.bytes = gso.None, p.bytes[:1000]
				binary.LittleEndian.PutUint16(p.header[8:], uint16(len(p.bytes)-p.l4-1))
			}},
			{"the checksum in the Ethernet header", FaultChecksum, func(p *large, _ *Layout) {
				p.header[1], p.header[6], p.header[7], p.bytes = gso.None, 13, 0, p.bytes[:1000]
			}},
			{"offsets that overflow", FaultChecksum, func(p *large, _ *Layout) {
				copy(p.header[6:10], "\xff\xff\xff\xff")
				p.header[1], p.bytes = gso.None, p.bytes[:1000]
			}},
			{"segments without a checksum", FaultChecksum, func(p *large, _ *Layout) { p.header[0] = 0 }},
			{"segments with the checksum elsewhere", FaultChecksum, func(p *large, _ *Layout) { p.header[6]++ }},
			{"segments with another offset", FaultChecksum, func(p *large, _ *Layout) { p.header[8]++ }},
			{"the segments of UFO", FaultSegment, func(p *large, _ *Layout) { p.header[1] = 3 }},
			{"IPv6 in IPv4", FaultSegment, func(p *large, _ *Layout) { p.header[1] = gso.TCP6 }},
			{"UDP in TCP", FaultSegment, func(p *large, _ *Layout) { p.header[1] = gso.UDP }},
			{"segments of nothing", FaultSegment, func(p *large, _ *Layout) { p.header[4], p.header[5] = 0, 0 }},
			{"segments of 7 bytes", FaultSegment, func(p *large, _ *Layout) { p.header[4], p.header[5] = 7, 0 }},
			{"segments longer than a frame", FaultSegment, func(p *large, _ *Layout) { p.header[4], p.header[5] = 0xff, 0xff }},
			{"a fragment", FaultSegment, func(p *large, _ *Layout) { p.bytes[p.l3+6] = 0x20 }},
			{"an IPv4 header of 4 bytes", FaultSegment, func(p *large, _ *Layout) { p.bytes[p.l3] = 0x41 }},
			{"a TCP header of 16 bytes", FaultSegment, func(p *large, _ *Layout) { p.bytes[p.l4+12] = 0x40 }},
			{"headers longer than the packet", FaultSegment, func(p *large, _ *Layout) {
				p.bytes = p.bytes[:p.head]
				p.bytes[p.l4+12] = 0xf0
			}},
			{"no IP", FaultSegment, func(p *large, _ *Layout) { p.bytes[12] = 0x99 }},
			{"a kind that was not negotiated", FaultSegment, func(_ *large, l *Layout) { l.Offloads.TCP4 = false }},
			{"more than IP can be", FaultLong, func(p *large, _ *Layout) { p.bytes = append(p.bytes, make([]byte, gso.MaxLarge)...) }},
		} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				p := newLarge(false, false, 0, 12, 3000, 1448)
				l := l
				c.spoil(&p, &l)
				d := newDriver(t, l)
				p.send(d, 0)
				if n, ok := d.ring.Get(make([]byte, 1700)); !ok || n != 0 {
					t.Errorf("got %d bytes (%t)", n, ok)
				}
				d.ring.Flush()
				if _, _, ok := d.collect(); !ok {
					t.Error("the buffer does not come back")
				}
				if d.faults.Count(c.want) != 1 || d.faults.Packets() != 1 {
					t.Errorf("faults %s, want %s", d.text(), c.want)
				}
			})
		}
	}
}

// FuzzOffload changes bytes of a large packet and of its header. Each is refused, or becomes a bounded number of segments that fit.
func FuzzOffload(f *testing.F) {
	r := rand.New(rand.NewPCG(4, 18))
	for kind := range uint8(16) {
		changes := make([]byte, 2*r.IntN(6))
		for i := range changes {
			changes[i] = byte(r.Uint32())
		}
		f.Add(kind, uint16(r.IntN(5000)), uint16(8+r.IntN(1500)), changes)
	}
	f.Fuzz(func(t *testing.T, kind uint8, payload, size uint16, changes []byte) {
		l := layouts(16)[map[bool]string{false: "split", true: "packed"}[kind&1 != 0]]
		l.Offloads = all
		d := newDriver(t, l)
		p := newLarge(kind&2 != 0, kind&4 != 0, int(kind>>3)%3, 0, int(payload), int(size))
		for ; len(changes) >= 2; changes = changes[2:] {
			if at := int(changes[0]) % (12 + p.head); at < 12 {
				p.header[at] = changes[1]
			} else {
				p.bytes[at-12] = changes[1]
			}
		}
		p.send(d, 0)
		var memory [1700 + 64]byte
		total := 0
		for n := 0; ; n++ {
			got, ok := d.ring.Get(memory[:1700])
			if !ok {
				break
			}
			total += got
			if got > 1700 || n > len(p.bytes)/gso.MinSegment+1 {
				t.Fatalf("segment %d of %d bytes", n, got)
			}
		}
		if memory[1700:][0] != 0 || !bytes.Equal(memory[1700:], make([]byte, 64)) {
			t.Fatal("written behind the frame")
		}
		d.ring.Flush()
		if _, _, ok := d.collect(); !ok && !d.ring.Broken() {
			t.Fatal("the buffer does not come back")
		}
		if total == 0 && d.faults.Packets() == 0 {
			t.Fatal("lost without a fault")
		}
	})
}
