package vectors

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Both hash families can be inverted, so packets can be made for any value of any hash of their ids. Of crc
// (telemetry/hash/crc.go), both rounds are CRCs by two polynomials that have no common divisor, so the 64 bits of a word
// and the 64 bits of both CRCs determine each other, and what is in between is a sum. XXH64 takes the words behind its
// stripes one by one, each into a state by steps that are permutations.

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

// member is one of a family, by its key.
type member struct {
	family hash.Family
	key    uint64
}

// word finds the word x whose hash is h, of the message that is x, and more words behind it.
func (k member) word(h uint64, behind ...uint64) uint64 {
	if k.family == hash.XX {
		state := unfinished(h)
		for _, w := range slices.Backward(behind) {
			state = stateBefore(state, w)
		}
		return wordBetween(k.key+prime5+8*uint64(1+len(behind)), state)
	}
	return solve(func(x uint64) uint64 {
		m := binary.LittleEndian.AppendUint64(nil, x)
		for _, w := range behind {
			m = binary.LittleEndian.AppendUint64(m, w)
		}
		return bothCRCs(m)
	}, k.first(h))
}

// last finds the eight bytes behind a message, of four words, with which its hash is h.
func (k member) last(h uint64, message []byte) []byte {
	if k.family == hash.XX {
		stripe := unfinished(hash.Bytes(k.key, message)) - uint64(len(message))
		return binary.LittleEndian.AppendUint64(nil, wordBetween(stripe+uint64(len(message))+8, unfinished(h)))
	}
	first := k.first(h)
	return binary.BigEndian.AppendUint64(nil, solve(func(x uint64) uint64 {
		return bothCRCs(binary.BigEndian.AppendUint64(message[:len(message):len(message)], x))
	}, first))
}

// hash is that of a message.
func (k member) hash(message []byte) uint64 {
	if k.family == hash.XX {
		return hash.Bytes(k.key, message)
	}
	m := bothCRCs(message)
	v := uint32(m) + uint32(k.key)
	u := uint32(m>>32) + uint32(k.key>>32) + v
	return bothCRCs(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, u), v))
}

// first is what the first-round CRCs of a message must be for its hash to be h.
func (k member) first(h uint64) uint64 {
	uv := solve(func(x uint64) uint64 { return bothCRCs(binary.BigEndian.AppendUint64(nil, x)) }, h)
	u, v := uint32(uv>>32), uint32(uv)
	return uint64(u-v-uint32(k.key>>32))<<32 | uint64(v-uint32(k.key))
}

// The primes of XXH64 (its specification).
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

// inverse is that of an odd number modulo 2^64: p^(2^62-1), as the order of each one divides 2^62.
func inverse(p uint64) uint64 {
	x := uint64(1)
	for range 62 {
		x, p = x*p, p*p
	}
	return x
}

// scrambled is what XXH64 makes of a word behind the stripes before the state comes into it.
func scrambled(w uint64) uint64 { return bits.RotateLeft64(w*prime2, 31) * prime1 }

// unfinished is the state behind the last word of a message with the hash h.
func unfinished(h uint64) uint64 {
	h = (h ^ h>>32) * inverse(prime3)
	h = (h ^ h>>29 ^ h>>58) * inverse(prime2)
	return h ^ h>>33
}

// mixed is what a word's scrambled form and the state before it were together, by the state behind it.
func mixed(behind uint64) uint64 { return bits.RotateLeft64((behind-prime4)*inverse(prime1), -27) }

// stateBefore is the state before a word, by that behind it.
func stateBefore(behind, w uint64) uint64 { return mixed(behind) ^ scrambled(w) }

// wordBetween is the word that leads from one state to another.
func wordBetween(before, behind uint64) uint64 {
	return bits.RotateLeft64((mixed(behind)^before)*inverse(prime1), -31) * inverse(prime2)
}

// TestInvert: words are found for hashes of telemetry/hash.
func TestInvert(t *testing.T) {
	for seed := range uint64(50) {
		for _, k := range []member{{hash.CRC, hash.Key(seed)}, {hash.XX, seed}} {
			h := hash.Uint64(1, seed)
			if got := k.family.Uint64(seed, k.word(h)); got != h {
				t.Fatalf("%v, seed %d: a word with the hash %x, want %x", k.family, seed, got, h)
			}
			if got := k.family.Uint64x2(seed, k.word(h, seed), seed); got != h {
				t.Fatalf("%v, seed %d: two words with the hash %x, want %x", k.family, seed, got, h)
			}
			message := bytes.Repeat([]byte{byte(seed), 5}, 16)
			message = append(message, k.last(h, message)...)
			var w [5]uint64
			for i := range w {
				w[i] = binary.LittleEndian.Uint64(message[8*i:])
			}
			if got := k.family.Uint64x5(seed, w[0], w[1], w[2], w[3], w[4]); got != h || k.hash(message) != h {
				t.Fatalf("%v, seed %d: five words with the hash %x, want %x", k.family, seed, got, h)
			}
		}
	}
}
