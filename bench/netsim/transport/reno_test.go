package transport

import (
	"context"
	"math"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
)

// renoConfig is a network of 10 Gbit/s whose queues drop.
func renoConfig(t testing.TB, tree fabric.Tree) Config {
	t.Helper()
	g, err := tree.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return Config{
		Fabric: fabric.Config{
			Graph: g, Hosts: tree.Hosts, HostRate: 10e9, TrunkRate: 10e9, Delay: event.Microsecond, Buffer: 32 << 20, QueueLimit: 150_000, Seed: 1,
		},
		Reno:    &DefaultReno,
		Payload: 1460, HeaderBytes: 58, AckBytes: 64, Seed: 1, Deadline: event.Second,
	}
}

// A short flow of Reno that is alone sends its initial window at once: it takes the ideal time.
func TestRenoAlone(t *testing.T) {
	for _, bytes := range []int64{1, 1460, 10_000, 14_600} {
		s := run(t, renoConfig(t, smallFat), []Flow{{From: 0, To: 9, Bytes: bytes}})
		if got, ok := s.Completion(0); !ok || got < s.ideal(0) || got > s.ideal(0)+12*event.Nanosecond {
			t.Errorf("%d bytes: %d ps, ideal %d", bytes, got, s.ideal(0))
		}
		if s.retries != 0 {
			t.Errorf("%d bytes: %d segments were sent again", bytes, s.retries)
		}
	}
}

// The window of two long flows at a bottleneck is a saw: it grows by a segment per round trip, and halves
// when the queue has overflowed, at which the window was as large as pipe and queue.
func TestRenoSawtooth(t *testing.T) {
	c := renoConfig(t, smallFat)
	c.Fabric.QueueLimit = 60_000
	c.Deadline = 0
	s, err := New(c, []Flow{{From: 0, To: 12, Bytes: 1 << 40}, {From: 4, To: 12, Bytes: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	type tooth struct{ from, to float64 }
	var teeth []tooth
	up, down := 0, 0
	last, highest := 0.0, 0.0
	for ms := 20; ms < 220; ms++ {
		for us := range 100 {
			s.config.Deadline = event.Time(ms)*event.Millisecond + event.Time(us)*10*event.Microsecond
			if err := s.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			f := &s.flows[0]
			w := f.window
			if f.reno.recovering {
				continue
			}
			switch {
			case last > 0 && w < last*0.8:
				teeth = append(teeth, tooth{last, w})
				down++
			case w > last:
				// In 10 us, a round trip is at least 12: no more than a segment, and less
				// than a quarter of one more for rounding.
				if last > 0 && w-last > 1.25*1460 {
					t.Fatalf("the window grows from %.0f to %.0f in 10 us", last, w)
				}
				up++
			}
			last, highest = w, max(highest, w)
		}
	}
	t.Logf("%d teeth, %d steps up, largest window %.0f, %d segments sent again", len(teeth), up, highest, s.retries)
	if len(teeth) < 10 || up < 20*down {
		t.Errorf("%d teeth, %d steps up", down, up)
	}
	for _, c := range teeth {
		if r := c.to / c.from; r < 0.35 || r > 0.75 {
			t.Errorf("the window falls from %.0f to %.0f, not to about half", c.from, c.to)
		}
	}
	if goodput := float64(s.flows[0].una+s.flows[1].una) * 8 / s.net.Now().Seconds(); goodput < 0.9*10e9*1460/1518 {
		t.Errorf("the two flows reach %.3g bit/s", goodput)
	}
}

// Every byte arrives, however much is dropped.
func TestRenoRecovers(t *testing.T) {
	for _, limit := range []int64{3_200, 8_000, 40_000} {
		c := renoConfig(t, smallFat)
		c.Fabric.QueueLimit = limit
		c.Deadline = 20 * event.Second
		var flows []Flow
		for i := range 15 {
			flows = append(flows, Flow{From: i, To: 15, Bytes: 300_000 + int64(i)})
		}
		s := run(t, c, flows)
		if s.Ended() != len(flows) || s.net.Counts().Dropped == 0 || s.retries == 0 {
			t.Errorf("queues of %d bytes: %d flows of %d ended, %d packets dropped, %d sent again", limit, s.Ended(), len(flows), s.net.Counts().Dropped, s.retries)
		}
		for i := range flows {
			if f := &s.flows[i]; f.expected != f.Bytes || f.una != f.Bytes {
				t.Errorf("flow %d: %d of %d bytes arrived, %d are acknowledged", i, f.expected, f.Bytes, f.una)
			}
		}
	}
}

// receive against a set of segments, in random order.
func TestReceive(t *testing.T) {
	s := &Simulation{config: Config{Payload: 10}}
	for seed := range uint64(200) {
		f := &flow{Flow: Flow{Bytes: 1 + int64(seed)*37%2500}}
		segments := int((f.Bytes + 9) / 10)
		there := make([]bool, segments)
		state := seed*2862933555777941757 + 3037000493
		for n := 0; f.expected < f.Bytes; n++ {
			if n > 100_000 {
				t.Fatal("the flow does not end")
			}
			state = state*6364136223846793005 + 1442695040888963407
			i := int(state>>33) % segments
			s.receive(f, int64(i)*10)
			there[i] = true
			want := int64(0)
			for k := 0; k < segments && there[k]; k++ {
				want = min(int64(k+1)*10, f.Bytes)
			}
			if f.expected != want {
				t.Fatalf("%d bytes expected, want %d", f.expected, want)
			}
		}
	}
}

func TestRenoTimeoutBacksOff(t *testing.T) {
	r := renoState{timeout: 5 * event.Millisecond}
	r.measured(100*event.Microsecond, event.Millisecond)
	if r.timeout != event.Millisecond {
		t.Errorf("a timeout of %d ps behind a round trip of 100 us", r.timeout)
	}
	if w := r.expired(1460, 0, 14600); w != 1460 || r.timeout != 2*event.Millisecond || math.Abs(r.threshold-7300) > 1 {
		t.Errorf("window %v, timeout %d, threshold %v", w, r.timeout, r.threshold)
	}
}
