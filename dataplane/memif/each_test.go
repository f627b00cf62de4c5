package memif

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// twins are two rings in memories of the same content, for two ways to do the same.
type twins struct {
	t      *testing.T
	random *rand.Rand
	rings  [2]*Ring
	faults [2]Faults
	theirs int // where the peer's index is in the ring
}

// newTwins makes rings of one role, with buffers in two regions.
func newTwins(t *testing.T, lends, sends bool) *twins {
	w := &twins{t: t, random: rand.New(rand.NewPCG(18, 9)), theirs: 6}
	if lends {
		w.theirs = 64
	}
	for i := range w.rings {
		m := &memory{regions: [][]byte{make([]byte, testMemory), make([]byte, testMemory)}}
		binary.LittleEndian.PutUint32(m.regions[0], cookie)
		for _, region := range m.regions {
			for k := range region[buffersAt:] {
				region[buffersAt+k] = byte(k * 7)
			}
		}
		var err error
		w.rings[i], err = newRing(m, layout{log2: testLog2, lends: lends, sends: sends, buffers: buffersAt}, &w.faults[i])
		if err != nil {
			t.Fatal(err)
		}
		w.rings[i].start()
	}
	return w
}

// offer has both peers make some descriptors the switch's: most of them good, others too short or too long, of a region that is not there,
// beyond its end, or continued in the next one.
func (w *twins) offer() {
	index := binary.LittleEndian.Uint16(w.rings[0].Bytes()[w.theirs:])
	r := w.rings[0]
	room := r.size - (index - r.next)
	if r.layout.lends && r.layout.sends {
		room = r.next - index
	}
	for range min(int(room), w.random.IntN(12)) {
		slot := int(index % testSize)
		flags, region, length, offset := 0, w.random.IntN(2), 14+w.random.IntN(300), buffersAt+2048*slot
		switch w.random.IntN(24) {
		case 0, 1:
			flags = flagNext
		case 2:
			length = w.random.IntN(14)
		case 3:
			length = 500 + w.random.IntN(3000)
		case 4:
			region = 2
		case 5:
			offset = testMemory - w.random.IntN(40)
		}
		if r.layout.sends { // an unfit buffer would break the ring
			flags, region, length, offset = 0, region%2, 100+length, buffersAt+2048*slot
		}
		for _, r := range w.rings {
			if r.layout.lends && r.layout.sends {
				continue
			}
			d := r.Bytes()[ringHeader+descBytes*slot:]
			binary.LittleEndian.PutUint64(d, uint64(flags)|uint64(region)<<16|uint64(length)<<32)
			binary.LittleEndian.PutUint64(d[8:], uint64(offset))
		}
		index++
	}
	for _, r := range w.rings {
		binary.LittleEndian.PutUint16(r.Bytes()[w.theirs:], index)
	}
}

// compare ends a round: all that the peers see is the same.
func (w *twins) compare() {
	w.t.Helper()
	a, b := w.rings[0], w.rings[1]
	a.Flush()
	b.Flush()
	same := maps.Equal(names(&w.faults[0]), names(&w.faults[1])) && a.next == b.next && !a.broken && !b.broken
	for i := range a.memory.regions {
		same = same && bytes.Equal(a.memory.regions[i], b.memory.regions[i])
	}
	if !same {
		w.t.Fatalf("the rings differ: faults %v and %v, at %d and %d, broken %t and %t", names(&w.faults[0]), names(&w.faults[1]), a.next, b.next, a.broken, b.broken)
	}
}

const (
	eachRoom  = 420
	eachBurst = 5
)

var eachAt = []uint64{0, eachRoom, 2 * eachRoom, 3 * eachRoom, 4 * eachRoom}

// TestGetEach: with GetEach in front of each Get the same packets arrive, in both roles.
func TestGetEach(t *testing.T) {
	for _, client := range []bool{false, true} {
		t.Run(fmt.Sprintf("client=%t", client), func(t *testing.T) {
			w := newTwins(t, client, false)
			mem, lengths := make([]byte, eachBurst*eachRoom), make([]uint32, eachBurst)
			byEach, byGet := 0, 0
			for range 3000 {
				w.offer()
				var got, want [][]byte
				dst := make([]byte, eachRoom)
				w.rings[0].Available(64)
				for {
					n := w.rings[0].GetEach(mem, eachAt, eachRoom, lengths)
					byEach += n
					for i, addr := range eachAt[:n] {
						got = append(got, bytes.Clone(mem[addr:][:lengths[i]]))
					}
					if n == eachBurst {
						continue
					}
					n, ok := w.rings[0].Get(dst)
					if !ok {
						break
					}
					byGet++
					got = append(got, bytes.Clone(dst[:n]))
				}
				for n, ok := w.rings[1].Get(dst); ok; n, ok = w.rings[1].Get(dst) {
					want = append(want, bytes.Clone(dst[:n]))
				}
				if len(got) != len(want) {
					t.Fatalf("%d packets, and %d by Get alone", len(got), len(want))
				}
				for i := range got {
					if !bytes.Equal(got[i], want[i]) {
						t.Fatalf("packet %d: %x, and by Get alone %x", i, got[i], want[i])
					}
				}
				w.compare()
			}
			if byEach < byGet || byGet == 0 || w.faults[0].Packets() == 0 {
				t.Errorf("%d packets by GetEach, %d by Get, faults %v", byEach, byGet, names(&w.faults[0]))
			}
		})
	}
}

// TestPutEach: with PutEach in front of each Put the peer gets the same, in both roles.
func TestPutEach(t *testing.T) {
	for _, client := range []bool{false, true} {
		t.Run(fmt.Sprintf("client=%t", client), func(t *testing.T) {
			w := newTwins(t, client, true)
			mem, lengths := make([]byte, eachBurst*eachRoom), make([]uint32, eachBurst)
			for i := range mem {
				mem[i] = byte(w.random.Uint32())
			}
			byEach, byPut := 0, 0
			for range 3000 {
				w.offer()
				for i := range lengths {
					lengths[i] = 60 + w.random.Uint32N(300)
				}
				piece := func(i int) []byte { return mem[eachAt[i]:][:lengths[i]] }
				taken, want := 0, 0
				w.rings[0].Prepare(eachBurst)
				for taken < eachBurst {
					n := w.rings[0].PutEach(mem, eachAt[taken:], lengths[taken:])
					byEach += n
					if taken += n; taken == eachBurst || w.rings[0].Put([][]byte{piece(taken)}, len(piece(taken))) == Full {
						break
					}
					byPut++
					taken++
				}
				for want < eachBurst && w.rings[1].Put([][]byte{piece(want)}, len(piece(want))) != Full {
					want++
				}
				if taken != want {
					t.Fatalf("%d packets, and %d by Put alone", taken, want)
				}
				w.compare()
			}
			if byEach == 0 || byEach < byPut || !client && byPut == 0 {
				t.Errorf("%d packets by PutEach, %d by Put", byEach, byPut)
			}
		})
	}
}

// TestBatchesAllocateNothing: neither way of a batch costs the heap anything.
func TestBatchesAllocateNothing(t *testing.T) {
	for _, client := range []bool{false, true} {
		in, out := newTwins(t, client, false), newTwins(t, client, true)
		mem, lengths := make([]byte, eachBurst*eachRoom), []uint32{60, 60, 60, 60, 60}
		if n := testing.AllocsPerRun(100, func() {
			in.offer()
			in.rings[0].Available(64)
			in.rings[0].GetEach(mem, eachAt, eachRoom, lengths)
			out.offer()
			out.rings[0].Prepare(eachBurst)
			out.rings[0].PutEach(mem, eachAt, lengths)
		}); n != 0 {
			t.Errorf("client=%t: %v allocations", client, n)
		}
	}
}

// TestBatchesAreBounded: however many descriptors a peer has for its packets, a batch reads a bounded number of them, and the next batch goes on.
func TestBatchesAreBounded(t *testing.T) {
	const log2, each = 11, 200
	const packets = 1 << log2 / each
	for _, sends := range []bool{false, true} {
		t.Run(fmt.Sprintf("sends=%t", sends), func(t *testing.T) {
			b := make([]byte, ringBytes(1<<log2)+4096)
			binary.LittleEndian.PutUint32(b, cookie)
			for i := range 1 << log2 {
				d := b[ringHeader+descBytes*i:]
				word := uint64(1)<<32 | flagNext
				if sends || i%each == each-1 {
					word &^= flagNext
				}
				binary.LittleEndian.PutUint64(d, word)
				binary.LittleEndian.PutUint64(d[8:], uint64(ringBytes(1<<log2)))
			}
			var f Faults
			r, err := newRing(&memory{regions: [][]byte{b}}, layout{log2: log2, sends: sends}, &f)
			if err != nil {
				t.Fatal(err)
			}
			r.start()
			binary.LittleEndian.PutUint16(b[6:], packets*each)
			packet, total := make([]byte, each), 0
			for batch := 0; total < packets; batch++ {
				n := 0
				for {
					if sends {
						if r.Put([][]byte{packet}, each) != Done {
							break
						}
					} else if got, ok := r.Get(packet); !ok {
						break
					} else if got != each {
						t.Fatalf("a packet of %d bytes, want %d", got, each)
					}
					n++
				}
				r.Flush()
				if total += n; n == 0 || n*each >= maxWalk+each {
					t.Fatalf("batch %d: %d packets of %d descriptors each, faults %v", batch, n, each, names(&f))
				}
			}
		})
	}
}
