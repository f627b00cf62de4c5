package virtio

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/shmem"
)

// The bounds of what one call takes from the driver.
const (
	// maxSegments bounds the pieces of memory of a packet, and the descriptors, of which those of length 0 are no piece.
	maxSegments = 256
	// maxBuffers bounds the mergeable buffers of a packet.
	maxBuffers = 64
	// maxWalk bounds the descriptors that a batch reads beside those of GetEach and PutEach, by what it began with: the worker's other ports
	// wait for it. Kernels take up to 19 for a packet (MAX_SKB_FRAGS and two), and few large packets make a batch.
	maxWalk = 2048
	// minPacket is the length of an Ethernet header, in bytes.
	minPacket = 14
	// maxSize is the most descriptors of a ring (virtio 1.3, 2.7).
	maxSize = 1 << 15
)

// The flags of a descriptor.
const (
	flagNext     = 1 << 0
	flagWrite    = 1 << 1
	flagIndirect = 1 << 2
	flagAvail    = 1 << 7
	flagUsed     = 1 << 15
)

// Layout is where a ring is and what was negotiated for it.
type Layout struct {
	Size int // descriptors: a power of two for split rings
	// The addresses of the ring's parts in the front-end's process: descriptors; what the driver writes
	// (available ring, or event suppression); what the device writes.
	Desc, Driver, Device uint64
	Packed               bool
	Indirect             bool
	EventIdx             bool         // VIRTIO_RING_F_EVENT_IDX
	Mergeable            bool         // a packet may fill several buffers (VIRTIO_NET_F_MRG_RXBUF)
	Header               int          // bytes in front of each packet: 10 or 12
	Offloads             gso.Offloads // what the driver may leave to this device
	Guest                gso.Offloads // what this device may leave to the driver
	// Base is where the ring goes on: for a split ring the available index; for a packed ring in bits 0 to 14 the next available
	// descriptor and in bit 15 its wrap counter, and in bits 16 to 31 the same of the used one.
	Base uint32
	// Cut is how many segments of the large packet at Base were received already: it goes on behind them.
	Cut int
	// LogUsed is the guest's address under which writes to a split ring's used ring are marked in the memory's log,
	// if Log; those to other parts of rings are marked where they are.
	Log     bool
	LogUsed uint64
	// Inflight is this ring's part of the memory's tracking of buffers in flight, of InflightSize bytes or more; nil without.
	Inflight []byte
}

// buffer is one chain of descriptors that the driver has made available.
type buffer struct {
	id    uint16
	descs uint16 // slots of a packed ring
	end   int    // index behind its last segment
	room  int    // bytes
}

// cursor is a position in a ring.
type cursor struct {
	at   uint16
	wrap bool // of packed rings
}

// Ring is one virtqueue. One goroutine at a time uses it; the counts may be read by others.
type Ring struct {
	// Whole lets Get leave large packets to GetWhole, if they exceed its memory.
	Whole bool

	memory *Memory
	faults *Faults
	layout Layout
	size   uint16
	broken bool

	next    cursor // the next available chain
	used    cursor // the next used slot
	pending uint16 // slots used and not published
	taken   uint16 // slots of a packed ring that the present call has taken
	armed   bool   // the driver was asked for a notification
	// called is the used index at the last decision whether to notify; fresh: there was none.
	called cursor
	fresh  bool
	// Where writes to the ring are marked in the log: split: the used ring; packed: the descriptors, and our event suppression.
	logAt, logEv uint64
	track        tracking
	cut          cut
	skip         int      // segments of the next packet that were received by the ring before this one
	header       [12]byte // of the packet that is put

	plain bool    // a split ring whose common packets GetEach and PutEach serve
	home  *Region // the region where the last packet was that they did not serve
	warm  byte    // what fetch read, kept so that the compiler keeps the loads
	ahead [fetchLimit + fetchLimit/usedPerFetch]uintptr

	desc   []uint64   // of both kinds: two words each
	seen   uint16     // split: available index as read last
	avail  shmem.Half // split: the available index
	heads  []uint16   // split: the available ring's entries
	done   []uint32   // split: the used ring; its first word has flags and index
	useEv  shmem.Half // split: used_event, which the driver writes
	avEv   shmem.Half // split: avail_event, which we write
	flags  shmem.Half // split: the available ring's flags
	quiet  uint32     // split: flags of the used ring
	first  uint64     // packed: the used descriptor that is published last
	firstI uint16     // packed: its slot
	drvEv  *uint32    // packed: driver event suppression
	devEv  *uint32    // packed: device event suppression

	// What take has read and checked.
	segments [maxSegments][]byte
	guests   [maxSegments]uint64 // the segments' addresses, where there is a log
	nsegs    int
	walked   int // descriptors
	spent    int // those of packets before, since Flush
	buffers  [maxBuffers]buffer
	nbufs    int
}

var errBase = errors.New("the ring begins beyond its end")

// NewRing finds a ring in the memory. Refusals are added to faults. A ring begins with notifications suppressed:
// see Arm.
func NewRing(m *Memory, l Layout, faults *Faults) (*Ring, error) {
	if l.Size < 1 || l.Size > maxSize || !l.Packed && bits.OnesCount(uint(l.Size)) != 1 {
		return nil, fmt.Errorf("a ring of %d descriptors: want 1 to %d, a power of two for a split ring", l.Size, maxSize)
	}
	r := &Ring{memory: m, faults: faults, layout: l, size: uint16(l.Size), skip: l.Cut, fresh: true}
	desc, at, err := m.part("the descriptor table", l.Desc, 16*uint64(l.Size), 16)
	if err != nil {
		return nil, err
	}
	r.desc, r.logAt = shmem.Words[uint64](desc), at
	if err := r.mapInflight(); err != nil {
		return nil, err
	}
	if l.Packed {
		return r, r.mapPacked()
	}
	return r, r.mapSplit()
}

// Base is where the ring would go on, as in Layout.
func (r *Ring) Base() uint32 {
	next := r.next
	if r.cut.On() {
		next = r.cut.start
	}
	if !r.layout.Packed {
		return uint32(next.at)
	}
	pack := func(c cursor) uint32 {
		v := uint32(c.at)
		if c.wrap {
			v |= 1 << 15
		}
		return v
	}
	return pack(next) | pack(r.used)<<16
}

// Cut is how many segments of the packet at Base were received, as in Layout.
func (r *Ring) Cut() int {
	if r.cut.On() {
		return r.cut.Taken()
	}
	return r.skip
}

// Broken reports whether the ring cannot be followed any more.
func (r *Ring) Broken() bool { return r.broken }

// Break ends the ring, and counts why.
func (r *Ring) Break(f Fault) {
	r.faults.Break(f)
	r.broken = true
}

func (r *Ring) fault(f Fault) bool {
	r.faults.Add(f)
	return false
}

// Available returns how many packets Get may return, at most limit.
func (r *Ring) Available(limit int) int {
	if r.broken {
		return 0
	}
	if r.cut.On() {
		return limit
	}
	if r.layout.Offloads.Any() { // a chain may become many
		if r.layout.Packed && !r.readyPacked() || !r.layout.Packed && r.fetch(limit, false) == 0 {
			return 0
		}
		return limit
	}
	if r.layout.Packed {
		if !r.readyPacked() {
			return 0
		}
		return min(limit, int(r.size))
	}
	return r.fetch(limit, false)
}

// Prepare is to be called in front of a batch of n calls of Put.
func (r *Ring) Prepare(n int) {
	if !r.broken && !r.layout.Packed {
		r.fetch(n, true)
	}
}

// Get copies the next packet, without its header, to dst, and gives the buffer back to the driver with the next Flush. It
// reports false if there is none, or if those since the last Flush had too many descriptors. A packet that was refused has length 0. With offloads the packet is complete, and a
// large one comes as its segments, one by one; dst has the same length each time.
func (r *Ring) Get(dst []byte) (n int, ok bool) {
	if r.cut.On() {
		return r.cutNext(dst), true
	}
	start := r.next
	if r.reset(); r.spent >= maxWalk {
		return 0, false
	}
	switch got, good := r.take(false); {
	case !got:
		return 0, false
	case good && r.layout.Offloads.Checksum:
		large := false
		if n, large = r.complete(dst, start); large {
			for ; r.skip > 0 && r.cut.On(); r.skip-- {
				n = r.cutNext(dst)
			}
			r.skip = 0
			return n, true // the buffer goes back with the last segment
		}
	case good:
		n = r.gather(dst)
	}
	r.skip = 0
	b := &r.buffers[0]
	r.push(b.id, b.descs, 0)
	return n, true
}

// gather copies what is behind the header.
func (r *Ring) gather(dst []byte) int {
	skip, want := r.layout.Header, r.buffers[0].room-r.layout.Header
	if want < minPacket {
		r.fault(FaultShort)
		return 0
	}
	if want > len(dst) {
		r.fault(FaultLong)
		return 0
	}
	n := 0
	for _, s := range r.segments[:r.nsegs] {
		if skip >= len(s) {
			skip -= len(s)
			continue
		}
		n += copy(dst[n:], s[skip:])
		skip = 0
	}
	return n
}

// Result says what Put has done.
type Result uint8

// The results of Put.
const (
	Done    Result = iota // the packet is in the driver's buffers
	Full                  // there are too few buffers now, or those since the last Flush had too many descriptors
	Refused               // the packet or the driver's next buffer is unfit; the packet will not fit later
)

// Put copies a packet of length bytes, in pieces, into the driver's next buffers, behind a header without offloads. The
// driver sees it after the next Flush.
func (r *Ring) Put(pieces [][]byte, length int) Result {
	clear(r.header[:])
	return r.put(pieces, length)
}

// PutLarge is Put for a large packet, whose segments have size bytes of payload. It is refused if the driver does not take its kind:
// see Takes.
func (r *Ring) PutLarge(pieces [][]byte, length int, kind uint8, size int) Result {
	clear(r.header[:])
	if !r.layout.Guest.Takes(kind) || !gso.Header(r.header[:], pieces[0], kind, size) {
		r.fault(FaultSegment)
		return Refused
	}
	return r.put(pieces, length)
}

func (r *Ring) put(pieces [][]byte, length int) Result {
	need := length + r.layout.Header
	if r.reset(); r.spent >= maxWalk {
		return Full
	}
	start, room := r.next, 0
	for room < need {
		if r.nbufs == maxBuffers {
			// They go back: the next packet would find them in front of it again.
			r.fault(FaultChain)
			r.giveBack()
			return Refused
		}
		got, good := r.take(true)
		if !got {
			r.next = start
			return Full
		}
		if !good {
			// The unfit buffer goes back unused, and those in front of it too: they are in order.
			r.giveBack()
			return Refused
		}
		if room = r.buffers[r.nbufs-1].room + room; room < need && !r.layout.Mergeable {
			r.fault(FaultRoom)
			r.giveBack()
			return Refused
		}
	}
	r.scatter(pieces, length)
	return Done
}

// giveBack returns the buffers taken, with nothing in them.
func (r *Ring) giveBack() {
	for i := range r.buffers[:r.nbufs] {
		r.push(r.buffers[i].id, r.buffers[i].descs, 0)
	}
}

// scatter writes the header and the pieces into the segments, and gives the buffers to the driver.
func (r *Ring) scatter(pieces [][]byte, length int) {
	r.header[10], r.header[11] = byte(r.nbufs), byte(r.nbufs>>8) // num_buffers; beyond a header of 10 bytes
	segment := 0
	out := r.segments[0]
	write := func(b []byte) {
		for len(b) != 0 {
			for len(out) == 0 {
				segment++
				out = r.segments[segment]
			}
			n := shmem.CopyTo(out, b)
			out, b = out[n:], b[n:]
		}
	}
	write(r.header[:r.layout.Header])
	for _, p := range pieces {
		write(p)
	}
	if r.memory.log != nil {
		r.markSegments(length + r.layout.Header)
	}
	left := length + r.layout.Header
	for i := range r.buffers[:r.nbufs] {
		b := &r.buffers[i]
		n := min(left, b.room)
		left -= n
		r.push(b.id, b.descs, uint32(n))
	}
}

// markSegments marks the first n bytes of the segments in the log. It follows the writes: a bit that is taken before
// a write would be lost.
func (r *Ring) markSegments(n int) {
	for i, s := range r.segments[:r.nsegs] {
		part := min(n, len(s))
		r.memory.mark(r.guests[i], uint64(part))
		if n -= part; n == 0 {
			return
		}
	}
}

func (r *Ring) reset() {
	r.spent += r.walked
	r.nsegs, r.walked, r.nbufs, r.taken = 0, 0, 0, 0
}

// take reads the next available chain into the segments. got is false if there is none or the ring is broken;
// good is false if the chain is refused, and then it only goes back to the driver.
func (r *Ring) take(write bool) (got, good bool) {
	if r.broken {
		return false, false
	}
	if r.layout.Packed {
		return r.takePacked(write)
	}
	return r.takeSplit(write)
}

// add appends a descriptor's memory to the segments, which may be in several regions.
func (r *Ring) add(b *buffer, addr uint64, length uint32, flags uint16, write bool) bool {
	if (flags&flagWrite != 0) != write {
		return r.fault(FaultDirection)
	}
	if r.walked++; r.walked > maxSegments {
		return r.fault(FaultChain)
	}
	for left := uint64(length); left != 0; {
		if r.nsegs == maxSegments {
			return r.fault(FaultChain)
		}
		p := r.memory.piece(addr, left)
		if p == nil {
			return r.fault(FaultAddress)
		}
		r.segments[r.nsegs] = p
		if r.memory.log != nil {
			r.guests[r.nsegs] = addr
		}
		r.nsegs++
		addr += uint64(len(p))
		left -= uint64(len(p))
	}
	// A driver's lengths can sum to 2^15 times 2^32, which an int holds.
	b.room += int(length)
	return true
}

// table returns the indirect table of a descriptor: its address, and how many descriptors it has.
func (r *Ring) table(length uint32, flags uint16) (n uint32, ok bool) {
	n = length / 16
	if !r.layout.Indirect || flags&flagNext != 0 || length%16 != 0 || n == 0 {
		return 0, r.fault(FaultIndirect)
	}
	if n > maxSegments {
		return 0, r.fault(FaultChain)
	}
	return n, true
}

// entry reads descriptor i of an indirect table, once.
func (r *Ring) entry(table uint64, i uint32) (addr, rest uint64, ok bool) {
	at := table + 16*uint64(i)
	p := r.memory.piece(at, 16)
	if len(p) != 16 {
		return 0, 0, r.fault(FaultAddress) // a table that lies in two regions is refused too
	}
	var d [16]byte
	copy(d[:], p)
	return le64(d[:8]), le64(d[8:]), true
}

func le64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

// push makes a buffer used, into which n bytes were written.
func (r *Ring) push(id, descs uint16, n uint32) {
	if r.layout.Packed {
		r.pushPacked(id, descs, n)
	} else {
		r.pushSplit(id, n)
	}
}

// Flush shows the driver all that was used. It reports whether the driver wants to be notified of it.
func (r *Ring) Flush() (call bool) {
	r.spent, r.walked = 0, 0
	if r.pending == 0 {
		return false
	}
	if r.layout.Packed {
		return r.flushPacked()
	}
	return r.flushSplit()
}

// needEvent reports whether an index passed event on its way from old to new (virtio 1.3, 2.7.7.2).
func needEvent(event, now, old uint16) bool { return now-event-1 < now-old }

// Arm asks the driver to notify the next buffer that it makes available. It reports whether there is
// one already: the driver may have looked before it was asked.
func (r *Ring) Arm() (ready bool) {
	if r.broken {
		return false
	}
	if r.cut.On() {
		return true
	}
	r.armed = true
	if r.layout.Packed {
		r.suppress(eventEnable)
		return r.readyPacked()
	}
	r.quiet = 0
	if r.layout.EventIdx {
		r.avEv.Store(r.next.at)
		r.memory.mark(r.logAt+4+8*uint64(r.size), 2)
	} else {
		r.publish()
	}
	return r.waiting() != 0
}

// Disarm tells the driver that notifications are not needed, if it was armed.
func (r *Ring) Disarm() {
	if !r.armed || r.broken {
		return
	}
	r.armed = false
	switch {
	case r.layout.Packed:
		r.suppress(eventDisable)
	case !r.layout.EventIdx: // with it, the index that was asked for is left behind
		r.quiet = 1
		r.publish()
	}
}
