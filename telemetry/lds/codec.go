package lds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The form of a point's interval, version 1, integers little-endian:
//
//	version 8 | flags 8 | rows 8 | reserved 8 | virtual 32 | columns 32 | reserved 32
//	interval ns 64 | seed 64 | interval number 64 | packets 64 | outside 64
//	rates: rows * float64
//	bitmap: a bit per cell, row by row, the lowest bit of a byte first; set: not empty
//	cells: for each set bit sum 64 | count 64 | digest 64 | bytes 64
//
// A point has one form only: reserved bits, the bitmap's last bits and unset
// cells are zero, a set cell is not. An empty cell takes a bit, so the cells that
// a decoder makes take at most 256 times the memory of its input, and never
// more than MaxCells.
const (
	codecVersion = 1
	headerBytes  = 16 + 5*8
)

// ErrVersion is wrapped by what Decode returns for a version that it does not
// know.
var ErrVersion = errors.New("unknown version of an LDS point")

var order = binary.LittleEndian

// AppendBinary appends the point's form to b. The error is always nil.
func (p *Point) AppendBinary(b []byte) ([]byte, error) {
	c := &p.config
	b = append(b, codecVersion, byte(p.flags), byte(c.Rows), 0)
	b = order.AppendUint32(b, uint32(c.Virtual))
	b = order.AppendUint32(b, uint32(c.Columns))
	b = order.AppendUint32(b, 0)
	for _, w := range []uint64{uint64(c.IntervalNs), c.Seed, uint64(p.number), p.packets, p.outside} {
		b = order.AppendUint64(b, w)
	}
	for _, r := range c.rates() {
		b = order.AppendUint64(b, math.Float64bits(r))
	}
	bitmap := len(b)
	b = append(b, make([]byte, (len(p.cells)+7)/8)...)
	for i, cell := range p.cells {
		if cell == (Cell{}) {
			continue
		}
		b[bitmap+i/8] |= 1 << (i % 8)
		b = order.AppendUint64(b, uint64(cell.Sum))
		b = order.AppendUint64(b, cell.Count)
		b = order.AppendUint64(b, cell.Digest)
		b = order.AppendUint64(b, cell.Bytes)
	}
	return b, nil
}

// Decode reads a point's form, which must be all of b. It refuses what does not
// fit together before it makes the cells.
func Decode(b []byte) (*Point, error) {
	p, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("decode LDS point: %w", err)
	}
	return p, nil
}

func decode(b []byte) (*Point, error) {
	if len(b) < headerBytes {
		return nil, fmt.Errorf("%d bytes are too short for a header", len(b))
	}
	if b[0] != codecVersion {
		return nil, fmt.Errorf("%w: %d", ErrVersion, b[0])
	}
	if b[1]&^byte(allFlags) != 0 || b[3] != 0 || order.Uint32(b[12:]) != 0 {
		return nil, errors.New("reserved bits are set")
	}
	c := Config{Rows: int(b[2]), Virtual: int(order.Uint32(b[4:])), Columns: int(order.Uint32(b[8:])),
		IntervalNs: int64(order.Uint64(b[16:])), Seed: order.Uint64(b[24:])}
	number, packets, outside := int64(order.Uint64(b[32:])), order.Uint64(b[40:]), order.Uint64(b[48:])
	flags, rest := Flags(b[1]), b[headerBytes:]
	if c.Rows > MaxRows || len(rest) < 8*c.Rows {
		return nil, fmt.Errorf("%d rows in %d bytes", c.Rows, len(b))
	}
	for r := range c.Rows {
		c.Rates = append(c.Rates, math.Float64frombits(order.Uint64(rest[8*r:])))
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	rest = rest[8*c.Rows:]
	bitmap := (c.Rows*c.Columns + 7) / 8
	if len(rest) < bitmap || (len(rest)-bitmap)%cellBytes != 0 {
		return nil, fmt.Errorf("%d bytes do not hold %d cells", len(b), c.Rows*c.Columns)
	}
	if number > math.MaxInt64/c.IntervalNs || number < math.MinInt64/c.IntervalNs {
		return nil, fmt.Errorf("interval %d of %d ns lies outside all clocks", number, c.IntervalNs)
	}
	p, err := NewPoint(c)
	if err != nil {
		return nil, err
	}
	p.Begin(number)
	p.flags, p.packets, p.outside = flags, packets, outside
	if err := p.fill(rest[:bitmap], rest[bitmap:]); err != nil {
		return nil, err
	}
	return p, nil
}

// fill sets the cells that the bitmap names.
func (p *Point) fill(bitmap, cells []byte) error {
	if extra := len(p.cells) % 8; extra != 0 && bitmap[len(bitmap)-1]>>extra != 0 {
		return errors.New("the bitmap names cells beyond the last")
	}
	for i := range p.cells {
		if bitmap[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if len(cells) == 0 {
			return errors.New("the bitmap names more cells than there are")
		}
		p.cells[i] = Cell{int64(order.Uint64(cells)), order.Uint64(cells[8:]), order.Uint64(cells[16:]), order.Uint64(cells[24:])}
		if p.cells[i] == (Cell{}) {
			return errors.New("a cell that is named is empty")
		}
		cells = cells[cellBytes:]
	}
	if len(cells) != 0 {
		return fmt.Errorf("%d bytes behind the last cell", len(cells))
	}
	return nil
}
