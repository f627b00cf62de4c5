package encode

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Loops detects routing loops on the fly (Algorithm 2, appendix A.4): a switch
// that finds its own hash in the digest counts a match, and reports a loop at
// match number T+1. A counter above 0 freezes the digest, so a chance match in
// front of a loop, which about one packet in 2^b/hops has, hides the loop from
// that packet. The packet carries
//
//	counter (ceil(log2(T+1)) bits) | digest (b bits)
//
// It is immutable, and safe for concurrent use.
type Loops struct {
	family    hash.Family
	bits      int
	threshold uint64
	mask      uint64
	seedG     uint64
	seedH     uint64
}

// NewLoops makes a detector with b-bit digests and threshold T. Family and seed make its
// hash functions.
func NewLoops(f hash.Family, bitsPerDigest, threshold int, seed uint64) (*Loops, error) {
	if bitsPerDigest < 1 || threshold < 1 || bitsPerDigest+bits.Len(uint(threshold)) > 64 {
		return nil, fmt.Errorf("loop detection: a digest of %d bits with threshold %d does not fit 64 bits, or is empty", bitsPerDigest, threshold)
	}
	l := &Loops{
		family: f, bits: bitsPerDigest, threshold: uint64(threshold), mask: lowBits(bitsPerDigest),
		seedG: hash.Uint64x2(seed, 'l', 'g'), seedH: hash.Uint64x2(seed, 'l', 'h'),
	}
	return l, nil
}

// Bits is the size of counter and digest together.
func (l *Loops) Bits() int { return l.bits + bits.Len64(l.threshold) }

// Process returns what switch s sends on of counter and digest, and whether it
// reports a loop. Hop numbers count from 1, without a limit: a looping
// packet goes on being sampled.
func (l *Loops) Process(id uint64, hop int, digest, s uint64) (uint64, bool) {
	own, g := l.family.Uint64x2(l.seedH, s, id)&l.mask, l.family.Uint64x2(l.seedG, id, uint64(hop))
	if digest&l.mask == own {
		if digest>>l.bits >= l.threshold {
			return digest, true
		}
		return digest + 1<<l.bits, false
	}
	if digest>>l.bits == 0 && g <= l.accept(hop) {
		return own, false
	}
	return digest, false
}

// accept is the largest hash with which the hop writes: 1/i.
func (l *Loops) accept(hop int) uint64 {
	if uint(hop) <= pint.MaxHops {
		return reservoirAccept[l.family.Kind()][hop]
	}
	return limit(l.family, acceptReservoir(hop))
}

// FalseRate is the probability that a packet on a path of the given length,
// without a loop, is reported: at least T+1 of the hops match by chance, each
// with probability 2^-b.
func (l *Loops) FalseRate(hops int) float64 {
	q := math.Ldexp(1, -l.bits)
	rate := 0.0
	for m := int(l.threshold) + 1; m <= hops; m++ {
		rate += choose(hops, m) * math.Pow(q, float64(m)) * math.Pow(1-q, float64(hops-m))
	}
	return rate
}

// choose is the binomial coefficient.
func choose(n, k int) float64 {
	c := 1.0
	for i := range k {
		c = c * float64(n-i) / float64(i+1)
	}
	return c
}
