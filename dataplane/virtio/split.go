package virtio

import (
	"sync/atomic"

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
	return nil
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
