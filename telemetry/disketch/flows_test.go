package disketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestBloom: of flows that come in some epochs only, an answer never misses an epoch, and its bounds of 95 % hold for 95 % of the flows: Markov's
// inequality is so wide that none of 1,000 is expected outside. More switches on the path say yes together less often.
func TestBloom(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 'b'))
	flows := flowsOf(1000)
	paths := map[uint64][]uint64{}
	for i, f := range flows {
		paths[f] = [][]uint64{{1}, {2, 1, 3}, {1, 2, 3, 4, 5}}[i%3]
	}
	n := newNetwork(t, Config{Kind: Bloom, Epochs: 20, Seed: 5, Hash: hash.CRC, SingleHop: true}, map[uint64]int{1: 100, 2: 60, 3: 60, 4: 40, 5: 40}, paths)
	exact := map[uint64]float64{}
	const epochs = 6
	for e := range uint64(epochs) {
		var some []uint64
		for _, f := range flows {
			if r.IntN(4) == 0 {
				some, exact[f] = append(some, f), exact[f]+1
			}
		}
		n.run(e, uniform(r, 20, e, some, 5), 1)
	}
	for _, x := range n.fragments {
		x.Assign(Assignment{Log: 3, From: 0, Until: 99})
		x.SetTarget(1)
		x.Aim(3)
		if x.Begin(50).Log != 0 {
			t.Fatal("an epoch of bits is divided")
		}
	}
	var excess [6]float64
	outside := 0
	for _, f := range flows {
		for _, how := range []Composition{Checked, Rows, Likeliest} {
			a := n.records.Frequency(Query{To: epochs, Hash: hash.CRC, Composition: how}, f, PathFunc(n.path))
			if a.Value < exact[f] || a.Value > epochs || a.Value != math.Trunc(a.Value) || a.High < a.Value {
				t.Fatalf("flow %#x was there in %g epochs, not %+v", f, exact[f], a)
			}
			if how == Checked {
				excess[len(paths[f])] += a.Value - exact[f]
				if exact[f] < a.Low {
					outside++
				}
			}
		}
	}
	if outside > 50 {
		t.Errorf("%d of 1,000 flows were there less often than their bounds say", outside)
	}
	if !(excess[1] > excess[3] && excess[3] > excess[5]) {
		t.Errorf("false positives by the switches on the path: %v", excess)
	}
}

// TestBloomReroute: a flow that changes its path within an epoch was there once in it.
func TestBloomReroute(t *testing.T) {
	flow := flowsOf(1)[0]
	n := newNetwork(t, Config{Kind: Bloom, Epochs: 20, Seed: 5}, map[uint64]int{1: 200, 2: 200}, map[uint64][]uint64{flow: {1, 2}})
	n.run(3, []arrival{{flow, 3<<20 + 5}}, 1)
	change := rerouted{{From: 0, To: 0.5, Switches: []uint64{1}}, {From: 0.5, To: 1, Switches: []uint64{2}}}
	if a := n.records.Frequency(Query{From: 3, To: 4}, flow, change); a.Value != 1 || a.Low > 1 || a.High < 1 {
		t.Errorf("%+v", a)
	}
}

type rerouted []Segment

func (s rerouted) Path(buf []Segment, _, _ uint64) []Segment { return append(buf, s...) }

// TestFlows: each flow counts once in a network, whatever switches and epochs it passes; a switch of which nothing came is named. Of 40
// networks none is expected outside of bounds of 99 %, which are ten standard errors.
func TestFlows(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 'h'))
		flows := flowsOf(3000)
		paths := map[uint64][]uint64{}
		for i, f := range flows {
			paths[f] = [][]uint64{{1}, {2, 1, 3}, {1, 2, 3, 4, 5}}[i%3]
		}
		n := newNetwork(t, Config{Kind: HyperLogLog, Epochs: 20, Seed: seed}, map[uint64]int{1: 2000, 2: 1000, 3: 1500, 4: 800, 5: 3000}, paths)
		exact := map[uint64]bool{}
		for e := range uint64(4) {
			var some []uint64
			for _, f := range flows {
				if r.IntN(4) == 0 {
					some, exact[f] = append(some, f), true
				}
			}
			n.run(e, uniform(r, 20, e, some, 3), 1)
		}
		q := Query{To: 4, Confidence: 0.99}
		a, err := n.records.Flows(q)
		if want := float64(len(exact)); err != nil || want < a.Low || want > a.High || math.Abs(a.Value-want) > 0.3*want || a.Covered != 1 || len(a.Missing) != 0 {
			t.Fatalf("seed %d: %v, %+v of %g flows", seed, err, a, want)
		}
		n.records.expect(ID{Switch: 6})
		if a, err = n.records.Flows(q); err != nil || len(a.Missing) != 4 || a.Missing[0].Fragment.Switch != 6 {
			t.Fatalf("%v, missing %v", err, a.Missing)
		}
	}
	if _, err := new(Records).Flows(Query{To: 9}); !errors.Is(err, ErrNoRecords) {
		t.Error(err)
	}
	n := newNetwork(t, Config{Kind: CountMin, Epochs: 20}, map[uint64]int{1: 64}, nil)
	n.run(0, nil, 1)
	if _, err := n.records.Flows(Query{To: 1}); err == nil || errors.Is(err, ErrNoRecords) {
		t.Errorf("a Count-Min knows how many flows there are: %v", err)
	}
}
