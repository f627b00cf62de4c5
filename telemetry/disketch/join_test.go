package disketch

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestJoin: rows of whole epochs are joined as the same rows in records are.
func TestJoin(t *testing.T) {
	for _, kind := range []Kind{CountSketch, CountMin} {
		r, flows := rand.New(rand.NewPCG(2, 2)), flowsOf(300)
		paths := map[uint64][]uint64{}
		for _, f := range flows {
			paths[f] = []uint64{1, 2, 3}
		}
		n := newNetwork(t, Config{Kind: kind, Epochs: 20, Seed: 5, Hash: hash.XX, Target: 1e9, Levels: 4}, map[uint64]int{1: 400, 2: 1000, 3: 2000}, paths)
		n.run(0, uniform(r, 20, 0, flows, 300), 1)
		a, differ := n.records.Asker(), 0
		var j Joiner
		for _, f := range flows {
			var joined [2]float64
			for i, how := range []Composition{Rows, Likeliest} {
				var counts []float64
				var rows []*Cells
				for _, x := range n.all {
					counts, rows = append(counts, x.Estimate(f)), append(rows, NewCells(x.Cells(0)))
				}
				joined[i] = j.Join(kind, how, counts, rows)
				if want := a.Frequency(Query{To: 1, Hash: hash.XX, Composition: how}, f, PathFunc(n.path)).Value; math.Abs(joined[i]-want) > 1e-9*(1+want) {
					t.Fatalf("%v, composition %d: %g, by records %g", kind, how, joined[i], want)
				}
			}
			if joined[0] != joined[1] {
				differ++
			}
		}
		if differ == 0 {
			t.Errorf("%v: compositions do not differ", kind)
		}
	}
}
