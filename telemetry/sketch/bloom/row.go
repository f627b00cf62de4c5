// Package bloom is a row of bits that says whether a flow was there (Bloom, "Space/time trade-offs in hash coding with allowable
// errors", CACM 13(7), 1970): a flow sets Hashes of them, and was there if all of these are set. It never
// misses a flow. Rows of several switches on a flow's path say yes together only if each does, so their
// false positives multiply.
package bloom

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// Hashes is how many bits a flow sets: the best for 6 bits a flow, with which 5 % of the answers are false positives.
const Hashes = 4

// Row is one row. Several goroutines may read it; one may write it, and none read it then. A copy shares
// the bits; Clone does not.
//
// Memory: what NewRowBytes is given, down to a multiple of 8.
type Row struct {
	words  []uint64
	total  uint64
	seed   uint64
	family hash.Family
}

// LeastBytes is the smallest budget of a row, wordBytes the memory of 64 bits.
const (
	LeastBytes = wordBytes
	wordBytes  = 8
)

// NewRowBytes returns an empty row in a budget of bytes, of the family xxhash.
func NewRowBytes(bytes int, seed uint64) (*Row, error) {
	if bytes < wordBytes || bytes > sketch.CellBytes*sketch.MaxWidth {
		return nil, fmt.Errorf("bits in %d bytes: the range is %d to %d", bytes, wordBytes, sketch.CellBytes*sketch.MaxWidth)
	}
	return &Row{words: make([]uint64, bytes/wordBytes), seed: seed}, nil
}

// Use makes the row mix by another hash family: before the first flow is added, and behind decoding.
func (r *Row) Use(f hash.Family) { r.family = f }

// step is the distance between a flow's hashes, from which its bits come: odd, and independent of the hash itself (Kirsch and
// Mitzenmacher, "Less hashing, same performance", 2006).
func step(mixed uint64) uint64 { return mixed*0x9e3779b97f4a7c15 | 1 }

// Add notes the flow whose key hashes to h under the flow seed. v (0 to 2^62) is added to Total.
func (r *Row) Add(h uint64, v int64) { r.add(r.family.Uint64(r.seed, h), v) }

func (r *Row) add(mixed uint64, v int64) {
	r.total += uint64(v)
	for i, d := 0, step(mixed); i < Hashes; i, mixed = i+1, mixed+d {
		at := hash.Reduce(mixed, r.bits())
		r.words[at/64] |= 1 << (at % 64)
	}
}

// AddBatch does Add(h[i], v[i]) for each i. v has at least the length of h.
func (r *Row) AddBatch(h []uint64, v []int64) {
	var block [sketch.Block]uint64
	for v = v[:len(h)]; len(h) > 0; {
		n := min(len(h), sketch.Block)
		mixed := block[:n]
		r.family.Uint64s(mixed, r.seed, h[:n])
		for i, m := range mixed {
			r.add(m, v[i])
		}
		h, v = h[n:], v[n:]
	}
}

// Estimate is 1 if the flow may have been there, 0 if it was not.
func (r *Row) Estimate(h uint64) int64 {
	mixed := r.family.Uint64(r.seed, h)
	for i, d := 0, step(mixed); i < Hashes; i, mixed = i+1, mixed+d {
		if at := hash.Reduce(mixed, r.bits()); r.words[at/64]>>(at%64)&1 == 0 {
			return 0
		}
	}
	return 1
}

func (r *Row) bits() uint64 { return uint64(64 * len(r.words)) }

// set is how many bits are set.
func (r *Row) set() (n int) {
	for _, w := range r.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Error is the chance that a flow which was not there is taken for one that was.
func (r *Row) Error(level int) float64 {
	return math.Pow(float64(r.set())/float64(r.bits()), Hashes)
}

// Levels is 1, and Level 0. The bits are no counts: Cells has none.
func (r *Row) Levels() int             { return 1 }
func (r *Row) Level(h uint64) int      { return 0 }
func (r *Row) Width(level int) int     { return int(r.bits()) }
func (r *Row) Cells(level int) []int32 { return nil }
func (r *Row) Bytes() int              { return wordBytes * len(r.words) }
func (r *Row) Seed() uint64            { return r.seed }
func (r *Row) Total() uint64           { return r.total }
func (r *Row) Saturated() uint64       { return 0 }

// Cell is bit i.
func (r *Row) Cell(level, i int) int32 { return int32(r.words[i/64] >> (i % 64) & 1) }

// Holds says whether the bits can be those of additions that sum up to Total: each sets some bit, and at most Hashes.
func (r *Row) Holds() bool {
	set := uint64(r.set())
	return (set > 0) == (r.total > 0) && (r.total > math.MaxUint64/Hashes || set <= Hashes*r.total)
}

// Merge notes what o noted. It refuses a row of another width, seed or family.
func (r *Row) Merge(o *Row) error {
	if len(r.words) != len(o.words) || r.seed != o.seed || r.family != o.family {
		return fmt.Errorf("merge rows of bits: %w", sketch.ErrShape)
	}
	for i, w := range o.words {
		r.words[i] |= w
	}
	r.total += o.total
	return nil
}

// Reset empties the row and gives it a seed.
func (r *Row) Reset(seed uint64) {
	clear(r.words)
	r.total, r.seed = 0, seed
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() *Row {
	c := *r
	c.words = append([]uint64(nil), r.words...)
	return &c
}

// AppendBinary appends the binary form: header, seed(8), total(8), how many words (uvarint), the words (8 each, little-endian). It
// never fails.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	b = sketch.AppendHeader(b, sketch.KindBloomRow)
	b = binary.LittleEndian.AppendUint64(b, r.seed)
	b = binary.LittleEndian.AppendUint64(b, r.total)
	b = binary.AppendUvarint(b, uint64(len(r.words)))
	for _, w := range r.words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b, nil
}

// Decode returns the row of a binary form, of the family xxhash, or says what is wrong.
func Decode(b []byte) (*Row, error) {
	d := sketch.NewReader(b, sketch.KindBloomRow)
	r := &Row{seed: d.Uint64(), total: d.Uint64()}
	words := d.Uvarint()
	if rest := uint64(len(d.Rest())); d.Err() == nil && (words < 1 || words > rest/wordBytes) {
		d.Fail("%d words of bits, with %d bytes behind them", words, rest)
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	r.words = make([]uint64, words)
	for i := range r.words {
		r.words[i] = d.Uint64()
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return r, nil
}
