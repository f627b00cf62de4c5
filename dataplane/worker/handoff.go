package worker

import (
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline/packet"
)

// handoff is a ring of packets from one worker (the producer) to one other
// (the consumer). A packet's frames change owner with it.
//
//	head: next slot to read, written by the consumer
//	tail: next slot to write, written by the producer
//
// Each side keeps a copy of the other's index and reads the shared one only
// when the copy says that there is no room, or nothing to read. The atomic
// store of an index publishes the slots before it (release), the load makes
// them visible (acquire).
type handoff struct {
	slots []packet.Packet
	mask  uint32

	_         [64]byte // the producer's line: tail and its copy of head
	tail      atomic.Uint32
	headCache uint32

	_         [64]byte // the consumer's line: head and its copy of tail
	head      atomic.Uint32
	tailCache uint32
	_         [64]byte
}

func newHandoff(size int) *handoff {
	return &handoff{slots: make([]packet.Packet, size), mask: uint32(size - 1)}
}

// push appends the packets pkts[i] for i of idx and returns how many fit. For
// the producer only.
func (h *handoff) push(pkts []packet.Packet, idx []uint16) int {
	tail := h.tail.Load()
	room := uint32(len(h.slots)) - (tail - h.headCache)
	if room < uint32(len(idx)) {
		h.headCache = h.head.Load()
		room = uint32(len(h.slots)) - (tail - h.headCache)
	}
	n := min(uint32(len(idx)), room)
	for k := range n {
		h.slots[(tail+k)&h.mask] = pkts[idx[k]]
	}
	h.tail.Store(tail + n)
	return int(n)
}

// pop appends packets to the batch, as many as fit, and returns how many. For
// the consumer only.
func (h *handoff) pop(b *packet.Batch) int {
	head := h.head.Load()
	if h.tailCache == head {
		if h.tailCache = h.tail.Load(); h.tailCache == head {
			return 0
		}
	}
	n := min(h.tailCache-head, uint32(cap(b.Pkts)-len(b.Pkts)))
	for k := range n {
		*b.Append() = h.slots[(head+k)&h.mask]
	}
	h.head.Store(head + n)
	return int(n)
}

// popRun is pop into an empty batch, of packets of one input port and queue alone: the first one's, as if they had just been received.
func (h *handoff) popRun(b *packet.Batch) int {
	head := h.head.Load()
	if h.tailCache == head {
		if h.tailCache = h.tail.Load(); h.tailCache == head {
			return 0
		}
	}
	first := &h.slots[head&h.mask]
	n := uint32(0)
	for limit := min(h.tailCache-head, packet.BatchSize); n < limit; n++ {
		p := &h.slots[(head+n)&h.mask]
		if p.InPort != first.InPort || p.InQueue != first.InQueue {
			break
		}
		*b.Append() = *p
	}
	h.head.Store(head + n)
	return int(n)
}

// len returns how many packets wait. Exact for the producer, but for what the
// consumer takes meanwhile.
func (h *handoff) len() uint32 { return h.tail.Load() - h.head.Load() }

// empty reports whether nothing waits. Exact for the consumer.
func (h *handoff) empty() bool { return h.head.Load() == h.tail.Load() }
