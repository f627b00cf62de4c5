package intmd

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// unhex reads bytes as people write them.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The examples of the specification, section 6, by hand: three switches, of which each writes its id and its queue; 8 hops may.
const (
	// "INT-MD over TCP": what the third switch receives, of a packet whose own DSCP was 0x0a.
	exampleTCP = `10 07 00 28
		20 00 02 06  90 00 00 00  00 00 00 00
		00 00 00 02  00 00 00 22
		00 00 00 01  00 00 00 11`
	// "INT-MD in-between UDP header and UDP payload": the port was 4660.
	exampleUDP = `14 07 12 34
		20 00 02 06  90 00 00 00  00 00 00 00
		00 00 00 02  00 00 00 22
		00 00 00 01  00 00 00 11`
	// "new UDP header and INT-MD inserted before TCP".
	exampleNew = `18 07 00 06
		20 00 02 06  90 00 00 00  00 00 00 00
		00 00 00 02  00 00 00 22
		00 00 00 01  00 00 00 11`
	// "INT-MD including domain specific source-only metadata": the source's address is a6:1a:f6:b1:64:7d.
	exampleDomain = `14 08 12 34
		20 00 01 05  80 00 54 53  80 00 40 00
		00 00 00 02
		00 00 00 01
		00 00 00 09
		a6 1a f6 b1  64 7d 00 00`
)

// TestExamples reads the specification's examples.
func TestExamples(t *testing.T) {
	queues := []Hop{{Known: NodeID | Queue, Node: 1, Queued: 0x11}, {Known: NodeID | Queue, Node: 2, Queued: 0x22}}
	ids := []Hop{{Known: NodeID, Node: 9}, {Known: NodeID, Node: 1}, {Known: NodeID, Node: 2}}
	for _, c := range []struct {
		name, text       string
		npt, words       int
		remaining        uint8
		bitmap           Instructions
		domain, ds, flag uint16
		sourceOnly       int
		hops             []Hop
	}{
		{"TCP", exampleTCP, 0, 2, 6, NodeID | Queue, 0, 0, 0, 0, queues},
		{"UDP", exampleUDP, 1, 2, 6, NodeID | Queue, 0, 0, 0, 0, queues},
		{"new UDP", exampleNew, 2, 2, 6, NodeID | Queue, 0, 0, 0, 0, queues},
		{"domain", exampleDomain, 1, 1, 5, NodeID, 0x5453, 0x8000, 0x4000, 8, ids},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := unhex(t, c.text)
			s := StackAt(append(slices.Clone(data), "payload"...))
			if !bytes.Equal(s, data) {
				t.Fatalf("% x", []byte(s))
			}
			if s.NextProtocol() != c.npt || s.HopWords() != c.words || s.Remaining() != c.remaining || s.Instructions() != c.bitmap ||
				s.Domain() != c.domain || s.DomainInstructions() != c.ds || s.DomainFlags() != c.flag || s.Discard() || s.HopsExceeded() || s.MTUExceeded() {
				t.Errorf("read as %+v of % x", c, []byte(s))
			}
			hops, ok := s.Hops(nil, c.sourceOnly)
			if !ok || !slices.Equal(hops, c.hops) {
				t.Errorf("%+v, %t", hops, ok)
			}
		})
	}
	if s := StackAt(unhex(t, exampleTCP)); s.DSCP() != 0x0a {
		t.Errorf("DSCP %#x", s.DSCP())
	}
	flags := unhex(t, exampleTCP)
	flags[4] = 0x2e
	if s := StackAt(flags); !s.Discard() || !s.HopsExceeded() || !s.MTUExceeded() {
		t.Error("flags D, E and M are not seen")
	}
}

// TestStackRefuses: what contradicts itself is no stack.
func TestStackRefuses(t *testing.T) {
	good := unhex(t, exampleTCP)
	for name, change := range map[string]func(b []byte) []byte{
		"empty":                     func([]byte) []byte { return nil },
		"cut in the header":         func(b []byte) []byte { return b[:15] },
		"cut in the metadata":       func(b []byte) []byte { return b[:len(b)-1] },
		"INT-MX":                    func(b []byte) []byte { b[0] = 0x30; return b },
		"version 1":                 func(b []byte) []byte { b[4] = 0x10; return b },
		"no room for the header":    func(b []byte) []byte { b[1] = 2; return b },
		"no whole hop":              func(b []byte) []byte { b[1] = 6; return b },
		"a hop of no length":        func(b []byte) []byte { b[6] = 0; return b },
		"less than the bitmap":      func(b []byte) []byte { b[6] = 1; return b },
		"more than the bitmap":      func(b []byte) []byte { b[6] = 4; return b },
		"less, of a domain":         func(b []byte) []byte { b[6], b[11] = 1, 1; return b },
		"no instruction, metadata":  func(b []byte) []byte { b[6], b[8] = 0, 0; return b },
		"longer than what is there": func(b []byte) []byte { b[1] = 255; return b },
	} {
		if s := StackAt(change(slices.Clone(good))); s != nil {
			t.Errorf("%s: % x", name, []byte(s))
		}
	}
	if StackAt(good) == nil {
		t.Error("the example itself is refused")
	}
	s := StackAt(unhex(t, exampleDomain))
	for _, sourceOnly := range []int{-1, 6, 21} {
		if hops, ok := s.Hops(nil, sourceOnly); ok {
			t.Errorf("%d bytes of the source: %+v", sourceOnly, hops)
		}
	}
}

// TestBits: each instruction has the bit and the length of section 5.7.
func TestBits(t *testing.T) {
	full := Hop{
		Known: known &^ ChecksumComplement, Node: 0x01020304, Ingress: 0x1112, Egress: 0x2122, Latency: 0x31323334, QueueID: 0x41, Queued: 0x424344,
		IngressNs: 0x5152535455565758, EgressNs: 0x6162636465666768, Ingress2: 0x71727374, Egress2: 0x81828384, Utilisation: 0x91929394, BufferID: 0xa1, Buffered: 0xa2a3a4,
	}
	for _, c := range []struct {
		bit  int // 0 is the highest
		text string
	}{
		{0, "01020304"}, {1, "11122122"}, {2, "31323334"}, {3, "41424344"}, {4, "5152535455565758"}, {5, "6162636465666768"},
		{6, "7172737481828384"}, {7, "91929394"}, {8, "a1a2a3a4"}, {9, "ffffffff"}, {10, "ffffffff"}, {14, "ffffffff"}, {15, "ffffffff"},
	} {
		i := Instructions(1 << (15 - c.bit))
		want := unhex(t, c.text)
		got := make([]byte, i.Words()*word)
		full.write(i, got)
		if !bytes.Equal(got, want) {
			t.Errorf("bit %d: % x, want % x", c.bit, got, want)
		}
		(&Hop{}).write(i, got)
		if slices.ContainsFunc(got, func(b byte) bool { return b != 0xff }) {
			t.Errorf("bit %d: % x where there is no value", c.bit, got)
		}
	}
	all := make([]byte, known.Words()*word)
	full.write(known, all)
	if want := unhex(t, "01020304 11122122 31323334 41424344 5152535455565758 6162636465666768 7172737481828384 91929394 a1a2a3a4 ffffffff"); !bytes.Equal(all, want) {
		t.Errorf("% x", all)
	}
	var back Hop
	if back.read(known, all); back != full {
		t.Errorf("%+v", back)
	}
	// A queue beyond 24 bits is the longest there is, and not "invalid".
	long := Hop{Known: Queue, QueueID: 0xff, Queued: 1 << 31}
	long.write(Queue, all[:4])
	if !bytes.Equal(all[:4], []byte{0xff, 0xff, 0xff, 0xfe}) {
		t.Errorf("% x", all[:4])
	}
}

// TestHopsRandom: any hops that were written are read, whatever is asked for.
func TestHopsRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		i := Instructions(r.Uint32()) & known
		if i.Words() == 0 {
			continue
		}
		c := Config{Instructions: i, MaxHops: 255}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		stack := make([]byte, FixedLen)
		newStack(stack, &c, 0)
		var want []Hop
		for range 1 + r.IntN((maxWords-headerML)/i.Words()) {
			h := anyHop(r)
			data := make([]byte, c.HopLen())
			h.write(i, data)
			stack = slices.Insert(stack, FixedLen, data...)
			stack[1] += byte(i.Words())
			want = append(want, h.asked(i))
		}
		hops, ok := StackAt(stack).Hops(nil, 0)
		if !ok || !slices.Equal(hops, want) {
			t.Fatalf("%s: %+v, want %+v", i, hops, want)
		}
	}
}

// anyHop has values but all ones.
func anyHop(r *rand.Rand) Hop {
	return Hop{
		Known: Instructions(r.Uint32()) & known &^ ChecksumComplement, Node: r.Uint32N(1 << 31), Ingress: uint16(r.Uint32N(1 << 15)), Egress: uint16(r.Uint32()), Latency: r.Uint32N(1 << 31), QueueID: uint8(r.Uint32()), Queued: r.Uint32N(most24),
		IngressNs: r.Uint64N(1 << 63), EgressNs: r.Uint64N(1 << 63), Ingress2: r.Uint32N(1 << 31), Egress2: r.Uint32(), Utilisation: r.Uint32N(1 << 31), BufferID: uint8(r.Uint32()), Buffered: r.Uint32N(most24),
	}
}

// asked is what is left of a hop where only some values are asked for.
func (h Hop) asked(i Instructions) (out Hop) {
	out.Known = h.Known & i
	has := func(bit Instructions) bool { return out.Known&bit != 0 }
	if has(NodeID) {
		out.Node = h.Node
	}
	if has(Ports) {
		out.Ingress, out.Egress = h.Ingress, h.Egress
	}
	if has(HopLatency) {
		out.Latency = h.Latency
	}
	if has(Queue) {
		out.QueueID, out.Queued = h.QueueID, h.Queued
	}
	if has(IngressTime) {
		out.IngressNs = h.IngressNs
	}
	if has(EgressTime) {
		out.EgressNs = h.EgressNs
	}
	if has(Level2Ports) {
		out.Ingress2, out.Egress2 = h.Ingress2, h.Egress2
	}
	if has(Utilisation) {
		out.Utilisation = h.Utilisation
	}
	if has(Buffer) {
		out.BufferID, out.Buffered = h.BufferID, h.Buffered
	}
	return out
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		names string
		bits  Instructions
		bytes int
	}{
		{"switch_id", 0x8000, 4}, {"switch_id,queue_occupancy", 0x9000, 8}, {"switch_id, hop_latency egress_utilisation", 0xa100, 12},
		{"switch_id,ports,hop_latency,queue_occupancy,ingress_time,egress_time,egress_utilisation", 0xfd00, 36},
	} {
		i, err := ParseInstructions(c.names)
		if err != nil || i != c.bits {
			t.Errorf("%s: %#x, %v", c.names, uint16(i), err)
		}
		config := Config{Instructions: i, MaxHops: 8}
		if err := config.Validate(); err != nil || config.HopLen() != c.bytes {
			t.Errorf("%s: %d bytes, %v", c.names, config.HopLen(), err)
		}
		if again, err := ParseInstructions(i.String()); err != nil || again != i {
			t.Errorf("%s is written %s: %v", c.names, i, err)
		}
	}
	for _, names := range []string{"", ",", "switch", "switch_id,queue"} {
		if _, err := ParseInstructions(names); err == nil {
			t.Errorf("%q was accepted", names)
		}
	}
	for _, c := range []Config{{}, {NodeID, 0}, {NodeID | reserved, 1}, {ChecksumComplement, 0}} {
		if c.Validate() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
