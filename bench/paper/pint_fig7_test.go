package paper

import (
	"context"
	"errors"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/bench/netsim/event"
	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
)

// shortScenarios are 150 us of the small network: INT, PINT on each packet, and on one of 16.
func shortScenarios(t *testing.T, o Options) []scenario {
	t.Helper()
	o.Quick = true
	n, err := newHPCCNetwork(o)
	if err != nil {
		t.Fatal(err)
	}
	n.arrivals = 150 * event.Microsecond
	var all []scenario
	for _, frequency := range []float64{0, 1, 1. / 16} {
		var feedback *fabric.Reader
		if frequency > 0 {
			if feedback, err = congestionFeedback(o, 8, frequency); err != nil {
				t.Fatal(err)
			}
		}
		s, err := n.scenario(o, "short", transport.Hadoop, 0.5, feedback)
		if errors.Is(err, os.ErrNotExist) {
			t.Skipf("no shared data: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

// TestSimulateDoesNotDependOnWorkers: one core or many give the same flows, and progress ends with all of them.
func TestSimulateDoesNotDependOnWorkers(t *testing.T) {
	last := 0
	o := Options{Seed: 3, Progress: func(done, total int, what string) {
		if last = done; done > total || !strings.Contains(what, "events/s") {
			t.Errorf("%d of %d: %s", done, total, what)
		}
	}}
	flows := 0
	once := func() (all [][]flowTime) {
		scenarios := shortScenarios(t, o)
		out, err := simulate(context.Background(), o, scenarios)
		if err != nil {
			t.Fatal(err)
		}
		flows = 0
		for i, r := range out {
			flows += len(scenarios[i].flows)
			all = append(all, r.flows)
		}
		return all
	}
	before := runtime.GOMAXPROCS(1)
	alone := once()
	runtime.GOMAXPROCS(4)
	together := once()
	runtime.GOMAXPROCS(before)
	for i := range alone {
		if !slices.Equal(alone[i], together[i]) {
			t.Errorf("scenario %d: one worker and four give different flows", i)
		}
	}
	if last != flows || flows < 300 {
		t.Errorf("%d of %d flows were reported", last, flows)
	}
	if slices.Equal(alone[0], alone[1]) || slices.Equal(alone[1], alone[2]) {
		t.Error("feedback makes no difference")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := simulate(ctx, o, shortScenarios(t, o)); err == nil {
		t.Error("a cancelled simulation gives outcomes")
	}
}

// A simulation whose flows do not end says so.
func TestSimulateRefusesAnUnfinishedRun(t *testing.T) {
	all := shortScenarios(t, Options{Seed: 3})[:1]
	all[0].config.Deadline = 20 * event.Microsecond
	if _, err := simulate(context.Background(), Options{}, all); err == nil {
		t.Error("flows that did not end were accepted")
	}
}

// A workload of which hardly a flow arrives, or none, has no deciles: no row of NaN, but a reason.
func TestSimulateRefusesTooFewFlows(t *testing.T) {
	all := shortScenarios(t, Options{Seed: 3})[:1]
	for _, n := range []int{0, 9} {
		all[0].flows = all[0].flows[:n]
		if _, err := simulate(context.Background(), Options{}, all); err == nil {
			t.Errorf("%d flows were accepted", n)
		}
		all = shortScenarios(t, Options{Seed: 3})[:1]
	}
}

func TestDecilesAndGoodput(t *testing.T) {
	var r simulated
	for i := range 1000 { // sizes in no order; the slowdown is the size's rank
		rank := i * 7 % 1000
		r.flows = append(r.flows, flowTime{bytes: int64(rank) * 20_000, seconds: 2, slowdown: float64(rank)})
	}
	p95 := r.deciles()
	for d, v := range p95 {
		if want := float64(100*d + 95); v != want {
			t.Errorf("decile %d: %v, want %v", d+1, v, want)
		}
	}
	// Ranks 501 to 999 are over 10 MB.
	if g, n := r.longGoodput(); n != 499 || math.Abs(g-750*20_000*8/2) > 1 {
		t.Errorf("%v bit/s of %d flows", g, n)
	}
	if f := r.meanFCT(); f != 2 {
		t.Errorf("a mean of %v s", f)
	}
	if v := r.p95(func(bytes int64) bool { return bytes < 100*20_000 }); v != 95 {
		t.Errorf("short flows: %v", v)
	}
}
