package disketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestFindTarget: the target found comes near the best of those tried in full, and
// is the same whatever n the records were made with, within the factor of two that the paper
// calls forgiving, twice over.
func TestFindTarget(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	flows := flowsOf(3000)
	path := []uint64{1, 2, 3, 4, 5}
	memory := map[uint64]int{1: 16000, 2: 32000, 3: 24000, 4: 1000, 5: 600}
	packets := uniform(r, 20, 0, flows, 400)
	exact := map[uint64]float64{}
	for _, p := range packets {
		exact[p.flow]++
	}
	paths := map[uint64][]uint64{}
	for _, f := range flows {
		paths[f] = path
	}
	run := func(target float64) (rmse, found float64) {
		n := newNetwork(t, Config{Kind: CountSketch, Epochs: 20, Seed: 5, Target: target}, memory, paths)
		const epochs = 5
		for e := range uint64(epochs) {
			shifted := make([]arrival, len(packets))
			for i, p := range packets {
				shifted[i] = arrival{p.flow, p.time + e<<20}
			}
			n.run(e, shifted, 1)
		}
		a := n.records.Asker()
		for _, f := range flows {
			d := a.Frequency(Query{From: epochs - 1, To: epochs}, f, PathFunc(n.path)).Value - exact[f]
			rmse += d * d
		}
		found, err := n.records.FindTarget(TargetSearch{Epoch: epochs - 1, Paths: [][]uint64{path}, Trials: 5000})
		if err != nil {
			t.Fatal(err)
		}
		return math.Sqrt(rmse / float64(len(flows))), found
	}
	best := math.Inf(1)
	var founds []float64
	step := 4.0
	if testing.Short() {
		step = 32
	}
	for target := 64.0; target > 0.2; target /= step {
		rmse, found := run(target)
		best = min(best, rmse)
		founds = append(founds, found)
		t.Logf("target %g: error %.3f, found %.3f", target, rmse, found)
	}
	for _, f := range founds {
		if rmse, _ := run(f); rmse > 1.5*best {
			t.Errorf("target %.3g was found; its error is %.2f, the best is %.2f", f, rmse, best)
		}
	}
	var none Records
	if _, err := none.FindTarget(TargetSearch{Paths: [][]uint64{path}}); !errors.Is(err, ErrNoRecords) {
		t.Errorf("without records: %v", err)
	}
}

// TestFindTargetInBytes: with bytes in the cells the target is that of packets,
// times their size, within the steps of the search.
func TestFindTargetInBytes(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	flows := flowsOf(2000)
	path := []uint64{1, 2, 3}
	paths := map[uint64][]uint64{}
	for _, f := range flows {
		paths[f] = path
	}
	packets := uniform(r, 20, 0, flows, 400)
	find := func(value int64) float64 {
		n := newNetwork(t, Config{Kind: CountSketch, Epochs: 20, Seed: 5}, map[uint64]int{1: 1000, 2: 4000, 3: 2000}, paths)
		n.run(0, packets, value)
		rho, err := n.records.FindTarget(TargetSearch{Query: Query{Composition: Rows}, Paths: [][]uint64{path}, Trials: 3000})
		if err != nil {
			t.Fatal(err)
		}
		return rho
	}
	if one, many := find(1), find(1000); many < 999*one/4 || many > 1001*one*4 {
		t.Errorf("target %g for packets, %g for 1000 bytes each", one, many)
	}
}

func TestTargetIsAMean(t *testing.T) {
	var m Target
	if m.Rho() != 0 {
		t.Error("a target from nothing")
	}
	m.Found(2)
	m.Found(0)
	if got := m.Found(8); math.Abs(got-4) > 1e-12 {
		t.Errorf("the mean of 2 and 8 is %g", got)
	}
}
