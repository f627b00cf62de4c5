package encode

import (
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
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
	Values          [len(pint.Observed{})][BlockSize]uint64

	chosen, writer, value [BlockSize]uint64 // hashes q, g and h
	reservoir             [BlockSize]uint64 // thresholds of reservoir sampling, by hop
}

// column is a query in neighbouring sets that have its digest at the same place: of packets whose hash q is
// in low..low+width.
type column struct {
	kind  columnKind
	shift uint8
	mask  uint64 // of the digest, shifted

	low, width uint64
	hash       hash.Member // h, of paths
	Step
}

type columnKind uint8

const (
	columnAny     columnKind = iota // packet by packet, by Step.encode
	columnHashed                    // a path in hashed values: a layer of reservoir sampling, and perhaps one that xors
	columnLinear                    // a path in linear values, to which every hop writes
	columnSample                    // a sampled code
	columnExtreme                   // the largest or least code
)

// maxColumns bounds the columns of which each costs time per block. Packets of
// plans with more are encoded one by one.
const maxColumns = 32

// columnsOf finds the columns of a plan; nil: too many.
func columnsOf(sets []Set) (columns []column) {
	from := uint64(0)
	for _, set := range sets {
		for i := range set.Steps {
			s := &set.Steps[i]
			at := 0
			for at < len(columns) && !(columns[at].Query == s.Query && columns[at].shift == s.Shift && columns[at].low+columns[at].width+1 == from<<32) {
				at++
			}
			if at == len(columns) {
				c := column{kind: s.columnKind(), shift: s.Shift, mask: s.mask << s.Shift, low: from << 32, Step: *s}
				if c.kind == columnHashed || c.kind == columnLinear {
					c.hash = s.family.Member(s.Static.seeds[0].value)
				}
				columns = append(columns, c)
			}
			columns[at].width = set.Below<<32 - columns[at].low - 1
		}
		from = set.Below
	}
	if len(columns) > maxColumns {
		return nil
	}
	return columns
}

func (s *Step) columnKind() columnKind {
	switch s.aggregation {
	case pint.Path:
		t := s.Static
		switch l := t.layers; {
		case t.Instances > 1 || t.Vector:
		case t.Values == pint.Hashed && l[0].baseline && (len(l) == 1 || len(l) == 2 && !l[1].baseline):
			return columnHashed
		case t.Dense():
			return columnLinear
		}
	case pint.Quantiles, pint.Frequent:
		return columnSample
	case pint.Maximum, pint.Minimum:
		return columnExtreme
	}
	return columnAny
}

// EncodeBlock replaces the digests of a block's packets by those that Encode
// returns.
func (e *Encoder) EncodeBlock(b *Block) {
	n := min(b.N, BlockSize)
	if e.columns == nil {
		for i := range n {
			var v pint.Observed
			for j := range v {
				v[j] = b.Values[j][i]
			}
			b.Digest[i] = e.Encode(b.ID[i], int(b.Hop[i]), b.Digest[i], &v)
		}
		return
	}
	e.chosen.Uint64s(b.chosen[:n], b.ID[:n])
	e.writer.Uint64x2s(b.writer[:n], b.ID[:n], b.Hop[:n])
	accept := &reservoirAccept[e.family.Kind()]
	for i, hop := range b.Hop[:n] {
		b.reservoir[i] = accept[hop&pint.MaxHops]
	}
	for i := range e.columns {
		c := &e.columns[i]
		has := lowBits(n)
		if c.width != ^uint64(0) {
			has = within(b.chosen[:n], 0, c.low, c.width)
		}
		switch c.kind {
		case columnHashed:
			c.hashed(b, n, has)
		case columnLinear:
			c.linear(b, n, has)
		case columnSample:
			c.sample(b, n, has)
		case columnExtreme:
			c.extreme(b, has)
		default:
			c.any(b, has)
		}
	}
}

// The methods below change the digests of the packets whose bit of has is set. Most packets are
// left alone by most hops: what has to be found out of all is so by a few
// instructions for eight of them, and the rest for those that the hop writes to.

func (c *column) hashed(b *Block, n int, has uint64) {
	t, values := c.Static, b.Values[c.value&7][:n]
	if within(values, 0, b.Values[c.value&7][0], 0) == lowBits(n) { // the switch's id, for one
		c.hash.Uint64sBehind(b.value[:n], b.Values[c.value&7][0], b.ID[:n])
	} else {
		c.hash.Uint64x2s(b.value[:n], values, b.ID[:n])
	}
	first := within(b.chosen[:n], sharedTurn, 0, t.layers[0].upTo)
	merge(b.Digest[:n], b.value[:n], has&first&atMost(b.writer[:n], b.reservoir[:n], 0), c.shift, c.mask, ^c.mask)
	if second := has &^ first; second != 0 {
		merge(b.Digest[:n], b.value[:n], second&within(b.writer[:n], 0, 0, t.layers[1].accept[1]), c.shift, c.mask, ^uint64(0))
	}
}

func (c *column) linear(b *Block, n int, has uint64) {
	c.hash.Uint64x2s(b.value[:n], b.ID[:n], b.Hop[:n])
	values := b.Values[c.value&7][:n]
	for i := range values {
		b.value[i] = toeplitz(b.value[i], values[i]&c.Static.valueMask)
	}
	merge(b.Digest[:n], b.value[:n], has, c.shift, c.mask, ^uint64(0))
}

func (c *column) sample(b *Block, n int, has uint64) {
	codec, values, shift := c.Codec, &b.Values[c.value&7], c.shift&63
	for m := has & atMost(b.writer[:n], b.reservoir[:n], sharedTurn); m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		b.Digest[i] = b.Digest[i]&^c.mask | codec.Encode(values[i], c.round(b.chosen[i]))<<shift
	}
}

func (c *column) extreme(b *Block, has uint64) {
	codec, values, shift := c.Codec, &b.Values[c.value&7], c.shift&63
	for m := has; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		old := b.Digest[i] & c.mask
		b.Digest[i] ^= old ^ max(old, (codec.Encode(values[i], b.chosen[i]%RoundOne)^c.flip)<<shift)
	}
}

func (c *column) any(b *Block, has uint64) {
	for m := has; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		old := b.Digest[i] & c.mask
		now := c.encode(b.ID[i], int(b.Hop[i]), b.chosen[i], b.writer[i], old>>(c.shift&63), b.Values[c.value&7][i])
		b.Digest[i] ^= (old ^ now<<(c.shift&63)) & c.mask
	}
}
