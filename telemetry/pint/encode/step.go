package encode

import (
	"fmt"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// SharedSeeds are the hash functions that the queries of a plan share, so that a
// switch computes each once per packet: the one that chooses the query set, of
// whose other bits paths take H, and g. A query's decisions are as random as with hashes of its own;
// those of different queries, of which no query's answer depends on another's,
// use different bits.
type SharedSeeds struct{ Set, Writer uint64 }

// sharedTurn is how far queries turn a shared hash to decide by other bits than
// those at the top.
const sharedTurn = 32

// Step is a query on the packets of a set. Its fields are to be read only.
type Step struct {
	Query  *pint.Query
	Shift  uint8   // of the query's digest in the packet's
	Static *Static // Path
	Codec  *Codec  // Quantiles, Frequent, Maximum and Minimum

	aggregation pint.Aggregation
	value       pint.Value
	nearest     bool   // random rounding would split a frequent value in two
	mask        uint64 // of the query's digest, not shifted
	flip        uint64 // Minimum: mask, since the maximum of the complements is kept
	family      hash.Family
	seed        uint64   // of g where it is sampled, and of the randomness of sums and products
	counter     *Counter // Sum and SlowHops
	product     *Multiplier
	loops       *Loops // Loop
}

// NewStep makes a query's step; seed is the query's.
func NewStep(q *pint.Query, f hash.Family, seed uint64, shared SharedSeeds) (Step, error) {
	s := Step{Query: q, aggregation: q.Aggregation, value: q.Value, nearest: q.Aggregation == pint.Frequent, mask: lowBits(q.Bits), seed: hash.Uint64(seed, 'g'), family: f}
	var err error
	switch q.Aggregation {
	case pint.Path:
		n := max(q.Static.Instances, 1)
		s.Static, err = NewStatic(StaticConfig{
			Bits: q.Bits / n, Instances: n, Layers: q.Static.Layers, Values: q.Static.Code,
			ValueBits: q.Static.ValueBits, Vector: q.Static.Vector, Hash: f, Seed: seed, Shared: &shared,
		})
		if err == nil && q.Bits%n != 0 {
			err = fmt.Errorf("bits %d: %d instances cannot share them evenly", q.Bits, n)
		}
	case pint.Quantiles, pint.Frequent, pint.Maximum, pint.Minimum:
		n := q.Numeric
		s.Codec, err = NewCodec(CodecConfig{
			Bits: q.Bits, Multiplicative: n.Multiplicative, Min: n.Min, Max: n.Max, Epsilon: n.Epsilon, Delta: n.Delta,
			Wrap: q.Value == pint.IngressTime && !n.Multiplicative,
		})
		if q.Aggregation == pint.Minimum {
			s.flip = s.mask
		}
		if s.sampled() {
			s.seed = shared.Writer
		}
	case pint.Sum:
		s.counter, err = NewCounter(q.Bits, q.Numeric.Min, q.Numeric.Max)
	case pint.SlowHops:
		limit := q.Numeric.Max
		if limit == 0 {
			limit = pint.MaxHops
		}
		s.counter, err = NewCounter(q.Bits, 1, limit)
	case pint.Product:
		s.product, err = NewMultiplier(q.Bits, q.Numeric.Min, q.Numeric.Max)
	case pint.Loop:
		// The counter takes the bits that T needs, the hash the others.
		s.loops, err = NewLoops(f, q.Bits-bits.Len(uint(q.Threshold)), q.Threshold, seed)
	}
	return s, err
}

// sampled reports whether the digest is the code of one hop, which reservoir sampling chooses (section 4.1): hop i
// overwrites with probability 1/i.
func (s *Step) sampled() bool {
	return s.aggregation == pint.Quantiles || s.aggregation == pint.Frequent
}

// round is the rounding randomness of codes, of a packet with the hash q.
func (s *Step) round(q uint64) uint64 {
	if s.nearest {
		return RoundNearest
	}
	return q % RoundOne
}

// encode returns the query's digest that a hop, in 1..MaxHops, sends on for the digest that arrived; q is the hash that
// chooses the packet's set, g that of the packet's id and the hop.
//
// All queries of a packet round their codes with the same randomness, and so
// do all hops: that keeps the largest code unbiased (Codec.Encode). Sums and products need
// another randomness at each hop.
func (s *Step) encode(id uint64, hop int, q, g, digest, value uint64) uint64 {
	switch s.aggregation {
	case pint.Path:
		return s.Static.encode(id, hop, q, g, digest, value)
	case pint.Quantiles, pint.Frequent:
		if bits.RotateLeft64(g, sharedTurn) <= reservoirAccept[s.family.Kind()][hop&pint.MaxHops] {
			return s.Codec.Encode(value, s.round(q))
		}
	case pint.Maximum, pint.Minimum:
		return max(digest, s.Codec.Encode(value, s.round(q))^s.flip)
	case pint.Sum:
		return s.counter.Add(digest, value, s.family.Uint64x2(s.seed, id, uint64(hop)))
	case pint.SlowHops:
		if value >= s.Query.Numeric.Slow {
			return s.counter.Add(digest, 1, s.family.Uint64x2(s.seed, id, uint64(hop)))
		}
	case pint.Product:
		if hop == 1 {
			digest = s.product.One()
		}
		return s.product.Multiply(digest, value, s.family.Uint64x2(s.seed, id, uint64(hop)))
	case pint.Loop:
		now, _ := s.loops.Process(id, hop, digest, value)
		return now
	case pint.Checksum:
		if hop == 1 {
			digest = 0
		}
		return s.family.Uint64x2(s.seed, digest<<8|uint64(hop), value) & s.mask
	}
	return digest
}

// Read returns the query's digest in the digest of a packet that passed the given number of hops: a code, a count, or a
// part of a path. Of a sampling query it returns the hop, from 1, whose value that is; 0 for other queries.
func (s *Step) Read(id, digest uint64, hops int) (own uint64, hop int) {
	own = digest>>(s.Shift&63)&s.mask ^ s.flip
	if s.sampled() {
		hop = s.lastWriter(id, hops)
	}
	return own, hop
}

// lastWriter is the last hop that overwrote a sampled code. Hop 1 always writes.
func (s *Step) lastWriter(id uint64, hops int) int {
	accept := &reservoirAccept[s.family.Kind()]
	for hop := min(hops, pint.MaxHops); hop > 1; hop-- {
		if bits.RotateLeft64(s.family.Uint64x2(s.seed, id, uint64(hop)), sharedTurn) <= accept[hop] {
			return hop
		}
	}
	return 1
}

// Value is what the query's digest stands for: a value, a sum, a count, a product, or of a loop query how often
// switches found their own hash. Of a path's digest it means nothing.
func (s *Step) Value(digest uint64) float64 {
	switch {
	case s.Codec != nil:
		return s.Codec.Decode(digest)
	case s.counter != nil:
		return float64(s.counter.Value(digest))
	case s.product != nil:
		return s.product.Value(digest)
	case s.loops != nil:
		return float64(digest >> s.loops.bits)
	}
	return 0
}

// Interval is what the exact value may have been: of codes, all that can have been
// rounded to it; of sums, counts and products over the hops, two standard deviations.
func (s *Step) Interval(digest uint64, hops int) (low, high float64) {
	v := s.Value(digest)
	switch {
	case s.Codec != nil:
		return s.Codec.Interval(digest)
	case s.counter != nil:
		d := 2 * s.counter.Deviation(v, hops)
		return max(0, v-d), v + d
	case s.product != nil:
		return s.product.Interval(digest, hops)
	}
	return v, v
}

// ByChance is how often a packet over the hops, without a loop, has a match of a
// switch's own hash in a loop query's digest, at most; 0 for other queries.
func (s *Step) ByChance(hops int) float64 {
	if s.loops == nil {
		return 0
	}
	return min(1, float64(hops)/float64(s.loops.mask+1))
}
