package encode

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestMultiplierIsUnbiased: the mean logarithm of 20,000 products is the exact one within five standard errors
// (a chance of 6e-7 each) and the tables' error, its deviation at most the stated one, and intervals hold as often
// as two deviations do.
func TestMultiplierIsUnbiased(t *testing.T) {
	for _, c := range []struct {
		bits        int
		unit, limit uint64
		draw        func(*rand.Rand) uint64
		hops        int
	}{
		{8, 1000, 1_000_000, func(r *rand.Rand) uint64 { return 500 + r.Uint64N(5000) }, 5},
		{8, 1 << 16, 1 << 20, func(r *rand.Rand) uint64 { return 1<<13 + r.Uint64N(1<<16) }, 5},
		{12, 1, 1 << 50, func(r *rand.Rand) uint64 { return 1 + r.Uint64N(30) }, 10},
		{5, 100, 100_000, func(r *rand.Rand) uint64 { return 50 + r.Uint64N(300) }, 3},
	} {
		m, err := NewMultiplier(c.bits, c.unit, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(5, uint64(c.bits)))
		const runs = 20_000
		var bias, square, outside float64
		for range runs {
			register, exact := m.One(), 1.0
			for range c.hops {
				v := c.draw(r)
				exact *= float64(v) / float64(c.unit)
				register = m.Multiply(register, v, r.Uint64())
			}
			if register == 0 || register == m.codec.top {
				t.Fatalf("%d bits: a product of %g is beyond the range", c.bits, exact)
			}
			e := math.Log(m.Value(register)/exact) / m.codec.logStep
			bias, square = bias+e, square+e*e
			if low, high := m.Interval(register, c.hops); low > exact || high < exact {
				outside++
			}
		}
		deviation := math.Sqrt(square / runs)
		if math.Abs(bias/runs) > 5*deviation/math.Sqrt(runs)+float64(c.hops)*m.codec.table {
			t.Errorf("%d bits: biased by %.3g steps, deviation %.3g", c.bits, bias/runs, deviation)
		}
		if stated := math.Sqrt(float64(c.hops))/2 + float64(c.hops)*m.codec.table; deviation > stated {
			t.Errorf("%d bits: deviation %.3g steps, stated %.3g", c.bits, deviation, stated)
		}
		if outside/runs > 0.05 {
			t.Errorf("%d bits: %.0f of %d products outside their interval", c.bits, outside, runs)
		}
	}
}

func TestMultiplierEndsAndNonsense(t *testing.T) {
	m, err := NewMultiplier(4, 10, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if v := m.Value(m.One()); v != 1 {
		t.Errorf("the empty product is %g", v)
	}
	if most := m.Value(15); math.Abs(most/1000-1) > 1e-9 {
		t.Errorf("the largest product is %g", most)
	}
	for register := range uint64(100) {
		if got := m.Multiply(register, math.MaxUint64, 0); got != 15 && register > 0 || register == 0 && got != 0 {
			t.Errorf("register %d: %d", register, got)
		}
		if got := m.Multiply(register, 0, math.MaxUint64); got != 0 {
			t.Errorf("register %d times 0: %d", register, got)
		}
		if got := m.Multiply(register, 10, 0); got != min(register, 15) {
			t.Errorf("register %d times the unit: %d", register, got)
		}
		if low, high := m.Interval(register, 3); !(low <= m.Value(register) && m.Value(register) <= high) {
			t.Errorf("register %d is %g, in %g to %g", register, m.Value(register), low, high)
		}
	}
	for _, c := range [][3]uint64{{2, 1, 10}, {17, 1, 10}, {8, 1, 1}, {8, 1, 0}, {16, 1, 2}} {
		if _, err := NewMultiplier(int(c[0]), c[1], c[2]); err == nil {
			t.Errorf("%d bits, unit %d, limit %d: accepted", c[0], c[1], c[2])
		}
	}
}
