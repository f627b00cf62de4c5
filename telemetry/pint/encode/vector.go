package encode

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// HopSet is a set of hop numbers; hop i is bit i-1.
type HopSet [4]uint64

// Has reports whether hop is in the set.
func (h *HopSet) Has(hop int) bool { return h[(hop-1)>>6&3]>>(uint(hop-1)&63)&1 != 0 }

// Add puts hop into the set.
func (h *HopSet) Add(hop int) { h[(hop-1)>>6&3] |= 1 << (uint(hop-1) & 63) }

// Len is the number of hops in the set.
func (h *HopSet) Len() int {
	return bits.OnesCount64(h[0]) + bits.OnesCount64(h[1]) + bits.OnesCount64(h[2]) + bits.OnesCount64(h[3])
}

// Last returns the largest hop of the set, 0 if it is empty.
func (h *HopSet) Last() int {
	for w := 3; w >= 0; w-- {
		if h[w] != 0 {
			return 64*w + bits.Len64(h[w])
		}
	}
	return 0
}

// FirstHops is the set of hops 1..n.
func FirstHops(n int) HopSet {
	var h HopSet
	for w := range h {
		h[w] = lowBits(min(max(n-64*w, 0), 64))
	}
	return h
}

// planes decide for 64 hops at once which of them write on a packet. The paper
// draws k-bit vectors whose conjunction has ones with probability 2^-t
// (section 4.2, "Reducing the decoding complexity"). Comparing bit-sliced
// numbers does the same for any probability, even a different one for each
// hop, as reservoir sampling needs:
//
//	word t of the packet, bit i:  bit 63-t of hop i's random number
//	plane t, bit i:               bit 63-t of the largest number accepted for hop i
//
// After t words a hop is undecided with probability 2^-t, so 64 hops take
// about log2(64) + 1.3 words, and one hop takes 2.
type planes [4][64]uint64

// newPlanes slices the thresholds, which are indexed by hop.
func newPlanes(accept *[pint.MaxHops + 1]uint64) *planes {
	p := new(planes)
	for hop := 1; hop <= pint.MaxHops; hop++ {
		for t := range 64 {
			p[(hop-1)/64][t] |= accept[hop] >> (63 - t) & 1 << ((hop - 1) % 64)
		}
	}
	return p
}

// writes decides for one hop.
func (p *planes) writes(f hash.Family, seed, id uint64, hop int) bool {
	block, lane := (hop-1)>>6&3, uint(hop-1)&63
	for t := range 64 {
		a := p[block][t] >> lane & 1
		if r := f.Uint64x2(seed, id, uint64(block<<6|t)) >> lane & 1; r != a {
			return r < a
		}
	}
	return true
}

// writers decides for all hops of a block of 64; want marks those that matter.
func (p *planes) writers(f hash.Family, seed, id uint64, block int, want uint64) uint64 {
	var less uint64
	open := want
	for t := 0; t < 64 && open != 0; t++ {
		word, a := f.Uint64x2(seed, id, uint64(block<<6|t)), p[block][t]
		less |= open & a &^ word
		open &^= a ^ word
	}
	return less | open
}

func single(hop int) HopSet {
	var h HopSet
	h.Add(hop)
	return h
}

// All iterates over the hops of the set, in increasing order.
func (h *HopSet) All(yield func(hop int) bool) {
	for w := range h {
		for b := h[w]; b != 0; b &= b - 1 {
			if !yield(64*w + bits.TrailingZeros64(b) + 1) {
				return
			}
		}
	}
}

// And is the set of the hops of both.
func (h *HopSet) And(o *HopSet) HopSet {
	return HopSet{h[0] & o[0], h[1] & o[1], h[2] & o[2], h[3] & o[3]}
}

// Without is the set of the hops that o has not.
func (h *HopSet) Without(o *HopSet) HopSet {
	return HopSet{h[0] &^ o[0], h[1] &^ o[1], h[2] &^ o[2], h[3] &^ o[3]}
}
