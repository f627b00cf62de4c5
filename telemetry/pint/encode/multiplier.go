package encode

import (
	"fmt"
	"math"
	"math/bits"
)

// Multiplier multiplies in a register of few bits (section 4.3: a product of k values of q bits
// has q*k bits). Register c > 0 stands for exp((c - one) * step), from 1/limit to limit, and 0 for 0
// and what is less: logarithms are added, each rounded at random so that the expected register is
// the exact sum. It is immutable, and safe for concurrent use.
type Multiplier struct {
	codec *Codec // of a factor: code 1 is the unit
	one   uint64
}

// NewMultiplier makes a multiplier of the given bits, in 3..16, for products of values over
// the unit, up to the limit.
func NewMultiplier(registerBits int, unit, limit uint64) (*Multiplier, error) {
	if registerBits < 3 || registerBits > 16 {
		return nil, fmt.Errorf("product: bits is %d, not in 3..16", registerBits)
	}
	if limit < 2 {
		return nil, fmt.Errorf("product: max %d is less than 2 units", limit)
	}
	one := uint64(1) << (registerBits - 1)
	epsilon := math.Expm1(math.Log(float64(limit)) / float64(one-1) / 2)
	codec, err := NewCodec(CodecConfig{Bits: registerBits, Multiplicative: true, Min: unit, Epsilon: epsilon})
	if err != nil {
		return nil, fmt.Errorf("product of up to %d units: %w", limit, err)
	}
	return &Multiplier{codec, one}, nil
}

// One is the register of the product of nothing.
func (m *Multiplier) One() uint64 { return m.one }

// Multiply returns the register of the product with one more value; random is a hash that is
// independent of those of other factors. A register at either end stays there, but for 0, which a
// value of 0 makes of any.
func (m *Multiplier) Multiply(register, v, random uint64) uint64 {
	k := m.codec
	if register == 0 || v == 0 {
		return 0
	}
	if register >= k.top {
		return k.top
	}
	zeros := uint(bits.LeadingZeros64(v))
	log := k.whole[64-zeros] - RoundOne + int64(k.part[v<<(zeros&63)<<1>>(k.partShift&63)])
	sum := int64(register) + (log+int64(random%RoundOne))>>16
	return min(uint64(max(sum, 0)), k.top)
}

// Value is the product that a register stands for, in units.
func (m *Multiplier) Value(register uint64) float64 {
	if register == 0 {
		return 0
	}
	return math.Exp((float64(min(register, m.codec.top)) - float64(m.one)) * m.codec.logStep)
}

// Interval is where the exact product of so many factors is: within two standard deviations of their
// roundings, each of which has at most half a step, and the tables' error. At its ends it is open.
func (m *Multiplier) Interval(register uint64, factors int) (low, high float64) {
	n := float64(factors)
	width := math.Exp((math.Sqrt(n) + n*m.codec.table) * m.codec.logStep)
	v := m.Value(register)
	switch {
	case register == 0:
		return 0, m.Value(1) * width
	case register >= m.codec.top:
		return v / width, math.Inf(1)
	}
	return v / width, v * width
}
