package worker

import (
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// timeArrivals has a port find out when packets arrive, if a stage wants to
// know. The batch's clock does for ports that cannot.
func (s *Switch) timeArrivals(p port.Port) error {
	if t, ok := p.(port.ArrivalTimer); ok && pipeline.Needs(s.chain)&packet.NeedArrival != 0 {
		return t.TimeArrivals()
	}
	return nil
}

// prepare tells a port what the stages want of it, before its first Open.
func (s *Switch) prepare(p port.Port) error {
	if l, ok := p.(port.LargePasser); ok && pipeline.TakesLarge(s.chain) {
		l.PassLarge()
	}
	return s.timeArrivals(p)
}

// depths fills in, for each output port, how long the line is that this
// batch's packets would join: they all come from one queue, so they all leave
// by the same outlet.
func (w *Worker) depths(b *packet.Batch, inQueue uint8) {
	for p := range b.Depth {
		b.Depth[p] = w.outlets[w.route[p<<queueBits|int(inQueue)]].depth()
	}
}

// waits fills in, for each output port, how long the line of depths takes.
func (w *Worker) waits(b *packet.Batch, inQueue uint8) {
	for p := range b.Wait {
		o := &w.outlets[w.route[p<<queueBits|int(inQueue)]]
		b.Wait[p] = o.drain.wait(o.depth(), o.sent, w.now)
	}
}

// drain learns how long a queue takes for a frame, while frames wait in it.
type drain struct {
	at    int64 // when it began to look, and what it saw then; 0: nothing waits
	sent  uint32
	depth uint32
	each  int64 // ns
}

// A look takes so many frames, or so long if frames are rare.
const (
	lookFrames = 64
	lookTime   = int64(10 * time.Millisecond)
)

// wait returns how long a frame will wait, ns, that joins a line of so many at time now, ns, when sent frames have joined it before.
// Nothing is known of the first line until frames have left it.
func (d *drain) wait(depth, sent uint32, now int64) int64 {
	if depth == 0 {
		d.at = 0
		return 0
	}
	took, left := now-d.at, sent-d.sent+d.depth-depth
	switch {
	case d.at == 0 || took < 0:
		d.at, d.sent, d.depth = now, sent, depth
	case left >= lookFrames || left != 0 && took >= lookTime:
		each := took / int64(left)
		if d.each != 0 {
			each = (3*d.each + each) / 4
		}
		*d = drain{now, sent, depth, each}
	}
	return int64(depth) * d.each
}

// depth is how many frames wait in the worker's own queue, or how many packets
// wait to be taken over by the worker whose queue it is.
func (o *outlet) depth() uint32 {
	if o.queue == nil {
		return o.ring.len()
	}
	return uint32(max(o.queue.Depth(), 0))
}

// addBacklogs adds, for each port, how many frames wait in the worker's queues of it.
func (w *Worker) addBacklogs(sums []uint64) {
	for k := range w.outlets {
		if o := &w.outlets[k]; o.queue != nil && int(o.port) < len(sums) {
			sums[o.port] += uint64(o.depth())
		}
	}
}
