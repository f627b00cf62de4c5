package disketch

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Assignments are what a collector sends to a switch: the numbers of subepochs of its fragments.
type Assignments struct {
	// Version is when they were made, in ns of CLOCK_TAI: a switch takes what is newer than the last ones.
	Version uint64
	Each    []SketchAssignment
}

// SketchAssignment is for the fragment of a sketch.
type SketchAssignment struct {
	Sketch uint16
	Epochs Epochs // of which From and Until are numbers
	Assignment
}

// Bounds of what a switch takes.
const (
	// MaxAssignments is how many fragments a switch may have.
	MaxAssignments = 256
	// longestAssignment is for how many epochs an assignment may be in force.
	longestAssignment = 1024
)

// ErrAssignments says that bytes are no assignments.
var ErrAssignments = errors.New("not assignments of DiSketch")

// assignmentsVersion is the first byte of the binary form:
//
//	version(1) Version(8, little-endian) how many(uvarint), and for each
//	sketch(uvarint) epochs(1) log(1) from(uvarint) until-from(uvarint)
const assignmentsVersion = 1

// AppendBinary appends the binary form. It never fails.
func (a *Assignments) AppendBinary(b []byte) ([]byte, error) {
	b = binary.LittleEndian.AppendUint64(append(b, assignmentsVersion), a.Version)
	b = binary.AppendUvarint(b, uint64(len(a.Each)))
	for _, e := range a.Each {
		b = binary.AppendUvarint(b, uint64(e.Sketch))
		b = append(b, byte(e.Epochs), e.Log)
		b = binary.AppendUvarint(b, e.From)
		b = binary.AppendUvarint(b, e.Until-e.From)
	}
	return b, nil
}

// UnmarshalBinary sets the assignments from their binary form, or leaves them alone and says what is
// wrong: an error that wraps ErrAssignments.
func (a *Assignments) UnmarshalBinary(b []byte) error {
	if len(b) < 10 || b[0] != assignmentsVersion {
		return fmt.Errorf("%w: %d bytes, not of version %d", ErrAssignments, len(b), assignmentsVersion)
	}
	n := Assignments{Version: binary.LittleEndian.Uint64(b[1:])}
	b = b[9:]
	short := fmt.Errorf("%w: they end early, or a number is too large", ErrAssignments)
	number := func() (v uint64, ok bool) {
		v, size := binary.Uvarint(b)
		if size <= 0 {
			return 0, false
		}
		b = b[size:]
		return v, true
	}
	count, ok := number()
	if !ok || count > MaxAssignments {
		return short
	}
	for range count {
		sketch, ok := number()
		if !ok || sketch > 0xffff || len(b) < 2 {
			return short
		}
		e := SketchAssignment{Sketch: uint16(sketch), Epochs: Epochs(b[0]), Assignment: Assignment{Log: b[1]}}
		b = b[2:]
		from, ok := number()
		length, ok2 := number()
		if !ok || !ok2 {
			return short
		}
		e.From, e.Until = from, from+length
		if e.Log > MaxLog || length == 0 || length > longestAssignment || e.Until < from || e.Epochs.Validate() != nil {
			return fmt.Errorf("%w: n = 2^%d in %d epochs from %d of 2^%d ns", ErrAssignments, e.Log, length, from, e.Epochs)
		}
		n.Each = append(n.Each, e)
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes behind them", ErrAssignments, len(b))
	}
	*a = n
	return nil
}
