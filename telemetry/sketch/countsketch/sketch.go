package countsketch

import (
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/sketch"
)

// Sketch is a Count Sketch of several rows of one width. Several goroutines may
// read it; one may write it, and none read it then. A copy shares the cells; Clone does
// not.
//
// Memory: 4 * depth * width bytes, beside some 50 for each row.
type Sketch struct{ sketch.Stack[Row, *Row] }

// New returns an empty sketch whose estimates err by more than epsilon times the
// square root of F2 with a chance of at most delta: 4/epsilon^2 cells in each of the
// rows that MedianDepth states.
func New(epsilon, delta float64, seed uint64) (*Sketch, error) {
	if err := sketch.CheckTargets(epsilon, delta); err != nil {
		return nil, fmt.Errorf("count sketch: %w", err)
	}
	width := math.Ceil(4 / epsilon / epsilon)
	if width > sketch.MaxWidth {
		return nil, fmt.Errorf("count sketch: an error of %v takes rows of %.3g cells; the largest has %d", epsilon, width, sketch.MaxWidth)
	}
	return NewSize(sketch.MedianDepth(delta), int(width), seed)
}

// NewSize returns an empty sketch of depth rows, 1 to sketch.MaxDepth, of one width.
// An odd depth uses its rows best.
func NewSize(depth, width int, seed uint64) (*Sketch, error) {
	s, err := sketch.NewStack[Row](depth, width, seed)
	if err != nil {
		return nil, fmt.Errorf("count sketch: %w", err)
	}
	return &Sketch{s}, nil
}

// NewBytes returns the widest sketch of depth rows whose cells fit in a budget of
// bytes.
func NewBytes(depth, bytes int, seed uint64) (*Sketch, error) {
	return NewSize(depth, bytes/max(depth, 1)/sketch.CellBytes, seed)
}

// Add adds v (packets, bytes; of at most 2^62 either way) to the flow whose key
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

// Estimate returns the median of the rows' estimates of a flow.
func (s *Sketch) Estimate(h uint64) float64 {
	var v [sketch.MaxDepth]float64
	for i := range s.Rows() {
		v[i] = float64(s.Row(i).Estimate(h))
	}
	return sketch.Median(v[:s.Depth()])
}

// Bound returns what an estimate errs by at most, with the stated confidence
// (above 0, below 1). It reads all cells, and is the same for all flows but saturated ones.
// F2 is itself estimated, within some sqrt(2/width) of itself.
func (s *Sketch) Bound(confidence float64) float64 {
	f2, _ := s.SecondMoment(0.5)
	return math.Sqrt(f2/float64(s.Width())) * sketch.MedianFactor(s.Depth(), confidence)
}

// SecondMoment estimates F2, the sum of the squares of all flows' values, and
// what it errs by at most with the stated confidence. It reads all cells.
func (s *Sketch) SecondMoment(confidence float64) (f2, bound float64) {
	var v [sketch.MaxDepth]float64
	for i := range s.Rows() {
		v[i] = s.Row(i).SecondMoment()
	}
	f2 = sketch.Median(v[:s.Depth()])
	return f2, f2 * math.Sqrt(2/float64(s.Width())) * sketch.MedianFactor(s.Depth(), confidence)
}

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

// Estimate returns the estimate of a flow, and what it errs by at most: infinity
// if a cell of the flow is saturated.
func (e Estimator) Estimate(h uint64) (value, bound float64) {
	bound = e.bound
	for i := range e.s.Rows() {
		if e.s.Row(i).IsSaturated(h) {
			bound = math.Inf(1)
		}
	}
	return e.s.Estimate(h), bound
}

// Merge adds what o counted. It refuses a sketch of another shape, seed or family.
func (s *Sketch) Merge(o *Sketch) error {
	if err := s.Stack.Merge(&o.Stack); err != nil {
		return fmt.Errorf("merge count sketches: %w", err)
	}
	return nil
}

// Clone returns a copy that shares nothing.
func (s *Sketch) Clone() *Sketch { return &Sketch{s.Stack.Clone()} }

// AppendBinary appends the binary form: header, depth(1), seed(8), the cells of
// each row. It never fails.
func (s *Sketch) AppendBinary(b []byte) ([]byte, error) { return s.Append(b, sketch.KindCountSketch) }

// UnmarshalBinary sets the sketch from its binary form, of the family xxhash (see Use),
// or leaves it alone and says what is wrong.
func (s *Sketch) UnmarshalBinary(b []byte) error { return s.Decode(b, sketch.KindCountSketch) }
