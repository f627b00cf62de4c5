package virtio

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// The layout of what a device notes of a ring in memory that outlives it (vhost-user.rst, "Inflight I/O tracking"):
//
//	split:   features 8, version 2, descriptors 2, last batch 2, used index 2; per descriptor 16
//	packed:  features 8, version 2, descriptors 2, free 2, old free 2, used slot 2, old used slot 2,
//	         used wrap counter 1, old one 1, padding; per descriptor 32: in flight 1, padding 1, next 2, last 2,
//	         chained 2, counter 8, id 2, flags 2, length 4, address 8
//
// This device uses buffers in their order, and makes used within one call all that it has taken in it. So no buffer is in flight
// between two calls, and where a ring goes on is where its used part ends. A split ring says that itself. A
// packed ring does not, so the position is kept here, with its former value: a device that ended between the two
// is recognised by whether the descriptor at the former position is still available. Behind that descriptor, a batch's others are
// overwritten before it: what they were is kept in the states of their slots.
const (
	inflightVersion = 1
	splitHead       = 16
	splitState      = 16
	packedHead      = 32
	packedState     = 32

	atVersion  = 8
	atDescs    = 10
	atUsed     = 14 // split
	atSlots    = 16 // packed: the used slot, the former one, and the wrap counters of both: one word of 64 bits
	atSaved    = 16 // of a packed state: id, flags and length: one word too
	atInflight = 0
)

// InflightSize is what the tracking of a ring needs, in bytes: a multiple of 64.
func InflightSize(descriptors int, packed bool) int {
	n := splitHead + splitState*descriptors
	if packed {
		n = packedHead + packedState*descriptors
	}
	return (n + 63) &^ 63
}

// tracking is a ring's part of that memory. It is the front-end's, and no more trusted than the guest's.
type tracking struct {
	on    bool
	bytes []byte
}

// mapInflight begins the tracking, or takes up that of a device before this one.
func (r *Ring) mapInflight() error {
	b := r.layout.Inflight
	if b == nil {
		return nil
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(b)))%8 != 0 || len(b) < InflightSize(r.layout.Size, r.layout.Packed) {
		return fmt.Errorf("tracking of %d descriptors in %d bytes: want %d, aligned to 8", r.layout.Size, len(b), InflightSize(r.layout.Size, r.layout.Packed))
	}
	r.track = tracking{true, b}
	version, descs := binary.LittleEndian.Uint16(b[atVersion:]), binary.LittleEndian.Uint16(b[atDescs:])
	switch {
	case version == 0:
		clear(b)
		if r.layout.Packed {
			base := r.layout.Base
			c := cursor{uint16(base & 0x7fff), base&(1<<15) != 0}
			r.track.setSlots(c, c)
			for i := range r.size { // the list of free states, which another device may use
				binary.LittleEndian.PutUint16(b[packedHead+packedState*int(i)+2:], i+1)
			}
		}
		binary.LittleEndian.PutUint16(b[atDescs:], r.size)
		binary.LittleEndian.PutUint16(b[atVersion:], inflightVersion)
	case version != inflightVersion || descs < r.size:
		return fmt.Errorf("tracking of version %d for %d descriptors: want version %d for at least %d", version, descs, inflightVersion, r.size)
	}
	return nil
}

// splitUsed notes the used index, behind its publication.
func (t *tracking) splitUsed(at uint16) { binary.LittleEndian.PutUint16(t.bytes[atUsed:], at) }

// setSlots notes the present position and the former one, at once.
func (t *tracking) setSlots(now, former cursor) {
	v := uint64(now.at) | uint64(former.at)<<16
	if now.wrap {
		v |= 1 << 32
	}
	if former.wrap {
		v |= 1 << 40
	}
	atomic.StoreUint64(&shmem.Words[uint64](t.bytes[atSlots : atSlots+8])[0], v)
}

func (t *tracking) slots() (now, former cursor) {
	v := atomic.LoadUint64(&shmem.Words[uint64](t.bytes[atSlots : atSlots+8])[0])
	return cursor{uint16(v), v>>32&1 != 0}, cursor{uint16(v >> 16), v>>40&1 != 0}
}

func (t *tracking) state(slot uint16) []byte {
	return t.bytes[packedHead+packedState*int(slot):][:packedState]
}

// save keeps what a descriptor was, before it is overwritten.
func (t *tracking) save(slot uint16, word uint64) {
	s := t.state(slot)
	atomic.StoreUint64(&shmem.Words[uint64](s[atSaved : atSaved+8])[0], word>>32|word<<32)
	s[atInflight] = 1
}

// begin notes where the used part will end.
func (t *tracking) begin(next cursor) {
	_, former := t.slots()
	t.setSlots(next, former)
}

// commit follows the publication of a batch of n slots.
func (t *tracking) commit(next cursor, first, n, size uint16) {
	for i := range n {
		slot := uint32(first) + uint32(i)
		if slot >= uint32(size) {
			slot -= uint32(size)
		}
		if s := t.state(uint16(slot)); s[atInflight] != 0 {
			s[atInflight] = 0
		}
	}
	t.setSlots(next, next)
}

// recoverPacked returns where the ring goes on, and undoes a batch that was not published.
func (r *Ring) recoverPacked() cursor {
	t := &r.track
	next, former := t.slots()
	if next.at >= r.size || former.at >= r.size {
		return cursor{at: r.size} // refused by the caller
	}
	if next != former {
		flags := uint16(atomic.LoadUint64(&r.desc[2*int(former.at)+1]) >> 48)
		if !former.ready(flags) { // else the driver may have filled it anew since
			former = next // it was published
			for i := range r.size {
				t.state(i)[atInflight] = 0
			}
		}
	}
	for i := range r.size {
		s := t.state(i)
		if s[atInflight] == 0 {
			continue
		}
		word := atomic.LoadUint64(&shmem.Words[uint64](s[atSaved : atSaved+8])[0])
		word = word>>32 | word<<32
		atomic.StoreUint64(&r.desc[2*int(i)+1], word)
		r.memory.mark(r.logAt+16*uint64(i), 16)
		s[atInflight] = 0
	}
	t.setSlots(former, former)
	return former
}
