package vectors

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// The crc family (telemetry/hash/crc.go) can be inverted: both of its rounds are CRCs by two polynomials that have no
// common divisor, so the 64 bits of a word and the 64 bits of both CRCs determine each other, and what is
// in between is a sum. So packets can be made for any value of any hash of their ids.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// bothCRCs are CRC-32 and CRC-32C of a message.
func bothCRCs(m []byte) uint64 {
	return uint64(crc32.ChecksumIEEE(m))<<32 | uint64(crc32.Checksum(m, castagnoli))
}

// solve finds x with f(x) = want, where f is a bijection that is linear over bits but for a constant.
func solve(f func(uint64) uint64, want uint64) (x uint64) {
	zero := f(0)
	want ^= zero
	// Rows of Gauss' elimination, by their leading bit: what the image has, and which x makes it.
	var image, source [64]uint64
	for i := range 64 {
		y, from := f(1<<i)^zero, uint64(1)<<i
		for y != 0 {
			lead := 63 - bits.LeadingZeros64(y)
			if image[lead] == 0 {
				image[lead], source[lead] = y, from
				break
			}
			y ^= image[lead]
			from ^= source[lead]
		}
	}
	for want != 0 {
		lead := 63 - bits.LeadingZeros64(want)
		want ^= image[lead]
		x ^= source[lead]
	}
	return x
}

// member is one of the family, by its key.
type member struct{ p, q uint32 }

// first is what the first-round CRCs of a message must be for its hash to be h.
func (k member) first(h uint64) uint64 {
	uv := solve(func(x uint64) uint64 { return bothCRCs(binary.BigEndian.AppendUint64(nil, x)) }, h)
	u, v := uint32(uv>>32), uint32(uv)
	return uint64(u-v-k.p)<<32 | uint64(v-k.q)
}

// word finds the word x whose hash is h, of the message that is x, and more words behind it.
func (k member) word(h uint64, behind ...uint64) uint64 {
	return solve(func(x uint64) uint64 {
		m := binary.LittleEndian.AppendUint64(nil, x)
		for _, w := range behind {
			m = binary.LittleEndian.AppendUint64(m, w)
		}
		return bothCRCs(m)
	}, k.first(h))
}

// hash is that of a message.
func (k member) hash(message []byte) uint64 {
	m := bothCRCs(message)
	v := uint32(m) + k.q
	u := uint32(m>>32) + k.p + v
	return bothCRCs(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, u), v))
}

// TestInvert: words are found for hashes of telemetry/hash.
func TestInvert(t *testing.T) {
	for seed := range uint64(50) {
		key := hash.Key(seed)
		k := member{uint32(key >> 32), uint32(key)}
		h := hash.Uint64(1, seed)
		if got := hash.CRC.Uint64(seed, k.word(h)); got != h {
			t.Fatalf("seed %d: a word with the hash %x, want %x", seed, got, h)
		}
		if got := hash.CRC.Uint64x2(seed, k.word(h, seed), seed); got != h {
			t.Fatalf("seed %d: two words with the hash %x, want %x", seed, got, h)
		}
	}
}
