package disketch

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// A Rounding says how coarse the cells of a record are, where the whole ones would take more bytes than a budget has; the zero value: not at all.
//
// A cell v becomes a number, its code, on a scale that is even near 0 and logarithmic beyond, so small cells stay exact, or nearly so, and
// large ones keep a share of their value:
//
//	code = floor(asinh(v/c)/ratio + dither + 1/2)        step(v) = ratio sqrt(v^2 + c^2), least = ratio c
//
// The dither, from -1/2 to 1/2, is a hash of the record's seed and the cell's column, which the reader knows. So the error of a
// cell's value does not depend on it, and the true value is within known limits (span). Values have no bias, but where a step is about 1, and a code stands
// for one whole number or two: there it is 0.07 packets at most. The hash is another one in each record, so errors
// of one flow's cells on several switches, and in several epochs, are independent, too.
type Rounding struct {
	// Ratio is the step of large cells beside their value, in units of 1/ratioOne.
	Ratio uint16
	// Least is the step of small cells, its logarithm to base 2 in units of 1/4; 0 is a step of 1: the cells themselves.
	Least uint8
	// Whole is the logarithm to base 2 from which on, or some steps more, cells are whole all the same: their records have also where in its span each is. 0: none is.
	Whole uint8
}

// Steps are at most 2^16 for small cells, maxLeast, and 4 times the value for large ones, maxRatio.
const (
	ratioOne = 512
	maxRatio = 4 * ratioOne
	maxLeast = 64
	maxWhole = 32
)

func (r Rounding) valid() bool {
	return r.Ratio > 0 && r.Ratio <= maxRatio && r.Least <= maxLeast && r.Whole <= maxWhole
}

// scale is a Rounding with the dither of a record.
type scale struct {
	Rounding
	seed          uint64
	ratio, c      float64
	up, down, mid float64 // e^(ratio/2), its inverse, and what the middle of a span is beside its value without bias
	most          int64   // the largest code
	whole         int64   // the least code of cells that are whole
}

func newScale(r Rounding, seed uint64) *scale {
	s := &scale{Rounding: r, seed: hash.Uint64(seed, 'd'), ratio: float64(r.Ratio) / ratioOne}
	s.c = math.Exp2(float64(r.Least)/4) / s.ratio
	s.up = math.Exp(s.ratio / 2)
	s.down = 1 / s.up
	// The mean over the dither of k c sinh(ratio t) is v with this k; the middle of a span is c sinh(ratio t) cosh(ratio/2).
	s.mid = s.ratio/(s.up-s.down) - (s.up+s.down)/2
	s.most = int64(math.Asinh(1<<31/s.c)/s.ratio) + 2
	if s.whole = s.most + 1; r.Whole > 0 {
		s.whole = int64(math.Ceil(math.Asinh(math.Exp2(float64(r.Whole))/s.c)/s.ratio)) + 1 // no smaller cell has it, whatever its dither
	}
	return s
}

// dither is that of a cell.
func (s *scale) dither(level, column int) float64 {
	return float64(hash.Uint64x2(s.seed, uint64(level), uint64(column))>>11)*0x1p-53 - 0.5
}

// code is that of a cell.
func (s *scale) code(v int32, dither float64) int64 {
	return int64(math.Floor(math.Asinh(float64(v)/s.c)/s.ratio + dither + 0.5))
}

// span is what a cell with a code holds: a value without bias, and the limits that the true one is within, whole numbers.
func (s *scale) span(code int64, dither float64) (value, low, high float64) {
	e := math.Exp(s.ratio * (float64(code) - dither))
	a, b := e*s.down, e*s.up
	low, high = math.Ceil(s.c/2*(a-1/a)), math.Ceil(s.c/2*(b-1/b))-1
	if high <= low { // one number, or by a code that no cell has none
		return low, low, low
	}
	value = (low+high)/2 + s.mid*s.c/2*(e-1/e)
	return min(max(value, low), high), low, high
}

// isWhole says that cells of a code are whole.
func (s *scale) isWhole(code int64) bool { return code >= s.whole || code <= -s.whole }

// offset is where in the span of its code a whole cell is, and in how many bits.
func (s *scale) offset(v int32, code int64, dither float64) (offset uint64, width int) {
	_, low, high := s.span(code, dither)
	return uint64(min(max(float64(v)-low, 0), high-low)), offsetBits(low, high)
}

// offsetBits is how many bits an offset takes.
func offsetBits(low, high float64) int { return bits.Len64(uint64(high - low)) }

// observed is what a record says of a flow in a subepoch: an estimate, and by how much the cell of which it is may have held less, or more.
type observed struct{ count, below, above float64 }

// numbers is how many values the cell may have had.
func (o *observed) numbers() float64 { return o.below + o.above + 1 }

// variance of what rounding adds to the estimate.
func (o *observed) variance() float64 {
	n := o.numbers()
	return (n*n - 1) / 12
}

// appendRounded appends the form of rows of a linear kind: that of whole ones, with the cells' codes in their place, and before them for each level
//
//	moment(8, IEEE 754, little-endian): the sum of the cells of CountMin, else of their squares
//	n(1), and n uvarints: how many cells have an amount of so many bits, from 0
//
// so the error of a row and the noise in it (noise) are those of whole cells. offsets are those of whole cells, in the order of the codes.
func (r *rows) appendRounded(b []byte, s *scale) (codes, offsets []byte) {
	switch {
	case r.sketch != nil:
		b = binary.LittleEndian.AppendUint64(sketch.AppendHeader(b, sketch.KindCountSketchRow), r.sketch.Seed())
	case r.min != nil:
		b = binary.LittleEndian.AppendUint64(sketch.AppendHeader(b, sketch.KindCountMinRow), r.min.Seed())
	default:
		b = r.univ.AppendHeader(b)
	}
	b = binary.AppendUvarint(b, uint64(r.levels()*r.width()))
	b = binary.AppendUvarint(b, r.saturated())
	for level := range r.levels() {
		moment, n := 0.0, 0
		var sizes [33]uint64
		for _, v := range r.cells(level) {
			size := bits.Len64(uint64(max(int64(v), -int64(v))))
			sizes[size]++
			n = max(n, size+1)
			if r.min != nil {
				moment += float64(v)
			} else {
				moment += float64(v) * float64(v)
			}
		}
		b = append(binary.LittleEndian.AppendUint64(b, math.Float64bits(moment)), byte(n))
		for _, count := range sizes[:n] {
			b = binary.AppendUvarint(b, count)
		}
	}
	var whole packing.Bits
	for level := range r.levels() {
		for column, v := range r.cells(level) {
			dither := s.dither(level, column)
			code := s.code(v, dither)
			b = binary.AppendVarint(b, code)
			if s.isWhole(code) {
				whole.Add(s.offset(v, code, dither))
			}
		}
	}
	return b, whole.Bytes()
}

// rounds says whether cells can be rounded: those of kinds that are sums.
func (r *rows) rounds() bool { return r.packed == nil && r.other == nil }

// measured is what a record of rounded cells says of all cells of a level.
type measured struct {
	moment float64
	sizes  [33]float64
	codes  []uint32 // how many cells have each code, from the least possible one
}

// scanRounded reads all that is behind the header once, instead of scan, and the offsets of whole cells.
func (p *packed) scanRounded(b []byte) error {
	p.measured = make([]measured, p.nLevels)
	power := 2
	if p.of == CountMin {
		power = 1
	}
	for level := range p.measured {
		var err error
		if b, err = p.measured[level].decode(b, p.width, power); err != nil {
			return err
		}
	}
	p.cellsAt = len(p.body) - len(b)
	if len(b) < p.nLevels*p.width {
		return fmt.Errorf("%d cells, with %d bytes", p.nLevels*p.width, len(b))
	}
	p.blocks = make([]uint32, 0, p.nLevels*p.blocksOf())
	at, most, offsets := 0, p.scale.most, packing.ReadBits(p.offsets)
	for level := range p.measured {
		m := &p.measured[level]
		m.codes = make([]uint32, 2*most+1)
		for column := range p.width {
			if column%blockCells == 0 {
				p.blocks = append(p.blocks, uint32(at))
			}
			if at >= len(b) {
				return errors.New("cells end early")
			}
			code, n := int64(b[at]>>1)^-int64(b[at]&1), 1
			if b[at] >= 0x80 {
				if code, n = binary.Varint(b[at:]); n <= 0 {
					return errors.New("a cell ends early or is too large")
				}
			}
			if code > most || code < -most || code < 0 && p.of == CountMin {
				return fmt.Errorf("a cell of the code %d; the largest is %d", code, most)
			}
			if p.scale.isWhole(code) {
				_, low, high := p.scale.span(code, p.scale.dither(level, column))
				offset := float64(offsets.Take(offsetBits(low, high)))
				if offset > high-low || low+offset > math.MaxInt32 || low+offset < math.MinInt32 {
					return fmt.Errorf("a whole cell of %g more than %g, of up to %g", offset, low, high)
				}
				p.whole = append(p.whole, wholeCell{uint32(level*p.width + column), int32(low + offset)})
			}
			m.codes[code+most]++
			at += n
		}
	}
	if at != len(b) {
		return fmt.Errorf("%d bytes behind the cells", len(b)-at)
	}
	if !offsets.Whole() {
		return fmt.Errorf("%d bytes are not those of %d whole cells", len(p.offsets), len(p.whole))
	}
	return nil
}

// decode reads all but the codes, of so many cells of which the moment is the sum of a power, from the beginning of b.
func (m *measured) decode(b []byte, cells, power int) ([]byte, error) {
	if len(b) < 9 || b[8] > byte(len(m.sizes)) {
		return nil, errors.New("what is said of all cells ends early")
	}
	m.moment = math.Float64frombits(binary.LittleEndian.Uint64(b))
	n := int(b[8])
	b = b[9:]
	least, most, sum := 0.0, 0.0, 0.0 // of the moment, and the number of cells
	for size := range n {
		count, width := binary.Uvarint(b)
		if width <= 0 || count > uint64(cells) {
			return nil, fmt.Errorf("an amount of cells ends early or is above %d", cells)
		}
		m.sizes[size], b = float64(count), b[width:]
		sum += float64(count)
		if size > 0 {
			least += float64(count) * math.Ldexp(1, power*(size-1))
			most += float64(count) * math.Ldexp(1, power*size)
		}
	}
	if sum != float64(cells) || !(m.moment >= least && m.moment <= most) {
		return nil, fmt.Errorf("%g cells of %d, with a moment of %g, from %g to %g", sum, cells, m.moment, least, most)
	}
	return b, nil
}

// holdsRounded is rows.holds of rounded cells.
func (p *packed) holdsRounded(value uint64) bool {
	if p.of == UnivMon && uint64(p.total) != value {
		return false
	}
	if p.saturate > 0 {
		return true
	}
	least, most := 0.0, 0.0
	for l := range p.measured {
		m := &p.measured[l]
		if p.of == CountMin && m.moment != float64(value) {
			return false
		}
		zeros := m.sizes[0]
		if zeros > float64(m.codes[p.scale.most]) { // whatever the dither, 0 has the code 0
			return false
		}
		for i, n := range m.codes {
			if n == 0 {
				continue
			}
			code := max(int64(i)-p.scale.most, p.scale.most-int64(i))
			_, low, _ := p.scale.span(code, 0.5)
			_, _, high := p.scale.span(code, -0.5)
			least += float64(n) * max(low, 0)
			most += float64(n) * high
		}
	}
	return least <= float64(value) && (p.of != CountMin || most >= float64(value))
}

// prepareRounded is prepare of rounded cells.
func (p *packed) prepareRounded() []level {
	levels := make([]level, p.nLevels)
	squares := 0.0
	for l := range p.measured {
		m := &p.measured[l]
		squares += m.moment
		rho := m.moment / float64(p.width)
		if p.of != CountMin {
			rho = math.Sqrt(rho)
		}
		p.errors, levels[l].rho = append(p.errors, rho), rho
		levels[l].count(&m.sizes, p.width)
	}
	if p.error = p.errors[0]; p.of == UnivMon {
		p.error = math.Sqrt(squares / float64(p.width))
	}
	p.measured = nil
	return levels
}

// eachSize says how many of the whole numbers from low to high have an amount of so many bits.
func eachSize(low, high float64, f func(size int, numbers float64)) {
	if low < 0 {
		if high < 0 {
			low, high = -high, -low
		} else {
			eachSize(1, -low, f)
			low = 0
		}
	}
	for low <= high {
		size, end := min(bits.Len64(uint64(min(low, 1<<32))), 32), high
		if size < 32 {
			end = min(high, math.Ldexp(1, size)-1)
		}
		f(size, end-low+1)
		if end == high { // of large numbers the next one is the same
			return
		}
		low = end + 1
	}
}

// rounded is what a rounded cell holds.
func (p *packed) rounded(level, column int) (value, low, high float64) {
	code := int64(p.at(level, column))
	if p.scale.isWhole(code) {
		at, _ := slices.BinarySearchFunc(p.whole, uint32(level*p.width+column), func(x wholeCell, place uint32) int { return cmp.Compare(x.place, place) })
		v := float64(p.whole[at].value)
		return v, v, v
	}
	value, low, high = p.scale.span(code, p.scale.dither(level, column))
	if p.of == CountMin {
		low = max(low, 0)
		value, high = max(value, low), max(high, low)
	}
	return value, low, high
}

// observeRounded is observe of rounded cells: of Count-Min what is never too low.
func (p *packed) observeRounded(level, column int, negative bool) observed {
	value, low, high := p.rounded(level, column)
	switch {
	case p.of == CountMin:
		return observed{count: high, below: high - low}
	case negative:
		return observed{count: -value, below: high - value, above: value - low}
	}
	return observed{count: value, below: value - low, above: high - value}
}
