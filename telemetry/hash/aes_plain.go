package hash

import "math/bits"

// The rounds of AES in plain Go, for processors without instructions for them. They look tables up by secret
// values, so who shares a core's cache can learn of the key: docs/security.md.

// sbox is AES's substitution of bytes, and columns what a byte of row 0 adds to a column behind SubBytes and
// MixColumns; the other rows' are its rotations.
var sbox, columns = newTables()

func newTables() (s [256]byte, c [256]uint32) {
	// 3 generates the multiplicative group of the field, so p and q run through a number and its inverse.
	p, q := byte(1), byte(1)
	for {
		p ^= double(p) // times 3
		q ^= q << 1    // divided by 3
		q ^= q << 2
		q ^= q << 4
		if q&0x80 != 0 {
			q ^= 0x09
		}
		s[p] = q ^ bits.RotateLeft8(q, 1) ^ bits.RotateLeft8(q, 2) ^ bits.RotateLeft8(q, 3) ^ bits.RotateLeft8(q, 4) ^ 0x63
		if p == 1 {
			break
		}
	}
	s[0] = 0x63
	for i, v := range s {
		c[i] = uint32(double(v)) | uint32(v)<<8 | uint32(v)<<16 | uint32(v^double(v))<<24
	}
	return s, c
}

// double multiplies by x in the field of AES.
func double(b byte) byte { return b<<1 ^ 0x1b&-(b>>7) }

func substitute(w uint32) uint32 {
	return uint32(sbox[byte(w)]) | uint32(sbox[byte(w>>8)])<<8 | uint32(sbox[byte(w>>16)])<<16 | uint32(sbox[w>>24])<<24
}

// round is one round of AES but the last, as AESENC does it.
func (m block) round(key block) block {
	a, b, c, d := uint32(m[0]), uint32(m[0]>>32), uint32(m[1]), uint32(m[1]>>32)
	column := func(a, b, c, d uint32) uint64 {
		return uint64(columns[byte(a)] ^ bits.RotateLeft32(columns[byte(b>>8)], 8) ^
			bits.RotateLeft32(columns[byte(c>>16)], 16) ^ bits.RotateLeft32(columns[d>>24], 24))
	}
	return block{column(a, b, c, d) | column(b, c, d, a)<<32 ^ key[0], column(c, d, a, b) | column(d, a, b, c)<<32 ^ key[1]}
}

// last is the last round, without MixColumns.
func (m block) last(key block) block {
	a, b, c, d := uint32(m[0]), uint32(m[0]>>32), uint32(m[1]), uint32(m[1]>>32)
	column := func(a, b, c, d uint32) uint64 {
		return uint64(substitute(a&0xff | b&0xff00 | c&0xff0000 | d&0xff000000))
	}
	return block{column(a, b, c, d) | column(b, c, d, a)<<32 ^ key[0], column(c, d, a, b) | column(d, a, b, c)<<32 ^ key[1]}
}

func (s *schedule) plain(m block) block {
	m = block{m[0] ^ s.round[0][0], m[1] ^ s.round[0][1]}
	for i := 1; i < 10; i++ {
		m = m.round(s.round[i])
	}
	return m.last(s.round[10])
}

// plain4 is four rounds: the key comes before each, and none behind the last, which would change no difference.
func (s *schedule) plain4(i int, m block) block {
	k := &s.mix[i]
	m = block{m[0] ^ k[0][0], m[1] ^ k[0][1]}
	return m.round(k[1]).round(k[2]).round(k[3]).round(block{})
}
