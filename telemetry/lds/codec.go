package lds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
)

// The form of a point's interval, version 2 or 3, or 6 or 7 for one that names flows, integers little-endian. The hash family is not
// in it: the record's envelope names it.
//
//	version 8 | flags 8 | rows 8 | packing 8 | virtual 32 | columns 32 | length 32
//	interval ns 64 | seed 64 | interval number 64 | packets 64 | outside 64
//	version 3 or 7 alone: kept cells 32, below rows * columns
//	with the flag folded alone: rows 8 | columns 32 in which the point counted
//	rates: rows * float64
//	class, see Class
//	bitmap: a bit per kept cell, row by row, the lowest bit of a byte first; set: not empty
//	length of the cells 32 | cells, as they are (packing 0), or compressed by zstd (packing 1) from so many bytes: length
//	names, see names | samples, see samples
//
// The cells that are not empty, see cellWriter, say only what is new: a flow that is alone in its cells of
// several rows is in the first of them. An empty cell takes a bit, so the cells that a decoder makes take at most 128 times the
// memory of its input, and never more than MaxCells. Versions 3 and 7 have the first cells alone (Keep); one that
// keeps few of many has its reader make at most maxUnkept cells for each that its bitmap has a bit for.
// Version 1, which had cells of 32 bytes and digests of 64 bits, is read too, and versions 4 and 5, which had names without samples.
const (
	keptVersion  = 3
	codecVersion = 2
	wideVersion  = 1
	namesFlows   = 4 // what is added to the version of a point that names flows
	namesWhole   = 2 // and what was, without samples of flows
	headerBytes  = 16 + 5*8

	folded = 1 << 7 // a flag

	packingNone = 0
	packingZstd = 1
)

// ErrVersion is wrapped by what Decode returns for a version that it does not
// know.
var ErrVersion = errors.New("unknown version of an LDS point")

var order = binary.LittleEndian

// AppendBinary appends the point's form to b. The error is always nil.
func (p *Point) AppendBinary(b []byte) ([]byte, error) {
	c := &p.config
	w := newCellWriter()
	bitmap := make([]byte, (p.kept+7)/8)
	cells := p.cells[:p.kept]
	if p.empty() {
		cells = nil
	}
	for i := range cells {
		over := p.spill.overfull(i)
		if cells[i] == (packed{}) && !over && p.spill.find(i) == nil {
			continue
		}
		cell := p.at(i)
		if cell == (Cell{}) && !over {
			continue
		}
		bitmap[i/8] |= 1 << (i % 8)
		w.add(&cell, over)
	}
	text := w.bytes()
	version, all := byte(codecVersion), p.kept == len(p.cells)
	if !all {
		version = keptVersion
	}
	if p.names.rows != 0 {
		version += namesFlows
	}
	flags := byte(p.flags)
	if p.counted.Rows != c.Rows || p.fold != 0 {
		flags |= folded
	}
	b = append(b, version, flags, byte(c.Rows), packingNone)
	packing := len(b) - 1
	b = order.AppendUint32(b, uint32(c.Virtual))
	b = order.AppendUint32(b, uint32(c.Columns))
	b = order.AppendUint32(b, uint32(len(text)))
	for _, w := range []uint64{uint64(c.IntervalNs), c.Seed, uint64(p.number), p.packets, p.outside} {
		b = order.AppendUint64(b, w)
	}
	if !all {
		b = order.AppendUint32(b, uint32(p.kept))
	}
	if flags&folded != 0 {
		b = order.AppendUint32(append(b, byte(p.counted.Rows)), uint32(p.counted.Columns))
	}
	for _, r := range c.rates() {
		b = order.AppendUint64(b, math.Float64bits(r))
	}
	b = p.class.append(b)
	b = append(b, bitmap...)
	length := len(b)
	b = order.AppendUint32(b, 0)
	b = appendPacked(b, text, packing)
	order.PutUint32(b[length:], uint32(len(b)-length-4))
	return p.samples.append(p.names.append(b)), nil
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
	p.flags, p.packets, p.outside, p.class, p.loaded, p.kept = f.flags, f.packets, f.outside, f.class, true, f.kept
	if f.folded {
		p.counted, p.fold, p.columns = f.counted, f.fold, uint64(f.counted.Columns)
	}
	if f.version != wideVersion {
		rest := []byte(nil)
		if p.names, rest, err = parseNames(f.samples, f.sampled, true); err != nil {
			return nil, err
		}
		if p.samples, err = parseSamples(rest, true); err != nil {
			return nil, err
		}
	}
	p.group.naming = p.names.rows > 0
	p.group.sampling = cap(p.samples.list) > 0
	next := f.reader()
	for i := range f.kept {
		if f.bitmap[i/8]>>(i%8)&1 != 0 {
			cell, over, _ := next()
			p.set(i, cell)
			if over {
				p.spill.mark(i)
			}
		}
	}
	return p, nil
}

// Summary is what a point's form says without its cells.
type Summary struct {
	// Config is that in which the point counted, without regard to a fold.
	Config   Config
	Class    Class
	Interval int64
	Packets  uint64
	// Kept is how many cells the form has, all but with a budget.
	Kept int
}

// Check refuses what Decode refuses, without making cells: a point at rest takes far
// less memory as its form.
func Check(b []byte, family hash.Family) (Summary, error) {
	f, err := parse(b, family)
	return Summary{f.counted, f.class, f.number, f.packets, f.kept}, err
}

// form is a point's form, taken apart and checked. It aliases the bytes.
type form struct {
	config, counted  Config
	folded           bool
	fold             uint8
	class            Class
	version          byte // without namesFlows
	names, sampled   bool // it names flows, and has samples of them
	flags            Flags
	number           int64
	packets, outside uint64
	kept             int // cells
	bitmap, cells    []byte
	samples          []byte
	named            int // bits of the bitmap
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
	if b[0] < wideVersion || b[0] > keptVersion+namesFlows {
		return f, fmt.Errorf("%w: %d", ErrVersion, b[0])
	}
	packing, length := b[3], order.Uint32(b[12:])
	if b[1]&^(byte(allFlags)|folded) != 0 || packing > packingZstd || b[0] == wideVersion && (packing != 0 || length != 0 || b[1]&folded != 0) {
		return f, errors.New("reserved bits are set")
	}
	c := Config{Rows: int(b[2]), Virtual: int(order.Uint32(b[4:])), Columns: int(order.Uint32(b[8:])),
		IntervalNs: int64(order.Uint64(b[16:])), Seed: order.Uint64(b[24:]), Hash: family}
	f = form{version: b[0], folded: b[1]&folded != 0, flags: Flags(b[1]) & allFlags, number: int64(order.Uint64(b[32:])), packets: order.Uint64(b[40:]), outside: order.Uint64(b[48:])}
	switch {
	case f.version > keptVersion+namesWhole:
		f.version, f.names, f.sampled = f.version-namesFlows, true, true
	case f.version > keptVersion:
		f.version, f.names = f.version-namesWhole, true
	}
	rest := b[headerBytes:]
	if f.version == keptVersion {
		if len(rest) < 4 {
			return f, fmt.Errorf("%d bytes are too short for a header", len(b))
		}
		f.kept, rest = int(order.Uint32(rest)), rest[4:]
	}
	of := rest
	if f.folded {
		if len(rest) < 5 || f.version == keptVersion {
			return f, errors.New("a fold is cut, or has cells that are kept beside it")
		}
		rest = rest[5:]
	}
	if c.Rows > maxRows || len(rest) < 8*c.Rows {
		return f, fmt.Errorf("%d rows in %d bytes", c.Rows, len(b))
	}
	for r := range c.Rows {
		c.Rates = append(c.Rates, math.Float64frombits(order.Uint64(rest[8*r:])))
	}
	if err := c.Validate(); err != nil {
		return f, err
	}
	f.counted = c
	if f.folded {
		if err := f.setFold(c, int(of[0]), int(order.Uint32(of[1:]))); err != nil {
			return f, err
		}
	}
	if cells := c.Rows * c.Columns; f.version != keptVersion {
		f.kept = cells
	} else if f.kept < 1 || f.kept >= cells || cells/f.kept > maxUnkept {
		return f, fmt.Errorf("%d cells are kept of %d", f.kept, cells)
	}
	rest = rest[8*c.Rows:]
	if f.version != wideVersion {
		if f.class, rest, err = parseClass(rest); err != nil {
			return f, err
		}
	}
	bitmap := (f.kept + 7) / 8
	if len(rest) < bitmap {
		return f, fmt.Errorf("%d bytes do not hold a bitmap of %d cells", len(b), f.kept)
	}
	if f.number > math.MaxInt64/c.IntervalNs-1 || f.number < math.MinInt64/c.IntervalNs+1 {
		return f, fmt.Errorf("interval %d of %d ns lies outside all clocks", f.number, c.IntervalNs)
	}
	f.config, f.bitmap, f.cells = c, rest[:bitmap], rest[bitmap:]
	for _, b := range f.bitmap {
		f.named += bits.OnesCount8(b)
	}
	if f.version != wideVersion {
		if most := f.named*mostCellBytes + streamBytes; int64(length) > int64(most) {
			return f, fmt.Errorf("%d cells do not take %d bytes", f.named, length)
		}
		n := uint32(math.MaxUint32)
		if len(f.cells) >= 4 {
			n = order.Uint32(f.cells)
		}
		if int64(n) > int64(len(f.cells))-4 {
			return f, fmt.Errorf("%d bytes do not hold cells", len(b))
		}
		f.samples = f.cells[4+n:]
		f.cells, err = unpackCells(f.cells[4:4+n], packing, int(length))
	}
	return f, err
}

// check compares the bitmap with the cells, and reads these.
func (f *form) check() error {
	if extra := f.kept % 8; extra != 0 && f.bitmap[len(f.bitmap)-1]>>extra != 0 {
		return errors.New("the bitmap names cells beyond the last")
	}
	if f.version != wideVersion {
		names, rest, err := parseNames(f.samples, f.sampled, false)
		switch {
		case names.rows != 0 && !f.names:
			return fmt.Errorf("%w: %d with names of flows, which an earlier release made", ErrVersion, f.version)
		case err != nil:
			return err
		case f.names && names.rows == 0:
			return errNames
		}
		if _, err := parseSamples(rest, false); err != nil {
			return err
		}
		return checkCells(f.cells, f.named)
	}
	if len(f.cells)%wideBytes != 0 || f.named != len(f.cells)/wideBytes {
		return fmt.Errorf("the bitmap names %d cells, there are %d bytes of them", f.named, len(f.cells))
	}
	for cells := f.cells; len(cells) > 0; cells = cells[wideBytes:] {
		if slices.Max(cells[:wideBytes]) == 0 {
			return errors.New("a cell that is named is empty")
		}
		if c := wideCell(cells); c.Count > math.MaxInt64 { // version 2 has 63 bits for it
			return fmt.Errorf("a cell counts %d packets", c.Count)
		}
	}
	return nil
}

// reader returns the cells one by one; those of a form that was checked have no error.
func (f *form) reader() func() (c Cell, over bool, err error) {
	if f.version != wideVersion {
		return newCellReader(f.cells, f.named).next
	}
	cells := f.cells
	return func() (Cell, bool, error) {
		c := wideCell(cells)
		cells = cells[wideBytes:]
		return c, false, nil
	}
}

// wideCell reads the first cell of the bytes, as version 1 has it: sum 64 | count 64 | digest 64 | bytes 64.
func wideCell(b []byte) Cell {
	return Cell{int64(order.Uint64(b)), order.Uint64(b[8:]), uint32(order.Uint64(b[16:])), order.Uint64(b[24:])}
}
