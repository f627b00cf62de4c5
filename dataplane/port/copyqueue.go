package port

import "github.com/weirswitch/weir/pipeline/packet"

// copyQueue is what the queues of ports in shared memory have in common: each packet is copied between a frame of the pool and
// the other end's memory.
type copyQueue struct {
	frames  *packet.Cache
	number  uint16
	queue   uint8
	refusal packet.Reason
	room    uint64

	// addrs[next:end] are frames that Receive has, and no packet yet.
	addrs     [packet.BatchSize]uint64
	next, end int
	pieces    [maxPieces][]byte
}

// free gives back the frames that Receive did not need.
func (q *copyQueue) free() {
	for _, addr := range q.addrs[q.next:q.end] {
		q.frames.Free(addr)
	}
	q.next, q.end = 0, 0
}

// gather lists the pieces of a packet, and sums their length. There are none if they are too many.
func (q *copyQueue) gather(b *packet.Batch, p *packet.Packet) (n, length int) {
	q.pieces[0] = b.Data(p)
	n, length = 1, int(p.Len)
	for link := p.Next; link != 0; n++ {
		if n == maxPieces {
			return 0, 0
		}
		addr, size, next := b.Pool().Next(link)
		q.pieces[n] = b.Mem[addr:][:size]
		length += int(size)
		link = next
	}
	return n, length
}

// Refusal implements Queue.
func (q *copyQueue) Refusal() packet.Reason { return q.refusal }

// Service implements Queue: there is nothing between batches, for packets are copied.
func (q *copyQueue) Service() bool { return false }

// Depth implements Queue: what was transmitted is the other end's at once.
func (q *copyQueue) Depth() int { return 0 }

// Ended implements Queue: there may always be another one.
func (q *copyQueue) Ended() bool { return false }

// Rehome implements Rehomer.
func (q *copyQueue) Rehome(frames *packet.Cache) { q.frames = frames }

// Close implements Queue. It holds no frame between two calls.
func (q *copyQueue) Close() (Rest, error) { return Rest{}, nil }
