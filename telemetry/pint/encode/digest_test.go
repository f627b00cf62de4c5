package encode

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
)

// slowWriters is Static.Writers, one hop after the other.
func slowWriters(s *Static, id uint64, instance, hops int) (set HopSet, last bool) {
	l, seed := s.layer(id, instance), s.seeds[instance].writer
	for hop := 1; hop <= min(hops, pint.MaxHops); hop++ {
		writes := s.Hash.Uint64x2(seed, id, uint64(hop)) <= l.accept[hop]
		if s.Vector {
			writes = l.planes.writes(s.Hash, seed, id, hop)
		}
		if writes && l.baseline {
			set = HopSet{}
		}
		if writes {
			set.Add(hop)
		}
	}
	return set, l.baseline
}

// TestWritersAgainstSlow compares the writers that are found side by side with those
// that are found one by one.
func TestWritersAgainstSlow(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 1))
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		for _, c.Vector = range []bool{false, true} {
			s := mustStatic(t, c)
			var w Scratch
			for range 2000 {
				id, j, hops := r.Uint64(), r.IntN(s.Instances), 1+r.IntN(pint.MaxHops)
				if r.IntN(2) == 0 {
					hops = 1 + r.IntN(12)
				}
				got, last := s.Writers(&w, id, j, hops)
				want, wantLast := slowWriters(s, id, j, hops)
				if got != want || last != wantLast {
					t.Fatalf("%s, packet %x, %d hops: writers %v, want %v", name, id, hops, got, want)
				}
			}
		}
	}
}

// TestToeplitzSum compares with the product of each key.
func TestToeplitzSum(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 2))
	for range 2000 {
		width := 1 + r.IntN(57)
		keys, values := make([]uint64, r.IntN(laneCount+1)), make([]uint64, laneCount)
		for i := range values {
			values[i] = r.Uint64()
		}
		var want uint64
		for i := range keys {
			keys[i] = r.Uint64()
			want ^= toeplitz(keys[i], values[i]&lowBits(width))
		}
		if got := toeplitzSum(keys, values, lowBits(width)); got != want {
			t.Fatalf("%d keys, %d bits: %x, want %x", len(keys), width, got, want)
		}
	}
}
