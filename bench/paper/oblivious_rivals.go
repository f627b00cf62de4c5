package paper

import (
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// hyperLogLog estimates the number of distinct packets (Flajolet, Fusy,
// Gandouet, Meunier, 2007), or with weights their sum: the generalisation of
// Cohen, Katzir and Yehezkel (2015), CKY, which puts the smallest of w uniform
// numbers where HyperLogLog has one. Registers are maxima, so the sketches of
// switches merge into the one of an observer who saw all; there is no better
// merge for them. A packet's weight goes to one register, and the harmonic mean
// of uneven registers is too low, by 1 % or so where each has a hundred packets:
// CKY with more registers needs more packets.
type hyperLogLog struct {
	seed      uint64
	registers []uint8
}

func newHyperLogLog(registers int, seed uint64) *hyperLogLog {
	return &hyperLogLog{seed, make([]uint8, registers)}
}

// draw returns what registers are chosen by, and the rank that a packet raises
// them to: of weight 1, or w.
func (s *hyperLogLog) draw(id uint64) (h uint64, rank uint8) {
	h = hash.Uint64(s.seed, id)
	return h, uint8(bits.LeadingZeros64(hash.Uint64(h, id)|1)) + 1
}

func (s *hyperLogLog) drawWeight(id uint64, w uint32) (h uint64, rank uint8) {
	h = hash.Uint64(s.seed, id)
	u := (float64(hash.Uint64(h, id)>>11) + 0.5) / (1 << 53)
	smallest := -math.Expm1(math.Log(u) / float64(w))
	return h, uint8(min(max(math.Ceil(-math.Log2(smallest)), 1), 255))
}

func (s *hyperLogLog) raise(h uint64, rank uint8) {
	if r := &s.registers[hash.Reduce(h, uint64(len(s.registers)))]; rank > *r {
		*r = rank
	}
}

// estimate is the number or sum, by linear counting where it is small.
func (s *hyperLogLog) estimate() float64 {
	m := float64(len(s.registers))
	sum, zeros := 0.0, 0
	for _, r := range s.registers {
		sum += math.Ldexp(1, -int(r))
		if r == 0 {
			zeros++
		}
	}
	e := 0.7213 / (1 + 1.079/m) * m * m / sum
	if e <= 2.5*m && zeros > 0 {
		return m * math.Log(m/float64(zeros))
	}
	return e
}
