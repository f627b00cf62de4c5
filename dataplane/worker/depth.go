package worker

import (
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
