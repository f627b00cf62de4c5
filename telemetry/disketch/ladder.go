package disketch

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// roundings are those that a budget chooses from, the finest first. What flows err by comes first from the ratio, which is that of the large flows' cells; these are few,
// so a fine one takes some percent more bytes. The least step saves most, until it is about what small flows have (bench/results/scale/ratio.txt).
var roundings = []Rounding{{1, 0}, {1, 8}, {1, 16}, {1, 20}, {1, 24}, {1, 26}, {1, 28}, {1, 32}, {2, 36}, {4, 40}, {8, 44}, {16, 48}}

// Useful is the rounding beyond which a finer one tells little: answers about flows on paths of five switches err by some percent more than those of whole cells, of CountMin
// by two thirds.
var Useful = roundings[6]

// sampledCells is of how many cells a record's size is estimated.
const sampledCells = 4096

// Size estimates how many bytes the binary form takes with a rounding; the zero value: with whole cells. It is within some percent.
func (r *Record) Size(at Rounding) int {
	var s *scale
	if at.valid() && r.rows.rounds() {
		s = newScale(at, r.Seed)
	}
	var count [256]int
	n, cells := 0, 0
	var varint [binary.MaxVarintLen64]byte
	levels, width := r.rows.levels(), r.rows.width()
	step := max(levels*width/sampledCells, 1)
	for level := range levels {
		row := r.rows.cells(level)
		for column := level % step; column < len(row); column += step {
			code := int64(row[column])
			if s != nil {
				code = s.code(row[column], s.dither(level, column))
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
	return headers + keys + int(min(float64(huffmanBits(&count)), runs*entropyBits(&count), 8*float64(n))/8*whole)
}

// runs is about how much more than their entropy bytes take of which most are the same, as runs of them are named.
const runs = 1.2

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

// huffmanBits is how many bits symbols take that come so often.
func huffmanBits(count *[256]int) (sum int) {
	var nodes []int
	for _, n := range count {
		if n > 0 {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	// Nodes that were joined come in order of their weights, too: the two lightest are first in one list or the other.
	var joined []int
	least := func() (n int) {
		if len(joined) == 0 || len(nodes) > 0 && nodes[0] <= joined[0] {
			n, nodes = nodes[0], nodes[1:]
		} else {
			n, joined = joined[0], joined[1:]
		}
		return n
	}
	for len(nodes)+len(joined) > 1 {
		n := least() + least()
		sum += n
		joined = append(joined, n)
	}
	return sum
}

// Round chooses the finest rounding with which the binary form takes about so many bytes at most, or the coarsest there is. Cells of kinds that are no sums stay whole.
func (r *Record) Round(bytes float64) {
	r.Rounding = Rounding{}
	if !r.rows.rounds() || float64(r.Size(r.Rounding)) <= bytes {
		return
	}
	low, high := 0, len(roundings)-1
	for low < high {
		middle := (low + high) / 2
		if float64(r.Size(roundings[middle])) <= bytes {
			high = middle
		} else {
			low = middle + 1
		}
	}
	r.Rounding = roundings[low]
}
