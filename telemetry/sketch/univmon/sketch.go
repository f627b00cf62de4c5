package univmon

import (
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// Sketch is UnivMon with a Count Sketch of several rows for each level: fragments
// of one shape and one seed of levels. Several goroutines may read it; one may write it,
// and none read it then. A copy shares the cells; Clone does not.
//
// Memory: 4 * depth * levels * width bytes, beside some 100 for each row.
type Sketch struct {
	rows []Fragment // Row i of all levels is rows[i].
}

// New returns an empty sketch whose estimates of a flow of level l err by more than
// epsilon times the square root of that level's F2 with a chance of at most delta:
// 4/epsilon^2 cells in each of the rows that sketch.MedianDepth states.
func New(levels int, epsilon, delta float64, seed uint64) (*Sketch, error) {
	if err := sketch.CheckTargets(epsilon, delta); err != nil {
		return nil, fmt.Errorf("univmon: %w", err)
	}
	width := math.Ceil(4 / epsilon / epsilon)
	if width > sketch.MaxWidth {
		return nil, fmt.Errorf("univmon: an error of %v takes rows of %.3g cells; the largest has %d", epsilon, width, sketch.MaxWidth)
	}
	return NewSize(levels, sketch.MedianDepth(delta), int(width), seed)
}

// NewSize returns an empty sketch of levels, 1 to MaxLevels, with depth rows
// each, 1 to sketch.MaxDepth, of one width.
func NewSize(levels, depth, width int, seed uint64) (*Sketch, error) {
	if err := sketch.CheckDepth(depth); err != nil {
		return nil, fmt.Errorf("univmon: %w", err)
	}
	s := &Sketch{}
	for i := range depth {
		f, err := NewFragment(levels, width, seed, hash.Uint64(seed, uint64(i)))
		if err != nil {
			return nil, err
		}
		s.rows = append(s.rows, *f)
	}
	return s, nil
}

// NewBytes returns the widest sketch of levels and depth whose cells fit in a
// budget of bytes.
func NewBytes(levels, depth, bytes int, seed uint64) (*Sketch, error) {
	return NewSize(levels, depth, bytes/max(depth, 1)/max(levels, 1)/sketch.CellBytes, seed)
}

// Use makes all rows mix by another hash family, as Fragment.Use does.
func (s *Sketch) Use(f hash.Family) {
	for i := range s.rows {
		s.rows[i].Use(f)
	}
}

// Level returns the level of a flow.
func (s *Sketch) Level(h uint64) int { return s.rows[0].Level(h) }

// Add adds v (packets, bytes; of at most 2^62 either way) to the flow whose key
// hashes to h under the flow seed.
func (s *Sketch) Add(h uint64, v int64) {
	level := s.Level(h)
	for i := range s.rows {
		s.rows[i].AddLevel(level, h, v)
	}
}

// AddBatch does Add(h[i], v[i]) for each i. v has at least the length of h.
func (s *Sketch) AddBatch(h []uint64, v []int64) {
	for i := range s.rows {
		s.rows[i].AddBatch(h, v)
	}
}

// Estimate returns the median of the rows' estimates of a flow.
func (s *Sketch) Estimate(h uint64) float64 {
	var v [sketch.MaxDepth]float64
	for i := range s.rows {
		v[i] = float64(s.rows[i].Estimate(h))
	}
	return sketch.Median(v[:len(s.rows)])
}

// Bound returns what an estimate for a flow of the level errs by at most, with the stated
// confidence (above 0, below 1). It reads the level's cells.
func (s *Sketch) Bound(level int, confidence float64) float64 {
	var v [sketch.MaxDepth]float64
	for i := range s.rows {
		v[i] = s.rows[i].Error(level)
	}
	return sketch.Median(v[:len(s.rows)]) * sketch.MedianFactor(len(s.rows), confidence)
}

// SecondMoment estimates F2, the sum of the squares of all flows' values, and
// what it errs by at most with the stated confidence. It reads all cells.
func (s *Sketch) SecondMoment(confidence float64) (f2, bound float64) {
	var v [sketch.MaxDepth]float64
	for i := range s.rows {
		v[i] = s.rows[i].SecondMoment()
	}
	f2 = sketch.Median(v[:len(s.rows)])
	return f2, f2 * math.Sqrt(2/float64(s.Width())) * sketch.MedianFactor(len(s.rows), confidence)
}

// Estimator answers for many flows with one bound for each level.
type Estimator struct {
	s      *Sketch
	bounds [MaxLevels]float64
}

// Estimator computes the bounds of the stated confidence once. It is valid until
// the sketch changes.
func (s *Sketch) Estimator(confidence float64) *Estimator {
	e := &Estimator{s: s}
	for l := range s.Levels() {
		e.bounds[l] = s.Bound(l, confidence)
	}
	return e
}

// Estimate returns the estimate of a flow, and what it errs by at most: infinity
// if a cell of the flow is saturated.
func (e *Estimator) Estimate(h uint64) (value, bound float64) {
	bound = e.bounds[e.s.Level(h)]
	for i := range e.s.rows {
		if e.s.rows[i].IsSaturated(h) {
			bound = math.Inf(1)
		}
	}
	return e.s.Estimate(h), bound
}

// Total returns the sum of all values added. It is exact.
func (s *Sketch) Total() int64 { return s.rows[0].Total() }

// Fragment returns row i of all levels, not a copy. It must not be reset.
func (s *Sketch) Fragment(i int) *Fragment { return &s.rows[i] }

// Depth returns the number of rows of a level.
func (s *Sketch) Depth() int { return len(s.rows) }

// Levels returns the number of levels.
func (s *Sketch) Levels() int { return s.rows[0].Levels() }

// Width returns the number of cells of a row.
func (s *Sketch) Width() int { return s.rows[0].Width() }

// Bytes returns the memory of the cells.
func (s *Sketch) Bytes() int { return len(s.rows) * s.rows[0].Bytes() }

// Saturated returns how many additions met the limit of their cell.
func (s *Sketch) Saturated() uint64 {
	n := uint64(0)
	for i := range s.rows {
		n += s.rows[i].Saturated()
	}
	return n
}

// Merge adds what o counted. It refuses a sketch of another shape, seed or family.
func (s *Sketch) Merge(o *Sketch) error {
	if s.Depth() != o.Depth() {
		return fmt.Errorf("merge univmon sketches: %w: %d and %d rows", sketch.ErrShape, s.Depth(), o.Depth())
	}
	// Row 0 tells whether all fit, so that nothing is merged by half.
	for i := range s.rows {
		if err := s.rows[i].Merge(&o.rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// Reset empties the sketch.
func (s *Sketch) Reset() {
	for i := range s.rows {
		s.rows[i].Reset(s.rows[i].seed)
	}
}

// Clone returns a copy that shares nothing.
func (s *Sketch) Clone() *Sketch {
	c := &Sketch{}
	for i := range s.rows {
		c.rows = append(c.rows, *s.rows[i].Clone())
	}
	return c
}

// AppendBinary appends the binary form: header, depth(1), the body of each
// fragment. It never fails.
func (s *Sketch) AppendBinary(b []byte) ([]byte, error) {
	b = append(sketch.AppendHeader(b, sketch.KindUnivMon), byte(len(s.rows)))
	for i := range s.rows {
		b, _ = s.rows[i].appendBody(b)
	}
	return b, nil
}

// UnmarshalBinary sets the sketch from its binary form, of the family xxhash (see Use),
// or leaves it alone and says what is wrong.
func (s *Sketch) UnmarshalBinary(b []byte) error {
	d := sketch.NewReader(b, sketch.KindUnivMon)
	depth := int(d.Byte())
	var n Sketch
	for i := 0; i < depth && d.Err() == nil; i++ {
		f := readBody(d)
		n.rows = append(n.rows, f)
		if f.width != n.rows[0].width || f.top != n.rows[0].top || f.levelSeed != n.rows[0].levelSeed {
			d.Fail("row %d differs in shape from row 0", i)
		}
		if d.Err() == nil && f.seed != hash.Uint64(f.levelSeed, uint64(i)) {
			d.Fail("row %d has seed %#x, which does not follow from that of levels", i, f.seed)
		}
	}
	if len(n.rows) == 0 {
		d.Fail("no rows")
	}
	if err := d.Close(); err != nil {
		return err
	}
	*s = n
	return nil
}
