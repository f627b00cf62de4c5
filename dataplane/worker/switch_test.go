package worker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// mark is a parse stage for tests: it needs only the contract.
type mark struct{}

func (mark) Role() pipeline.Role      { return pipeline.RoleParse }
func (mark) Needs() packet.Needs      { return 0 }
func (mark) Stage(int) pipeline.Stage { return mark{} }
func (mark) Process(b *packet.Batch)  {}

var reasonOdd = packet.Register("test_odd", "the test drops it")

// cross sends each port's packets to the next port, floods packets whose
// first byte says so, drops and consumes others.
type cross struct {
	ports   int
	panicAt int
	seen    int
}

const (
	opForward = iota
	opDrop
	opConsume
	opCopy
	opNowhere
	ops
)

func (c *cross) Role() pipeline.Role { return pipeline.RoleForward }
func (c *cross) Needs() packet.Needs { return 0 }
func (c *cross) Stage(w int) pipeline.Stage {
	return &cross{ports: c.ports, panicAt: c.panicAt}
}

func (c *cross) Process(b *packet.Batch) {
	n := len(b.Pkts)
	for i := range n {
		p := &b.Pkts[i]
		if c.seen++; c.panicAt != 0 && c.seen == c.panicAt {
			panic("the test's own fault")
		}
		p.OutPort = (p.InPort + 1) % uint16(c.ports)
		switch b.Data(p)[0] {
		case opDrop:
			b.Drop(p, reasonOdd)
		case opConsume:
			b.Drop(p, packet.Consumed)
		case opNowhere:
			p.OutPort = packet.NoPort
		case opCopy:
			if cp := b.Append(); cp != nil && b.Copy(cp, p) {
				cp.OutPort = (p.InPort + 2) % uint16(c.ports)
			} else if cp != nil {
				b.Pkts = b.Pkts[:len(b.Pkts)-1]
			}
		}
	}
}

func memoryPackets(n int) [][]byte {
	pkts := make([][]byte, n)
	for i := range pkts {
		pkts[i] = make([]byte, 60+i%1000)
		pkts[i][0] = byte(i % ops)
	}
	return pkts
}

func newTestSwitch(t *testing.T, workers, ports, queues int, limit uint64, panicAt int) *Switch {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 8192, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	var ps []port.Port
	for i := range ports {
		ps = append(ps, port.NewMemory(fmt.Sprintf("p%d", i), queues, memoryPackets(97), limit))
	}
	c := DefaultConfig()
	c.Count, c.Pin = workers, false
	s, err := New(c, Parts{Name: "test", Pool: pool, Ports: ps, Chain: []pipeline.Named{
		{Name: "mark", Module: mark{}}, {Name: "cross", Module: &cross{ports: ports, panicAt: panicAt}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestCountersAddUp sends packets of every fate through one to three workers
// and compares all counters with what the input says.
func TestCountersAddUp(t *testing.T) {
	for _, tc := range []struct{ workers, ports, queues int }{{1, 2, 1}, {1, 5, 2}, {2, 2, 1}, {2, 3, 4}, {3, 4, 2}} {
		t.Run(fmt.Sprintf("%d workers %d ports %d queues", tc.workers, tc.ports, tc.queues), func(t *testing.T) {
			const limit = 9700 // per queue: 100 times the 97 packets
			s := newTestSwitch(t, tc.workers, tc.ports, tc.queues, limit, 0)
			if err := s.Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			var kinds [ops]uint64
			for _, p := range memoryPackets(97) {
				kinds[p[0]] += uint64(100 * tc.ports * tc.queues)
			}
			if !r.Balanced {
				t.Errorf("counters do not add up: %+v", r.Fate)
			}
			if want := uint64(limit * tc.ports * tc.queues); r.Received != want {
				t.Errorf("received %d, want %d", r.Received, want)
			}
			// Full rings between workers may drop; what they drop is counted.
			full := r.Dropped["handoff_full"]
			if r.Forwarded+full != kinds[opForward]+kinds[opCopy] && tc.workers == 1 {
				t.Errorf("forwarded %d + handoff_full %d, want %d", r.Forwarded, full, kinds[opForward]+kinds[opCopy])
			}
			if r.Consumed != kinds[opConsume] || r.Dropped["test_odd"] != kinds[opDrop] || r.Dropped["no_port"] != kinds[opNowhere] {
				t.Errorf("fates %+v, want %v", r.Fate, kinds)
			}
			// Copies that found no free frame have a fate as well.
			if made := kinds[opCopy]; r.Copies.Received != made || r.Copies.Dropped["no_frame"] != 0 && tc.workers == 1 {
				t.Errorf("copies %+v, want %d", r.Copies, made)
			}
			if r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("frames %+v", r.Frames)
			}
		})
	}
}

// TestRunEndsByContext closes a switch under full load, a hundred times.
func TestRunEndsByContext(t *testing.T) {
	for range 100 {
		s := newTestSwitch(t, 2, 3, 2, 0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan error)
		go func() { stopped <- s.Run(ctx, nil) }()
		s.workers[0].Do(func() {})
		cancel()
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if r := s.Report(); !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
			t.Fatalf("after the end: balanced %v, frames %+v", r.Balanced, r.Frames)
		}
	}
}

// TestPanicEndsTheSwitch lets a stage panic: Run must end with an error that
// names the worker, lose no frame, and still balance what was counted.
func TestPanicEndsTheSwitch(t *testing.T) {
	s := newTestSwitch(t, 2, 3, 2, 0, 5000)
	err := s.Run(t.Context(), nil)
	if err == nil {
		t.Fatal("a stage panicked and the switch ended well")
	}
	t.Log(err.Error()[:60])
	r := s.Report()
	if r.Frames.Lost != 0 || r.Frames.Faults != 0 {
		t.Fatalf("frames %+v", r.Frames)
	}
	if !r.Balanced {
		t.Fatalf("counters do not add up: %+v", r)
	}
}

// TestDoWhileRunning reads counters from outside all the while.
func TestDoWhileRunning(t *testing.T) {
	s := newTestSwitch(t, 2, 2, 1, 0, 0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	done := make(chan error)
	go func() { done <- s.Run(ctx, nil) }()
	var last uint64
	for range 200 {
		r := s.Report()
		if r.Received < last {
			t.Fatalf("received went from %d to %d", last, r.Received)
		}
		last = r.Received
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestHotPathDoesNotAllocate runs whole rounds of two workers that hand packets
// to each other.
func TestHotPathDoesNotAllocate(t *testing.T) {
	s := newTestSwitch(t, 2, 2, 1, 0, 0)
	for _, w := range s.workers {
		w.batch.Depth = make([]uint32, len(s.seats)) // as with packet.NeedDepth
	}
	if n := testing.AllocsPerRun(200, func() {
		for _, w := range s.workers {
			for k := range w.queues {
				w.receive(&w.queues[k])
			}
			w.takeOver()
			w.service()
		}
	}); n != 0 {
		t.Fatalf("%v allocations per round", n)
	}
	if s.workers[0].loop.TakenOver == 0 {
		t.Error("nothing was handed over")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDepthOfHandoff: for a port of another worker, what counts is the line of
// packets that this worker may take over.
func TestDepthOfHandoff(t *testing.T) {
	s := newTestSwitch(t, 2, 2, 1, 0, 0)
	w := s.workers[0]
	w.batch.Depth = make([]uint32, len(s.seats))
	for want := uint32(0); ; {
		w.receive(&w.queues[0])
		if got := w.batch.Depth; got[0] != 0 || got[1] != want {
			t.Fatalf("depths %v, want 0 and %d", got, want)
		}
		if want = uint32(w.loop.HandedOver); want > 200 {
			break
		}
	}
	s.workers[1].takeOver()
	s.workers[1].takeOver()
	rest := s.workers[1].rings[0].len()
	w.receive(&w.queues[0])
	if got := w.batch.Depth[1]; got != rest || uint64(rest) >= w.loop.HandedOver {
		t.Errorf("depth %d behind %d packets, of which %d were taken over", got, w.loop.HandedOver, s.workers[1].loop.TakenOver)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHandoffRing compares the ring with a slice over random pushes and pops,
// across the wrap of its 32-bit indexes.
func TestHandoffRing(t *testing.T) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	h := newHandoff(64)
	start := ^uint32(0) - 500
	h.head.Store(start)
	h.tail.Store(start)
	h.headCache, h.tailCache = start, start
	var model []uint64
	next, seed := uint64(0), uint64(1)
	random := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	b := packet.NewBatch(pool.NewCache(), 0)
	for range 20000 {
		if h.len() != uint32(len(model)) {
			t.Fatalf("%d packets wait, want %d", h.len(), len(model))
		}
		if random(2) == 0 {
			n := random(40)
			pkts, idx := make([]packet.Packet, n), make([]uint16, n)
			for i := range pkts {
				pkts[i].ID, idx[i] = next+uint64(i), uint16(i)
			}
			took := h.push(pkts, idx)
			if want := min(n, 64-len(model)); took != want {
				t.Fatalf("pushed %d, want %d", took, want)
			}
			for range took {
				model = append(model, next)
				next++
			}
			continue
		}
		n := h.pop(b)
		if want := min(len(model), cap(b.Pkts)); n != want {
			t.Fatalf("popped %d, want %d", n, want)
		}
		for i := range n {
			if b.Pkts[i].ID != model[i] {
				t.Fatalf("packet %d, want %d", b.Pkts[i].ID, model[i])
			}
		}
		model = model[n:]
		b.Reset()
	}
}

// TestIdleWorkersAreRefused: a worker without a queue would only burn a core.
func TestIdleWorkersAreRefused(t *testing.T) {
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 64, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	build := func(workers int) error {
		c := DefaultConfig()
		c.Count, c.Pin = workers, false
		s, err := New(c, Parts{Name: "test", Pool: pool, Chain: []pipeline.Named{
			{Name: "mark", Module: mark{}}, {Name: "cross", Module: &cross{ports: 2}},
		}, Ports: []port.Port{port.NewMemory("p0", 2, memoryPackets(1), 1), port.NewMemory("p1", 1, memoryPackets(1), 1)}})
		if err != nil {
			return err
		}
		return s.Close()
	}
	for workers := 1; workers <= 3; workers++ {
		if err := build(workers); err != nil {
			t.Errorf("%d workers for 3 queues: %v", workers, err)
		}
	}
	const want = "workers.count: the queues of the ports keep 3 of 4 workers busy: set count = 3"
	if err := build(4); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("4 workers for 3 queues: %v, want %s", err, want)
	}
}
