package status

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The form of a status, version 1. Numbers are LEB128 of the least length, signed ones zigzag (encoding/binary);
// a text is its length and its bytes; a list is its length and its elements; a flag is 0 or 1.
//
//	version 8 | time | boot | program | clock | spool | ports | measurements | exports | workers
//	clock: source | synchronised | offset | error | max error | TAI offset
//	spool: bytes | bound | remote | connected
//	port: number | name | interface | mode | up | speed | received | its bytes | transmitted | its bytes | backlog | drops
//	drop: reason | packets
//	measurement: stage | part | epochs | overruns | missed
//	export: kind | made | sent | dropped | lost | waiting
//	worker: id | core | processor ns | batches | packets | rounds | sleeps
//
// A status has one form only, and a decoder makes no list that is longer than its input.
const codecVersion = 1

// Errors that a reader branches on; they come wrapped with what was wrong.
var (
	// ErrVersion: the status is of a later version of Weir.
	ErrVersion = errors.New("unknown version of a status")
	// ErrCorrupt: this is no status.
	ErrCorrupt = errors.New("not a status")
)

// codec is what both directions do with a value, so that walk states the order of
// all fields once.
type codec interface {
	unsigned(*uint64)
	small(*uint32)
	signed(*int64)
	flag(*bool)
	text(*string)
	// list returns how many elements there are: n, or what was read, at most bound.
	list(n, bound int) int
}

// walk gives all fields to c in the order of the format.
func (s *Status) walk(c codec) {
	c.signed(&s.Time)
	c.signed(&s.Boot)
	c.text(&s.Program)
	s.Clock.walk(c)
	c.unsigned(&s.Spool.Bytes)
	c.unsigned(&s.Spool.Bound)
	c.flag(&s.Spool.Remote)
	c.flag(&s.Spool.Connected)
	each(c, &s.Ports, maxPorts, (*Port).walk)
	each(c, &s.Measurements, maxMeasurements, (*Measurement).walk)
	each(c, &s.Exports, maxExports, (*Export).walk)
	each(c, &s.Workers, maxWorkers, (*Worker).walk)
}

func (k *Clock) walk(c codec) {
	c.text(&k.Source)
	c.flag(&k.Synchronised)
	c.signed(&k.OffsetNs)
	c.unsigned(&k.ErrorNs)
	c.unsigned(&k.MaxErrorNs)
	c.signed(&k.TAIOffset)
}

func (p *Port) walk(c codec) {
	c.small(&p.Number)
	c.text(&p.Name)
	c.text(&p.Interface)
	c.text(&p.Mode)
	c.flag(&p.Up)
	for _, v := range []*uint64{&p.Speed, &p.Received, &p.ReceivedBytes, &p.Transmitted, &p.TransmittedBytes, &p.Backlog} {
		c.unsigned(v)
	}
	each(c, &p.Drops, maxDrops, (*Drop).walk)
}

func (d *Drop) walk(c codec) {
	c.text(&d.Reason)
	c.unsigned(&d.Packets)
}

func (m *Measurement) walk(c codec) {
	c.text(&m.Stage)
	c.text(&m.Part)
	for _, v := range []*uint64{&m.Epochs, &m.Overruns, &m.Missed} {
		c.unsigned(v)
	}
}

func (e *Export) walk(c codec) {
	c.text(&e.Kind)
	for _, v := range []*uint64{&e.Made, &e.Sent, &e.Dropped, &e.Lost, &e.Waiting} {
		c.unsigned(v)
	}
}

func (w *Worker) walk(c codec) {
	c.small(&w.ID)
	c.signed(&w.Core)
	for _, v := range []*uint64{&w.CPUNs, &w.Batches, &w.Packets, &w.Rounds, &w.Sleeps} {
		c.unsigned(v)
	}
}

// each walks a list, which a reader makes element by element: as long as the
// input lasts, and no longer.
func each[T any](c codec, list *[]T, bound int, walk func(*T, codec)) {
	n := c.list(len(*list), bound)
	for i := range n {
		if i == len(*list) {
			var zero T
			*list = append(*list, zero)
		}
		walk(&(*list)[i], c)
	}
}

// AppendBinary appends the form of the status to b.
func (s *Status) AppendBinary(b []byte) ([]byte, error) {
	if err := s.validate(); err != nil {
		return b, fmt.Errorf("encode a status: %w", err)
	}
	w := writer{append(b, codecVersion)}
	s.walk(&w)
	return w.b, nil
}

// Decode reads the form of a status, which must be all of b.
func Decode(b []byte) (*Status, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	if b[0] != codecVersion {
		return nil, fmt.Errorf("%w: %d", ErrVersion, b[0])
	}
	s, r := &Status{}, reader{b: b[1:]}
	s.walk(&r)
	if r.fault == "" && len(r.b) != 0 {
		r.fault = fmt.Sprintf("%d bytes behind its end", len(r.b))
	}
	if r.fault != "" {
		return nil, fmt.Errorf("%w: %s", ErrCorrupt, r.fault)
	}
	if err := s.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return s, nil
}

// writer appends. What it is given was validated.
type writer struct{ b []byte }

func (w *writer) unsigned(v *uint64) { w.b = binary.AppendUvarint(w.b, *v) }
func (w *writer) small(v *uint32)    { w.b = binary.AppendUvarint(w.b, uint64(*v)) }
func (w *writer) signed(v *int64)    { w.b = binary.AppendVarint(w.b, *v) }

func (w *writer) flag(v *bool) {
	b := byte(0)
	if *v {
		b = 1
	}
	w.b = append(w.b, b)
}

func (w *writer) text(v *string) {
	w.b = binary.AppendUvarint(w.b, uint64(len(*v)))
	w.b = append(w.b, *v...)
}

func (w *writer) list(n, _ int) int {
	w.b = binary.AppendUvarint(w.b, uint64(n))
	return n
}

// reader takes values off b. Behind the first fault it reads zeros and empty lists.
type reader struct {
	b     []byte
	fault string
}

func (r *reader) fail(what string) {
	if r.fault == "" {
		r.fault = what
	}
	r.b = nil
}

func (r *reader) number() uint64 {
	if r.fault != "" {
		return 0
	}
	v, n := binary.Uvarint(r.b)
	switch {
	case n == 0:
		r.fail("it is cut off")
		return 0
	case n < 0:
		r.fail("a number of more than 64 bits")
		return 0
	case n > 1 && r.b[n-1] == 0:
		r.fail("a number that is longer than it must be")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// atMost reads a number of a range.
func (r *reader) atMost(bound uint64, what string) uint64 {
	v := r.number()
	if v > bound {
		r.fail(fmt.Sprintf("%s of %d: %d at most", what, v, bound))
		return 0
	}
	return v
}

func (r *reader) unsigned(v *uint64) { *v = r.number() }
func (r *reader) small(v *uint32)    { *v = uint32(r.atMost(1<<32-1, "a small number")) }
func (r *reader) flag(v *bool)       { *v = r.atMost(1, "a flag") == 1 }

func (r *reader) signed(v *int64) {
	u := r.number()
	*v = int64(u>>1) ^ -int64(u&1)
}

func (r *reader) text(v *string) {
	n := int(r.atMost(maxText, "a text"))
	if n > len(r.b) {
		r.fail("it is cut off in a text")
		return
	}
	*v = string(r.b[:n])
	r.b = r.b[n:]
}

func (r *reader) list(_, bound int) int {
	n := int(r.atMost(uint64(bound), "a list"))
	if n > len(r.b) { // each element takes a byte or more
		r.fail("it is cut off in a list")
		return 0
	}
	return n
}
