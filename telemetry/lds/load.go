package lds

import "fmt"

// Load makes the point one that has counted so many packets in an interval, and refused others for
// their time, with these cells, row by row: those of a P4 target's registers.
func (p *Point) Load(interval int64, packets, outside uint64, cells []Cell) error {
	if len(cells) != len(p.cells) {
		return fmt.Errorf("%d cells do not fit a point of %d", len(cells), len(p.cells))
	}
	p.Begin(interval)
	p.packets, p.outside, p.loaded = packets, outside, true
	for i := range cells {
		p.set(i, cells[i])
	}
	return nil
}
