// Package encode is what a switch does to the digest of a packet, in integers and with tables that are made beforehand,
// without allocation (section 4). An Encoder runs the queries of a plan; the parts are the static
// encoding of values that a flow's packets share (Static), codes of numeric values (Codec), randomized counting (Counter), loop
// detection (Loops), and the estimate of a link's use (Utilisation). All keep to operations that P4 targets have.
//
// What a step means is said once, for one packet: Step.encode and Static.encode. EncodeBlock does the same to many packets
// side by side, for the steps that usual plans have.
package encode

import (
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Encoder is a plan as a switch runs it: all probabilities are integer
// thresholds, all logarithms tables. It is immutable, and safe for concurrent use.
type Encoder struct {
	plan    uint16
	family  hash.Family
	seeds   SharedSeeds
	sets    []Set
	columns []column // of EncodeBlock
	chosen  hash.Member
	writer  hash.Member
	values  []pint.Value
	loops   bool
}

// Set is a set of queries that run on the same packets. Of the upper 32 bits of the hash q of a packet's id,
// it has what is below Below and not below that of the set before.
type Set struct {
	Below uint64 // at most 2^32
	Steps []Step // in the order of their places in the digest, the first in the lowest bits
}

// New makes the encoder of the plan with the given id: of sets whose steps have this family and these seeds. The
// same query has the same pint.Query in all sets.
func New(plan uint16, f hash.Family, seeds SharedSeeds, sets []Set) *Encoder {
	e := &Encoder{plan: plan, family: f, seeds: seeds, chosen: f.Member(seeds.Set), writer: f.Member(seeds.Writer)}
	for _, set := range sets {
		steps, shift := slices.Clone(set.Steps), 0
		for i := range steps {
			q := steps[i].Query
			steps[i].Shift = uint8(shift)
			shift += q.Bits
			e.loops = e.loops || q.Aggregation == pint.Loop
			e.values = append(e.values, q.Value)
		}
		e.sets = append(e.sets, Set{set.Below, steps})
	}
	slices.Sort(e.values)
	e.values = slices.Compact(e.values)
	e.columns = columnsOf(e.sets)
	return e
}

// Plan is the id of the plan.
func (e *Encoder) Plan() uint16 { return e.plan }

// Values are the values that the plan asks for, in the order of their numbers.
func (e *Encoder) Values() []pint.Value { return e.values }

// Seeds are those of the two hashes that all queries share.
func (e *Encoder) Seeds() SharedSeeds { return e.seeds }

// Reservoir are the thresholds of samples: hop i overwrites a sampled code if
// g(packet, i), turned by 32 bits, is at most Reservoir()[i].
func (e *Encoder) Reservoir() [pint.MaxHops + 1]uint64 { return reservoirAccept[e.family.Kind()] }

// Sets are the plan's sets of queries, to be read only.
func (e *Encoder) Sets() []Set { return e.sets }

// SetOf is the number of the packet's set, len(Sets()) if it has none.
func (e *Encoder) SetOf(id uint64) int { return e.set(e.family.Uint64(e.seeds.Set, id)) }

// Rounding is the randomness, below RoundOne, by which all codes of the packet were rounded, but those of frequent values.
func (e *Encoder) Rounding(id uint64) uint64 { return e.family.Uint64(e.seeds.Set, id) % RoundOne }

// set is the number of the set for the hash q of a packet's id. Sets use its upper 32 bits, paths what follows for the
// layer, rounding its lowest 16.
func (e *Encoder) set(q uint64) (n int) {
	for i := range e.sets {
		n += int((e.sets[i].Below - q>>32 - 1) >> 63)
	}
	return n
}

// Encode returns the digest that hop number hop (from 1) sends on for the
// packet. The source begins with a digest of 0. Hops beyond MaxHops leave the
// digest as it is.
func (e *Encoder) Encode(id uint64, hop int, digest uint64, v *pint.Observed) uint64 {
	if uint(hop-1) >= pint.MaxHops {
		return digest
	}
	q, g := e.family.Uint64(e.seeds.Set, id), e.family.Uint64x2(e.seeds.Writer, id, uint64(hop))
	set := e.set(q)
	if set == len(e.sets) {
		return digest
	}
	steps := e.sets[set].Steps
	for i := range steps {
		s := &steps[i]
		old := digest >> (s.Shift & 63) & s.mask
		digest ^= (old ^ s.encode(id, hop, q, g, old, v[s.value&7])) & s.mask << (s.Shift & 63)
	}
	return digest
}

// Loops reports whether the plan has a loop query.
func (e *Encoder) Loops() bool { return e.loops }

// Loop reports whether a switch with the given id finds that the packet loops:
// then it reports the packet, and may drop it. It is to be asked before Encode,
// with the digest that arrived, if the plan has a loop query.
func (e *Encoder) Loop(id uint64, hop int, digest, switchID uint64) bool {
	set := e.SetOf(id)
	if set == len(e.sets) {
		return false
	}
	for i := range e.sets[set].Steps {
		if s := &e.sets[set].Steps[i]; s.loops != nil {
			_, found := s.loops.Process(id, hop, digest>>s.Shift&s.mask, switchID)
			return found
		}
	}
	return false
}
