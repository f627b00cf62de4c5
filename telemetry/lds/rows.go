package lds

import "math"

// Adapts reports whether points of the config can have fewer rows in some intervals; see SetRows.
func (c *Config) Adapts() bool {
	if c.Virtual > 1 {
		return false
	}
	for _, rate := range c.Rates {
		if rate < 1 {
			return false
		}
	}
	return true
}

// SetRows gives an empty point all its cells in fewer rows, or again in more, up to those it was made with, whose number rows divides. It
// is for a config that Adapts. A point that is not empty stays as it is.
func (p *Point) SetRows(rows int) {
	if rows == p.config.Rows || p.fold != 0 || !p.empty() || rows < 1 || p.made.Rows%rows != 0 || !p.made.Adapts() {
		return
	}
	p.config = p.made.WithRows(rows)
	p.rows, p.columns, p.counted = uint8(rows), uint64(p.config.Columns), p.config
}

// rowsPerLoad is how many rows are best where there are as many cells as flows. With r rows of C cells, the least crowded of a
// flow's cells is its own alone with a chance of 1 - (1 - exp(-flows/C))^r, which is largest for r = ln 2 * cells/flows, as in a Bloom
// filter.
const rowsPerLoad = math.Ln2

// BestRows are the rows, of those that SetRows takes, which suit a number of flows in an interval: those nearest, as a ratio, to the best number, or fewer where a
// record of these is expected to take more than so many bytes; 0: no bound. A record that is too long is folded to its first row, and a row of all cells has
// more columns than one of several.
func (c *Config) BestRows(flows float64, bytes int) int {
	best, off := c.Rows, math.Inf(1)
	if !c.Adapts() {
		return best
	}
	flows = min(max(flows, 1), math.MaxUint32)
	want := rowsPerLoad * float64(c.Rows*c.Columns) / flows
	for rows := c.Rows; rows >= 1; rows-- {
		if c.Rows%rows != 0 || rows > 1 && bytes > 0 && c.formBytes(rows, flows) > float64(bytes) {
			continue
		}
		if d := math.Abs(math.Log(want / float64(rows))); d < off {
			best, off = rows, d
		}
	}
	return best
}

// WithRows is the config of points that have all their cells in so many rows, as SetRows makes them.
func (c *Config) WithRows(rows int) Config {
	of := *c
	of.Rows, of.Columns, of.Rates = rows, c.Columns*(c.Rows/rows), nil
	return of
}

// formBytes is what the form of a point is expected to take that has so many flows in so many rows of all its cells.
func (c *Config) formBytes(rows int, flows float64) float64 {
	r := float64(rows)
	columns := float64(c.Rows*c.Columns) / r
	// A flow that is alone in its cells of several rows is written once, see cellWriter.
	alone := math.Exp(-flows / columns)
	full := r * columns * (1 - alone)
	old := flows * (r*alone - (1 - math.Pow(1-alone, r)))
	return (full-old)*newCellBytes + old*oldCellBytes + r*columns/8
}

// What a cell takes in a form about that is not like another, and one that is.
const newCellBytes, oldCellBytes = 13, 2

// Flows estimates how many flows the point has counted, from the cells of its first row that are empty (linear counting, Whang et al.,
// 1990). It is for a config that Adapts.
func (p *Point) Flows() float64 {
	if p.empty() {
		return 0
	}
	c := p.config.Columns
	empty := 0
	for i := range p.cells[:c] {
		if p.cells[i] == (packed{}) && p.spill.find(i) == nil && !p.spill.overfull(i) {
			empty++
		}
	}
	return float64(c) * math.Log(float64(c)/max(float64(empty), 0.5))
}
