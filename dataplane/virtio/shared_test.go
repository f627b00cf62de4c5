package virtio

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLog: each page that a ring changes has its bit in the log, though the front-end takes bits away at any time.
func TestLog(t *testing.T) {
	const pages = memorySize / logPage
	for name, l := range layouts(8) {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, l)
			log := make([]byte, (guestBase+memorySize)/logPage/8)
			var err error
			if d.memory, err = d.memory.Shared(log, nil); err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(2, 18))
			before := make([]byte, memorySize)
			marked := 0
			check := func(what string, f func()) {
				t.Helper()
				clear(log)
				copy(before, d.bytes)
				f()
				for page := range pages {
					at := page * logPage
					bit := (guestBase + at) / logPage
					set := log[bit/8]>>(bit%8)&1 != 0
					if set {
						marked++
					} else if !bytes.Equal(before[at:at+logPage], d.bytes[at:at+logPage]) {
						t.Fatalf("%s: page %#x changed and is not in the log", what, at)
					}
				}
			}
			check("start", d.restart)
			packet := make([]byte, 3000)
			for turn := range 200 {
				for i := range packet {
					packet[i] = byte(r.Uint32())
				}
				a, b := r.IntN(100), 100+r.IntN(100)
				d.offer(0, descriptor{addr: buffer0(a), len: uint32(12 + r.IntN(2000)), flags: flagWrite})
				d.offer(1, descriptor{addr: buffer0(b) + uint64(r.IntN(1000)), len: 3012, flags: flagWrite})
				check("arm", func() { d.ring.Arm() })
				check("disarm", d.ring.Disarm)
				n := 14 + r.IntN(2986)
				check("packet", func() {
					if got := d.ring.Put([][]byte{packet[:10], packet[10:n]}, n); got != Done {
						t.Fatalf("turn %d: %d; faults %s", turn, got, d.text())
					}
					d.ring.Flush()
				})
				for used := 0; used != 2; {
					if _, _, ok := d.collect(); ok {
						used++
						continue
					}
					check("rest", func() { // the second buffer, if the first one was enough
						if got := d.ring.Put([][]byte{packet[:20]}, 20); got != Done {
							t.Fatalf("turn %d: %d", turn, got)
						}
						d.ring.Flush()
					})
				}
			}
			if marked > 200*40 {
				t.Errorf("%d marks for 200 packets: the log says nothing", marked)
			}
		})
	}
}

// TestLogTooShort: a log must have a bit for each page.
func TestLogTooShort(t *testing.T) {
	d := newDriver(t, layouts(8)["split"])
	enough := make([]byte, (guestBase+memorySize)/logPage/8)
	if _, err := d.memory.Shared(enough, nil); err != nil {
		t.Error(err)
	}
	if _, err := d.memory.Shared(enough[:len(enough)-8], nil); err == nil {
		t.Error("a log that is too short is taken")
	}
	if _, err := d.memory.Shared(enough[:len(enough)-1], nil); err == nil {
		t.Error("a log of an odd length is taken")
	}
}

// TestInflight: a device that ends at any point of a batch has one after it, which knows the rings and the
// tracking alone, and gives each buffer back once.
func TestInflight(t *testing.T) {
	packet := bytes.Repeat([]byte{7}, 3000) // in two buffers
	for name, l := range layouts(8) {
		for _, end := range []struct {
			name string
			at   func(r *Ring)
		}{
			{"between batches", func(r *Ring) { r.Flush() }},
			{"before the batch is shown", func(*Ring) {}},
			{"as it begins to be shown", func(r *Ring) {
				if r.layout.Packed {
					r.track.begin(r.used)
				}
			}},
			{"once it is shown", func(r *Ring) {
				if !r.layout.Packed {
					r.publish()
					return
				}
				r.track.begin(r.used)
				r.desc[2*int(r.firstI)+1] = r.first
			}},
		} {
			t.Run(name+", "+end.name, func(t *testing.T) {
				d := newDriver(t, l)
				inflight := make([]byte, InflightSize(l.Size, l.Packed))
				d.layout.Inflight = inflight
				d.restart()
				d.layout.Base = 0xdead // no front-end knows it
				out, given := map[uint16]bool{}, 0
				offer := func() {
					for id := range uint16(6) {
						if !out[id] {
							out[id] = true
							d.offer(id, descriptor{addr: buffer0(int(id)), len: bufferSize, flags: flagWrite})
						}
					}
				}
				collect := func() {
					for {
						id, _, ok := d.collect()
						if !ok {
							return
						}
						if !out[id] {
							t.Fatalf("buffer %d was given back twice", id)
						}
						out[id] = false
						given++
					}
				}
				for turn := range 20 {
					offer()
					for range 2 {
						if got := d.ring.Put([][]byte{packet}, len(packet)); got != Done {
							t.Fatalf("turn %d: %d; faults %s", turn, got, d.text())
						}
					}
					end.at(d.ring)
					if turn%2 != 0 { // the driver goes on before there is another device
						collect()
						offer()
					}
					d.restart()
					collect()
				}
				offer()
				for d.ring.Put([][]byte{packet[:100]}, 100) == Done {
				}
				d.ring.Flush()
				collect()
				for id, is := range out {
					if is {
						t.Errorf("buffer %d was lost", id)
					}
				}
				if given < 6 {
					t.Errorf("%d buffers were given back", given)
				}
			})
		}
	}
}

// TestInflightGarbage: tracking with garbage in it breaks nothing.
func TestInflightGarbage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 18))
	for name, l := range layouts(8) {
		taken := 0
		d := newDriver(t, l)
		for range 2000 {
			inflight := make([]byte, InflightSize(l.Size, l.Packed))
			for i := range inflight {
				inflight[i] = byte(r.Uint32())
			}
			if r.IntN(8) != 0 {
				binary.LittleEndian.PutUint16(inflight[atVersion:], inflightVersion)
				binary.LittleEndian.PutUint16(inflight[atDescs:], uint16(l.Size))
				binary.LittleEndian.PutUint32(inflight[atSlots:], r.Uint32()&0x000f000f)
			}
			d.layout.Inflight = inflight
			ring, err := NewRing(d.memory, d.layout, &d.faults)
			if err != nil {
				continue
			}
			taken++
			var b [100]byte
			for range 4 {
				ring.Get(b[:])
				ring.Flush()
			}
		}
		if taken == 0 {
			t.Errorf("%s: no tracking was taken", name)
		}
	}
	d := newDriver(t, layouts(8)["packed"])
	d.layout.Inflight = make([]byte, InflightSize(8, true)-64)
	if _, err := NewRing(d.memory, d.layout, &d.faults); err == nil {
		t.Error("tracking that is too short is taken")
	}
}

// TestRefilledBeforeFlush: a driver makes slots available again that were not given back yet. The ring is not followed.
func TestRefilledBeforeFlush(t *testing.T) {
	l := layouts(8)["packed"]
	d := newDriver(t, l)
	d.layout.Inflight = make([]byte, InflightSize(l.Size, true))
	d.restart()
	for id := range uint16(24) {
		d.offer(id%8, descriptor{addr: buffer0(int(id % 8)), len: bufferSize, flags: flagWrite})
		d.ring.Put([][]byte{make([]byte, 100)}, 100)
	}
	d.ring.Flush()
	if !d.ring.Broken() || !strings.Contains(d.text(), FaultChain.String()) {
		t.Errorf("broken %t; faults %s", d.ring.Broken(), d.text())
	}
}
