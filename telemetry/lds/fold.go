package lds

import (
	"fmt"
	"math"
)

// A point that has counted can be folded, which makes its record short: it has its first rows alone, and of a row each 2^fold cells that are next to each
// other are one. As a flow's cell is its hash times the columns, rounded down, that is the cell that the flow has with so many fewer columns. So a point
// that is folded knows all flows, as one that counted in fewer cells does, and compares with any other that counted in the same cells: the finer
// one is folded, too. Packets are added to a point before it is folded.

// folds reports whether points of the config can be folded. What its packets scatter over would not stay even.
func (c *Config) folds() bool { return c.Adapts() }

// folded is how many columns a row has in which so many cells, 2^fold, are one.
func (c *Config) folded(fold uint8) int { return (c.Columns-1)>>fold + 1 }

// foldTo returns the point in its first rows, and 2^fold of the cells that it counted in as one. A point that is so returns itself. It shares with the
// point what are no cells.
func (p *Point) foldTo(rows int, fold uint8) *Point {
	if rows == p.config.Rows && fold == p.fold {
		return p
	}
	c := p.counted
	c.Rows, c.Columns, c.Rates = rows, p.counted.folded(fold), nil
	size := c.Rows * c.Columns
	q := *p
	q.cells, q.first, q.spill, q.config, q.made, q.kept = make([]packed, size), 0, newSpill(size, c.IntervalNs), c, c, size
	q.rows, q.fold = uint8(rows), fold
	q.group = newGroup(c, q.cells)
	q.group.points = []*Point{&q}
	if p.blank() {
		return &q
	}
	for r := range rows {
		from := p.cells[r*p.config.Columns:][:p.config.Columns]
		for j := range from {
			i, to := r*p.config.Columns+j, r*c.Columns+j>>(fold-p.fold)
			if p.spill.overfull(i) {
				q.spill.mark(to)
			}
			if cell := p.at(i); cell != (Cell{}) {
				q.set(to, cell)
			}
		}
	}
	return &q
}

// blank reports whether no packet is in any cell, so that the point is known in all cells however it is folded.
func (p *Point) blank() bool {
	if p.empty() {
		return true
	}
	for i := range p.cells {
		if p.cells[i] != (packed{}) {
			return false
		}
	}
	return p.spill.used == 0 && p.spill.lost == 0
}

// Alike folds the points of one measurement so that they have the same cells, if they counted in the same ones; else it leaves them as they are.
func Alike(points ...*Point) []*Point {
	rows, fold, same, blank := math.MaxInt, uint8(0), true, true
	for _, p := range points {
		if !p.counted.Equal(points[0].counted) {
			return points
		}
		same = same && p.config.Equal(points[0].config)
		blank = blank && p.blank()
	}
	if same {
		return points
	}
	for _, p := range points {
		if blank || !p.blank() {
			rows, fold = min(rows, p.config.Rows), max(fold, p.fold)
		}
	}
	list := make([]*Point, len(points))
	for i, p := range points {
		list[i] = p.foldTo(rows, fold)
	}
	return list
}

// AppendWithin appends the point's form to b, as AppendBinary does, in at most so many bytes: with fewer rows first, down to one, then in a half of the
// columns, a quarter, and so on. A point whose packets scatter keeps its first cells alone instead (Keep), and takes more than that where the least that it can keep
// does. cells are how many it has in the form, and all how many bytes it takes about if nothing is left out.
func (p *Point) AppendWithin(b []byte, bytes int) (out []byte, cells, all int) {
	if !p.config.folds() || p.fold != 0 {
		return p.keepWithin(b, bytes)
	}
	if p.blank() && p.config.Columns > 1 {
		out, _ = p.foldTo(1, leastFold(&p.counted)).AppendBinary(b)
		return out, len(p.cells), len(out) - len(b)
	}
	// Most that costs time is to write the cells, so shapes that take too much in any case are not tried.
	least := p.leastBytes()
	all = least[p.config.Rows-1]
	rows, fold := p.config.Rows, uint8(0)
	for rows > 1 && least[rows-1] > bytes {
		rows--
	}
	for q := p; ; {
		q = q.foldTo(rows, fold)
		last := q.config.Columns == 1
		if rows > 1 || last || q.leastBytes()[0] <= bytes {
			out, _ = q.AppendBinary(b)
			size := len(out) - len(b)
			if q == p {
				all = size
			}
			if size <= bytes || last {
				return out, len(q.cells), max(all, size)
			}
		}
		if rows > 1 {
			rows--
		} else {
			fold++
		}
	}
}

// leastFold makes one column of a config's.
func leastFold(c *Config) (fold uint8) {
	for c.folded(fold) > 1 {
		fold++
	}
	return fold
}

// What a cell that is not like another takes at the least in a form: a count, a length, the upper bytes of a sum, and a digest, which do not compress; and
// one that is like another: a number.
const leastCellBytes, leastOldBytes = 8, 1

// leastBytes is what a form takes at the least, by the number of its rows, less one.
func (p *Point) leastBytes() (least []int) {
	c, most, sum := p.config.Columns, 0, 0
	for r := range p.config.Rows {
		full := 0
		for _, cell := range p.cells[r*c:][:c] {
			if cell != (packed{}) {
				full++
			}
		}
		most, sum = max(most, full), sum+full
		least = append(least, most*leastCellBytes+(sum-most)*leastOldBytes+(r+1)*c/8)
	}
	return least
}

func (p *Point) keepWithin(b []byte, bytes int) (out []byte, cells, all int) {
	p.Keep(len(p.cells))
	for {
		out, _ = p.AppendBinary(b)
		size := len(out) - len(b)
		all = max(all, size)
		kept := p.kept
		if size > bytes {
			p.Keep(min(int(float64(kept)*float64(bytes)/float64(size)), kept-kept/16-1))
		}
		if p.kept == kept {
			return out, kept, all
		}
	}
}

// setFold notes in how many rows and columns a point counted that is folded to a config.
func (f *form) setFold(to Config, rows, columns int) error {
	c := to
	c.Rows, c.Columns, c.Rates = rows, columns, nil
	if err := c.Validate(); err != nil {
		return fmt.Errorf("what is folded: %w", err)
	}
	for c.folded(f.fold) > to.Columns {
		f.fold++
	}
	if !to.folds() || c.folded(f.fold) != to.Columns || to.Rows > rows || to.Rows == rows && f.fold == 0 {
		return fmt.Errorf("%d rows of %d cells are no fold of %d of %d", to.Rows, to.Columns, rows, columns)
	}
	f.counted = c
	return nil
}
