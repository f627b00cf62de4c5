package xsk

import "sync/atomic"

// Desc describes one buffer of a packet, laid out as struct xdp_desc.
type Desc struct {
	Addr    uint64 // offset of the first byte in the UMEM
	Len     uint32 // bytes
	Options uint32 // Continued, or 0
}

// Continued in Desc.Options says that the packet goes on in the next descriptor
// (XDP_PKT_CONTD).
const Continued = 1

// needWakeup in a ring's flags asks for a system call (XDP_RING_NEED_WAKEUP).
const needWakeup = 1

// shared is the part of a ring that both sides see. The indexes run freely and
// wrap at 2^32; an index modulo the ring's size is a slot. The kernel pairs each
// store-release with a load-acquire (the table at the top of net/xdp/xsk_queue.h);
// Go's atomics are sequentially consistent, which is stronger, and on amd64 a
// load costs nothing more.
//
//	slot:   0    1    2    3    4    5    6    7
//	      +----+----+----+----+----+----+----+----+
//	      |    |    | x  | x  | x  |    |    |    |    x: published, not yet consumed
//	      +----+----+----+----+----+----+----+----+
//	                  ^ consumed     ^ produced
type shared[T Desc | uint64] struct {
	produced *atomic.Uint32 // index of the next slot that will be published
	consumed *atomic.Uint32 // index of the next slot that will be taken
	flags    *atomic.Uint32
	slots    []T // length is a power of two
}

// NeedsWakeup reports whether the kernel waits for a system call before it goes on
// with this ring. Without need_wakeup on the socket it is constant: true for TX in
// copy mode (the kernel sends only inside the call), false for fill.
func (s *shared[T]) NeedsWakeup() bool { return s.flags.Load()&needWakeup != 0 }

// Size is the number of slots.
func (s *shared[T]) Size() int { return len(s.slots) }

// producer is our end of a ring that we fill.
type producer[T Desc | uint64] struct {
	shared[T]
	head uint32 // our index: the next slot to write
	tail uint32 // the kernel's index, as last read
}

// Free returns how many slots can be written now. It reads the shared index.
func (p *producer[T]) Free() int {
	p.tail = p.consumed.Load()
	return len(p.slots) - int(p.head-p.tail)
}

// room returns how many of the wanted slots can be written, and reads the shared
// index only where the cached one does not leave room enough.
func (p *producer[T]) room(want int) int {
	free := len(p.slots) - int(p.head-p.tail)
	if free < want {
		free = p.Free()
	}
	return min(free, want)
}

// publish copies the items, for which there must be room, and shows them to the kernel.
func (p *producer[T]) publish(items []T) {
	first := p.slots[p.head&uint32(len(p.slots)-1):]
	n := copy(first, items)
	copy(p.slots, items[n:])
	p.head += uint32(len(items))
	p.produced.Store(p.head) // release: the slots are written before the index
}

// consumer is our end of a ring that the kernel fills.
type consumer[T Desc | uint64] struct {
	shared[T]
	tail uint32 // our index: the next slot to read
}

// Available returns how many published items were not popped yet.
func (c *consumer[T]) Available() int { return int(c.produced.Load() - c.tail) }

// peek copies up to len(to) items out and leaves them in the ring.
func (c *consumer[T]) peek(to []T) int {
	n := min(c.Available(), len(to)) // acquire: the index is read before the slots
	to = to[:n]
	first := c.slots[c.tail&uint32(len(c.slots)-1):]
	copied := copy(to, first)
	copy(to[copied:], c.slots)
	return n
}

// release gives n slots back to the kernel.
func (c *consumer[T]) release(n int) {
	c.tail += uint32(n)
	c.consumed.Store(c.tail)
}

// between visits the items from index from up to, not including, index to.
func (s *shared[T]) between(from, to uint32, visit func(T)) {
	for ; from != to; from++ {
		visit(s.slots[from&uint32(len(s.slots)-1)])
	}
}
