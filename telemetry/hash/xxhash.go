package hash

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// The primes of XXH64 (its specification, section "XXH64 algorithm").
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

// Bytes returns the 64-bit hash of b under the seed.
func Bytes(seed uint64, b []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	d.Write(b)
	return d.Sum64()
}

// Uint64 returns the hash of one word (8 bytes).
func Uint64(seed, a uint64) uint64 {
	return finish(tail(seed+prime5+8, a))
}

// Invert64 returns the word of which Uint64 is h under the seed: the hash is a permutation of words.
func Invert64(seed, h uint64) uint64 {
	h = (h ^ h>>32) * inverse3
	h = (h ^ h>>29 ^ h>>58) * inverse2
	h ^= h >> 33
	h = bits.RotateLeft64((h-prime4)*inverse1, -27) ^ (seed + prime5 + 8)
	return bits.RotateLeft64(h*inverse1, -31) * inverse2
}

// The inverses of primes modulo 2^64.
var inverse1, inverse2, inverse3 = inverse(prime1), inverse(prime2), inverse(prime3)

// inverse is that of an odd number, by Newton's iteration, which doubles the bits that are right.
func inverse(p uint64) uint64 {
	x := p // right in 3 bits
	for range 5 {
		x *= 2 - p*x
	}
	return x
}

// Uint64x2 returns the hash of two words (16 bytes).
func Uint64x2(seed, a, b uint64) uint64 {
	return finish(tail(tail(seed+prime5+16, a), b))
}

// Behind returns the seed with which Uint64 of b is Uint64x2 of a and b with the given one:
// for many second words behind the same first one.
func Behind(seed, a uint64) uint64 {
	return tail(seed+prime5+16, a) - prime5 - 8
}

// Uint64x4 returns the hash of four words (32 bytes).
func Uint64x4(seed, a, b, c, d uint64) uint64 {
	return finish(stripe(seed, a, b, c, d) + 32)
}

// Uint64x5 returns the hash of five words (40 bytes).
func Uint64x5(seed, a, b, c, d, e uint64) uint64 {
	return finish(tail(stripe(seed, a, b, c, d)+40, e))
}

// Uint64x8 returns the hash of eight words (64 bytes).
func Uint64x8(seed uint64, w *[8]uint64) uint64 {
	v1 := round(round(seed+prime1+prime2, w[0]), w[4])
	v2 := round(round(seed+prime2, w[1]), w[5])
	v3 := round(round(seed, w[2]), w[6])
	v4 := round(round(seed-prime1, w[3]), w[7])
	return finish(merge(v1, v2, v3, v4) + 64)
}

// Reduce maps a hash to 0 <= i < n without a division: the high word of their
// product (Lemire, "Fast random integer generation in an interval", 2019). It
// uses the hash's high bits; its bias is below n / 2^64.
func Reduce(hash, n uint64) uint64 {
	hi, _ := bits.Mul64(hash, n)
	return hi
}

// round mixes one word of input into a lane.
func round(acc, w uint64) uint64 {
	return bits.RotateLeft64(acc+w*prime2, 31) * prime1
}

// stripe is the state behind one stripe of four words.
func stripe(seed, a, b, c, d uint64) uint64 {
	return merge(round(seed+prime1+prime2, a), round(seed+prime2, b), round(seed, c), round(seed-prime1, d))
}

// merge joins the four lanes.
func merge(v1, v2, v3, v4 uint64) uint64 {
	h := bits.RotateLeft64(v1, 1) + bits.RotateLeft64(v2, 7) + bits.RotateLeft64(v3, 12) + bits.RotateLeft64(v4, 18)
	h = (h^round(0, v1))*prime1 + prime4
	h = (h^round(0, v2))*prime1 + prime4
	h = (h^round(0, v3))*prime1 + prime4
	return (h^round(0, v4))*prime1 + prime4
}

// tail mixes a word behind the last full stripe into the state.
func tail(h, w uint64) uint64 {
	return bits.RotateLeft64(h^bits.RotateLeft64(w*prime2, 31)*prime1, 27)*prime1 + prime4
}

// finish avalanches the state: each bit of it reaches each bit of the hash.
func finish(h uint64) uint64 {
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	return h ^ h>>32
}
