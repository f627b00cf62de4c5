package lds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
)

// The form of a point's interval, version 1, integers little-endian. The hash family is not
// in it: the record's envelope names it.
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

// Decode reads the form of a point that hashed by a family, which must be all of b. It
// refuses what does not fit together before it makes the cells.
func Decode(b []byte, family hash.Family) (*Point, error) {
	f, err := parse(b, family)
	if err != nil {
		return nil, err
	}
	p, err := NewPoint(f.config)
	if err != nil {
		return nil, err
	}
	p.Begin(f.number)
	p.flags, p.packets, p.outside = f.flags, f.packets, f.outside
	cells := f.cells
	for i := range p.cells {
		if f.bitmap[i/8]>>(i%8)&1 != 0 {
			p.cells[i], cells = cellOf(cells), cells[cellBytes:]
		}
	}
	return p, nil
}

// Summary is what a point's form says without its cells.
type Summary struct {
	Config   Config
	Interval int64
	Packets  uint64
}

// Check refuses what Decode refuses, without making cells: a point at rest takes far
// less memory as its form.
func Check(b []byte, family hash.Family) (Summary, error) {
	f, err := parse(b, family)
	return Summary{f.config, f.number, f.packets}, err
}

// form is a point's form, taken apart and checked. It aliases the bytes.
type form struct {
	config           Config
	flags            Flags
	number           int64
	packets, outside uint64
	bitmap, cells    []byte
}

func parse(b []byte, family hash.Family) (form, error) {
	f, err := parseHeader(b, family)
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return form{}, fmt.Errorf("decode LDS point: %w", err)
	}
	return f, nil
}

func parseHeader(b []byte, family hash.Family) (f form, err error) {
	if len(b) < headerBytes {
		return f, fmt.Errorf("%d bytes are too short for a header", len(b))
	}
	if b[0] != codecVersion {
		return f, fmt.Errorf("%w: %d", ErrVersion, b[0])
	}
	if b[1]&^byte(allFlags) != 0 || b[3] != 0 || order.Uint32(b[12:]) != 0 {
		return f, errors.New("reserved bits are set")
	}
	c := Config{Rows: int(b[2]), Virtual: int(order.Uint32(b[4:])), Columns: int(order.Uint32(b[8:])),
		IntervalNs: int64(order.Uint64(b[16:])), Seed: order.Uint64(b[24:]), Hash: family}
	f = form{flags: Flags(b[1]), number: int64(order.Uint64(b[32:])), packets: order.Uint64(b[40:]), outside: order.Uint64(b[48:])}
	rest := b[headerBytes:]
	if c.Rows > maxRows || len(rest) < 8*c.Rows {
		return f, fmt.Errorf("%d rows in %d bytes", c.Rows, len(b))
	}
	for r := range c.Rows {
		c.Rates = append(c.Rates, math.Float64frombits(order.Uint64(rest[8*r:])))
	}
	if err := c.Validate(); err != nil {
		return f, err
	}
	rest = rest[8*c.Rows:]
	bitmap := (c.Rows*c.Columns + 7) / 8
	if len(rest) < bitmap || (len(rest)-bitmap)%cellBytes != 0 {
		return f, fmt.Errorf("%d bytes do not hold %d cells", len(b), c.Rows*c.Columns)
	}
	if f.number > math.MaxInt64/c.IntervalNs || f.number < math.MinInt64/c.IntervalNs {
		return f, fmt.Errorf("interval %d of %d ns lies outside all clocks", f.number, c.IntervalNs)
	}
	f.config, f.bitmap, f.cells = c, rest[:bitmap], rest[bitmap:]
	return f, nil
}

// check compares the bitmap with the cells.
func (f *form) check() error {
	if extra := f.config.Rows * f.config.Columns % 8; extra != 0 && f.bitmap[len(f.bitmap)-1]>>extra != 0 {
		return errors.New("the bitmap names cells beyond the last")
	}
	named := 0
	for _, b := range f.bitmap {
		named += bits.OnesCount8(b)
	}
	if there := len(f.cells) / cellBytes; named != there {
		return fmt.Errorf("the bitmap names %d cells, there are %d", named, there)
	}
	for cells := f.cells; len(cells) > 0; cells = cells[cellBytes:] {
		if cellOf(cells) == (Cell{}) {
			return errors.New("a cell that is named is empty")
		}
	}
	return nil
}

// cellOf reads the first cell of the bytes.
func cellOf(b []byte) Cell {
	return Cell{int64(order.Uint64(b)), order.Uint64(b[8:]), order.Uint64(b[16:]), order.Uint64(b[24:])}
}
