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
//
// Its arrays begin it, so that they begin with a line of the cache, as each vector of eight words does then.
type Block struct {
	ID, Hop, Digest [BlockSize]uint64
	Values          [len(pint.Observed{})][BlockSize]uint64
	// Same has a bit for each Value, by its number, that all packets have alike: its first entry is enough.
	// EncodeBlock may write the others, and take bits away.
	Same uint64

	_                     [7]uint64
	chosen, writer, value [BlockSize]uint64 // hashes q, g and h
	reservoir             [BlockSize]uint64 // thresholds of reservoir sampling, by hop, where these are looked up

	N int
}

// same reports whether the first n packets have the same value.
func (b *Block) same(v pint.Value, n int) bool {
	values := &b.Values[v&7]
	return b.Same>>v&1 != 0 || within(values[:n], 0, values[0], 0) == lowBits(n)
}

// Spread makes Same say nothing of a value, of which n packets have it: it writes the value for each.
func (b *Block) Spread(v pint.Value, n int) {
	if b.Same>>v&1 == 0 {
		return
	}
	b.Same &^= 1 << v
	values := b.Values[v&7][:min(n, BlockSize)]
	for i := range values {
		values[i] = values[0]
	}
}

// column is a query in neighbouring sets that have its digest at the same place: of packets whose hash q is
// in low..low+width.
type column struct {
	kind  columnKind
	shift uint8
	mask  uint64 // of the digest, shifted

	low, width uint64
	hash       hash.Member // h, of paths
	codes      codes       // of codes
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
				if c.kind == columnSample || c.kind == columnExtreme {
					c.codes = s.codes(c.kind == columnExtreme)
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
	if n <= 0 {
		return
	}
	if e.columns == nil || !wide {
		for _, v := range e.values {
			b.Spread(v, n)
		}
	}
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
	if !wide {
		accept := &reservoirAccept[e.family.Kind()]
		for i, hop := range b.Hop[:n] {
			b.reservoir[i] = accept[hop&pint.MaxHops]
		}
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
			c.extreme(b, n, has)
		default:
			c.any(b, n, has)
		}
	}
}

// The methods below change the digests of the packets whose bit of has is set. Most packets are
// left alone by most hops: what has to be found out of all is so by a few
// instructions for eight of them, and the rest for those that the hop writes to.

func (c *column) hashed(b *Block, n int, has uint64) {
	t, values := c.Static, b.Values[c.value&7][:n]
	if b.same(c.value, n) { // the switch's id, for one
		c.hash.Uint64sBehind(b.value[:n], b.Values[c.value&7][0], b.ID[:n])
	} else {
		c.hash.Uint64x2s(b.value[:n], values, b.ID[:n])
	}
	first := within(b.chosen[:n], sharedTurn, 0, t.layers[0].upTo)
	merge(b.Digest[:n], b.value[:n], has&first&c.overwrites(b, n, 0), c.shift, c.mask, ^c.mask)
	if second := has &^ first; second != 0 {
		merge(b.Digest[:n], b.value[:n], second&within(b.writer[:n], 0, 0, t.layers[1].accept[1]), c.shift, c.mask, ^uint64(0))
	}
}

// overwrites reports which hops overwrite by reservoir sampling; turn says by which bits of g.
func (c *column) overwrites(b *Block, n, turn int) uint64 {
	if wide {
		return wideReservoir(&b.writer, &b.Hop, uint64(turn), &reservoirAccept[c.family.Kind()], n) & lowBits(n)
	}
	return atMost(b.writer[:n], b.reservoir[:n], turn)
}

func (c *column) linear(b *Block, n int, has uint64) {
	c.hash.Uint64x2s(b.value[:n], b.ID[:n], b.Hop[:n])
	values := b.Values[c.value&7][:n]
	if wide && b.same(c.value, n) {
		wideLinear(&b.Digest, &b.value, has, values[0]&c.Static.valueMask, uint64(c.shift), c.mask, n)
		return
	}
	for i := range values {
		b.value[i] = toeplitz(b.value[i], values[i]&c.Static.valueMask)
	}
	merge(b.Digest[:n], b.value[:n], has, c.shift, c.mask, ^uint64(0))
}

func (c *column) sample(b *Block, n int, has uint64) {
	c.encodeEach(b, n, has&c.overwrites(b, n, sharedTurn))
}

func (c *column) extreme(b *Block, n int, has uint64) { c.encodeEach(b, n, has) }

// encodeEach writes the codes of the packets whose bit is set: sampled ones, or those that exceed what is there.
func (c *column) encodeEach(b *Block, n int, which uint64) {
	if which == 0 {
		return
	}
	codec, values := c.Codec, &b.Values[c.value&7]
	if wide && codec.multiplicative {
		step := uint64(64)
		if b.same(c.value, n) { // packets of a batch leave by the same port, and often arrived together
			step = 0
			base := uint64(codec.base(values[0]))
			for i := range b.value[:8] {
				b.value[i] = base
			}
		} else {
			for m := which; m != 0; m &= m - 1 {
				i := bits.TrailingZeros64(m)
				b.value[i] = uint64(codec.base(values[i]))
			}
		}
		wideCodes(b, &b.value, step, which, &c.codes, n)
		return
	}
	b.Spread(c.value, n)
	shift := c.shift & 63
	for m := which; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		old := b.Digest[i]
		code := (codec.Encode(values[i], b.chosen[i]&c.codes.random+c.codes.fixed) ^ c.flip) << shift
		b.Digest[i] = old&^c.mask | max(old&c.codes.atLeast, code)
	}
}

func (c *column) any(b *Block, n int, has uint64) {
	b.Spread(c.value, n)
	for m := has; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		old := b.Digest[i] & c.mask
		now := c.encode(b.ID[i], int(b.Hop[i]), b.chosen[i], b.writer[i], old>>(c.shift&63), b.Values[c.value&7][i])
		b.Digest[i] ^= (old ^ now<<(c.shift&63)) & c.mask
	}
}

// codes are what a column of codes does to each digest.
type codes struct {
	random, fixed uint64 // rounding: bits of the hash q, or always the same
	top           uint64 // the largest code
	flip          uint64 // of the code, before it is shifted
	shift, mask   uint64 // mask is shifted
	atLeast       uint64 // what of the old digest is a lower limit of the new one: mask, or 0
}

// codes are those of a step whose place is known.
func (s *Step) codes(extreme bool) codes {
	c := codes{random: RoundOne - 1, top: s.Codec.top, flip: s.flip, shift: uint64(s.Shift), mask: s.mask << s.Shift}
	if s.nearest {
		c.random, c.fixed = 0, RoundNearest
	}
	if extreme {
		c.atLeast = c.mask
	}
	return c
}
