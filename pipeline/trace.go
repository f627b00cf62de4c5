package pipeline

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Tracer records, in words, what stages did to some packets. One
// tracer may serve the graphs of all workers. A graph without a tracer pays
// one pointer load per batch.
type Tracer struct {
	tap   *Tap // nil for one that collects words
	match func(b *packet.Batch, p *packet.Packet) bool
	left  atomic.Int64

	// parked is the number of packets between Graph.Front and Back, which may be on their way to another worker.
	parked atomic.Int32

	mu     sync.Mutex
	traces []Trace
	park   map[uint64]*Trace // those packets' traces, by frame
}

// Trace is the path of one packet through a graph.
type Trace struct {
	Length uint32 // bytes on the wire
	InPort uint16
	Steps  []Step
}

// Step is what one stage did to a traced packet.
type Step struct {
	Stage string
	Text  string
}

// NewTracer returns a tracer of the first limit packets for which match says
// yes; nil matches all. match sees packets before the first stage.
func NewTracer(limit int, match func(*packet.Batch, *packet.Packet) bool) *Tracer {
	if match == nil {
		match = func(*packet.Batch, *packet.Packet) bool { return true }
	}
	t := &Tracer{match: match}
	t.left.Store(int64(limit))
	return t
}

// Traces returns what was collected so far, in the order of completion.
func (t *Tracer) Traces() []Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Trace(nil), t.traces...)
}

// Done reports whether the tracer has seen as many packets as it wanted.
func (t *Tracer) Done() bool { return t.left.Load() <= 0 }

// runTraced is the slow twin of Run. It allocates; tracing is not free while
// it is on. Packets are known again behind each stage by the address of their
// frame, which originals keep wherever a stage moves them in the batch.
func (g *Graph) runTraced(b *packet.Batch, t *Tracer, first, last int) {
	if t.tap != nil {
		g.runTapped(b, t.tap, first, last)
		return
	}
	traced := map[uint64]*Trace{}
	var order []*Trace
	for i := range b.Pkts {
		p := &b.Pkts[i]
		base := b.Pool().Base(p.Addr)
		tr := t.unpark(base) // also in front: what was dropped on its way leaves none
		if first == 0 {
			if t.left.Load() <= 0 || !t.match(b, p) || t.left.Add(-1) < 0 {
				continue
			}
			tr = &Trace{Length: p.WireLen, InPort: p.InPort}
		}
		if tr != nil {
			traced[base] = tr
			order = append(order, tr)
		}
	}
	for i := first; i < last; i++ {
		s := g.stages[i]
		living, dropped, copied := len(b.Pkts)-b.Dropped, b.Dropped, b.Copied
		alive := map[uint64]bool{}
		for j := range b.Pkts {
			alive[b.Pool().Base(b.Pkts[j].Addr)] = b.Pkts[j].Reason == 0
		}
		s.Process(b)
		g.count(i, b, living, dropped, copied)
		for j := range b.Pkts {
			p := &b.Pkts[j]
			base := b.Pool().Base(p.Addr)
			if tr := traced[base]; tr != nil && alive[base] {
				tr.Steps = append(tr.Steps, Step{g.counters[i].Name, explain(s, b, p)})
			}
		}
	}
	if last < len(g.stages) {
		for i := range b.Pkts {
			p := &b.Pkts[i]
			base := b.Pool().Base(p.Addr)
			if tr := traced[base]; tr != nil && p.Reason == 0 {
				order = slices.DeleteFunc(order, func(o *Trace) bool { return o == tr })
				t.parkAt(base, tr)
			}
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range order {
		t.traces = append(t.traces, *tr)
	}
}

// parkAt keeps the trace of a packet whose way through the graph goes on, maybe on another worker.
func (t *Tracer) parkAt(base uint64, tr *Trace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.park == nil {
		t.park = map[uint64]*Trace{}
	}
	t.park[base] = tr
	t.parked.Store(int32(len(t.park)))
}

func (t *Tracer) unpark(base uint64) *Trace {
	t.mu.Lock()
	defer t.mu.Unlock()
	tr := t.park[base]
	delete(t.park, base)
	t.parked.Store(int32(len(t.park)))
	return tr
}

// steered adds to the traces of packets that are handed over to which worker they go.
func (t *Tracer) steered(g *Graph, b *packet.Batch, homes []uint8) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, home := range homes {
		if tr := t.park[b.Pool().Base(b.Pkts[i].Addr)]; tr != nil && int(home) != g.worker {
			tr.Steps = append(tr.Steps, Step{g.counters[g.steerAt].Name, fmt.Sprintf("handed over to worker %d", home)})
		}
	}
}

// refused ends the trace of a packet that is dropped on its way to its home.
func (t *Tracer) refused(g *Graph, b *packet.Batch, p *packet.Packet, r packet.Reason) {
	if tr := t.unpark(b.Pool().Base(p.Addr)); tr != nil {
		tr.Steps = append(tr.Steps, Step{g.counters[g.steerAt].Name, fmt.Sprintf("dropped: %s (%s)", r, r.Help())})
		t.mu.Lock()
		defer t.mu.Unlock()
		t.traces = append(t.traces, *tr)
	}
}

func explain(s Stage, b *packet.Batch, p *packet.Packet) string {
	text := ""
	if e, ok := s.(Explainer); ok {
		text = e.Explain(b, p)
	}
	switch {
	case p.Reason == packet.Consumed:
		text = join(text, "consumed")
	case p.Reason != 0:
		text = join(text, fmt.Sprintf("dropped: %s (%s)", p.Reason, p.Reason.Help()))
	}
	if text == "" {
		text = "passed"
	}
	return text
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
