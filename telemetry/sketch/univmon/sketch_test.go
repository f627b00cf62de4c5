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

// play sends the packets of a population, in random order, through a sketch and
// candidates.
func play(p *population, s *Sketch, c *Candidates[uint64], seed uint64) {
	r := rand.New(rand.NewPCG(seed, 3))
	var packets []uint64
	for _, f := range p.flows {
		for range int(f.Value) {
			packets = append(packets, f.Hash)
		}
	}
	r.Shuffle(len(packets), func(i, j int) { packets[i], packets[j] = packets[j], packets[i] })
	for _, h := range packets {
		s.Add(h, 1)
		c.Offer(s.Level(h), h, &h, 1)
	}
}

// flowsOf asks the sketch for the candidates.
func flowsOf(s *Sketch, c *Candidates[uint64]) []Flow {
	var flows []Flow
	for _, e := range c.AppendEntries(nil) {
		flows = append(flows, Flow{e.Hash, s.Level(e.Hash), s.Estimate(e.Hash)})
	}
	return flows
}

// TestAnswers compares all answers with exact ones, for 8 populations of 20,000 flows
// and some 100,000 packets, 5 rows of 1024 cells for each level. Tolerances are
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
		s, err := NewSize(Levels, 5, 1024, 100+seed)
		if err != nil {
			t.Fatal(err)
		}
		s.Use(family)
		c, err := NewCandidates[uint64](Levels, 2*k, seed)
		if err != nil {
			t.Fatal(err)
		}
		play(p, s, c, seed)
		if float64(s.Total()) != p.total {
			t.Fatalf("total %d, want %v", s.Total(), p.total)
		}
		sample := NewSample(k, flowsOf(s, c))
		check := func(i int, name string, got, stderr, want, more float64) {
			worst[i] = max(worst[i], math.Abs(got-want)/want)
			if !(math.Abs(got-want) < 6*stderr+more*want) {
				t.Errorf("seed %d: %s %v +- %v, want %v", seed, name, got, stderr, want)
			}
		}
		got, stderr := sample.Cardinality()
		check(0, "cardinality", got, stderr, p.count, 0.05)
		got, stderr = sample.Entropy(float64(s.Total()))
		check(1, "entropy", got, stderr, p.entropy, 0.02)
		got, bound := s.SecondMoment(1 - 1e-7)
		check(2, "F2", got, bound/6, p.squares, 0)
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
		t.Run(family.String(), func(t *testing.T) { testErrorsKeepBounds(t, family) })
	}
}

func testErrorsKeepBounds(t *testing.T, family hash.Family) {
	for _, depth := range []int{1, 3, 4} {
		missed, asked := 0, 0
		for seed := range uint64(10) {
			p := newPopulation(seed, 5000)
			s, _ := NewSize(4, depth, 512, seed)
			s.Use(family)
			for _, f := range p.flows {
				s.Add(f.Hash, int64(f.Value))
			}
			e := s.Estimator(0.9)
			for _, f := range p.flows {
				asked++
				if value, bound := e.Estimate(f.Hash); math.Abs(value-f.Value) > bound {
					missed++
				}
			}
		}
		if missed > asked/20 {
			t.Errorf("%d rows: %d of %d estimates miss a bound of confidence 0.9", depth, missed, asked)
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

func TestSketchOperations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all, _ := NewSize(4, 3, 50, 9)
	parts := []*Sketch{all.Clone(), all.Clone(), all.Clone()}
	for range 200 {
		h, v := []uint64{r.Uint64N(1000), r.Uint64N(1000)}, []int64{r.Int64N(100), -r.Int64N(100)}
		all.Add(h[0], v[0])
		all.Add(h[1], v[1])
		parts[r.IntN(3)].AddBatch(h, v)
	}
	b, _ := parts[1].AppendBinary(nil)
	parts[1] = new(Sketch)
	if err := parts[1].UnmarshalBinary(b); err != nil {
		t.Fatal(err)
	}
	sum, _ := NewSize(4, 3, 50, 9)
	for _, i := range r.Perm(3) {
		if err := sum.Merge(parts[i]); err != nil {
			t.Fatal(err)
		}
	}
	var estimates []float64
	for i := range 3 {
		for l := range 4 {
			if !slices.Equal(sum.Fragment(i).Row(l), all.Fragment(i).Row(l)) {
				t.Errorf("row %d of level %d: the parts differ from the whole", i, l)
			}
		}
		estimates = append(estimates, float64(all.Fragment(i).Estimate(7)))
	}
	if slices.Sort(estimates); all.Estimate(7) != estimates[1] || sum.Total() != all.Total() {
		t.Errorf("estimate %v, rows say %v; totals %d, %d", all.Estimate(7), estimates, sum.Total(), all.Total())
	}
	sum.Reset()
	if f2, _ := sum.SecondMoment(0.9); f2 != 0 || sum.Estimate(7) != 0 || sum.Total() != 0 {
		t.Error("not empty after Reset")
	}
	for _, s := range [][4]int{{3, 3, 50, 9}, {4, 2, 50, 9}, {4, 3, 49, 9}, {4, 3, 50, 8}} {
		o, _ := NewSize(s[0], s[1], s[2], uint64(s[3]))
		if err := all.Merge(o); !errors.Is(err, sketch.ErrShape) {
			t.Errorf("Merge of %v: %v", s, err)
		}
	}
	if n := testing.AllocsPerRun(100, func() { all.Add(1, 2); all.Estimate(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNew(t *testing.T) {
	s, err := New(Levels, 0.1, 0.05, 1)
	if err != nil || s.Width() != 400 || s.Depth() != sketch.MedianDepth(0.05) || s.Levels() != Levels {
		t.Errorf("%v, %+v", err, s)
	}
	b, err := NewBytes(Levels, 5, 640<<10, 1)
	if err != nil || b.Bytes() != 640<<10 {
		t.Errorf("%v: %d bytes", err, b.Bytes())
	}
	for _, c := range []struct {
		levels         int
		epsilon, delta float64
	}{{0, 0.1, 0.1}, {33, 0.1, 0.1}, {16, 0, 0.1}, {16, 0.1, 1}, {16, 1e-9, 0.1}, {16, 0.1, 1e-300}} {
		if _, err := New(c.levels, c.epsilon, c.delta, 1); err == nil {
			t.Errorf("New of %+v was made", c)
		}
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
	for l := range a.Levels() {
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

func FuzzSketch(f *testing.F) {
	s, _ := NewSize(2, 3, 4, 1)
	s.AddBatch([]uint64{1, 2, 3}, []int64{70000, 1, 5})
	b, _ := s.AppendBinary(nil)
	f.Add(b)
	f.Add(b[:40])
	f.Fuzz(func(t *testing.T, b []byte) {
		var s, again Sketch
		if s.UnmarshalBinary(b) != nil {
			return
		}
		s.Add(1, 1)
		s.Estimator(0.9).Estimate(1)
		c, _ := s.AppendBinary(nil)
		if err := again.UnmarshalBinary(c); err != nil {
			t.Fatal(err)
		}
		if err := again.Merge(&s); err != nil {
			t.Fatal(err)
		}
	})
}

func ExampleSketch() {
	s, _ := New(Levels, 0.05, 0.01, 1)
	c, _ := NewCandidates[string](Levels, 64, 1)
	for i := range 1000 {
		host := fmt.Sprintf("10.0.0.%d", i%8)
		h := hash.Bytes(1, []byte(host))
		s.Add(h, 1)
		c.Offer(s.Level(h), h, &host, 1)
	}
	var flows []Flow
	for _, e := range c.AppendEntries(nil) {
		flows = append(flows, Flow{Hash: e.Hash, Level: s.Level(e.Hash), Value: s.Estimate(e.Hash)})
	}
	sample := NewSample(32, flows)
	n, _ := sample.Cardinality()
	bits, _ := sample.Entropy(float64(s.Total()))
	fmt.Printf("%.0f hosts, %.2f bits\n", n, bits)
	// Output: 8 hosts, 3.00 bits
}
