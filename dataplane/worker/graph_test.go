package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Where the packets of these tests have the number that their queue gave them, and the generation of the graph that they are in.
const (
	numberAt     = 16
	generationAt = 32
)

// passed is what the stages of all graphs of a test have seen.
type passed struct {
	newest atomic.Int64 // generation of which a batch was seen
	mixed  atomic.Int64 // packets, or batches, of another generation than they should be
	wrong  atomic.Int64 // batches without what a module needs, or with what none does
	held   atomic.Int64 // packets that stages have kept between two batches

	mu       sync.Mutex
	finished map[string]uint64 // packets, by what stages handed over as they ended
	running  map[string]int    // Run of modules
}

// piece is a module of these tests: it counts packets by worker, and does one thing more.
type piece struct {
	name       string
	role       pipeline.Role
	needs      packet.Needs
	copies     int
	large      bool
	ports      int
	workers    int       // that give packets a home; 0: none do
	steers     *steering // nil: packets have no home because of it
	generation int64
	do         func(s *pieceStage, b *packet.Batch)
	log        *passed
	stages     []*pieceStage
}

type pieceStage struct {
	*piece
	packets  atomic.Uint64
	ticks    int
	finished bool
	held     []packet.Packet
}

// steering is a piece that gives the packets of a queue a home.
type steering struct{ *piece }

func (s *steering) Steer(w int, b *packet.Batch, from int, homes []uint8) {
	for i := range homes {
		if homes[i] = uint8(w); from == w {
			homes[i] = uint8((int(b.Pkts[i].InPort) + int(b.Pkts[i].InQueue) + int(s.generation)) % s.workers)
		}
	}
}

// pieceOf is a module of these tests.
func pieceOf(m pipeline.Module) *piece {
	if s, ok := m.(*steering); ok {
		return s.piece
	}
	return m.(*piece)
}

func (m *piece) Role() pipeline.Role { return m.role }
func (m *piece) Needs() packet.Needs { return m.needs }
func (m *piece) Copies() int         { return m.copies }
func (m *piece) TakesLarge() bool    { return m.large }
func (m *piece) Stage(int) pipeline.Stage {
	s := &pieceStage{piece: m, held: make([]packet.Packet, 0, mostHeld)}
	m.stages = append(m.stages, s)
	return s
}

func (m *piece) packets() (n uint64) {
	for _, s := range m.stages {
		n += s.packets.Load()
	}
	return n
}

// Run implements pipeline.Background.
func (m *piece) Run(stop <-chan struct{}) {
	m.log.mu.Lock()
	m.log.running[m.name]++
	m.log.mu.Unlock()
	<-stop
	m.log.mu.Lock()
	m.log.running[m.name]--
	m.log.mu.Unlock()
}

func (s *pieceStage) Process(b *packet.Batch) {
	if s.ticks == 0 || s.finished {
		s.log.wrong.Add(1)
	}
	if s.needs&packet.NeedDepth != 0 && len(b.Depth) != s.ports || s.needs&packet.NeedWait != 0 && len(b.Wait) != s.ports ||
		cap(b.Pkts) < packet.BatchSize*s.copies {
		s.log.wrong.Add(1)
	}
	s.packets.Add(uint64(len(b.Pkts)))
	if s.do != nil {
		s.do(s, b)
	}
}

func (s *pieceStage) Tick(now int64) int64 { s.ticks++; return now + int64(time.Millisecond) }
func (s *pieceStage) Finish(int64) {
	s.finished = true
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	s.log.finished[s.name] += s.packets.Load()
}

// enter and leave are the first and the last stage of a generation's graphs.
func enter(s *pieceStage, b *packet.Batch) {
	if newest := s.log.newest.Load(); newest > s.generation {
		s.log.mixed.Add(1) // another worker is in the next graph already
	} else if newest < s.generation {
		s.log.newest.Store(s.generation)
	}
	for i := range b.Pkts {
		b.Data(&b.Pkts[i])[generationAt] = byte(s.generation)
	}
}

func leave(s *pieceStage, b *packet.Batch) {
	for i := range b.Pkts {
		if b.Data(&b.Pkts[i])[generationAt] != byte(s.generation) {
			s.log.mixed.Add(1)
		}
	}
}

// dropSome drops packets by their numbers, copySome copies some.
func dropSome(_ *pieceStage, b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && b.Data(p)[numberAt]%16 == 3 {
			b.Drop(p, reasonOdd)
		}
	}
}

func copySome(s *pieceStage, b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && b.Data(p)[numberAt]%16 == 5 {
			if c := b.Append(); c != nil && b.Copy(c, p) {
				c.OutPort = (p.InPort + 2) % uint16(s.ports)
			} else if c != nil {
				b.Pkts = b.Pkts[:len(b.Pkts)-1]
			}
		}
	}
}

// mostHeld is how many copies a stage of holdSome keeps until it goes.
const mostHeld = 4

func holdSome(s *pieceStage, b *packet.Batch) {
	for i := range b.Pkts {
		if p := &b.Pkts[i]; p.Reason == 0 && b.Data(p)[numberAt]%16 == 7 && len(s.held) < mostHeld {
			c := b.Append()
			if c == nil {
				return
			}
			if b.Copy(c, p) {
				s.held = append(s.held, *c)
				s.log.held.Add(1)
			}
			b.Pkts = b.Pkts[:len(b.Pkts)-1]
		}
	}
}

// Release implements pipeline.Holder.
func (s *pieceStage) Release(drop func(*packet.Packet)) {
	for i := range s.held {
		drop(&s.held[i])
	}
	s.held = s.held[:0]
}

func forwardAll(s *pieceStage, b *packet.Batch) {
	for i := range b.Pkts {
		b.Pkts[i].OutPort = (b.Pkts[i].InPort + 1) % uint16(s.ports)
	}
}

// ordered is a port that sees that packets of each queue leave in the order in which they arrived.
type ordered struct {
	*port.Memory
	disorder *atomic.Int64
}

type orderedQueue struct {
	port.Queue
	last     map[[2]uint16]uint64 // number plus one, by port and queue of arrival
	disorder *atomic.Int64
}

func (o *ordered) Open(number uint16, queue int, frames *packet.Cache) (port.Queue, error) {
	q, err := o.Memory.Open(number, queue, frames)
	return &orderedQueue{q, map[[2]uint16]uint64{}, o.disorder}, err
}

func (q *orderedQueue) Transmit(b *packet.Batch, idx []uint16) int {
	for _, i := range idx {
		p := &b.Pkts[i]
		if p.Flags.Has(packet.FlagCopy) {
			continue
		}
		number := uint64(0)
		for k, v := range b.Data(p)[numberAt:][:8] {
			number |= uint64(v) << (8 * k)
		}
		from := [2]uint16{p.InPort, uint16(p.InQueue)}
		if number < q.last[from] {
			q.disorder.Add(1)
		}
		q.last[from] = number + 1
	}
	return q.Queue.Transmit(b, idx)
}

// TestGraphTwin runs random sequences of graphs under traffic without end. What each stage has seen is compared with what arrived.
func TestGraphTwin(t *testing.T) {
	changes := 150
	if testing.Short() {
		changes = 40
	}
	for seed := range uint64(3) {
		workers := 1 + int(seed)
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 11))
			const ports = 4
			pool, err := packet.NewPool(packet.PoolConfig{Frames: 8192, FrameSize: 2048, Audit: true})
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var ps []port.Port
			disorder := &atomic.Int64{}
			for i := range ports {
				m := port.NewMemory(fmt.Sprintf("p%d", i), workers, [][]byte{make([]byte, 60), make([]byte, 80)}, 0)
				m.Stamp(numberAt)
				ps = append(ps, &ordered{m, disorder})
			}
			log := &passed{finished: map[string]uint64{}, running: map[string]int{}}
			made := 0
			piecesOf := func(name string, role pipeline.Role, do func(*pieceStage, *packet.Batch)) *piece {
				made++
				return &piece{name: fmt.Sprintf("%s %d", name, made), role: role, do: do, log: log, ports: ports, large: true}
			}
			first := piecesOf("parse", pipeline.RoleParse, nil)
			var chain []pipeline.Named
			generation := int64(0)
			var all []*piece
			var enters []*piece
			// next draws the graph of the next generation: pieces of the last one stay, go or are joined by others, anew in order.
			next := func() []pipeline.Named {
				generation++
				in, out := piecesOf("in", pipeline.RoleIngress, enter), piecesOf("out", pipeline.RoleEgress, leave)
				in.generation, out.generation = generation, generation
				enters = append(enters, in)
				middle := []*piece{}
				forward := piecesOf("forward", pipeline.RoleForward, forwardAll)
				for _, n := range chain {
					m := pieceOf(n.Module)
					switch {
					case m.steers != nil && slices.ContainsFunc(middle, func(m *piece) bool { return m.steers != nil }):
					case m == first || m.generation != 0:
					case m.role == pipeline.RoleForward:
						if rng.IntN(2) == 0 {
							forward = m
						}
					case rng.IntN(3) != 0:
						middle = append(middle, m)
					}
				}
				for range rng.IntN(3) {
					m := piecesOf("drop", pipeline.RolePolicy, dropSome)
					switch rng.IntN(6) {
					case 5:
						m = piecesOf("hold", pipeline.RoleEgress, holdSome)
					case 4:
						if !slices.ContainsFunc(middle, func(m *piece) bool { return m.steers != nil }) {
							m = piecesOf("home", pipeline.RolePolicy, nil)
							m.workers, m.steers = workers, &steering{m}
						}
					case 0:
						m = piecesOf("copy", pipeline.RoleEgress, copySome)
						m.copies = 1 + rng.IntN(40)
					case 1:
						m = piecesOf("depth", pipeline.RoleEgress, nil)
						m.needs = packet.NeedDepth
					case 2:
						m = piecesOf("wait", pipeline.RoleIngress, nil)
						m.needs, m.large = packet.NeedWait, rng.IntN(2) == 0
					}
					middle = append(middle, m)
				}
				rng.Shuffle(len(middle), func(i, j int) { middle[i], middle[j] = middle[j], middle[i] })
				graph := append([]*piece{first, in, forward, out}, middle...)
				slices.SortStableFunc(graph, func(a, b *piece) int { return int(a.role - b.role) })
				var named []pipeline.Named
				for _, m := range graph {
					module := pipeline.Module(m)
					if m.steers != nil {
						module = m.steers
					}
					named = append(named, pipeline.Named{Name: m.name, Module: module})
					if !slices.Contains(all, m) {
						all = append(all, m)
					}
				}
				return named
			}
			chain = next()
			c := DefaultConfig()
			c.Count, c.Pin = workers, false
			s, err := New(c, Parts{Name: "test", Pool: pool, Ports: ps, Chain: chain})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			ready := make(chan struct{})
			go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
			<-ready
			longest := time.Duration(0)
			for range changes {
				before := s.Report().Received
				chain = next()
				g, err := s.ChangeGraph(chain)
				if err != nil {
					t.Fatal(err)
				}
				if rng.IntN(8) == 0 {
					if err := g.Abort(); err != nil {
						t.Fatal(err)
					}
					enters = enters[:len(enters)-1]
					chain = s.Chain()
					continue
				}
				old := s.Chain()
				went, err := g.Install()
				if err != nil {
					t.Fatal(err)
				}
				longest = max(longest, g.Paused)
				log.mu.Lock()
				for _, n := range went {
					m := pieceOf(n.Module)
					if log.running[n.Name] != 0 || log.finished[n.Name] != m.packets() || has(chain, n.Module) || !has(old, n.Module) {
						t.Errorf("%s: running %d, handed over %d of %d packets", n.Name, log.running[n.Name], log.finished[n.Name], m.packets())
					}
				}
				log.mu.Unlock()
				if len(old)-len(went) > len(chain) {
					t.Errorf("%d of %d stages went, and %d are there", len(went), len(old), len(chain))
				}
				for deadline := time.Now().Add(time.Minute); s.Report().Received == before; time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatal("nothing arrives behind a change")
					}
				}
				if r := s.Report(); len(r.Stages) != len(chain) || r.Stages[0].Packets < before {
					t.Errorf("stages %+v of %d, %d packets before", r.Stages, len(chain), before)
				}
			}
			cancel()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			if log.mixed.Load() != 0 || log.wrong.Load() != 0 || disorder.Load() != 0 {
				t.Errorf("%d packets of two graphs, %d batches wrong, %d packets out of order", log.mixed.Load(), log.wrong.Load(), disorder.Load())
			}
			var entered, dropped uint64
			for _, m := range enters {
				entered += m.packets()
			}
			if first.packets() != r.Received || entered != r.Received {
				t.Errorf("received %d; the stage that stays saw %d, those of all generations %d", r.Received, first.packets(), entered)
			}
			for _, n := range r.Dropped {
				dropped += n
			}
			left, late := r.Copies.Dropped["stage_left"], r.Copies.Dropped["shutdown"]
			if left == 0 || int64(left+late) != log.held.Load() {
				t.Errorf("stages kept %d packets; %d were dropped as their stages went, %d at the end", log.held.Load(), left, late)
			}
			if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 || r.Forwarded+dropped != r.Received || r.Dropped["test_odd"] == 0 || r.Copies.Received == 0 {
				t.Errorf("balanced %v, frames %+v, received %d, forwarded %d, dropped %v, copies %+v", r.Balanced, r.Frames, r.Received, r.Forwarded, r.Dropped, r.Copies)
			}
			log.mu.Lock()
			defer log.mu.Unlock()
			for name, n := range log.running {
				if n != 0 {
					t.Errorf("%s still runs", name)
				}
			}
			t.Logf("%d graphs of %d modules, received %d, dropped %v, copies %d, %d of them kept by stages that went; the workers waited for %v at most", len(enters), len(all), r.Received, r.Dropped, r.Copies.Received, left, longest)
		})
	}
}

// TestGraphRefused: a graph that is not valid, and a worker that does not come, leave the graph as it is.
func TestGraphRefused(t *testing.T) {
	defer func(d time.Duration) { parkTime = d }(parkTime)
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	log := &passed{finished: map[string]uint64{}, running: map[string]int{}}
	release, held := make(chan struct{}), make(chan struct{}, 1)
	hold := &atomic.Bool{}
	parse := &piece{name: "parse", role: pipeline.RoleParse, log: log, ports: 2}
	forward := &piece{name: "forward", role: pipeline.RoleForward, log: log, ports: 2, do: func(s *pieceStage, b *packet.Batch) {
		forwardAll(s, b)
		if hold.Load() {
			select {
			case held <- struct{}{}:
			default:
			}
			<-release
		}
	}}
	extra := &piece{name: "extra", role: pipeline.RoleEgress, log: log, ports: 2}
	chain := []pipeline.Named{{Name: "parse", Module: parse}, {Name: "forward", Module: forward}}
	longer := append(slices.Clone(chain), pipeline.Named{Name: "extra", Module: extra})
	c := DefaultConfig()
	c.Pin = false
	s, err := New(c, Parts{Name: "test", Pool: pool, Chain: chain, Ports: []port.Port{
		port.NewMemory("p0", 1, [][]byte{make([]byte, 60)}, 0), port.NewMemory("p1", 1, [][]byte{make([]byte, 60)}, 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() { ended <- s.Run(ctx, func() { close(ready) }) }()
	<-ready
	refused := func(chain []pipeline.Named, want string) {
		t.Helper()
		if g, err := s.ChangeGraph(chain); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want %q", g, err, want)
		}
		if len(s.Chain()) != 2 {
			t.Errorf("the graph is %v", s.Chain())
		}
	}
	refused(longer[:1], "0 forwarding stages")
	hold.Store(true)
	<-held
	parkTime = time.Millisecond
	refused(longer, "worker 0 has been in a batch for")
	hold.Store(false)
	close(release)
	parkTime = time.Minute
	g, err := s.ChangeGraph(longer)
	if err != nil {
		t.Fatal(err)
	}
	if went, err := g.Install(); err != nil || len(went) != 0 || len(s.Chain()) != 3 {
		t.Errorf("went %v, %v", went, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if r := s.Report(); !r.Balanced || r.Frames.Lost != 0 || parse.packets() != r.Received {
		t.Errorf("%d of %d packets, frames %+v", parse.packets(), r.Received, r.Frames)
	}
	if _, err := s.ChangeGraph(chain); err == nil {
		t.Error("a switch that has ended takes another graph")
	}
}

// TestBecomeAllocates: what a worker does in the pause, and its batches after it, allocate nothing, whatever the graph that comes needs and the one that goes has kept.
func TestBecomeAllocates(t *testing.T) {
	log := &passed{finished: map[string]uint64{"extra": 0}, running: map[string]int{}}
	parse := &piece{name: "parse", role: pipeline.RoleParse, log: log, ports: 2}
	forward := &piece{name: "forward", role: pipeline.RoleForward, log: log, ports: 2, do: forwardAll}
	extra := &piece{name: "extra", role: pipeline.RoleEgress, log: log, ports: 2, copies: 40, needs: packet.NeedDepth | packet.NeedWait}
	keeper := &piece{name: "keeper", role: pipeline.RoleEgress, log: log, ports: 2, do: holdSome}
	chain := []pipeline.Named{{Name: "parse", Module: parse}, {Name: "forward", Module: forward}, {Name: "keeper", Module: keeper}}
	frame := make([]byte, 60)
	frame[numberAt] = 7
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 4096, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	c := DefaultConfig()
	c.Pin = false
	s, err := New(c, Parts{Name: "test", Pool: pool, Chain: chain, Ports: []port.Port{
		port.NewMemory("p0", 1, [][]byte{frame}, 0), port.NewMemory("p1", 1, [][]byte{frame}, 0),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	longer := append(slices.Clone(chain[:2]), pipeline.Named{Name: "extra", Module: extra})
	var next []successor
	for range 2 { // AllocsPerRun has one run more; the second change is one to the same graph
		g, err := s.ChangeGraph(longer)
		if err != nil {
			t.Fatal(err)
		}
		next = append(next, g.next[0])
		if err := g.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	w := s.workers[0]
	w.receive(&w.queues[0])
	if kept := len(keeper.stages[0].held); kept != mostHeld {
		t.Fatalf("the stage that goes keeps %d packets", kept)
	}
	i, v := 0, wantsOf(longer)
	if n := testing.AllocsPerRun(1, func() {
		w.become(&next[i], v)
		for k := range w.queues {
			w.receive(&w.queues[k])
		}
		i++
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if kept := len(keeper.stages[0].held); kept != 0 {
		t.Errorf("the stage that went keeps %d packets", kept)
	}
	if extra.packets() == 0 || log.wrong.Load() != 0 {
		t.Errorf("the stage that came saw %d packets, %d batches were wrong", extra.packets(), log.wrong.Load())
	}
}
