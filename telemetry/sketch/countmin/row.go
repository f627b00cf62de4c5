package countmin

import (
	"encoding/binary"
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// Row is one row of a Count-Min Sketch. Several goroutines may read it; one may
// write it, and none read it then. A copy shares the cells; Clone does not.
//
// Memory: 4 bytes for each cell, beside some 50.
type Row struct {
	cells sketch.Cells
	seed  uint64
}

// NewRow returns an empty row of any width from 1 to sketch.MaxWidth. Rows with
// different seeds are independent.
func NewRow(width int, seed uint64) (*Row, error) {
	c, err := sketch.NewCells(width)
	if err != nil {
		return nil, fmt.Errorf("count-min: %w", err)
	}
	return &Row{cells: c, seed: seed}, nil
}

// NewRowBytes returns the widest row whose cells fit in a budget of bytes.
func NewRowBytes(bytes int, seed uint64) (*Row, error) {
	return NewRow(bytes/sketch.CellBytes, seed)
}

// Add adds v (packets, bytes; 0 to 2^62) to the flow whose key hashes to h under
// the flow seed.
func (r *Row) Add(h uint64, v int64) {
	r.cells.Add(hash.Reduce(hash.Uint64(r.seed, h), uint64(r.cells.Width())), v)
}

// AddBatch does Add(h[i], v[i]) for each i. v has at least the length of h.
func (r *Row) AddBatch(h []uint64, v []int64) {
	v = v[:len(h)] // BCE
	cells, seed := r.cells.Values(), r.seed
	for i, x := range h {
		c := hash.Reduce(hash.Uint64(seed, x), uint64(len(cells)))
		if sum, ok := sketch.Sum(cells[c], v[i]); ok {
			cells[c] = sum
		} else {
			r.cells.Add(c, v[i])
		}
	}
}

// Estimate returns the row's estimate of a flow, which is never too low unless
// its cell is saturated.
func (r *Row) Estimate(h uint64) int64 {
	return int64(r.cells.Values()[hash.Reduce(hash.Uint64(r.seed, h), uint64(r.cells.Width()))])
}

// Error returns the estimated mean error of an estimate, the mean of the cells
// (DiSketch's Equation 4). It reads all cells.
func (r *Row) Error() float64 {
	return float64(r.cells.Sum()) / float64(r.cells.Width())
}

// Bound returns by how much an estimate of this row alone is too high at most, with
// the stated confidence (above 0, below 1), by Markov's inequality. With a confidence of 3/4
// it is DiSketch's Equation 1. It reads all cells, and is the same for all flows
// but those for which IsSaturated holds.
func (r *Row) Bound(confidence float64) float64 {
	return r.Error() / (1 - confidence)
}

// IsSaturated says that the cell of a flow met its limit, so that its estimate
// may be too low.
func (r *Row) IsSaturated(h uint64) bool {
	return r.cells.IsSaturated(hash.Reduce(hash.Uint64(r.seed, h), uint64(r.cells.Width())))
}

// Total returns the sum of all values added, exact unless Saturated is above zero.
func (r *Row) Total() int64 { return r.cells.Sum() }

// Merge adds what o counted. It refuses a row of another width or seed.
func (r *Row) Merge(o *Row) error {
	if r.seed != o.seed {
		return fmt.Errorf("merge count-min rows: %w: seeds %#x and %#x", sketch.ErrShape, r.seed, o.seed)
	}
	if err := r.cells.Merge(&o.cells); err != nil {
		return fmt.Errorf("merge count-min rows: %w", err)
	}
	return nil
}

// Reset empties the row and gives it a seed, the same one or another.
func (r *Row) Reset(seed uint64) {
	r.cells.Reset()
	r.seed = seed
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() *Row { return &Row{r.cells.Clone(), r.seed} }

// Width returns the number of cells.
func (r *Row) Width() int { return r.cells.Width() }

// Bytes returns the memory of the cells.
func (r *Row) Bytes() int { return r.cells.Width() * sketch.CellBytes }

// Seed returns the row's seed.
func (r *Row) Seed() uint64 { return r.seed }

// Cells returns the cells themselves, not a copy.
func (r *Row) Cells() []int32 { return r.cells.Values() }

// Saturated returns how many additions met the limit of their cell.
func (r *Row) Saturated() uint64 { return r.cells.Saturated() }

// AppendBinary appends the binary form: header, seed, cells. It never fails.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	b = sketch.AppendHeader(b, sketch.KindCountMinRow)
	return r.cells.AppendBinary(binary.LittleEndian.AppendUint64(b, r.seed))
}

// UnmarshalBinary sets the row from its binary form, or leaves it alone and says
// what is wrong.
func (r *Row) UnmarshalBinary(b []byte) error {
	d := sketch.NewReader(b, sketch.KindCountMinRow)
	n := Row{seed: d.Uint64()}
	n.cells = d.Cells()
	if err := d.Close(); err != nil {
		return err
	}
	*r = n
	return nil
}
