package countmin

import (
	"fmt"

	"github.com/weirswitch/weir/telemetry/sketch"
)

// Row is one row of a Count-Min Sketch. Several goroutines may read it; one may
// write it, and none read it then. A copy shares the cells; Clone does not.
//
// Memory: 4 bytes for each cell, beside some 200, and 1.5 KiB where batches are added.
type Row struct{ sketch.Row }

// NewRow returns an empty row of any width from 1 to sketch.MaxWidth. Rows with
// different seeds are independent.
func NewRow(width int, seed uint64) (*Row, error) {
	r, err := sketch.NewRow(width, seed)
	if err != nil {
		return nil, fmt.Errorf("count-min: %w", err)
	}
	return &Row{r}, nil
}

// NewRowBytes returns the widest row whose cells fit in a budget of bytes.
func NewRowBytes(bytes int, seed uint64) (*Row, error) {
	return NewRow(bytes/sketch.CellBytes, seed)
}

// Add adds v (packets, bytes; 0 to 2^62) to the flow whose key hashes to h under
// the flow seed.
func (r *Row) Add(h uint64, v int64) {
	r.Count(r.Column(h), v)
}

// AddBatch does Add(h[i], v[i]) for each i. v has at least the length of h.
func (r *Row) AddBatch(h []uint64, v []int64) {
	v = v[:len(h)]
	for ; len(h) > sketch.Block; h, v = h[sketch.Block:], v[sketch.Block:] {
		r.AddBlock(h[:sketch.Block], v[:sketch.Block], 0)
	}
	r.AddBlock(h, v, 0)
}

// Estimate returns the row's estimate of a flow, which is never too low unless
// its cell is saturated.
func (r *Row) Estimate(h uint64) int64 {
	return int64(r.Cells()[r.Column(h)])
}

// Error returns the estimated mean error of an estimate, the mean of the cells
// (DiSketch's Equation 4): an estimate is too high by t times that with a chance of at
// most 1/t (Markov), of its Equation 1. It reads all cells.
func (r *Row) Error() float64 {
	return float64(r.Sum()) / float64(r.Width())
}

// Merge adds what o counted. It refuses a row of another width, seed or family.
func (r *Row) Merge(o *Row) error {
	if err := r.Row.Merge(&o.Row); err != nil {
		return fmt.Errorf("merge count-min rows: %w", err)
	}
	return nil
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() *Row { return &Row{r.Row.Clone()} }

// AppendBinary appends the binary form: header, seed, cells. It never fails.
func (r *Row) AppendBinary(b []byte) ([]byte, error) { return r.Append(b, sketch.KindCountMinRow) }

// UnmarshalBinary sets the row from its binary form, of the family xxhash (see Use), or
// leaves it alone and says what is wrong.
func (r *Row) UnmarshalBinary(b []byte) error { return r.Decode(b, sketch.KindCountMinRow) }
