package lds

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Cells in a form, version 2, in four streams behind their lengths, each a uvarint:
//
//	old       a bit per cell, lowest first: it is equal to a cell in front of it
//	refs      for each old cell the number of that one among the new ones in front of it, in as many bits as the number of these takes
//	counts    for each new cell: 2 * packets + 1 if it is overfull, uvarint
//	lengths   for each new cell: bytes, uvarint
//	sums      for each new cell: sum from the beginning of the interval, varint
//	digests   for each new cell: 32 bits
//
// A flow that is alone in its cells of two rows or more is in its second one by 2 bytes, where its first takes some 12, and
// fields of one kind next to each other compress.
type cellWriter struct {
	seen                           map[cellKey]uint32
	old, refs                      bitWriter
	counts, lengths, sums, digests []byte
}

type cellKey struct {
	Cell
	over bool
}

// mostCellBytes is the most that a cell takes in all streams, streamBytes the streams' lengths, and mostRatio the most that compression
// may save: cells hold sums and digests, so what is compressed more exhausts the reader's memory.
const (
	mostCellBytes = 3*binary.MaxVarintLen64 + 4 + 4
	streamBytes   = 6 * binary.MaxVarintLen64
	mostRatio     = 32
)

func newCellWriter() *cellWriter { return &cellWriter{seen: map[cellKey]uint32{}} }

func (w *cellWriter) add(c *Cell, over bool) {
	key := cellKey{*c, over}
	if ref, ok := w.seen[key]; ok {
		w.old.add(1, 1)
		w.refs.add(uint64(ref), bits.Len(uint(len(w.seen)-1)))
		return
	}
	w.old.add(0, 1)
	w.seen[key] = uint32(len(w.seen))
	count := c.Count << 1
	if over {
		count |= 1
	}
	w.counts = binary.AppendUvarint(w.counts, count)
	w.lengths = binary.AppendUvarint(w.lengths, c.Bytes)
	w.sums = binary.AppendVarint(w.sums, c.Sum)
	w.digests = order.AppendUint32(w.digests, c.Digest)
}

func (w *cellWriter) bytes() []byte {
	var b []byte
	for _, s := range [][]byte{w.old.b, w.refs.b, w.counts, w.lengths, w.sums, w.digests} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// bitWriter appends bits, the lowest of a byte first.
type bitWriter struct {
	b []byte
	n int
}

func (w *bitWriter) add(v uint64, n int) {
	for i := range n {
		if w.n&7 == 0 {
			w.b = append(w.b, 0)
		}
		w.b[w.n>>3] |= byte(v>>i&1) << (w.n & 7)
		w.n++
	}
}

// bitReader reads them. What is behind the end is 0, and seen by ended.
type bitReader struct {
	b []byte
	n int
}

func (r *bitReader) take(n int) (v uint64) {
	for i := range n {
		if r.n>>3 < len(r.b) {
			v |= uint64(r.b[r.n>>3]>>(r.n&7)&1) << i
		}
		r.n++
	}
	return v
}

// whole reports whether just so many bytes were read.
func (r *bitReader) whole() bool { return (r.n+7)/8 == len(r.b) }

// cellReader reads what a cellWriter wrote.
type cellReader struct {
	old, refs                      bitReader
	counts, lengths, sums, digests []byte
	seen                           []cellKey
	err                            error
}

var errCells = errors.New("the cells end before the last")

func newCellReader(b []byte, cells int) *cellReader {
	r := &cellReader{}
	for _, s := range []*[]byte{&r.old.b, &r.refs.b, &r.counts, &r.lengths, &r.sums, &r.digests} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			r.err = errCells
			return r
		}
		*s, b = b[size:][:n:n], b[size:][n:]
	}
	if len(b) != 0 {
		r.err = fmt.Errorf("%d bytes are behind the cells", len(b))
	}
	r.seen = make([]cellKey, 0, min(cells, len(r.digests)/4))
	return r
}

func (r *cellReader) next() (Cell, bool, error) {
	if r.err != nil {
		return Cell{}, false, r.err
	}
	if r.old.take(1) != 0 {
		ref := uint64(len(r.seen))
		if len(r.seen) > 0 {
			ref = r.refs.take(bits.Len(uint(len(r.seen) - 1)))
		}
		if ref >= uint64(len(r.seen)) {
			r.err = errors.New("a cell refers to one that is not in front of it")
			return Cell{}, false, r.err
		}
		k := r.seen[ref]
		return k.Cell, k.over, nil
	}
	count, a := binary.Uvarint(r.counts)
	length, b := binary.Uvarint(r.lengths)
	sum, c := binary.Varint(r.sums)
	if a <= 0 || b <= 0 || c <= 0 || len(r.digests) < 4 {
		r.err = errCells
		return Cell{}, false, r.err
	}
	k := cellKey{Cell{Sum: sum, Count: count >> 1, Digest: order.Uint32(r.digests), Bytes: length}, count&1 != 0}
	r.counts, r.lengths, r.sums, r.digests = r.counts[a:], r.lengths[b:], r.sums[c:], r.digests[4:]
	if k == (cellKey{}) {
		r.err = errors.New("a cell that is named is empty")
	}
	r.seen = append(r.seen, k)
	return k.Cell, k.over, r.err
}

// checkCells reads all cells.
func checkCells(b []byte, cells int) error {
	r := newCellReader(b, cells)
	for range cells {
		if _, _, err := r.next(); err != nil {
			return err
		}
	}
	if r.err == nil && (len(r.counts)+len(r.lengths)+len(r.sums)+len(r.digests) > 0 || !r.old.whole() || !r.refs.whole()) {
		r.err = errors.New("there are more cells than the bitmap names")
	}
	return r.err
}

// Compression takes all of a stream at once. Encoder and decoder may be used concurrently.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // its options are constants
		}
		return e
	})
	decoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// appendPacked appends the cells to b, compressed if that is less, which it notes in the byte of packing.
func appendPacked(b, cells []byte, packing int) []byte {
	if len(cells) < 64 {
		return append(b, cells...)
	}
	short := encoder().EncodeAll(cells, nil)
	if len(short) >= len(cells) || len(cells) > mostRatio*len(short) {
		return append(b, cells...)
	}
	b[packing] = packingZstd
	return append(b, short...)
}

func unpackCells(b []byte, packing byte, length int) ([]byte, error) {
	if packing == packingZstd {
		if length > mostRatio*len(b) {
			return nil, fmt.Errorf("%d bytes of cells are packed into %d", length, len(b))
		}
		out, err := decoder().DecodeAll(b, make([]byte, 0, length))
		if err != nil {
			return nil, fmt.Errorf("cells: %w", err)
		}
		b = out
	}
	if len(b) != length {
		return nil, fmt.Errorf("%d bytes of cells, not %d", len(b), length)
	}
	return b, nil
}
