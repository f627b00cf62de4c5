package worker

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// homing is a stage that has state of packets at one worker, which their second byte names. Some go there by way of another one, as
// fragments do: their third byte names it, and is 255 for the others.
type homing struct {
	workers int
	mu      sync.Mutex
	wrong   []string
	seen    map[string][]byte // by worker, input port and queue: numbers of packets, in their order
}

type homingStage struct {
	*homing
	worker int
}

const (
	homeAt         = 1 // of a packet's bytes
	viaAt          = 2
	homingNumberAt = 3
	direct         = 255
)

func (h *homing) Role() pipeline.Role        { return pipeline.RolePolicy }
func (h *homing) Needs() packet.Needs        { return 0 }
func (h *homing) Stage(w int) pipeline.Stage { return &homingStage{h, w} }

func (h *homing) Steer(w int, b *packet.Batch, from int, homes []uint8) {
	for i := range homes {
		data := b.Data(&b.Pkts[i])
		home, via := data[homeAt]%byte(h.workers), int(data[viaAt])
		homes[i] = byte(w)
		switch {
		case via == direct:
			if from == w {
				homes[i] = home
			}
		case via%h.workers == w:
			homes[i] = home
		case from == w:
			homes[i] = byte(via % h.workers)
		}
	}
}

func (s *homingStage) Process(b *packet.Batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range b.Pkts {
		p := &b.Pkts[i]
		data := b.Data(p)
		if int(data[homeAt])%s.workers != s.worker {
			s.wrong = append(s.wrong, fmt.Sprintf("a packet for %d at worker %d", data[homeAt], s.worker))
		}
		if p.InPort != b.Pkts[0].InPort || p.InQueue != b.Pkts[0].InQueue {
			s.wrong = append(s.wrong, "a batch of two queues")
		}
		key := fmt.Sprint(s.worker, p.InPort, p.InQueue, data[viaAt])
		s.seen[key] = append(s.seen[key], data[homingNumberAt])
	}
}

// homingPackets have each fate, home and way there.
func homingPackets(n int) [][]byte {
	pkts := memoryPackets(n)
	for i, data := range pkts {
		data[homeAt], data[viaAt], data[homingNumberAt] = byte(i/ops), direct, byte(i)
		if i%4 == 3 {
			data[viaAt] = byte(i / 8)
		}
	}
	return pkts
}

func newSteeredSwitch(t *testing.T, workers, ports, queues, ring int, limit uint64, panicAt int) (*Switch, *homing) {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 1 << 15, FrameSize: 2048, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	var ps []port.Port
	for i := range ports {
		ps = append(ps, port.NewMemory(fmt.Sprintf("p%d", i), queues, homingPackets(97), limit))
	}
	c := DefaultConfig()
	c.Count, c.Pin, c.HandoffRing = workers, false, ring
	h := &homing{workers: workers, seen: map[string][]byte{}}
	s, err := New(c, Parts{Name: "test", Pool: pool, Ports: ps, Chain: []pipeline.Named{
		{Name: "mark", Module: mark{}}, {Name: "homing", Module: h}, {Name: "cross", Module: &cross{ports: ports, panicAt: panicAt}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s, h
}

// TestSteering: every packet comes to its home, those of one queue in order, all are counted once, and no frame is lost.
func TestSteering(t *testing.T) {
	for _, tc := range []struct{ workers, ports, queues int }{{1, 2, 1}, {2, 2, 1}, {2, 3, 2}, {3, 3, 1}, {4, 2, 4}} {
		t.Run(fmt.Sprintf("%d workers %d ports %d queues", tc.workers, tc.ports, tc.queues), func(t *testing.T) {
			const limit = 970 // per queue: all fit into a ring
			s, h := newSteeredSwitch(t, tc.workers, tc.ports, tc.queues, 1<<13, limit, 0)
			if err := s.Run(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			r := s.Report()
			if len(h.wrong) != 0 {
				t.Error(h.wrong[0], "and more:", len(h.wrong))
			}
			if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
				t.Errorf("counters: balanced %v, %+v, %+v", r.Balanced, r.Fate, r.Frames)
			}
			if want := uint64(limit * tc.ports * tc.queues); r.Received != want || r.Dropped["handoff_full"]+r.Dropped["shutdown"] != 0 {
				t.Errorf("received %d, want %d: %+v", r.Received, want, r.Fate)
			}
			seen := 0
			for key, numbers := range h.seen {
				// Each of these follows the one before in the port's packets, over and over.
				for i := 1; i < len(numbers); i++ {
					if numbers[i] <= numbers[i-1] && numbers[i] != numbers[0] {
						t.Fatalf("%s: packet %d after %d", key, numbers[i], numbers[i-1])
					}
				}
				seen += len(numbers)
			}
			if uint64(seen) != r.Received || r.Stages[1].Packets != r.Received {
				t.Errorf("%d packets came home, the stage counts %d, received %d", seen, r.Stages[1].Packets, r.Received)
			}
			var steered, taken uint64
			for _, w := range r.Workers {
				steered, taken = steered+w.Steered, taken+w.TakenOver
			}
			if (steered == 0) != (tc.workers == 1) || taken < steered {
				t.Errorf("%d packets steered, %d taken over", steered, taken)
			}
		})
	}
}

// TestSteeringToAFullRing: what finds no room is dropped with its reason, and all adds up, with a worker that fails too.
func TestSteeringToAFullRing(t *testing.T) {
	for _, panicAt := range []int{0, 5000} {
		s, _ := newSteeredSwitch(t, 2, 2, 1, 64, 97_000, panicAt)
		err := s.Run(t.Context(), nil)
		if (err != nil) != (panicAt != 0) || err != nil && !strings.Contains(err.Error(), "the test's own fault") {
			t.Errorf("ended with %v", err)
		}
		r := s.Report()
		if !r.Balanced || r.Frames.Lost != 0 || r.Frames.Faults != 0 {
			t.Errorf("panic at %d: balanced %v, %+v, %+v", panicAt, r.Balanced, r.Fate, r.Frames)
		}
		if panicAt == 0 && r.Received != 2*97_000 {
			t.Errorf("received %d: %+v", r.Received, r.Fate)
		}
	}
}

// TestSteeringIsTraced: a trace follows a packet to its home, and one whose way ends at a full ring says so.
func TestSteeringIsTraced(t *testing.T) {
	s, _ := newSteeredSwitch(t, 2, 2, 1, 64, 9700, 0)
	const count = 2000
	tracer := pipeline.NewTracer(count, nil)
	s.SetTracer(tracer)
	if err := s.Run(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	traces := tracer.Traces()
	if len(traces) != count {
		t.Errorf("%d traces, want %d", len(traces), count)
	}
	over := 0
	for _, tr := range traces {
		var words []string
		for _, step := range tr.Steps {
			words = append(words, step.Stage+": "+step.Text)
		}
		text := strings.Join(words, "; ")
		if !strings.HasPrefix(text, "mark: passed; homing: ") || !strings.Contains(text, "cross: ") && !strings.Contains(text, "homing: dropped: handoff_full") {
			t.Fatalf("a trace: %s", text)
		}
		if strings.Contains(text, "handed over to worker ") {
			over++
		}
	}
	if over < count/4 || over > count*3/4 {
		t.Errorf("%d of %d packets were handed over", over, count)
	}
}

// TestSteeringDoesNotAllocate: a batch of which packets are handed over, and taken.
func TestSteeringDoesNotAllocate(t *testing.T) {
	s, h := newSteeredSwitch(t, 2, 2, 1, 1<<10, 97, 0)
	defer s.Close()
	a, b := s.workers[0], s.workers[1]
	allocs := testing.AllocsPerRun(100, func() {
		for i := range packet.BatchSize {
			addr, _ := a.cache.AllocOne()
			p := a.batch.Append()
			p.Addr, p.Len, p.WireLen = addr, 60, 60
			data := a.batch.Data(p)
			data[homeAt], data[viaAt] = byte(i), direct
		}
		a.steer(a.batch, 0, 0)
		for _, batch := range []*packet.Batch{a.batch, b.batch} {
			if batch == b.batch {
				b.steered[0].popRun(batch)
			}
			if len(batch.Pkts) != packet.BatchSize/2 {
				t.Fatalf("%d packets", len(batch.Pkts))
			}
			for i := range batch.Pkts {
				batch.Frames.FreePacket(&batch.Pkts[i])
			}
			batch.Reset()
		}
	})
	if allocs != 0 || len(h.wrong) != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
