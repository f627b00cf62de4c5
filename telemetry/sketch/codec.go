package sketch

import (
	"encoding/binary"
	"fmt"
)

// Kind distinguishes the binary forms of sketches.
type Kind byte

// The numbers are part of the format.
const (
	KindCountMinRow     Kind = 1
	KindCountSketchRow  Kind = 3
	KindUnivMonFragment Kind = 5
	KindTowerRow        Kind = 6
	KindConservativeRow Kind = 7
	KindSuMaxRow        Kind = 8
	KindBloomRow        Kind = 9
	KindHyperLogLogRow  Kind = 10
)

// version is the first byte of each binary form:
//
//	version(1) kind(1) seeds and sizes of the kind, then for each row its cells:
//	width(uvarint) saturated(uvarint) width times cell(zigzag varint)
//
// Seeds are 8 bytes, little-endian. A cell takes at least a byte, which bounds
// what a length can make a reader allocate to four times what it was sent.
const version = 1

// AppendHeader appends version and kind.
func AppendHeader(b []byte, kind Kind) []byte {
	return append(b, version, byte(kind))
}

// AppendBinary appends the binary form. It never fails.
func (c *Cells) AppendBinary(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(c.c)))
	b = binary.AppendUvarint(b, c.saturated)
	for _, v := range c.c {
		b = binary.AppendVarint(b, int64(v))
	}
	return b, nil
}

// A Reader reads a binary form from front to back. Its first fault is in
// Err, and all that is read behind it is zero.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads b, whose header must be that of the kind.
func NewReader(b []byte, kind Kind) *Reader {
	r := &Reader{b: b}
	if v := r.Byte(); r.err == nil && v != version {
		r.Fail("version %d; this reader knows %d", v, version)
	}
	if k := r.Byte(); r.err == nil && Kind(k) != kind {
		r.Fail("kind %d where %d is expected", k, kind)
	}
	return r
}

// Fail notes a fault, unless there is one already.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("decode a sketch: "+format, args...)
	}
	r.b = nil
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.b) < 1 {
		r.Fail("it ends early")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// Uint64 reads 8 bytes, little-endian.
func (r *Reader) Uint64() uint64 {
	if len(r.b) < 8 {
		r.Fail("it ends early")
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// Uvarint reads an unsigned number of variable length.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.Fail("a number ends early or is too large")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// varint reads a signed number of variable length.
func (r *Reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.Fail("a number ends early or is too large")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Cells reads the cells of one row.
func (r *Reader) Cells() Cells {
	width := r.Uvarint()
	saturated := r.Uvarint()
	if r.err == nil && (width < 1 || width > MaxWidth || width > uint64(len(r.b))) {
		r.Fail("a row of %d cells, with %d bytes behind it", width, len(r.b))
	}
	if r.err != nil {
		return Cells{}
	}
	c := Cells{c: make([]int32, width), saturated: saturated}
	for i := range c.c {
		v := r.varint()
		if v != int64(int32(v)) {
			r.Fail("a cell of %d, outside 32 bits", v)
		}
		if r.err != nil {
			return Cells{}
		}
		c.c[i] = int32(v)
	}
	return c
}

// Rest returns what was not read yet, not a copy.
func (r *Reader) Rest() []byte { return r.b }

// Close returns the first fault; bytes left over are one.
func (r *Reader) Close() error {
	if r.err == nil && len(r.b) > 0 {
		r.Fail("%d bytes behind its end", len(r.b))
	}
	return r.err
}

// Err returns the first fault so far.
func (r *Reader) Err() error { return r.err }
