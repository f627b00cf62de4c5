package pint

import (
	"sync"

	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/telemetry/pint"
)

// followLines has the ports know what waits at them by class, where they have classes.
func (s *stage) followLines(b *packet.Batch) {
	s.classed = len(b.Lines) != 0
	for i := range s.ports {
		s.ports[i].lines = nil
		if i < len(b.Lines) {
			s.ports[i].lines = b.Lines[i]
			if l := b.Lines[i]; l != nil {
				s.ports[i].waits = l.Wait
			}
		}
	}
}

// beginBatch counts what leaves by each port, and learns how much the links are
// used: a batch leaves at one moment, so it counts as one packet of all its
// bytes, which is what as many updates without time between them add up to. A run that is
// the whole batch is counted already.
func (s *stage) beginBatch(b *packet.Batch, whole *run) {
	for i := range s.ports {
		out := &s.ports[i]
		out.inBatch, out.bytes = 0, 0
		if i < len(b.Depth) {
			out.waiting = uint64(b.Depth[i])
		}
		if out.lines != nil {
			out.inClass = [packet.MaxClasses]uint64{}
		}
	}
	if !s.needUse {
		return
	}
	if whole.taken > 0 && whole.taken == len(b.Pkts) {
		whole.out.inBatch, whole.out.bytes = uint64(whole.taken), whole.bytes
	} else {
		s.countBatch(b)
	}
	for i := range s.ports {
		out := &s.ports[i]
		if out.inBatch == 0 {
			continue
		}
		// What waits is known in packets: they count with the mean length.
		out.use.Update(uint64(s.now), out.waiting*(out.bytes/out.inBatch), out.bytes)
		out.used = out.use.Value()
		out.inBatch = 0
	}
}

// countBatch counts packets and bytes by the port that they leave by.
func (s *stage) countBatch(b *packet.Batch) {
	// Packets of a batch often leave by the same port, one after another: they are
	// added up in registers.
	at, packets, bytes := 0, uint64(0), uint64(0)
	for i := range b.Pkts {
		p := &b.Pkts[i]
		if p.Reason != 0 || int(p.OutPort) >= len(s.ports) {
			continue
		}
		if int(p.OutPort) != at {
			s.ports[at].inBatch += packets
			s.ports[at].bytes += bytes
			at, packets, bytes = int(p.OutPort), 0, 0
		}
		packets++
		bytes += uint64(p.WireLen)
	}
	if packets > 0 {
		s.ports[at].inBatch += packets
		s.ports[at].bytes += bytes
	}
}

// observe finds out what the plans ask of a packet (table 1 of the paper). It is
// called for every packet that leaves, so that what is measured here is of all.
func (s *stage) observe(b *packet.Batch, p *packet.Packet, out *port) {
	v := &s.seen
	wait, waiting, ring, before := &out.wait, out.waiting, out.ring, &out.inBatch
	if l := out.lines; l != nil { // what waits is of the packet's class
		c := l.Class(b.Mem, p) & (packet.MaxClasses - 1) // BCE
		wait, waiting, ring, before = &out.waits[c], uint64(l.Depth[c]), uint64(max(l.Room[c], 1)), &out.inClass[c]
	}
	v[pint.IngressPort], v[pint.EgressPort] = uint64(p.InPort), uint64(p.OutPort)
	v[pint.IngressTime] = uint64(p.Arrival)
	v[pint.EgressUtilisation] = out.used
	if s.needLatency {
		// Arrival may be a clock's of another core, or a capture's.
		latency := uint64(max(0, s.now+wait.First-p.Arrival))
		wait.First += wait.Each
		v[pint.HopLatency] = latency
		out.latency.add(latency)
	}
	if s.needQueue {
		// The packets that waited when the batch began, and those of the batch
		// in front of this one.
		waiting += *before
		*before++
		v[pint.QueueOccupancy] = waiting
		v[pint.QueueCongestion] = min(100*waiting/ring, 100)
		out.queue.add(waiting)
	}
}

// shown is the copy of a worker's histograms for questions. The worker renews
// it by its clock, if it is not being read at that moment.
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
