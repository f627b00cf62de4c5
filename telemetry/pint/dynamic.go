package pint

import "github.com/weirswitch/weir/telemetry/hash"

// Sampler finds out, at the sink, which hop's value a packet carries: each
// hop i overwrites with probability 1/i, so it is the last hop that did, and
// uniform over the hops (section 4.1). It is a value, and safe for concurrent use.
type Sampler struct{ seed uint64 }

// NewSampler takes the seed of the query's g.
func NewSampler(seed uint64) Sampler { return Sampler{seed} }

// Hop returns the hop, in 1..hops, whose value a packet over that many hops
// carries. Hops beyond MaxHops do not write.
func (s Sampler) Hop(id uint64, hops int) int {
	for hop := min(hops, MaxHops); hop > 1; hop-- {
		if hash.Uint64x2(s.seed, id, uint64(hop)) <= reservoirAccept[hop] {
			return hop
		}
	}
	return 1
}
