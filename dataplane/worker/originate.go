package worker

import (
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Originate has frames of the switch's own leave by a port, in order and past the stages, and returns how many a queue of the port
// took. The others were dropped, and counted with their reasons: a frame counts as a copy at its port. It may be called by any goroutine
// but a worker's.
func (s *Switch) Originate(number uint16, frames ...[]byte) (sent int) {
	w, k := s.senderOf(number)
	if w == nil {
		return 0
	}
	for len(frames) > 0 {
		n := min(len(frames), packet.BatchSize)
		w.Do(func() {
			if !w.hasEnded() {
				sent += w.originate(number, k, frames[:n])
			}
		})
		frames = frames[n:]
	}
	return sent
}

// senderOf finds a worker that owns a queue of a port, and which of its queues that is.
func (s *Switch) senderOf(number uint16) (w *Worker, k int) {
	for _, seat := range s.members() {
		if seat.number != int(number) {
			continue
		}
		for _, slot := range s.slots(seat.number, seat.port.Info().Queues) {
			if slot.w != nil {
				return slot.w, slot.k
			}
		}
	}
	return nil, 0
}

// originate sends frames by a queue of the worker, between two batches.
func (w *Worker) originate(number uint16, k int, frames [][]byte) (sent int) {
	b, c := w.batch, &w.counters[number]
	o := &w.outlets[w.queues[k].outlet]
	for _, frame := range frames {
		c.copied++
		if len(frame) > w.sw.pool.FrameSize()-port.Headroom {
			c.fate[1].reasons[packet.ReasonTooLong]++
			continue
		}
		addr, ok := b.Frames.AllocOne()
		if !ok {
			c.fate[1].reasons[packet.ReasonNoFrame]++
			continue
		}
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr+port.Headroom, uint32(len(frame)), uint32(len(frame))
		p.InPort, p.OutPort, p.Flags = number, number, packet.FlagCopy
		copy(b.Data(p), frame)
		o.idx[o.n] = uint16(len(b.Pkts) - 1)
		o.n++
		o.bytes += uint64(len(frame))
	}
	before := c.fate[1].forwarded
	if o.n != 0 {
		w.send(b, o, true)
	}
	b.Reset()
	return int(c.fate[1].forwarded - before)
}
