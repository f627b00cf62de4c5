package virtio

import (
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// The flags of event suppression (virtio 1.3, 2.8.10).
const (
	eventEnable  = 0
	eventDisable = 1
	eventDesc    = 2
)

// mapPacked finds the event suppression of both sides, of 32 bits: in bits 0 to 14 a slot, in bit 15 its wrap
// counter, in bits 16 and 17 the flags.
func (r *Ring) mapPacked() error {
	driver, _, err := r.memory.part("the driver's event suppression", r.layout.Driver, 4, 4)
	if err != nil {
		return err
	}
	device, at, err := r.memory.part("the device's event suppression", r.layout.Device, 4, 4)
	if err != nil {
		return err
	}
	r.drvEv, r.devEv = &shmem.Words[uint32](driver)[0], &shmem.Words[uint32](device)[0]
	r.logEv = at
	base := r.layout.Base
	r.next = cursor{uint16(base & 0x7fff), base&(1<<15) != 0}
	if r.track.on {
		r.next = r.recoverPacked()
	}
	r.used = r.next // all that was taken was used
	if r.next.at >= r.size {
		return errBase
	}
	r.called = r.used
	r.suppress(eventDisable)
	return nil
}

// suppress writes our event suppression.
func (r *Ring) suppress(flags uint32) {
	atomic.StoreUint32(r.devEv, flags<<16)
	r.memory.mark(r.logEv, 4)
}

// advance moves a cursor on by n slots, at most a ring's.
func (r *Ring) advance(c cursor, n uint16) cursor {
	if at := uint32(c.at) + uint32(n); at >= uint32(r.size) {
		return cursor{uint16(at - uint32(r.size)), !c.wrap}
	}
	return cursor{c.at + n, c.wrap}
}

// ready reports whether a descriptor with these flags is available.
func (c cursor) ready(flags uint16) bool {
	return (flags&flagAvail != 0) == c.wrap && (flags&flagUsed != 0) != c.wrap
}

func (r *Ring) readyPacked() bool {
	return r.next.ready(uint16(atomic.LoadUint64(&r.desc[2*int(r.next.at)+1]) >> 48))
}

func (r *Ring) takePacked(write bool) (got, good bool) {
	rest := atomic.LoadUint64(&r.desc[2*int(r.next.at)+1]) // orders the reads of what it offers
	if !r.next.ready(uint16(rest >> 48)) {
		return false, false
	}
	b := &r.buffers[r.nbufs]
	*b = buffer{}
	good = true
	at := r.next
	for n := uint16(1); ; n++ {
		addr := atomic.LoadUint64(&r.desc[2*int(at.at)])
		length, flags := uint32(rest), uint16(rest>>48)
		if good { // else only its end is looked for
			switch {
			case flags&flagIndirect == 0:
				good = r.add(b, addr, length, flags, write)
			case n != 1:
				good = r.fault(FaultIndirect)
			default:
				good = r.indirectPacked(b, addr, length, flags, write)
			}
		}
		at = r.advance(at, 1)
		b.id, b.descs = uint16(rest>>32), n // the last one's counts
		if flags&flagNext == 0 {
			break
		}
		if n == r.size {
			r.Break(FaultChain) // the ring has no end: where the next chain begins is unknown
			return false, false
		}
		rest = atomic.LoadUint64(&r.desc[2*int(at.at)+1])
	}
	// A driver may make slots available again that it was not given back yet.
	if r.taken += b.descs; uint32(r.pending)+uint32(r.taken) > uint32(r.size) {
		r.Break(FaultChain)
		return false, false
	}
	r.next = at
	b.end = r.nsegs
	r.nbufs++
	return true, good
}

// indirectPacked reads a table, whose descriptors follow each other without flags (virtio 1.3, 2.8.8).
func (r *Ring) indirectPacked(b *buffer, table uint64, length uint32, flags uint16, write bool) bool {
	n, ok := r.table(length, flags)
	for i := uint32(0); ok && i < n; i++ {
		var addr, rest uint64
		if addr, rest, ok = r.entry(table, i); ok {
			ok = r.add(b, addr, uint32(rest), uint16(rest>>48), write)
		}
	}
	return ok
}

func (r *Ring) pushPacked(id, descs uint16, n uint32) {
	flags := uint64(0)
	if n != 0 {
		flags = flagWrite
	}
	if r.used.wrap {
		flags |= flagAvail | flagUsed
	}
	word := uint64(n) | uint64(id)<<32 | flags<<48
	if r.pending == 0 {
		// The driver goes from one used slot to the next, so it finds none until the first is there.
		r.first, r.firstI = word, r.used.at
	} else {
		if r.track.on {
			r.track.save(r.used.at, atomic.LoadUint64(&r.desc[2*int(r.used.at)+1]))
		}
		atomic.StoreUint64(&r.desc[2*int(r.used.at)+1], word)
	}
	r.used = r.advance(r.used, descs)
	r.pending += descs
}

func (r *Ring) flushPacked() (call bool) {
	if r.track.on {
		r.track.begin(r.used)
	}
	atomic.StoreUint64(&r.desc[2*int(r.firstI)+1], r.first)
	if r.track.on {
		r.track.commit(r.used, r.firstI, r.pending, r.size)
	}
	if r.memory.log != nil {
		r.markSlots(0, 16)
	}
	n := r.pending
	r.pending = 0
	event := atomic.LoadUint32(r.drvEv)
	switch event >> 16 & 3 {
	case eventEnable:
		return true
	case eventDesc:
		// Slots count on over the ring's end: what lies on the other side of it, as the wrap counter
		// says, is a ring's length away.
		at := int(event & 0x7fff)
		if (event&(1<<15) != 0) != r.used.wrap {
			at -= int(r.size)
		}
		return r.layout.EventIdx && needEvent(uint16(at), r.used.at, r.used.at-n)
	}
	return false
}
