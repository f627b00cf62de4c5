// Package conservative is a row of counters of which a flow has two, one in each half of the memory, and which an update
// raises no further than the flow's estimate needs:
//
//	M bytes:  | 32-bit counters, M/2 | 32-bit counters, M/2 |
//
// Conservative update (Estan and Varghese, "New directions in traffic measurement and accounting", SIGCOMM 2002) reads both
// counters before it writes one. SuMax (LightGuardian: Zhao et al., NSDI 2021) is what a pipeline can do that passes each
// counter once: it raises the first, and the second no further than the first. Either estimate, the least of both
// counters, is never too low.
//
// Neither is linear: copies merge by adding their counters, which keeps the estimate from being too low, but makes it higher
// than one row that saw all traffic would have it. Sums of slices do not say when flows send.
package conservative

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// Row is one row. Several goroutines may read it; one may write it, and none read it then. A copy shares
// the counters; Clone does not.
//
// Memory: what NewRowBytes is given.
type Row struct {
	halves  [2][]uint32 // of one length
	total   uint64
	seed    uint64
	family  hash.Family
	onePass bool
}

// LeastBytes is the smallest budget of a row.
const LeastBytes = 2 * sketch.CellBytes

// NewRowBytes returns an empty row in a budget of bytes, of the family xxhash. onePass has it update as SuMax.
func NewRowBytes(bytes int, onePass bool, seed uint64) (*Row, error) {
	if bytes < LeastBytes || bytes > sketch.CellBytes*sketch.MaxWidth {
		return nil, fmt.Errorf("a row of two counters for each flow in %d bytes: the range is %d to %d", bytes, LeastBytes, sketch.CellBytes*sketch.MaxWidth)
	}
	width := bytes / LeastBytes
	return &Row{halves: [2][]uint32{make([]uint32, width), make([]uint32, width)}, seed: seed, onePass: onePass}, nil
}

// OnePass says that the row updates as SuMax.
func (r *Row) OnePass() bool { return r.onePass }

// Use makes the row mix by another hash family: before the first flow is added, and behind decoding.
func (r *Row) Use(f hash.Family) { r.family = f }

// at is where the counters of a flow are, by its hash under the row's seed.
func (r *Row) at(mixed uint64) (first, second *uint32) {
	a, b := r.halves[0], r.halves[1]
	return &a[hash.Reduce(mixed, uint64(len(a)))], &b[hash.Reduce(mixed*0x9e3779b97f4a7c15, uint64(len(b)))]
}

// Add adds v (0 to 2^62) to the flow whose key hashes to h under the flow seed.
func (r *Row) Add(h uint64, v int64) { r.add(r.family.Uint64(r.seed, h), v) }

func (r *Row) add(mixed uint64, v int64) {
	first, second := r.at(mixed)
	r.total += uint64(v)
	if r.onePass {
		least := min(uint64(*first)+uint64(v), math.MaxUint32)
		*first = uint32(least)
		*second = max(*second, uint32(min(uint64(*second)+uint64(v), least)))
		return
	}
	sum := uint32(min(uint64(min(*first, *second))+uint64(v), math.MaxUint32))
	*first, *second = max(*first, sum), max(*second, sum)
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

// Estimate is never below what was added for the flow, unless both of its counters are full.
func (r *Row) Estimate(h uint64) int64 {
	first, second := r.at(r.family.Uint64(r.seed, h))
	return int64(min(*first, *second))
}

// Levels is 1, and Level 0: all flows are estimated by counters of one kind.
func (r *Row) Levels() int         { return 1 }
func (r *Row) Level(h uint64) int  { return 0 }
func (r *Row) Width(level int) int { return len(r.halves[0]) }
func (r *Row) Bytes() int          { return LeastBytes * len(r.halves[0]) }
func (r *Row) Seed() uint64        { return r.seed }
func (r *Row) Total() uint64       { return r.total }
func (r *Row) sum(half int) (s uint64) {
	for _, c := range r.halves[half] {
		s += uint64(c)
	}
	return s
}

// Error bounds the mean error of an estimate: what the counters of a half hold together, over their number, of the
// half that holds less.
func (r *Row) Error(level int) float64 {
	return float64(min(r.sum(0), r.sum(1))) / float64(r.Width(0))
}

// Cells are what estimates of flows that were never added are drawn from, one for each counter of a half: a copy, in which what
// is beyond 31 bits is the largest number.
func (r *Row) Cells(level int) []int32 {
	all := make([]int32, r.Width(0))
	for i := range all {
		all[i] = r.Cell(0, i)
	}
	return all
}

// Cell is one of Cells: the least of two counters that have nothing to do with each other.
func (r *Row) Cell(level, i int) int32 {
	return int32(min(r.halves[0][i], r.halves[1][i], math.MaxInt32))
}

// Saturated is how many counters are full.
func (r *Row) Saturated() (n uint64) {
	for _, half := range r.halves {
		for _, c := range half {
			if c == math.MaxUint32 {
				n++
			}
		}
	}
	return n
}

// Holds says whether the counters can be what is left of additions that sum up to Total: an update raises no counter
// further than what it adds.
func (r *Row) Holds() bool {
	a, b := r.sum(0), r.sum(1)
	return a <= r.total && b <= r.total && (a > 0) == (r.total > 0) && (b > 0) == (r.total > 0)
}

// Merge adds what o counted. It refuses a row of another width, seed, family or update.
func (r *Row) Merge(o *Row) error {
	if r.Width(0) != o.Width(0) || r.seed != o.seed || r.family != o.family || r.onePass != o.onePass {
		return fmt.Errorf("merge conservative rows: %w", sketch.ErrShape)
	}
	for half, counters := range o.halves {
		for i, c := range counters {
			mine := &r.halves[half][i]
			*mine = uint32(min(uint64(*mine)+uint64(c), math.MaxUint32))
		}
	}
	r.total += o.total
	return nil
}

// Reset empties the row and gives it a seed.
func (r *Row) Reset(seed uint64) {
	clear(r.halves[0])
	clear(r.halves[1])
	r.total, r.seed = 0, seed
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() *Row {
	c := *r
	for i, half := range r.halves {
		c.halves[i] = append([]uint32(nil), half...)
	}
	return &c
}

// kind is that of the binary form.
func (r *Row) kind() sketch.Kind {
	if r.onePass {
		return sketch.KindSuMaxRow
	}
	return sketch.KindConservativeRow
}

// AppendBinary appends the binary form: header, seed(8), total(8), the counters of a half (uvarint), and those of both as
// uvarints. It never fails.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	b = sketch.AppendHeader(b, r.kind())
	b = binary.LittleEndian.AppendUint64(b, r.seed)
	b = binary.LittleEndian.AppendUint64(b, r.total)
	b = binary.AppendUvarint(b, uint64(r.Width(0)))
	for _, half := range r.halves {
		for _, c := range half {
			b = binary.AppendUvarint(b, uint64(c))
		}
	}
	return b, nil
}

// Decode returns the row of a binary form, of the family xxhash, or says what is wrong. onePass is which of the two kinds
// it has to be of.
func Decode(b []byte, onePass bool) (*Row, error) {
	r := &Row{onePass: onePass}
	d := sketch.NewReader(b, r.kind())
	r.seed, r.total = d.Uint64(), d.Uint64()
	width := d.Uvarint()
	if rest := uint64(len(d.Rest())); d.Err() == nil && (width < 1 || width > rest/2) {
		d.Fail("two halves of %d counters, with %d bytes behind them", width, rest)
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	for half := range r.halves {
		r.halves[half] = make([]uint32, width)
		for i := range r.halves[half] {
			c := d.Uvarint()
			if c > math.MaxUint32 {
				d.Fail("a counter of %d", c)
			}
			r.halves[half][i] = uint32(c)
		}
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	return r, nil
}
