package pint

import "github.com/weirswitch/weir/telemetry/hash"

// BlockSize is how many packets a Block has room for.
const BlockSize = 64

// Block is packets whose digests are encoded together, column by column, so
// that their hashes are computed side by side. The caller sets N, and the first N
// entries of ID, Hop, Digest and of the Values that the plan needs; Hop is in
// 1..MaxHops. It belongs to one goroutine at a time.
type Block struct {
	N               int
	ID, Hop, Digest [BlockSize]uint64
	Values          [numValues][BlockSize]uint64

	chosen, writer [BlockSize]uint64             // hashes q and g
	value          [maxColumns][BlockSize]uint64 // hashes h, by column
}

// maxColumns is how many static queries have a column of hashes in a Block; more
// hash packet by packet.
const maxColumns = 4

// column is the hash h of a static query.
type column struct {
	seed   uint64
	value  uint8
	linear bool // of packet and hop, else of value and packet
}

// addColumn gives the step of a static query its column, the same one in all sets.
func (e *Encoder) addColumn(s *step) {
	s.column = maxColumns
	if s.kind != stepHashed && s.kind != stepLinear {
		return
	}
	c := column{s.path.seeds.value, s.value & 7, s.kind == stepLinear}
	for i := range e.columns {
		if e.columns[i] == c {
			s.column = uint8(i)
			return
		}
	}
	if len(e.columns) < maxColumns {
		s.column = uint8(len(e.columns))
		e.columns = append(e.columns, c)
	}
}

// EncodeBlock replaces the digests of a block's packets by those that Encode
// returns.
func (e *Encoder) EncodeBlock(b *Block) {
	n := b.N
	ids, hops := b.ID[:n], b.Hop[:n]
	hash.Uint64s(b.chosen[:n], e.seeds.Set, ids)
	hash.Uint64x2s(b.writer[:n], e.seeds.Writer, ids, hops)
	for i, c := range e.columns {
		if c.linear {
			hash.Uint64x2s(b.value[i][:n], c.seed, ids, hops)
		} else {
			hash.Uint64x2s(b.value[i][:n], c.seed, b.Values[c.value&7][:n], ids)
		}
	}
	for i := range ids {
		i &= BlockSize - 1 // BCE
		h, g, hop, digest := b.chosen[i], b.writer[i], b.Hop[i], b.Digest[i]
		steps := e.sets[e.set(h)]
		for j := range steps {
			s := &steps[j]
			value := b.Values[s.value&7][i]
			old := digest >> (s.shift & 63) & s.mask
			var now uint64
			switch {
			case s.column < maxColumns && s.kind == stepHashed:
				now = s.path.hashed(h, g, hop, old, b.value[s.column][i])
			case s.kind == stepSample:
				now = choice(sampled(g, hop), s.codec.logarithm(value, h%RoundOne), old)
			case s.column < maxColumns: // stepLinear
				now = s.path.linear(old, value, b.value[s.column][i])
			case s.kind == stepExtreme:
				now = max(old, s.codec.Encode(value, h%RoundOne)^s.flip)
			default:
				now = s.encode(b.ID[i], int(hop), h, g, old, value)
			}
			digest ^= (old ^ now) & s.mask << (s.shift & 63)
		}
		b.Digest[i] = digest
	}
}
