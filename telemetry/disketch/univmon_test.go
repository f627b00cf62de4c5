package disketch

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestSummary compares what the records of a network say of all flows with the
// exact values: each flow counts once, whatever its path. Six standard errors
// have a chance of 2e-9; the seed is fixed.
func TestSummary(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testSummary(t, family) })
	}
}

func testSummary(t *testing.T, family hash.Family) {
	r := rand.New(rand.NewPCG(7, 7))
	flows := flowsOf(3000)
	paths, exact := map[uint64][]uint64{}, map[uint64]float64{}
	for i, f := range flows {
		paths[f] = [][]uint64{{1, 2, 3}, {1, 4, 5}, {2}, {5, 4, 3, 2, 1}}[i%4]
	}
	const epochs = 3
	n := newNetwork(t, Config{Kind: UnivMon, Epochs: 20, Seed: 5, Hash: family},
		map[uint64]int{1: 1 << 18, 2: 1 << 17, 3: 1 << 18, 4: 1 << 17, 5: 1 << 18}, paths)
	total := 0.0
	for e := range uint64(epochs) {
		packets := uniform(r, 20, e, flows, 300)
		for _, p := range packets {
			exact[p.flow]++
			total++
		}
		n.run(e, packets, 1)
	}
	entropy, f2 := math.Log2(total), 0.0
	for _, v := range exact {
		entropy -= v * math.Log2(v) / total
		f2 += v * v
	}
	s, err := n.records.Summarise(Query{To: epochs, Hash: family}, 500, flows, PathFunc(n.path))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what string
		got  Estimate
		want float64
	}{
		{"cardinality", s.Cardinality(), float64(len(flows))},
		{"total", s.Total(), total},
		{"entropy", s.Entropy(total), entropy},
		{"entropy without a total", s.Entropy(0), entropy},
		{"F2", s.SecondMoment(), f2},
	} {
		if math.Abs(c.got.Value-c.want) > 6*c.got.StdErr || c.got.StdErr > c.want/4 {
			t.Errorf("%s: %.2f with a standard error of %.2f, it is %.2f", c.what, c.got.Value, c.got.StdErr, c.want)
		}
	}
	heavy := s.sample.Heavy(nil, 300)
	// Flows of one hop have one row, where a heavy flow may sit on a small one.
	wrong := 0
	for _, f := range heavy {
		if math.Abs(f.Value-exact[f.Hash]) > exact[f.Hash]/4 {
			wrong++
		}
	}
	if wrong > len(heavy)/10 {
		t.Errorf("%d of %d heavy flows are not", wrong, len(heavy))
	}
	if len(heavy) < 60 || len(s.Missing) > 0 || s.Flows != len(flows) {
		t.Errorf("%d heavy flows, %d flows, missing %v", len(heavy), s.Flows, s.Missing)
	}
	if _, err := n.records.Summarise(Query{From: 9, To: 10}, 500, flows, PathFunc(n.path)); !errors.Is(err, ErrNoRecords) {
		t.Errorf("of an epoch without records: %v", err)
	}
}
