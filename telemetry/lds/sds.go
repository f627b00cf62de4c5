package lds

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
)

// SDSCell sums up the delays of the packets that a row's hash sent to it.
type SDSCell struct {
	SumNs int64
	Count uint64
}

// SDS is the Simple Delay Sketch (Section 2.2), for a receiver that knows the
// delay of each packet, because packets carry a timestamp. It has one writer.
type SDS struct {
	rows, columns int
	family        hash.Family
	seed          uint64
	cells         []SDSCell
}

// NewSDS makes an empty sketch of 1 to MaxRows rows and at most MaxCells cells, of the
// family xxhash.
func NewSDS(rows, columns int, seed uint64) (*SDS, error) {
	var errs []error
	if rows < 1 || rows > MaxRows {
		errs = append(errs, fmt.Errorf("%d rows: choose 1 to %d", rows, MaxRows))
	}
	if columns < 1 || columns > MaxCells/max(rows, 1) {
		errs = append(errs, fmt.Errorf("%d columns: choose 1 or more, and at most %d cells in all", columns, MaxCells))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("SDS: %w", err)
	}
	return &SDS{rows: rows, columns: columns, seed: seed + flowSeed, cells: make([]SDSCell, rows*columns)}, nil
}

// Use makes an empty sketch hash by another family.
func (s *SDS) Use(f hash.Family) { s.family = f }

func (s *SDS) cell(flow uint64, row int) *SDSCell {
	h := s.family.Uint64(s.seed+uint64(row), flow)
	return &s.cells[row*s.columns+int(hash.Reduce(h, uint64(s.columns)))]
}

// Add counts a packet of the flow and its delay in nanoseconds (Fig. 2).
func (s *SDS) Add(flow uint64, delayNs int64) {
	for r := range s.rows {
		c := s.cell(flow, r)
		c.SumNs += delayNs
		c.Count++
	}
}

// Flow returns the mean delay of the flow's cell with the fewest packets, and
// their number, which is never below the flow's (Fig. 3). It is 0, 0 for a flow
// of which no packet came.
func (s *SDS) Flow(flow uint64) (meanNs float64, packets uint64) {
	least := SDSCell{Count: math.MaxUint64}
	for r := range s.rows {
		if c := s.cell(flow, r); c.Count < least.Count {
			least = *c
		}
	}
	if least.Count == 0 {
		return 0, 0
	}
	return float64(least.SumNs) / float64(least.Count), least.Count
}

// Merge adds another worker's sketch of the same shape, seed and family.
func (s *SDS) Merge(t *SDS) error {
	if s.rows != t.rows || s.columns != t.columns || s.seed != t.seed || s.family != t.family {
		return fmt.Errorf("merge SDS: %d x %d cells of seed %d of %v and %d x %d of seed %d of %v", s.rows, s.columns, s.seed-flowSeed, s.family, t.rows, t.columns, t.seed-flowSeed, t.family)
	}
	for i := range s.cells {
		s.cells[i].SumNs += t.cells[i].SumNs
		s.cells[i].Count += t.cells[i].Count
	}
	return nil
}

// Reset empties the sketch.
func (s *SDS) Reset() { clear(s.cells) }
