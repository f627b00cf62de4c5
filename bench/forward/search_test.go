package forward

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// simulated is a device under test: it carries capacity packets per second without
// loss, loses what is above, and loses a little in some trials for no reason of its own.
type simulated struct {
	capacity float64
	source   float64 // the most that the source can send; 0: no limit
	heldUp   float64 // probability that the source sends only two thirds
	noise    float64 // probability that a trial loses one packet in a thousand more
	random   *rand.Rand
	trials   int
}

func (d *simulated) trial(rate float64) (loss, reached float64, err error) {
	d.trials++
	reached = rate
	if d.source > 0 {
		reached = min(rate, d.source)
	}
	if d.heldUp > 0 && d.random.Float64() < d.heldUp {
		reached *= 2.0 / 3
	}
	loss = max(0, 1-d.capacity/reached)
	if d.random.Float64() < d.noise {
		loss = min(1, loss+1e-3)
	}
	return loss, reached, nil
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name    string
		d       simulated
		start   float64
		limited bool
	}{
		{"start at the capacity", simulated{capacity: 1e6}, 1e6, false},
		{"start far below", simulated{capacity: 4e6}, 5e4, false},
		{"start far above", simulated{capacity: 3e4}, 5e6, false},
		{"some trials are disturbed", simulated{capacity: 7e5, noise: 0.15}, 8e5, false},
		{"the source is slower", simulated{capacity: 9e6, source: 4e6}, 1e6, true},
		{"the machine holds the source up", simulated{capacity: 1e6, source: 4e6, heldUp: 0.2}, 1e6, false},
		{"the source is a little faster", simulated{capacity: 3.9e6, source: 4e6}, 1e6, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.d.random = rand.New(rand.NewPCG(1, 2))
			s := search{trial: c.d.trial, trials: 5, precision: 0.01, floor: 1000, fastest: c.d.source}
			ndr, err := s.highest(0, c.start)
			if err != nil {
				t.Fatal(err)
			}
			first := c.d.trials
			pdr, err := s.highest(0.005, c.start)
			if err != nil {
				t.Fatal(err)
			}
			want := c.d.capacity
			if c.limited {
				want = c.d.source
			}
			near(t, "NDR", ndr.Rate, want, 0.011)
			near(t, "PDR", pdr.Rate, math.Min(want/0.995, orInf(c.d.source)), 0.016)
			if ndr.SourceLimited != c.limited || pdr.SourceLimited != c.limited {
				t.Errorf("source-limited: NDR %v, PDR %v, want %v", ndr.SourceLimited, pdr.SourceLimited, c.limited)
			}
			if ndr.Trials != first || pdr.Trials != c.d.trials-first {
				t.Errorf("trials %d and %d, made %d and %d", ndr.Trials, pdr.Trials, first, c.d.trials-first)
			}
			if pdr.Trials > ndr.Trials {
				t.Errorf("the second goal took %d trials, the first %d", pdr.Trials, ndr.Trials)
			}
		})
	}
}

func orInf(x float64) float64 {
	if x == 0 {
		return math.Inf(1)
	}
	return x
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s is %.0f, want %.0f within %v", what, got, want, tolerance)
	}
}

// A device that always loses has no rate, and the search must end and say so.
func TestSearchFindsNothing(t *testing.T) {
	d := simulated{capacity: 0, random: rand.New(rand.NewPCG(1, 2))}
	s := search{trial: d.trial, trials: 3, precision: 0.01, floor: 1000}
	got, err := s.highest(0, 1e6)
	if err != nil || got.Rate != 0 || got.SourceLimited {
		t.Errorf("%+v, %v", got, err)
	}
}

// One lost packet in most trials must fail a rate: the NDR forgives disturbances, not losses.
func TestSearchMajority(t *testing.T) {
	for lost, passes := range []bool{true, true, false, false} {
		n := 0
		s := search{trials: 3, trial: func(rate float64) (float64, float64, error) {
			n++
			if n <= lost {
				return 1e-9, rate, nil
			}
			return 0, rate, nil
		}}
		p, err := s.visit(1000, 0)
		if err != nil || p.passes(0) != passes {
			t.Errorf("with %d of 3 trials lossy: %+v, %v", lost, p, err)
		}
	}
}

func TestSearchReportsErrors(t *testing.T) {
	broken := errors.New("broken")
	s := search{trials: 3, precision: 0.1, trial: func(float64) (float64, float64, error) { return 0, 0, broken }}
	if _, err := s.highest(0, 1000); !errors.Is(err, broken) {
		t.Error(err)
	}
}
