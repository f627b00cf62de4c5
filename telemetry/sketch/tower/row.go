// Package tower is a row of counters of growing width, which counts flows by conservative update.
//
//	M bytes:  | 8-bit counters, 3/4 M | 32-bit counters, 1/4 M |
//
// Most flows of an epoch are small: a counter of a byte holds them, and there are four times as many in the
// same memory (TowerSketch: Yang et al., "SketchINT", ICNP 2021). A flow has one counter of each width, and its
// estimate is the least of those that are not full. An update raises a counter no further than the estimate needs
// (Estan and Varghese, 2002; SuMax of LightGuardian, Zhao et al., NSDI 2021, does so from row to row). The
// estimate is never too low.
//
// Conservative update is not linear: copies merge by adding their counters, which keeps the estimate from being too
// low, but makes it higher than one row that saw all traffic would have it. Sums of slices do not say when flows send.
package tower

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// full is what a byte holds at most: it means this much or more.
const full = math.MaxUint8

// Row is one row. Several goroutines may read it; one may write it, and none read it then. A copy shares
// the counters; Clone does not.
//
// Memory: what NewRowBytes is given.
type Row struct {
	bytes  []uint8
	words  []uint32
	total  uint64
	seed   uint64
	family hash.Family
}

// LeastBytes is the smallest budget of a row.
const LeastBytes = 16

// NewRowBytes returns an empty row in a budget of bytes, of the family xxhash.
func NewRowBytes(bytes int, seed uint64) (*Row, error) {
	words := bytes / LeastBytes
	if words < 1 || bytes > sketch.MaxWidth {
		return nil, fmt.Errorf("tower: %d bytes: the range is %d to %d", bytes, LeastBytes, sketch.MaxWidth)
	}
	return &Row{bytes: make([]uint8, bytes-4*words), words: make([]uint32, words), seed: seed}, nil
}

// Use makes the row mix by another hash family: before the first flow is added, and behind decoding.
func (r *Row) Use(f hash.Family) { r.family = f }

// at is where the counters of a flow are, by its hash under the row's seed: the word by the bits below those
// that choose the byte.
func (r *Row) at(mixed uint64) (b, w uint64) {
	return hash.Reduce(mixed, uint64(len(r.bytes))), hash.Reduce(mixed*0x9e3779b97f4a7c15, uint64(len(r.words)))
}

// Add adds v (0 to 2^62) to the flow whose key hashes to h under the flow seed.
func (r *Row) Add(h uint64, v int64) { r.add(r.family.Uint64(r.seed, h), v) }

func (r *Row) add(mixed uint64, v int64) {
	b, w := r.at(mixed)
	low, high := &r.bytes[b], &r.words[w]
	sum := uint64(*high)
	if *low < full {
		sum = min(sum, uint64(*low))
	}
	sum += uint64(v)
	*low = uint8(max(uint64(*low), min(sum, full)))
	*high = uint32(max(uint64(*high), min(sum, math.MaxUint32)))
	r.total += uint64(v)
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

// Estimate is never below what was added for the flow, unless its word is full.
func (r *Row) Estimate(h uint64) int64 {
	b, w := r.at(r.family.Uint64(r.seed, h))
	sum := int64(r.words[w])
	if low := r.bytes[b]; low < full {
		sum = min(sum, int64(low))
	}
	return sum
}

// Level says by which counters a flow is estimated: 0, of bytes, or 1, of words.
func (r *Row) Level(h uint64) int {
	if b, _ := r.at(r.family.Uint64(r.seed, h)); r.bytes[b] < full {
		return 0
	}
	return 1
}

// Error bounds the mean error of an estimate by counters of a level: all that was added, over their number.
func (r *Row) Error(level int) float64 { return float64(r.total) / float64(r.Width(level)) }

// Width is the number of counters of a level.
func (r *Row) Width(level int) int {
	if level == 0 {
		return len(r.bytes)
	}
	return len(r.words)
}

// Cells are the counters of a level: a copy, in which what is beyond 31 bits is the largest number.
func (r *Row) Cells(level int) []int32 {
	all := make([]int32, r.Width(level))
	for i := range all {
		all[i] = r.Cell(level, i)
	}
	return all
}

// Cell is one of Cells.
func (r *Row) Cell(level, i int) int32 {
	if level == 0 {
		return int32(r.bytes[i])
	}
	return int32(min(r.words[i], math.MaxInt32))
}

// Total is the sum of all that was added.
func (r *Row) Total() uint64 { return r.total }

// Saturated is how many words are full.
func (r *Row) Saturated() (n uint64) {
	for _, w := range r.words {
		if w == math.MaxUint32 {
			n++
		}
	}
	return n
}

// Holds says whether the counters can be what is left of additions that sum up to Total: conservative
// update raises no more of them than each addition has.
func (r *Row) Holds() bool {
	words, least := uint64(0), uint64(0)
	for _, w := range r.words {
		words += uint64(w)
	}
	for _, b := range r.bytes {
		least += uint64(b)
	}
	return words <= r.total && least <= r.total && (words > 0) == (r.total > 0)
}

// Merge adds what o counted. It refuses a row of another width, seed or family.
func (r *Row) Merge(o *Row) error {
	if len(r.bytes) != len(o.bytes) || len(r.words) != len(o.words) || r.seed != o.seed || r.family != o.family {
		return fmt.Errorf("merge tower rows: %w", sketch.ErrShape)
	}
	for i, b := range o.bytes {
		r.bytes[i] = uint8(min(uint64(r.bytes[i])+uint64(b), full))
	}
	for i, w := range o.words {
		r.words[i] = uint32(min(uint64(r.words[i])+uint64(w), math.MaxUint32))
	}
	r.total += o.total
	return nil
}

// Reset empties the row and gives it a seed.
func (r *Row) Reset(seed uint64) {
	clear(r.bytes)
	clear(r.words)
	r.total, r.seed = 0, seed
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() *Row {
	c := *r
	c.bytes, c.words = append([]uint8(nil), r.bytes...), append([]uint32(nil), r.words...)
	return &c
}

// Bytes is the memory of the counters.
func (r *Row) Bytes() int { return len(r.bytes) + 4*len(r.words) }

// Seed returns the row's seed.
func (r *Row) Seed() uint64 { return r.seed }

// AppendBinary appends the binary form: header, seed(8), total(8), how many bytes and words (uvarints), the bytes, and the
// words as uvarints. It never fails.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	b = sketch.AppendHeader(b, sketch.KindTowerRow)
	b = binary.LittleEndian.AppendUint64(b, r.seed)
	b = binary.LittleEndian.AppendUint64(b, r.total)
	b = binary.AppendUvarint(b, uint64(len(r.bytes)))
	b = binary.AppendUvarint(b, uint64(len(r.words)))
	b = append(b, r.bytes...)
	for _, w := range r.words {
		b = binary.AppendUvarint(b, uint64(w))
	}
	return b, nil
}

// Levels is 2: of bytes and of words.
func (r *Row) Levels() int { return 2 }

// UnmarshalBinary sets the row from its binary form, of the family xxhash, or leaves it alone and says what is
// wrong.
func (r *Row) UnmarshalBinary(b []byte) error {
	d := sketch.NewReader(b, sketch.KindTowerRow)
	n := Row{seed: d.Uint64(), total: d.Uint64()}
	bytes, words := d.Uvarint(), d.Uvarint()
	if rest := uint64(len(d.Rest())); d.Err() == nil && (words < 1 || bytes < 1 || bytes > rest || words > rest-bytes) {
		d.Fail("%d bytes and %d words, with %d bytes behind them", bytes, words, rest)
	}
	if d.Err() != nil {
		return d.Err()
	}
	n.bytes, n.words = make([]uint8, bytes), make([]uint32, words)
	for i := range n.bytes {
		n.bytes[i] = d.Byte()
	}
	for i := range n.words {
		w := d.Uvarint()
		if w > math.MaxUint32 {
			d.Fail("a word of %d", w)
		}
		n.words[i] = uint32(w)
	}
	if err := d.Close(); err != nil {
		return err
	}
	*r = n
	return nil
}
