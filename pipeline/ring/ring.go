// Package ring is how a worker gives small values to a goroutine beside the
// packet path: addresses to learn, digests to record.
package ring

import (
	"math/bits"
	"sync/atomic"
)

// Ring takes values from one producer to one consumer, without locks and
// without allocation. A full ring rejects the value, and no side waits: the producer counts what
// was rejected. Each side's index has its own cache line, and the
// producer looks at the consumer's only when its copy says that the ring is full.
//
//	head ──> consumer reads        tail ──> producer writes
//	   [ . . v v v v v v v v v v v . . . ]
type Ring[T any] struct {
	values []T
	mask   uint32
	_      [64]byte
	tail   atomic.Uint32 // next to be written, by the producer
	seen   uint32        // the producer's copy of head
	_      [56]byte
	head   atomic.Uint32 // next to be read, by the consumer
	_      [60]byte
}

// New returns an empty ring for at least size values, rounded up to a power of
// two of at most 2^31. It panics if size is not positive.
func New[T any](size int) *Ring[T] {
	if size < 1 || size > 1<<31 {
		panic("ring: a size of 1 to 2^31")
	}
	n := uint64(1) << bits.Len64(uint64(size-1))
	return &Ring[T]{values: make([]T, n), mask: uint32(n - 1)}
}

// Push adds a value. It reports false if the ring is full. Producer only.
func (r *Ring[T]) Push(v T) bool {
	at := r.Ahead(0)
	if at == nil {
		return false
	}
	*at = v
	r.Commit(1)
	return true
}

// Ahead is where the value behind the next n is to be written, in place, without a copy: it holds an old value. So several can be prepared
// before [Ring.Commit] gives them to the consumer together. nil: the ring has no room for it. Producer only.
func (r *Ring[T]) Ahead(n int) *T {
	at := r.tail.Load() + uint32(n)
	if at-r.seen > r.mask {
		r.seen = r.head.Load()
		if at-r.seen > r.mask {
			return nil
		}
	}
	return &r.values[at&r.mask]
}

// Commit adds the n values that were written where [Ring.Ahead] said for 0 to n-1. Producer only.
func (r *Ring[T]) Commit(n int) { r.tail.Store(r.tail.Load() + uint32(n)) }

// Drain calls f for each value that waits and returns how many there were.
// Consumer only. The value is valid until f returns.
func (r *Ring[T]) Drain(f func(v *T)) int {
	head, tail := r.head.Load(), r.tail.Load()
	n := int(tail - head)
	for ; head != tail; head++ {
		f(&r.values[head&r.mask])
	}
	r.head.Store(head)
	return n
}

// Len is how many values wait; for observers, it may be old when it is read.
func (r *Ring[T]) Len() int {
	// The head first: it never passes a tail that is read later. What both sides
	// did between the two readings may make the difference too large.
	head := r.head.Load()
	return int(min(r.tail.Load()-head, r.mask+1))
}
