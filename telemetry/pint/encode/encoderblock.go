package encode

import (
	"math/bits"

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
	Values          [numValues][BlockSize]uint64

	chosen, writer, value [BlockSize]uint64 // hashes q, g and h
	reservoir             [BlockSize]uint64 // thresholds of reservoir sampling, by hop
	set                   [BlockSize]uint8
}

// column is a query with its place in the digests of all sets.
type column struct {
	Step
	place [maxSets]slot // by set

	// A query that has the same place in neighbouring sets, and in no others, is told
	// by a range of the hash q: those from low on, width more of them. It can do
	// without the set's number.
	ranged     bool
	low, width uint64
	at         slot
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
func (e *Encoder) addColumn(set int, s *Step) {
	if set >= maxSets-1 { // the last is for packets of no set
		e.columns, e.oneByOne = nil, true
		return
	}
	if _, known := e.columnOf[s.Query]; !known {
		e.columnOf[s.Query] = len(e.columns)
		e.columns = append(e.columns, column{Step: *s})
	}
	e.columns[e.columnOf[s.Query]].place[set] = slot{s.mask << s.Shift, 1 << s.Shift, s.Shift}
}

// findRanges looks which columns a range of the hash q tells.
func (e *Encoder) findRanges() {
	for i := range e.columns {
		c := &e.columns[i]
		first, last := -1, -1
		c.ranged = c.kind != stepHashed || c.path.reservoir // other layers go by the set's number too
		for set := range min(len(e.below), maxSets) {
			switch at := c.place[set]; {
			case at.mask == 0:
			case first < 0:
				first, last, c.at = set, set, at
			default:
				c.ranged = c.ranged && at == c.at && last == set-1
				last = set
			}
		}
		from := uint64(0)
		if first > 0 {
			from = e.below[first-1]
		}
		// Of a set that no packet has, nothing is told.
		if n := e.below[last] - from; n == 0 {
			c.ranged = false
		} else {
			c.low, c.width = from<<32, n<<32-1
		}
		e.byNumber = e.byNumber || !c.ranged
	}
}

// EncodeBlock replaces the digests of a block's packets by those that Encode
// returns.
func (e *Encoder) EncodeBlock(b *Block) {
	n := min(b.N, BlockSize)
	if e.oneByOne {
		e.encodeEach(b, n)
		return
	}
	e.family.Uint64s(b.chosen[:n], e.seeds.Set, b.ID[:n])
	e.family.Uint64x2s(b.writer[:n], e.seeds.Writer, b.ID[:n], b.Hop[:n])
	accept := &reservoirAccept[e.family]
	for i, hop := range b.Hop[:n] {
		b.reservoir[i] = accept[hop&pint.MaxHops]
	}
	if e.byNumber {
		e.chooseEach(b, n)
	}
	for i := range e.columns {
		c := &e.columns[i]
		if !c.ranged {
			c.encodeEach(b, n)
			continue
		}
		has := lowBits(n)
		if c.width != ^uint64(0) {
			has = within(b.chosen[:n], 0, c.low, c.width)
		}
		switch c.kind {
		case stepHashed:
			c.hashedWhere(b, n, has)
		case stepLinear:
			c.linearWhere(b, n, has)
		case stepSample:
			c.sampleWhere(b, n, has)
		case stepExtreme:
			c.extremeWhere(b, has)
		default:
			c.otherWhere(b, has)
		}
	}
}

// The methods below change the digests of the packets whose bit of has is set. Most packets are
// left alone by most hops: what has to be found out of all is so by a few
// instructions for eight of them, and the rest for those that the hop writes to.

// hashedWhere: a first layer of reservoir sampling, which overwrites, and perhaps a second one
// with a fixed probability, which adds.
func (c *column) hashedWhere(b *Block, n int, has uint64) {
	t, values := c.path, b.Values[c.value&7][:n]
	if within(values, 0, b.Values[c.value&7][0], 0) == lowBits(n) { // the switch's id, for one
		c.family.Uint64sBehind(b.value[:n], t.seeds.value, b.Values[c.value&7][0], b.ID[:n])
	} else {
		c.family.Uint64x2s(b.value[:n], t.seeds.value, values, b.ID[:n])
	}
	first := within(b.chosen[:n], sharedTurn, 0, t.upTo)
	merge(b.Digest[:n], b.value[:n], has&first&atMost(b.writer[:n], b.reservoir[:n], 0), c.at.shift, c.at.mask, ^c.at.mask)
	if second := has &^ first; second != 0 {
		merge(b.Digest[:n], b.value[:n], second&within(b.writer[:n], 0, 0, t.layers[1].accept[1]), c.at.shift, c.at.mask, ^uint64(0))
	}
}

func (c *column) linearWhere(b *Block, n int, has uint64) {
	c.family.Uint64x2s(b.value[:n], c.path.seeds.value, b.ID[:n], b.Hop[:n])
	values := b.Values[c.value&7][:n]
	for i := range values {
		b.value[i] = toeplitz(b.value[i], values[i]&c.path.valueMask)
	}
	merge(b.Digest[:n], b.value[:n], has, c.at.shift, c.at.mask, ^uint64(0))
}

func (c *column) sampleWhere(b *Block, n int, has uint64) {
	codec, values, shift := c.Codec, &b.Values[c.value&7], c.at.shift&63
	for m := has & atMost(b.writer[:n], b.reservoir[:n], sharedTurn); m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		b.Digest[i] = b.Digest[i]&^c.at.mask | codec.logarithm(values[i], b.chosen[i]%RoundOne)<<shift
	}
}

func (c *column) extremeWhere(b *Block, has uint64) {
	codec, values, shift := c.Codec, &b.Values[c.value&7], c.at.shift&63
	for m := has; m != 0; m &= m - 1 {
		i := bits.TrailingZeros64(m)
		old := b.Digest[i] & c.at.mask
		b.Digest[i] ^= old ^ max(old, (codec.Encode(values[i], b.chosen[i]%RoundOne)^c.Flip)<<shift)
	}
}

func (c *column) otherWhere(b *Block, has uint64) {
	for m := has; m != 0; m &= m - 1 {
		c.otherOf(b, bits.TrailingZeros64(m), &c.at)
	}
}

func (c *column) otherOf(b *Block, i int, at *slot) {
	old := b.Digest[i] & at.mask
	now := c.encode(b.ID[i], int(b.Hop[i]), b.chosen[i], b.writer[i], old>>(at.shift&63), b.Values[c.value&7][i])
	b.Digest[i] ^= (old ^ now*at.factor) & at.mask
}

func (e *Encoder) encodeEach(b *Block, n int) {
	for i := range n {
		var v pint.Observed
		for j := range v {
			v[j] = b.Values[j][i]
		}
		b.Digest[i] = e.Encode(b.ID[i], int(b.Hop[i]), b.Digest[i], &v)
	}
}

// encodeEach is for queries whose place differs between sets.
func (c *column) encodeEach(b *Block, n int) {
	switch c.kind {
	case stepHashed:
		c.family.Uint64x2s(b.value[:n], c.path.seeds.value, b.Values[c.value&7][:n], b.ID[:n])
		c.hashed(b, n)
	case stepLinear:
		c.family.Uint64x2s(b.value[:n], c.path.seeds.value, b.ID[:n], b.Hop[:n])
		c.linear(b, n)
	case stepSample:
		c.sample(b, n)
	case stepExtreme:
		c.extreme(b, n)
	default:
		c.other(b, n)
	}
}

// The loops below have no branch on what is as good as random: whether the packet
// has the query, and whether the hop writes, are masks.

// chooseEach finds the sets. Thresholds that no hash reaches are left out, which the last
// one is if every packet has a query.
func (e *Encoder) chooseEach(b *Block, n int) {
	clear(b.set[:n])
	for _, below := range e.below {
		if below > 1<<32-1 {
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
		b.Digest[i] ^= choice(b.writer[i] <= l.accept[b.Hop[i]&pint.MaxHops], change&at.mask, 0)
	}
}

func (c *column) linear(b *Block, n int) {
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		b.Digest[i] ^= toeplitz(b.value[i], b.Values[c.value&7][i]&c.path.valueMask) * at.factor & at.mask
	}
}

func (c *column) sample(b *Block, n int) {
	codec, values := c.Codec, &b.Values[c.value&7]
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		change := b.Digest[i] ^ codec.logarithm(values[i], b.chosen[i]%RoundOne)*at.factor
		b.Digest[i] ^= choice(sampled(b.writer[i], b.reservoir[i]), change&at.mask, 0)
	}
}

func (c *column) extreme(b *Block, n int) {
	codec, values := c.Codec, &b.Values[c.value&7]
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		if at.mask == 0 {
			continue // the paper's plan has it on one packet of 16
		}
		old := b.Digest[i] & at.mask
		b.Digest[i] ^= old ^ max(old, (codec.Encode(values[i], b.chosen[i]%RoundOne)^c.Flip)*at.factor)
	}
}

func (c *column) other(b *Block, n int) {
	for i := range n {
		at := &c.place[b.set[i]&(maxSets-1)]
		if at.mask == 0 {
			continue
		}
		c.otherOf(b, i, at)
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
func sampled(g, accept uint64) bool { return bits.RotateLeft64(g, sharedTurn) <= accept }
