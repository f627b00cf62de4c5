package encode

import (
	"math"
	"math/rand/v2"
	"testing"
)

// anyWidth draws integers whose number of bits is uniform.
func anyWidth(r *rand.Rand) uint64 { return (r.Uint64() | 1<<63) >> r.IntN(64) }

func TestLogError(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for q := 1; q <= 16; q++ {
		l, err := NewLog(q)
		if err != nil {
			t.Fatal(err)
		}
		stated := 1.4427*math.Ldexp(1, -q) + math.Ldexp(1, -LogFraction)
		if l.Error() > stated {
			t.Errorf("q %d: bound %v above the paper's %v", q, l.Error(), stated)
		}
		worst := 0.0
		check := func(x uint64) {
			// The twin subtracts first, so that it does not lose digits to large x.
			n := math.Floor(math.Log2(float64(x)))
			got := float64(l.Log2(x)) / (1 << LogFraction)
			e := math.Log2(math.Ldexp(float64(x), -int(n))) - (got - n)
			worst = max(worst, e)
			if e > l.Error()+1e-12 || e < -math.Ldexp(1, -LogFraction) {
				t.Fatalf("q %d: log2(%d) = %v is off by %v, bound %v", q, x, got, e, l.Error())
			}
			if x < 1<<q && math.Abs(e) > math.Ldexp(1, -LogFraction) {
				t.Fatalf("q %d: log2(%d) is not exact: off by %v", q, x, e)
			}
		}
		for x := uint64(1); x < 5000; x++ {
			check(x)
		}
		for range 20000 {
			check(anyWidth(r))
		}
		for s := range 64 { // the last value of each table entry is the worst
			check(1<<s | (1<<s - 1))
			check(1<<s | (1<<s-1)>>q)
		}
		if worst < l.Error()*0.8 {
			t.Errorf("q %d: the worst error %v is far from the bound %v: the test does not test", q, worst, l.Error())
		}
	}
}

func TestLogOfZeroIsBelowAll(t *testing.T) {
	l, _ := NewLog(8)
	if l.Log2(0) >= l.Log2(1) {
		t.Errorf("log2(0) = %d, log2(1) = %d", l.Log2(0), l.Log2(1))
	}
}

func TestExpError(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for q := 1; q <= 16; q++ {
		e, err := NewExp(q)
		if err != nil {
			t.Fatal(err)
		}
		for range 20000 {
			x := r.Int64N(64 << LogFraction)
			want := math.Exp2(float64(x) / (1 << LogFraction))
			got := float64(e.Exp2(x))
			if got > want*(1+1e-9) || got < want/(1+e.Error())-1 {
				t.Fatalf("q %d: 2^%v = %v, want at most %v and off by a factor of at most %v", q, float64(x)/(1<<LogFraction), got, want, 1+e.Error())
			}
			// The paper's bound, for exponents up to R.
			if R := float64(x)/(1<<LogFraction) + 1; e.Error() > R*math.Ldexp(1, -q) {
				t.Fatalf("q %d: bound %v above the paper's %v", q, e.Error(), R*math.Ldexp(1, -q))
			}
		}
	}
	e, _ := NewExp(8)
	for _, c := range []struct {
		x    int64
		want uint64
	}{{-1, 0}, {0, 1}, {1 << LogFraction, 2}, {63 << LogFraction, 1 << 63}, {64 << LogFraction, math.MaxUint64}, {math.MaxInt64, math.MaxUint64}, {math.MinInt64, 0}} {
		if got := e.Exp2(c.x); got != c.want {
			t.Errorf("Exp2(%d) = %d, want %d", c.x, got, c.want)
		}
	}
}

func TestTablesRefuseSizes(t *testing.T) {
	for _, q := range []int{-1, 0, 17} {
		if _, err := NewLog(q); err == nil {
			t.Errorf("a logarithm of %d bits was accepted", q)
		}
		if _, err := NewExp(q); err == nil {
			t.Errorf("an exponential of %d bits was accepted", q)
		}
	}
}
