package lds

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/internal/hugepage"
	"github.com/weirswitch/weir/telemetry/hash"
)

// Cell sums up the packets that a row's hash sent to it. Two of them fill a
// cache line, so a packet costs one line per row.
type Cell struct {
	// Sum is the sum of weight * timestamp, in nanoseconds from the beginning of
	// the interval, modulo 2^64.
	Sum int64
	// Count is the sum of the weights: the number of packets where all weigh 1.
	Count uint64
	// Digest is the sum of the packets' digests modulo 2^64.
	Digest uint64
	// Bytes is the sum of the packets' lengths, whatever they weigh.
	Bytes uint64
}

const cellBytes = 32

func (c *Cell) merge(d *Cell) {
	c.Sum += d.Sum
	c.Count += d.Count
	c.Digest += d.Digest
	c.Bytes += d.Bytes
}

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
	// What Block.Put reads is in one line.
	start   int64  // of the interval
	slack   int64  // a timestamp may be so much before start
	span    uint64 // and so much, from there, in all
	packets uint64
	outside uint64
	group   *group
	first   uint64 // cell of the point in the group

	cells  []Cell
	config Config
	number int64
	flags  Flags
}

// group is what points that were made together share: hashes and an array of
// cells, a point's behind the other's.
type group struct {
	cells    []Cell
	family   hash.Family
	flow     uint64 // seeds
	packet   uint64
	columns  uint64
	virtual  uint64
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
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("LDS point: %w", err)
	}
	c.Rates = slices.Clone(c.Rates)
	size := c.Rows * c.Columns
	if n > math.MaxUint32/size {
		return nil, fmt.Errorf("%d LDS points of %d cells: make them smaller, or fewer together", n, size)
	}
	g := newGroup(c, hugepage.Make[Cell](n*size))
	points := make([]*Point, n)
	for i := range points {
		points[i] = &Point{
			slack:  c.IntervalNs / 2,
			span:   2 * uint64(c.IntervalNs),
			group:  g,
			first:  uint64(i * size),
			cells:  g.cells[i*size : (i+1)*size : (i+1)*size],
			config: c,
		}
	}
	return points, nil
}

func newGroup(c Config, cells []Cell) *group {
	g := &group{
		cells:    cells,
		family:   c.Hash,
		flow:     c.Seed + flowSeed,
		packet:   c.Seed + packetSeed,
		columns:  uint64(c.Columns),
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
	clear(p.cells)
	p.packets, p.outside, p.flags = 0, 0, 0
	p.Enter(interval)
}

// Enter takes an empty point to the given interval, without touching its cells:
// a worker does it where Begin would take too long.
func (p *Point) Enter(interval int64) {
	p.number, p.start = interval, interval*p.config.IntervalNs
}

// Mark notes what is wrong with the interval.
func (p *Point) Mark(f Flags) { p.flags |= f & allFlags }

// Add counts a packet: the hash of its flow's key, its packet id, its arrival
// on the points' common clock, its length. A timestamp more than half an
// interval outside the interval is not counted, which spoils the packet's cells
// for this interval; Outside counts them.
func (p *Point) Add(flow, id uint64, timeNs int64, bytes uint32) {
	p.AddWeighted(flow, id, timeNs, bytes, 1)
}

// AddWeighted counts a packet as often as weight says, from 1 (Section 4.1).
// All packets of a flow must have the same weight, and both points must agree
// on it.
func (p *Point) AddWeighted(flow, id uint64, timeNs int64, bytes, weight uint32) {
	t := timeNs - p.start
	if uint64(t+p.slack) >= p.span {
		p.outside++
		return
	}
	p.packets++
	g := p.group
	digest := g.family.Uint64(g.packet, id)
	add := Cell{Sum: t * int64(weight), Count: uint64(weight), Digest: digest, Bytes: uint64(bytes)}
	fh, ph := uint64(0), digest
	for r, accept := range g.accept {
		if r&1 == 0 {
			fh = g.family.Uint64(g.flow+uint64(r)>>1, flow)
			if g.scatters && r > 0 {
				ph = g.family.Uint64(g.packet+uint64(r)>>1, id)
			}
		} else {
			fh, ph = fh<<32, ph<<32
		}
		in, column := 1, fh>>32*g.columns>>32
		if g.scatters {
			in, column = g.cell(fh>>32, ph>>32, g.columns, accept)
		}
		if in != 0 {
			p.cells[uint64(r)*g.columns+column].merge(&add)
		}
	}
}

// base is the first cell of the flow in row r.
func (p *Point) base(flow uint64, r int) int {
	fh := p.group.family.Uint64(p.group.flow+uint64(r)>>1, flow) << (32 * uint(r&1))
	return int(fh >> 32 * p.group.columns >> 32)
}

// Config returns the point's config.
func (p *Point) Config() Config { return p.config }

// Interval returns the number of the interval.
func (p *Point) Interval() int64 { return p.number }

// Flags returns what is known to be wrong with the interval.
func (p *Point) Flags() Flags { return p.flags }

// Packets returns the number of packets counted, whatever they weigh.
func (p *Point) Packets() uint64 { return p.packets }

// Outside returns the number of packets refused for their timestamp.
func (p *Point) Outside() uint64 { return p.outside }

// Cell returns a cell, 0 <= row < Rows, 0 <= column < Columns.
func (p *Point) Cell(row, column int) Cell { return p.cells[row*p.config.Columns+column] }

// Clone returns a copy that shares nothing.
func (p *Point) Clone() *Point {
	q := *p
	q.cells, q.first = slices.Clone(p.cells), 0
	q.group = newGroup(p.config, q.cells)
	return &q
}

// Merge adds another worker's copy of the same point and interval. The order
// of merging is of no consequence.
func (p *Point) Merge(q *Point) error {
	if err := compatible(p, q); err != nil {
		return fmt.Errorf("merge LDS points: %w", err)
	}
	for i := range p.cells {
		p.cells[i].merge(&q.cells[i])
	}
	p.packets += q.packets
	p.outside += q.outside
	p.flags |= q.flags
	return nil
}

// compatible explains why two points cannot be merged or subtracted, if so.
func compatible(p, q *Point) error {
	if !p.config.Equal(q.config) {
		return fmt.Errorf("configs differ: %+v and %+v", p.config, q.config)
	}
	if p.number != q.number {
		return fmt.Errorf("intervals %d and %d differ", p.number, q.number)
	}
	return nil
}
