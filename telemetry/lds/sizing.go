package lds

import (
	"errors"
	"fmt"
	"math"
)

// Pareto is a distribution of flow sizes: a size exceeds x with probability
// (Scale/x)^Shape, where x is at least Scale.
type Pareto struct {
	Scale, Shape float64
}

// Tail returns the probability of a size above x packets.
func (p Pareto) Tail(x float64) float64 {
	if x <= p.Scale {
		return 1
	}
	return math.Pow(p.Scale/x, p.Shape)
}

// SmallCollisions returns the approximate probability, from 0 to 1, that a flow
// has a cell in which it collides with at most x/k packets (Section 3.2):
// Q = 1 - (n k R P / C)^(R k), for n flows over C cells in all rows together and
// P the tail of their sizes at x. With k = 1 it is that of SDS (Section 3.1).
func SmallCollisions(flows, cells float64, rows, virtual int, tail float64) float64 {
	rk := float64(rows * virtual)
	return max(0, 1-math.Pow(flows*rk*tail/cells, rk))
}

// Target says what a point is to achieve.
type Target struct {
	// Flows is the number of flows in an interval.
	Flows float64
	// Sizes is the distribution of their packets.
	Sizes Pareto
	// Packets is the least size of a flow that is to be measured well, and
	// Interference the share of it that other flows' packets may reach, in (0, 1];
	// together they are the paper's x.
	Packets      float64
	Interference float64
	// Failures is the share of such flows that may meet with more, in (0, 1/e).
	Failures float64
	// Losses is the number of lost packets up to which a flow is to be measured,
	// 0 if losses are rare. Virtual is k; 0 has it chosen.
	Losses  float64
	Virtual int
	// IntervalNs and Seed go into the config; 0 means a second.
	IntervalNs int64
	Seed       uint64
}

// Sizing is what a target takes.
type Sizing struct {
	Config Config
	// SmallCollisions is the share of the flows expected to meet the target.
	SmallCollisions float64
	// Load is the paper's z = nP/C, the large flows per cell.
	Load float64
	// Bytes is the memory of the cells at one point for one worker.
	Bytes int
}

// defaultVirtual is the paper's k where there is loss (Section 5.2).
const defaultVirtual = 5

// Size chooses rows, columns, virtual cells and rates for a target by Section 3:
// R is -ln(failures) / k, at least 1, and C the least that keeps the failures.
// With losses there are at least two rows: the first samples so that each of
// its k cells expects no more than one of the target's losses, the last does not
// sample, and those between rise by equal factors (Section 4.2).
func Size(t Target) (Sizing, error) {
	if err := t.validate(); err != nil {
		return Sizing{}, fmt.Errorf("size of an LDS point: %w", err)
	}
	k := t.Virtual
	if k == 0 {
		if k = 1; t.Losses > 0 {
			k = defaultVirtual
		}
	}
	rows := int(max(1, math.Round(-math.Log(t.Failures)/float64(k))))
	var rates []float64
	if worst := float64(k) / t.Losses; worst < 1 {
		rows = max(rows, 4)
		for r := range rows {
			rates = append(rates, max(MinRate, math.Pow(worst, 1-float64(r)/float64(rows-1))))
		}
	}
	rows = min(rows, maxRows)
	tail := t.Sizes.Tail(t.Packets * t.Interference)
	rk := float64(rows * k)
	columns := math.Ceil(t.Flows * float64(k) * tail / math.Pow(t.Failures, 1/rk))
	if columns > MaxCells {
		return Sizing{}, fmt.Errorf("size of an LDS point: %d rows of %.6g cells are more than %d cells; lower the number of flows, or allow more interference or failures", rows, columns, MaxCells)
	}
	c := Config{Rows: rows, Columns: max(int(columns), k), Virtual: k, Rates: rates, IntervalNs: t.IntervalNs, Seed: t.Seed}
	if c.IntervalNs == 0 {
		c.IntervalNs = 1e9
	}
	if err := c.Validate(); err != nil {
		return Sizing{}, fmt.Errorf("size of an LDS point: %w", err)
	}
	cells := float64(c.Rows * c.Columns)
	return Sizing{Config: c, SmallCollisions: SmallCollisions(t.Flows, cells, rows, k, tail), Load: t.Flows * tail / cells, Bytes: c.Bytes()}, nil
}

func (t Target) validate() error {
	var errs []error
	fault := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	fault(!(t.Flows >= 1) || math.IsInf(t.Flows, 0), "%g flows: give a number from 1", t.Flows)
	fault(!(t.Sizes.Scale > 0) || !(t.Sizes.Shape > 0), "sizes of scale %g and shape %g: both must be above 0", t.Sizes.Scale, t.Sizes.Shape)
	fault(!(t.Packets >= 1), "flows of %g packets: give a number from 1", t.Packets)
	fault(!(t.Interference > 0 && t.Interference <= 1), "interference %g: give a share in (0, 1]", t.Interference)
	fault(!(t.Failures > 0 && t.Failures < 1/math.E), "failures %g: give a share in (0, 1/e)", t.Failures)
	fault(!(t.Losses >= 0), "%g losses: give a number from 0", t.Losses)
	fault(t.Virtual < 0 || t.Virtual > MaxVirtual, "%d virtual cells: choose 1 to %d, or 0", t.Virtual, MaxVirtual)
	return errors.Join(errs...)
}
