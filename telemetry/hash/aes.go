package hash

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
)

// The aes family is keyed: without the network's key K, 128 bits, its hashes cannot be distinguished from
// random numbers, so a host cannot choose packets for what becomes of them. E is AES-128 under K, all ten
// rounds. For a message of w words in blocks m1..mn, and the member with a seed,
//
//	h = E( R1(m1) ^ ... ^ Rn-1(mn-1) ^ mn ^ D(seed, w) )      D(seed, w) = E(seed, w, 'D')
//
// of which Uint64 and its like take the first 64 bits, little-endian. A block has two words; blocks of two-word
// messages have the second one first, so that many words behind the same one differ in their first half.
//
// Ri are four rounds of AES, each under a key of its own that E made: two messages collide before E with a chance of at
// most 2^-110 (Keliher and Sui, "Exact maximum expected differential and linear probability for two-round AES", 2007,
// with Park et al. 2003: 2^-113 for four rounds; MACs by it: Minematsu and Tsunoo, FSE 2006). D makes members
// independent functions (the XE construction: Rogaway, ASIACRYPT 2004). Together the family is
// a pseudorandom function if AES is a pseudorandom permutation, up to q^2 / 2^110 for q hashes.

// Network is a network's secret key.
type Network [16]byte

// String never shows the key.
func (k Network) String() string { return fmt.Sprintf("key %04x", k.ID()) }

// GoString never shows the key.
func (k Network) GoString() string { return k.String() }

// ID distinguishes keys without revealing them: 1 to 65535, or 0 for the key of zeros, which is no secret. Two random
// keys have the same one with a chance of 2^-16.
func (k Network) ID() uint16 {
	if k == (Network{}) {
		return 0
	}
	return newSchedule(k).id
}

// schedule is all that is computed from a key. Assembly reads it by offsets.
type schedule struct {
	round [11]block   // of E
	mix   [3][4]block // of R1, R2, R3
	key   Network
	id    uint16
}

// block is 16 bytes as two little-endian words.
type block [2]uint64

// What E computes beside hashes, by the high half of its input.
const (
	ofDelta = 'D' << 56 // the low byte: words
	ofMix   = 'M' << 56
	ofID    = 'I' << 56
)

func newSchedule(k Network) *schedule {
	s := &schedule{key: k, round: expandKey(k)}
	for i := range s.mix {
		for j := range s.mix[i] {
			s.mix[i][j] = s.plain(block{uint64(4*i + j), ofMix})
		}
	}
	if k != (Network{}) {
		s.id = uint16(max(s.plain(block{0, ofID})[0]&0xffff, 1))
	}
	return s
}

// delta is D of a seed and a number of words.
func (s *schedule) delta(seed, words uint64) block { return s.encrypt(block{seed, ofDelta | words}) }

// hash1 is the hash of a message that fits a block.
func (s *schedule) hash1(d, m block) block { return s.encrypt(block{d[0] ^ m[0], d[1] ^ m[1]}) }

// absorb adds block i of a message, but the last, to d.
func (s *schedule) absorb(d block, i int, m block) block {
	m = s.rounds4(i, m)
	return block{d[0] ^ m[0], d[1] ^ m[1]}
}

func (s *schedule) of1(seed, a uint64) block { return s.hash1(s.delta(seed, 1), block{a, 0}) }

func (s *schedule) of2(seed, a, b uint64) block { return s.hash1(s.delta(seed, 2), block{b, a}) }

func (s *schedule) of4(seed, a, b, c, d uint64) block {
	return s.hash1(s.absorb(s.delta(seed, 4), 0, block{a, b}), block{c, d})
}

func (s *schedule) of5(seed, a, b, c, d, e uint64) block {
	return s.hash1(s.absorb(s.absorb(s.delta(seed, 5), 0, block{a, b}), 1, block{c, d}), block{e, 0})
}

func (s *schedule) of8(seed uint64, w *[8]uint64) block {
	d := s.delta(seed, 8)
	for i := range 3 {
		d = s.absorb(d, i, block{w[2*i], w[2*i+1]})
	}
	return s.hash1(d, block{w[6], w[7]})
}

// encrypt is E, and rounds4 is R of block i.
func (s *schedule) encrypt(m block) block {
	if hasAES {
		encryptOne(s, &m)
		return m
	}
	return s.plain(m)
}

func (s *schedule) rounds4(i int, m block) block {
	if hasAES {
		rounds4One(&s.mix[i], &m)
		return m
	}
	return s.plain4(i, m)
}

// group is how many hashes the assembly computes side by side, as many as a processor has in flight.
const group = 8

// many1 stores the first 64 bits of E of a[i] and 0, with d: the hash of one word, or of one in front of another.
func (s *schedule) many1(dst []uint64, d block, a []uint64) {
	a = a[:len(dst)]
	if !hasAES {
		for i := range dst {
			dst[i] = s.hash1(d, block{a[i], 0})[0]
		}
		return
	}
	n := len(dst) &^ (vaesGroup - 1)
	if hasVAES && n > 0 {
		vaesWords1(&dst[0], &a[0], s, &d, n)
		dst, a = dst[n:], a[n:]
	}
	if n = len(dst) &^ (group - 1); n > 0 {
		aesWords1(&dst[0], &a[0], s, &d, n)
		dst, a = dst[n:], a[n:]
	}
	if len(dst) > 0 {
		var in, out [group]uint64
		copy(in[:], a)
		aesWords1(&out[0], &in[0], s, &d, group)
		copy(dst, out[:])
	}
}

// many2 stores the hashes of a[i] and b[i].
func (s *schedule) many2(dst []uint64, d block, a, b []uint64) {
	a, b = a[:len(dst)], b[:len(dst)]
	if !hasAES {
		for i := range dst {
			dst[i] = s.hash1(d, block{b[i], a[i]})[0]
		}
		return
	}
	n := len(dst) &^ (vaesGroup - 1)
	if hasVAES && n > 0 {
		vaesWords2(&dst[0], &a[0], &b[0], s, &d, n)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
	if n = len(dst) &^ (group - 1); n > 0 {
		aesWords2(&dst[0], &a[0], &b[0], s, &d, n)
		dst, a, b = dst[n:], a[n:], b[n:]
	}
	if len(dst) > 0 {
		var in [2][group]uint64
		var out [group]uint64
		copy(in[0][:], a)
		copy(in[1][:], b)
		aesWords2(&out[0], &in[0][0], &in[1][0], s, &d, group)
		copy(dst, out[:])
	}
}

// many5 stores the hashes of the five words at each index, and shortens the lists.
func (s *schedule) many5(dst []uint64, d block, w *[5][]uint64) {
	for j := range w {
		w[j] = w[j][:len(dst)]
	}
	if !hasAES {
		for i := range dst {
			sum := s.absorb(s.absorb(d, 0, block{w[0][i], w[1][i]}), 1, block{w[2][i], w[3][i]})
			dst[i] = s.hash1(sum, block{w[4][i], 0})[0]
		}
		return
	}
	n := len(dst) &^ (vaesGroup - 1)
	if hasVAES && n > 0 {
		vaesWords5(&dst[0], &w[0][0], &w[1][0], &w[2][0], &w[3][0], &w[4][0], s, &d, n)
		dst = behind(w, dst, n)
	}
	if n = len(dst) &^ (group - 1); n > 0 {
		aesWords5(&dst[0], &w[0][0], &w[1][0], &w[2][0], &w[3][0], &w[4][0], s, &d, n)
		dst = behind(w, dst, n)
	}
	if len(dst) > 0 {
		var in [5][group]uint64
		var out [group]uint64
		for j := range in {
			copy(in[j][:], w[j])
		}
		aesWords5(&out[0], &in[0][0], &in[1][0], &in[2][0], &in[3][0], &in[4][0], s, &d, group)
		copy(dst, out[:])
	}
}

// behind returns dst without its first n, and shortens the lists as much.
func behind(w *[5][]uint64, dst []uint64, n int) []uint64 {
	for j := range w {
		w[j] = w[j][n:]
	}
	return dst[n:]
}

// known are the keys that the process knows, by their ids: a Family has no room for one. Keys are never forgotten.
var known struct {
	mu sync.Mutex
	of [256]atomic.Pointer[[256]atomic.Pointer[schedule]]
}

// zeroKey is the schedule of the key of zeros, which needs no registration.
var zeroKey = newSchedule(Network{})

// Keyed makes a key known to the process and returns the family aes with it. It fails if the process knows another key
// with the same id: then make a new key.
func Keyed(k Network) (Family, error) {
	if k == (Network{}) {
		return AES, nil
	}
	s := newSchedule(k)
	known.mu.Lock()
	defer known.mu.Unlock()
	at := &known.of[s.id>>8]
	if at.Load() == nil {
		at.Store(new([256]atomic.Pointer[schedule]))
	}
	page := at.Load()
	if other := page[s.id&255].Load(); other != nil && other.key != k {
		return 0, fmt.Errorf("two network keys have the id %04x: make one of them anew", s.id)
	}
	page[s.id&255].Store(s)
	return FamilyOf(AES, s.id), nil
}

// lookup is the schedule of a key id, nil if it is unknown.
func lookup(id uint16) *schedule {
	if id == 0 {
		return zeroKey
	}
	if page := known.of[id>>8].Load(); page != nil {
		return page[id&255].Load()
	}
	return nil
}

// Families are all that the process can hash by: xxhash, crc, aes, and aes with each key that is known.
func Families() []Family {
	list := []Family{XX, CRC, AES}
	for i := range known.of {
		if page := known.of[i].Load(); page != nil {
			for j := range page {
				if page[j].Load() != nil {
					list = append(list, FamilyOf(AES, uint16(i<<8|j)))
				}
			}
		}
	}
	return list
}

// schedule of a family aes. Without its key there is nothing to compute: who takes families from elsewhere asks Known.
func (f Family) schedule() *schedule {
	s := lookup(f.KeyID())
	if s == nil {
		panic(fmt.Sprintf("hash: %v: the process does not have the key", f))
	}
	return s
}

// expandKey is AES-128's key schedule (FIPS 197, 5.2).
func expandKey(k Network) (round [11]block) {
	var w [44]uint32
	for i := range 4 {
		w[i] = binary.LittleEndian.Uint32(k[4*i:])
	}
	constant := uint32(1)
	for i := 4; i < len(w); i++ {
		t := w[i-1]
		if i%4 == 0 {
			t = substitute(t>>8|t<<24) ^ constant
			constant = uint32(double(byte(constant)))
		}
		w[i] = w[i-4] ^ t
	}
	for i := range round {
		round[i] = block{uint64(w[4*i]) | uint64(w[4*i+1])<<32, uint64(w[4*i+2]) | uint64(w[4*i+3])<<32}
	}
	return round
}
