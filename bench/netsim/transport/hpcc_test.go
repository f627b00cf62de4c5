package transport

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
)

// smallFat has 16 hosts, of which 0 to 7 are in one pod.
var smallFat = fabric.Tree{Pods: 2, Racks: 2, Aggregations: 2, Core: 4, Hosts: 4}

func run(t testing.TB, c Config, flows []Flow) *Simulation {
	t.Helper()
	s, err := New(c, flows)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

// A flow that is alone takes the ideal time as long as no feedback slows it down: without bytes for
// telemetry, and within the first round trip. A last packet that is shorter than an acknowledgement may
// have its own wait for the one before it.
func TestAloneIsIdeal(t *testing.T) {
	const wait = 1000 * event.Picosecond // of 60 - 49 bytes
	for _, feedback := range []string{"int", "pint"} {
		for _, bytes := range []int64{1, 999, 1000, 1001, 2500, 30_000, 100_700, 140_001} {
			for _, to := range []int{1, 4, 8} { // same rack, same pod, other pod
				c := hpccConfig(t, smallFat, feedback)
				c.TelemetryBytes = 0
				s := run(t, c, []Flow{{From: 0, To: to, Bytes: bytes, Start: 77}})
				if got, ok := s.Completion(0); !ok || got < s.ideal(0) || got > s.ideal(0)+wait {
					t.Errorf("%s, %d bytes to host %d: %d ps, ideal %d", feedback, bytes, to, got, s.ideal(0))
				}
			}
		}
	}
}

// A long flow alone runs at eta of its link.
func TestAloneReachesEta(t *testing.T) {
	for _, feedback := range []string{"int", "pint"} {
		c := hpccConfig(t, smallFat, feedback)
		c.TelemetryBytes = 0
		s := run(t, c, []Flow{{From: 0, To: 12, Bytes: 20_000_000}})
		slow, ok := s.Slowdown(0)
		t.Logf("%s: slowdown %.4f", feedback, slow)
		if !ok || slow < 1/0.99 || slow > 1/0.93 {
			t.Errorf("%s: slowdown %.4f, at eta it is %.4f", feedback, slow, 1/0.95)
		}
	}
}

// Flows that begin one after another at one bottleneck fill it to eta, leave its queue nearly empty,
// and end up with equal shares.
func TestBottleneckIsSharedFairly(t *testing.T) {
	for _, feedback := range []string{"int", "int-md", "pint"} {
		c := hpccConfig(t, smallFat, feedback)
		c.Deadline = 60 * event.Millisecond
		c.HPCC = &HPCC{WAI: 800, Eta: 0.95} // ten times the paper's, to converge within a short test
		const n = 4
		var flows []Flow
		for i := range n {
			flows = append(flows, Flow{From: i, To: 8, Bytes: 1 << 40, Start: event.Time(i) * 50 * event.Microsecond})
		}
		s, err := New(c, flows)
		if err != nil {
			t.Fatal(err)
		}
		at := func(until event.Time) (acked [n]int64, sent uint64) {
			s.config.Deadline = until
			if err := s.Run(context.Background()); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				acked[i] = s.flows[i].una
			}
			return acked, s.net.LinkSent(2*8 + 1)
		}
		before, sentBefore := at(8 * event.Millisecond)
		const span = 4 * event.Millisecond
		after, sentAfter := at(12 * event.Millisecond)
		var rate [n]float64
		total := 0.0
		for i := range n {
			rate[i] = float64(after[i]-before[i]) * 8 / span.Seconds() / 1e9
			total += rate[i]
		}
		use := float64(sentAfter-sentBefore) * 8 / span.Seconds() / 100e9
		t.Logf("%s: %.1f Gbit/s, use of the link %.4f, largest queue %d bytes", feedback, rate, use, s.net.Counts().LargestQueue)
		if math.Abs(use-0.95) > 0.02 {
			t.Errorf("%s: the link is used %.4f, eta is 0.95", feedback, use)
		}
		if lo, hi := slices.Min(rate[:]), slices.Max(rate[:]); lo < 0.8*hi {
			t.Errorf("%s: rates are %.1f Gbit/s", feedback, rate)
		}
	}
}
