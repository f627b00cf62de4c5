package sketch

import (
	"encoding/binary"
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
)

// base is a type of rows that wraps Row.
type base[R any] interface {
	*R
	Base() *Row
}

// Base returns the row itself.
func (r *Row) Base() *Row { return r }

// Stack is what Count-Min and Count Sketch as whole sketches have in common: rows of one width, each
// under a seed of its own that follows from one seed. Goroutines and copies are as with Row.
type Stack[R any, P base[R]] struct {
	rows []R
	seed uint64
}

// NewStack returns depth empty rows, 1 to MaxDepth.
func NewStack[R any, P base[R]](depth, width int, seed uint64) (s Stack[R, P], err error) {
	if err := CheckDepth(depth); err != nil {
		return s, err
	}
	s = Stack[R, P]{make([]R, depth), seed}
	for i := range s.rows {
		if *s.base(i), err = NewRow(width, hash.Uint64(seed, uint64(i))); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Use makes all rows mix by another hash family, as Row.Use does.
func (s *Stack[R, P]) Use(f hash.Family) {
	for i := range s.rows {
		s.base(i).Use(f)
	}
}

func (s *Stack[R, P]) base(i int) *Row { return P(&s.rows[i]).Base() }

// Rows returns the rows, not copies. They must not be reset.
func (s *Stack[R, P]) Rows() []R { return s.rows }

// Row returns row i, not a copy. It must not be reset.
func (s *Stack[R, P]) Row(i int) *R { return &s.rows[i] }

// Depth returns the number of rows.
func (s *Stack[R, P]) Depth() int { return len(s.rows) }

// Width returns the number of cells of a row.
func (s *Stack[R, P]) Width() int { return s.base(0).Width() }

// Bytes returns the memory of the cells.
func (s *Stack[R, P]) Bytes() int { return len(s.rows) * s.base(0).Bytes() }

// Saturated returns how many additions met the limit of their cell.
func (s *Stack[R, P]) Saturated() uint64 {
	n := uint64(0)
	for i := range s.rows {
		n += s.base(i).Saturated()
	}
	return n
}

// Merge adds what o counted. It refuses a sketch of another shape, seed or family.
func (s *Stack[R, P]) Merge(o *Stack[R, P]) error {
	if s.Depth() != o.Depth() || s.Width() != o.Width() || s.seed != o.seed {
		return fmt.Errorf("%w: %d by %d cells of seed %#x, and %d by %d of %#x",
			ErrShape, s.Depth(), s.Width(), s.seed, o.Depth(), o.Width(), o.seed)
	}
	for i := range s.rows {
		if err := s.base(i).Merge(o.base(i)); err != nil {
			return err
		}
	}
	return nil
}

// Reset empties the sketch.
func (s *Stack[R, P]) Reset() {
	for i := range s.rows {
		s.base(i).Reset(s.base(i).Seed())
	}
}

// Clone returns a copy that shares nothing.
func (s *Stack[R, P]) Clone() Stack[R, P] {
	c := Stack[R, P]{make([]R, len(s.rows)), s.seed}
	for i := range s.rows {
		*c.base(i) = s.base(i).Clone()
	}
	return c
}

// Append appends the binary form of a sketch of a kind: header, depth(1), seed(8), the
// cells of each row.
func (s *Stack[R, P]) Append(b []byte, kind Kind) ([]byte, error) {
	b = append(AppendHeader(b, kind), byte(len(s.rows)))
	b = binary.LittleEndian.AppendUint64(b, s.seed)
	for i := range s.rows {
		b, _ = s.base(i).cells.AppendBinary(b)
	}
	return b, nil
}

// Decode sets the sketch from the binary form of a kind, of the family xxhash, or
// leaves it alone and says what is wrong.
func (s *Stack[R, P]) Decode(b []byte, kind Kind) error {
	d := NewReader(b, kind)
	depth := int(d.Byte())
	n := Stack[R, P]{seed: d.Uint64()}
	for i := 0; i < depth && d.Err() == nil; i++ {
		n.rows = append(n.rows, *new(R))
		*n.base(i) = Row{cells: d.Cells(), seed: hash.Uint64(n.seed, uint64(i))}
		if width := n.base(i).Width(); width != n.Width() {
			d.Fail("rows of %d and %d cells", n.Width(), width)
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
