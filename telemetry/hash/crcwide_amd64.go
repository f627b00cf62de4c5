//go:build !purego

package hash

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

// wideCRC says that the processor has eight carry-less products at once. It is a variable for tests to compare both.
var wideCRC = hasCRC && wide && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VPCLMULQDQ

// crcFolds are the constants of both CRCs.
type crcFolds struct{ p, q crcFold }

// crcFold are the constants of a CRC. Polynomials are reflected: the highest bit of 64 is that of x^0.
type crcFold struct {
	quotient uint64    // of x^96 by the polynomial, without its highest bit
	twice    uint64    // the polynomial without x^32, times two
	powers   [8]uint64 // by k: the remainder of x^(64k-1), as a carry-less product is one bit short
}

var folds = crcFolds{newCRCFold(0x04c11db7), newCRCFold(0x1edc6f41)}

// newCRCFold makes the constants of a polynomial without x^32, not reflected.
func newCRCFold(polynomial uint32) (f crcFold) {
	f.twice = uint64(bits.Reverse32(polynomial)) << 1
	rest, quotient := uint32(1), uint64(0) // of x^0
	for power := 1; power < 64*len(f.powers); power++ {
		high := rest >> 31
		if rest <<= 1; high != 0 {
			rest ^= polynomial
		}
		if power > 32 && power <= 96 { // the bits of the division's quotient below the first
			quotient = quotient<<1 | uint64(high)
		}
		if power%64 == 63 {
			f.powers[(power+1)/64&7] = bits.Reverse64(uint64(rest))
		}
	}
	f.quotient = bits.Reverse64(quotient)
	return f
}

// crcWide does what key.many does, for 1 to 8 lists of count >= 1 words.
//
//go:noescape
func crcWide(dst *uint64, words **uint64, n, count int, first sum, k key, folds *crcFolds)

// manyWide is key.many of at least one message.
func (k key) manyWide(dst []uint64, first sum, words [][]uint64) {
	var at [len(folds.p.powers)]*uint64
	for i, w := range words {
		at[i] = &w[0]
	}
	crcWide(&dst[0], &at[0], len(words), len(dst), first, k, &folds)
}
