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
	// the lowest ones. 0 means 1.
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
type Static struct {
	StaticConfig        // to be read only; Instances is at least 1
	mask         uint64 // of one instance
	valueMask    uint64
	Fragments    int // of a value
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
	turn                         int  // of H, in bits
	shift                        uint // Linear: of the instance's key in its hash
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
		s.Fragments = (c.ValueBits + c.Bits - 1) / c.Bits // the paper's F = ceil(q / b)
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
		if c.Values == pint.Linear {
			s.seeds[j].value, s.seeds[j].shift = s.seeds[j-j%s.perWord].value, uint(j%s.perWord*s.stride)
		}
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
			sl.accept[i] = reservoirAccept[f.Kind()][i]
		} else {
			sl.accept[i] = limit(f, accept(l.P))
		}
	}
	if vector {
		sl.planes = newPlanes(&sl.accept)
	}
	return sl
}

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
	return s.encode(id, hop, s.Hash.Uint64(s.seeds[0].layer, id), s.Hash.Uint64x2(s.seeds[0].writer, id, uint64(hop)), digest, value)
}

// encode is Encode for a hop in 1..MaxHops, with the first instance's hashes H and g.
func (s *Static) encode(id uint64, hop int, h, g, digest, value uint64) uint64 {
	value &= s.valueMask
	for j := range s.Instances {
		if j > 0 {
			h, g = s.Hash.Uint64(s.seeds[j].layer, id), s.Hash.Uint64x2(s.seeds[j].writer, id, uint64(hop))
		}
		l := s.layerOf(h, j)
		writes := g <= l.accept[hop]
		if s.Vector {
			writes = l.planes.writes(s.Hash, s.seeds[j].writer, id, hop)
		}
		if !writes {
			continue
		}
		shift := uint(j * s.Bits)
		if l.baseline {
			digest &^= s.mask << shift
		}
		digest ^= s.contribution(id, j, hop, value) << shift
	}
	return digest
}

// layerOf is the layer of a packet with the hash H in the instance.
func (s *Static) layerOf(h uint64, instance int) *staticLayer {
	h = bits.RotateLeft64(h, s.seeds[instance].turn)
	i := 0
	for h > s.layers[i].upTo {
		i++
	}
	return &s.layers[i]
}

// contribution is what the hop writes or xors when it acts, in the low bits.
func (s *Static) contribution(id uint64, instance, hop int, value uint64) uint64 {
	switch s.Values {
	case pint.Fragmented:
		return value >> (s.Fragment(id, instance) * s.Bits) & s.mask
	case pint.Hashed:
		return s.Hash.Uint64x2(s.seeds[instance].value, value, id) & s.mask
	case pint.Linear:
		return toeplitz(s.Hash.Uint64x2(s.seeds[instance].value, id, uint64(hop))>>(s.seeds[instance].shift&63), value) & s.mask
	}
	return value
}

// Fragment is the number, from 0, of the fragment that the instance's digest
// of the packet carries; fragment 0 has the lowest bits.
func (s *Static) Fragment(id uint64, instance int) int {
	if s.Fragments == 1 {
		return 0
	}
	return int(hash.Reduce(s.Hash.Uint64(s.seeds[instance].number, id), uint64(s.Fragments)))
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

// PathTable is the encoding of a path as a P4 target gets it: the numbers that Encode decides by.
type PathTable struct {
	// ValueSeed is that of h(value, packet id).
	ValueSeed uint64
	// UpTo: the packet is of layer 0 if its hash q, turned by 32 bits, is at most
	// this, else of layer 1.
	UpTo   uint64
	Layers []LayerTable
}

// LayerTable is one way of writing.
type LayerTable struct {
	// Overwrites: a hop that writes overwrites the digest, else it xors.
	Overwrites bool
	// Accept: hop i writes if g(packet, i) is at most Accept[i].
	Accept [pint.MaxHops + 1]uint64
}

// Table is nil but for hashed values in one instance with at most two layers, without Vector.
func (s *Static) Table() *PathTable {
	if s.Values != pint.Hashed || s.Instances > 1 || s.Vector || len(s.layers) > 2 {
		return nil
	}
	t := &PathTable{ValueSeed: s.seeds[0].value, UpTo: s.layers[0].upTo}
	for i := range s.layers {
		t.Layers = append(t.Layers, LayerTable{s.layers[i].baseline, s.layers[i].accept})
	}
	return t
}
