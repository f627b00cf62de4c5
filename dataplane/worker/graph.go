package worker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// wants are what the modules of a graph want of a worker.
type wants struct {
	needs  packet.Needs
	copies int // Copier
	large  bool
}

func wantsOf(chain []pipeline.Named) wants {
	v := wants{needs: pipeline.Needs(chain), large: pipeline.TakesLarge(chain)}
	for _, n := range chain {
		if c, ok := n.Module.(pipeline.Copier); ok {
			v.copies = max(v.copies, c.Copies())
		}
	}
	return v
}

// capacity is how many packets a batch has room for in a switch with n ports.
func (v *wants) capacity(n int) int { return packet.BatchSize * min(max(n, 2, v.copies), maxCopies) }

// background is the work of a module beside the packet path.
type background struct{ stop, done chan struct{} }

func (s *Switch) runBackground(m pipeline.Module) {
	work, ok := m.(pipeline.Background)
	if !ok {
		return
	}
	b := background{make(chan struct{}), make(chan struct{})}
	s.backgrounds[m] = b
	go func() {
		defer close(b.done)
		work.Run(b.stop)
	}()
}

// endBackgrounds ends the work of modules, and waits for it.
func (s *Switch) endBackgrounds(modules []pipeline.Module) {
	for _, m := range modules {
		if b, ok := s.backgrounds[m]; ok {
			close(b.stop)
		}
	}
	for _, m := range modules {
		if b, ok := s.backgrounds[m]; ok {
			<-b.done
			delete(s.backgrounds, m)
		}
	}
}

// Chain is the graph that the workers run.
func (s *Switch) Chain() []pipeline.Named { return *s.chain.Load() }

// GraphChange is a change of the graph while the switch runs, which Install makes and Abort leaves out.
//
//	ChangeGraph  the stages that come are made, with the memory that the workers need for them; packets see nothing of it
//	Install      all workers pause between two batches; modules join the graph, and the workers have it
//	             stages that come work beside the packet path; those that went have ended
//
// One goroutine makes one change at a time.
type GraphChange struct {
	// Paused is how long the workers waited for each other in Install, from when the first one had ended its batch until all went on.
	Paused time.Duration

	sw    *Switch
	chain []pipeline.Named
	wants
	next []successor // by worker
}

// successor is what a worker will have with another graph.
type successor struct {
	graph   *pipeline.Graph
	batch   *packet.Batch // nil: the one that it has is large enough
	idx     [][]uint16    // by outlet, for that batch
	homes   [][]uint16    // by worker, for it
	choices []uint8
	depth   []uint32
	wait    []packet.Wait
	lines   []*packet.Lines
	cutter  *cutter
	drop    func(*packet.Packet) // what stages that go have kept
}

// reasonLeft is that of packets that a stage has kept that leaves the graph.
var reasonLeft = packet.Register("stage_left", "the stage that kept the packet left the graph")

// parkTime is how long the workers may take to come to the end of their batches. They need microseconds; one that does not come at all is in a stage for good.
var parkTime = 5 * time.Second

// ChangeGraph makes ready that the workers run another graph, of modules that are checked and not joined; those of both graphs keep their stages, and what
// these know. An error leaves all as it was, but for modules that are new.
func (s *Switch) ChangeGraph(chain []pipeline.Named) (*GraphChange, error) {
	s.regraph.Lock()
	g := &GraphChange{sw: s, chain: chain, wants: wantsOf(chain)}
	err := g.prepare()
	if err != nil {
		return nil, errors.Join(err, g.Abort())
	}
	return g, nil
}

func (g *GraphChange) prepare() error {
	s := g.sw
	if s.ending {
		return errClosing
	}
	if err := pipeline.Check(g.chain); err != nil {
		return err
	}
	for _, n := range g.chain {
		if j, ok := n.Module.(pipeline.Joined); ok && !has(s.Chain(), n.Module) {
			if err := j.Join(g.chain); err != nil {
				return fmt.Errorf("stage %q: %w", n.Name, err)
			}
		}
	}
	if _, err := s.together(func() {}); err != nil { // would Install wait?
		return err
	}
	if g.needs&packet.NeedWait != 0 {
		s.shareLines()
	}
	g.next = make([]successor, len(s.workers))
	for i, w := range s.workers {
		g.next[i].graph = w.graph.Successor(g.chain, i)
	}
	if s.steers(g.next[0].graph) {
		s.joinHomes()
	}
	for i, w := range s.workers {
		outlets, ports, room := 0, 0, 0
		w.Do(func() { outlets, ports, room = len(w.outlets), len(w.counters), cap(w.batch.Pkts) })
		g.next[i].prepare(g, w.cache, outlets, ports, room)
		g.next[i].drop = func(p *packet.Packet) { w.drop(w.batch, p, reasonLeft) }
	}
	return nil
}

// prepare allocates what becomes of a worker's batch, which has room for so many packets, beside the worker.
func (n *successor) prepare(g *GraphChange, frames *packet.Cache, outlets, ports, room int) {
	if capacity := g.capacity(ports); room < capacity {
		n.batch, n.idx = packet.NewBatch(frames, capacity), make([][]uint16, outlets)
		for k := range n.idx {
			n.idx[k] = make([]uint16, capacity)
		}
		n.choices, n.homes = make([]uint8, capacity), make([][]uint16, len(g.sw.workers))
		for k := range n.homes {
			n.homes[k] = make([]uint16, capacity)
		}
	}
	n.lines = make([]*packet.Lines, ports)
	if g.needs&packet.NeedDepth != 0 {
		n.depth = make([]uint32, ports)
	}
	if g.needs&packet.NeedWait != 0 {
		n.wait = make([]packet.Wait, ports)
	}
	if g.large {
		n.cutter = newCutter(frames)
	}
}

// shareLines has workers tell each other what waits in their queues, as a stage is about to ask for it.
func (s *Switch) shareLines() {
	if len(s.workers) < 2 || s.arrival {
		for _, w := range s.workers {
			w.Do(func() { w.far = append(w.far, make([]*line, len(w.route)-len(w.far))...) })
		}
		return
	}
	for _, w := range s.workers {
		w.Do(func() {
			w.far = append(w.far, make([]*line, len(w.route)-len(w.far))...)
			for k := range w.outlets {
				if o := &w.outlets[k]; o.queue != nil && o.line == nil {
					o.line = new(line)
				}
			}
			w.shows = true
		})
	}
	for _, seat := range s.members() {
		s.showLines(seat.number, seat.port.Info().Queues)
	}
}

// Abort leaves the graph as it is.
func (g *GraphChange) Abort() error {
	defer g.sw.regraph.Unlock()
	for _, w := range g.sw.workers {
		if needs := w.wants.needs; needs&packet.NeedWait == 0 && g.next != nil {
			w.Do(func() { w.shows = false })
		}
	}
	return nil
}

// Install has the workers run the graph: each batch, of all workers, is of the one or the other, and those of the new one come after all of the old one. What it
// returns is the modules that went: their stages have handed over what they measured, and their work beside the packet path has ended. An error says that the graph
// is the one of before.
func (g *GraphChange) Install() (went []pipeline.Named, err error) {
	s := g.sw
	defer s.regraph.Unlock()
	old := s.Chain()
	s.receive(slices.Concat(old, g.chain)) // no packet is missed that one of both needs
	var joinErr error
	g.Paused, err = s.together(func() {
		s.emptyHomes() // these packets have passed stages of the graph of before
		if joinErr = pipeline.Join(g.chain); joinErr != nil {
			joinErr = errors.Join(joinErr, pipeline.Join(old))
			return
		}
		for _, seat := range s.members() {
			if p, ok := seat.port.(port.LargePasser); ok {
				p.PassLarge(g.large)
			}
		}
		for i, w := range s.workers {
			w.become(&g.next[i], g.wants)
		}
		s.chain.Store(&g.chain)
	})
	if err = errors.Join(err, joinErr); err != nil {
		return nil, err
	}
	var ended []pipeline.Module
	for _, n := range old {
		if !has(g.chain, n.Module) {
			went = append(went, n)
			ended = append(ended, n.Module)
		}
	}
	if s.running.Load() {
		for _, n := range g.chain {
			if !has(old, n.Module) {
				s.runBackground(n.Module)
			}
		}
	}
	s.endBackgrounds(ended)
	return went, nil
}

func has(chain []pipeline.Named, m pipeline.Module) bool {
	return slices.ContainsFunc(chain, func(n pipeline.Named) bool { return n.Module == m })
}

// together calls fn while all workers wait between two batches, and returns for how long the first one did. If one does not come, fn is not called.
func (s *Switch) together(fn func()) (paused time.Duration, err error) {
	var first time.Time
	arrived, release := make(chan int, len(s.workers)), make(chan struct{})
	var all sync.WaitGroup
	for i, w := range s.workers {
		all.Go(func() {
			w.Do(func() {
				arrived <- i
				<-release
			})
		})
	}
	late := time.NewTimer(parkTime)
	defer late.Stop()
	missing := make(map[int]bool, len(s.workers))
	for i := range s.workers {
		missing[i] = true
	}
	for len(missing) != 0 {
		select {
		case i := <-arrived:
			if len(missing) == len(s.workers) {
				first = time.Now()
			}
			delete(missing, i)
		case <-late.C:
			close(release)
			for i := range s.workers {
				if missing[i] {
					return 0, fmt.Errorf("worker %d has been in a batch for %v: restart the switch", i, parkTime)
				}
			}
		}
	}
	fn()
	close(release)
	paused = time.Since(first)
	all.Wait()
	return paused, nil
}

// become gives a worker that waits another graph. It does not allocate.
func (w *Worker) become(next *successor, v wants) {
	if !w.sw.arrival {
		w.now = w.clock.Now()
	}
	w.graph.Release(next.graph, next.drop)
	w.graph.Become(next.graph, w.now)
	w.steers = w.sw.steers(w.graph)
	fresh := v.needs&packet.NeedWait != 0 && w.wants.needs&packet.NeedWait == 0
	w.wants = v
	if next.batch != nil {
		w.batch = next.batch
		for k := range next.idx {
			w.outlets[k].idx = next.idx[k]
		}
		w.choices = next.choices
		for k := range w.homes {
			w.homes[k].idx = next.homes[k]
		}
	}
	w.batch.Depth, w.batch.Wait, w.batch.Lines = next.depth, next.wait, nil
	if w.classed != 0 && v.needs&(packet.NeedDepth|packet.NeedWait) != 0 {
		w.batch.Lines = next.lines
	}
	if fresh { // what was seen when they were looked at last says nothing now
		for k := range w.outlets {
			o := &w.outlets[k]
			if o.drain = (drain{}); o.lines != nil {
				clear(o.lines.drains[:])
				o.lines.device = drain{}
			}
		}
	}
	w.shows = w.shows && v.needs&packet.NeedWait != 0
	if w.cutter == nil { // one that is there stays: large packets may wait for a neighbour
		w.cutter = next.cutter
	}
}
