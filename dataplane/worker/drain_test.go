package worker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline/packet"
)

// served is a queue that is first in, first out, on a clock of the test's own.
type served struct {
	now    int64
	leaves []int64 // when each frame leaves, in order, that has not left yet
	last   int64   // when the last frame leaves
	sent   uint32
	each   func(now int64) int64 // how long a frame takes, ns
}

func (s *served) depth() uint32 {
	for len(s.leaves) > 0 && s.leaves[0] <= s.now {
		s.leaves = s.leaves[1:]
	}
	return uint32(len(s.leaves))
}

// join adds a frame, and returns how long it waits until it begins to leave.
func (s *served) join() int64 {
	begins := max(s.last, s.now)
	s.last = begins + s.each(begins)
	s.leaves = append(s.leaves, s.last)
	s.sent++
	return begins - s.now
}

// TestDrain: what drain says of batches that join lines of all kinds, over what they wait, packets of the batch in front of each other included.
func TestDrain(t *testing.T) {
	const start, ms = int64(1e18), int64(1e6)
	always := func(each int64) func(int64) int64 { return func(int64) int64 { return each } }
	for _, c := range []struct {
		name     string
		each     func(int64) int64
		gap      int64 // ns between batches in the mean
		batch    int   // packets at most
		unjudged int   // batches first
	}{
		{"busy", always(500), 17_000, 64, 0},
		{"empty most of the time", always(500), 40_000, 64, 20},
		{"slow", always(2 * ms), 5 * ms, 4, 0},
		{"slow and empty most of the time", always(2 * ms), 30 * ms, 16, 20},
		{"ten times slower", func(now int64) int64 { return 500 + 4500*min(max(now-start-20*ms, 0), 1) }, 170_000, 64, 170},
		{"ten times faster", func(now int64) int64 { return 5000 - 4500*min(max(now-start-50*ms, 0), 1) }, 17_000, 64, 3100},
		{"ten times faster, and empty most of the time", func(now int64) int64 { return 5000 - 4500*min(max(now-start-50*ms, 0), 1) }, 40_000, 64, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(22, 1))
			s := &served{now: start, last: start, sent: ^uint32(0) - 1000, each: c.each}
			var d drain
			expected, waited, judged := 0., 0., 0
			for k := range 5000 {
				s.now += 1 + r.Int64N(2*c.gap)
				n := 1 + r.IntN(c.batch)
				depth := s.depth()
				wait := d.wait(depth, s.sent, s.now)
				if depth == 0 && wait != (packet.Wait{}) {
					t.Fatalf("an empty line takes %+v", wait)
				}
				if len(s.leaves) > 4096-64 {
					continue
				}
				for i := range n {
					if truth := s.join(); depth != 0 && k >= c.unjudged {
						expected += float64(wait.First + int64(i)*wait.Each)
						waited += float64(truth)
						judged++
					}
				}
			}
			t.Logf("%.3f of what %d packets waited, %.0f ns in the mean", expected/waited, judged, waited/float64(judged))
			if ratio := expected / waited; judged < 1000 || ratio < 0.8 || ratio > 1.25 {
				t.Errorf("packets are expected to wait %.3f of what %d of them did", ratio, judged)
			}
		})
	}
}

// TestDrainBounds: what is not so, or cannot be, makes no wait that is past all bounds, nor spoils what is known.
func TestDrainBounds(t *testing.T) {
	const each = 1000
	known := func() (*drain, *served) {
		s := &served{now: 1e18, last: 1e18, each: func(int64) int64 { return each }}
		d := new(drain)
		for range 100 {
			for s.depth() < 200 {
				s.join()
			}
			d.wait(s.depth(), s.sent, s.now)
			s.now += 50 * each
		}
		return d, s
	}
	right := func(t *testing.T, d *drain, s *served) {
		t.Helper()
		w := d.wait(s.depth(), s.sent, s.now)
		if want := int64(s.depth()) * each; w.First < want*9/10 || w.First > want*11/10 || w.Each < each*9/10 || w.Each > each*11/10 {
			t.Errorf("%+v, of %d frames of %d ns each", w, s.depth(), each)
		}
	}
	t.Run("known", func(t *testing.T) {
		d, s := known()
		right(t, d, s)
	})
	t.Run("the first line", func(t *testing.T) {
		d := new(drain)
		if w := d.wait(10, 10, 1e18); w != (packet.Wait{}) {
			t.Errorf("%+v is expected of what is seen for the first time", w)
		}
		if w := d.wait(10, 10, 1e18+5000); w.First != 5000 {
			t.Errorf("%+v, of a line that has stood for 5000 ns", w)
		}
		if w := d.wait(8, 10, 1e18+10_000); w.First != 8*5000 || w.Each != 5000 {
			t.Errorf("%+v, of 8 frames, when 2 took 10000 ns", w)
		}
	})
	t.Run("the first line after nothing", func(t *testing.T) {
		d := new(drain)
		d.wait(0, 10, 1e18-1e9)
		d.wait(0, 10, 1e18)
		if w := d.wait(8, 20, 1e18+10_000); w.First != 8*5000 || w.Each != 5000 {
			t.Errorf("%+v, of 8 frames, when 2 took 10000 ns", w)
		}
	})
	t.Run("time that goes back", func(t *testing.T) {
		d, s := known()
		s.now, s.last = s.now-1e9, s.last-1e9
		for i := range s.leaves {
			s.leaves[i] -= 1e9
		}
		d.wait(s.depth(), s.sent, s.now)
		s.now += 50 * each
		right(t, d, s)
	})
	t.Run("frames that came another way", func(t *testing.T) {
		d, s := known()
		for range 100 {
			s.join()
		}
		s.sent -= 100
		d.wait(s.depth(), s.sent, s.now)
		s.now += 50 * each
		right(t, d, s)
	})
	t.Run("a line that stands still", func(t *testing.T) {
		d, s := known()
		s.now += 1e9
		if w := d.wait(200, s.sent, s.now); w.First < 2e8 || w.First > packet.MaxWait {
			t.Errorf("%+v, of 200 frames that have stood for a second", w)
		}
	})
	t.Run("time that jumps", func(t *testing.T) {
		d, s := known()
		for range 20 {
			s.now += 1e18 / 4
			w := d.wait(1<<16, s.sent, s.now)
			if w.First < 0 || w.First > packet.MaxWait || w.Each < 0 || 256*w.Each > packet.MaxWait {
				t.Fatalf("%+v", w)
			}
		}
	})
	t.Run("all numbers", func(t *testing.T) {
		r, d := rand.New(rand.NewPCG(1, 1)), new(drain)
		for range 100_000 {
			w := d.wait(r.Uint32()>>r.IntN(32), r.Uint32()>>r.IntN(32), r.Int64()>>r.IntN(63))
			if w.First < 0 || w.First > packet.MaxWait || w.Each < 0 || 256*w.Each > packet.MaxWait {
				t.Fatalf("%+v of %+v", w, *d)
			}
		}
	})
}

// deep is a queue in which frames wait.
type deep struct {
	port.Queue
	frames int
}

func (q *deep) Depth() int { return q.frames }

// BenchmarkWaits is what the waits of all output ports cost a batch, next to their depths.
func BenchmarkWaits(b *testing.B) {
	for _, c := range []struct {
		ports, frames int
	}{{2, 0}, {2, 100}, {16, 0}, {16, 100}} {
		w := &Worker{route: make([]uint16, c.ports<<queueBits), far: make([]*line, c.ports<<queueBits)}
		batch := &packet.Batch{Depth: make([]uint32, c.ports), Wait: make([]packet.Wait, c.ports)}
		for p := range c.ports {
			w.outlets = append(w.outlets, outlet{queue: &deep{port.Down(), c.frames}})
			for in := range 1 << queueBits {
				w.route[p<<queueBits|in] = uint16(p)
			}
		}
		for name, fill := range map[string]func(*packet.Batch, uint8){"depths": w.depths, "waits": w.waits} {
			b.Run(fmt.Sprintf("%d ports, %d frames each, %s", c.ports, c.frames, name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					w.now += 5000
					for p := range w.outlets {
						w.outlets[p].sent += 10
					}
					fill(batch, 0)
				}
			})
		}
	}
}
