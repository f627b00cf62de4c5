package pint

import (
	"sync"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
)

// observe finds out what the plans ask of a packet (table 1 of the paper). It is
// called for every packet that leaves, for ports are used by all of them.
func (s *stage) observe(b *packet.Batch, p *packet.Packet, out *port) {
	v := &s.seen
	v[pint.IngressPort], v[pint.EgressPort] = uint64(p.InPort), uint64(p.OutPort)
	v[pint.IngressTime] = uint64(p.Arrival)
	if s.needLatency {
		// Arrival may be a clock's of another core, or a capture's.
		latency := uint64(max(0, s.now-p.Arrival))
		v[pint.HopLatency] = latency
		out.latency.add(latency)
	}
	if s.needQueue || s.needUse {
		s.observeQueue(b, p, out)
	}
}

// observeQueue is for what depends on the output queue: the packets that waited
// there when the batch began, and those of the batch in front of this one.
func (s *stage) observeQueue(b *packet.Batch, p *packet.Packet, out *port) {
	waiting := out.inBatch
	if int(p.OutPort) < len(b.Depth) {
		waiting += uint64(b.Depth[p.OutPort])
	}
	out.inBatch++
	v := &s.seen
	if s.needQueue {
		v[pint.QueueOccupancy] = waiting
		v[pint.QueueCongestion] = min(100*waiting/out.ring, 100)
		out.queue.add(waiting)
	}
	if s.needUse {
		out.bytes += uint64(p.WireLen)
		out.packets++
		// What waits is known in packets: they count with the mean length.
		out.use.Update(uint64(s.now), waiting*(out.bytes/out.packets), uint64(p.WireLen))
		v[pint.EgressUtilisation] = out.use.Value()
	}
}

// shown is the copy of a worker's histograms for questions. The worker renews
// it by its clock, if nobody reads at that moment.
type shown struct {
	mu             sync.Mutex
	latency, queue []histogram // by port
}

func (s *shown) init(ports int) {
	s.latency, s.queue = make([]histogram, ports), make([]histogram, ports)
}

// showEvery is how old the copy gets, in nanoseconds.
const showEvery = 100_000_000

// Tick implements pipeline.Ticker.
func (s *stage) Tick(now int64) (next int64) {
	if s.shown.mu.TryLock() {
		s.show()
	}
	return now + showEvery
}

// Finish implements pipeline.Ticker.
func (s *stage) Finish(int64) {
	s.shown.mu.Lock()
	s.show()
}

// show renews the copy, and unlocks it.
func (s *stage) show() {
	for i := range s.ports {
		if p := &s.ports[i]; p.latency.total != s.shown.latency[i].total || p.queue.total != s.shown.queue[i].total {
			s.shown.latency[i], s.shown.queue[i] = *p.latency, *p.queue
		}
	}
	s.shown.mu.Unlock()
}
