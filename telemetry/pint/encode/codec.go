package encode

import (
	"fmt"
	"math"
	"math/bits"
)

// Rounding randomness of Codec.Encode: RoundNearest rounds to the nearest
// code. A hash in [0, RoundOne) rounds at random, so that the expected code is
// the exact one (the paper's [.]_R).
const (
	RoundOne     = 1 << 16
	RoundNearest = RoundOne / 2
)

// CodecConfig describes how a numeric value becomes a code of a few bits
// (section 4.3).
type CodecConfig struct {
	// Bits of the code, in 1..64; 2..16 if multiplicative.
	Bits int
	// Multiplicative: code c > 0 means Min * (1+Epsilon)^(2(c-1)), and code
	// 0 for 0 and all that is well below Min. Otherwise codes are equal steps
	// from 0.
	Multiplicative bool
	// Min is the smallest value that matters, for multiplicative codes; 0
	// means 1.
	Min uint64
	// Max is the largest value; larger ones get the code of Max. 0: what the
	// bits reach, which needs Epsilon, or Delta, or steps of 1.
	Max uint64
	// Epsilon is the relative error of rounding to the nearest code. 0: as small
	// as the bits allow up to Max.
	Epsilon float64
	// Delta is the absolute error of rounding to the nearest step; the step is
	// 2*Delta rounded down to a power of two, since a switch shifts but does not
	// divide. 0: as small as the bits allow up to Max.
	Delta uint64
	// Wrap makes steps count modulo 2^Bits instead of stopping at the largest;
	// for times. Not for multiplicative codes.
	Wrap bool
}

// Codec is a CodecConfig in integers. It is immutable, and safe for concurrent
// use; Encode does not allocate.
type Codec struct {
	top            uint64 // the largest code
	multiplicative bool
	wrap           bool
	shift          uint // of equal steps

	// Multiplicative, both tables in units of 1/RoundOne of a code: whole by the
	// number of bits of the value, part by the bits behind the leading one.
	partShift uint
	whole     [65]int64
	part      []uint32

	min, logStep float64 // ln of a step
	table        float64 // bound of the tables' error, in codes
}

// NewCodec makes the tables. All faults are reported at once.
func NewCodec(c CodecConfig) (*Codec, error) {
	if c.Multiplicative {
		return newMultiplicative(c)
	}
	return newSteps(c)
}

func newSteps(c CodecConfig) (*Codec, error) {
	switch {
	case c.Bits < 1 || c.Bits > 64:
		return nil, fmt.Errorf("value code: bits is %d, not in 1..64", c.Bits)
	case c.Epsilon != 0:
		return nil, fmt.Errorf("value code: epsilon belongs to multiplicative codes: use delta")
	}
	k := &Codec{top: lowBits(c.Bits), wrap: c.Wrap}
	if c.Delta > 0 {
		k.shift = uint(bits.Len64(c.Delta))
	} else if over := bits.Len64(c.Max) - c.Bits; over > 0 {
		k.shift = uint(over)
	}
	if k.shift > 47 {
		return nil, fmt.Errorf("value code: steps of 2^%d are too large: use multiplicative codes, more bits, or a smaller max", k.shift)
	}
	if !c.Wrap && c.Max>>k.shift > k.top {
		return nil, fmt.Errorf("value code: %d bits with steps of %d reach %d, less than max %d: use %d bits, a larger delta, or multiplicative codes",
			c.Bits, uint64(1)<<k.shift, k.top<<k.shift, c.Max, bits.Len64(c.Max>>k.shift))
	}
	return k, nil
}

// codeTableError is the error, in codes, that the logarithm's table may add
// to a code.
const codeTableError = 1.0 / 64

func newMultiplicative(c CodecConfig) (*Codec, error) {
	minimum := float64(max(c.Min, 1))
	switch {
	case c.Bits < 2 || c.Bits > 16:
		return nil, fmt.Errorf("value code: bits is %d, not in 2..16 for a multiplicative code", c.Bits)
	case c.Wrap || c.Delta != 0:
		return nil, fmt.Errorf("value code: delta and wrap belong to codes of equal steps: use epsilon")
	case !(c.Epsilon >= 0 && c.Epsilon < 100):
		return nil, fmt.Errorf("value code: epsilon is %v, not in [0, 100)", c.Epsilon)
	case c.Max != 0 && float64(c.Max) <= minimum:
		return nil, fmt.Errorf("value code: max %d is not above min %v", c.Max, minimum)
	case c.Epsilon == 0 && c.Max == 0:
		return nil, fmt.Errorf("value code: a multiplicative code needs max or epsilon")
	}
	k := &Codec{top: lowBits(c.Bits), multiplicative: true, min: minimum, logStep: 2 * math.Log1p(c.Epsilon)}
	steps := float64(k.top - 1)
	if c.Epsilon == 0 {
		k.logStep = math.Log(float64(c.Max)/minimum) / steps
	}
	if k.logStep < 1e-4 {
		return nil, fmt.Errorf("value code: epsilon %.2g is finer than the tables: use at least 0.00005, or fewer bits", math.Expm1(k.logStep/2))
	}
	if c.Max != 0 && steps*k.logStep < math.Log(float64(c.Max)/minimum)*(1-1e-12) {
		return nil, fmt.Errorf("value code: %d bits with epsilon %v reach %.4g, less than max %d: use epsilon %.3g, or more bits",
			c.Bits, c.Epsilon, minimum*math.Exp(steps*k.logStep), c.Max, math.Expm1(math.Log(float64(c.Max)/minimum)/steps/2))
	}
	// Entries stand for the middle of what they cover, so they are off by at most
	// half a step of the logarithm.
	q := 1
	for k.table = codeTableError * 2; k.table > codeTableError && q < 16; {
		q++
		k.table = math.Log1p(math.Ldexp(1, -q)) / 2 / k.logStep
	}
	k.table += 1.0 / RoundOne
	k.fill(q)
	return k, nil
}

func (k *Codec) fill(q int) {
	k.partShift = uint(64 - q)
	k.part = make([]uint32, 1<<q)
	unit := RoundOne / k.logStep
	for i := range k.part {
		a, b := 1+math.Ldexp(float64(i), -q), 1+math.Ldexp(float64(i+1), -q)
		k.part[i] = uint32(math.Round((math.Log(a) + math.Log(b)) / 2 * unit))
	}
	for n := 1; n <= 64; n++ {
		k.whole[n] = int64(math.Round((float64(n-1)*math.Ln2-math.Log(k.min))*unit)) + RoundOne
	}
	k.whole[0] = -1 << 62 // the value 0
}

// Encode returns the code of v; round is the rounding randomness, in
// [0, RoundOne). For the same randomness the code does not decrease when v
// grows, so all hops of a packet that round alike leave the code of the largest
// value, without the bias that the largest of several roundings would have.
func (k *Codec) Encode(v, round uint64) uint64 {
	if k.multiplicative {
		return k.logarithm(v, round)
	}
	return k.steps(v, round)
}

func (k *Codec) logarithm(v, round uint64) uint64 {
	return min(uint64(max((k.base(v)+int64(round))>>16, 0)), k.top)
}

// base is the code of v before it is rounded, in units of 1/RoundOne.
func (k *Codec) base(v uint64) int64 {
	zeros := uint(bits.LeadingZeros64(v))
	return k.whole[64-zeros] + int64(k.part[v<<(zeros&63)<<1>>(k.partShift&63)])
}

func (k *Codec) steps(v, round uint64) uint64 {
	v, carry := bits.Add64(v, round<<k.shift>>16, 0)
	v = v>>k.shift | carry<<(64-k.shift)
	if k.wrap {
		return v & k.top
	}
	return min(v, k.top)
}

// Decode returns the value that the code stands for.
func (k *Codec) Decode(code uint64) float64 {
	if !k.multiplicative {
		return math.Ldexp(float64(code), int(k.shift))
	}
	if code == 0 {
		return 0
	}
	return k.min * math.Exp(float64(code-1)*k.logStep)
}

// Between is the value that is a part of a step, in [-1/2, 1/2], above a code's.
// Codes that stand for a value alone, or for a range without a bound, stand for
// themselves.
func (k *Codec) Between(code uint64, part float64) float64 {
	switch {
	case k.multiplicative && (code == 0 || code == k.top):
	case k.multiplicative:
		return k.Decode(code) * math.Exp(part*k.logStep)
	case k.shift != 0 && code != k.top:
		return max(0, k.Decode(code)+math.Ldexp(part, int(k.shift)))
	}
	return k.Decode(code)
}

// Same reports whether codes of both stand for the same values.
func (k *Codec) Same(o *Codec) bool {
	return k.top == o.top && k.multiplicative == o.multiplicative && k.wrap == o.wrap && k.shift == o.shift &&
		k.min == o.min && k.logStep == o.logStep
}

// Interval returns the values that can have the code if it was rounded at
// random: those less than a step away, and the tables' error.
func (k *Codec) Interval(code uint64) (low, high float64) {
	v := k.Decode(code)
	if !k.multiplicative {
		if k.shift == 0 {
			return v, v
		}
		step := math.Ldexp(1, int(k.shift))
		return max(0, v-step), v + step
	}
	step := math.Exp((1 + k.table) * k.logStep)
	if code == 0 {
		return 0, k.min
	}
	return v / step, v * step
}

// RoundsAtRandom reports whether a value at x, counted in steps of codes, gets the code floor(x + round/RoundOne), up to the tables' error and but for the
// ends: codes that are exact do not, and those that wrap have no order.
func (k *Codec) RoundsAtRandom() bool { return k.multiplicative || k.shift > 0 && !k.wrap }

// Bits is the size of a code.
func (k *Codec) Bits() int { return bits.Len64(k.top) }

// Epsilon bounds the relative error of a value in Min..Max by rounding to the
// nearest code: exact and decoded value differ by a factor of at most
// 1 + Epsilon. Random rounding can be off by twice as many logarithms, and has
// no bias. 0 for equal steps.
func (k *Codec) Epsilon() float64 {
	if !k.multiplicative {
		return 0
	}
	return math.Expm1((0.5 + k.table) * k.logStep)
}

// Delta bounds the absolute error of rounding to the nearest of equal steps;
// random rounding can be off by twice as much. 0 for multiplicative codes and
// steps of 1.
func (k *Codec) Delta() float64 {
	if k.multiplicative || k.shift == 0 {
		return 0
	}
	return math.Ldexp(0.5, int(k.shift))
}

// CodecTable is a multiplicative code as a P4 target gets it. With a value's length of n bits, and p of the
// bits behind its leading one, as many as index Part:
//
//	code = (Whole[n] + Part[p] + round) >> 16, in 0..2^Bits-1
//
// Whole[0] is less than any sum that reaches 0. Bits that a short value has not are 0.
type CodecTable struct {
	Whole [65]int64
	Part  []uint32
}

// Table is the code's table, to be read only.
func (k *Codec) Table() CodecTable { return CodecTable{k.whole, k.part} }
