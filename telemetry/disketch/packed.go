package disketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
	"github.com/weirswitch/weir/telemetry/sketch/univmon"
)

// packed are the cells of a fragment in their binary form, of which queries read single
// ones: most cells take a byte there, and four in rows. A cell is a varint, so where every
// blockCells-th one begins is noted:
//
//	body    | 0 0 1 0 ... | 0 -3 200 0 ...     | of one level, and so on
//	blocks    ^             ^
//
// It is immutable; the owner of the bytes owns it.
type packed struct {
	of        Kind
	nLevels   int
	width     int // of a level
	seed      uint64
	levelSeed uint64
	family    hash.Family
	total     int64 // of UnivMon
	saturate  uint64
	body      []byte
	cellsAt   int       // in body
	blocks    []uint32  // by level and block, from cellsAt
	errors    []float64 // by level: Equation 4
	error     float64   // of all levels
	scans     []scan    // by level; nil once they are used
	// Of rounded cells, whose codes are in the body: how, and what is known of each level, nil once it is used.
	scale    *scale
	measured []measured
	offsets  []byte
	whole    []wholeCell // in order
}

// wholeCell is one of a record of rounded cells that is whole.
type wholeCell struct {
	place uint32 // level * width + column
	value int32
}

// blockCells is after how many cells a position is noted: a power of two. It costs a
// sixteenth of the body at most.
const blockCells = 64

// scan is what all cells of a level say.
type scan struct {
	sum, odd int64   // of the cells, and how many are odd
	amount   uint64  // sum of the cells without their signs
	squares  float64 // sum
	negative bool
	sizes    [33]int // how many cells have an amount of so many bits
}

// unpack reads the binary form of rows of a kind, all of it; of rounded cells by their scale and the offsets of those
// that are whole.
func unpack(kind Kind, body []byte, s *scale, offsets []byte) (*packed, error) {
	p := &packed{of: kind, nLevels: 1, body: body, scale: s, offsets: offsets}
	var d *sketch.Reader
	switch kind {
	case CountSketch:
		d = sketch.NewReader(body, sketch.KindCountSketchRow)
		p.seed = d.Uint64()
	case CountMin:
		d = sketch.NewReader(body, sketch.KindCountMinRow)
		p.seed = d.Uint64()
	case UnivMon:
		d = sketch.NewReader(body, sketch.KindUnivMonFragment)
		p.nLevels = int(d.Byte())
		p.levelSeed, p.seed, p.total = d.Uint64(), d.Uint64(), int64(d.Uint64())
	default:
		return nil, fmt.Errorf("%v is unknown", kind)
	}
	cells := d.Uvarint()
	p.saturate = d.Uvarint()
	if err := d.Err(); err != nil {
		return nil, err
	}
	rest := d.Rest()
	switch {
	case cells < 1 || cells > sketch.MaxWidth || cells > uint64(len(rest)):
		return nil, fmt.Errorf("a row of %d cells, with %d bytes behind it", cells, len(rest))
	case p.nLevels < 1 || p.nLevels > univmon.MaxLevels || int(cells)%p.nLevels != 0:
		return nil, fmt.Errorf("%d cells of %d levels", cells, p.nLevels)
	}
	p.width, p.cellsAt = int(cells)/p.nLevels, len(body)-len(rest)
	if s != nil {
		return p, p.scanRounded(rest)
	}
	return p, p.scan(rest)
}

// scan reads all cells once.
func (p *packed) scan(cells []byte) error {
	p.scans = make([]scan, p.nLevels)
	p.blocks = make([]uint32, 0, p.nLevels*p.blocksOf())
	at := 0
	for level := range p.scans {
		var small [4][128]uint32 // cells of one byte, by the byte; four, as the same one often comes again
		s := &p.scans[level]
		for left := p.width; left > 0; left -= blockCells {
			p.blocks = append(p.blocks, uint32(at))
			n, err := s.block(cells[at:], min(left, blockCells), &small)
			if err != nil {
				return err
			}
			at += n
		}
		for b := range small[0] {
			if n := uint64(small[0][b]) + uint64(small[1][b]) + uint64(small[2][b]) + uint64(small[3][b]); n != 0 {
				s.add(int64(b>>1)^-int64(b&1), n)
			}
		}
	}
	if at != len(cells) {
		return fmt.Errorf("%d bytes behind the cells", len(cells)-at)
	}
	return nil
}

// block reads n cells, and returns how many bytes they take. Eight of one byte each are
// counted at once, and cells of up to two without a branch on which it is, since that
// cannot be foretold.
func (s *scan) block(b []byte, n int, small *[4][128]uint32) (int, error) {
	at := 0
	for n > 0 {
		if n >= 8 && len(b)-at >= 16 {
			w := binary.LittleEndian.Uint64(b[at:])
			if w&0x8080808080808080 == 0 {
				small[0][w&127]++
				small[1][w>>8&127]++
				small[2][w>>16&127]++
				small[3][w>>24&127]++
				small[0][w>>32&127]++
				small[1][w>>40&127]++
				small[2][w>>48&127]++
				small[3][w>>56&127]++
				at, n = at+8, n-8
				continue
			}
			read, size := s.short(b[at:])
			if at, n = at+size, n-read; read == 8 {
				continue
			}
		}
		v, size := binary.Varint(b[at:])
		if size <= 0 {
			return 0, errors.New("a cell ends early or is too large")
		}
		if v != int64(int32(v)) {
			return 0, fmt.Errorf("a cell of %d, outside 32 bits", v)
		}
		s.add(v, 1)
		at, n = at+size, n-1
	}
	return at, nil
}

// short reads up to eight cells of up to two bytes; b has 16 or more. It returns how many
// there were before a longer one, and their bytes.
func (s *scan) short(b []byte) (read, size int) {
	b = b[:16]
	sum, odd, amount, squares, signs := uint64(0), uint64(0), uint64(0), uint64(0), uint64(0)
	for read < 8 {
		w := uint64(binary.LittleEndian.Uint16(b[size&15:][:2]))
		two := w >> 7 & 1
		if w>>15&two != 0 {
			break
		}
		u := w&0x7f | w>>1&0x3f80&-two
		v := u>>1 + u&1 // the amount: of zigzag, negative numbers are odd
		sum += u>>1 ^ -(u & 1)
		odd += v & 1
		amount += v
		squares += v * v
		signs |= u
		s.sizes[bits.Len64(v)&31]++
		size += 1 + int(two)
		read++
	}
	s.sum += int64(sum)
	s.odd += int64(odd)
	s.amount += amount
	s.squares += float64(squares)
	s.negative = s.negative || signs&1 != 0
	return read, size
}

// add counts n cells of a value.
func (s *scan) add(v int64, n uint64) {
	amount := uint64(max(v, -v))
	s.sum += v * int64(n)
	s.odd += v & 1 * int64(n)
	s.amount += amount * n
	s.squares += float64(n) * float64(v) * float64(v)
	s.negative = s.negative || v < 0
	s.sizes[bits.Len64(amount)] += int(n)
}

// holds is rows.holds.
func (p *packed) holds(value uint64) bool {
	if p.scale != nil {
		return p.holdsRounded(value)
	}
	if p.of == UnivMon && uint64(p.total) != value {
		return false
	}
	if p.saturate > 0 {
		return true
	}
	amount, odd := uint64(0), int64(0)
	for i := range p.scans {
		s := &p.scans[i]
		if p.of == CountMin && s.negative {
			return false
		}
		amount += s.amount
		odd += s.odd
	}
	if p.of == CountMin {
		return amount == value
	}
	return amount <= value && uint64(odd)&1 == value&1
}

// prepare makes of the scans what queries need, and forgets them.
func (p *packed) prepare() []level {
	if p.scale != nil {
		return p.prepareRounded()
	}
	levels := make([]level, p.nLevels)
	squares := 0.0
	for i := range p.scans {
		s := &p.scans[i]
		squares += s.squares
		rho := math.Sqrt(s.squares / float64(p.width))
		if p.of == CountMin {
			rho = float64(s.sum) / float64(p.width)
		}
		p.errors, levels[i].rho = append(p.errors, rho), rho
		levels[i].countWhole(&s.sizes, p.width)
	}
	if p.error = p.errors[0]; p.of == UnivMon {
		p.error = math.Sqrt(squares / float64(p.width))
	}
	p.scans = nil
	return levels
}

// blocksOf is how many blocks a level has.
func (p *packed) blocksOf() int { return (p.width + blockCells - 1) / blockCells }

// observe is what the sketch's own Estimate says.
func (p *packed) observe(flow uint64) observed {
	m := p.family.Uint64(p.seed, flow)
	level, column := p.level(flow), int(hash.Reduce(m, uint64(p.width)))
	if p.scale != nil {
		return p.observeRounded(level, column, m&1 != 0)
	}
	v := int64(p.at(level, column))
	if p.of != CountMin {
		sign := -int64(m & 1)
		v = (v ^ sign) - sign
	}
	return observed{count: float64(v)}
}

// level is that of a flow.
func (p *packed) level(flow uint64) int {
	if p.of != UnivMon {
		return 0
	}
	return univmon.LevelOf(p.family, p.nLevels, p.levelSeed, flow)
}

// at reads one cell, of rounded ones its code.
func (p *packed) at(level, column int) int32 {
	block := level*p.blocksOf() + column/blockCells
	b := p.body[p.cellsAt+int(p.blocks[block]):]
	skip := column % blockCells
	for skip >= 8 && len(b) >= 8 {
		w := binary.LittleEndian.Uint64(b)
		skip -= bits.OnesCount64(^w & 0x8080808080808080) // cells that end here
		b = b[8:]
	}
	for ; skip > 0; b = b[1:] {
		if b[0] < 0x80 {
			skip--
		}
	}
	v, _ := binary.Varint(b)
	return int32(v)
}

// cells makes those of a level.
func (p *packed) cells(level int) []int32 {
	all := make([]int32, p.width)
	b := p.body[p.cellsAt+int(p.blocks[level*p.blocksOf()]):]
	for i := range all {
		v, n := binary.Varint(b)
		if p.scale != nil {
			value, _, _ := p.rounded(level, i)
			v = int64(min(math.Round(value), math.MaxInt32))
		}
		all[i], b = int32(v), b[n:]
	}
	return all
}

func (p *packed) bytes() int {
	return cap(p.body) + 4*cap(p.blocks) + 8*cap(p.errors) + cap(p.offsets) + 8*cap(p.whole)
}
