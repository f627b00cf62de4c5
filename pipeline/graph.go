package pipeline

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"
)

// Named is a module with the name by which the configuration knows it.
type Named struct {
	Name   string
	Module Module
}

// Check reports all faults of a graph, joined: every graph begins with its one
// parse stage, has one forwarding stage or those of a bridge with a router, and is in the order of roles. A stage whose
// module is nil has faults that are reported elsewhere, and is passed over.
func Check(chain []Named) error {
	var errs []error
	seen := map[string]bool{}
	forward, unknown := 0, 0
	steerer := ""  // the stage that gives packets a home
	last := -1     // the stage in front whose role is known
	former := ""   // the forwarding stage in front
	apart := false // a forwarding stage is behind one that it does not follow
	for i, n := range chain {
		if seen[n.Name] {
			errs = append(errs, fmt.Errorf("stage %q appears twice: remove one", n.Name))
		}
		seen[n.Name] = true
		if n.Module == nil {
			unknown++
			continue
		}
		if _, ok := n.Module.(Steerer); ok {
			if steerer != "" {
				errs = append(errs, fmt.Errorf("stages %q and %q both choose the worker of a packet: remove one", steerer, n.Name))
			}
			steerer = n.Name
		}
		role := n.Module.Role()
		if role == RoleForward {
			f, ok := n.Module.(Follower)
			name, always := "", false
			if ok {
				name, always = f.Follows()
			}
			apart = apart || former != "" && former != name && unknown == 0
			if always && former != name && unknown == 0 {
				errs = append(errs, fmt.Errorf("stage %q is not behind %q: write it there, or remove it", n.Name, name))
			}
			former = n.Name
			forward++
		}
		if i == 0 && role != RoleParse {
			errs = append(errs, fmt.Errorf("the graph begins with %q: let it begin with \"parse\"", n.Name))
		}
		if last >= 0 && role < chain[last].Module.Role() {
			errs = append(errs, fmt.Errorf("stage %q (%s) is behind %q (%s): move it in front",
				n.Name, role, chain[last].Name, chain[last].Module.Role()))
		}
		last = i
	}
	if apart || forward == 0 && unknown == 0 {
		errs = append(errs, fmt.Errorf("the graph has %d forwarding stages: name exactly one (patch, l2 or l3), or a bridge with a router (l2, l3, irb)", forward))
	}
	return errors.Join(errs...)
}

// Needs joins what the modules need.
func Needs(chain []Named) packet.Needs {
	var n packet.Needs
	for _, m := range chain {
		n |= m.Module.Needs()
	}
	return n
}

// sampleEvery is how many batches pass between two that are timed stage by
// stage; timing costs a clock reading per stage.
const sampleEvery = 64

// Graph is one worker's chain of stages. Run and the counters belong to the
// worker; SetTracer may be called from anywhere.
//
// Where a module gives packets a home among several workers (Steerer), the worker calls Front, Steer and Back instead of Run, and hands packets over
// between them.
type Graph struct {
	chain    []Named
	stages   []Stage
	counters []StageCounters
	tracer   atomic.Pointer[Tracer]
	batches  [2]uint64 // that began at the first stage, and in Back

	worker  int
	steerer Steerer // nil: packets have no home
	steerAt int     // the steerer's index

	tickers  []Ticker
	tickerAt []int   // by ticker: where it is in the chain
	due      []int64 // by ticker: its next call
	next     int64   // the least of due; never if there is no ticker
	ticked   int64   // the clock at the last call
	finished bool    // Finish was called
	onTick   func(now int64)

	emitters []Emitter
	emitting bool // they have not been asked since the last call

	from []int // of a successor: where its stages were in the chain before, -1 for those that come

	_ [64]byte // what lies behind in memory is another worker's graph, which counts its batches
}

// never is the time of a call that does not come.
const never = math.MaxInt64

// StageCounters count what one stage of one worker did.
type StageCounters struct {
	Name           string `json:"name"`
	Batches        uint64 `json:"batches"`
	Packets        uint64 `json:"packets"` // living packets that entered
	Dropped        uint64 `json:"dropped"` // of these, dropped by this stage
	Copied         uint64 `json:"copied"`  // copies that this stage made
	SampledPackets uint64 `json:"sampled_packets"`
	SampledNs      uint64 `json:"sampled_ns"`
}

// NsPerPacket returns the sampled cost of the stage, 0 before the first sample.
func (c StageCounters) NsPerPacket() float64 {
	if c.SampledPackets == 0 {
		return 0
	}
	return float64(c.SampledNs) / float64(c.SampledPackets)
}

// Add sums the counters of the same stage of another worker into c.
func (c *StageCounters) Add(o StageCounters) {
	c.Batches += o.Batches
	c.Packets += o.Packets
	c.Dropped += o.Dropped
	c.Copied += o.Copied
	c.SampledPackets += o.SampledPackets
	c.SampledNs += o.SampledNs
}

// NewGraph makes worker w's graph of a checked chain.
func NewGraph(chain []Named, w int) *Graph {
	g := &Graph{
		chain:    chain,
		stages:   make([]Stage, len(chain)),
		counters: make([]StageCounters, len(chain)),
		worker:   w,
	}
	for i, n := range chain {
		g.stages[i] = n.Module.Stage(w)
		g.counters[i].Name = n.Name
	}
	g.schedule()
	return g
}

// schedule finds the stages that work by the clock, all of which are due, and the one that knows the homes of packets.
func (g *Graph) schedule() {
	for i, s := range g.stages {
		if steerer, ok := g.chain[i].Module.(Steerer); ok {
			g.steerer, g.steerAt = steerer, i
		}
		if t, ok := s.(Ticker); ok {
			g.tickers, g.tickerAt = append(g.tickers, t), append(g.tickerAt, i)
		}
		if e, ok := s.(Emitter); ok {
			g.emitters = append(g.emitters, e)
		}
	}
	g.due = make([]int64, len(g.tickers))
	if len(g.tickers) == 0 {
		g.next = never
	}
}

// Run takes a batch with at least one packet through all stages.
func (g *Graph) Run(b *packet.Batch) { g.run(b, 0, len(g.stages), &g.batches[0]) }

// Steers reports whether a module of the graph gives packets a home.
func (g *Graph) Steers() bool { return g.steerer != nil }

// Front takes a batch with at least one packet through the stages in front of the one that steers.
func (g *Graph) Front(b *packet.Batch) { g.run(b, 0, g.steerAt, &g.batches[0]) }

// Steer writes the homes of a batch's packets (Steerer.Steer).
func (g *Graph) Steer(b *packet.Batch, from int, homes []uint8) {
	g.steerer.Steer(g.worker, b, from, homes)
	if t := g.tracer.Load(); t != nil && t.parked.Load() != 0 {
		t.steered(g, b, homes)
	}
}

// Refused notes that a packet, whose home Steer has written, is dropped on the way there. It is called before its frame is free.
func (g *Graph) Refused(b *packet.Batch, p *packet.Packet, r packet.Reason) {
	if t := g.tracer.Load(); t != nil && t.parked.Load() != 0 {
		t.refused(g, b, p, r)
	}
}

// Back takes a batch with at least one packet, all of one input port and queue, through the stage that steers and those after it.
func (g *Graph) Back(b *packet.Batch) { g.run(b, g.steerAt, len(g.stages), &g.batches[1]) }

// run takes a batch through the stages first to last-1.
func (g *Graph) run(b *packet.Batch, first, last int, batches *uint64) {
	*batches++
	if b.Now >= g.next || b.Now < g.ticked {
		g.Tick(b.Now)
	}
	if t := g.tracer.Load(); t != nil && (!t.Done() || t.parked.Load() != 0) {
		g.runTraced(b, t, first, last)
		return
	}
	if *batches%sampleEvery == 0 {
		g.runSampled(b, first, last)
		return
	}
	for i := first; i < last; i++ {
		living, dropped, copied := len(b.Pkts)-b.Dropped, b.Dropped, b.Copied
		g.stages[i].Process(b)
		g.count(i, b, living, dropped, copied)
	}
}

// NextTick is the time by which Tick wants to be called, though no packet
// comes; the largest integer if never.
func (g *Graph) NextTick() int64 { return g.next }

// Tick calls the tickers whose time has come. Run does so by itself; a worker
// that idles must. If the clock ran backwards, all of them are called.
func (g *Graph) Tick(now int64) {
	if len(g.tickers) == 0 {
		return // not even the clock that steps back is theirs
	}
	g.emitting = len(g.emitters) != 0
	back := now < g.ticked
	g.next, g.ticked = never, now
	for i, t := range g.tickers {
		if back || now >= g.due[i] {
			g.due[i] = t.Tick(now)
		}
		g.next = min(g.next, g.due[i])
	}
	if g.onTick != nil {
		g.onTick(now)
	}
}

// Emitting reports whether stages may have packets of the switch's own, for Emit to collect.
func (g *Graph) Emitting() bool { return g.emitting }

// Emit appends these packets to an empty batch. Their input port is their output port, and they are marked as copies.
func (g *Graph) Emit(b *packet.Batch) {
	g.emitting = false
	for _, e := range g.emitters {
		e.Emit(b)
	}
}

// Finish ends the tickers, behind the last batch.
func (g *Graph) Finish(now int64) {
	g.finished = true
	for _, t := range g.tickers {
		t.Finish(now)
	}
	if g.onTick != nil && len(g.tickers) != 0 {
		g.onTick(now)
	}
}

// OnTick makes the graph call f, on the worker, behind every round of Tick and
// Finish: a replay collects there what the stages handed over, since its clock
// runs faster than any goroutine's. To be set before the first batch.
func (g *Graph) OnTick(f func(now int64)) { g.onTick = f }

func (g *Graph) count(i int, b *packet.Batch, living, dropped, copied int) {
	c := &g.counters[i]
	c.Batches++
	c.Packets += uint64(living)
	c.Dropped += uint64(b.Dropped - dropped)
	c.Copied += uint64(b.Copied - copied)
}

// clockBase anchors monotonic time: time.Since reads the clock without a
// system call and without building a time.Time of the day.
var clockBase = time.Now()

func (g *Graph) runSampled(b *packet.Batch, first, last int) {
	for i := first; i < last; i++ {
		living, dropped, copied := len(b.Pkts)-b.Dropped, b.Dropped, b.Copied
		start := time.Since(clockBase)
		g.stages[i].Process(b)
		ns := time.Since(clockBase) - start
		g.count(i, b, living, dropped, copied)
		g.counters[i].SampledPackets += uint64(living)
		g.counters[i].SampledNs += uint64(ns)
	}
}

// AppendCounters appends a copy of the stages' counters to dst, in graph order.
func (g *Graph) AppendCounters(dst []StageCounters) []StageCounters {
	return append(dst, g.counters...)
}

// SetTracer sets the tracer for the batches to come; nil ends tracing.
func (g *Graph) SetTracer(t *Tracer) { g.tracer.Store(t) }
