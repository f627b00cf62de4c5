package univmon

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// Levels is the usual number of levels, about the binary logarithm of the number
// of flows.
const Levels = 16

// MaxLevels bounds the number of levels.
const MaxLevels = 32

// Level is LevelOf with the family xxhash.
func Level(levels int, levelSeed, h uint64) int { return LevelOf(hash.XX, levels, levelSeed, h) }

// LevelOf returns the level of a flow, 0 to levels-1, by the number of trailing zeros of
// its own hash. A fragment that shares the family, levels and levelSeed agrees on it.
func LevelOf(f hash.Family, levels int, levelSeed, h uint64) int {
	return bits.TrailingZeros64(f.Uint64(levelSeed, h) | 1<<(levels-1))
}

// Fragment is one Count Sketch row per level, of one width. The levels share the
// hash of column and sign, since no flow is in two of them. Several goroutines
// may read a fragment; one may write it, and none read it then.
//
// Memory: 4 bytes for each of levels * width cells, beside some 100.
type Fragment struct {
	cells     sketch.Cells // That of column c of level l is l*width + c.
	width     uint64
	top       uint64 // 1 << (levels-1)
	levelSeed uint64
	seed      uint64
	total     int64
	family    hash.Family
}

// NewFragment returns an empty fragment of 1 to MaxLevels levels, each a row of
// the width, of the family xxhash. Fragments whose answers will be joined have one levelSeed and
// different seeds.
func NewFragment(levels, width int, levelSeed, seed uint64) (*Fragment, error) {
	if levels < 1 || levels > MaxLevels {
		return nil, fmt.Errorf("univmon: %d levels; the range is 1 to %d", levels, MaxLevels)
	}
	if width < 1 || width > sketch.MaxWidth/levels {
		return nil, fmt.Errorf("univmon: rows of %d cells; the range is 1 to %d", width, sketch.MaxWidth/levels)
	}
	c, err := sketch.NewCells(levels * width)
	if err != nil {
		return nil, fmt.Errorf("univmon: %w", err)
	}
	return &Fragment{cells: c, width: uint64(width), top: 1 << (levels - 1), levelSeed: levelSeed, seed: seed}, nil
}

// NewFragmentBytes returns the widest fragment whose cells fit in a budget of
// bytes.
func NewFragmentBytes(levels, bytes int, levelSeed, seed uint64) (*Fragment, error) {
	return NewFragment(levels, bytes/max(levels, 1)/sketch.CellBytes, levelSeed, seed)
}

// Use makes the fragment mix by another hash family: before the first flow is added,
// and behind decoding, as the binary form does not name the family.
func (f *Fragment) Use(family hash.Family) { f.family = family }

// Family returns the hash family by which the fragment mixes.
func (f *Fragment) Family() hash.Family { return f.family }

// Level returns the level of a flow, 0 to Levels()-1.
func (f *Fragment) Level(h uint64) int {
	return bits.TrailingZeros64(f.family.Uint64(f.levelSeed, h) | f.top)
}

// Add adds v (packets, bytes; of magnitude at most 2^62) to the flow whose key
// hashes to h under the flow seed.
func (f *Fragment) Add(h uint64, v int64) {
	f.addLevel(f.Level(h), h, v)
}

// addLevel is Add for who knows the flow's level already.
func (f *Fragment) addLevel(level int, h uint64, v int64) {
	m := f.family.Uint64(f.seed, h)
	s := -int64(m & 1)
	f.total += v
	f.cells.Add(uint64(level)*f.width+hash.Reduce(m, f.width), (v^s)-s)
}

// AddBatch does Add(h[i], v[i]) for each i. v has at least the length of h.
func (f *Fragment) AddBatch(h []uint64, v []int64) {
	v = v[:len(h)]
	for ; len(h) > sketch.Block; h, v = h[sketch.Block:], v[sketch.Block:] {
		f.addBlock(h[:sketch.Block], v[:sketch.Block])
	}
	f.addBlock(h, v)
}

// addBlock is AddBatch of a block at most.
func (f *Fragment) addBlock(h []uint64, v []int64) {
	var levels, columns [sketch.Block]uint64
	levelled, mixed := levels[:len(h)], columns[:len(h)]
	f.family.Uint64s(levelled, f.levelSeed, h)
	f.family.Uint64s(mixed, f.seed, h)
	v = v[:len(h)] // BCE
	cells, width, total := f.cells.Values(), f.width, int64(0)
	for i, m := range mixed {
		level := uint64(bits.TrailingZeros64(levelled[i] | f.top))
		s := -int64(m & 1)
		d := (v[i] ^ s) - s
		c := level*width + hash.Reduce(m, width)
		total += v[i]
		if sum, ok := sketch.Sum(cells[c], d); ok {
			cells[c] = sum
		} else {
			f.cells.Add(c, d)
		}
	}
	f.total += total
}

// place returns the cell of a flow, and 0 or -1 for its sign.
func (f *Fragment) place(h uint64) (cell uint64, sign int64) {
	m := f.family.Uint64(f.seed, h)
	return uint64(f.Level(h))*f.width + hash.Reduce(m, f.width), -int64(m & 1)
}

// Estimate returns the fragment's estimate of a flow: unbiased, with a variance
// of at most Error of its level, squared.
func (f *Fragment) Estimate(h uint64) int64 {
	cell, s := f.place(h)
	return (int64(f.cells.Values()[cell]) ^ s) - s
}

// IsSaturated says that the cell of a flow met its limit, so that its estimate
// has no bound.
func (f *Fragment) IsSaturated(h uint64) bool {
	cell, _ := f.place(h)
	return f.cells.IsSaturated(cell)
}

// Row returns the cells of a level, not a copy.
func (f *Fragment) Row(level int) []int32 {
	w := int(f.width)
	return f.cells.Values()[level*w : (level+1)*w : (level+1)*w]
}

// Error returns the estimated standard error of an estimate for a flow of the
// level: the square root of the mean of the level's squared cells (DiSketch's
// Equation 4).
func (f *Fragment) Error(level int) float64 {
	return math.Sqrt(sumSquares(f.Row(level)) / float64(f.width))
}

func sumSquares(row []int32) float64 {
	sum := 0.0
	for _, c := range row {
		sum += float64(c) * float64(c)
	}
	return sum
}

// SecondMoment estimates F2, the sum of the squares of all flows' values. Its
// relative standard error is at most sqrt(2/width): the levels' moments add up.
func (f *Fragment) SecondMoment() float64 { return f.cells.SumSquares() }

// Total returns the sum of all values added. It is exact.
func (f *Fragment) Total() int64 { return f.total }

// SetTotal is for cells that were written as Row gives them: it sets the sum of what was added to them.
func (f *Fragment) SetTotal(total int64) { f.total = total }

// Levels returns the number of levels.
func (f *Fragment) Levels() int { return bits.Len64(f.top) }

// Width returns the number of cells of a level.
func (f *Fragment) Width() int { return int(f.width) }

// Bytes returns the memory of the cells.
func (f *Fragment) Bytes() int { return f.cells.Width() * sketch.CellBytes }

// Seed returns the seed of columns and signs.
func (f *Fragment) Seed() uint64 { return f.seed }

// LevelSeed returns the seed of levels.
func (f *Fragment) LevelSeed() uint64 { return f.levelSeed }

// Saturated returns how many additions met the limit of their cell.
func (f *Fragment) Saturated() uint64 { return f.cells.Saturated() }

// Merge adds what o counted. It refuses a fragment of another shape, seed or family.
func (f *Fragment) Merge(o *Fragment) error {
	switch {
	case f.width != o.width || f.top != o.top:
		return fmt.Errorf("merge univmon fragments: %w: %d and %d levels of %d and %d cells",
			sketch.ErrShape, f.Levels(), o.Levels(), f.width, o.width)
	case f.seed != o.seed || f.levelSeed != o.levelSeed || f.family != o.family:
		return fmt.Errorf("merge univmon fragments: %w: seeds %#x of %v and %#x of %v, of levels %#x and %#x",
			sketch.ErrShape, f.seed, f.family, o.seed, o.family, f.levelSeed, o.levelSeed)
	}
	f.total += o.total
	return f.cells.Merge(&o.cells)
}

// Reset empties the fragment and gives it a seed for columns and signs, the same one or
// another. The seed of levels stays.
func (f *Fragment) Reset(seed uint64) {
	f.cells.Reset()
	f.seed, f.total = seed, 0
}

// Clone returns a copy that shares nothing.
func (f *Fragment) Clone() *Fragment {
	c := *f
	c.cells = f.cells.Clone()
	return &c
}

// AppendBinary appends the binary form. It never fails.
//
//	header, levels(1) level seed(8) seed(8) total(8), cells of all levels
func (f *Fragment) AppendBinary(b []byte) ([]byte, error) {
	return f.cells.AppendBinary(f.AppendHeader(b))
}

// AppendHeader appends what is before the cells.
func (f *Fragment) AppendHeader(b []byte) []byte {
	b = append(sketch.AppendHeader(b, sketch.KindUnivMonFragment), byte(f.Levels()))
	b = binary.LittleEndian.AppendUint64(b, f.levelSeed)
	b = binary.LittleEndian.AppendUint64(b, f.seed)
	return binary.LittleEndian.AppendUint64(b, uint64(f.total))
}

// UnmarshalBinary sets the fragment from its binary form, of the family xxhash (see Use),
// or leaves it alone and says what is wrong.
func (f *Fragment) UnmarshalBinary(b []byte) error {
	d := sketch.NewReader(b, sketch.KindUnivMonFragment)
	levels := int(d.Byte())
	n := Fragment{levelSeed: d.Uint64(), seed: d.Uint64(), total: int64(d.Uint64()), cells: d.Cells()}
	if d.Err() == nil && (levels < 1 || levels > MaxLevels || n.cells.Width()%levels != 0) {
		d.Fail("%d cells of %d levels", n.cells.Width(), levels)
	}
	if err := d.Close(); err != nil {
		return err
	}
	n.width, n.top = uint64(n.cells.Width()/levels), 1<<(levels-1)
	*f = n
	return nil
}
