package countmin

import (
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/sketch"
)

// Sketch is a Count-Min Sketch of several rows of one width. Several goroutines may
// read it; one may write it, and none read it then. A copy shares the cells; Clone does
// not.
//
// Memory: 4 * depth * width bytes, beside some 50 for each row.
type Sketch struct{ sketch.Stack[Row, *Row] }

// New returns an empty sketch whose estimates are too high by more than epsilon
// times the sum of all values with a chance of at most delta: ln(1/delta) rows of
// e/epsilon cells.
func New(epsilon, delta float64, seed uint64) (*Sketch, error) {
	if err := sketch.CheckTargets(epsilon, delta); err != nil {
		return nil, fmt.Errorf("count-min: %w", err)
	}
	width := math.Ceil(math.E / epsilon)
	if width > sketch.MaxWidth {
		return nil, fmt.Errorf("count-min: an error of %v takes rows of %.3g cells; the largest has %d", epsilon, width, sketch.MaxWidth)
	}
	return NewSize(int(math.Ceil(-math.Log(delta))), int(width), seed)
}

// NewSize returns an empty sketch of depth rows, 1 to sketch.MaxDepth, of one
// width.
func NewSize(depth, width int, seed uint64) (*Sketch, error) {
	s, err := sketch.NewStack[Row](depth, width, seed)
	if err != nil {
		return nil, fmt.Errorf("count-min: %w", err)
	}
	return &Sketch{s}, nil
}

// NewBytes returns the widest sketch of depth rows whose cells fit in a budget of
// bytes.
func NewBytes(depth, bytes int, seed uint64) (*Sketch, error) {
	return NewSize(depth, bytes/max(depth, 1)/sketch.CellBytes, seed)
}

// Add adds v (packets, bytes; 0 to 2^62) to the flow whose key
// hashes to h under the flow seed.
func (s *Sketch) Add(h uint64, v int64) {
	for i := range s.Rows() {
		s.Row(i).Add(h, v)
	}
}

// AddBatch does Add(h[i], v[i]) for each i, one row after the other. v has at
// least the length of h.
func (s *Sketch) AddBatch(h []uint64, v []int64) {
	for i := range s.Rows() {
		s.Row(i).AddBatch(h, v)
	}
}

// Estimate returns the minimum of the rows' estimates of a flow.
func (s *Sketch) Estimate(h uint64) float64 {
	low := int64(math.MaxInt64)
	for i := range s.Rows() {
		low = min(low, s.Row(i).Estimate(h))
	}
	return float64(low)
}

// Bound returns by how much an estimate is too high at most, with the stated
// confidence (above 0, below 1). It reads all cells, and is the same for all flows but
// saturated ones.
//
// A row's estimate is too high by t times its mean error with a chance of at most 1/t
// (Markov), and the minimum only if that of each row is: 1/t^depth.
func (s *Sketch) Bound(confidence float64) float64 {
	return s.Row(0).Error() * math.Pow(1-confidence, -1/float64(s.Depth()))
}

// Total returns the sum of all values added, exact unless Saturated is above zero.
func (s *Sketch) Total() int64 { return s.Row(0).Total() }

// Estimator answers for many flows with one bound.
type Estimator struct {
	s     *Sketch
	bound float64
}

// Estimator computes the bound of the stated confidence once. It is valid until
// the sketch changes.
func (s *Sketch) Estimator(confidence float64) Estimator {
	return Estimator{s, s.Bound(confidence)}
}

// Estimate returns the estimate of a flow, and by how much it is too high at
// most. If all cells of the flow are saturated, the estimate may be too low, and
// the bound is infinite.
func (e Estimator) Estimate(h uint64) (value, bound float64) {
	value = e.s.Estimate(h)
	if value == math.MaxInt32 {
		return value, math.Inf(1)
	}
	return value, e.bound
}

// Merge adds what o counted. It refuses a sketch of another shape, seed or family.
func (s *Sketch) Merge(o *Sketch) error {
	if err := s.Stack.Merge(&o.Stack); err != nil {
		return fmt.Errorf("merge count-min sketches: %w", err)
	}
	return nil
}

// Clone returns a copy that shares nothing.
func (s *Sketch) Clone() *Sketch { return &Sketch{s.Stack.Clone()} }

// AppendBinary appends the binary form: header, depth(1), seed(8), the cells of
// each row. It never fails.
func (s *Sketch) AppendBinary(b []byte) ([]byte, error) { return s.Append(b, sketch.KindCountMin) }

// UnmarshalBinary sets the sketch from its binary form, of the family xxhash (see Use),
// or leaves it alone and says what is wrong.
func (s *Sketch) UnmarshalBinary(b []byte) error { return s.Decode(b, sketch.KindCountMin) }
