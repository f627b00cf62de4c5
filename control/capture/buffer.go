package capture

import (
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/control/filter"
	"github.com/weirswitch/weir/pipeline/packet"
)

// memory bounds the bytes of a buffer's slots together.
const memory = 8 << 20

// maxTruncate bounds the bytes that are kept of a packet.
const maxTruncate = 16 << 10

// Packet is one captured packet. Data is the buffer's.
type Packet struct {
	Time    int64 // nanoseconds of CLOCK_TAI: the batch's clock
	WireLen uint32
	InPort  uint16
	Reason  packet.Reason // why it was dropped; zero if it was not
	Data    []byte
}

// Buffer takes packets from all workers of a switch, and gives them to one
// reader. Workers share its lock, which each only tries: while another has it, or
// the reader, what comes is counted as dropped after some tries. Captures are for
// looking, so workers may contend there; without one there is no cost.
type Buffer struct {
	filter  filter.Filter
	most    int // bytes of each packet
	dropped atomic.Uint64

	lock       sync.Mutex
	slots      []Packet
	head, tail uint64 // read and written so far
	backing    []byte
}

// NewBuffer returns an empty buffer for packets that a filter wants, cut to so
// many bytes; 0: to as many as a frame holds.
func NewBuffer(f filter.Filter, truncate, frameSize int) *Buffer {
	most := truncate
	if most <= 0 || most > maxTruncate {
		most = min(frameSize, maxTruncate)
	}
	n := 1
	for n*2*most <= memory {
		n *= 2
	}
	b := &Buffer{filter: f, most: most, slots: make([]Packet, n), backing: make([]byte, n*most)}
	for i := range b.slots {
		b.slots[i].Data = b.backing[i*most : i*most : (i+1)*most]
	}
	return b
}

// tries bounds how long a worker tries for the lock: about as long as another one
// holds it to copy a packet.
const tries = 256

// Take copies a packet of a batch, if the filter wants it and there is a slot. It
// is called on workers, and neither waits nor allocates.
func (b *Buffer) Take(batch *packet.Batch, p *packet.Packet) {
	data := batch.Data(p)
	if !b.filter.Match(data) {
		return
	}
	for i := 0; !b.lock.TryLock(); i++ {
		if i == tries {
			b.dropped.Add(1)
			return
		}
	}
	if b.tail-b.head == uint64(len(b.slots)) {
		b.dropped.Add(1)
	} else {
		b.fill(batch, p, data)
	}
	b.lock.Unlock()
}

// fill copies a packet into the next slot.
func (b *Buffer) fill(batch *packet.Batch, p *packet.Packet, data []byte) {
	slot := &b.slots[b.tail&uint64(len(b.slots)-1)]
	slot.Time, slot.WireLen, slot.InPort, slot.Reason = batch.Now, p.WireLen, p.InPort, p.Reason
	slot.Data = append(slot.Data[:0], data[:min(len(data), b.most)]...)
	for link := p.Next; link != 0 && len(slot.Data) < b.most; {
		addr, length, next := batch.Pool().Next(link)
		length = min(length, uint32(b.most-len(slot.Data)))
		slot.Data = append(slot.Data, batch.Mem[addr:addr+uint64(length)]...)
		link = next
	}
	b.tail++
}

// Drain calls f for the packets that wait, oldest first, while f says that it
// wants more. It reports whether some are left. For one reader; the lock is held
// for moments only, since slots that were written are the reader's.
func (b *Buffer) Drain(f func(*Packet) bool) (more bool) {
	b.lock.Lock()
	head, tail := b.head, b.tail
	b.lock.Unlock()
	for wants := true; wants && head != tail; head++ {
		wants = f(&b.slots[head&uint64(len(b.slots)-1)])
	}
	b.lock.Lock()
	b.head = head
	b.lock.Unlock()
	return head != tail
}

// Dropped counts the packets that the filter wanted and that found no slot.
func (b *Buffer) Dropped() uint64 { return b.dropped.Load() }
