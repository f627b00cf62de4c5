package virtio

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/dataplane/gso"
)

// twins are two drivers with the same memory, for two ways to do the same.
type twins struct {
	t      *testing.T
	random *rand.Rand
	a, b   *driver
}

func newTwins(t *testing.T, l Layout) *twins {
	return &twins{t, rand.New(rand.NewPCG(18, 7)), newDriver(t, l), newDriver(t, l)}
}

// offer makes some chains available to both: most of them of one descriptor, others of two, too short, or out of the memory.
func (w *twins) offer(flags uint16) {
	for range w.random.IntN(9) {
		if w.a.next-w.a.used == 16 {
			return // all descriptors are in the ring
		}
		id := w.a.next % 16 * 2
		at := buffer0(int(id))
		c := []descriptor{{addr: at, len: 150 + w.random.Uint32N(200), flags: flags}}
		switch w.random.IntN(16) {
		case 0:
			c = []descriptor{{addr: at, len: 40, flags: flags}, {addr: at + 40, len: 60 + w.random.Uint32N(200), flags: flags}}
		case 1:
			c[0].len = w.random.Uint32N(20)
		case 2:
			c[0].addr = guestBase + memorySize - 50
		case 3:
			c[0].flags ^= flagWrite
		}
		for i := range 400 {
			v := byte(w.random.Uint32())
			if i < 12 { // a header without offloads
				v = 0
			}
			w.a.bufferBytes(int(id))[i], w.b.bufferBytes(int(id))[i] = v, v
		}
		if w.a.layout.Offloads.Checksum && w.random.IntN(3) != 0 { // one that mostly can be completed
			for _, d := range []*driver{w.a, w.b} {
				copy(d.bufferBytes(int(id)), []byte{gso.NeedsChecksum, gso.None, 5: 0, 6: byte(12 + id), 8: byte(90 + 4*id), 9: 0})
			}
		}
		w.a.offer(id, c...)
		w.b.offer(id, c...)
	}
}

// compare ends a round: all that the drivers see is the same.
func (w *twins) compare() {
	w.t.Helper()
	w.a.ring.Flush()
	w.b.ring.Flush()
	for _, d := range []*driver{w.a, w.b} {
		for _, _, ok := d.collect(); ok; _, _, ok = d.collect() {
		}
	}
	if !bytes.Equal(w.a.bytes, w.b.bytes) || w.a.text() != w.b.text() || w.a.ring.Base() != w.b.ring.Base() || w.a.ring.Broken() {
		w.t.Fatalf("the rings differ: faults %s and %s, at %d and %d, broken %t", w.a.text(), w.b.text(), w.a.ring.Base(), w.b.ring.Base(), w.a.ring.Broken())
	}
}

// TestGetEach: with GetEach in front of each Get the same packets arrive.
func TestGetEach(t *testing.T) {
	t.Run("plain", func(t *testing.T) { testGetEach(t, false) })
	t.Run("checksums", func(t *testing.T) { testGetEach(t, true) })
}

func testGetEach(t *testing.T, checksums bool) {
	w := newTwins(t, Layout{Size: 32, Indirect: true, EventIdx: true, Header: 12, Offloads: gso.Offloads{Checksum: checksums}})
	const room, many = 350, 5
	mem, at, lengths := make([]byte, many*room), []uint64{0, room, 2 * room, 3 * room, 4 * room}, make([]uint32, many)
	byEach, byGet := 0, 0
	for range 2000 {
		w.offer(0)
		var got, want [][]byte
		dst := make([]byte, room)
		for {
			n := w.a.ring.GetEach(mem, at, room, lengths)
			byEach += n
			for i, addr := range at[:n] {
				got = append(got, bytes.Clone(mem[addr:][:lengths[i]]))
			}
			if n == many {
				continue
			}
			n, ok := w.a.ring.Get(dst)
			if !ok {
				break
			}
			byGet++
			got = append(got, bytes.Clone(dst[:n]))
		}
		for n, ok := w.b.ring.Get(dst); ok; n, ok = w.b.ring.Get(dst) {
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
	if byEach < byGet || w.a.text() == "" {
		t.Errorf("%d packets by GetEach, %d by Get, faults %q", byEach, byGet, w.a.text())
	}
}

// TestPutEach: with PutEach in front of each Put the driver gets the same.
func TestPutEach(t *testing.T) {
	for _, header := range []int{10, 12} {
		w := newTwins(t, Layout{Size: 32, Indirect: true, EventIdx: true, Header: header})
		const room, many = 300, 5
		mem, at, lengths := make([]byte, many*room), []uint64{0, room, 2 * room, 3 * room, 4 * room}, make([]uint32, many)
		byEach, byPut := 0, 0
		for i := range mem {
			mem[i] = byte(w.random.Uint32())
		}
		for range 2000 {
			w.offer(flagWrite)
			for i := range lengths {
				lengths[i] = 60 + w.random.Uint32N(200)
			}
			piece := func(i int) []byte { return mem[at[i]:][:lengths[i]] }
			taken := 0
			for taken < many {
				n := w.a.ring.PutEach(mem, at[taken:], lengths[taken:])
				byEach += n
				if taken += n; taken == many {
					break
				}
				if w.a.ring.Put([][]byte{piece(taken)}, len(piece(taken))) == Full {
					break
				}
				byPut++
				taken++
			}
			want := 0
			for want < many && w.b.ring.Put([][]byte{piece(want)}, len(piece(want))) != Full {
				want++
			}
			if taken != want {
				t.Fatalf("header %d: %d packets, and %d by Put alone", header, taken, want)
			}
			w.compare()
		}
		if byEach < byPut || w.a.text() == "" {
			t.Errorf("header %d: %d packets by PutEach, %d by Put, faults %q", header, byEach, byPut, w.a.text())
		}
	}
}

// BenchmarkGetEach is the cost of a packet whose checksum the driver has left or not, with GetEach and by Get alone, in batches of 32, with
// the driver's cost.
func BenchmarkGetEach(b *testing.B) {
	for _, length := range []int{60, 1514} {
		for _, checksum := range []byte{0, gso.NeedsChecksum} {
			for _, each := range []bool{false, true} {
				b.Run(fmt.Sprintf("%dB/checksum=%v/each=%v", length, checksum != 0, each), func(b *testing.B) {
					const many, room = 32, 2048
					d := newDriver(b, Layout{Size: 256, Indirect: true, EventIdx: true, Header: 12, Offloads: gso.Offloads{Checksum: true}})
					mem, at, lengths := make([]byte, many*room), make([]uint64, many), make([]uint32, many)
					for i := range at {
						at[i] = uint64(i) * room
						copy(d.bufferBytes(i), []byte{checksum, gso.None, 6: 34, 8: 6, 9: 0})
					}
					got := 0
					for b.Loop() {
						for i := range many {
							d.offer(uint16(i), descriptor{addr: buffer0(i), len: uint32(12 + length)})
						}
						if each {
							got += d.ring.GetEach(mem, at, room, lengths)
						} else {
							for i := range many {
								if n, ok := d.ring.Get(mem[at[i]:][:room]); ok && n != 0 {
									got++
								}
							}
						}
						d.ring.Flush()
					}
					if got != many*b.N {
						b.Errorf("%d of %d packets, faults %s", got, many*b.N, d.text())
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(got), "ns/packet")
				})
			}
		}
	}
}
