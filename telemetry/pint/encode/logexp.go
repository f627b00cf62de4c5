package encode

import (
	"fmt"
	"math"
	"math/bits"
)

// LogFraction is the number of fractional bits of a logarithm: logarithms are
// integers in units of 2^-LogFraction.
const LogFraction = 24

// Log approximates log2 in integers (appendix C): the place of the leading
// bit gives the whole part, and a table entry for the q bits behind it the
// fraction.
//
//	63        l    l-1  ...  l-q                0
//	 0 ... 0  1  | q bits: the table's index  | ignored
//
// The result is never above log2(x), and below it by at most 1.44*2^-q, plus
// half a unit of the table's rounding. Up to 2^q it is exact but for that
// rounding. A Log is immutable, and safe for concurrent use.
type Log struct {
	shift uint // 64 - q
	table []uint32
}

// NewLog makes a table of 2^q entries of 4 bytes; q is in 1..16.
func NewLog(q int) (*Log, error) {
	if q < 1 || q > 16 {
		return nil, fmt.Errorf("logarithm: a table for %d bits is not in 1..16", q)
	}
	l := &Log{shift: uint(64 - q), table: make([]uint32, 1<<q)}
	for i := range l.table {
		l.table[i] = uint32(math.Round(math.Log2(1+float64(i)/float64(len(l.table))) * (1 << LogFraction)))
	}
	return l, nil
}

// Log2 returns log2(x) in units of 2^-LogFraction. The logarithm of 0 has no
// value; the result is then below any other: -2^LogFraction.
func (l *Log) Log2(x uint64) int64 {
	n := bits.Len64(x)
	fraction := x << (65 - uint(n)) // the bits behind the leading one, at the top
	return int64(n-1)<<LogFraction + int64(l.table[fraction>>l.shift])
}

// Error bounds log2(x) - Log2(x), in the logarithm's own unit of 1.
func (l *Log) Error() float64 {
	return math.Log2(1+1/float64(len(l.table))) + math.Ldexp(0.5, -LogFraction)
}

// expBits is the precision of Exp's table.
const expBits = 32

// Exp approximates powers of two in integers: the whole part of the exponent is a
// shift, the first q bits of its fraction index a table. The paper looks up the
// q bits behind the exponent's leading one, which costs a factor of up to
// 1 + R*2^-q for exponents up to R; this way the factor is at most
// 2^(2^-q) <= 1 + 0.7*2^-q at any exponent. An Exp is immutable, and safe for
// concurrent use.
type Exp struct {
	shift uint // LogFraction - q
	table []uint64
}

// NewExp makes a table of 2^q entries of 8 bytes; q is in 1..16.
func NewExp(q int) (*Exp, error) {
	if q < 1 || q > 16 {
		return nil, fmt.Errorf("exponential: a table for %d bits is not in 1..16", q)
	}
	e := &Exp{shift: uint(LogFraction - q), table: make([]uint64, 1<<q)}
	for i := range e.table {
		e.table[i] = uint64(math.Round(math.Exp2(float64(i)/float64(len(e.table))) * (1 << expBits)))
	}
	return e, nil
}

// Exp2 returns 2^x, where x is in units of 2^-LogFraction, rounded down to an
// integer. Exponents from 64 on give the largest integer.
func (e *Exp) Exp2(x int64) uint64 {
	n := x >> LogFraction
	m := e.table[x&(1<<LogFraction-1)>>e.shift] // in [2^32, 2^33)
	switch {
	case n >= 64:
		return math.MaxUint64
	case n < 0:
		return 0
	case n <= expBits:
		return m >> uint(expBits-n)
	}
	// m has 33 bits, so from here on it needs the shift to be below 32.
	return m << uint(n-expBits)
}

// Error bounds the factor by which 2^x exceeds Exp2(x) before the rounding to
// an integer: the factor is at most 1 + Error.
func (e *Exp) Error() float64 {
	return math.Exp2(1/float64(len(e.table))) - 1 + math.Ldexp(1, -expBits)
}
