package lds

import (
	"math/bits"
	"slices"
)

// Cell sums up the packets that a row's hash sent to it.
type Cell struct {
	// Sum is the sum of weight * timestamp, in nanoseconds from the beginning of
	// the interval, modulo 2^64.
	Sum int64
	// Count is the sum of the weights: the number of packets where all weigh 1.
	Count uint64
	// Digest is the sum of the packets' digests modulo 2^32.
	Digest uint32
	// Bytes is the sum of the packets' lengths, whatever they weigh.
	Bytes uint64
}

func (c *Cell) merge(d *Cell) {
	c.Sum += d.Sum
	c.Count += d.Count
	c.Digest += d.Digest
	c.Bytes += d.Bytes
}

// packed is a cell in memory, four to a cache line. Its sum is taken from the middle of the
// interval, which keeps it small: timestamps before and behind cancel out.
//
//	sum 46 | count 18        digest 32 | bytes 32
//
// The fields are added two at a time, by the addition of a word: the upper one wraps, the lower
// one and the sum have a bit to spare, their guard. A cell that reaches a guard is moved to the
// point's spill, so its fields are exact however full it gets.
type packed struct {
	sums, digests uint64
}

// What a cell holds without its guards, and a packet of a Block adds at most.
const (
	countBits    = 18
	sumLimit     = 1 << (63 - countBits - 1)
	countLimit   = 1 << (countBits - 1)
	bytesLimit   = 1 << 31
	cellBytes    = 16
	wideBytes    = 32
	mostSum      = sumLimit / BlockSize
	mostCount    = countLimit / BlockSize
	mostBytes    = bytesLimit / BlockSize
	countShift   = 64 - countBits
	bytesMask    = 1<<32 - 1
	countMask    = 1<<countBits - 1
	digestOffset = 32
)

// guarded is below 0 if a field has reached its guard.
func (c packed) guarded() int64 {
	return int64(c.sums ^ c.sums<<1 | c.sums<<countShift | c.digests<<digestOffset)
}

func (c *packed) add(d packed) {
	c.sums += d.sums
	c.digests += d.digests
}

// pack returns a cell whose sum is from the middle of the interval; it must fit.
func pack(c *Cell) packed {
	return packed{uint64(c.Sum)<<countBits + c.Count, uint64(c.Digest)<<digestOffset | c.Bytes}
}

func (c packed) unpack() Cell {
	return Cell{Sum: int64(c.sums) >> countBits, Count: c.sums & countMask, Digest: uint32(c.digests >> digestOffset), Bytes: c.digests & bytesMask}
}

// fits reports whether the fields are below their guards.
func (c *Cell) fits() bool {
	return c.Sum < sumLimit && c.Sum >= -sumLimit && c.Count < countLimit && c.Bytes < bytesLimit
}

// spill has the cells that outgrew the packed form, by their number: an open-addressing table of fixed size on the packet
// path, which does not allocate. Where it is full the cell is overfull: it is marked, and refused when points are subtracted.
// It has one user.
type spill struct {
	keys  []uint32 // number + 1; 0: free
	cells []Cell   // sums are from the middle of the interval
	used  int
	over  []uint64 // a bit per cell of the point: overfull
	lost  int      // bits of over that are set
}

// A point has an entry of its spill for so many cells, and no fewer than leastSpill. Each entry has received 131,072
// packets, or 2^44 ns from the middle of the interval.
const (
	spillShare = 64
	leastSpill = 64
)

// spillSize is the number of entries for so many cells.
// In intervals of more than 2^31 ns, sums outgrow cells after fewer packets, and there is as much more room: for all cells in the end.
func spillSize(cells int, intervalNs int64) int {
	share := max(spillShare>>max(bits.Len64(uint64(intervalNs))-31, 0), 1)
	n := max(cells/share, leastSpill)
	if share == 1 {
		n = cells + cells/7 + 1 // a table is full at 7/8
	}
	return 1 << bits.Len(uint(n-1))
}

// spillBytes is the memory of a spill for so many cells.
func spillBytes(cells int, intervalNs int64) int {
	return spillSize(cells, intervalNs)*(4+wideBytes) + (cells+63)/64*8
}

func newSpill(cells int, intervalNs int64) spill {
	n := spillSize(cells, intervalNs)
	return spill{keys: make([]uint32, n), cells: make([]Cell, n), over: make([]uint64, (cells+63)/64)}
}

// slot is where a cell's entry is, or would be.
func (s *spill) slot(i int) int {
	mask := uint32(len(s.keys) - 1)
	at := uint32(i) * 0x9e3779b1 >> 8 & mask
	for s.keys[at] != 0 && s.keys[at] != uint32(i)+1 {
		at = (at + 1) & mask
	}
	return int(at)
}

// find returns the entry of a cell, nil if it has none.
func (s *spill) find(i int) *Cell {
	if s.used == 0 {
		return nil
	}
	if at := s.slot(i); s.keys[at] != 0 {
		return &s.cells[at]
	}
	return nil
}

// add adds to the entry of a cell. Without room the cell is overfull.
func (s *spill) add(i int, c *Cell) {
	at := s.slot(i)
	if s.keys[at] == 0 {
		if s.used >= len(s.keys)*7/8 {
			s.mark(i)
			return
		}
		s.keys[at] = uint32(i) + 1
		s.used++
	}
	s.cells[at].merge(c)
}

// grow makes room for another entry, beside the packet path.
func (s *spill) grow() {
	if s.used < len(s.keys)*7/8 {
		return
	}
	old := *s
	s.keys, s.cells, s.used = make([]uint32, 2*len(old.keys)), make([]Cell, 2*len(old.keys)), 0
	for at, k := range old.keys {
		if k != 0 {
			s.add(int(k-1), &old.cells[at])
		}
	}
}

func (s *spill) mark(i int) {
	if bit := uint64(1) << (i & 63); s.over[i>>6]&bit == 0 {
		s.over[i>>6] |= bit
		s.lost++
	}
}

func (s *spill) overfull(i int) bool { return s.lost != 0 && s.over[i>>6]>>(i&63)&1 != 0 }

func (s *spill) clear() {
	if s.used != 0 {
		clear(s.keys)
		clear(s.cells)
	}
	if s.lost != 0 {
		clear(s.over)
	}
	s.used, s.lost = 0, 0
}

func (s *spill) clone() spill {
	c := *s
	c.keys, c.cells, c.over = slices.Clone(s.keys), slices.Clone(s.cells), slices.Clone(s.over)
	return c
}
