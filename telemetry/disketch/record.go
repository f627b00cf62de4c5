package disketch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/sketch/packing"
)

// Record is R = (F, E, S, n, c, h) of Section 4.3: what a fragment counted in
// one subepoch. The hash functions are seeds, that of the Schedule and the
// rows' own, and the Schedule's family.
type Record struct {
	Fragment ID
	Unit     Unit
	Epochs   Epochs
	Schedule
	Subepoch uint64
	// Packets were added to the cells, of flows whose subepoch this was; Value is
	// the sum of what was added for them, exact also where the cells cancel out
	// or saturate.
	Packets, Value uint64
	// Seen is how many packets passed the fragment in the subepoch, counted or not.
	Seen uint64
	// Partial says that the switch was not there for the whole subepoch, or that
	// its clock stepped: what it counted says nothing of the whole.
	Partial bool
	// Squares says when flows sent, of an epoch with n = 1 that was counted in slices: Squares[k] estimates the
	// sum of the second moments of the flows in each of 2^k equal slices. nil: it was not looked at.
	Squares []float64
	// Flows is then how many different flows there were, with a standard error of 4.6 %; 0: it is not known.
	Flows float64
	// Candidates for the heaviest of the flows that were counted, the heaviest
	// first. Room is for how many each level had room; 0: none were kept.
	Candidates []Candidate
	Room       int
	// Rounding of the cells in the binary form, and of those of a record that was decoded; cells of kinds that are no sums are whole
	// whatever it says.
	Rounding Rounding
	rows     rows
}

// Kind of the fragment.
func (r *Record) Kind() Kind { return r.rows.kind() }

// Error is the estimated error of the subepoch, rho of Equation 4; of UnivMon
// that of a row which counts the flows of all levels. It reads all cells.
func (r *Record) Error() float64 {
	if p := r.rows.packed; p != nil {
		return p.error
	}
	if u := r.rows.univ; u != nil {
		return math.Sqrt(u.SecondMoment() / float64(u.Width()))
	}
	return r.rows.error(0)
}

// Cells of a level (0 but in UnivMon); a copy only of a record that Decode made.
func (r *Record) Cells(level int) []int32 { return r.rows.cells(level) }

// Estimate is O_R: what the row alone says of a flow in the subepoch.
func (r *Record) Estimate(flow uint64) float64 { return r.rows.observe(flow).count }

// Clone returns a record that shares nothing.
func (r *Record) Clone() *Record {
	c := *r
	c.rows = r.rows.clone()
	c.Candidates, c.Squares = slices.Clone(r.Candidates), slices.Clone(r.Squares)
	return &c
}

// ErrFormat says that bytes are no record.
var ErrFormat = errors.New("not a DiSketch record")

// recordVersion is the first byte of a record's binary form, which does not name the hash
// family: the envelope does (record.Header).
//
//	version(1) kind(1) unit(1) flags(1) epochs(1) log(1) seed(8, little-endian)
//	then uvarints: switch, sketch, epoch, subepoch, packets, value, seen
//	then, packed (package packing) to the end:
//		the room for candidates (uvarint) and these (appendCandidates)
//		with flagSquares: how many Squares(1), these (8 each, IEEE 754, little-endian), and Flows(8, the same)
//		the rows' own form
//
// A record of rounded cells has version 6: behind the seed are the ratio (2, little-endian), the least step (1) and what is whole (1) of the rounding,
// candidates are in planes (appendPlanes), the rows' form is packed by itself, with codes in the place of cells (appendRounded), and behind it to the end are the offsets of whole cells.
//
// Versions 1 to 3 and 5 are read too. The former had this as it is, version 1 without candidates, and version 3 alone with Squares, without Flows. Version 5 is version 6
// with a ratio in units of 1/64 (1), and no whole cells.
const (
	recordVersion        = 4
	recordVersionRounded = 6
	recordVersionCoarse  = 5
	recordVersionSquares = 3
	recordVersionPlain   = 1
	flagSingleHop        = 1
	flagPartial          = 2
	flagSquares          = 4

	fixedBytes   = 14 // before the first uvarint
	roundedBytes = 4  // more in a record of rounded cells
	coarseBytes  = 2  // the same of version 5
	coarseRatio  = ratioOne / 64
)

// rounded says that the binary form has rounded cells.
func (r *Record) rounded() bool {
	return r.Rounding.valid() && (r.rows.rounds() || r.rows.packed != nil && r.rows.packed.scale != nil)
}

// AppendBinary appends the binary form. It never fails.
func (r *Record) AppendBinary(b []byte) ([]byte, error) {
	flags := byte(0)
	if r.SingleHop {
		flags |= flagSingleHop
	}
	if r.Partial {
		flags |= flagPartial
	}
	if r.Squares != nil {
		flags |= flagSquares
	}
	version := byte(recordVersion)
	if r.rounded() {
		version = recordVersionRounded
	}
	b = append(b, version, byte(r.Kind()), byte(r.Unit), flags, byte(r.Epochs), r.Log)
	b = binary.LittleEndian.AppendUint64(b, r.Seed)
	if version == recordVersionRounded {
		b = append(binary.LittleEndian.AppendUint16(b, r.Rounding.Ratio), r.Rounding.Least, r.Rounding.Whole)
	}
	for _, v := range []uint64{r.Fragment.Switch, uint64(r.Fragment.Sketch), r.Epoch, r.Subepoch, r.Packets, r.Value, r.Seen} {
		b = binary.AppendUvarint(b, v)
	}
	candidates := appendCandidates
	if version == recordVersionRounded {
		candidates = appendPlanes
	}
	text := candidates(binary.AppendUvarint(nil, uint64(r.Room)), r.Candidates)
	if r.Squares != nil {
		text = append(text, byte(len(r.Squares)))
		for _, x := range r.Squares {
			text = binary.LittleEndian.AppendUint64(text, math.Float64bits(x))
		}
		text = binary.LittleEndian.AppendUint64(text, math.Float64bits(r.Flows))
	}
	switch {
	case version == recordVersion:
		text, err := r.rows.appendBinary(text)
		return packing.Append(b, text), err
	case r.rows.packed != nil:
		p := r.rows.packed
		return append(packing.AppendCells(packing.Append(b, text), p.body), p.offsets...), nil
	}
	// Packed by themselves, codes take no bits for what keys are, nor for offsets, of which each is as likely as the others.
	codes, offsets := r.rows.appendRounded(nil, newScale(r.Rounding, r.Seed))
	return append(packing.AppendCells(packing.Append(b, text), codes), offsets...), nil
}

// Steps are those by which cells are rounded in the binary form: of large ones beside their value, and of small ones; 0: cells are whole.
func (r *Record) Steps() (ratio, least float64) {
	if !r.rounded() {
		return 0, 0
	}
	return float64(r.Rounding.Ratio) / ratioOne, math.Exp2(float64(r.Rounding.Least) / 4)
}

// decodeSquares reads them from the beginning of b.
func decodeSquares(b []byte) (all []float64, rest []byte, err error) {
	if len(b) < 1 || b[0] < 2 || b[0] > MaxLog+1 || len(b) < 1+8*int(b[0]) {
		return nil, nil, fmt.Errorf("%w: second moments of slices end early, or are none", ErrFormat)
	}
	n := int(b[0])
	b = b[1:]
	for range n {
		x := math.Float64frombits(binary.LittleEndian.Uint64(b))
		if !(x >= 0) || math.IsInf(x, 1) {
			return nil, nil, fmt.Errorf("%w: a second moment of %g", ErrFormat, x)
		}
		all, b = append(all, x), b[8:]
	}
	return all, b, nil
}

// decodeFlows reads them from the beginning of b.
func decodeFlows(b []byte) (flows float64, rest []byte, err error) {
	if len(b) < 8 {
		return 0, nil, fmt.Errorf("%w: the number of flows ends early", ErrFormat)
	}
	flows = math.Float64frombits(binary.LittleEndian.Uint64(b))
	if !(flows >= 0) || math.IsInf(flows, 1) {
		return 0, nil, fmt.Errorf("%w: %g flows", ErrFormat, flows)
	}
	return flows, b[8:], nil
}

// Use says by which hash family a record counted that UnmarshalBinary made.
func (r *Record) Use(f hash.Family) {
	r.Hash = f
	r.rows.use(f)
}

// UnmarshalBinary sets the record from its binary form, of the family xxhash (see Use), or
// leaves it alone and says what is wrong: an error that wraps ErrFormat.
func (r *Record) UnmarshalBinary(b []byte) error {
	n := new(Record)
	err := n.unmarshal(b, func(kind Kind, b []byte, s *scale, offsets []byte) (rows, error) {
		if s == nil {
			return decodeRows(kind, b)
		}
		p, err := unpack(kind, b, s, offsets)
		return rows{packed: p}, err
	})
	if err != nil {
		return err
	}
	if n.rows.packed != nil {
		n.rows.packed.prepare()
	}
	*r = *n
	return nil
}

// Decode reads the binary form of a record, which counted by a hash family, for queries: cells stay in that form, in which
// most take a quarter of the memory, and single ones are read when they are asked for. It keeps b,
// which must not change any more. An error wraps ErrFormat, and is the one that UnmarshalBinary
// has.
func Decode(b []byte, f hash.Family) (*Prepared, error) {
	r := new(Record)
	err := r.unmarshal(b, func(kind Kind, b []byte, s *scale, offsets []byte) (rows, error) {
		if !kind.known() || !kinds[kind].linear {
			return decodeRows(kind, b)
		}
		p, err := unpack(kind, b, s, offsets)
		return rows{packed: p}, err
	})
	if err != nil {
		return nil, err
	}
	r.Use(f)
	if r.rows.packed == nil {
		return r.Prepare(), nil
	}
	x := &Prepared{Record: r, levels: r.rows.packed.prepare()}
	x.rho = r.Error()
	return x, nil
}

func (r *Record) unmarshal(b []byte, decodeRows func(Kind, []byte, *scale, []byte) (rows, error)) error {
	if len(b) < fixedBytes+roundedBytes || b[0] < recordVersionPlain || b[0] > recordVersionRounded {
		return fmt.Errorf("%w: %d bytes, not of version %d to %d", ErrFormat, len(b), recordVersionPlain, recordVersionRounded)
	}
	latest := b[0] >= recordVersion
	n := Record{Unit: Unit(b[2]), Epochs: Epochs(b[4])}
	n.SingleHop, n.Log, n.Seed = b[3]&flagSingleHop != 0, b[5], binary.LittleEndian.Uint64(b[6:])
	n.Partial = b[3]&flagPartial != 0
	kind, flags, rest := Kind(b[1]), b[3], b[fixedBytes:]
	var rounding *scale
	if b[0] >= recordVersionCoarse {
		if b[0] == recordVersionCoarse {
			n.Rounding, rest = Rounding{Ratio: coarseRatio * uint16(rest[0]), Least: rest[1]}, rest[coarseBytes:]
		} else {
			n.Rounding, rest = Rounding{Ratio: binary.LittleEndian.Uint16(rest), Least: rest[2], Whole: rest[3]}, rest[roundedBytes:]
		}
		if !n.Rounding.valid() || !kind.known() || !kinds[kind].linear {
			return fmt.Errorf("%w: cells of %v rounded by %v", ErrFormat, kind, n.Rounding)
		}
		rounding = newScale(n.Rounding, n.Seed)
	}
	var sketch uint64
	for _, v := range []*uint64{&n.Fragment.Switch, &sketch, &n.Epoch, &n.Subepoch, &n.Packets, &n.Value, &n.Seen} {
		var size int
		if *v, size = binary.Uvarint(rest); size <= 0 {
			return fmt.Errorf("%w: a number ends early or is too large", ErrFormat)
		}
		rest = rest[size:]
	}
	n.Fragment.Sketch = uint16(sketch)
	switch {
	case n.Unit > Bytes || flags > flagSingleHop|flagPartial|flagSquares || flags&flagSquares != 0 && !latest || sketch > 0xffff:
		return fmt.Errorf("%w: unit %d, flags %#x, sketch %d", ErrFormat, n.Unit, flags, sketch)
	case n.Epochs.Validate() != nil || n.Log > MaxLog || n.Subepoch >= n.N():
		return fmt.Errorf("%w: subepoch %d of 2^%d in an epoch of 2^%d ns", ErrFormat, n.Subepoch, n.Log, n.Epochs)
	case kind.known() && !kind.Flows() && n.Log != 0:
		return fmt.Errorf("%w: %d subepochs of kind %v, whose epochs are not divided", ErrFormat, n.N(), kind)
	case n.Packets > n.Seen:
		return fmt.Errorf("%w: %d packets counted of %d seen", ErrFormat, n.Packets, n.Seen)
	}
	var err error
	var cells, offsets []byte // of a rounded record
	if latest {
		behind := []byte(nil)
		if rest, behind, err = packing.Cut(rest); err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if rounding != nil {
			if cells, behind, err = packing.Cut(behind); err != nil {
				return fmt.Errorf("%w: %w", ErrFormat, err)
			}
		}
		if b[0] == recordVersionRounded {
			offsets, behind = behind, nil
		}
		if len(behind) != 0 {
			return fmt.Errorf("%w: %d bytes behind it", ErrFormat, len(behind))
		}
	}
	if b[0] != recordVersionPlain {
		room, size := binary.Uvarint(rest)
		if size <= 0 || room > maxCandidates {
			return fmt.Errorf("%w: room for %d candidates", ErrFormat, room)
		}
		n.Room = int(room)
		decode := decodeCandidates
		if rounding != nil {
			decode = decodePlanes
		}
		if n.Candidates, rest, err = decode(rest[size:]); err != nil {
			return err
		}
	}
	if b[0] == recordVersionSquares || flags&flagSquares != 0 {
		if n.Squares, rest, err = decodeSquares(rest); err != nil {
			return err
		}
		if latest {
			if n.Flows, rest, err = decodeFlows(rest); err != nil {
				return err
			}
		}
		if n.Log != 0 {
			return fmt.Errorf("%w: second moments of slices in one of %d subepochs", ErrFormat, n.N())
		}
	}
	if rounding != nil {
		if len(rest) != 0 {
			return fmt.Errorf("%w: %d bytes before its cells", ErrFormat, len(rest))
		}
		rest = cells
	}
	if n.rows, err = decodeRows(kind, rest, rounding, offsets); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if !n.rows.holds(n.Value) {
		return fmt.Errorf("%w: its cells do not add up to %d", ErrFormat, n.Value)
	}
	*r = n
	return nil
}
