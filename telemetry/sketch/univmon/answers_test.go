package univmon

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/topk"
)

// play sends the packets of a population, in random order, through the fragments of a path and
// candidates.
func play(p *population, path []*Fragment, c *Candidates[uint64], seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	var packets []uint64
	for _, f := range p.flows {
		for range int(f.Value) {
			packets = append(packets, f.Hash)
		}
	}
	r.Shuffle(len(packets), func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
	for _, h := range packets {
		for _, f := range path {
			f.Add(h, 1)
		}
		c.Offer(path[0].Level(h), h, &h, 1)
	}
}

// flowsOf are the candidates, each with the median of the fragments' estimates.
func flowsOf(path []*Fragment, c *Candidates[uint64]) []Flow {
	var flows []Flow
	for _, e := range c.AppendEntries(nil) {
		var estimates []int64
		for _, f := range path {
			estimates = append(estimates, f.Estimate(e.Hash))
		}
		slices.Sort(estimates)
		flows = append(flows, Flow{e.Hash, path[0].Level(e.Hash), float64(estimates[len(path)/2])})
	}
	return flows
}

// TestAnswers compares all answers with exact ones, for 8 populations of 20,000 flows
// and some 100,000 packets, a path of 5 fragments with 1024 cells for each level. Tolerances are
// six standard errors of sampling and, on top of that, what estimates and missing candidates
// add; one of these 24 answers of each family misses by luck with less than 1e-7.
func TestAnswers(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testAnswers(t, family) })
	}
}

func testAnswers(t *testing.T, family hash.Family) {
	const k = 512
	var worst [4]float64
	for seed := range uint64(8) {
		p := newPopulation(seed, 20_000)
		var path []*Fragment
		for i := range uint64(5) {
			f, err := NewFragment(Levels, 1024, 100+seed, hash.Uint64(100+seed, i))
			if err != nil {
				t.Fatal(err)
			}
			f.Use(family)
			path = append(path, f)
		}
		c, err := NewCandidates[uint64](Levels, 2*k, seed)
		if err != nil {
			t.Fatal(err)
		}
		play(p, path, c, seed)
		total := float64(path[0].Total())
		if total != p.total {
			t.Fatalf("total %v, want %v", total, p.total)
		}
		sample := NewSample(k, flowsOf(path, c))
		check := func(i int, name string, got, stderr, want, more float64) {
			worst[i] = max(worst[i], math.Abs(got-want)/want)
			if !(math.Abs(got-want) < 6*stderr+more*want) {
				t.Errorf("seed %d: %s %v +- %v, want %v", seed, name, got, stderr, want)
			}
		}
		got, stderr := sample.Cardinality()
		check(0, "cardinality", got, stderr, p.count, 0.05)
		got, stderr = sample.Entropy(total)
		check(1, "entropy", got, stderr, p.entropy, 0.02)
		check(2, "F2", path[0].SecondMoment(), p.squares*math.Sqrt(2.0/1024), p.squares, 0)
		worst[3] = max(worst[3], 1-f1(sample.Heavy(nil, p.total/1000), p, p.total/1000))
	}
	t.Logf("worst relative errors of cardinality, entropy, F2: %.3f; worst 1-F1 of heavy flows %.3f", worst[:3], worst[3])
	if worst[3] > 0.1 {
		t.Errorf("heavy flows: F1 %v", 1-worst[3])
	}
}

// f1 is the harmonic mean of precision and recall.
func f1(got []Flow, p *population, threshold float64) float64 {
	want := map[uint64]bool{}
	for _, f := range p.flows {
		if f.Value >= threshold {
			want[f.Hash] = true
		}
	}
	right := 0.0
	for _, f := range got {
		if want[f.Hash] {
			right++
		}
	}
	return 2 * right / float64(len(got)+len(want))
}

// TestErrorsKeepBounds: see the test of the same name in countsketch, whose rows
// these are.
func TestErrorsKeepBounds(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		missed, asked := 0, 0
		for seed := range uint64(10) {
			p := newPopulation(seed, 5000)
			f, _ := NewFragment(4, 512, seed, 100+seed)
			f.Use(family)
			for _, x := range p.flows {
				f.Add(x.Hash, int64(x.Value))
			}
			for _, x := range p.flows {
				asked++
				if bound := f.Error(f.Level(x.Hash)) / math.Sqrt(1-0.9); math.Abs(float64(f.Estimate(x.Hash))-x.Value) > bound {
					missed++
				}
			}
		}
		if missed > asked/20 {
			t.Errorf("%v: %d of %d estimates miss a bound of confidence 0.9", family, missed, asked)
		}
	}
}

// TestPartitionBeatsNesting: a flow's row disturbs its estimate less than the
// row of level 0 that all flows share, as the paper has it, for the same
// cells in each row. Expected is a fifth of the squared error; seeds are fixed.
func TestPartitionBeatsNesting(t *testing.T) {
	const width = 512
	ours, theirs := 0.0, 0.0
	for seed := range uint64(10) {
		p := newPopulation(seed, 5000)
		f, _ := NewFragment(Levels, width, seed, 100+seed)
		nested, _ := NewFragment(1, width, seed, 100+seed)
		for _, x := range p.flows {
			f.Add(x.Hash, int64(x.Value))
			nested.Add(x.Hash, int64(x.Value))
		}
		for _, x := range p.flows {
			ours += math.Pow(float64(f.Estimate(x.Hash))-x.Value, 2)
			theirs += math.Pow(float64(nested.Estimate(x.Hash))-x.Value, 2)
		}
	}
	t.Logf("mean square error %.3f of that of a nested level 0", ours/theirs)
	if ours > theirs {
		t.Errorf("mean square error %v, nested %v", ours, theirs)
	}
}

func TestCandidates(t *testing.T) {
	for _, c := range [][2]int{{0, 4}, {MaxLevels + 1, 4}, {1, 0}} {
		if _, err := NewCandidates[uint64](c[0], c[1], 1); err == nil {
			t.Errorf("candidates of %v were made", c)
		}
	}
	a, _ := NewCandidates[uint64](4, 8, 1)
	b := a.Clone()
	for id := range uint64(4) {
		a.Offer(int(id), hash.Uint64(1, id), &id, 10)
		b.Offer(int(id), hash.Uint64(1, id), &id, int64(id+1))
	}
	if err := a.Merge(b); err != nil {
		t.Fatal(err)
	}
	for l := range 4 {
		want := []topk.Entry[uint64]{{Hash: hash.Uint64(1, uint64(l)), Key: uint64(l), Count: int64(11 + l)}}
		if got := a.Table(l).Top(9); !slices.Equal(got, want) {
			t.Errorf("level %d: %v, want %v", l, got, want)
		}
	}
	for _, s := range [][2]int{{3, 8}, {4, 16}} {
		o, _ := NewCandidates[uint64](s[0], s[1], 1)
		if err := a.Merge(o); !errors.Is(err, sketch.ErrShape) {
			t.Errorf("Merge of %v: %v", s, err)
		}
	}
	if a.Reset(); len(a.AppendEntries(nil)) != 0 {
		t.Error("not empty after Reset")
	}
}

func ExampleFragment() {
	f, _ := NewFragment(Levels, 1000, 1, 2)
	c, _ := NewCandidates[string](Levels, 64, 1)
	for i := range 1000 {
		host := fmt.Sprintf("10.0.0.%d", i%8)
		h := hash.Bytes(1, []byte(host))
		f.Add(h, 1)
		c.Offer(f.Level(h), h, &host, 1)
	}
	var flows []Flow
	for _, e := range c.AppendEntries(nil) {
		flows = append(flows, Flow{Hash: e.Hash, Level: f.Level(e.Hash), Value: float64(f.Estimate(e.Hash))})
	}
	sample := NewSample(32, flows)
	n, _ := sample.Cardinality()
	bits, _ := sample.Entropy(float64(f.Total()))
	fmt.Printf("%.0f hosts, %.2f bits\n", n, bits)
	// Output: 8 hosts, 3.00 bits
}
