package worker

import (
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// outlet is one exit of a worker: a queue that it owns, or the ring to
// another worker.
type outlet struct {
	queue    port.Queue // nil: handed over
	ring     *handoff
	to       *Worker
	port     uint16 // of queue
	maxFrame uint32

	n       int
	idx     []uint16 // the first n are the batch's packets to send here
	bytes   uint64
	large   bool   // a packet of idx may have to be cut
	chained bool   // a packet of idx has several frames
	sent    uint32 // frames that it took, which wraps; packets if they are handed over
	drain   drain
	line    *line    // nil: no other worker asks
	lines   *lines   // of a queue with classes; nil: it has none
	_       [56]byte // three lines in all: neighbours in memory are other workers' outlets
}

// dispatch gives each packet of the batch its fate: it is sent, handed over,
// or dropped and counted. Afterwards the batch is empty.
//
// All originals of the batch arrived on the same port, so their counters are
// found once; only batches with copies, and those taken over from other
// workers (mixed), look at each packet's own port.
func (w *Worker) dispatch(b *packet.Batch, mixed bool) {
	mixed = mixed || b.Copied != 0 || b.Entered != 0
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 {
			w.drop(b, p, p.Reason)
			continue
		}
		if int(p.OutPort) >= len(w.counters) {
			w.drop(b, p, packet.ReasonNoPort)
			continue
		}
		o := &w.outlets[w.route[int(p.OutPort)<<queueBits|int(p.InQueue)]]
		if p.Next != 0 {
			o.chained, o.large = true, w.cutter != nil
		}
		if p.WireLen > o.maxFrame && b.FrameLen(p) > o.maxFrame {
			w.drop(b, p, packet.ReasonTooLong)
			continue
		}
		o.idx[o.n] = uint16(i)
		o.n++
		o.bytes += uint64(p.WireLen)
	}
	for k := range w.outlets {
		if o := &w.outlets[k]; o.n != 0 {
			w.send(b, o, mixed)
		}
	}
	b.Reset()
}

// send empties an outlet's vector: what does not fit even after a service is
// dropped and counted.
func (w *Worker) send(b *packet.Batch, o *outlet, mixed bool) {
	idx := o.idx[:o.n]
	bytes, large := o.bytes, o.large
	o.n, o.bytes, o.large = 0, 0, false
	if o.queue == nil {
		o.chained = false
		n := o.ring.push(b.Pkts, idx)
		o.sent += uint32(n)
		w.loop.HandedOver += uint64(n)
		for _, i := range idx[n:] {
			w.drop(b, &b.Pkts[i], packet.ReasonHandoffFull)
		}
		if n != 0 {
			o.to.wake()
		}
		return
	}
	if large {
		w.sendLarge(b, o, idx, mixed)
	} else {
		w.transmit(b, o, idx, bytes, mixed)
	}
	o.chained = false
}

// moreFrames is how many frames packets have beside their first ones.
func moreFrames(b *packet.Batch, idx []uint16) (n int) {
	for _, i := range idx {
		n += b.Pool().FramesOf(&b.Pkts[i]) - 1
	}
	return n
}

// transmit sends by a queue of the worker's own.
func (w *Worker) transmit(b *packet.Batch, o *outlet, idx []uint16, bytes uint64, mixed bool) {
	first := &b.Pkts[idx[0]]
	inPort := first.InPort
	more := 0
	if o.chained && len(w.batch.Wait) != 0 {
		more = moreFrames(b, idx) // the queue owns them afterwards
	}
	taken := o.queue.Transmit(b, idx)
	for taken < len(idx) {
		// The kernel sends in our own time in copy mode, so a service frees
		// room; when it frees none, the device is the bottleneck.
		o.queue.Service()
		n := o.queue.Transmit(b, idx[taken:])
		if n == 0 {
			break
		}
		taken += n
	}
	if taken < len(idx) && o.lines != nil {
		o.lines.queue.Dropped(b, idx[taken:])
	}
	if more != 0 {
		more -= moreFrames(b, idx[taken:])
	}
	for _, i := range idx[taken:] {
		bytes -= uint64(b.Pkts[i].WireLen)
		w.drop(b, &b.Pkts[i], o.queue.Refusal())
	}
	o.sent += uint32(taken + more)
	c := &w.counters[o.port]
	c.transmitted += uint64(taken)
	c.transmittedBytes += bytes
	if !mixed {
		w.counters[inPort].fate[0].forwarded += uint64(taken)
		return
	}
	for _, i := range idx[:taken] {
		p := &b.Pkts[i]
		w.counters[p.InPort].fate[fateOf(p)].forwarded++
	}
}

// drop counts a packet's end and frees its frames.
func (w *Worker) drop(b *packet.Batch, p *packet.Packet, r packet.Reason) {
	w.counters[p.InPort].fate[fateOf(p)].reasons[r&(packet.MaxReasons-1)]++ // BCE
	b.Frames.FreePacket(p)
}
