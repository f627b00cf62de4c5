package virtio

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// FuzzRing drives rings in memory that a driver fills with garbage between any two calls. Each step of the
// input is a write to one field, or a call. Whatever comes, the device stays within its own memory and the guest's (or
// the process ends), takes a bounded time, and what it received fits where it was put.
func FuzzRing(f *testing.F) {
	f.Add([]byte{}, false)
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 18))
		steps := make([]byte, 6*200)
		for i := range steps {
			steps[i] = byte(r.Uint32())
		}
		f.Add(steps, seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, steps []byte, packed bool) {
		l := Layout{Size: 8, Packed: packed, Indirect: true, EventIdx: true, Mergeable: true, Header: 12}
		abuse(t, newDriver(t, l), steps)
	})
}

// TestGarbage is a million steps of a random driver, in short form fewer.
func TestGarbage(t *testing.T) {
	rounds := 1_000_000
	if testing.Short() {
		rounds = 20_000
	}
	for name, l := range layouts(16) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 18))
			d := newDriver(t, l)
			steps := make([]byte, 6*64)
			for done := 0; done < rounds; done += 64 {
				for i := range steps {
					steps[i] = byte(r.Uint32())
				}
				abuse(t, d, steps)
				if d.ring.Broken() {
					d.restart()
				}
			}
			var seen int
			d.faults.Each(func(Fault, uint64) { seen++ })
			if seen < 5 {
				t.Errorf("garbage led to %d kinds of faults alone: %s", seen, d.text())
			}
		})
	}
}

// abuse runs steps of 6 bytes: what to do, where, and a value.
func abuse(t *testing.T, d *driver, steps []byte) {
	const canary = 0xa5
	var memory [64 + 256 + 64]byte // what the device may write to, between what it may not
	dst := memory[64 : 64+256]
	for i := range memory {
		memory[i] = canary
	}
	packet := pattern(1, 200)
	for ; len(steps) >= 6; steps = steps[6:] {
		where, value := int(binary.LittleEndian.Uint16(steps[1:])), binary.LittleEndian.Uint16(steps[3:])
		slot := where % d.layout.Size
		switch steps[0] % 12 {
		case 0: // a descriptor that may be good
			flags := uint16(steps[5])
			if d.layout.Packed && steps[5]&32 != 0 {
				flags = d.availFlags(flags)
			}
			c := descriptor{addr: buffer0(slot), len: uint32(value) % 400, flags: flags, next: value % 16}
			d.write(tableAt+16*slot, c)
		case 1: // one anywhere
			d.write(tableAt+16*slot, descriptor{addr: uint64(value)<<16 + guestBase, len: uint32(value) << 8, flags: d.availFlags(uint16(steps[5])), next: value})
		case 2: // an indirect one
			d.write(tableAt+16*slot, descriptor{addr: guestBase + indirectAt, len: 16 * uint32(value%20), flags: d.availFlags(flagIndirect), next: value % 16})
			for i := range 4 {
				d.write(indirectAt+16*i, descriptor{addr: buffer0(i), len: uint32(value) % 300, flags: uint16(steps[5]), next: uint16(i + 1)})
			}
		case 3: // any two bytes of the rings
			d.put16(where%(indirectAt+512)&^1, value)
		case 4: // the available ring
			d.put16(driverAt+4+2*slot, value%uint16(d.layout.Size))
		case 5, 6: // the next available index
			if !d.layout.Packed {
				d.put16(driverAt+2, d.ring.next.at+value%3)
			}
		case 7, 8:
			n, _ := d.ring.Get(dst)
			if n != 0 && (n < minPacket || n > len(dst)) {
				t.Fatalf("a packet of %d bytes in %d", n, len(dst))
			}
		case 9:
			d.ring.Put([][]byte{packet[:value%200], packet[value%200:]}, len(packet))
		case 10:
			d.ring.Flush()
		case 11:
			if d.ring.Arm(); steps[5]&1 != 0 {
				d.ring.Disarm()
			}
			d.ring.Available(64)
		}
	}
	d.ring.Flush()
	for i, b := range memory {
		if (i < 64 || i >= 64+256) && b != canary {
			t.Fatalf("byte %d next to the packet's memory was written", i-64)
		}
	}
}

// availFlags makes flags available in a packed ring, now.
func (d *driver) availFlags(flags uint16) uint16 {
	if !d.layout.Packed {
		return flags
	}
	flags &^= flagAvail | flagUsed
	if d.ring.next.wrap {
		return flags | flagAvail
	}
	return flags | flagUsed
}

// TestNoAllocation: packets cost the heap nothing.
func TestNoAllocation(t *testing.T) {
	for name, l := range layouts(8) {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, l)
			dst, pieces := make([]byte, 1600), [][]byte{pattern(1, 100)}
			turn := 0
			if n := testing.AllocsPerRun(100, func() {
				id := uint16(turn % 4)
				turn++
				d.offer(id, descriptor{addr: buffer0(int(id)), len: 200})
				if _, ok := d.ring.Get(dst); !ok {
					t.Fatal("nothing was received")
				}
				d.ring.Flush()
				d.offer(id, descriptor{addr: buffer0(int(id)), len: 200, flags: flagWrite})
				if d.ring.Put(pieces, 100) != Done {
					t.Fatal("nothing was sent")
				}
				d.ring.Flush()
			}); n != 0 {
				t.Errorf("%v allocations for two packets", n)
			}
		})
	}
}

// BenchmarkRing is the cost of a packet of 64 bytes each way, in batches of 32, with the driver's.
func BenchmarkRing(b *testing.B) {
	for name, l := range layouts(256) {
		b.Run(name, func(b *testing.B) {
			d := newDriver(b, l)
			dst := make([]byte, 1600)
			for b.Loop() {
				for i := range 32 {
					d.offer(uint16(i), descriptor{addr: buffer0(i), len: 76})
				}
				for range 32 {
					d.ring.Get(dst)
				}
				d.ring.Flush()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/32, "ns/packet")
		})
	}
}
