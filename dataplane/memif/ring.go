package memif

import (
	"fmt"
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// A ring is, in bytes:
//
//	0 cookie   4 flags (16 bits)   6 head (16 bits)   64 tail (16 bits)   128 descriptors
//
// and a descriptor: 0 flags, 2 region (16 bits), 4 length, 8 offset, 12 metadata (32 bits).
const (
	cookie     = 0x3E31F20
	ringHeader = 128
	descBytes  = 16
	flagNext   = 1 // of a descriptor: the packet goes on in the next one
	flagQuiet  = 1 // of a ring: the receiver wants no notifications
)

// The bounds of rings and packets.
const (
	maxLog2     = 14 // as DPDK's and VPP's
	maxSegments = 256
	minPacket   = 14 // an Ethernet header
)

// Result says what Put has done.
type Result uint8

// The results of Put.
const (
	Done    Result = iota // the packet is in the ring
	Full                  // there are too few buffers now
	Refused               // the packet, or the peer's next buffer, is unfit
)

// layout is where a ring is, and whose.
type layout struct {
	region  uint16
	offset  uint32
	log2    uint8
	lends   bool // this side is the client, whose buffers are at buffers in region 0
	buffers int
	sends   bool // this side sends packets
}

// Ring is one ring, from one side. One goroutine at a time uses it.
type Ring struct {
	memory *memory
	faults *Faults
	layout layout
	size   uint16
	broken bool

	shared []byte   // the ring's own memory
	desc   []uint64 // two words each
	flags  shmem.Half
	theirs shmem.Half // the index that the peer writes
	ours   shmem.Half // the one that we write

	next  uint16 // slot of the next descriptor; it wraps beyond the ring
	limit uint16 // slots below are ours to use, as read last
	dirty bool   // next has not been published
	armed bool   // notifications are wanted

	segments [maxSegments][]byte
}

// newRing finds a ring in the memory and begins with it at 0. A receiver's ring begins with notifications suppressed: see
// Arm.
func newRing(m *memory, l layout, f *Faults) (*Ring, error) {
	if l.log2 > maxLog2 {
		return nil, fmt.Errorf("a ring of 2^%d descriptors: at most 2^%d", l.log2, maxLog2)
	}
	if int(l.region) >= len(m.regions) {
		return nil, fmt.Errorf("a ring in region %d of %d", l.region, len(m.regions))
	}
	size := 1 << l.log2
	b := m.regions[l.region]
	if uint64(l.offset)+uint64(ringBytes(size)) > uint64(len(b)) || l.offset%descBytes != 0 {
		return nil, fmt.Errorf("a ring of %d descriptors at %d of a region of %d bytes", size, l.offset, len(b))
	}
	b = b[l.offset:][:ringBytes(size)]
	r := &Ring{memory: m, faults: f, layout: l, size: uint16(size), shared: b, desc: shmem.Words[uint64](b[ringHeader:])}
	mark := &shmem.Words[uint32](b)[0]
	head, tail := shmem.HalfAt(b, 6), shmem.HalfAt(b, 64)
	r.flags = shmem.HalfAt(b, 4)
	r.theirs, r.ours = head, tail
	if l.lends {
		r.theirs, r.ours = tail, head
		atomic.StoreUint32(mark, cookie)
		for i := range uint16(size) {
			r.offer(i)
		}
	}
	if got := atomic.LoadUint32(mark); got != cookie {
		return nil, fmt.Errorf("a ring that begins with %#x: want %#x", got, uint32(cookie))
	}
	return r, nil
}

// start begins the use, once both sides know the ring.
func (r *Ring) start() {
	if !r.layout.sends {
		r.flags.Store(flagQuiet)
	}
	r.dirty = true
	r.publish()
}

// offer puts our buffer of a slot into its descriptor.
func (r *Ring) offer(slot uint16) {
	r.desc[2*int(slot)] = bufferSize << 32
	r.desc[2*int(slot)+1] = uint64(r.layout.buffers + bufferSize*int(slot))
}

// Bytes is the ring as both sides share it, header and descriptors: what a hostile peer writes to, in tests.
func (r *Ring) Bytes() []byte { return r.shared }

// Broken reports whether the ring cannot be followed any more.
func (r *Ring) Broken() bool { return r.broken }

// Break ends the ring, and counts why.
func (r *Ring) Break(f Fault) {
	r.faults.Break(f)
	r.broken = true
}

// slots returns how many descriptors are ours to use. It looks again where fewer than want are known.
func (r *Ring) slots(want uint16) uint16 {
	known := r.limit - r.next
	if known >= want || r.broken {
		return known
	}
	limit := r.theirs.Load()
	if r.layout.lends && r.layout.sends {
		limit += r.size // what the server has taken is free again
	}
	if fresh := limit - r.next; fresh > r.size || fresh < known {
		r.Break(FaultIndex)
		return 0
	}
	r.limit = limit
	return r.limit - r.next
}

// Available returns how many packets wait, at most limit; chains count as several.
func (r *Ring) Available(limit int) int {
	if r.broken {
		return 0
	}
	return min(limit, int(r.slots(1)))
}

// buffer reads a descriptor, once, and returns its memory; nil is a fault, after which next says whether the chain goes
// on.
func (r *Ring) buffer(at uint16) (b []byte, next bool, f Fault) {
	slot := at & (r.size - 1)
	if r.layout.lends && r.layout.sends {
		return r.memory.regions[0][r.layout.buffers+bufferSize*int(slot):][:bufferSize], false, 0
	}
	word := atomic.LoadUint64(&r.desc[2*int(slot)])
	length, next := word>>32, word&flagNext != 0
	if r.layout.lends {
		if length > bufferSize {
			return nil, next, FaultLength
		}
		return r.memory.regions[0][r.layout.buffers+bufferSize*int(slot):][:length], next, 0
	}
	region := word >> 16 & 0xffff
	if region >= uint64(len(r.memory.regions)) {
		return nil, next, FaultRegion
	}
	b = r.memory.regions[region]
	offset := atomic.LoadUint64(&r.desc[2*int(slot)+1]) & 0xffffffff
	if offset+length > uint64(len(b)) {
		return nil, next, FaultAddress
	}
	return b[offset : offset+length : offset+length], next, 0
}

// Get copies the next packet to dst, and gives its descriptors back with the next Flush. It reports false if there is
// none. A packet that was refused has length 0.
func (r *Ring) Get(dst []byte) (n int, ok bool) {
	if r.broken {
		return 0, false
	}
	left := r.slots(1)
	if left == 0 {
		return 0, false
	}
	r.dirty = true
	good := true
	for segment := 0; ; segment++ {
		if segment == maxSegments {
			r.Break(FaultChain)
			return 0, false
		}
		if left == 0 { // a sender shows all of a packet at once
			if good {
				r.faults.Add(FaultChain)
			}
			return 0, true
		}
		b, next, f := r.buffer(r.next)
		if r.layout.lends {
			r.offer(r.next & (r.size - 1))
		}
		r.next++
		left--
		switch {
		case !good: // counted
		case b == nil:
			r.faults.Add(f)
			good = false
		case len(b) > len(dst)-n:
			r.faults.Add(FaultLong)
			good = false
		default:
			n += copy(dst[n:], b)
		}
		if !next {
			break
		}
	}
	if !good {
		return 0, true
	}
	if n < minPacket {
		r.faults.Add(FaultShort)
		return 0, true
	}
	return n, true
}

// Put copies a packet of length bytes, in pieces, into the next buffers. The peer sees it after the next Flush.
func (r *Ring) Put(pieces [][]byte, length int) Result {
	if r.broken {
		return Refused
	}
	count, room := uint16(0), 0
	for room < length {
		if count == maxSegments || count == r.size {
			r.faults.Add(FaultLong)
			return Refused
		}
		if r.slots(count+1) <= count {
			if r.broken {
				return Refused
			}
			return Full
		}
		b, _, f := r.buffer(r.next + count)
		switch {
		case b == nil: // what is in order behind it cannot be used without it
			r.Break(f)
			return Refused
		case len(b) == 0:
			r.Break(FaultRoom)
			return Refused
		}
		r.segments[count] = b
		room += len(b)
		count++
	}
	r.scatter(pieces)
	r.describe(count, length)
	return Done
}

// scatter copies the pieces into the segments, which have room.
func (r *Ring) scatter(pieces [][]byte) {
	segment, out := 0, r.segments[0]
	for _, p := range pieces {
		for len(p) != 0 {
			if len(out) == 0 {
				segment++
				out = r.segments[segment]
			}
			n := copy(out, p)
			out, p = out[n:], p[n:]
		}
	}
}

// describe fills the descriptors of a packet that is in the segments.
func (r *Ring) describe(count uint16, length int) {
	for i := range count {
		slot := int(r.next & (r.size - 1))
		n := min(length, len(r.segments[i]))
		length -= n
		word := uint64(n) << 32
		if i+1 < count {
			word |= flagNext
		}
		if r.layout.lends {
			r.desc[2*slot+1] = uint64(r.layout.buffers + bufferSize*slot)
		} else {
			word |= r.desc[2*slot] & 0xffff0000 // the client's region, which is the client's to know
		}
		r.desc[2*slot] = word
		r.next++
	}
	r.dirty = true
}

// Flush shows the peer what was done, and reports whether to notify it.
func (r *Ring) Flush() (notify bool) {
	if !r.dirty || r.broken || !r.publish() {
		return false
	}
	return r.layout.sends && r.flags.Load()&flagQuiet == 0
}

// publish orders all writes before it.
func (r *Ring) publish() bool {
	index := r.next
	if r.layout.lends && !r.layout.sends {
		index += r.size // all buffers are offered but those between
	}
	if !r.ours.Store(index) {
		r.Break(FaultRace)
		return false
	}
	r.dirty = false
	return true
}

// Arm asks a sender for a notification, and reports whether packets wait already.
func (r *Ring) Arm() (ready bool) {
	r.armed = r.flags.Store(0)
	return r.slots(1) != 0 || !r.armed
}

// Disarm ends what Arm began.
func (r *Ring) Disarm() {
	if r.armed {
		r.armed = !r.flags.Store(flagQuiet)
	}
}
