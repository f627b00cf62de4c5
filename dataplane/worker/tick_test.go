package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/pipeline/packet"
)

// clockwork is a parse stage that notes the clock of its batches and calls.
type clockwork struct {
	mark
	batches, calls []int64
}

func (c *clockwork) Stage(int) pipeline.Stage { return c }
func (c *clockwork) Process(b *packet.Batch)  { c.batches = append(c.batches, b.Now) }
func (c *clockwork) Finish(int64)             {}
func (c *clockwork) Tick(now int64) int64 {
	c.calls = append(c.calls, now)
	return now + int64(time.Hour)
}

// clocked returns a switch of one worker, and its clockwork.
func clocked(t *testing.T, arrival bool) (*Worker, *clockwork) {
	t.Helper()
	pool, err := packet.NewPool(packet.PoolConfig{Frames: 512, FrameSize: 2048})
	if err != nil {
		t.Fatal(err)
	}
	stage := &clockwork{}
	c := DefaultConfig()
	c.Pin = false
	s, err := New(c, Parts{
		Name: "test", Pool: pool, Ports: []port.Port{port.NewMemory("p0", 1, memoryPackets(5), 64)}, ArrivalTime: arrival,
		Chain: []pipeline.Named{{Name: "clockwork", Module: stage}, {Name: "cross", Module: &cross{ports: 1}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		pool.Close()
	})
	return s.workers[0], stage
}

// TestIdleTickAfterStepBack: a clock that was set back is told to the stages at
// once, and one that a reading disturbed a little stands still.
func TestIdleTickAfterStepBack(t *testing.T) {
	w, stage := clocked(t, false)
	tai, mono := int64(100*time.Hour), int64(0)
	w.clock = clock.Of(clock.Source{TAI: func() int64 { return tai }, Monotonic: func() int64 { return mono }})
	step := func(by time.Duration) {
		const pass = int64(time.Second) // the distance of the clocks is measured anew
		tai, mono = tai+pass+int64(by), mono+pass
		w.tick()
	}
	w.tick()
	w.tick()
	if len(stage.calls) != 1 {
		t.Fatalf("%d calls within the first period", len(stage.calls))
	}
	last := w.now
	if step(-time.Second - time.Duration(clock.Slew/2)); w.now < last || len(stage.calls) != 1 {
		t.Errorf("the clock went from %d to %d, %d calls", last, w.now, len(stage.calls))
	}
	step(-10 * time.Hour)
	if len(stage.calls) != 2 || stage.calls[1] >= stage.calls[0] {
		t.Errorf("calls at %v, want a second that is earlier", stage.calls)
	}
}

// TestArrivalAtZero: a capture that begins at time zero is measured by its own
// time, like any other.
func TestArrivalAtZero(t *testing.T) {
	w, stage := clocked(t, true)
	for w.receive(&w.queues[0]) != 0 {
	}
	if len(stage.batches) == 0 || slices.Max(stage.batches) != 0 {
		t.Errorf("batches at %v, want all at 0", stage.batches)
	}
}
