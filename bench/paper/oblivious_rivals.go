package paper

import (
	"math"
	"math/bits"
	"slices"

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
	weighted  bool
}

func newHyperLogLog(registers int, seed uint64, weighted bool) *hyperLogLog {
	return &hyperLogLog{seed, make([]uint8, registers), weighted}
}

func (s *hyperLogLog) add(id uint64, bytes uint32) {
	h := hash.Uint64(s.seed, id)
	r := &s.registers[hash.Reduce(h, uint64(len(s.registers)))]
	*r = max(*r, s.rank(h, id, bytes))
}

func (s *hyperLogLog) rank(h, id uint64, bytes uint32) uint8 {
	h = hash.Uint64(h, id)
	if !s.weighted {
		return uint8(bits.LeadingZeros64(h|1)) + 1
	}
	u := (float64(h>>11) + 0.5) / (1 << 53)
	smallest := -math.Expm1(math.Log(u) / float64(bytes))
	return uint8(min(max(math.Ceil(-math.Log2(smallest)), 1), 255))
}

// estimate is the number by Ertl's estimator ("New cardinality estimation algorithms for HyperLogLog sketches", 2017), which
// is unbiased for all numbers, where the original one is off by up to 1 % around the number at which it leaves linear
// counting. The sum, whose registers are uneven, is by the original one.
func (s *hyperLogLog) estimate() float64 {
	m := float64(len(s.registers))
	if !s.weighted {
		var counts [65]float64
		for _, r := range s.registers {
			counts[r]++
		}
		z := m * tau(1-counts[64]/m)
		for k := 63; k > 0; k-- {
			z = (z + counts[k]) / 2
		}
		return m * m / (2 * math.Ln2) / (z + m*sigma(counts[0]/m))
	}
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

// sigma is x + sum_k x^(2^k) 2^(k-1), infinite at 1, and tau is (1 - x - sum_k (1 - x^(2^-k))^2 2^-k) / 3.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	sum, y := x, 1.
	for before := -1.; before != sum; y *= 2 {
		before = sum
		x *= x
		sum += x * y
	}
	return sum
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	sum, y := 1-x, 1.
	for before := -1.; before != sum; {
		before = sum
		x = math.Sqrt(x)
		y /= 2
		sum -= (1 - x) * (1 - x) * y
	}
	return sum / 3
}

// expSketch estimates the bytes of distinct packets (Lemiesz, "On the algebra of data
// sketches", VLDB 2021): each register keeps the smallest of the packets' exponential variables of the
// packets' bytes as rate, so that the registers' sum is a gamma variable, and the estimate
// unbiased with an error of 1/sqrt(registers), however few packets there are. A packet's variables are drawn
// in increasing order up to the largest register, each for a register that it has not had
// (FastExpSketch: Lemiesz, VLDB 2023).
type expSketch struct {
	seed      uint64
	registers []float64
	largest   float64 // of the registers, or beyond
	lowered   int     // registers since largest was right
	order     []int32 // identity between packets
	swaps     []int32
}

func newExpSketch(registers int, seed uint64) *expSketch {
	s := &expSketch{seed: seed, registers: make([]float64, registers), largest: math.Inf(1), order: make([]int32, registers)}
	for i := range s.registers {
		s.registers[i] = math.Inf(1)
		s.order[i] = int32(i)
	}
	return s
}

func (s *expSketch) add(id uint64, bytes uint32) {
	value := 0.
	for k := range s.registers {
		left := len(s.registers) - k
		h := hash.Uint64x2(s.seed, id, uint64(k))
		value -= math.Log((float64(h>>11)+0.5)/(1<<53)) / (float64(bytes) * float64(left))
		if value >= s.largest {
			break
		}
		j := k + int(hash.Reduce(hash.Uint64(s.seed, h), uint64(left)))
		s.order[k], s.order[j] = s.order[j], s.order[k]
		s.swaps = append(s.swaps, int32(j))
		if r := &s.registers[s.order[k]]; value < *r {
			*r = value
			s.lowered++
		}
	}
	for k := len(s.swaps) - 1; k >= 0; k-- {
		j := s.swaps[k]
		s.order[k], s.order[j] = s.order[j], s.order[k]
	}
	s.swaps = s.swaps[:0]
	if s.lowered >= len(s.registers) {
		s.largest, s.lowered = slices.Max(s.registers), 0
	}
}

func (s *expSketch) estimate() float64 {
	sum := 0.
	for _, r := range s.registers {
		sum += r
	}
	return float64(len(s.registers)-1) / sum
}
