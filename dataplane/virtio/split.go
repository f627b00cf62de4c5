package virtio

import (
	"sync/atomic"
	"unsafe"

	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/dataplane/shmem"
)

// mapSplit finds the parts of a split ring:
//
//	available: flags, idx, ring[size], used_event           16 bits each
//	used:      flags, idx (16 bits each), ring[size] of id and length (32 bits each), avail_event (16 bits)
func (r *Ring) mapSplit() error {
	n := uint64(r.size)
	avail, _, err := r.memory.part("the available ring", r.layout.Driver, 6+2*n, 2)
	if err != nil {
		return err
	}
	used, at, err := r.memory.part("the used ring", r.layout.Device, 6+8*n, 4)
	if err != nil {
		return err
	}
	r.flags, r.avail, r.useEv = shmem.HalfAt(avail, 0), shmem.HalfAt(avail, 2), shmem.HalfAt(avail, 4+2*n)
	r.heads = shmem.Words[uint16](avail[4 : 4+2*n])
	r.done, r.avEv = shmem.Words[uint32](used[:4+8*n]), shmem.HalfAt(used, 4+8*n)
	// All that this device took, it has used. If the used ring says otherwise, its last user has ended
	// in between, and what it took is served again.
	r.used.at = uint16(atomic.LoadUint32(&r.done[0]) >> 16)
	r.next.at = r.used.at
	r.seen = r.next.at
	r.called, r.quiet = r.used, 1
	r.logAt = at
	if r.layout.Log {
		r.logAt = r.layout.LogUsed
	}
	r.publish()
	r.plain, r.home = r.memory.log == nil, &r.memory.regions[0]
	return nil
}

// fetch returns how many chains are available, up to limit. It asks for the memory that a batch will use, which another core has
// written or read: the processor waits for all these lines at once, instead of for one after the other.
func (r *Ring) fetch(limit int, write bool) (n int) {
	n = min(limit, r.waiting())
	if n <= 0 {
		return 0
	}
	soon, warm, mask := min(n, fetchLimit), uint64(0), r.size-1
	for i := range uint16(soon) {
		if head := r.heads[(r.next.at+i)&mask]; head < r.size {
			warm += atomic.LoadUint64(&r.desc[2*int(head)])
		}
	}
	r.warm = byte(warm)
	if !r.plain {
		return n
	}
	lines := 0
	base, size := uintptr(unsafe.Pointer(unsafe.SliceData(r.home.Bytes))), uint64(len(r.home.Bytes))
	for i := range uint16(soon) {
		if head := r.heads[(r.next.at+i)&mask]; head < r.size {
			if at := atomic.LoadUint64(&r.desc[2*int(head)]) - r.home.Guest; at < size {
				r.ahead[lines] = base + uintptr(at)
				lines++
			}
		}
	}
	if lines != 0 && !write {
		shmem.PrefetchRead(&r.ahead[0], lines)
		lines = 0
	}
	for i := uint16(0); i < uint16(soon); i += usedPerFetch {
		r.ahead[lines] = uintptr(unsafe.Pointer(&r.done[1+2*int((r.used.at+i)&mask)]))
		lines++
	}
	shmem.PrefetchWrite(&r.ahead[0], lines)
	return n
}

const (
	fetchLimit   = 64 // chains
	usedPerFetch = 16 // entries of the used ring in the two lines of a prefetch
)

// move makes the region of an address the one that GetEach and PutEach look at.
func (r *Ring) move(addr uint64) {
	for i := range r.memory.regions {
		if g := &r.memory.regions[i]; addr-g.Guest < uint64(len(g.Bytes)) {
			r.home = g
			return
		}
	}
}

// GetEach copies the packets in front of the ring that are in one piece and not to be cut, at most len(at) of them:
// packet i to mem[at[i]:], where it has room bytes, and its length to lengths[i]. It stops at the first packet that needs Get, and
// returns how many it copied.
func (r *Ring) GetEach(mem []byte, at []uint64, room int, lengths []uint32) (n int) {
	if !r.plain || r.broken || r.cut.On() || r.skip != 0 {
		return 0
	}
	limit := min(len(at), r.waiting())
	lengths = lengths[:limit]
	home, first := r.home.Bytes, r.home.Guest
	header, mask, checked := r.layout.Header, r.size-1, r.layout.Offloads.Checksum
	for ; n < limit; n++ {
		head := r.heads[(r.next.at+uint16(n))&mask]
		if head >= r.size {
			break
		}
		addr, rest := atomic.LoadUint64(&r.desc[2*int(head)]), atomic.LoadUint64(&r.desc[2*int(head)+1])
		begin, length := addr-first, uint64(uint32(rest))
		if uint16(rest>>32) != 0 || begin >= uint64(len(home)) || uint64(len(home))-begin < length {
			break
		}
		b := home[begin : begin+length]
		size := len(b) - header
		if size < minPacket || size > room {
			break
		}
		var h [10]byte
		if checked {
			if h = [10]byte(b); h[1] != gso.None {
				break
			}
		}
		dst := mem[at[n]:][:size]
		copy(dst, b[header:])
		// The kernel of a guest leaves the checksums of nearly all that it sends. Get counts what cannot be completed.
		if h[0]&gso.NeedsChecksum != 0 && !gso.FinishChecksum(dst, int(h[6])|int(h[7])<<8, int(h[8])|int(h[9])<<8) {
			break
		}
		lengths[n] = uint32(size)
		slot := 2 * int((r.used.at+uint16(n))&mask)
		r.done[1+slot], r.done[2+slot] = uint32(head), 0
	}
	r.took(n)
	return n
}

// PutEach is Put for packets that are in one piece each, packet i in mem[at[i]:][:lengths[i]]. It stops at the first one that needs Put, and
// returns how many it copied.
func (r *Ring) PutEach(mem []byte, at []uint64, lengths []uint32) (n int) {
	if !r.plain || r.broken {
		return 0
	}
	limit := min(len(at), r.waiting())
	lengths = lengths[:limit]
	home, first := r.home.Bytes, r.home.Guest
	header, mask := uint64(r.layout.Header), r.size-1
	for ; n < limit; n++ {
		head := r.heads[(r.next.at+uint16(n))&mask]
		if head >= r.size {
			break
		}
		addr, rest := atomic.LoadUint64(&r.desc[2*int(head)]), atomic.LoadUint64(&r.desc[2*int(head)+1])
		begin, length := addr-first, header+uint64(lengths[n])
		if uint16(rest>>32) != flagWrite || uint64(uint32(rest)) < length || begin >= uint64(len(home)) || uint64(len(home))-begin < length {
			break
		}
		b := home[begin : begin+length]
		if header == uint64(len(plainHeader)) {
			*(*[12]byte)(b) = plainHeader
		} else {
			copy(b, plainHeader[:header])
		}
		copy(b[header:], mem[at[n]:][:lengths[n]])
		slot := 2 * int((r.used.at+uint16(n))&mask)
		r.done[1+slot], r.done[2+slot] = uint32(head), uint32(length)
	}
	r.took(n)
	return n
}

// plainHeader is that of a packet without offloads, in one buffer.
var plainHeader = [12]byte{10: 1}

// took takes and uses n chains of one descriptor.
func (r *Ring) took(n int) {
	r.next.at += uint16(n)
	r.used.at += uint16(n)
	r.pending += uint16(n)
}

// waiting returns how many chains are available.
func (r *Ring) waiting() int {
	if r.seen == r.next.at {
		r.seen = r.avail.Load()
		if r.seen-r.next.at > r.size {
			r.Break(FaultIndex)
			r.seen = r.next.at
		}
	}
	return int(r.seen - r.next.at)
}

func (r *Ring) takeSplit(write bool) (got, good bool) {
	if r.waiting() == 0 {
		// What was seen last may have been exhausted by a Put that gave up.
		return false, false
	}
	head := r.heads[r.next.at&(r.size-1)]
	if head >= r.size {
		r.Break(FaultHead)
		return false, false
	}
	r.next.at++
	b := &r.buffers[r.nbufs]
	r.nbufs++
	*b = buffer{id: head, descs: 1}
	good = r.chainSplit(b, head, write)
	b.end = r.nsegs
	return true, good
}

// chainSplit follows a chain through the ring's table, and an indirect one.
func (r *Ring) chainSplit(b *buffer, at uint16, write bool) bool {
	for range r.size {
		addr := atomic.LoadUint64(&r.desc[2*int(at)])
		rest := atomic.LoadUint64(&r.desc[2*int(at)+1])
		length, flags, next := uint32(rest), uint16(rest>>32), uint16(rest>>48)
		if flags&flagIndirect != 0 {
			return r.indirectSplit(b, addr, length, flags, write)
		}
		if !r.add(b, addr, length, flags, write) {
			return false
		}
		if flags&flagNext == 0 {
			r.move(addr) // the next packets are near
			return true
		}
		if next >= r.size {
			return r.fault(FaultNext)
		}
		at = next
	}
	return r.fault(FaultChain)
}

func (r *Ring) indirectSplit(b *buffer, table uint64, length uint32, flags uint16, write bool) bool {
	n, ok := r.table(length, flags)
	if !ok {
		return false
	}
	at := uint32(0)
	for range n {
		addr, rest, ok := r.entry(table, at)
		if !ok {
			return false
		}
		length, flags, next := uint32(rest), uint16(rest>>32), uint32(rest>>48)
		if flags&flagIndirect != 0 {
			return r.fault(FaultIndirect)
		}
		if !r.add(b, addr, length, flags, write) {
			return false
		}
		if flags&flagNext == 0 {
			return true
		}
		if next >= n {
			return r.fault(FaultNext)
		}
		at = next
	}
	return r.fault(FaultChain)
}

func (r *Ring) pushSplit(id uint16, n uint32) {
	slot := int(r.used.at & (r.size - 1))
	r.done[1+2*slot], r.done[2+2*slot] = uint32(id), n
	r.used.at++
	r.pending++
}

// publish shows the used index and the flags. It orders all writes before it, and the reads behind it.
func (r *Ring) publish() {
	atomic.StoreUint32(&r.done[0], r.quiet|uint32(r.used.at)<<16)
	r.memory.mark(r.logAt, 4)
}

func (r *Ring) flushSplit() (call bool) {
	if r.memory.log != nil {
		r.markSlots(4, 8)
	}
	r.publish()
	if r.track.on {
		r.track.splitUsed(r.used.at)
	}
	r.pending = 0
	if !r.layout.EventIdx {
		return r.flags.Load()&1 == 0
	}
	old, fresh := r.called.at, r.fresh
	r.called, r.fresh = r.used, false
	return fresh || needEvent(r.useEv.Load(), r.used.at, old)
}

// markSlots marks the pending slots of a ring in the log: slot i is size bytes at offset + i*size.
func (r *Ring) markSlots(offset, size uint64) {
	n := uint64(r.size)
	end := uint64(r.used.at) // of a packed ring at most n
	if !r.layout.Packed {
		end &= n - 1
	}
	pending := min(uint64(r.pending), n)
	if pending > end {
		r.memory.mark(r.logAt+offset+(n-(pending-end))*size, (pending-end)*size)
		pending = end
	}
	r.memory.mark(r.logAt+offset+(end-pending)*size, pending*size)
}
