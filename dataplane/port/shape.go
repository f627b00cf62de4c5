package port

import (
	"math"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/limiter"
	"github.com/weirswitch/weir/pipeline/packet"
)

// reasonQueueFull is the drop reason of packets that find no room in the queue
// of a port with a rate, or of their class.
var reasonQueueFull = packet.Register("queue_full", "the queue of the output port, which has a rate, or that of the packet's class there, was full")

// shaper is the rate of a port and its classes, which its queues share.
type shaper struct {
	limit   limiter.Bucket
	burst   int64    // bytes
	slots   int      // packets that wait in each queue
	classes *classes // nil: all packets wait in one line
	clock   func() int64
}

// newShaper returns the shaper of a configuration, nil if it has neither a rate nor classes. A
// worker that sleeps comes round each millisecond while packets wait, so that much
// of the rate, twice, must pass at once; and so must two packets.
func newShaper(c *Config, maxFrame int) *shaper {
	if c.RateBits == 0 && len(c.Classes) == 0 {
		return nil
	}
	s := &shaper{slots: c.queuePackets(), clock: monotonic, classes: newClasses(c, maxFrame)}
	s.burst = setRate(&s.limit, c.RateBits, maxFrame)
	return s
}

// setRate limits to bits per second, 0 for no limit, and returns the burst, in bytes.
func setRate(b *limiter.Bucket, bits int64, maxFrame int) (burst int64) {
	if bits == 0 {
		return math.MaxInt64
	}
	burst = max(bits/8/500, 2*int64(maxFrame))
	b.Set(uint64(bits/8), uint64(burst))
	return burst
}

var shapeBase, shapeStart = time.Now(), clock.Kernel.Monotonic()

// monotonic reads CLOCK_MONOTONIC, which a process that takes the switch over has, too.
func monotonic() int64 { return shapeStart + int64(time.Since(shapeBase)) }

// shape puts the port's rate, or its classes, in front of a queue; a nil shaper has neither.
func (s *shaper) shape(q Queue, frames *packet.Cache) Queue {
	switch {
	case s == nil:
		return q
	case s.classes != nil:
		return newClassQueue(s, q, frames)
	}
	return &shapedQueue{
		Queue: q, shaper: s, frames: frames,
		fifo: make([]packet.Packet, s.slots), mask: uint32(s.slots - 1),
		batch: packet.NewBatch(frames, packet.BatchSize),
	}
}

// shapedQueue holds packets in order until the port's rate lets them into the
// queue behind it. Packets wait in the frames in which they came.
//
//	Transmit --> fifo --(rate)--> Queue.Transmit
type shapedQueue struct {
	Queue
	*shaper
	frames  *packet.Cache
	fifo    []packet.Packet
	mask    uint32
	head    uint32 // the first that waits
	tail    uint32 // behind the last
	waiting int    // frames of those
	blocked packet.Reason
	batch   *packet.Batch
	idx     [packet.BatchSize]uint16
	// entering is what another process has of the queue, between Enter and Begin.
	entering *backlog
}

// Transmit implements Queue.
func (q *shapedQueue) Transmit(b *packet.Batch, idx []uint16) int {
	n := max(min(len(idx), q.slots-int(q.tail-q.head)), 0) // more than slots may have come from another process
	for _, i := range idx[:n] {
		q.fifo[q.tail&q.mask] = b.Pkts[i]
		q.tail++
		q.waiting += q.frames.Pool().FramesOf(&b.Pkts[i])
	}
	q.drain()
	return n
}

// Sleep implements Sleeper, for queues that do.
func (q *shapedQueue) Sleep() (ready bool) {
	s, ok := q.Queue.(Sleeper)
	return ok && s.Sleep()
}

// drain sends what the rate allows.
func (q *shapedQueue) drain() {
	q.blocked = reasonQueueFull
	for q.head != q.tail {
		n, granted := q.allowed()
		if n == 0 {
			return
		}
		bytes, frames := granted, 0
		q.batch.Pkts = q.batch.Pkts[:0]
		for k := range n {
			q.batch.Pkts = append(q.batch.Pkts, q.fifo[(q.head+uint32(k))&q.mask])
			q.idx[k] = uint16(k)
			frames += q.frames.Pool().FramesOf(&q.batch.Pkts[k])
		}
		taken := q.Queue.Transmit(q.batch, q.idx[:n])
		for _, i := range q.idx[taken:n] {
			frames -= q.frames.Pool().FramesOf(&q.batch.Pkts[i])
		}
		q.waiting -= frames
		for _, i := range q.idx[:taken] {
			bytes -= q.cost(&q.batch.Pkts[i])
		}
		q.head += uint32(taken)
		if taken < n {
			q.blocked = q.Queue.Refusal()
			q.limit.GiveBack(uint64(granted), uint64(bytes))
			return
		}
	}
}

// allowed takes tokens for the first packets that wait, and returns for how
// many packets, and how many bytes of tokens these are.
func (q *shapedQueue) allowed() (packets int, bytes int64) {
	most := min(int(q.tail-q.head), packet.BatchSize)
	want := int64(0)
	for k := range most {
		want += q.cost(&q.fifo[(q.head+uint32(k))&q.mask])
	}
	got := int64(q.limit.Take(q.clock(), uint64(want)))
	for packets < most {
		c := q.cost(&q.fifo[(q.head+uint32(packets))&q.mask])
		if bytes+c > got {
			break
		}
		bytes += c
		packets++
	}
	q.limit.GiveBack(uint64(got), uint64(got-bytes))
	return packets, bytes
}

// cost is a packet's bytes; one that exceeds the burst would wait for ever.
func (q *shapedQueue) cost(p *packet.Packet) int64 { return min(int64(p.WireLen), q.burst) }

// LinkDown implements Doubter, for queues that do.
func (q *shapedQueue) LinkDown() {
	if d, ok := q.Queue.(Doubter); ok {
		d.LinkDown()
	}
}

// Refusal implements Queue.
func (q *shapedQueue) Refusal() packet.Reason { return q.blocked }

// Service implements Queue.
func (q *shapedQueue) Service() bool {
	q.drain()
	return q.Queue.Service() || q.head != q.tail
}

// Depth implements Queue: what waits for the rate, and what waits behind it.
func (q *shapedQueue) Depth() int { return q.waiting + q.Queue.Depth() }

// Rehome implements Rehomer.
func (q *shapedQueue) Rehome(frames *packet.Cache) {
	q.frames = frames
	if r, ok := q.Queue.(Rehomer); ok {
		r.Rehome(frames)
	}
}

// Close implements Queue.
func (q *shapedQueue) Close() (Rest, error) {
	waiting := int(q.tail - q.head)
	q.waiting = 0
	for ; q.head != q.tail; q.head++ {
		q.frames.FreePacket(&q.fifo[q.head&q.mask])
	}
	rest, err := q.Queue.Close()
	rest.Unsent += waiting
	return rest, err
}
