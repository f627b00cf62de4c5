package packing

import "encoding/binary"

// Bits are numbers of any width, the lowest bit of a byte first. The zero value is empty.
type Bits struct {
	b    []byte
	last uint64 // bits that fill no byte yet
	n    int    // of these, below 8
}

// Add appends the n lowest bits of v, up to 57; the others are zero.
func (w *Bits) Add(v uint64, n int) {
	w.last |= v << w.n
	for w.n += n; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.last))
		w.last >>= 8
	}
}

// Bytes are all that was added; bits that fill up the last byte are zero.
func (w *Bits) Bytes() []byte {
	if w.n == 0 {
		return w.b
	}
	return append(w.b, byte(w.last))
}

// BitReader reads what Bits wrote. What is beyond the end is 0, and has Whole report false.
type BitReader struct {
	b  []byte
	at int // bits
}

// ReadBits reads b from its beginning.
func ReadBits(b []byte) *BitReader { return &BitReader{b: b} }

// Take returns the next n bits, up to 57.
func (r *BitReader) Take(n int) uint64 {
	at := r.at >> 3
	word := uint64(0)
	if at+8 <= len(r.b) {
		word = binary.LittleEndian.Uint64(r.b[at:])
	} else if at < len(r.b) {
		var last [8]byte
		copy(last[:], r.b[at:])
		word = binary.LittleEndian.Uint64(last[:])
	}
	word = word >> (r.at & 7) & (1<<n - 1)
	r.at += n
	return word
}

// Whole reports whether just all bytes were read, and what fills up the last one is zero.
func (r *BitReader) Whole() bool {
	if (r.at+7)/8 != len(r.b) {
		return false
	}
	return r.at&7 == 0 || r.b[len(r.b)-1]>>(r.at&7) == 0
}
