package virtio

import (
	"sync/atomic"

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

// fetch returns how many chains are available, up to limit. It touches what they will be read from, which another core has written: the processor
// waits for all these lines at once, instead of one after the other. What it reads is not used.
func (r *Ring) fetch(limit int) (n int) {
	n = min(limit, r.waiting())
	warm, mask := uint64(0), r.size-1
	for i := range uint16(n) {
		if head := r.heads[(r.next.at+i)&mask]; head < r.size {
			warm += atomic.LoadUint64(&r.desc[2*int(head)])
		}
	}
	if r.plain {
		for i := range uint16(n) {
			if head := r.heads[(r.next.at+i)&mask]; head < r.size {
				if at := atomic.LoadUint64(&r.desc[2*int(head)]) - r.home.Guest; at < uint64(len(r.home.Bytes)) {
					warm += uint64(r.home.Bytes[at])
				}
			}
		}
	}
	r.warm = byte(warm)
	return n
}

// plainBuffer returns the next chain's memory if it is one descriptor in one region, with the flags that it must have, and nil otherwise. Nothing
// is taken yet: a caller that cannot use the buffer calls takeSplit, which checks the chain from its beginning.
func (r *Ring) plainBuffer(flags uint16) (head uint16, b []byte) {
	if r.broken || r.waiting() == 0 {
		return 0, nil
	}
	if head = r.heads[r.next.at&(r.size-1)]; head >= r.size {
		return 0, nil
	}
	addr := atomic.LoadUint64(&r.desc[2*int(head)])
	rest := atomic.LoadUint64(&r.desc[2*int(head)+1])
	length := uint64(uint32(rest))
	if uint16(rest>>32) != flags {
		return 0, nil
	}
	at := addr - r.home.Guest
	if size := uint64(len(r.home.Bytes)); at >= size || size-at < length {
		if !r.move(addr) {
			return 0, nil
		}
		at = addr - r.home.Guest
		if size := uint64(len(r.home.Bytes)); at >= size || size-at < length {
			return 0, nil
		}
	}
	return head, r.home.Bytes[at : at+length]
}

// move makes the region of an address the one that is looked at first.
func (r *Ring) move(addr uint64) bool {
	for i := range r.memory.regions {
		if g := &r.memory.regions[i]; addr-g.Guest < uint64(len(g.Bytes)) {
			r.home = g
			return true
		}
	}
	return false
}

// getPlain is Get for a packet in one piece that nothing is to be done for. It returns 0 for all others.
func (r *Ring) getPlain(dst []byte) int {
	head, b := r.plainBuffer(0)
	n := len(b) - r.layout.Header
	if n < minPacket || n > len(dst) || r.layout.Offloads.Checksum && b[0]&gso.NeedsChecksum|b[1] != 0 {
		return 0
	}
	r.next.at++
	copy(dst[:n], b[r.layout.Header:])
	r.pushSplit(head, 0)
	return n
}

// putPlain is put for a packet that fits into the next buffer, which is in one piece. It reports false for all others.
func (r *Ring) putPlain(p []byte) bool {
	head, b := r.plainBuffer(flagWrite)
	n := r.layout.Header + len(p)
	if len(b) < n {
		return false
	}
	r.next.at++
	if r.layout.Header == len(r.header) {
		r.header[10], r.header[11] = 1, 0
		*(*[12]byte)(b) = r.header
		copy(b[12:], p)
	} else {
		copy(b, r.header[:r.layout.Header])
		copy(b[r.layout.Header:], p)
	}
	r.pushSplit(head, uint32(n))
	return true
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
