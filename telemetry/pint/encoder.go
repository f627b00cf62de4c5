package pint

import (
	"fmt"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Encoder is a plan as a switch runs it: all probabilities are integer
// thresholds, all logarithms tables. It is immutable, and safe for concurrent use.
type Encoder struct {
	id     uint16
	bits   int
	family hash.Family
	seeds  SharedSeeds
	below  []uint64 // thresholds of the sets, increasing
	sets   [][]step // one more than below: the last one is for packets of no set
	loops  bool

	columns  []column // of EncodeBlock
	columnOf map[string]int
	oneByOne bool
	byNumber bool // some column needs the set's number
	needs    [numValues]bool
}

// step is a query on the packets of a set. The fields that the common kinds use
// come first.
type step struct {
	kind  stepKind
	shift uint8 // of the query's digest in the packet's
	value uint8
	mask  uint64 // of the query's digest, not shifted
	seed  uint64 // of g where it is sampled, and of the randomness of sums
	codec *Codec
	path  *singleStatic // of static, where it applies

	family  hash.Family
	static  *Static
	counter *Counter
	loop    *Loops
	nearest bool   // Frequent: random rounding would split a frequent value in two
	flip    uint64 // Minimum: mask, since the maximum of the complements is kept
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

// compile makes a query's step; seed is the query's.
func (q *Query) compile(f hash.Family, seed uint64, shared SharedSeeds) (step, error) {
	s := step{value: uint8(q.Value), mask: lowBits(q.Bits), seed: hash.Uint64(seed, 'g'), family: f}
	var err error
	switch q.Aggregation {
	case Path:
		if s.static, err = NewStatic(q.staticConfig(f, seed, &shared)); err == nil && s.static.Bits() != q.Bits {
			return s, fmt.Errorf("bits %d: %d instances cannot share them evenly", q.Bits, q.Static.Instances)
		}
		if err == nil {
			s.path, s.kind = newSingleStatic(s.static)
		}
	case Quantiles, Frequent:
		s.kind, s.seed = stepSampleAny, shared.Writer
		s.nearest = q.Aggregation == Frequent
		if q.Numeric.Multiplicative && !s.nearest {
			s.kind = stepSample
		}
		s.codec, err = NewCodec(q.codecConfig())
	case Maximum, Minimum:
		s.kind = stepExtreme
		s.codec, err = NewCodec(q.codecConfig())
		if q.Aggregation == Minimum {
			s.flip = s.mask
		}
	case Sum:
		s.kind = stepSum
		s.counter, err = NewCounter(q.Bits, q.Numeric.Min, q.Numeric.Max)
	case SlowHops:
		s.kind, s.slow = stepSlow, q.Numeric.Slow
		limit := q.Numeric.Max
		if limit == 0 {
			limit = MaxHops
		}
		s.counter, err = NewCounter(q.Bits, 1, limit)
	case Loop:
		s.kind = stepLoop
		// The counter takes the bits that T needs, the hash the others.
		s.loop, err = NewLoops(f, q.Bits-bits.Len(uint(q.Threshold)), q.Threshold, seed)
	}
	return s, err
}

func (q *Query) staticConfig(f hash.Family, seed uint64, shared *SharedSeeds) StaticConfig {
	n := max(q.Static.Instances, 1)
	return StaticConfig{
		Bits: q.Bits / n, Instances: n, Layers: q.Static.Layers, Values: q.Static.Code,
		ValueBits: q.Static.ValueBits, Vector: q.Static.Vector, Hash: f, Seed: seed, Shared: shared,
	}
}

func (q *Query) codecConfig() CodecConfig {
	n := q.Numeric
	return CodecConfig{
		Bits: q.Bits, Multiplicative: n.Multiplicative, Min: n.Min, Max: n.Max, Epsilon: n.Epsilon, Delta: n.Delta,
		Wrap: q.Value == IngressTime && !n.Multiplicative,
	}
}

// Compile makes the plan's encoder.
func Compile(p *Plan) (*Encoder, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	e := &Encoder{id: p.ID, bits: p.Bits, family: p.Hash, seeds: p.shared(), columnOf: map[string]int{}}
	for i, set := range p.Sets {
		var steps []step
		shift := 0
		for _, name := range set.Queries {
			q, _ := p.Query(name)
			s, err := q.compile(p.Hash, p.querySeed(name), e.seeds)
			if err != nil {
				return nil, fmt.Errorf("plan %d: query %q: %w", p.ID, name, err)
			}
			s.shift = uint8(shift)
			e.addColumn(name, i, &s)
			shift += q.Bits
			e.needs[q.Value] = true
			e.loops = e.loops || q.Aggregation == Loop
			steps = append(steps, s)
		}
		e.below = append(e.below, uint64(set.Below))
		e.sets = append(e.sets, steps)
	}
	e.sets = append(e.sets, nil)
	e.findRanges()
	return e, nil
}

// Plan is the id of the plan.
func (e *Encoder) Plan() uint16 { return e.id }

// Hash is the family of the plan's hash functions.
func (e *Encoder) Hash() hash.Family { return e.family }

// Bits is the size of a packet's digest.
func (e *Encoder) Bits() int { return e.bits }

// Needs reports whether the plan asks for a value, so that a switch need not
// find out what nobody wants.
func (e *Encoder) Needs(v Value) bool { return v < numValues && e.needs[v] }

// Values are the values that the plan asks for, in the order of their numbers.
func (e *Encoder) Values() (all []Value) {
	for v, asked := range e.needs {
		if asked {
			all = append(all, Value(v))
		}
	}
	return all
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
func (e *Encoder) Encode(id uint64, hop int, digest uint64, v *Observed) uint64 {
	if uint(hop-1) >= MaxHops {
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
		old := digest >> (s.shift & 63) & s.mask
		var now uint64
		// No call keeps the hashes of the common kinds from running side by side.
		switch s.kind {
		case stepHashed:
			l := s.path.layer(h)
			now = choice(g <= l.accept[hop&MaxHops], old&l.keep^hash.Uint64x2(s.path.seeds.value, value, id), old)
		case stepSample:
			now = choice(sampled(g, reservoirAccept[hash.XX][hop&MaxHops]), s.codec.logarithm(value, h%RoundOne), old)
		case stepLinear:
			now = old ^ toeplitz(hash.Uint64x2(s.path.seeds.value, id, uint64(hop)), value&s.path.valueMask)
		default:
			now = s.encode(id, hop, h, g, old, value)
		}
		digest ^= (old ^ now) & s.mask << (s.shift & 63)
	}
	return digest
}

// encodeOther is Encode of another family than XXH64, for a hop in 1..MaxHops.
func (e *Encoder) encodeOther(id uint64, hop int, digest uint64, v *Observed) uint64 {
	set, h := e.chooses(id)
	g := e.family.Uint64x2(e.seeds.Writer, id, uint64(hop))
	steps := e.sets[set]
	for i := range steps {
		s := &steps[i]
		shift := s.shift & 63
		old := digest >> shift & s.mask
		digest ^= (old ^ s.encode(id, hop, h, g, old, v[s.value&7])) & s.mask << shift
	}
	return digest
}

// sampler finds the hop of a sampling step's digest.
func (s *step) sampler() Sampler { return Sampler{s.family, s.seed, sharedTurn} }

// encode is for steps of any kind.
func (s *step) encode(id uint64, hop int, h, g, old, value uint64) uint64 {
	round := h % RoundOne
	switch s.kind {
	case stepHashed:
		l := s.path.layer(h)
		return choice(g <= l.accept[hop&MaxHops], old&l.keep^s.family.Uint64x2(s.path.seeds.value, value, id), old)
	case stepLinear:
		return old ^ toeplitz(s.family.Uint64x2(s.path.seeds.value, id, uint64(hop)), value&s.path.valueMask)
	case stepSample:
		return choice(sampled(g, reservoirAccept[s.family][hop&MaxHops]), s.codec.logarithm(value, round), old)
	case stepStatic:
		return s.static.Encode(id, hop, old, value)
	case stepSampleAny:
		if s.nearest {
			round = RoundNearest
		}
		return choice(sampled(g, reservoirAccept[s.family][hop&MaxHops]), s.codec.Encode(value, round), old)
	case stepExtreme:
		return max(old, s.codec.Encode(value, round)^s.flip)
	case stepSum:
		return s.counter.Add(old, value, s.family.Uint64x2(s.seed, id, uint64(hop)))
	case stepSlow:
		if value >= s.slow {
			return s.counter.Add(old, 1, s.family.Uint64x2(s.seed, id, uint64(hop)))
		}
	case stepLoop:
		now, _ := s.loop.Process(id, hop, old, value)
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
			_, found := s.loop.Process(id, hop, digest>>s.shift&s.mask, switchID)
			return found
		}
	}
	return false
}

// Encoders are the plans that a switch knows: while one replaces another,
// packets of both are under way, and the shim says which plan a packet has.
// The zero value knows none. It is a value: control makes a new one and swaps it.
type Encoders struct {
	live [livePlans]*Encoder // the newest first
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
