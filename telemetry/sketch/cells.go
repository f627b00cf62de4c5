package sketch

import (
	"errors"
	"fmt"
	"math"
)

// ErrShape says that two sketches cannot merge: their widths, depths, levels, seeds
// or hash families differ.
var ErrShape = errors.New("shapes, seeds or hash families differ")

// CellBytes is the memory of one cell.
const CellBytes = 4

// MaxWidth bounds the cells of one row (4 GiB of memory).
const MaxWidth = 1 << 30

// Cells are the counters of one row: 4 bytes each, since what a sketch answers
// improves with the number of its cells and an epoch's packets fit in 31 bits.
// A cell of bytes may not fit (2 GiB in one epoch), so a cell saturates at the
// limits of its type instead of wrapping, and each addition that did so is
// counted. A saturated cell stays where it is until the next Reset.
//
// One goroutine may write at a time. The zero value has no cells. Memory: 4 bytes
// for each cell.
type Cells struct {
	c         []int32
	saturated uint64
}

// NewCells returns width cells of zero.
func NewCells(width int) (Cells, error) {
	if width < 1 || width > MaxWidth {
		return Cells{}, fmt.Errorf("a row of %d cells; the range is 1 to %d", width, MaxWidth)
	}
	return Cells{c: make([]int32, width)}, nil
}

// Width returns the number of cells.
func (c *Cells) Width() int { return len(c.c) }

// Values returns the cells themselves, not a copy.
func (c *Cells) Values() []int32 { return c.c }

// Saturated returns how many additions met a limit of their cell.
func (c *Cells) Saturated() uint64 { return c.saturated }

// Add adds v, of magnitude at most 2^62, to cell i.
func (c *Cells) Add(i uint64, v int64) {
	if s, ok := Sum(c.c[i], v); ok {
		c.c[i] = s
		return
	}
	c.saturate(i, v)
}

// Sum returns a cell's x with v added, and whether that is its true value: x is not at
// a limit and the sum not beyond one. It is inlined where Add is not, so loops over
// batches use it, and leave to Add what is not ok; that saves a third of their time.
func Sum(x int32, v int64) (s int32, ok bool) {
	sum := int64(x) + v
	return int32(sum), sum == int64(int32(sum)) && !atLimit(x)
}

// atLimit says that x is MaxInt32 or MinInt32, which are neighbours as unsigned
// numbers.
func atLimit(x int32) bool { return uint32(x)-math.MaxInt32 <= 1 }

// saturate is the part of Add that almost no packet takes.
//
//go:noinline
func (c *Cells) saturate(i uint64, v int64) {
	c.saturated++
	switch {
	case atLimit(c.c[i]):
	case v < 0:
		c.c[i] = math.MinInt32
	default:
		c.c[i] = math.MaxInt32
	}
}

// IsSaturated says that cell i is at a limit, so that its true value is
// unknown.
func (c *Cells) IsSaturated(i uint64) bool { return atLimit(c.c[i]) }

// Merge adds the cells of o, which has the same width. Saturated cells stay
// saturated, in whichever order copies are merged, as long as their
// saturations have one sign.
func (c *Cells) Merge(o *Cells) error {
	if len(c.c) != len(o.c) {
		return fmt.Errorf("%w: %d and %d cells", ErrShape, len(c.c), len(o.c))
	}
	c.saturated += o.saturated
	for i, v := range o.c {
		c.merge(i, v)
	}
	return nil
}

// merge adds v to cell i. A limit absorbs; a sum that only now meets one is
// counted.
func (c *Cells) merge(i int, v int32) {
	switch {
	case atLimit(c.c[i]):
	case atLimit(v):
		c.c[i] = v
	default:
		c.Add(uint64(i), int64(v))
	}
}

// Reset sets all cells, and the count of saturated additions, to zero.
func (c *Cells) Reset() {
	clear(c.c)
	c.saturated = 0
}

// Clone returns a copy that shares nothing.
func (c *Cells) Clone() Cells {
	return Cells{append([]int32(nil), c.c...), c.saturated}
}

// Sum returns the sum of the cells.
func (c *Cells) Sum() int64 {
	var sum int64
	for _, v := range c.c {
		sum += int64(v)
	}
	return sum
}

// SumSquares returns the sum of the cells' squares. It is exact below 2^53.
func (c *Cells) SumSquares() float64 {
	sum := 0.0
	for _, v := range c.c {
		sum += float64(v) * float64(v)
	}
	return sum
}
