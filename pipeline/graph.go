package pipeline

import (
	"errors"
	"fmt"
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
// parse stage, has one forwarding stage, and stands in the order of roles.
func Check(chain []Named) error {
	var errs []error
	seen := map[string]bool{}
	forward := 0
	for i, n := range chain {
		role := n.Module.Role()
		if seen[n.Name] {
			errs = append(errs, fmt.Errorf("stage %q stands twice: remove one", n.Name))
		}
		seen[n.Name] = true
		if role == RoleForward {
			forward++
		}
		if i == 0 && role != RoleParse {
			errs = append(errs, fmt.Errorf("the graph begins with %q: let it begin with \"parse\"", n.Name))
		}
		if i > 0 && role < chain[i-1].Module.Role() {
			errs = append(errs, fmt.Errorf("stage %q (%s) stands behind %q (%s): move it in front",
				n.Name, role, chain[i-1].Name, chain[i-1].Module.Role()))
		}
	}
	if forward != 1 {
		errs = append(errs, fmt.Errorf("the graph has %d forwarding stages: name exactly one (patch, l2 or l3)", forward))
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
type Graph struct {
	stages   []Stage
	counters []StageCounters
	tracer   atomic.Pointer[Tracer]
	batches  uint64
}

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
		stages:   make([]Stage, len(chain)),
		counters: make([]StageCounters, len(chain)),
	}
	for i, n := range chain {
		g.stages[i] = n.Module.Stage(w)
		g.counters[i].Name = n.Name
	}
	return g
}

// Run takes a batch with at least one packet through all stages.
func (g *Graph) Run(b *packet.Batch) {
	g.batches++
	if t := g.tracer.Load(); t != nil && !t.Done() {
		g.runTraced(b, t)
		return
	}
	if g.batches%sampleEvery == 0 {
		g.runSampled(b)
		return
	}
	for i, s := range g.stages {
		living, dropped, copied := len(b.Pkts)-b.Dropped, b.Dropped, b.Copied
		s.Process(b)
		g.count(i, b, living, dropped, copied)
	}
}

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

func (g *Graph) runSampled(b *packet.Batch) {
	for i, s := range g.stages {
		living, dropped, copied := len(b.Pkts)-b.Dropped, b.Dropped, b.Copied
		start := time.Since(clockBase)
		s.Process(b)
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
