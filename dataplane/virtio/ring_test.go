package virtio

import (
	"bytes"
	"fmt"
	"testing"
)

// pattern fills a packet with bytes that depend on n.
func pattern(n, length int) []byte {
	p := make([]byte, length)
	for i := range p {
		p[i] = byte(n*31 + i)
	}
	return p
}

// sum returns the counts of faults as text.
func (d *driver) text() (s string) {
	d.faults.Each(func(f Fault, n uint64) { s += fmt.Sprintf("%s %d ", f, n) })
	return s
}

// TestGet: packets of one, several and indirect descriptors arrive as they were sent, over several turns of the ring.
func TestGet(t *testing.T) {
	for name, l := range layouts(8) {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, l)
			dst := make([]byte, 1600)
			for n := range 100 {
				want := pattern(n, 60+n)
				buf := d.bufferBytes(n % 4)
				clear(buf[:12])
				copy(buf[12:], want)
				at, length := buffer0(n%4), uint32(12+len(want))
				id := uint16(n % 4)
				switch n % 3 {
				case 0:
					d.offer(id, descriptor{addr: at, len: length})
				case 1: // the header is cut in the middle
					d.offer(id, descriptor{addr: at, len: 5}, descriptor{addr: at + 5, len: 20}, descriptor{addr: at + 25, len: length - 25})
				case 2:
					d.write(indirectAt, descriptor{addr: at, len: 12, flags: splitNext(l), next: 1})
					d.write(indirectAt+16, descriptor{addr: at + 12, len: length - 12})
					d.offer(id, descriptor{addr: guestBase + indirectAt, len: 32, flags: flagIndirect})
				}
				if got := d.ring.Available(64); got == 0 {
					t.Fatalf("packet %d: nothing is available", n)
				}
				got, ok := d.ring.Get(dst)
				if !ok || !bytes.Equal(dst[:got], want) {
					t.Fatalf("packet %d: got %d bytes (%t), want %d; faults %s", n, got, ok, len(want), d.text())
				}
				if _, _, early := d.collect(); early {
					t.Fatalf("packet %d: the buffer is used before Flush", n)
				}
				d.ring.Flush()
				if used, written, ok := d.collect(); !ok || used != id || written != 0 {
					t.Fatalf("packet %d: used %d with %d bytes (%t), want %d with 0", n, used, written, ok, id)
				}
			}
			if _, ok := d.ring.Get(dst); ok {
				t.Error("a packet from an empty ring")
			}
			if d.faults.Packets() != 0 {
				t.Error("faults:", d.text())
			}
		})
	}
}

// splitNext is the flag that joins descriptors in an indirect table: those of packed rings follow each other
// without it.
func splitNext(l Layout) uint16 {
	if l.Packed {
		return 0
	}
	return flagNext
}

// TestPut: a packet fills as many buffers as it needs, and the first one says how many; without enough of them nothing is used.
func TestPut(t *testing.T) {
	for name, l := range layouts(8) {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, l)
			offer := func(i int) {
				d.offer(uint16(i), descriptor{addr: buffer0(i), len: 256, flags: flagWrite})
			}
			want := pattern(1, 700) // three buffers of 256 bytes with its header
			offer(0)
			offer(1)
			if got := d.ring.Put([][]byte{want}, len(want)); got != Full {
				t.Fatalf("into two buffers: %d, want Full", got)
			}
			for turn := range 20 {
				first := (turn * 3) % 4
				if turn == 0 {
					offer(2)
				} else {
					for i := range 3 {
						offer((first + i) % 4)
					}
				}
				if got := d.ring.Put([][]byte{want[:100], want[100:]}, len(want)); got != Done {
					t.Fatalf("turn %d: %d, want Done; faults %s", turn, got, d.text())
				}
				if _, _, early := d.collect(); early {
					t.Fatalf("turn %d: used before Flush", turn)
				}
				d.ring.Flush()
				var got []byte
				for i := range 3 {
					id, n, ok := d.collect()
					if !ok || int(id) != (first+i)%4 {
						t.Fatalf("turn %d: used %d (%t), want %d", turn, id, ok, (first+i)%4)
					}
					got = append(got, d.bufferBytes(int(id))[:n]...)
				}
				if got[10] != 3 || got[11] != 0 {
					t.Errorf("num_buffers is %d, want 3", got[10])
				}
				if !bytes.Equal(got[12:], want) {
					t.Errorf("turn %d: the packet has changed", turn)
				}
			}
		})
	}
}

// TestPutWithoutMerging: one chain must hold the packet.
func TestPutWithoutMerging(t *testing.T) {
	for name, l := range layouts(8) {
		t.Run(name, func(t *testing.T) {
			l.Mergeable, l.Header = false, 10
			d := newDriver(t, l)
			want := pattern(2, 300)
			d.offer(0, descriptor{addr: buffer0(0), len: 256, flags: flagWrite})
			if got := d.ring.Put([][]byte{want}, len(want)); got != Refused || d.faults.Count(FaultRoom) != 1 {
				t.Fatalf("%d, want Refused; faults %s", got, d.text())
			}
			d.ring.Flush()
			if id, n, ok := d.collect(); !ok || id != 0 || n != 0 {
				t.Errorf("used %d with %d bytes (%t), want the unfit buffer with 0", id, n, ok)
			}
			d.offer(1, descriptor{addr: buffer0(1), len: 10, flags: flagWrite}, descriptor{addr: buffer0(2), len: 300, flags: flagWrite})
			if got := d.ring.Put([][]byte{want}, len(want)); got != Done {
				t.Fatalf("%d, want Done; faults %s", got, d.text())
			}
			d.ring.Flush()
			if id, n, ok := d.collect(); !ok || id != 1 || n != 310 {
				t.Errorf("used %d with %d bytes (%t), want 1 with 310", id, n, ok)
			}
			if !bytes.Equal(d.bufferBytes(2)[:300], want) {
				t.Error("the packet has changed")
			}
		})
	}
}

// TestFaults: what a driver may not do is counted by name, and costs its chain or the ring.
func TestFaults(t *testing.T) {
	const outside = guestBase + memorySize
	good := descriptor{addr: buffer0(0), len: 100}
	for _, c := range []struct {
		name  string
		kinds string // "split", "packed" or both, with a space
		chain []descriptor
		table []descriptor // indirect, of 2 descriptors
		plain bool         // indirect descriptors were not negotiated
		dst   int
		want  Fault
		fatal bool
	}{
		{name: "address outside", kinds: "split packed", chain: []descriptor{{addr: outside, len: 100}}, want: FaultAddress},
		{name: "address below", kinds: "split packed", chain: []descriptor{{addr: guestBase - 1, len: 100}}, want: FaultAddress},
		{name: "address beyond the space", kinds: "split packed", chain: []descriptor{{addr: ^uint64(0), len: 100}}, want: FaultAddress},
		{name: "end outside", kinds: "split packed", chain: []descriptor{{addr: outside - 50, len: 100}}, want: FaultAddress},
		{name: "length of 4 GiB", kinds: "split packed", chain: []descriptor{{addr: buffer0(0), len: 0xffff_ffff}}, want: FaultAddress},
		{name: "to write", kinds: "split packed", chain: []descriptor{{addr: buffer0(0), len: 100, flags: flagWrite}}, want: FaultDirection},
		{name: "header alone", kinds: "split packed", chain: []descriptor{{addr: buffer0(0), len: 12}}, want: FaultShort},
		{name: "nothing", kinds: "split packed", chain: []descriptor{{addr: buffer0(0), len: 0}}, want: FaultShort},
		{name: "too long", kinds: "split packed", chain: []descriptor{{addr: buffer0(0), len: 100}}, dst: 80, want: FaultLong},
		{name: "next beyond the table", kinds: "split", chain: []descriptor{{addr: buffer0(0), len: 20, next: 8}, good}, want: FaultNext},
		{name: "loop", kinds: "split", chain: []descriptor{{addr: buffer0(0), len: 20, next: 3}, good}, want: FaultChain},
		{name: "indirect, not negotiated", kinds: "split packed", plain: true, chain: []descriptor{{addr: guestBase + indirectAt, len: 32, flags: flagIndirect}}, want: FaultIndirect},
		{name: "indirect, odd", kinds: "split packed", chain: []descriptor{{addr: guestBase + indirectAt, len: 33, flags: flagIndirect}}, want: FaultIndirect},
		{name: "indirect, empty", kinds: "split packed", chain: []descriptor{{addr: guestBase + indirectAt, len: 0, flags: flagIndirect}}, want: FaultIndirect},
		{name: "indirect, continued", kinds: "split packed", chain: []descriptor{{addr: guestBase + indirectAt, len: 32, flags: flagIndirect}, good}, want: FaultIndirect},
		{name: "indirect, too long", kinds: "split packed", chain: []descriptor{{addr: guestBase + indirectAt, len: 16 * (maxSegments + 1), flags: flagIndirect}}, want: FaultChain},
		{name: "indirect, outside", kinds: "split packed", chain: []descriptor{{addr: outside, len: 32, flags: flagIndirect}},
			want: FaultAddress},
		{name: "indirect in indirect", kinds: "split", chain: []descriptor{{addr: guestBase + indirectAt, len: 32, flags: flagIndirect}},
			table: []descriptor{{addr: guestBase + indirectAt, len: 32, flags: flagIndirect}}, want: FaultIndirect},
		{name: "indirect loop", kinds: "split", chain: []descriptor{{addr: guestBase + indirectAt, len: 32, flags: flagIndirect}},
			table: []descriptor{{addr: buffer0(0), len: 20, flags: flagNext}}, want: FaultChain},
		{name: "indirect, next outside", kinds: "split", chain: []descriptor{{addr: guestBase + indirectAt, len: 32, flags: flagIndirect}},
			table: []descriptor{{addr: buffer0(0), len: 20, flags: flagNext, next: 2}}, want: FaultNext},
		{name: "head beyond the table", kinds: "split", want: FaultHead, fatal: true},
		{name: "index too far", kinds: "split", want: FaultIndex, fatal: true},
		{name: "a ring without an end", kinds: "packed", want: FaultChain, fatal: true},
	} {
		for kind, l := range layouts(8) {
			if !bytes.Contains([]byte(c.kinds), []byte(kind)) {
				continue
			}
			t.Run(c.name+" "+kind, func(t *testing.T) {
				l.Indirect = !c.plain
				d := newDriver(t, l)
				for i, e := range c.table {
					d.write(indirectAt+16*i, e)
				}
				switch {
				case c.chain != nil:
					d.offer(3, c.chain...)
				case c.want == FaultHead:
					d.put16(driverAt+4, 8)
					d.put16(driverAt+2, 1)
				case c.want == FaultIndex:
					d.put16(driverAt+2, 9)
				default:
					for i := range 8 {
						d.write(tableAt+16*i, descriptor{addr: buffer0(0), len: 20, flags: flagAvail | flagNext})
					}
				}
				dst := make([]byte, 1600)
				if c.dst != 0 {
					dst = dst[:c.dst]
				}
				n, ok := d.ring.Get(dst)
				if n != 0 || ok == c.fatal || d.ring.Broken() != c.fatal {
					t.Errorf("got %d bytes (%t), broken %t; want 0, and broken %t", n, ok, d.ring.Broken(), c.fatal)
				}
				if d.faults.Count(c.want) != 1 || d.faults.Packets()+d.faults.Broken() != 1 {
					t.Errorf("faults %s, want %s 1", d.text(), c.want)
				}
				d.ring.Flush()
				if id, written, used := d.collect(); used == c.fatal || used && (id != 3 || written != 0) {
					t.Errorf("the chain is used: %t (%d with %d bytes), want %t (3 with 0)", used, id, written, !c.fatal)
				}
				if c.fatal {
					return
				}
				// The next packet is none the worse for it.
				buf := d.bufferBytes(5)
				copy(buf[12:], pattern(9, 60))
				d.offer(0, descriptor{addr: buffer0(5), len: 72})
				if n, ok := d.ring.Get(dst[:min(len(dst), 60)]); !ok || !bytes.Equal(dst[:n], pattern(9, 60)) {
					t.Errorf("the next packet: %d bytes (%t), faults %s", n, ok, d.text())
				}
			})
		}
	}
}

// TestBuffersWithoutRoom: a guest's receive buffers that hold nothing cost as few steps as a packet's descriptors may be, and go back,
// so that good ones behind them are found.
func TestBuffersWithoutRoom(t *testing.T) {
	const size = 512
	for name, fill := range map[string]func(d *driver){
		"long chains": func(d *driver) {
			for i := range size {
				d.write(tableAt+16*i, descriptor{addr: buffer0(0), flags: flagWrite | flagNext, next: uint16((i + 1) % size)})
			}
			for range 3 {
				d.put16(driverAt+4+2*int(d.next), 0)
				d.next++
			}
		},
		"many buffers": func(d *driver) {
			for i := range 3 * maxBuffers {
				d.offer(uint16(i), descriptor{addr: buffer0(0), flags: flagWrite})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, layouts(size)["split"])
			fill(d)
			d.put16(driverAt+2, d.next)
			for range 3 {
				if got := d.ring.Put([][]byte{pattern(1, 60)}, 60); got != Refused {
					t.Fatalf("%v, want %v", got, Refused)
				}
				if d.ring.walked > maxSegments+1 {
					t.Errorf("%d descriptors were read", d.ring.walked)
				}
			}
			if d.faults.Count(FaultChain) != 3 {
				t.Errorf("faults %s", d.text())
			}
			d.offer(300, descriptor{addr: buffer0(5), len: 100, flags: flagWrite})
			if got := d.ring.Put([][]byte{pattern(1, 60)}, 60); got != Done || !bytes.Equal(d.bufferBytes(5)[12:72], pattern(1, 60)) {
				t.Errorf("a good buffer behind them: %v, faults %s", got, d.text())
			}
			d.ring.Flush()
			used, last := 0, uint32(0)
			for _, n, ok := d.collect(); ok; _, n, ok = d.collect() {
				used, last = used+1, n
			}
			if used != int(d.next) || last != 72 {
				t.Errorf("%d buffers are used, the last one with %d bytes; want %d, and 72", used, last, d.next)
			}
		})
	}
}

// TestBatchesAreBounded: however many descriptors a driver has for its packets, a batch reads a bounded number of them, and the next batch goes on.
func TestBatchesAreBounded(t *testing.T) {
	const each, chains = 200, 16
	for name, l := range layouts(chains) {
		for _, write := range []uint16{0, flagWrite} {
			t.Run(fmt.Sprintf("%s/write=%t", name, write != 0), func(t *testing.T) {
				d := newDriver(t, l)
				for i := range each { // a table that all chains share
					c := descriptor{addr: buffer0(i), len: 1, flags: write}
					if i+1 < each && !l.Packed {
						c.flags, c.next = c.flags|flagNext, uint16(i+1)
					}
					d.write(indirectAt+16*i, c)
				}
				for i := range uint16(chains) {
					d.offer(i, descriptor{addr: guestBase + indirectAt, len: 16 * each, flags: flagIndirect | write})
				}
				dst, total := make([]byte, 2048), 0
				for batch := 0; total < chains; batch++ {
					n := 0
					for {
						if write != 0 {
							if d.ring.Put([][]byte{dst[:each-12]}, each-12) != Done {
								break
							}
						} else if got, ok := d.ring.Get(dst); !ok {
							break
						} else if got != each-12 {
							t.Fatalf("a packet of %d bytes, want %d", got, each-12)
						}
						n++
					}
					d.ring.Flush()
					if total += n; n == 0 || n*each >= maxWalk+each {
						t.Fatalf("batch %d: %d packets of %d descriptors each, faults %s", batch, n, each, d.text())
					}
				}
			})
		}
	}
}
