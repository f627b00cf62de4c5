package encode

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCounterIsUnbiased(t *testing.T) {
	for _, c := range []struct {
		bits        int
		unit, limit uint64
		draw        func(*rand.Rand) uint64
		hops        int
	}{
		{8, 100, 100_000_000, func(r *rand.Rand) uint64 { return uint64(math.Exp(r.Float64() * 14)) }, 10},
		{8, 1, math.MaxUint32, func(r *rand.Rand) uint64 { return r.Uint64N(1 << 20) }, 59},
		{3, 1, 60, func(*rand.Rand) uint64 { return 1 }, 20},
		{12, 1, 1 << 40, func(r *rand.Rand) uint64 { return r.Uint64N(1 << 30) }, 30},
	} {
		k, err := NewCounter(c.bits, c.unit, c.limit)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(12, uint64(c.bits)))
		const runs = 20000
		var bias, square, stated float64
		for range runs {
			var register, sum uint64
			for range c.hops {
				v := c.draw(r)
				sum += v
				register = k.Add(register, v, r.Uint64())
			}
			e := float64(k.Value(register)) - float64(sum)
			d := k.Deviation(float64(sum), c.hops)
			bias, square, stated = bias+e, square+e*e, stated+d*d
		}
		deviation := math.Sqrt(square / runs)
		if math.Abs(bias/runs) > 5*deviation/math.Sqrt(runs) {
			t.Errorf("%d bits: biased by %v, deviation %v", c.bits, bias/runs, deviation)
		}
		if square > stated {
			t.Errorf("%d bits: deviation %v, stated %v", c.bits, deviation, math.Sqrt(stated/runs))
		}
	}
}

func TestCounterIsExactWhereBitsSuffice(t *testing.T) {
	k, err := NewCounter(6, 1, 63)
	if err != nil {
		t.Fatal(err)
	}
	register := uint64(0)
	for i := uint64(1); i < 80; i++ {
		register = k.Add(register, 1, math.MaxUint64)
		if got := k.Value(register); got != min(i, 63) {
			t.Fatalf("after %d: %d", i, got)
		}
	}
	if k.Deviation(10, 10) != 0 {
		t.Error("an exact counter states a deviation")
	}
}

func TestCounterTopAndNonsense(t *testing.T) {
	k, err := NewCounter(4, 10, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	if got := k.Max(); got < 10_000 || got > 10_001 {
		t.Errorf("max %d", got)
	}
	for register := range uint64(100) {
		if got := k.Add(register, math.MaxUint64, 0); got != 15 {
			t.Errorf("register %d: %d", register, got)
		}
		if got := k.Add(register, 0, 0); got != min(register, 15) {
			t.Errorf("register %d, plus 0: %d", register, got)
		}
	}
	for i := 1; i < 16; i++ {
		if k.levels[i] <= k.levels[i-1] {
			t.Errorf("level %d does not grow", i)
		}
	}
	for _, c := range [][3]uint64{{0, 1, 10}, {13, 1, 10}, {8, 10, 5}, {8, 1, 1 << 63}} {
		if _, err := NewCounter(int(c[0]), c[1], c[2]); err == nil {
			t.Errorf("%v was accepted", c)
		}
	}
}
