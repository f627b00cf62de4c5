package oblivious

import "math/bits"

// exponentialBits is the number of bits behind the point of an exponential
// variable. The largest one, -ln 2^-64, is 44.4, so 6 are left in front.
const exponentialBits = 58

// reciprocal[i] is 2^64 / (1 + (i+1)/128), rounded down, and logarithm[i] is
// the natural logarithm of 2^64 / reciprocal[i], with exponentialBits.
var reciprocal, logarithm = logTables()

// ln2 has exponentialBits.
var ln2 = minusLog1(1<<63, 80) >> (64 - exponentialBits)

func logTables() (r, l [128]uint64) {
	for i := range r {
		r[i], _ = bits.Div64(128, 0, 129+uint64(i))
		l[i] = minusLog1(-r[i], 80) >> (64 - exponentialBits)
	}
	return r, l
}

// minusLog1 is -ln(1 - y) by its series of n terms, where y and the result
// have 64 bits behind the point: y + y^2/2 + y^3/3 + ...; y is at most 1/2, for
// which each term gives a bit.
func minusLog1(y uint64, n uint64) uint64 {
	var sum uint64
	for k := n; k > 0; k-- {
		hi, _ := bits.Mul64(sum, y)
		sum = hi + 1<<63/k // halved, so that the first term fits
	}
	hi, lo := bits.Mul64(sum, y)
	return hi<<1 | lo>>63
}

// exponential maps a uniform number h/2^64 to an exponential variable of mean
// 1, -ln(1 - h/2^64), with exponentialBits behind the point. Errors are below
// 2^-54 of the unit, and below 2^-50 of the result for results above 2^-20.
//
// With m = 2^64-h brought into [1, 2) by 2^s, it is s ln 2 - ln m; and m times
// a reciprocal from the table is 1-y with y below 1/64, where eight terms of
// the series are enough.
func exponential(h uint64) uint64 {
	var e uint64
	if h < 1<<58 {
		e = series8(h) >> (64 - exponentialBits)
	} else {
		u := -h
		zeros := bits.LeadingZeros64(u)
		m := u << zeros
		i := m >> 56 & 127
		p, _ := bits.Mul64(m, reciprocal[i])
		e = uint64(zeros+1)*ln2 - logarithm[i] + series8((1<<63-p)<<1)>>(64-exponentialBits)
	}
	// What rounding took must not fall below the linear bound, which the test for
	// admission relies on.
	return max(e, h>>(64-exponentialBits))
}

// series8 is -ln(1 - y) by eight terms, y below 1/32, 64 bits behind the point.
func series8(y uint64) uint64 {
	const one = 1 << 63 // halved throughout, so that 1 fits
	s, _ := bits.Mul64(y, one/8)
	s, _ = bits.Mul64(y, one/7+s)
	s, _ = bits.Mul64(y, one/6+s)
	s, _ = bits.Mul64(y, one/5+s)
	s, _ = bits.Mul64(y, one/4+s)
	s, _ = bits.Mul64(y, one/3+s)
	s, _ = bits.Mul64(y, one/2+s)
	hi, lo := bits.Mul64(y, one+s)
	return hi<<1 | lo>>63
}
