package intmd

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/pipeline/header"
)

// frameOf is a packet with right checksums.
type frameOf struct {
	v6, udp, noSum bool
	vlans, options int // tags; bytes of TCP's options
	dscp           uint8
	payload        []byte
	padding        int // behind the IP packet
}

func (f frameOf) bytes() []byte {
	data := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for range f.vlans {
		data = append(data, 0x81, 0, 0, 10)
	}
	l4 := make([]byte, header.TCPLen+f.options)
	proto := uint8(header.ProtoTCP)
	l4[12], l4[13] = byte(len(l4)/4)<<4, header.TCPAck
	if f.udp {
		l4, proto = make([]byte, header.UDPLen), header.ProtoUDP
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)+len(f.payload)))
	}
	binary.BigEndian.PutUint16(l4, 1234)
	binary.BigEndian.PutUint16(l4[2:], 80)
	segment := append(l4, f.payload...)
	if f.v6 {
		var ip header.IPv6
		ip.Init([16]byte{0xfd, 15: 1}, [16]byte{0xfd, 15: 2}, proto, 64, len(segment))
		class := f.dscp<<2 | 1
		ip[0], ip[1] = ip[0]|class>>4, class<<4
		data = append(append(data, 0x86, 0xdd), ip[:]...)
	} else {
		var ip header.IPv4
		ip.Init([4]byte{10, 0, 0, 1}, [4]byte{10, 0, 0, 2}, proto, 64, f.dscp<<2|1, 7, header.IPv4Len+len(segment))
		data = append(append(data, 8, 0), ip[:]...)
	}
	data = append(data, segment...)
	p, ok := locate(data)
	if !ok {
		panic("no packet")
	}
	if !f.noSum {
		at := p.l4 + 16
		if f.udp {
			at = p.l4 + 6
		}
		sum := ^segmentSum(data, p)
		if f.udp && sum == 0 {
			sum = 0xffff
		}
		binary.BigEndian.PutUint16(data[at:], sum)
	}
	return append(data, make([]byte, f.padding)...)
}

// segmentSum is over the pseudo header and the segment: 0xffff where the checksum is right.
func segmentSum(frame []byte, p place) uint16 {
	segment := frame[p.l4 : p.ip+p.length]
	if p.v6 {
		h := header.IPv6At(frame, p.ip)
		return header.Sum(segment, header.PseudoSum6(h, h.NextHeader(), len(segment)))
	}
	return header.Sum(segment, header.PseudoSum4(header.IPv4At(frame, p.ip), len(segment)))
}

// checkSums fails where a packet's lengths or checksums are not right.
func checkSums(t testing.TB, frame []byte, f frameOf) {
	t.Helper()
	p, ok := locate(frame)
	if !ok || p.ip+p.length+f.padding != len(frame) {
		t.Fatalf("% x is no packet", frame)
	}
	if !p.v6 && !header.IPv4At(frame, p.ip).ValidChecksum() {
		t.Errorf("IPv4's checksum of % x", frame)
	}
	if p.udp && p.l4+header.UDPAt(frame, p.l4).Len() != p.ip+p.length {
		t.Errorf("UDP's length of % x", frame)
	}
	if f.noSum {
		if header.UDPAt(frame, p.l4).Checksum() != 0 {
			t.Errorf("a checksum where the sender had none")
		}
		return
	}
	if sum := segmentSum(frame, p); sum != 0xffff {
		t.Errorf("the checksum of % x: %#x is left", frame, sum)
	}
}

// kinds are packets of all kinds that carry a stack.
func kinds(payload int) (all []frameOf) {
	body := bytes.Repeat([]byte("weir!"), payload/5+1)[:payload]
	for _, f := range []frameOf{{}, {v6: true}, {udp: true}, {v6: true, udp: true}, {udp: true, noSum: true}, {options: 12}, {vlans: 2}, {dscp: Mark}, {v6: true, dscp: 46, vlans: 1}, {padding: 6}} {
		f.payload = body
		all = append(all, f)
	}
	return all
}

// TestExampleAsPacket: the packet that the specification's third switch receives is, from its IP header on, what two of our hops make, byte by byte.
func TestExampleAsPacket(t *testing.T) {
	// 10.0.0.1:1234 > 10.0.0.2:80 with 4 bytes, DSCP 0x0a. The sums are those of RFC 1071, computed apart from this code.
	frame := unhex(t, `02 00 00 00 00 02  02 00 00 00 00 01  08 00
		45 28 00 2c 00 07 00 00 40 06 66 9b 0a 00 00 01 0a 00 00 02
		04 d2 00 50 00 00 00 01 00 00 00 02 50 10 10 00 e9 0b 00 00
		de ad be ef`)
	checkSums(t, frame, frameOf{})
	original := slices.Clone(frame)
	frame, outcome := Source(frame, &Config{NodeID | Queue, 8}, 0)
	if outcome != Done {
		t.Fatal(outcome)
	}
	for i, queued := range []uint32{0x11, 0x22} {
		if frame, outcome = Push(frame, &Hop{Known: NodeID | Queue, Node: uint32(i + 1), Queued: queued}, 0); outcome != Done {
			t.Fatal(outcome)
		}
	}
	want := unhex(t, `02 00 00 00 00 02  02 00 00 00 00 01  08 00
		45 5c 00 4c 00 07 00 00 40 06 66 47 0a 00 00 01 0a 00 00 02
		04 d2 00 50 00 00 00 01 00 00 00 02 50 10 10 00 26 80 00 00`+exampleTCP+`de ad be ef`)
	if !bytes.Equal(frame, want) {
		t.Errorf("\n% x, want\n% x", frame, want)
	}
	checkSums(t, frame, frameOf{})
	frame, stack := Strip(frame, nil)
	if !bytes.Equal(frame, original) || !bytes.Equal(stack, unhex(t, exampleTCP)) {
		t.Errorf("% x and % x are left", frame, []byte(stack))
	}
}

// TestPath: packets of all kinds collect what each hop writes, have right lengths and checksums at each, and arrive as they were sent.
func TestPath(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, size := range []int{0, 1, 5, 1200} {
		for _, f := range kinds(size) {
			original := f.bytes()
			checkSums(t, original, f)
			c := Config{Instructions: Instructions(r.Uint32())&known | NodeID, MaxHops: 20}
			frame, outcome := Source(slices.Clone(original), &c, 0)
			if outcome != Done || len(frame) != len(original)+FixedLen {
				t.Fatalf("%+v: outcome %d, %d bytes", f, outcome, len(frame))
			}
			checkSums(t, frame, f)
			var want []Hop
			for i := range 10 {
				h := anyHop(r)
				frame, outcome = Push(frame, &h, 0)
				if outcome != Done || len(frame) != len(original)+FixedLen+(i+1)*c.HopLen() {
					t.Fatalf("%+v: outcome %d at hop %d, %d bytes", f, outcome, i, len(frame))
				}
				checkSums(t, frame, f)
				want = append(want, h.asked(c.Instructions))
			}
			frame, stack := Strip(frame, nil)
			hops, ok := stack.Hops(nil, 0)
			if !ok || !slices.Equal(hops, want) || stack.Remaining() != 10 || stack.DSCP() != f.dscp {
				t.Errorf("%+v: %d hops left of 20, %+v", f, stack.Remaining(), hops)
			}
			if !bytes.Equal(frame, original) {
				t.Errorf("%+v: % x arrives as % x", f, original, frame)
			}
		}
	}
}

// TestLimits: where a packet would exceed the MTU, or the hops that may write, the hop sets the bit and writes nothing; checksums hold.
func TestLimits(t *testing.T) {
	c := Config{NodeID | HopLatency, 3}
	for _, f := range kinds(100) {
		original := f.bytes()
		p, _ := locate(original)
		hop := Hop{Known: NodeID | HopLatency, Node: 5, Latency: 6}
		for _, e := range []struct {
			room           int // beyond the packet
			source         Outcome
			hops           []Outcome
			length         int
			exceeded, left bool
		}{
			{15, NoRoom, []Outcome{NoStack}, 0, false, false},
			{16, Done, []Outcome{MTUExceeded, MTUExceeded}, 16, true, false},
			{23, Done, []Outcome{MTUExceeded}, 16, true, false},
			{24, Done, []Outcome{Done, MTUExceeded}, 24, true, false},
			{39, Done, []Outcome{Done, Done, MTUExceeded}, 32, true, false},
			{99, Done, []Outcome{Done, Done, Done, HopsExceeded, HopsExceeded}, 40, false, true},
		} {
			mtu := p.length + e.room
			frame, outcome := Source(slices.Clone(original), &c, mtu)
			if outcome != e.source {
				t.Errorf("%+v, %d bytes of room: the source says %d", f, e.room, outcome)
			}
			for i, want := range e.hops {
				if frame, outcome = Push(frame, &hop, mtu); outcome != want {
					t.Errorf("%+v, %d bytes of room: hop %d says %d", f, e.room, i+1, outcome)
				}
				checkSums(t, frame, f)
			}
			frame, stack := Strip(frame, nil)
			if e.source == NoRoom {
				if p, _ := locate(frame); stack != nil || p.dscp(frame) == Mark || f.dscp != Mark && !bytes.Equal(frame, original) {
					t.Errorf("%+v without room became % x", f, frame)
				}
				continue
			}
			if len(stack) != e.length || stack.MTUExceeded() != e.exceeded || stack.HopsExceeded() != e.left {
				t.Errorf("%+v, %d bytes of room: % x", f, e.room, []byte(stack))
			}
			if !bytes.Equal(frame, original) {
				t.Errorf("%+v, %d bytes of room: % x arrives as % x", f, e.room, original, frame)
			}
		}
	}
	// The shim counts 255 words, of which 252 are of hops: 8 of 31 words.
	f := frameOf{udp: true, payload: []byte("x")}
	long := known &^ IngressTime
	for long.Words() > 8 {
		long &= long - 1
	}
	frame, _ := Source(f.bytes(), &Config{long, 255}, 0)
	n := 0
	for outcome := Done; outcome == Done; n++ {
		frame, outcome = Push(frame, &Hop{}, 0)
		if outcome != Done && outcome != Full {
			t.Fatal(outcome)
		}
	}
	if want := (maxWords-headerML)/long.Words() + 1; n != want {
		t.Errorf("full at hop %d, not %d", n, want)
	}
	if frame, _ = Strip(frame, nil); !bytes.Equal(frame, f.bytes()) {
		t.Errorf("% x", frame)
	}
}

// TestNotCarried: what is no whole TCP or UDP datagram stays as it is, and nothing is found in it.
func TestNotCarried(t *testing.T) {
	whole := frameOf{udp: true, payload: []byte("hello"), dscp: Mark}.bytes()
	change := func(f func(b []byte)) []byte {
		b := slices.Clone(whole)
		f(b)
		return b
	}
	six := frameOf{v6: true, payload: []byte("hello"), dscp: Mark}.bytes()
	for name, frame := range map[string][]byte{
		"empty": {}, "short": whole[:13], "cut in IP": whole[:30], "cut in UDP": whole[:40],
		"ARP":          change(func(b []byte) { b[13] = 6 }),
		"version":      change(func(b []byte) { b[14] = 0x65 }),
		"short header": change(func(b []byte) { b[14] = 0x44 }),
		"fragment":     change(func(b []byte) { b[20] = 0x20 }),
		"last part":    change(func(b []byte) { b[21] = 9 }),
		"ICMP":         change(func(b []byte) { b[23] = 1 }),
		"total length": change(func(b []byte) { b[17] = 20 }),
		"UDP's length": change(func(b []byte) { b[39] = 7 }),
		"longer UDP":   change(func(b []byte) { b[39]++ }),
		"extension":    append(slices.Clone(six[:20]), append([]byte{0}, six[21:]...)...),
		"jumbogram":    append(slices.Clone(six[:18]), append([]byte{0, 0}, six[20:]...)...),
		"tags":         append(slices.Clone(whole[:12]), bytes.Repeat([]byte{0x81, 0, 0, 1}, 3)...),
	} {
		for step, got := range map[string][]byte{
			"source": first(Source(slices.Clone(frame), &Config{NodeID, 4}, 0)),
			"hop":    first(Push(slices.Clone(frame), &Hop{}, 0)),
			"sink":   first(Strip(slices.Clone(frame), nil)),
		} {
			if !bytes.Equal(got, frame) {
				t.Errorf("%s, %s: % x becomes % x", name, step, frame, got)
			}
		}
	}
	if _, outcome := Push(slices.Clone(whole), &Hop{}, 0); outcome != NoStack {
		t.Errorf("a packet with the mark alone: %d", outcome)
	}
	// A stack of another encapsulation has no mark of ours.
	other, _ := Source(frameOf{payload: []byte("x")}.bytes(), &Config{NodeID, 4}, 0)
	p, _ := locate(other)
	other[p.payload] |= 1 << 2
	if _, stack := Strip(other, nil); stack != nil {
		t.Error("a stack with NPT 1 was taken out")
	}
}

func first[T any](frame []byte, _ T) []byte { return frame }

// FuzzPacket takes any bytes to a source and through three hops, where they must arrive as they were sent, and to a hop and a sink,
// which must survive them.
func FuzzPacket(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, k := range kinds(40) {
		f.Add(k.bytes(), uint16(0xa100), uint8(4), uint16(0))
		frame, _ := Source(k.bytes(), &Config{NodeID | Queue, 8}, 0)
		h := anyHop(r)
		frame, _ = Push(frame, &h, 0)
		f.Add(frame, uint16(0x8001), uint8(1), uint16(100))
	}
	f.Fuzz(func(t *testing.T, data []byte, bitmap uint16, hops uint8, mtu uint16) {
		c := Config{Instructions(bitmap), hops}
		if c.Validate() == nil {
			frame, outcome := Source(slices.Clone(data), &c, int(mtu))
			written := 0
			for range 3 {
				h := Hop{Known: NodeID, Node: uint32(written)}
				var at Outcome
				if frame, at = Push(frame, &h, int(mtu)); at == Done {
					written++
				}
			}
			if outcome == Done {
				back, stack := Strip(frame, nil)
				if got, ok := stack.Hops(nil, 0); !ok || len(got) != written {
					t.Errorf("%d hops of %d", len(got), written)
				}
				if !sameButSum(back, data) {
					t.Errorf("% x arrives as % x", data, back)
				}
			}
		}
		frame, _ := Push(slices.Clone(data), &Hop{Known: known}, int(mtu))
		_, stack := Strip(frame, nil)
		stack = StackAt(stack)
		if got, ok := stack.hopsOrNone(); ok && len(got)*stack.HopWords()*word != len(stack.Metadata()) {
			t.Errorf("%d hops of % x", len(got), []byte(stack))
		}
		StackAt(data).hopsOrNone()
	})
}

func (s Stack) hopsOrNone() ([]Hop, bool) {
	if s == nil {
		return nil, false
	}
	return s.Hops(nil, 0)
}

// sameButSum compares packets. A checksum of 0xffff is 0 in one's complement, and becomes that where it was never right: in TCP and IPv4.
func sameButSum(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	p, ok := locate(a)
	if !ok {
		return bytes.Equal(a, b)
	}
	a, b = slices.Clone(a), slices.Clone(b)
	sums := []int{}
	if !p.v6 {
		sums = append(sums, p.ip+10)
	}
	if !p.udp {
		sums = append(sums, p.l4+16)
	}
	for _, at := range sums {
		for _, d := range [][]byte{a, b} {
			if d[at] == 0xff && d[at+1] == 0xff {
				d[at], d[at+1] = 0, 0
			}
		}
	}
	return bytes.Equal(a, b)
}
