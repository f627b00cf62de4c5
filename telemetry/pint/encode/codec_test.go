package encode

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
)

var codecs = []struct {
	name    string
	config  CodecConfig
	epsilon float64 // the paper's, or what the bits allow
	delta   float64
}{
	// Section 4.3: 16 bits are enough for 0.0025 and 32-bit values.
	{"32-bit values in 16 bits, 0.0025", CodecConfig{Bits: 16, Multiplicative: true, Max: math.MaxUint32, Epsilon: 0.0025}, 0.0025, 0},
	// and 8 bits for 0.025, if the values span less than 1.05^254 = 2^18.
	{"utilisation in 8 bits, 0.025", CodecConfig{Bits: 8, Multiplicative: true, Min: pint.UtilisationOne >> 10, Max: pint.UtilisationOne << 4, Epsilon: 0.025}, 0.025, 0},
	{"latency in 8 bits", CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 100_000_000}, 0.0231, 0},
	{"latency in 4 bits", CodecConfig{Bits: 4, Multiplicative: true, Min: 1000, Max: 1_000_000}, 0.28, 0},
	{"any 64-bit value in 16 bits", CodecConfig{Bits: 16, Multiplicative: true, Max: math.MaxUint64}, 0.00035, 0},
	{"exact", CodecConfig{Bits: 12}, 0, 0},
	{"additive, delta 500", CodecConfig{Bits: 12, Delta: 500, Max: 1 << 20}, 0, 500},
	{"additive, to a max", CodecConfig{Bits: 8, Max: 1_000_000}, 0, 2048},
}

func TestCodecNearest(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			k, err := NewCodec(c.config)
			if err != nil {
				t.Fatal(err)
			}
			if k.Bits() != c.config.Bits {
				t.Errorf("%d bits", k.Bits())
			}
			// The tables may add 1/64 of a code to the rounding, twice that of the
			// paper's epsilon.
			if k.Epsilon() > c.epsilon*(1+2*codeTableError)+1e-4*c.epsilon+c.epsilon*c.epsilon || k.Delta() > c.delta {
				t.Errorf("bounds %v and %v, want %v and %v", k.Epsilon(), k.Delta(), c.epsilon, c.delta)
			}
			r := rand.New(rand.NewPCG(4, 1))
			lowest, highest := uint64(1), k.top
			if c.config.Multiplicative {
				lowest = max(c.config.Min, 1)
			}
			if c.config.Max != 0 {
				highest = c.config.Max
			}
			for range 50000 {
				v := lowest + uint64(math.Exp(r.Float64()*math.Log(float64(highest-lowest))))
				v = min(v, highest)
				got := k.Decode(k.Encode(v, RoundNearest))
				if e := math.Abs(math.Log(got / float64(v))); c.config.Multiplicative && e > math.Log1p(k.Epsilon())+1e-9 {
					t.Fatalf("%d decodes to %v: off by a factor %v, bound %v", v, got, math.Exp(e), 1+k.Epsilon())
				}
				if e := math.Abs(got - float64(v)); !c.config.Multiplicative && e > k.Delta() {
					t.Fatalf("%d decodes to %v: off by %v, bound %v", v, got, e, k.Delta())
				}
			}
			if got := k.Encode(0, RoundNearest); got != 0 {
				t.Errorf("0 has code %d", got)
			}
			if got := k.Encode(math.MaxUint64, RoundOne-1); got != k.top && k.Decode(k.top) < math.MaxUint64/2 {
				t.Errorf("the largest value has code %d", got)
			}
		})
	}
}

// Random rounding gives the exact code on average, and codes grow with values.
func TestCodecRandomRounding(t *testing.T) {
	for _, c := range codecs {
		t.Run(c.name, func(t *testing.T) {
			k, err := NewCodec(c.config)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(5, 1))
			for range 200 {
				v := max(c.config.Min, 1) * (1 + r.Uint64N(1000))
				exact := float64(v) / math.Ldexp(1, int(k.shift))
				if c.config.Multiplicative {
					exact = 1 + math.Log(float64(v)/k.min)/k.logStep
				}
				if exact > float64(k.top) {
					continue
				}
				// All roundings: the mean is exact but for the tables, and for the
				// remainder of a value that 2^16 does not divide.
				sum := 0.0
				for round := range uint64(RoundOne) {
					sum += float64(k.Encode(v, round))
				}
				if e := math.Abs(sum/RoundOne - exact); e > k.table+2.0/RoundOne {
					t.Errorf("%d: mean code %v, exact %v", v, sum/RoundOne, exact)
				}
			}
			for range 20000 {
				a, b, round := anyWidth(r), anyWidth(r), r.Uint64N(RoundOne)
				if a > b {
					a, b = b, a
				}
				if k.Encode(a, round) > k.Encode(b, round) {
					t.Fatalf("codes of %d and %d fall", a, b)
				}
			}
		})
	}
}

func TestCodecWraps(t *testing.T) {
	k, err := NewCodec(CodecConfig{Bits: 8, Delta: 512, Wrap: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []uint64{0, 1023, 1024, 262143, 262144, math.MaxUint64 - 1024} {
		if got, want := k.Encode(v, 0), v/1024%256; got != want {
			t.Errorf("%d: code %d, want %d", v, got, want)
		}
	}
	if got := k.Encode(math.MaxUint64, RoundOne-1); got != 0 {
		t.Errorf("the largest value, rounded up, has code %d, want 0", got)
	}
}

func TestCodecRefuses(t *testing.T) {
	for _, c := range []struct {
		config CodecConfig
		want   string
	}{
		{CodecConfig{}, "bits is 0"},
		{CodecConfig{Bits: 65}, "bits is 65"},
		{CodecConfig{Bits: 8, Epsilon: 1}, "use delta"},
		{CodecConfig{Bits: 8, Delta: 1, Max: 1000}, "use 9 bits"},
		{CodecConfig{Bits: 1, Max: math.MaxUint64}, "too large"},
		{CodecConfig{Bits: 17, Multiplicative: true, Max: 10}, "not in 2..16"},
		{CodecConfig{Bits: 8, Multiplicative: true}, "needs max or epsilon"},
		{CodecConfig{Bits: 8, Multiplicative: true, Min: 5, Max: 5}, "not above min"},
		{CodecConfig{Bits: 8, Multiplicative: true, Max: 10, Delta: 1}, "use epsilon"},
		{CodecConfig{Bits: 8, Multiplicative: true, Max: 1 << 40, Epsilon: 0.025}, "use epsilon 0.056"},
		{CodecConfig{Bits: 16, Multiplicative: true, Max: 100}, "finer"},
		{CodecConfig{Bits: 8, Multiplicative: true, Epsilon: math.NaN()}, "NaN"},
	} {
		if _, err := NewCodec(c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.config, err, c.want)
		}
	}
}

func BenchmarkCodec(b *testing.B) {
	k, _ := NewCodec(CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 100_000_000})
	var v, sum uint64
	for b.Loop() {
		v += 977
		sum += k.Encode(v&0xfffff, v&0xffff)
	}
	_ = sum
}
