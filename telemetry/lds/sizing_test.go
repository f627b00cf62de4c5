package lds

import (
	"math"
	"math/rand/v2"
	"testing"
)

// paperSizes has the tail at 50 packets that Section 3.1 implies: z = nP/C =
// 0.0875 with n/C = 2.
var paperSizes = Pareto{Scale: 1, Shape: 0.8}

func TestSmallCollisionsOfThePaper(t *testing.T) {
	tail := paperSizes.Tail(50)
	if math.Abs(tail-0.0875/2) > 1e-4 {
		t.Errorf("P(more than 50 packets) = %g", tail)
	}
	for _, c := range []struct {
		rows int
		want float64
	}{{1, 0.9125}, {4, 0.9850}} {
		if got := SmallCollisions(2000, 1000, c.rows, 1, tail); math.Abs(got-c.want) > 3e-4 {
			t.Errorf("%d rows: %.4f, the paper has %.4f", c.rows, got, c.want)
		}
	}
}

func TestSize(t *testing.T) {
	base := Target{Flows: 146000, Sizes: paperSizes, Packets: 1000, Interference: 0.05, Failures: 0.015}
	s, err := Size(base)
	if err != nil {
		t.Fatal(err)
	}
	// The paper's example: four rows, n/C = 2.
	if s.Config.Rows != 4 || s.Config.Virtual != 1 || len(s.Config.Rates) != 0 {
		t.Errorf("%+v", s.Config)
	}
	if cells := float64(4 * s.Config.Columns); math.Abs(cells/73000-1) > 0.01 || math.Abs(s.Load-0.0875) > 0.001 {
		t.Errorf("%g cells, load %g", cells, s.Load)
	}
	lossy := base
	lossy.Losses = 500
	l, err := Size(lossy)
	if err != nil {
		t.Fatal(err)
	}
	// Section 5.2: k = 5, four rows, 0.01 to 1.
	if l.Config.Rows != 4 || l.Config.Virtual != 5 || len(l.Config.Rates) != 4 || math.Abs(l.Config.Rates[0]-0.01) > 1e-9 || l.Config.Rates[3] != 1 {
		t.Errorf("%+v", l.Config)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		target := Target{Flows: 1 + r.Float64()*1e5, Sizes: Pareto{1 + r.Float64()*10, 0.5 + r.Float64()}, Packets: 10 + r.Float64()*1e4,
			Interference: 0.01 + 0.99*r.Float64(), Failures: 0.001 + 0.36*r.Float64(), Losses: math.Floor(r.Float64() * 100), Virtual: r.IntN(9)}
		s, err := Size(target)
		if err != nil {
			continue // too large, and said so
		}
		if err := s.Config.Validate(); err != nil {
			t.Fatalf("%+v gives %v", target, err)
		}
		if s.SmallCollisions < 1-target.Failures-1e-9 {
			t.Fatalf("%+v: %g of the flows meet it", target, s.SmallCollisions)
		}
	}
}

func TestSizeRefuses(t *testing.T) {
	good := Target{Flows: 1000, Sizes: paperSizes, Packets: 1000, Interference: 0.05, Failures: 0.01}
	for name, change := range map[string]func(*Target){
		"flows":        func(t *Target) { t.Flows = 0 },
		"sizes":        func(t *Target) { t.Sizes.Shape = 0 },
		"packets":      func(t *Target) { t.Packets = math.NaN() },
		"interference": func(t *Target) { t.Interference = 1.5 },
		"failures":     func(t *Target) { t.Failures = 0.5 },
		"losses":       func(t *Target) { t.Losses = -1 },
		"virtual":      func(t *Target) { t.Virtual = MaxVirtual + 1 },
		"too many":     func(t *Target) { t.Flows = 1e9 },
		"interval":     func(t *Target) { t.IntervalNs = -1 },
	} {
		target := good
		change(&target)
		if _, err := Size(target); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := Size(good); err != nil {
		t.Error(err)
	}
}
