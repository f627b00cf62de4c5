// Package encode is what a switch does to the digest of a packet, in integers and with tables that are made beforehand,
// without allocation (section 4). An Encoder runs the queries of a plan; the parts are the static
// encoding of values that a flow's packets share (Static), codes of numeric values (Codec), randomized counting (Counter), loop
// detection (Loops), and the estimate of a link's use (Utilisation). All keep to operations that P4 targets have.
package encode

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Encoder is a plan as a switch runs it: all probabilities are integer
// thresholds, all logarithms tables. It is immutable, and safe for concurrent use.
type Encoder struct {
	id     uint16
	bits   int
	family hash.Family
	seeds  SharedSeeds
	below  []uint64 // thresholds of the sets, increasing
	sets   [][]Step // one more than below: the last one is for packets of no set
	loops  bool

	columns  []column // of EncodeBlock
	columnOf map[*pint.Query]int
	oneByOne bool
	byNumber bool // some column needs the set's number
	needs    [numValues]bool
}

// Step is a query on the packets of a set. The fields that the common kinds use
// come first.
type Step struct {
	kind  stepKind
	Shift uint8 // of the query's digest in the packet's
	value uint8
	mask  uint64 // of the query's digest, not shifted
	Seed  uint64 // of g where it is sampled, and of the randomness of sums
	Codec *Codec
	path  *singleStatic // of static, where it applies

	family  hash.Family
	Query   *pint.Query
	Static  *Static
	Counter *Counter
	Loops   *Loops
	nearest bool   // Frequent: random rounding would split a frequent value in two
	Flip    uint64 // Minimum: mask, since the maximum of the complements is kept
	slow    uint64
}

type stepKind uint8

const (
	stepHashed    stepKind = iota // static, hashed values, at most two layers
	stepLinear                    // static, linear values, one layer, every hop acts
	stepSample                    // a uniformly chosen hop's multiplicative code
	stepStatic                    // static, any other
	stepSampleAny                 // a uniformly chosen hop's code, any other
	stepExtreme                   // the largest code
	stepSum                       // a Counter
	stepSlow                      // a Counter of slow hops
	stepLoop
)

// NewStep makes a query's step; seed is the query's.
func NewStep(q *pint.Query, f hash.Family, seed uint64, shared SharedSeeds) (Step, error) {
	s := Step{Query: q, value: uint8(q.Value), mask: lowBits(q.Bits), Seed: hash.Uint64(seed, 'g'), family: f}
	var err error
	switch q.Aggregation {
	case pint.Path:
		if s.Static, err = NewStatic(staticConfig(q, f, seed, &shared)); err == nil && s.Static.DigestBits() != q.Bits {
			return s, fmt.Errorf("bits %d: %d instances cannot share them evenly", q.Bits, q.Static.Instances)
		}
		if err == nil {
			s.path, s.kind = newSingleStatic(s.Static)
		}
	case pint.Quantiles, pint.Frequent:
		s.kind, s.Seed = stepSampleAny, shared.Writer
		s.nearest = q.Aggregation == pint.Frequent
		if q.Numeric.Multiplicative && !s.nearest {
			s.kind = stepSample
		}
		s.Codec, err = NewCodec(codecConfig(q))
	case pint.Maximum, pint.Minimum:
		s.kind = stepExtreme
		s.Codec, err = NewCodec(codecConfig(q))
		if q.Aggregation == pint.Minimum {
			s.Flip = s.mask
		}
	case pint.Sum:
		s.kind = stepSum
		s.Counter, err = NewCounter(q.Bits, q.Numeric.Min, q.Numeric.Max)
	case pint.SlowHops:
		s.kind, s.slow = stepSlow, q.Numeric.Slow
		limit := q.Numeric.Max
		if limit == 0 {
			limit = pint.MaxHops
		}
		s.Counter, err = NewCounter(q.Bits, 1, limit)
	case pint.Loop:
		s.kind = stepLoop
		// The counter takes the bits that T needs, the hash the others.
		s.Loops, err = NewLoops(f, q.Bits-bits.Len(uint(q.Threshold)), q.Threshold, seed)
	}
	return s, err
}

func staticConfig(q *pint.Query, f hash.Family, seed uint64, shared *SharedSeeds) StaticConfig {
	n := max(q.Static.Instances, 1)
	return StaticConfig{
		Bits: q.Bits / n, Instances: n, Layers: q.Static.Layers, Values: q.Static.Code,
		ValueBits: q.Static.ValueBits, Vector: q.Static.Vector, Hash: f, Seed: seed, Shared: shared,
	}
}

func codecConfig(q *pint.Query) CodecConfig {
	n := q.Numeric
	return CodecConfig{
		Bits: q.Bits, Multiplicative: n.Multiplicative, Min: n.Min, Max: n.Max, Epsilon: n.Epsilon, Delta: n.Delta,
		Wrap: q.Value == pint.IngressTime && !n.Multiplicative,
	}
}

// Set is a set of queries that run on the same packets. Of the upper 32 bits of the hash q of a packet's id,
// it has what is below Below and not below that of the set before.
type Set struct {
	Below uint64 // at most 2^32
	Steps []Step // in the order of their places in the digest, the first in the lowest bits
}

// New makes the encoder of a plan with the given id and digest size: of sets whose steps share family and seeds. The
// same query has the same pint.Query in all sets.
func New(plan uint16, digestBits int, f hash.Family, seeds SharedSeeds, sets []Set) *Encoder {
	e := &Encoder{id: plan, bits: digestBits, family: f, seeds: seeds, columnOf: map[*pint.Query]int{}}
	for i, set := range sets {
		steps := slices.Clone(set.Steps)
		shift := 0
		for j := range steps {
			s := &steps[j]
			s.Shift = uint8(shift)
			e.addColumn(i, s)
			shift += s.Query.Bits
			e.needs[s.Query.Value] = true
			e.loops = e.loops || s.Query.Aggregation == pint.Loop
		}
		e.below = append(e.below, set.Below)
		e.sets = append(e.sets, steps)
	}
	e.sets = append(e.sets, nil)
	e.findRanges()
	return e
}

// Sets are the plan's sets of queries, to be read only.
func (e *Encoder) Sets() []Set {
	sets := make([]Set, len(e.below))
	for i := range sets {
		sets[i] = Set{e.below[i], e.sets[i]}
	}
	return sets
}

// Plan is the id of the plan.
func (e *Encoder) Plan() uint16 { return e.id }

// Hash is the family of the plan's hash functions.
func (e *Encoder) Hash() hash.Family { return e.family }

// Bits is the size of a packet's digest.
func (e *Encoder) Bits() int { return e.bits }

// Needs reports whether the plan asks for a value, so that a switch need not
// find out what nobody wants.
func (e *Encoder) Needs(v pint.Value) bool { return int(v) < numValues && e.needs[v] }

// Values are the values that the plan asks for, in the order of their numbers.
func (e *Encoder) Values() (all []pint.Value) {
	for v, asked := range e.needs {
		if asked {
			all = append(all, pint.Value(v))
		}
	}
	return all
}

// SetOf is the number of the packet's set, len(Sets()) if it has none.
func (e *Encoder) SetOf(id uint64) int {
	set, _ := e.chooses(id)
	return set
}

// chooses is q of the paper: the number of the packet's set. It gives the
// hash too: sets use its upper 32 bits, paths what follows for the layer, rounding its
// lowest 16.
func (e *Encoder) chooses(id uint64) (set int, h uint64) {
	h = hash.Uint64(e.seeds.Set, id)
	if e.family == hash.CRC {
		h = e.family.Uint64(e.seeds.Set, id)
	}
	return e.set(h), h
}

// set is the number of the set for the hash q of a packet: of the thresholds that
// it reaches.
func (e *Encoder) set(h uint64) (n int) {
	for _, below := range e.below {
		n += int((below - h>>32 - 1) >> 63)
	}
	return n
}

// Encode returns the digest that hop number hop (from 1) sends on for the
// packet. The source begins with a digest of 0. Hops beyond MaxHops leave the
// digest as it is.
//
// All queries of a packet round their codes with the same randomness, and so
// do all hops: that keeps the largest code unbiased (Codec.Encode). Sums need
// randomness of each hop's own.
func (e *Encoder) Encode(id uint64, hop int, digest uint64, v *pint.Observed) uint64 {
	if uint(hop-1) >= pint.MaxHops {
		return digest
	}
	if e.family != hash.XX {
		return e.encodeOther(id, hop, digest, v)
	}
	h, g := hash.Uint64(e.seeds.Set, id), hash.Uint64x2(e.seeds.Writer, id, uint64(hop))
	steps := e.sets[e.set(h)]
	for i := range steps {
		s := &steps[i]
		value := v[s.value&7]
		old := digest >> (s.Shift & 63) & s.mask
		var now uint64
		// No call keeps the hashes of the common kinds from running side by side.
		switch s.kind {
		case stepHashed:
			l := s.path.layer(h)
			now = choice(g <= l.accept[hop&pint.MaxHops], old&l.keep^hash.Uint64x2(s.path.seeds.value, value, id), old)
		case stepSample:
			now = choice(sampled(g, reservoirAccept[hash.XX][hop&pint.MaxHops]), s.Codec.logarithm(value, h%RoundOne), old)
		case stepLinear:
			now = old ^ toeplitz(hash.Uint64x2(s.path.seeds.value, id, uint64(hop)), value&s.path.valueMask)
		default:
			now = s.encode(id, hop, h, g, old, value)
		}
		digest ^= (old ^ now) & s.mask << (s.Shift & 63)
	}
	return digest
}

// encodeOther is Encode of another family than XXH64, for a hop in 1..MaxHops.
func (e *Encoder) encodeOther(id uint64, hop int, digest uint64, v *pint.Observed) uint64 {
	set, h := e.chooses(id)
	g := e.family.Uint64x2(e.seeds.Writer, id, uint64(hop))
	steps := e.sets[set]
	for i := range steps {
		s := &steps[i]
		shift := s.Shift & 63
		old := digest >> shift & s.mask
		digest ^= (old ^ s.encode(id, hop, h, g, old, v[s.value&7])) & s.mask << shift
	}
	return digest
}

// encode is for steps of any kind.
func (s *Step) encode(id uint64, hop int, h, g, old, value uint64) uint64 {
	round := h % RoundOne
	switch s.kind {
	case stepHashed:
		l := s.path.layer(h)
		return choice(g <= l.accept[hop&pint.MaxHops], old&l.keep^s.family.Uint64x2(s.path.seeds.value, value, id), old)
	case stepLinear:
		return old ^ toeplitz(s.family.Uint64x2(s.path.seeds.value, id, uint64(hop)), value&s.path.valueMask)
	case stepSample:
		return choice(sampled(g, reservoirAccept[s.family][hop&pint.MaxHops]), s.Codec.logarithm(value, round), old)
	case stepStatic:
		return s.Static.Encode(id, hop, old, value)
	case stepSampleAny:
		if s.nearest {
			round = RoundNearest
		}
		return choice(sampled(g, reservoirAccept[s.family][hop&pint.MaxHops]), s.Codec.Encode(value, round), old)
	case stepExtreme:
		return max(old, s.Codec.Encode(value, round)^s.Flip)
	case stepSum:
		return s.Counter.Add(old, value, s.family.Uint64x2(s.Seed, id, uint64(hop)))
	case stepSlow:
		if value >= s.slow {
			return s.Counter.Add(old, 1, s.family.Uint64x2(s.Seed, id, uint64(hop)))
		}
	case stepLoop:
		now, _ := s.Loops.Process(id, hop, old, value)
		return now
	}
	return old
}

// choice is yes ? a : b, without a branch.
func choice(yes bool, a, b uint64) uint64 {
	var n uint64
	if yes {
		n = 1
	}
	return b ^ (a^b)&-n
}

// Loops reports whether the plan has a loop query.
func (e *Encoder) Loops() bool { return e.loops }

// Loop reports whether a switch with the given id finds that the packet loops:
// then it reports the packet, and may drop it. It is to be asked before Encode,
// with the digest that arrived, if the plan has a loop query.
func (e *Encoder) Loop(id uint64, hop int, digest, switchID uint64) bool {
	set, _ := e.chooses(id)
	for i := range e.sets[set] {
		if s := &e.sets[set][i]; s.kind == stepLoop {
			_, found := s.Loops.Process(id, hop, digest>>s.Shift&s.mask, switchID)
			return found
		}
	}
	return false
}

// Encoders are the plans that a switch knows: while one replaces another,
// packets of both are under way, and the shim says which plan a packet has.
// The zero value knows none. It is a value: control makes a new one and swaps it.
type Encoders struct {
	live [2]*Encoder // the newest first
}

// With returns the encoders with one more; the older of two is forgotten. A
// plan with the same id is replaced.
func (s Encoders) With(e *Encoder) Encoders {
	if s.live[0] != nil && s.live[0].id != e.id {
		s.live[1] = s.live[0]
	}
	s.live[0] = e
	return s
}

// Newest is the plan for packets that have none yet; nil if there is no plan.
func (s *Encoders) Newest() *Encoder { return s.live[0] }

// Of returns the encoder of a plan, nil if the switch does not know it: then
// the digest stays as it is.
func (s *Encoders) Of(plan uint16) *Encoder {
	for _, e := range s.live {
		if e != nil && e.id == plan {
			return e
		}
	}
	return nil
}
