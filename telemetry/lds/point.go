package lds

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/internal/hugepage"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Flags say what is known to be wrong with a point's interval.
type Flags uint8

const (
	// Partial: the point did not see the interval from its beginning to its end,
	// as after a restart. Counts then say nothing about loss.
	Partial Flags = 1 << iota
	// Stepped: the point's clock stepped within the interval. Its sums then say
	// nothing of delay.
	Stepped

	allFlags = Partial | Stepped
)

// Members of the hash family: rows 2i and 2i+1 share the two halves of one
// word, flowSeed + i of the flow and packetSeed + i of the packet.
const (
	flowSeed   = 0x6c6473_0100
	packetSeed = 0x6c6473_0200
)

// Point is one measurement point in one interval: one worker's copy of it, or
// several merged. It is made by NewPoint or Decode. It has one writer.
type Point struct {
	// What Block.Add reads is in one line.
	middle  int64  // of the interval
	slack   int64  // a timestamp may be so much before the middle
	span    uint64 // and so much, from there, in all
	packets uint64
	group   *group
	first   uint64 // cell of the point in the group
	columns uint64
	rows    uint8

	outside uint64
	cells   []packed
	spill   spill
	samples samples
	names   names
	config  Config
	made    Config // before SetRows
	counted Config // before it was folded
	fold    uint8  // 2^fold of the cells in counted are one
	class   Class
	number  int64
	flags   Flags
	loaded  bool // the cells come from elsewhere, and may hold what packets does not count
	kept    int  // cells that the form has; all but behind Keep
}

// group is what points that were made together share: hashes and an array of
// cells, a point's behind the other's.
type group struct {
	cells    []packed
	points   []*Point // by their first cell
	family   hash.Family
	flow     uint64 // seeds
	packet   uint64
	virtual  uint64
	sampling bool     // a point of the group samples
	naming   bool     // or names flows
	scatters bool     // packets of a flow go to different cells, or not to all rows
	accept   []uint64 // by row: sampled if below, of 2^32
}

// NewPoint makes an empty point in interval 0.
func NewPoint(c Config) (*Point, error) {
	p, err := NewPoints(c, 1)
	if err != nil {
		return nil, err
	}
	return p[0], nil
}

// NewPoints makes empty points in interval 0, which mix in a Block.
func NewPoints(c Config, n int) ([]*Point, error) {
	return NewPointsOf(slices.Repeat([]Config{c}, n))
}

// NewPointsOf makes an empty point in interval 0 of each config. They mix in a Block; their configs may differ in
// Columns alone.
func NewPointsOf(configs []Config) ([]*Point, error) {
	total := 0
	for i := range configs {
		c := &configs[i]
		if err := c.Validate(); err != nil {
			return nil, fmt.Errorf("LDS point: %w", err)
		}
		if same := *c; true {
			if same.Columns = configs[0].Columns; !same.Equal(configs[0]) {
				return nil, fmt.Errorf("LDS points made together differ in more than columns: %+v and %+v", configs[0], *c)
			}
		}
		total += c.Rows * c.Columns
	}
	if total > math.MaxUint32 {
		return nil, fmt.Errorf("%d LDS points of %d cells in all: make them smaller, or fewer together", len(configs), total)
	}
	if len(configs) == 0 {
		return nil, nil
	}
	g := newGroup(configs[0], hugepage.Make[packed](total))
	first := 0
	for _, c := range configs {
		size := c.Rows * c.Columns
		g.points = append(g.points, newInGroup(g, c, first))
		g.sampling, g.naming = g.sampling || c.Samples > 0, g.naming || c.LostFlows > 0
		first += size
	}
	return g.points, nil
}

func newInGroup(g *group, c Config, first int) *Point {
	c.Rates = slices.Clone(c.Rates)
	size := c.Rows * c.Columns
	p := &Point{
		slack:   c.IntervalNs/2 + c.IntervalNs/2,
		span:    2 * uint64(c.IntervalNs),
		group:   g,
		first:   uint64(first),
		columns: uint64(c.Columns),
		rows:    uint8(c.Rows),
		cells:   g.cells[first : first+size : first+size],
		spill:   newSpill(size, c.IntervalNs),
		samples: newSamples(c.Samples),
		names:   newNames(c.LostFlows, c.WholeNames),
		config:  c,
		made:    c,
		counted: c,
		kept:    size,
	}
	p.Enter(0)
	return p
}

func newGroup(c Config, cells []packed) *group {
	g := &group{
		cells:    cells,
		family:   c.Hash,
		flow:     c.Seed + flowSeed,
		packet:   c.Seed + packetSeed,
		virtual:  uint64(c.Virtual),
		scatters: c.Virtual > 1,
		accept:   c.Accepts(),
	}
	for _, rate := range c.rates() {
		g.scatters = g.scatters || rate < 1
	}
	return g
}

// cell is the column to which a row's 32 bits of a flow's and of a packet's hash
// lead, where packets scatter; in is 1 if the row samples the packet, else 0.
func (g *group) cell(flow, packet, columns, accept uint64) (in int, column uint64) {
	// One product: whole cells in its high half, and a uniform fraction for the
	// sampling in its low half.
	x := packet * g.virtual
	column = flow*columns>>32 + x>>32
	if column >= columns {
		column -= columns
	}
	if x&(1<<32-1) < accept {
		in = 1
	}
	return in, column
}

// Begin empties the point and takes it to the given interval.
func (p *Point) Begin(interval int64) {
	if !p.empty() { // most classes of traffic are idle most of the time
		clear(p.cells)
		p.spill.clear()
		p.samples.clear()
		p.names.clear()
	}
	p.packets, p.outside, p.flags, p.loaded = 0, 0, 0, false
	p.Enter(interval)
}

// empty reports whether no cell can hold anything.
func (p *Point) empty() bool { return p.packets == 0 && !p.loaded }

// Enter takes an empty point to the given interval, without touching its cells:
// a worker does it where Begin would take too long.
func (p *Point) Enter(interval int64) {
	p.number, p.middle = interval, interval*p.config.IntervalNs+p.config.half()
}

// Mark notes what is wrong with the interval.
func (p *Point) Mark(f Flags) { p.flags |= f & allFlags }

// Add counts a packet: the hash of its flow's key, its packet id, its arrival
// on the points' common clock, its length. A timestamp more than half an
// interval outside the interval is not counted, which spoils the packet's cells
// for this interval, and all that its counts say about loss; Outside counts them.
func (p *Point) Add(flow, id uint64, timeNs int64, bytes uint32) {
	p.AddWeighted(flow, id, timeNs, bytes, 1)
}

// AddWeighted counts a packet as often as weight says, from 1 (Section 4.1).
// All packets of a flow must have the same weight, and both points must agree
// on it.
func (p *Point) AddWeighted(flow, id uint64, timeNs int64, bytes, weight uint32) {
	t := timeNs - p.middle
	if uint64(t+p.slack) >= p.span {
		p.outside++
		return
	}
	p.packets++
	g := p.group
	digest := g.family.Uint64(g.packet, id)
	add := Cell{Sum: t * int64(weight), Count: uint64(weight), Digest: uint32(digest), Bytes: uint64(bytes)}
	fh, ph := uint64(0), digest
	if cap(p.samples.list) != 0 && digest>>32 < p.samples.limit {
		p.samples.add(digest, flow, t)
	}
	for r, accept := range g.accept[:p.rows] {
		if r&1 == 0 {
			fh = g.family.Uint64(g.flow+uint64(r)>>1, flow)
			if g.scatters && r > 0 {
				ph = g.family.Uint64(g.packet+uint64(r)>>1, id)
			}
		} else {
			fh, ph = fh<<32, ph<<32
		}
		in, column := 1, fh>>32*p.columns>>32
		if g.scatters {
			in, column = g.cell(fh>>32, ph>>32, p.columns, accept)
		}
		if in != 0 {
			p.addCell(int(uint64(r)*p.columns+column), &add)
		}
	}
}

// Name adds the name of a packet's flow, which was added or is to be, without a block.
func (p *Point) Name(flow uint64, n FlowName) {
	if p.names.rows != 0 {
		p.names.add(p.group.family.Uint64(p.group.flow, flow), n)
	}
}

// addCell adds to a cell what need not fit into it.
func (p *Point) addCell(i int, c *Cell) {
	if !c.fits() {
		p.spill.add(i, c)
		return
	}
	cell := &p.cells[i]
	cell.add(pack(c))
	if cell.guarded() < 0 {
		p.spillCell(i)
	}
}

// spillCell moves a cell that has reached a guard to the spill.
func (p *Point) spillCell(i int) {
	wide := p.cells[i].unpack()
	p.cells[i] = packed{}
	p.spill.add(i, &wide)
}

// base is the first cell of the flow in row r.
func (p *Point) base(flow uint64, r int) int {
	fh := p.group.family.Uint64(p.group.flow+uint64(r)>>1, flow) << (32 * uint(r&1))
	return int(fh >> 32 * p.columns >> 32 >> p.fold)
}

// at is a cell, with its sum from the beginning of the interval.
func (p *Point) at(i int) Cell {
	c := p.cells[i].unpack()
	if wide := p.spill.find(i); wide != nil {
		c.merge(wide)
	}
	c.Sum += int64(c.Count) * p.config.half()
	return c
}

// set makes an empty cell what at returned.
func (p *Point) set(i int, c Cell) {
	c.Sum -= int64(c.Count) * p.config.half()
	p.spill.grow()
	p.addCell(i, &c)
}

// wide are all cells, as at returns them.
func (p *Point) wide() []Cell {
	cells := make([]Cell, len(p.cells))
	for i := range cells {
		cells[i] = p.at(i)
	}
	return cells
}

// maxUnkept is how many times fewer cells than it has a point may keep.
const maxUnkept = 64

// Keep says that the point's form is to have the first cells alone, row by row, and of a row those of the first columns. So a row has
// all flows or, by their hashes, a sample of them, the same at both ends of a way. Further rows know single flows better,
// and the first ones what all have together as well as all do. What else the form says stays whole.
// Cells are taken to be from a share of 1/maxUnkept up to all.
func (p *Point) Keep(cells int) {
	all := len(p.cells)
	p.kept = min(max(cells, (all+maxUnkept-1)/maxUnkept, 1), all)
}

// Kept is how many cells are known: others are empty, and mean nothing.
func (p *Point) Kept() int { return p.kept }

// keptRows is how many rows have a cell that is kept.
func (c *Config) keptRows(kept int) int { return (kept + c.Columns - 1) / c.Columns }

// Config returns the point's config, without regard to a fold.
func (p *Point) Config() Config { return p.counted }

// Made returns the config that the point was made with, before SetRows.
func (p *Point) Made() Config { return p.made }

// Class returns what the point counts; see SetClass.
func (p *Point) Class() Class { return p.class }

// SetClass says what packets the point is given. Points of different classes are not compared.
func (p *Point) SetClass(c Class) { p.class = c }

// Interval returns the number of the interval.
func (p *Point) Interval() int64 { return p.number }

// Flags returns what is known to be wrong with the interval.
func (p *Point) Flags() Flags { return p.flags }

// Packets returns the number of packets counted, whatever they weigh.
func (p *Point) Packets() uint64 { return p.packets }

// Refuse notes packets of the interval that could not be counted: they are among Outside, and losses are not known.
func (p *Point) Refuse(packets uint64) { p.outside += packets }

// Outside returns the number of packets refused for their timestamp.
func (p *Point) Outside() uint64 { return p.outside }

// Cell returns a cell of a point that is not folded, 0 <= row < Rows, 0 <= column < Columns.
func (p *Point) Cell(row, column int) Cell { return p.at(row*p.config.Columns + column) }

// Overfull returns the number of cells that received more than the point has room for. They are refused when points
// are subtracted.
func (p *Point) Overfull() int { return p.spill.lost }

// Clone returns a copy that shares nothing.
func (p *Point) Clone() *Point {
	q := *p
	q.cells, q.first, q.spill, q.samples = slices.Clone(p.cells), 0, p.spill.clone(), p.samples.clone()
	q.names.buckets = slices.Clone(p.names.buckets)
	q.group = newGroup(p.made, q.cells)
	q.group.points, q.group.sampling, q.group.naming = []*Point{&q}, cap(q.samples.list) > 0, q.names.rows > 0
	return &q
}

// Merge adds another worker's copy of the same point and interval. The order
// of merging is of no consequence. An empty point takes the other's rows.
func (p *Point) Merge(q *Point) error {
	if p.made.Equal(q.made) {
		p.SetRows(q.config.Rows)
	}
	if err := compatible(p, q); err != nil {
		return fmt.Errorf("merge LDS points: %w", err)
	}
	for i := range p.cells {
		cell := &p.cells[i]
		cell.add(q.cells[i])
		if cell.guarded() < 0 {
			p.spill.grow()
			p.spillCell(i)
		}
	}
	for at, k := range q.spill.keys {
		if k != 0 {
			p.spill.grow()
			p.spill.add(int(k-1), &q.spill.cells[at])
		}
	}
	if q.spill.lost != 0 {
		for i := range q.cells {
			if q.spill.overfull(i) {
				p.spill.mark(i)
			}
		}
	}
	if len(p.names.buckets) != len(q.names.buckets) || p.names.rows != q.names.rows {
		return fmt.Errorf("merge LDS points: names of %d and %d buckets", len(p.names.buckets), len(q.names.buckets))
	}
	p.names.merge(&q.names)
	p.samples.merge(&q.samples)
	p.packets += q.packets
	p.outside += q.outside
	p.flags |= q.flags
	p.loaded = p.loaded || q.loaded
	return nil
}

// compatible explains why two points cannot be merged or subtracted, if so.
func compatible(p, q *Point) error {
	if !p.counted.Equal(q.counted) {
		return fmt.Errorf("configs differ: %+v and %+v", p.counted, q.counted)
	}
	if !p.config.Equal(q.config) {
		return fmt.Errorf("cells are folded to %d rows of %d and %d of %d", p.config.Rows, p.config.Columns, q.config.Rows, q.config.Columns)
	}
	if !p.class.Same(&q.class) {
		return fmt.Errorf("classes %v and %v differ", &p.class, &q.class)
	}
	if p.number != q.number {
		return fmt.Errorf("intervals %d and %d differ", p.number, q.number)
	}
	return nil
}
