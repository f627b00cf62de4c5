package worker

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// timeArrivals has a port find out when packets arrive, if a stage wants to
// know. The batch's clock does for ports that cannot.
func (s *Switch) timeArrivals(p port.Port) error {
	if t, ok := p.(port.ArrivalTimer); ok && pipeline.Needs(s.Chain())&packet.NeedArrival != 0 {
		return t.TimeArrivals()
	}
	return nil
}

// prepare tells a port what the stages want of it, before its first Open.
func (s *Switch) prepare(p port.Port) error {
	if l, ok := p.(port.LargePasser); ok {
		l.PassLarge(pipeline.TakesLarge(s.Chain()))
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

// waits fills in, for each output port, how long packets will wait in the line of depths.
func (w *Worker) waits(b *packet.Batch, inQueue uint8) {
	for p := range b.Wait {
		at := p<<queueBits | int(inQueue)
		o := &w.outlets[w.route[at]]
		wait := o.drain.wait(o.depth(), o.sent, w.now)
		if o.queue == nil {
			wait.First += w.far[at].left(w.now)
		}
		b.Wait[p] = wait
	}
}

// drain learns how long a queue takes for a frame, from what leaves it while frames wait in it. Between two looks that both find frames there
// it was never empty, but for the moment from the first look until packets joined that were looked for: it is first in, first out.
//
// What is known is a sum of time and one of frames. Old parts of them fade as new ones come.
type drain struct {
	at    int64  // of the last look, ns; 0: there was none
	busy  int64  // ns that frames waited
	sent  uint32 // frames that had joined it before the last look, and how many waited then
	depth uint32
	left  uint32 // frames that left in busy
}

// What of the past counts: at most so many frames, or so long if frames are rare; and of what was before the line was empty, so many frames.
const (
	drainFrames = 256
	drainTime   = int64(10 * time.Millisecond)
	drainRare   = 16
	drainBefore = 32
)

// wait learns from a look at time now, ns, at a line of depth frames, when sent frames have joined it so far; both wrap. It returns how long packets wait
// that join now. Until a frame has left the first line, that is at least as long as those in front have waited.
func (d *drain) wait(depth, sent uint32, now int64) packet.Wait {
	before := *d
	d.at, d.sent, d.depth = now, sent, depth
	if depth == 0 {
		d.fade(drainBefore)
		return packet.Wait{}
	}
	// Frames wait since the last look, or, if it found none, since soon after it: that has a stage's time in it, and is for a beginning. Time may be set back,
	// and frames may come without the worker: then this look is the first.
	took, gone := now-before.at, int32(sent-before.sent+before.depth-depth)
	if before.at != 0 && (before.depth != 0 || d.left < drainRare) && took >= 0 && gone >= 0 {
		d.busy, d.left = min(d.busy+took, packet.MaxWait), d.left+uint32(gone)
		d.fade(drainFrames)
		if d.busy >= drainTime && d.left >= drainRare {
			d.busy, d.left = d.busy/2, d.left/2
		}
	}
	if d.left == 0 {
		return packet.Wait{First: d.busy}
	}
	return packet.Wait{First: d.first(depth), Each: min(d.busy/int64(d.left), packet.MaxWait/drainFrames)}
}

// fade keeps less than so many frames of the past.
func (d *drain) fade(frames uint32) {
	if over := bits.Len32(d.left / frames); over > 0 {
		d.busy, d.left = d.busy>>over, d.left>>over
	}
}

// first is how long a packet waits behind so many frames.
func (d *drain) first(depth uint32) int64 {
	if depth == 0 || d.left == 0 {
		return 0
	}
	// busy is at most 2^36, and depth at most 2^20: a ring's length.
	return min(int64(min(depth, 1<<20))*d.busy/int64(d.left), packet.MaxWait)
}

// line is what other workers know of a queue's line. Its owner writes it, in a line of memory of the cache that it shares with nothing.
type line struct {
	_     [64]byte
	empty atomic.Int64 // when the last frame in it will have left, ns
	_     [56]byte
}

// left is how long a packet that joins the line at time now will wait, ns.
func (l *line) left(now int64) int64 {
	if l == nil {
		return 0
	}
	return min(max(l.empty.Load()-now, 0), packet.MaxWait)
}

// look learns from the worker's own queues, before packets of other workers join them.
func (w *Worker) look(now int64) {
	for k := range w.outlets {
		if o := &w.outlets[k]; o.line != nil {
			o.drain.wait(o.depth(), o.sent, now)
		}
	}
}

// show tells other workers of the lines at the worker's queues, which packets have joined at time now.
func (w *Worker) show(now int64) {
	for k := range w.outlets {
		o := &w.outlets[k]
		if o.line == nil {
			continue
		}
		// Written only if it says something new: others read it with each batch.
		if wait := o.drain.first(o.depth()); wait != 0 || o.line.empty.Load() > now {
			o.line.empty.Store(now + wait)
		}
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
