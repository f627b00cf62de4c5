package hash

import (
	"hash/crc32"
	"math/bits"
)

// The crc family is made of what a P4 target can do: CRCs of fields, additions
// of 32 bits, and constants in tables. For a message m, which is the words' bytes
// in little-endian order, so that what was loaded from a packet counts in the
// order of the wire,
//
//	v = CRC-32C(m) + low 32 bits of Key(seed)              mod 2^32
//	u = CRC-32(m)  + high 32 bits of Key(seed) + v         mod 2^32
//	h = CRC-32(u v) << 32 | CRC-32C(u v)                   u, v in network byte order
//
// A CRC alone is linear: its members differ by a constant. The carries of the
// additions break that, and the second CRCs spread what they did over all bits. It takes the addition of v,
// which varies: where only constants were added, a quarter of the seeds gave a pair of hops whose
// decisions were correlated, by up to 5 %, as constants with few carries are weak. The first
// CRCs do not depend on the seed, so a target computes them once for all members, adds both
// halves of the key side by side, and then one to the other. The polynomials have no common divisor, so no
// two messages of 64 bits have both first CRCs in common, and no two pairs u, v the same h.
type sum struct{ p, q uint32 } // CRC-32 and CRC-32C of the message so far

// add goes on with one word.
func (s sum) add(w uint64) sum {
	return sum{slicing[0].update(s.p, w), slicing[1].update(s.q, w)}
}

// key is what a seed adds.
type key struct{ p, q uint32 }

// Key returns the constants of a member of the crc family, for the tables of a P4
// target: the high 32 bits are added to the CRC-32 of a message, the low ones to
// its CRC-32C.
func Key(seed uint64) uint64 { return Uint64(keySeed, seed) }

// keySeed keeps keys apart from what else is a hash of seeds.
const keySeed = 0x63726320_6b657973

func keyOf(seed uint64) key {
	k := Key(seed)
	return key{uint32(k >> 32), uint32(k)}
}

func crcOf(seed uint64, m sum) uint64 { return keyOf(seed).hash(m) }

// hash is the hash of the message with the given CRCs.
func (k key) hash(m sum) uint64 {
	v := m.q + k.q
	u := m.p + k.p + v
	h := sum{}.add(bits.ReverseBytes64(uint64(u)<<32 | uint64(v)))
	return uint64(h.p)<<32 | uint64(h.q)
}

// crcBlock is how many sums are worked on between two steps.
const crcBlock = 64

// many stores the hashes of messages that begin with the same sum and go on with a word of each list: side by side, by the
// processor's instructions for CRCs, if it has them.
func (k key) many(dst []uint64, first sum, words [][]uint64) {
	for i := range words {
		words[i] = words[i][:len(dst)]
	}
	if hasCRC && wideCRC && len(dst) > 0 {
		k.manyWide(dst, first, words)
		return
	}
	if !hasCRC {
		for i := range dst {
			m := first
			for _, w := range words {
				m = m.add(w[i])
			}
			dst[i] = k.hash(m)
		}
		return
	}
	var block [crcBlock]sum
	for at := 0; at < len(dst); at += crcBlock {
		n := min(crcBlock, len(dst)-at)
		for i := range block[:n] {
			block[i] = first
		}
		for _, w := range words {
			crcStep(&block[0], &w[at], n)
		}
		crcFinish(&dst[at], &block[0], k, n)
	}
}

// byEight are the tables of a CRC that takes eight bytes at once: t[n][b] is the
// CRC register of byte b with n bytes of zero behind (Kounavis and Berry, "A
// systematic approach to building high performance software-based CRC
// generators", 2005). The library's functions would move each word to the heap.
type byEight [8][256]uint32

// slicing are CRC-32 (IEEE 802.3) and CRC-32C (Castagnoli), both reflected.
var slicing = [2]byEight{newByEight(crc32.IEEE), newByEight(crc32.Castagnoli)}

func newByEight(polynomial uint32) (s byEight) {
	s[0] = *crc32.MakeTable(polynomial)
	for b := range s[0] {
		crc := s[0][b]
		for n := 1; n < len(s); n++ {
			crc = s[0][byte(crc)] ^ crc>>8
			s[n][b] = crc
		}
	}
	return s
}

// update goes on from a CRC with the eight bytes of a word.
func (s *byEight) update(crc uint32, w uint64) uint32 {
	w ^= uint64(^crc) // registers begin with ones, and CRCs are their complement
	return ^(s[7][byte(w)] ^ s[6][byte(w>>8)] ^ s[5][byte(w>>16)] ^ s[4][byte(w>>24)] ^
		s[3][byte(w>>32)] ^ s[2][byte(w>>40)] ^ s[1][byte(w>>48)] ^ s[0][byte(w>>56)])
}
