package oblivious

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestExponential compares with the floating point function, whose own error is
// below 2^-52 of its result.
func TestExponential(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	check := func(h uint64) {
		got := float64(exponential(h)) / (1 << exponentialBits)
		var want float64
		if h < 1<<63 {
			want = -math.Log1p(-float64(h) / (1 << 64))
		} else {
			want = -math.Log(float64(-h) / (1 << 64)) // exact where h is near 2^64
		}
		if tolerance := want*0x1p-50 + 0x1p-54; math.Abs(got-want) > tolerance {
			t.Fatalf("exponential(%#x) = %.18g, want %.18g", h, got, want)
		}
		if exponential(h) < h>>(64-exponentialBits) {
			t.Fatalf("exponential(%#x) is below the linear bound", h)
		}
	}
	for bit := range 64 {
		for d := range uint64(5) {
			check(1<<bit + d - 2)
			check(-(1 << bit) + d - 2)
		}
	}
	for range 200_000 {
		check(r.Uint64() >> r.IntN(64))
		check(^(r.Uint64() >> r.IntN(64)))
	}
}

// TestOrderStatistics puts the ranks of UWRA to the test that they are what w
// uniform numbers would be: the i-th smallest of w, mapped back by 1-exp(-e),
// is Beta(i, w-i+1), of mean i/(w+1) and variance i(w-i+1)/((w+1)^2 (w+2)). And
// how many are below a limit is binomial. Seeds are fixed; 6 standard errors
// would fail by luck with a chance of 2e-9 for each of the 48 comparisons.
func TestOrderStatistics(t *testing.T) {
	for family := hash.XX; family.Valid(); family++ {
		t.Run(family.String(), func(t *testing.T) { testOrderStatistics(t, family) })
	}
}

func testOrderStatistics(t *testing.T, family hash.Family) {
	const n = 20_000
	for _, w := range []uint64{1, 2, 7, 100} {
		rk := newRanker(Config{Kind: UWRA, Unit: Bytes, Seed: w, Hash: family})
		const limit = 1 << exponentialBits / 50
		p := 1 - math.Exp(-1.0/50)
		sum, square := make([]float64, w+1), make([]float64, w+1)
		below := 0
		for id := range uint64(n) {
			value, ranks := rk.first(id, w)
			if ranks != w {
				t.Fatalf("%d ranks of %d bytes", ranks, w)
			}
			for i := uint64(1); ; i++ {
				u := -math.Expm1(-float64(value) / (1 << exponentialBits))
				sum[i] += u
				square[i] += u * u
				if value < limit {
					below++
				}
				if i == w {
					break
				}
				before := value
				var ok bool
				if value, ok = rk.next(value, math.MaxUint64, id, w, i); !ok || value <= before {
					t.Fatalf("rank %d of packet %d: %d behind %d", i+1, id, value, before)
				}
			}
		}
		for _, i := range []uint64{1, (w + 1) / 2, w} {
			fi, fw := float64(i), float64(w)
			mean, variance := fi/(fw+1), fi*(fw-fi+1)/((fw+1)*(fw+1)*(fw+2))
			if got := sum[i] / n; math.Abs(got-mean) > 6*math.Sqrt(variance/n) {
				t.Errorf("number %d of %d: mean %g, want %g", i, w, got, mean)
			}
			second := variance + mean*mean
			if got := square[i] / n; math.Abs(got-second) > 6*second/math.Sqrt(n)*3 {
				t.Errorf("number %d of %d: mean square %g, want %g", i, w, got, second)
			}
		}
		total := float64(n * w)
		if got := float64(below); math.Abs(got-total*p) > 6*math.Sqrt(total*p*(1-p)) {
			t.Errorf("%d of %.0f bytes below the limit, want %.1f", below, total, total*p)
		}
	}
}

// TestNextSkipsOnlyWhatIsBeyond: the shortcut of next refuses nothing that the
// rank itself would not be refused for.
func TestNextSkipsOnlyWhatIsBeyond(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	rk := newRanker(Config{Kind: UWRA, Unit: Bytes})
	for range 100_000 {
		id, w := r.Uint64(), 2+r.Uint64N(2000)
		j := 1 + r.Uint64N(w-1)
		before := r.Uint64() >> (4 + r.IntN(40))
		limit := before + r.Uint64()>>(1+r.IntN(63))
		if limit < before {
			continue
		}
		got, ok := rk.next(before, limit, id, w, j)
		want, _ := rk.next(before, math.MaxUint64, id, w, j)
		if ok != (want <= limit) || ok && got != want {
			t.Fatalf("next(%d, %d) = %d, %v; without a limit %d", before, limit, got, ok, want)
		}
	}
}

// TestAdmitsComparesHalf: of unit packets under crc, the straight path is what a P4 target
// does: a comparison of 32 bits.
func TestAdmitsComparesHalf(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, unit := range []Unit{Packets, Flows} {
		rk := newRanker(Config{Kind: DUS, Unit: unit, Seed: 6, Hash: hash.CRC})
		for range 10_000 {
			id := r.Uint64()
			h := hash.CRC.Uint64(rk.seed, id)
			for _, limit := range []uint64{h, h - 1, h >> 32 << 32, h>>32<<32 - 1, r.Uint64()} {
				if got, want := rk.admits(limit, id, 1), h>>32 <= limit>>32; got != want {
					t.Fatalf("%v: hash %#x under a limit of %#x: %v", unit, h, limit, got)
				}
			}
		}
	}
}

// TestAdmitsNoLess: the straight path refuses nothing whose rank is within the
// limit, and what it admits needlessly is as rare as its doc says.
func TestAdmitsNoLess(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, c := range kinds {
		rk := newRanker(c)
		admitted, needless := 0, 0
		for range 300_000 {
			id, bytes := r.Uint64(), 1+r.Uint32N(1514)
			w := uint64(1)
			switch c.Unit {
			case Bytes:
				w = uint64(bytes)
			case Both:
				w = uint64(bytes) + bothBytes
			}
			value, _ := rk.first(id, w)
			// Limits around the rank itself, and at random.
			for _, limit := range []uint64{value, value - 1, value + 1, r.Uint64() >> r.IntN(64)} {
				if !rk.admits(limit, id, bytes) && value <= limit {
					t.Fatalf("%s: %d bytes: rank %d is refused under a limit of %d", c.name(), bytes, value, limit)
				}
			}
			if limit := uint64(1) << 50; rk.admits(limit, id, bytes) {
				admitted++
				if value > limit {
					needless++
				}
			}
		}
		if c.Kind != UWRA && needless > 0 {
			t.Errorf("%s: %d of %d admitted needlessly", c.name(), needless, admitted)
		}
		// The limit is 2^-8 of a byte's mean rank, so a packet's limit*w/2 is up to 3.
		if c.Kind == UWRA && c.Unit == Bytes && (needless == 0 || needless > admitted*3/4) {
			t.Errorf("%s: %d of %d admitted needlessly", c.name(), needless, admitted)
		}
	}
}
