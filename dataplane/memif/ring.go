package memif

import (
	"fmt"
	"sync/atomic"
	"unsafe"

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
	// maxWalk bounds the descriptors that a batch reads beside those of GetEach and PutEach, by what it began with: the worker's other ports
	// wait for it. A packet of 9000 bytes takes five.
	maxWalk = 1024
)

// Result says what Put has done.
type Result uint8

// The results of Put.
const (
	Done    Result = iota // the packet is in the ring
	Full                  // there are too few buffers now, or those since the last Flush had too many descriptors
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
	// runs has the ring go on at slot next, where another process has left it.
	runs bool
	next uint16
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
	shown uint16 // the index that we wrote last
	dirty bool   // next has not been published
	armed bool   // notifications are wanted

	spent    int // descriptors of Get and Put since Flush
	segments [maxSegments][]byte

	// What fetch has read and checked: count descriptors from slot first on. Each is of a whole packet, or of a buffer for one.
	first, count uint16
	at           [fetchLimit]unsafe.Pointer // its memory
	room         [fetchLimit]uint32         // bytes
	words        [fetchLimit]uint64         // its first word
	ahead        [2 * fetchLimit]uintptr    // the cache lines to ask for
	long         bool                       // the last packet sent took more than one
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
	}
	if l.runs {
		return r, nil // it is another process's still
	}
	if l.lends {
		atomic.StoreUint32(mark, cookie)
		for i := range size {
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
	if r.layout.runs {
		r.next, r.limit, r.shown = r.layout.next, r.layout.next, r.layout.next
		if r.layout.lends && !r.layout.sends {
			r.shown += r.size
		}
		r.armed = !r.layout.sends && r.flags.Load()&flagQuiet == 0
		return
	}
	if !r.layout.sends {
		r.flags.Store(flagQuiet)
	}
	r.dirty = true
	r.publish()
}

// offer puts our buffer of a slot into its descriptor.
func (r *Ring) offer(slot int) {
	r.desc[2*slot] = bufferSize << 32
	r.desc[2*slot+1] = uint64(r.layout.buffers + bufferSize*slot)
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
	return r.fetch(min(limit, int(r.slots(1))))
}

// buffer reads a descriptor, once, and returns its memory, and its first word; nil is a fault.
func (r *Ring) buffer(slot int) (b []byte, word uint64, f Fault) {
	lends := r.layout.lends
	if lends && r.layout.sends {
		return r.memory.regions[0][r.layout.buffers+bufferSize*slot:][:bufferSize], 0, 0
	}
	word = atomic.LoadUint64(&r.desc[2*slot])
	length := word >> 32
	if lends {
		if length > bufferSize {
			return nil, word, FaultLength
		}
		return r.memory.regions[0][r.layout.buffers+bufferSize*slot:][:length], word, 0
	}
	region := word >> 16 & 0xffff
	if region >= uint64(len(r.memory.regions)) {
		return nil, word, FaultRegion
	}
	b = r.memory.regions[region]
	offset := atomic.LoadUint64(&r.desc[2*slot+1]) & 0xffffffff
	if offset+length > uint64(len(b)) {
		return nil, word, FaultAddress
	}
	return b[offset : offset+length : offset+length], word, 0
}

// Prepare is to be called in front of a batch of n packets that are put.
func (r *Ring) Prepare(n int) {
	if !r.broken {
		want := uint16(1)
		if r.layout.sends {
			want = uint16(min(n, int(r.size)))
		}
		r.fetch(min(n, int(r.slots(want))))
	}
}

// fetchLimit is how many descriptors are looked at ahead, and cacheLine how much memory a processor gets at once.
const (
	fetchLimit = 64
	cacheLine  = 64
)

// fetch reads the descriptors of a batch of n, each once, and asks for the memory that they name, which another core has written or read: the processor
// waits for all these lines at once, instead of for one after the other. GetEach and PutEach use what it has read. It returns n.
func (r *Ring) fetch(n int) int {
	sends, lends := r.layout.sends, r.layout.lends
	regions, desc, mask := r.memory.regions, r.desc, r.size-1
	count, lines := 0, 0
	for limit := min(n, fetchLimit); count < limit; count++ {
		slot := int((r.next + uint16(count)) & mask)
		word := atomic.LoadUint64(&desc[2*slot])
		region, offset, length := word>>16&0xffff, atomic.LoadUint64(&desc[2*slot+1])&0xffffffff, word>>32
		if lends { // the buffers are where we know them to be
			region, offset = 0, uint64(r.layout.buffers+bufferSize*slot)
			if sends {
				word, length = 0, bufferSize
			} else if length > bufferSize {
				break
			}
		}
		if region >= uint64(len(regions)) || length < minPacket || !sends && word&flagNext != 0 {
			break
		}
		b := regions[region]
		if offset+length > uint64(len(b)) {
			break
		}
		p := unsafe.Pointer(&b[offset])
		r.at[count], r.room[count], r.words[count] = p, uint32(length), word
		r.ahead[lines] = uintptr(p)
		if lines++; r.long || !sends && length > cacheLine {
			r.ahead[lines] = uintptr(p) + cacheLine
			lines++
		}
	}
	r.first, r.count = r.next, uint16(count)
	if count == 0 {
		return n
	}
	if sends {
		shmem.PrefetchWriteLine(&r.ahead[0], lines)
	} else {
		shmem.PrefetchReadLine(&r.ahead[0], lines)
	}
	r.ahead[0] = r.ours.Line() // which the end of the batch will write
	shmem.PrefetchWriteLine(&r.ahead[0], 1)
	return n
}

// fetched returns which of the descriptors that fetch has read are next, from number i up to end. Behind one that needed Get or Put it reads more, up to limit.
func (r *Ring) fetched(limit int) (i, end int) {
	if r.next-r.first >= r.count {
		r.count = 0
		r.Prepare(limit)
		return 0, int(r.count)
	}
	return int(r.next - r.first), int(r.count)
}

// GetEach copies the packets in front of the ring that are in one descriptor each, at most len(at) of them: packet i to mem[at[i]:], where it has
// room bytes, and its length to lengths[i]. It knows those that Available has found, stops at the first one that needs Get, and returns how many it copied.
func (r *Ring) GetEach(mem []byte, at []uint64, room int, lengths []uint32) (n int) {
	if r.broken {
		return 0
	}
	first, end := r.fetched(len(at))
	limit := min(len(at), end-first)
	n = copy(lengths, r.room[first:first+limit])
	for i, length := range lengths[:n] {
		if int(length) > room {
			n = i
			break
		}
	}
	shmem.GetEach(mem, at, r.at[first:end], lengths[:n])
	if r.layout.lends {
		for i := range n {
			r.offer(int((r.next + uint16(i)) & (r.size - 1)))
		}
	}
	r.took(n)
	return n
}

// PutEach is Put for packets that are in one piece each, packet i in mem[at[i]:][:lengths[i]]. It knows the buffers that Prepare has found, stops at the
// first packet that needs Put, and returns how many it copied.
func (r *Ring) PutEach(mem []byte, at []uint64, lengths []uint32) (n int) {
	if r.broken {
		return 0
	}
	first, end := r.fetched(len(at))
	lengths = lengths[:min(len(at), end-first)]
	for n < len(lengths) && lengths[n] <= r.room[first+n] {
		n++
	}
	shmem.PutEach(mem, at, r.at[first:end], lengths[:n])
	lends, desc, mask := r.layout.lends, r.desc, r.size-1
	for i, length := range lengths[:n] {
		slot := int((r.next + uint16(i)) & mask)
		if lends {
			r.describe(slot, 0, int(length), 0)
		} else {
			desc[2*slot] = uint64(length)<<32 | r.words[first+i]&0xffff0000 // the region is the client's to know
		}
	}
	if n != 0 {
		r.long = lengths[n-1] > cacheLine
	}
	r.took(n)
	return n
}

// took moves on by n descriptors.
func (r *Ring) took(n int) {
	if n != 0 {
		r.next += uint16(n)
		r.dirty = true
	}
}

// describe makes a descriptor, whose first word was word, that of n bytes of a packet that is sent.
func (r *Ring) describe(slot int, word uint64, n int, flags uint64) {
	if r.layout.lends {
		r.desc[2*slot+1] = uint64(r.layout.buffers + bufferSize*slot)
		word = 0
	}
	r.desc[2*slot] = uint64(n)<<32 | word&0xffff0000 | flags // the region is the client's to know
}

// Get copies the next packet to dst, and gives its descriptors back with the next Flush. It reports false if there is
// none, or if those since the last Flush had too many descriptors. A packet that was refused has length 0.
func (r *Ring) Get(dst []byte) (n int, ok bool) {
	if r.broken || r.spent >= maxWalk {
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
		slot := int(r.next & (r.size - 1))
		b, word, f := r.buffer(slot)
		if r.layout.lends {
			r.offer(slot)
		}
		r.next++
		r.spent++
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
		if word&flagNext == 0 {
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
	if r.spent >= maxWalk {
		return Full
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
		b, _, f := r.buffer(int((r.next + count) & (r.size - 1)))
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
	for i := range count {
		n, flags := min(length, len(r.segments[i])), uint64(0)
		if length -= n; i+1 < count {
			flags = flagNext
		}
		slot := int((r.next + i) & (r.size - 1))
		r.describe(slot, r.desc[2*slot], n, flags)
	}
	r.took(int(count))
	r.spent += int(count)
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

// Next returns the buffer of the next packet that a client sends; nil if the server has all. It has what the client last put into it.
func (r *Ring) Next() []byte {
	if r.slots(1) == 0 {
		return nil
	}
	b, _, _ := r.buffer(int(r.next & (r.size - 1)))
	return b
}

// Send sends the first n bytes of the buffer of Next, with the next Flush.
func (r *Ring) Send(n int) {
	r.describe(int(r.next&(r.size-1)), 0, n, 0)
	r.took(1)
}

// Skip counts up to limit packets that a client received in one buffer each, and gives the buffers back with the next Flush.
func (r *Ring) Skip(limit int) (n int) {
	for limit = min(limit, int(r.slots(1))); n < limit; n++ {
		r.offer(int((r.next + uint16(n)) & (r.size - 1)))
	}
	r.took(n)
	return n
}

// Flush shows the peer what was done, and reports whether to notify it.
func (r *Ring) Flush() (notify bool) {
	r.spent, r.count = 0, 0
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
	if !r.ours.Advance(r.shown, index) {
		r.Break(FaultRace)
		return false
	}
	r.shown, r.dirty = index, false
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
