package port

import (
	"github.com/weirswitch/weir/dataplane/gso"
	"github.com/weirswitch/weir/pipeline/packet"
)

// maxPieces bounds the frames of a packet: those of the longest large one. Its frames are of 2 KiB or more, of which the first one has less room.
const maxPieces = 2 + gso.MaxLarge/2048

// copyQueue is what the queues of ports in shared memory have in common: each packet is copied between a frame of the pool and
// the other end's memory.
type copyQueue struct {
	frames  *packet.Cache
	number  uint16
	queue   uint8
	refusal packet.Reason
	room    uint64

	// addrs[next:end] are where Receive puts packets into the frames that it has, and are no packets yet. Between
	// two calls of Receive the array is Transmit's.
	addrs     [packet.BatchSize]uint64
	next, end int
	apart     bool                     // they are at different lines of their frames: see begin
	lengths   [packet.BatchSize]uint32 // of packets in addrs
	more      [maxPieces]uint64        // more[:owned] are the frames behind the first one of a large packet that is being received
	owned     int
	pieces    [maxPieces][]byte
}

// maxLargeBytes bounds the large packets of a batch, in bytes: the worker's other ports wait for it.
const maxLargeBytes = 256 << 10

// largeCost is what a large packet counts of maxLargeBytes: its bytes, or what cutting it may cost at a port that does not take it
// whole, where each of its segments, however short, takes about the time of so many bytes.
func largeCost(length, size int) int { return max(length, length/size*segmentBytes) }

const segmentBytes = 1024

// Packets begin at one of lines cache lines of their frames. At the same offset of frames that are 2 KiB apart they would share two of the 64 sets of a first
// level cache, and with them what is in the other end's buffers, which are often as far apart; and a processor takes addresses whose last 12 bits are equal for
// the same until it knows better. Frames of 2 KiB have room for that many with an MTU of 1500 bytes and a VLAN tag.
const (
	lines    = 4
	lineSize = 64
	apartBy  = (lines - 1) * lineSize
	pageBits = 12
)

// begin takes frames for up to n packets, which begin at different lines of them.
func (q *copyQueue) begin(n int) {
	q.next, q.end = 0, q.frames.Alloc(q.addrs[:n])
	q.apart = true
	for i, addr := range q.addrs[:q.end] {
		q.addrs[i] = addr + Headroom + addr>>pageBits%lines*lineSize
	}
}

// fits is the length of the longest packet that has room in each of the frames.
func (q *copyQueue) fits() int {
	if q.apart {
		return int(q.room) - apartBy
	}
	return int(q.room)
}

// align makes the packets that are to come begin at Headroom, where frames have most room, and reports whether they did not before.
func (q *copyQueue) align() bool {
	if !q.apart {
		return false
	}
	q.apart = false
	pool := q.frames.Pool()
	for i, addr := range q.addrs[q.next:q.end] {
		q.addrs[q.next+i] = pool.Base(addr) + Headroom
	}
	return true
}

// add makes packets of the next n frames, whose lengths are in front of q.lengths.
func (q *copyQueue) add(b *packet.Batch, n int) {
	for i, addr := range q.addrs[q.next:][:n] {
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, q.lengths[i], q.lengths[i]
		p.InPort, p.InQueue = q.number, q.queue
	}
	q.next += n
}

// list puts the packets of one frame each in front of idx into addrs and lengths, and returns how many there are.
func (q *copyQueue) list(b *packet.Batch, idx []uint16) (n int) {
	for _, i := range idx[:min(len(idx), packet.BatchSize)] {
		p := &b.Pkts[i]
		if p.Next != 0 {
			break
		}
		q.addrs[n], q.lengths[n] = p.Addr, p.Len
		n++
	}
	return n
}

// chain takes frames for a packet of length bytes behind its first frame, and lists the pieces of memory of it. It reports false, and has none, if too
// few are free.
func (q *copyQueue) chain(mem, first []byte, length int) (pieces [][]byte, ok bool) {
	size := q.frames.Pool().FrameSize()
	n := (length - len(first) + size - 1) / size
	if q.owned = q.frames.Alloc(q.more[:n]); q.owned < n {
		q.freeMore()
		return nil, false
	}
	q.pieces[0] = first
	left := length - len(first)
	for i, addr := range q.more[:n] {
		q.pieces[1+i] = mem[addr:][:min(left, size)]
		left -= size
	}
	return q.pieces[:1+n], true
}

// link makes the frames of chain the rest of a large packet.
func (q *copyQueue) link(p *packet.Packet, l packet.Large) {
	pool := q.frames.Pool()
	p.Next = 0
	for ; q.owned > 0; q.owned-- {
		p.Next = pool.Link(q.more[q.owned-1], uint32(len(q.pieces[q.owned])), p.Next)
	}
	pool.SetLarge(p.Next, l)
}

func (q *copyQueue) freeMore() {
	for ; q.owned > 0; q.owned-- {
		q.frames.Free(q.more[q.owned-1])
	}
}

// free gives back the frames that Receive did not need.
func (q *copyQueue) free() {
	for _, addr := range q.addrs[q.next:q.end] {
		q.frames.Free(addr)
	}
	q.next, q.end = 0, 0
	q.freeMore()
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
