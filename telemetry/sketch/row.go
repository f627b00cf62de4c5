package sketch

import (
	"encoding/binary"
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Row is what the rows of Count-Min and Count Sketch have in common: cells, and the
// member of a hash family, by its seed, under which flows are mixed. What is added to a cell, and
// read from it, is theirs. Several goroutines may read it; one may write it, and none read it then. A copy shares
// the cells; Clone does not.
type Row struct {
	cells  Cells
	seed   uint64
	family hash.Family
	member hash.Member // of seed and family since the last AddBlock
	block  *block      // since the first one
}

// NewRow returns an empty row of any width from 1 to MaxWidth, of the family
// xxhash.
func NewRow(width int, seed uint64) (Row, error) {
	c, err := NewCells(width)
	return Row{cells: c, seed: seed}, err
}

// Use makes the row mix by another hash family: before the first flow is added, and
// behind decoding, as the binary form does not name the family.
func (r *Row) Use(f hash.Family) { r.family = f }

// Family returns the hash family by which the row mixes.
func (r *Row) Family() hash.Family { return r.family }

// Mix is the hash of a flow, whose key hashes to h under the flow seed: its column comes from
// the high bits.
func (r *Row) Mix(h uint64) uint64 { return r.family.Uint64(r.seed, h) }

// Block is how many flows are mixed at once: side by side they cost a fraction.
const Block = 64

// Column returns the cell of a flow whose key hashes to h under the flow seed.
func (r *Row) Column(h uint64) uint64 {
	return hash.Reduce(r.Mix(h), uint64(r.cells.Width()))
}

// Count adds v, of magnitude at most 2^62, to a cell.
func (r *Row) Count(column uint64, v int64) { r.cells.Add(column, v) }

// IsSaturated says that the cell of a flow met its limit, so that its estimate
// has no bound.
func (r *Row) IsSaturated(h uint64) bool { return r.cells.IsSaturated(r.Column(h)) }

// Sum returns the sum of all cells, and SumSquares that of their squares.
func (r *Row) Sum() int64          { return r.cells.Sum() }
func (r *Row) SumSquares() float64 { return r.cells.SumSquares() }

// Merge adds what o counted. It refuses a row of another width, seed or family.
func (r *Row) Merge(o *Row) error {
	if r.seed != o.seed || r.family != o.family {
		return fmt.Errorf("%w: seeds %#x of %v and %#x of %v", ErrShape, r.seed, r.family, o.seed, o.family)
	}
	return r.cells.Merge(&o.cells)
}

// Reset empties the row and gives it a seed, the same one or another.
func (r *Row) Reset(seed uint64) {
	r.cells.Reset()
	r.seed = seed
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() Row { return Row{cells: r.cells.Clone(), seed: r.seed, family: r.family} }

// Width returns the number of cells.
func (r *Row) Width() int { return r.cells.Width() }

// Bytes returns the memory of the cells.
func (r *Row) Bytes() int { return r.cells.Width() * CellBytes }

// Seed returns the row's seed.
func (r *Row) Seed() uint64 { return r.seed }

// Cells returns the cells themselves, not a copy.
func (r *Row) Cells() []int32 { return r.cells.Values() }

// Saturated returns how many additions met the limit of their cell.
func (r *Row) Saturated() uint64 { return r.cells.Saturated() }

// Append appends the binary form of a row of a kind: header, seed, cells.
func (r *Row) Append(b []byte, kind Kind) ([]byte, error) {
	return r.cells.AppendBinary(binary.LittleEndian.AppendUint64(AppendHeader(b, kind), r.seed))
}

// Decode sets the row from the binary form of a kind, of the family xxhash, or leaves
// it alone and says what is wrong.
func (r *Row) Decode(b []byte, kind Kind) error {
	d := NewReader(b, kind)
	n := Row{seed: d.Uint64()}
	n.cells = d.Cells()
	if err := d.Close(); err != nil {
		return err
	}
	*r = n
	return nil
}
