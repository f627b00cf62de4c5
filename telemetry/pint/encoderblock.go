package pint

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// BlockSize is how many packets a Block has room for.
const BlockSize = 64

// Block is packets whose digests are encoded together, query by query, so that
// their hashes are computed side by side and nothing of a packet keeps the next
// one waiting. The caller sets N, and the first N entries of ID, Hop, Digest and
// of the Values that the plan needs; Hop is in 1..MaxHops. It belongs to one
// goroutine at a time.
type Block struct {
	N               int
	ID, Hop, Digest [BlockSize]uint64
	Values          [numValues][BlockSize]uint64

	chosen, writer, value [BlockSize]uint64 // hashes q, g and h
	set                   [BlockSize]uint8
}

// column is a query with its place in the digests of all sets.
type column struct {
	step
	place [maxSets]slot // by set
}

// slot is where a set has a query's digest: its bits there, 0 if the set has not the
// query. A multiplication shifts digests there; in Go it is cheaper than a shift
// by a variable.
type slot struct {
	mask, factor uint64
	shift        uint8
}

// maxSets bounds the sets of which a Block knows, a power of two. Packets of
// plans with more are encoded one by one.
const maxSets = 16

// addColumn notes the step of a query in a set.
func (e *Encoder) addColumn(q string, set int, s *step) {
	if set >= maxSets-1 { // the last is for packets of no set
		e.columns, e.oneByOne = nil, true
		return
	}
	if _, known := e.columnOf[q]; !known {
		e.columnOf[q] = len(e.columns)
		e.columns = append(e.columns, column{step: *s})
	}
	e.columns[e.columnOf[q]].place[set] = slot{s.mask << s.shift, 1 << s.shift, s.shift}
}

// EncodeBlock replaces the digests of a block's packets by those that Encode
// returns.
func (e *Encoder) EncodeBlock(b *Block) {
	n := min(b.N, BlockSize)
	if e.oneByOne {
		e.encodeEach(b, n)
		return
	}
	hash.Uint64s(b.chosen[:n], e.seeds.Set, b.ID[:n])
	hash.Uint64x2s(b.writer[:n], e.seeds.Writer, b.ID[:n], b.Hop[:n])
	e.chooseEach(b, n)
	for i := range e.columns {
		c := &e.columns[i]
		switch c.kind {
		case stepHashed:
			hash.Uint64x2s(b.value[:n], c.path.seeds.value, b.Values[c.value&7][:n], b.ID[:n])
			c.hashed(b, n)
		case stepLinear:
			hash.Uint64x2s(b.value[:n], c.path.seeds.value, b.ID[:n], b.Hop[:n])
			c.linear(b, n)
		case stepSample:
			c.sample(b, n)
		case stepExtreme:
			c.extreme(b, n)
		default:
			c.other(b, n)
		}
	}
}

func (e *Encoder) encodeEach(b *Block, n int) {
	for i := range n {
		var v Observed
		for j := range v {
			v[j] = b.Values[j][i]
		}
		b.Digest[i] = e.Encode(b.ID[i], int(b.Hop[i]), b.Digest[i], &v)
	}
}

// The loops below have no branch on what is as good as random: whether the packet
// has the query, and whether the hop writes, are masks.

// chooseEach finds the sets. Thresholds that no hash reaches are left out, which the last
// one is if every packet has a query.
func (e *Encoder) chooseEach(b *Block, n int) {
	clear(b.set[:n])
	for _, below := range e.below {
		if below > thresholdOne-1 {
			break
		}
		for i := range n {
			b.set[i] += uint8((below - b.chosen[i]>>32 - 1) >> 63)
		}
	}
}

func (c *column) hashed(b *Block, n int) {
	t := c.path
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		l := t.layer(b.chosen[i])
		change := b.Digest[i]&^l.keep ^ b.value[i]*at.factor
		b.Digest[i] ^= choice(b.writer[i] <= l.accept[b.Hop[i]&MaxHops], change&at.mask, 0)
	}
}

func (c *column) linear(b *Block, n int) {
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		b.Digest[i] ^= toeplitz(b.value[i], b.Values[c.value&7][i]&c.path.valueMask) * at.factor & at.mask
	}
}

func (c *column) sample(b *Block, n int) {
	codec, values := c.codec, &b.Values[c.value&7]
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		change := b.Digest[i] ^ codec.logarithm(values[i], b.chosen[i]%RoundOne)*at.factor
		b.Digest[i] ^= choice(sampled(b.writer[i], b.Hop[i]), change&at.mask, 0)
	}
}

func (c *column) extreme(b *Block, n int) {
	codec, values := c.codec, &b.Values[c.value&7]
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		if at.mask == 0 {
			continue // the paper's plan has it on one packet of 16
		}
		old := b.Digest[i] & at.mask
		b.Digest[i] ^= old ^ max(old, (codec.Encode(values[i], b.chosen[i]%RoundOne)^c.flip)*at.factor)
	}
}

func (c *column) other(b *Block, n int) {
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		if at.mask == 0 {
			continue
		}
		old := b.Digest[i] & at.mask
		now := c.encode(b.ID[i], int(b.Hop[i]), b.chosen[i], b.writer[i], old>>(at.shift&63), b.Values[c.value&7][i])
		b.Digest[i] ^= (old ^ now*at.factor) & at.mask
	}
}

// layer is the layer of a packet with the hash q.
func (t *singleStatic) layer(h uint64) *singleLayer {
	l := 0
	if bits.RotateLeft64(h, sharedTurn) > t.upTo {
		l = 1
	}
	return &t.layers[l]
}

// sampled reports whether a hop overwrites the digest of a sample.
func sampled(g, hop uint64) bool {
	return bits.RotateLeft64(g, sharedTurn) <= reservoirAccept[hop&MaxHops]
}
