package virtio

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// The guest's memory in tests: one region. Rings are at its beginning, buffers behind.
const (
	guestBase  = 0x4000_0000 // as descriptors name it
	userBase   = 0x7f00_0000_0000
	memorySize = 1 << 20
	tableAt    = 0      // descriptors
	driverAt   = 0x8000 // what the driver writes
	deviceAt   = 0xa000 // what the device writes
	indirectAt = 0xc000 // indirect tables, 512 bytes each
	buffersAt  = 0x40000
	bufferSize = 2048
)

// driver is the guest's side of one ring: plain code for tests, which sees what a driver
// would see and nothing of the Ring.
type driver struct {
	t      testing.TB
	bytes  []byte
	memory *Memory
	layout Layout
	faults Faults
	ring   *Ring

	next, used uint16 // positions
	wrap, seen bool   // of a packed ring: of next and of used
	heads      map[uint16]int
}

// descriptor is one as a test writes it.
type descriptor struct {
	addr  uint64
	len   uint32
	flags uint16
	next  uint16 // split; of packed rings the id
}

func newDriver(t testing.TB, l Layout) *driver {
	t.Helper()
	bytes, err := unix.Mmap(-1, 0, memorySize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(bytes) })
	d := &driver{t: t, bytes: bytes, wrap: true, seen: true, heads: map[uint16]int{}}
	if d.memory, err = NewMemory([]Region{{Guest: guestBase, User: userBase, Bytes: bytes}}); err != nil {
		t.Fatal(err)
	}
	l.Desc, l.Driver, l.Device = userBase+tableAt, userBase+driverAt, userBase+deviceAt
	if l.Packed {
		l.Base = 1<<15 | 1<<31
	}
	d.layout = l
	d.restart()
	return d
}

// restart makes another Ring at the same place.
func (d *driver) restart() {
	d.t.Helper()
	r, err := NewRing(d.memory, d.layout, &d.faults)
	if err != nil {
		d.t.Fatal(err)
	}
	d.ring = r
}

func (d *driver) put16(at int, v uint16) { binary.LittleEndian.PutUint16(d.bytes[at:], v) }
func (d *driver) get16(at int) uint16    { return binary.LittleEndian.Uint16(d.bytes[at:]) }

// write puts a descriptor at a byte offset.
func (d *driver) write(at int, c descriptor) {
	binary.LittleEndian.PutUint64(d.bytes[at:], c.addr)
	binary.LittleEndian.PutUint32(d.bytes[at+8:], c.len)
	if d.layout.Packed {
		d.put16(at+12, c.next)
		d.put16(at+14, c.flags)
		return
	}
	d.put16(at+12, c.flags)
	d.put16(at+14, c.next)
}

// buffer is the guest's address of buffer i.
func buffer0(i int) uint64 { return guestBase + buffersAt + uint64(i)*bufferSize }

// bufferBytes are its bytes.
func (d *driver) bufferBytes(i int) []byte {
	return d.bytes[buffersAt+i*bufferSize:][:bufferSize]
}

// offer makes a chain available, whose descriptors have addresses, lengths and flags; it adds what joins them. In a
// split ring the chain has the slots from id on.
func (d *driver) offer(id uint16, chain ...descriptor) {
	for i, c := range chain {
		last := i == len(chain)-1
		if !last {
			c.flags |= flagNext
		}
		if !d.layout.Packed {
			if c.next == 0 {
				c.next = id + uint16(i) + 1
			}
			d.write(tableAt+16*(int(id)+i), c)
			continue
		}
		c.next = id
		if d.wrap {
			c.flags |= flagAvail
		} else {
			c.flags |= flagUsed
		}
		d.write(tableAt+16*int(d.next), c)
		if d.next++; int(d.next) == d.layout.Size {
			d.next, d.wrap = 0, !d.wrap
		}
	}
	if d.layout.Packed {
		d.heads[id] = len(chain)
		return
	}
	d.put16(driverAt+4+2*(int(d.next)%d.layout.Size), id)
	d.next++
	d.put16(driverAt+2, d.next)
}

// collect returns the next used buffer and how much was written to it.
func (d *driver) collect() (id uint16, n uint32, ok bool) {
	if !d.layout.Packed {
		if d.get16(deviceAt+2) == d.used {
			return 0, 0, false
		}
		at := deviceAt + 4 + 8*(int(d.used)%d.layout.Size)
		d.used++
		return uint16(binary.LittleEndian.Uint32(d.bytes[at:])), binary.LittleEndian.Uint32(d.bytes[at+4:]), true
	}
	at := tableAt + 16*int(d.used)
	flags := d.get16(at + 14)
	if avail, used := flags&flagAvail != 0, flags&flagUsed != 0; avail != d.seen || used != d.seen {
		return 0, 0, false
	}
	id = d.get16(at + 12)
	for range d.heads[id] {
		if d.used++; int(d.used) == d.layout.Size {
			d.used, d.seen = 0, !d.seen
		}
	}
	return id, binary.LittleEndian.Uint32(d.bytes[at+8:]), true
}

// layouts are the kinds of rings that tests go through.
func layouts(size int) map[string]Layout {
	l := Layout{Size: size, Indirect: true, EventIdx: true, Mergeable: true, Header: 12}
	packed := l
	packed.Packed = true
	return map[string]Layout{"split": l, "packed": packed}
}
