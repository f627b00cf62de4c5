package encode

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// StaticConfig describes the encoding of a static per-flow query.
type StaticConfig struct {
	// Bits is the size of one instance's digest, in 1..64.
	Bits int
	// Instances is how many independent digests a packet carries: the digest
	// of the query has Bits*Instances bits, at most 64, the first instance in
	// the lowest ones. 0 stands for 1.
	Instances int
	// Layers are the ways of writing, with shares that add up to 1.
	Layers []pint.Layer
	// Values says how values meet the digest's bits.
	Values pint.ValueCode
	// ValueBits is the width of a value, in 1..64. Hashed ignores it.
	ValueBits int
	// Vector draws the decisions of 64 hops at once, as bit vectors: the decoder
	// finds a packet's writers with about 7 hashes instead of one per hop, and
	// an encoder needs 2 instead of 1.
	Vector bool
	// Hash is the family of the hash functions, and Seed makes them.
	Hash hash.Family
	Seed uint64
	// Shared, if not nil, are hash functions that the first instance has in common
	// with other queries of a plan.
	Shared *SharedSeeds
}

// SharedSeeds are the hash functions that the queries of a plan share, so that a
// switch computes each once per packet: the one that chooses the query set, of
// whose other bits paths take H, and g. A query's decisions are as random as with hashes of its own;
// those of different queries, of which no query's answer depends on another's,
// use different bits.
type SharedSeeds struct{ Set, Writer uint64 }

// sharedTurn is how far queries turn a shared hash to decide by other bits than
// those at the top.
const sharedTurn = 32

// validate reports all faults at once.
func (c StaticConfig) validate() error {
	var faults []error
	fault := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	n := max(c.Instances, 1)
	switch {
	case c.Bits < 1 || c.Bits > 64:
		fault("bits is %d, not in 1..64", c.Bits)
	case c.Instances < 0 || c.Bits*n > 64:
		fault("%d instances of %d bits do not fit into a digest of 64 bits", c.Instances, c.Bits)
	}
	if !c.Hash.Valid() {
		fault("%v is not a family of hashes", c.Hash)
	}
	if err := validateLayers(c.Layers); err != nil {
		faults = append(faults, err)
	}
	if c.Values != pint.Hashed && (c.ValueBits < 1 || c.ValueBits > 64) {
		fault("value bits is %d, not in 1..64", c.ValueBits)
	}
	switch c.Values {
	case pint.Whole:
		if c.ValueBits > c.Bits {
			fault("values of %d bits do not fit into %d: use fragments or hashes", c.ValueBits, c.Bits)
		}
	case pint.Fragmented, pint.Hashed:
	case pint.Linear:
		if c.Bits+c.ValueBits-1 > 64 {
			fault("linear hashes of %d-bit values in %d bits need a key of more than 64 bits: use fewer", c.ValueBits, c.Bits)
		}
	default:
		fault("%v is not a way to encode values", c.Values)
	}
	return errors.Join(faults...)
}

// Static encodes and reads the digests of one static per-flow query. It is
// immutable, and safe for concurrent use.
//
// Here and in what reads digests, single hashes are written as XXH64, which the compiler
// puts in line, and replaced where the family is another one: a method of the
// family in its place would be a call for each.
type Static struct {
	StaticConfig        // to be read only; Instances is at least 1
	mask         uint64 // of one instance
	valueMask    uint64
	Fragments    int
	layers       []staticLayer
	seeds        []staticSeeds
	// Linear: an instance's key has stride bits, and perWord keys come from
	// one hash.
	stride, perWord int
}

// staticSeeds are the hash functions of an instance: H chooses the layer, g
// the writers, h hashes values or gives the keys of linear hashes, and number
// chooses the fragment.
type staticSeeds struct {
	layer, writer, value, number uint64
	turn                         int // of H, in bits
}

// staticLayer is a Layer in integers.
type staticLayer struct {
	upTo     uint64 // the layer is the first whose upTo the packet's hash does not exceed
	baseline bool
	always   bool                     // every hop writes
	accept   [pint.MaxHops + 1]uint64 // hop i writes if its hash is at most accept[i]
	planes   *planes                  // the same for Vector
}

// NewStatic prepares the encoding: all thresholds become integers here.
func NewStatic(c StaticConfig) (*Static, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("static per-flow query: %w", err)
	}
	c.Instances = max(c.Instances, 1)
	s := &Static{StaticConfig: c, mask: lowBits(c.Bits), valueMask: lowBits(c.ValueBits), Fragments: 1}
	if c.Values == pint.Hashed {
		s.valueMask = lowBits(64)
	}
	if c.Values == pint.Fragmented {
		s.Fragments = Fragments(c.ValueBits, c.Bits)
	}
	if c.Values == pint.Linear {
		s.stride = c.Bits + c.ValueBits - 1
		s.perWord = 64 / s.stride
	}
	upTo := 0.0
	for i, l := range c.Layers {
		upTo += l.Share
		if i == len(c.Layers)-1 {
			upTo = 1
		}
		s.layers = append(s.layers, newStaticLayer(c.Hash, l, limit(c.Hash, accept(upTo)), c.Vector))
	}
	for j := range s.Instances {
		seed := hash.Uint64x2(c.Seed, 'p', uint64(j))
		s.seeds = append(s.seeds, staticSeeds{
			layer: hash.Uint64(seed, 'H'), writer: hash.Uint64(seed, 'g'),
			value: hash.Uint64(seed, 'h'), number: hash.Uint64(seed, 'f'),
		})
	}
	if c.Shared != nil {
		s.seeds[0].layer, s.seeds[0].turn, s.seeds[0].writer = c.Shared.Set, sharedTurn, c.Shared.Writer
	}
	return s, nil
}

func newStaticLayer(f hash.Family, l pint.Layer, upTo uint64, vector bool) staticLayer {
	sl := staticLayer{upTo: upTo, baseline: l.P == 0, always: l.P == 1}
	for i := 1; i <= pint.MaxHops; i++ {
		if sl.baseline {
			sl.accept[i] = reservoirAccept[f][i]
		} else {
			sl.accept[i] = limit(f, accept(l.P))
		}
	}
	if vector {
		sl.planes = newPlanes(&sl.accept)
	}
	return sl
}

// numValues is how many values there are.
const numValues = len(pint.Observed{})

// lowBits is a mask of n ones, 0 <= n <= 64.
func lowBits(n int) uint64 { return 1<<n - 1 }

// DigestBits is the size of the query's digest.
func (s *Static) DigestBits() int { return s.Bits * s.Instances }

// Encode returns the digest that hop number hop (from 1) sends on for the
// packet. The source starts with a digest of 0. Hops beyond MaxHops leave the
// digest as it is. Bits of the value beyond the configured width are ignored.
func (s *Static) Encode(id uint64, hop int, digest, value uint64) uint64 {
	if uint(hop-1) >= pint.MaxHops {
		return digest
	}
	value &= s.valueMask
	if s.Values == pint.Linear && len(s.layers) == 1 && s.layers[0].always {
		return digest ^ s.linearAll(id, hop, value)
	}
	for j := range s.Instances {
		l := s.layer(id, j)
		if !l.always && !s.writes(l, id, j, hop) {
			continue
		}
		shift := uint(j * s.Bits)
		c := s.contribution(id, j, hop, value) << shift
		if l.baseline {
			digest &^= s.mask << shift
		}
		digest ^= c
	}
	return digest
}

// layer is H of the paper: the layer of the packet in the instance.
func (s *Static) layer(id uint64, instance int) *staticLayer {
	if len(s.layers) == 1 {
		return &s.layers[0]
	}
	h := hash.Uint64(s.seeds[instance].layer, id)
	if s.Hash == hash.CRC {
		h = s.Hash.Uint64(s.seeds[instance].layer, id)
	}
	h = bits.RotateLeft64(h, s.seeds[instance].turn)
	i := 0
	for h > s.layers[i].upTo {
		i++
	}
	return &s.layers[i]
}

// writes is g of the paper: whether the hop acts on the packet.
func (s *Static) writes(l *staticLayer, id uint64, instance, hop int) bool {
	if s.Vector {
		return l.planes.writes(s.Hash, s.seeds[instance].writer, id, hop)
	}
	g := hash.Uint64x2(s.seeds[instance].writer, id, uint64(hop))
	if s.Hash == hash.CRC {
		g = s.Hash.Uint64x2(s.seeds[instance].writer, id, uint64(hop))
	}
	return g <= l.accept[hop]
}

// contribution is what the hop writes or xors when it acts, in the low bits.
func (s *Static) contribution(id uint64, instance, hop int, value uint64) uint64 {
	switch s.Values {
	case pint.Fragmented:
		return value >> (s.Fragment(id, instance) * s.Bits) & s.mask
	case pint.Hashed:
		h := hash.Uint64x2(s.seeds[instance].value, value, id)
		if s.Hash == hash.CRC {
			h = s.Hash.Uint64x2(s.seeds[instance].value, value, id)
		}
		return h & s.mask
	case pint.Linear:
		return toeplitz(s.key(id, instance, hop), value) & s.mask
	}
	return value
}

// key holds, from bit 0, the stride key bits of the instance's Toeplitz matrix.
func (s *Static) key(id uint64, instance, hop int) uint64 {
	first := instance - instance%s.perWord
	keys := hash.Uint64x2(s.seeds[first].value, id, uint64(hop))
	if s.Hash == hash.CRC {
		keys = s.Hash.Uint64x2(s.seeds[first].value, id, uint64(hop))
	}
	return keys >> (instance % s.perWord * s.stride)
}

// toeplitz multiplies the value by the matrix whose entry in row r and column
// t is bit r+t of the key. Rows beyond the digest's are garbage.
func toeplitz(key, value uint64) uint64 {
	var sum uint64
	for ; value != 0; value &= value - 1 {
		sum ^= key >> bits.TrailingZeros64(value)
	}
	return sum
}

// linearAll is what a hop xors where every instance is linear and every hop
// acts. The keys of several instances lie side by side in one hash; shifting
// moves bits of a neighbour only into rows that are masked off.
func (s *Static) linearAll(id uint64, hop int, value uint64) uint64 {
	var all uint64
	for j := 0; j < s.Instances; j += s.perWord {
		keys := hash.Uint64x2(s.seeds[j].value, id, uint64(hop))
		if s.Hash == hash.CRC {
			keys = s.Hash.Uint64x2(s.seeds[j].value, id, uint64(hop))
		}
		sum := toeplitz(keys, value)
		for i := j; i < min(j+s.perWord, s.Instances); i++ {
			all |= sum & s.mask << uint(i*s.Bits)
			sum >>= uint(s.stride)
		}
	}
	return all
}
