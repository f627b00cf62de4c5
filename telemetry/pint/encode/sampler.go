package encode

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Sampler finds out, at the sink, which hop's value a packet carries: each
// hop i overwrites with probability 1/i, so it is the last hop that did, and
// uniform over the hops (section 4.1). It is a value, and safe for concurrent use.
type Sampler struct {
	family hash.Family
	seed   uint64
	turn   int // of the hash, in bits
}

// NewSampler takes the family and the seed of the query's g.
func NewSampler(f hash.Family, seed uint64) Sampler { return Sampler{family: f, seed: seed} }

// Hop returns the hop, in 1..hops, whose value a packet over that many hops
// carries. Hops beyond MaxHops do not write.
func (s Sampler) Hop(id uint64, hops int) int {
	if s.family != hash.XX {
		return s.hopOfOther(id, hops)
	}
	for hop := min(hops, pint.MaxHops); hop > 1; hop-- {
		if bits.RotateLeft64(hash.Uint64x2(s.seed, id, uint64(hop)), s.turn) <= reservoirAccept[hash.XX][hop] {
			return hop
		}
	}
	return 1
}

// hopOfOther is Hop in another family than XXH64.
func (s Sampler) hopOfOther(id uint64, hops int) int {
	for hop := min(hops, pint.MaxHops); hop > 1; hop-- {
		if s.writes(id, hop) {
			return hop
		}
	}
	return 1
}

// writes reports whether a hop, in 1..MaxHops, overwrites the packet's value.
func (s Sampler) writes(id uint64, hop int) bool {
	return bits.RotateLeft64(s.family.Uint64x2(s.seed, id, uint64(hop)), s.turn) <= reservoirAccept[s.family][hop]
}

// Hop returns the hop, in 1..hops, whose value the digest of a sampling query has in a packet over that many hops; 0 for
// other queries.
func (s *Step) Hop(id uint64, hops int) int {
	if s.kind != stepSample && s.kind != stepSampleAny {
		return 0
	}
	return Sampler{s.family, s.Seed, sharedTurn}.Hop(id, hops)
}

// Value is what a digest, with Minimum's flipped back, stands for: a value, a sum, a count, or of a loop query how often
// switches found their own hash. Of a path's digest it means nothing.
func (s *Step) Value(digest uint64) float64 {
	switch {
	case s.Codec != nil:
		return s.Codec.Decode(digest)
	case s.Counter != nil:
		return float64(s.Counter.Value(digest))
	case s.Loops != nil:
		return float64(digest >> s.Loops.bits)
	}
	return 0
}

// Interval is what the exact value may have been: of codes, all that can have been
// rounded to it; of sums and counts over the hops, two standard deviations.
func (s *Step) Interval(digest uint64, hops int) (low, high float64) {
	v := s.Value(digest)
	switch {
	case s.Codec != nil:
		return s.Codec.Interval(digest)
	case s.Counter != nil:
		d := 2 * s.Counter.Deviation(v, hops)
		return max(0, v-d), v + d
	}
	return v, v
}

// ByChance is how often a packet over the hops, without a loop, has a match of a
// switch's own hash in a loop query's digest, at most; 0 for other queries.
func (s *Step) ByChance(hops int) float64 {
	if s.Loops == nil {
		return 0
	}
	return min(1, float64(hops)/float64(s.Loops.mask+1))
}
