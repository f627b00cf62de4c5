// Package hyperloglog is a row of registers that estimates how many flows there were (Flajolet, Fusy, Gandouet and Meunier,
// "HyperLogLog", 2007). Rows of several switches whose hashes have one seed merge to that of all flows, each counted once
// however many switches it passes; so do rows of several epochs. Rows of different sizes merge, too, to the size of the
// smaller one.
//
//	mixed hash of a flow:  | p bits: register | rank: position of the first 1 |
package hyperloglog

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch"
)

// Registers of a row are a power of two in this range, a byte each.
const (
	MinRegisters = 16
	MaxRegisters = 1 << 24
)

// Row is one row. Several goroutines may read it; one may write it, and none read it then. A copy shares
// the registers; Clone does not.
//
// Memory: a byte for each register.
type Row struct {
	registers []uint8 // 2^precision
	precision uint8
	total     uint64
	seed      uint64
	family    hash.Family
}

// NewRowBytes returns an empty row of the largest power of two of registers in a budget of bytes, of the family xxhash. The
// seed stays when it is Reset.
func NewRowBytes(bytes int, seed uint64) (*Row, error) {
	if bytes < MinRegisters {
		return nil, fmt.Errorf("registers in %d bytes: the range is %d to %d", bytes, MinRegisters, MaxRegisters)
	}
	return newRow(uint8(bits.Len(uint(min(bytes, MaxRegisters)))-1), seed), nil
}

func newRow(precision uint8, seed uint64) *Row {
	return &Row{registers: make([]uint8, 1<<precision), precision: precision, seed: seed}
}

// Use makes the row mix by another hash family: before the first flow is added, and behind decoding.
func (r *Row) Use(f hash.Family) { r.family = f }

// Add notes the flow whose key hashes to h under the flow seed. v (0 to 2^62) is added to Total.
func (r *Row) Add(h uint64, v int64) { r.add(r.family.Uint64(r.seed, h), v) }

func (r *Row) add(mixed uint64, v int64) {
	r.total += uint64(v)
	// The 1 behind the last bit ends the rank of a hash that is 0 from there on.
	rank := uint8(bits.LeadingZeros64(mixed<<r.precision|1<<(r.precision-1)) + 1)
	if at := &r.registers[mixed>>(64-r.precision)]; rank > *at {
		*at = rank
	}
}

// AddBatch does Add(h[i], v[i]) for each i. v has at least the length of h.
func (r *Row) AddBatch(h []uint64, v []int64) {
	var block [sketch.Block]uint64
	for v = v[:len(h)]; len(h) > 0; {
		n := min(len(h), sketch.Block)
		mixed := block[:n]
		r.family.Uint64s(mixed, r.seed, h[:n])
		for i, m := range mixed {
			r.add(m, v[i])
		}
		h, v = h[n:], v[n:]
	}
}

// AddUniform notes flows whose hashes are uniform in their low 32 bits at least, without hashing them by the row's seed and family:
// rows that merge are all filled by it, or none. Each adds 1 to Total. Flows whose hashes are equal count once: of n flows with hashes of 32 bits about n^2/2^33.
func (r *Row) AddUniform(h []uint64) {
	r.total += uint64(len(h))
	precision, end := r.precision&63, uint64(1)<<((r.precision-1)&63)
	registers := r.registers
	for _, h := range h {
		mixed := h * 0x9e3779b97f4a7c15 // spreads 32 bits over 64
		rank := uint8(bits.LeadingZeros64(mixed<<precision|end) + 1)
		if at := mixed >> ((64 - precision) & 63); at < uint64(len(registers)) && rank > registers[at] { // always within: BCE
			registers[at] = rank
		}
	}
}

// most is the largest rank.
func (r *Row) most() uint8 { return 64 - r.precision + 1 }

// Flows estimates how many flows were added, without bias for any number (Ertl, "New cardinality estimation algorithms for
// HyperLogLog sketches", 2017, Algorithm 6), and at most Total. Its relative standard error is about StdErr.
func (r *Row) Flows() float64 {
	var count [66]float64
	for _, x := range r.registers {
		count[x]++
	}
	m, most := float64(len(r.registers)), int(r.most())
	z := m * tau(1-count[most]/m)
	for k := most - 1; k >= 1; k-- {
		z = 0.5 * (z + count[k])
	}
	z += m * sigma(count[0]/m)
	return min(m*m/(2*math.Ln2*z), float64(r.total))
}

// sigma and tau are series of that paper, for registers that are empty and full.
func sigma(x float64) float64 {
	if x == 1 {
		return math.Inf(1)
	}
	y, z := 1.0, x
	for {
		x *= x
		was := z
		z += x * y
		y += y
		if z == was {
			return z
		}
	}
}

func tau(x float64) float64 {
	if x == 0 || x == 1 {
		return 0
	}
	y, z := 1.0, 1-x
	for {
		x = math.Sqrt(x)
		was := z
		y *= 0.5
		z -= (1 - x) * (1 - x) * y
		if z == was {
			return z / 3
		}
	}
}

// StdErr is the relative standard error of Flows.
func (r *Row) StdErr() float64 { return 1.04 / math.Sqrt(float64(len(r.registers))) }

// Union returns a row of the flows of both, of the size of the smaller one. It refuses rows of another seed or family.
func (r *Row) Union(o *Row) (*Row, error) {
	if r.seed != o.seed || r.family != o.family {
		return nil, fmt.Errorf("join HyperLogLog rows: %w", sketch.ErrShape)
	}
	u := newRow(min(r.precision, o.precision), r.seed)
	u.family, u.total = r.family, r.total+o.total
	r.foldInto(u)
	o.foldInto(u)
	return u, nil
}

// foldInto raises the registers of a row of at most as many: the bits by which more registers are told apart are the first of
// the rank there.
func (r *Row) foldInto(u *Row) {
	fewer := r.precision - u.precision
	for i, rank := range r.registers {
		if rank == 0 {
			continue
		}
		if low := uint64(i) & (1<<fewer - 1); low != 0 {
			rank = fewer - uint8(bits.Len64(low)) + 1
		} else {
			rank += fewer
		}
		at := &u.registers[i>>fewer]
		*at = max(*at, rank)
	}
}

// Merge notes what o noted. It refuses a row of another width, seed or family.
func (r *Row) Merge(o *Row) error {
	if r.precision != o.precision || r.seed != o.seed || r.family != o.family {
		return fmt.Errorf("merge HyperLogLog rows: %w", sketch.ErrShape)
	}
	o.foldInto(r)
	r.total += o.total
	return nil
}

// Estimate of a single flow is 0: registers know none. Cells has none.
func (r *Row) Estimate(h uint64) int64 { return 0 }
func (r *Row) Error(level int) float64 { return r.StdErr() }
func (r *Row) Levels() int             { return 1 }
func (r *Row) Level(h uint64) int      { return 0 }
func (r *Row) Width(level int) int     { return len(r.registers) }
func (r *Row) Cells(level int) []int32 { return nil }
func (r *Row) Cell(level, i int) int32 { return int32(r.registers[i]) }
func (r *Row) Bytes() int              { return len(r.registers) }
func (r *Row) Seed() uint64            { return r.seed }
func (r *Row) Total() uint64           { return r.total }
func (r *Row) Saturated() uint64       { return 0 }

// Holds says whether the registers can be those of additions that sum up to Total.
func (r *Row) Holds() bool {
	used := uint64(0)
	for _, x := range r.registers {
		if x > 0 {
			used++
		}
	}
	return used <= r.total && (used > 0) == (r.total > 0)
}

// Reset empties the row. It keeps its seed, so that rows of all switches and epochs merge.
func (r *Row) Reset(uint64) {
	clear(r.registers)
	r.total = 0
}

// Clone returns a copy that shares nothing.
func (r *Row) Clone() *Row {
	c := *r
	c.registers = append([]uint8(nil), r.registers...)
	return &c
}

// AppendBinary appends the binary form: header, seed(8), total(8), the binary logarithm of the registers(1), these. It never fails.
func (r *Row) AppendBinary(b []byte) ([]byte, error) {
	b = sketch.AppendHeader(b, sketch.KindHyperLogLogRow)
	b = binary.LittleEndian.AppendUint64(b, r.seed)
	b = binary.LittleEndian.AppendUint64(b, r.total)
	return append(append(b, r.precision), r.registers...), nil
}

// Decode returns the row of a binary form, of the family xxhash, or says what is wrong.
func Decode(b []byte) (*Row, error) {
	d := sketch.NewReader(b, sketch.KindHyperLogLogRow)
	seed, total, precision := d.Uint64(), d.Uint64(), d.Byte()
	if d.Err() == nil && (precision > 24 || len(d.Rest()) != 1<<precision || len(d.Rest()) < MinRegisters) {
		d.Fail("2^%d registers in %d bytes", precision, len(d.Rest()))
	}
	if d.Err() != nil {
		return nil, d.Err()
	}
	r := newRow(precision, seed)
	r.total = total
	copy(r.registers, d.Rest())
	for i, x := range r.registers {
		if x > r.most() {
			return nil, fmt.Errorf("decode a sketch: register %d holds %d, the most is %d", i, x, r.most())
		}
	}
	return r, nil
}
