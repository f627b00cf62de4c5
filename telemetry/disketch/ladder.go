package disketch

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// roundings are those that a budget chooses from, the finest first. What flows err by comes first from the ratio, which is that of the large flows' cells; these are few,
// so a fine one takes some percent more bytes. The least step saves most, until it is about what small flows have (bench/results/scale/ratio.txt).
var roundings = []Rounding{{1, 0, 0}, {1, 8, 0}, {1, 16, 0}, {1, 18, 0}, {1, 20, 0}, {1, 22, 0}, {1, 23, 0}, {1, 24, 0}, {1, 25, 0}, {2, 26, 0}, {8, 28, 0}, {8, 32, 0}, {16, 36, 0}, {32, 40, 0}, {64, 44, 0}, {128, 48, 0}}

// useful of them is the one beyond which a finer one tells little: answers about flows on paths of five switches err by some percent more than those of whole cells, of CountMin
// by a third at most.
const useful = 8

// wholeCells is one in how many cells is whole, of roundings up to the useful one: those by which the heaviest flows are known. Coarser ones have fewer bytes than that takes.
const wholeCells = 32

// rounding is one of the roundings, with what is whole by the cells that the record has.
func (r *Record) rounding(i int) Rounding {
	at := roundings[i]
	if i > useful || !r.rows.rounds() {
		return at
	}
	var sizes [33]int
	cells := 0
	for level := range r.rows.levels() {
		for _, v := range r.rows.cells(level) {
			sizes[bits.Len64(uint64(max(int64(v), -int64(v))))]++
			cells++
		}
	}
	most := cells / wholeCells
	for size := 32; size > 1 && sizes[size] <= most; size-- { // a cell of so many bits is 2^(size-1) or more
		most -= sizes[size]
		at.Whole = uint8(size - 1)
	}
	return at
}

// Useful is the rounding beyond which a finer one tells little of the record.
func (r *Record) Useful() Rounding { return r.rounding(useful) }

// sampledCells is of how many cells a record's size is estimated.
const sampledCells = 4096

// Size estimates how many bytes the binary form takes with a rounding; the zero value: with whole cells. It is within some percent.
func (r *Record) Size(at Rounding) int {
	var s *scale
	if at.valid() && r.rows.rounds() {
		s = newScale(at, r.Seed)
	}
	var count [256]int
	n, cells, offsets := 0, 0, 0
	var varint [binary.MaxVarintLen64]byte
	levels, width := r.rows.levels(), r.rows.width()
	step := max(levels*width/sampledCells, 1)
	for level := range levels {
		row := r.rows.cells(level)
		for column := level % step; column < len(row); column += step {
			code := int64(row[column])
			if s != nil {
				dither := s.dither(level, column)
				if code = s.code(row[column], dither); s.isWhole(code) {
					_, width := s.offset(row[column], code, dither)
					offsets += width
				}
			}
			for _, b := range varint[:binary.PutVarint(varint[:], code)] {
				count[b]++
				n++
			}
			cells++
		}
	}
	const headers = 100
	form, sizes := appendCandidates, 0
	if s != nil {
		form, sizes = appendPlanes, levels*levelSizes
	}
	keys := len(packing.Append(nil, form(nil, r.Candidates))) + sizes
	whole := float64(levels*width) / float64(max(cells, 1))
	return headers + keys + int((min(entropyBits(&count), 8*float64(n))+float64(offsets))/8*whole)
}

// entropyBits is the least that symbols take that come so often.
func entropyBits(count *[256]int) (sum float64) {
	n := 0
	for _, c := range count {
		n += c
	}
	for _, c := range count {
		if c > 0 {
			sum -= float64(c) * math.Log2(float64(c)/float64(n))
		}
	}
	return sum
}

// levelSizes is about what a rounded record says of a level beside its codes, in bytes.
const levelSizes = 24

// Round chooses the finest rounding with which the binary form takes about so many bytes at most, or the coarsest there is. Cells of kinds that are no sums stay whole.
func (r *Record) Round(bytes float64) {
	r.Rounding = Rounding{}
	if !r.rows.rounds() || float64(r.Size(r.Rounding)) <= bytes {
		return
	}
	low, high := 0, len(roundings)-1
	for low < high {
		middle := (low + high) / 2
		if float64(r.Size(r.rounding(middle))) <= bytes {
			high = middle
		} else {
			low = middle + 1
		}
	}
	r.Rounding = r.rounding(low)
}
