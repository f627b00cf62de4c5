package shmem

import (
	"sync/atomic"
	"unsafe"
)

// Half is a number of 16 bits that both sides use at the same time. sync/atomic has none, so it is accessed by the
// aligned word of 32 bits around it, which is always in the same page.
type Half struct {
	word  *uint32
	shift uint
}

// HalfAt views the two bytes at an offset, whose address is even.
func HalfAt(b []byte, offset uint64) Half {
	p := unsafe.Pointer(&b[offset])
	odd := uintptr(p) & 2
	return Half{(*uint32)(unsafe.Add(p, -int(odd))), uint(odd) * 8}
}

// Load orders the reads behind it.
func (h Half) Load() uint16 { return uint16(atomic.LoadUint32(h.word) >> h.shift) }

// Store orders the accesses around it, and leaves the word's other half, which may be anybody's, as it is. It gives up, and
// reports false, where a peer keeps changing that.
func (h Half) Store(v uint16) bool {
	for range 16 {
		old := atomic.LoadUint32(h.word)
		if atomic.CompareAndSwapUint32(h.word, old, old&^(0xffff<<h.shift)|uint32(v)<<h.shift) {
			return true
		}
	}
	return false
}

// Advance is Store where the number is before, which this side alone writes: the line goes from the other core to this one once, and not to be read
// and then again to be written.
func (h Half) Advance(before, v uint16) bool {
	if after := atomic.AddUint32(h.word, (uint32(v)-uint32(before))<<h.shift); uint16(after>>h.shift) == v {
		return true
	}
	return h.Store(v) // a peer wrote to it
}

// Line is the address of the number, to ask for its cache line.
func (h Half) Line() uintptr { return uintptr(unsafe.Pointer(h.word)) }

// Words views memory, aligned for them, as numbers.
func Words[T uint16 | uint32 | uint64](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(*new(T))))
}

// Holds reports whether an address of this process is in the pages of b, which are mapped as a whole: a Half at its first
// byte is read from two bytes in front of it.
func Holds(b []byte, addr uintptr) bool {
	if len(b) == 0 {
		return false
	}
	const page = 4096 // or more
	base := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return addr >= base&^(page-1) && addr < (base+uintptr(len(b))+page-1)&^(page-1)
}
