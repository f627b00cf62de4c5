package univmon

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// population is flows of heavy-tailed sizes, with the sums that a sample estimates.
type population struct {
	flows                 []Flow
	count, total, entropy float64
	squares               float64
}

func newPopulation(seed uint64, n int) *population {
	r := rand.New(rand.NewPCG(seed, 1))
	p := &population{}
	for i := range n {
		h := hash.Uint64(seed, uint64(i))
		v := math.Floor(math.Min(1e6, math.Pow(1-r.Float64(), -1/1.1)))
		p.flows = append(p.flows, Flow{h, Level(Levels, seed, h), v})
		p.count++
		p.total += v
		p.squares += v * v
	}
	for _, f := range p.flows {
		p.entropy -= f.Value / p.total * math.Log2(f.Value/p.total)
	}
	return p
}

// recursion is the paper's Algorithm 2, with the k heaviest flows of each
// substream found the slow way.
func recursion(k int, flows []Flow, g func(float64) float64) float64 {
	y := 0.0
	for l := Levels - 1; l >= 0; l-- {
		var substream []Flow
		for _, f := range flows {
			if f.Level >= l {
				substream = append(substream, f)
			}
		}
		y *= 2
		if l == Levels-1 {
			y = 0
		}
		for i, f := range substream {
			heavier := 0
			for j, o := range substream {
				if o.Value > f.Value || o.Value == f.Value && (o.Hash < f.Hash || o.Hash == f.Hash && j < i) {
					heavier++
				}
			}
			switch {
			case heavier >= k:
			case f.Level == l:
				y += g(f.Value)
			default:
				y -= g(f.Value)
			}
		}
	}
	return y
}

// TestSampleIsThePapersRecursion: the closed form and the recursion agree.
func TestSampleIsThePapersRecursion(t *testing.T) {
	for seed := range uint64(5) {
		p := newPopulation(seed, 600)
		for _, k := range []int{1, 7, 64, 1000} {
			s := NewSample(k, p.flows)
			for name, g := range map[string]func(float64) float64{
				"1": func(float64) float64 { return 1 }, "v": func(v float64) float64 { return v }, "v^2": func(v float64) float64 { return v * v },
			} {
				got, _ := s.Sum(g)
				if want := recursion(k, p.flows, g); math.Abs(got-want) > 1e-9*math.Abs(want) {
					t.Errorf("seed %d, k %d: sum of %s is %v, by the recursion %v", seed, k, name, got, want)
				}
			}
		}
	}
}

// TestSampleErrors draws samples of 100 populations. A sum divided by its
// standard error has mean zero and, if the standard error is right, a variance near one; the
// mean of 100 such is beyond 0.6 with a chance below 1e-8 (6 standard errors),
// were they normal, a mean square below 0.4 or above 2 (chi-square of 100) likewise,
// and one of the 300 is beyond 6 with a chance of 6e-7.
func TestSampleErrors(t *testing.T) {
	const runs, k = 100, 256
	var mean, square [3]float64
	for seed := range uint64(runs) {
		p := newPopulation(1000+seed, 10_000)
		s := NewSample(k, p.flows)
		check := func(i int, name string, got, stderr, want float64) {
			z := (got - want) / stderr
			if !(math.Abs(z) < 6) {
				t.Errorf("seed %d: %s is %v +- %v, want %v", seed, name, got, stderr, want)
			}
			mean[i] += z / runs
			square[i] += z * z / runs
		}
		got, stderr := s.Cardinality()
		check(0, "cardinality", got, stderr, p.count)
		if stderr > 2*got/math.Sqrt(k) {
			t.Errorf("cardinality %v +- %v: worse than its documentation says", got, stderr)
		}
		got, stderr = s.Total()
		check(1, "total", got, stderr, p.total)
		got, stderr = s.Entropy(p.total)
		check(2, "entropy", got, stderr, p.entropy)
		if math.Abs(got-p.entropy) > 0.05*p.entropy {
			t.Errorf("seed %d: entropy %v, want %v", seed, got, p.entropy)
		}
		if f2, _ := s.SecondMoment(); math.Abs(f2-p.squares) > 0.05*p.squares {
			t.Errorf("seed %d: F2 %v, want %v", seed, f2, p.squares)
		}
	}
	t.Logf("deviates of cardinality, total, entropy: mean %.2f, mean square %.2f", mean, square)
	for i := range mean {
		if math.Abs(mean[i]) > 0.6 || square[i] < 0.4 || square[i] > 2 {
			t.Errorf("deviates: mean %.2f, mean square %.2f", mean[i], square[i])
		}
	}
}

func TestSampleOfFewFlowsIsExact(t *testing.T) {
	p := newPopulation(3, 100)
	s := NewSample(100, p.flows)
	n, e1 := s.Cardinality()
	total, e2 := s.Total()
	h, e3 := s.Entropy(p.total)
	if n != p.count || total != p.total || math.Abs(h-p.entropy) > 1e-9 || e1+e2+e3 != 0 {
		t.Errorf("%v flows, total %v, entropy %v, errors %v %v %v; want %v, %v, %v", n, total, h, e1, e2, e3, p.count, p.total, p.entropy)
	}
	empty := NewSample(10, nil)
	if h, e := empty.Entropy(0); h != 0 || e != 0 {
		t.Errorf("entropy of nothing: %v +- %v", h, e)
	}
}

func TestHeavy(t *testing.T) {
	p := newPopulation(3, 5000)
	got := NewSample(100, p.flows).Heavy(nil, 200)
	want := 0
	for _, f := range p.flows {
		if f.Value >= 200 {
			want++
		}
	}
	if len(got) != want || want == 0 || want > 100 {
		t.Fatalf("%d heavy flows, want %d", len(got), want)
	}
	for i := range got[1:] {
		if got[i].Value < got[i+1].Value {
			t.Fatal("not the heaviest first")
		}
	}
}
