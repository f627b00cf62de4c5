package packing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/fse"
	"github.com/klauspost/compress/zstd"
)

// A packed text is
//
//	packing(1) length(uvarint) size(uvarint) size bytes: the text (plain), or length bytes as a zstd frame (compressed) or a block of FSE (coded)
//
// FSE codes each byte by itself, in about its entropy: cells do not repeat, and where most are the same, each takes a bit at least in the
// Huffman codes of zstd. What is packed is at most mostRatio times shorter than its text, and slackBytes: what is compressed more would have a
// short record exhaust its reader.
const (
	plain      = 0
	compressed = 1
	coded      = 2

	mostRatio  = 256
	slackBytes = 64 << 10
	// leastBytes is what is worth compressing.
	leastBytes = 64
)

// ErrPacked is wrapped by what Cut returns.
var ErrPacked = errors.New("packed bytes that cannot be read")

// Encoder and decoder may be used concurrently.
var (
	encoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(windowBytes))
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

// windowBytes suffices: what repeats in a record is near, and an encoder's memory is twice that.
const windowBytes = 256 << 10

// coders have the tables of FSE, of one text at a time.
var coders = sync.Pool{New: func() any { return &fse.Scratch{TableLog: tableLog} }}

// tableLog is the finest that the library writes: chances are in units of 1/2^tableLog.
const tableLog = 12

// Append appends a text, compressed if that is less.
func Append(dst, text []byte) []byte {
	form, best := compress(text)
	return appendForm(dst, form, len(text), best)
}

// AppendCells appends a text of cells: by FSE, if that is less than what Append does. Forms from before there was FSE use Append, for their readers.
func AppendCells(dst, text []byte) []byte {
	form, best := compress(text)
	if short := code(text); len(short) > 0 && len(short) < len(best) && len(text) <= mostLength(len(short)) {
		form, best = coded, short
	}
	return appendForm(dst, form, len(text), best)
}

func compress(text []byte) (form byte, best []byte) {
	if len(text) >= leastBytes {
		if short := encoder().EncodeAll(text, nil); len(short) < len(text) && len(text) <= mostLength(len(short)) {
			return compressed, short
		}
	}
	return plain, text
}

// code returns a text in FSE; nil: that is no shorter, or the text is a single byte that repeats.
func code(text []byte) []byte {
	c := coders.Get().(*fse.Scratch)
	defer coders.Put(c)
	c.Out = make([]byte, 0, len(text))
	short, err := fse.Compress(text, c)
	c.Out = nil
	if err != nil {
		return nil
	}
	return short
}

// decode returns the text of so many bytes of a block of FSE.
func decode(b []byte, length int) ([]byte, error) {
	if length == 0 {
		return nil, errors.New("no bytes, which are not coded") // a limit of 0 would be none
	}
	c := coders.Get().(*fse.Scratch)
	defer coders.Put(c)
	c.Out, c.DecompressLimit = make([]byte, 0, length), length+1 // it is less than the limit that passes
	text, err := fse.Decompress(b, c)
	c.Out = nil
	return text, err
}

func appendForm(dst []byte, packing byte, length int, b []byte) []byte {
	dst = append(dst, packing)
	dst = binary.AppendUvarint(dst, uint64(length))
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

func mostLength(size int) int { return mostRatio*size + slackBytes }

// Cut reads a packed text from the beginning of b, and returns what is behind it. A plain text aliases b.
func Cut(b []byte) (text, rest []byte, err error) {
	if len(b) < 1 || b[0] > coded {
		return nil, nil, fmt.Errorf("%w: %d bytes, or an unknown packing", ErrPacked, len(b))
	}
	packing := b[0]
	length, n := binary.Uvarint(b[1:])
	if n <= 0 {
		return nil, nil, fmt.Errorf("%w: the length ends early", ErrPacked)
	}
	b = b[1+n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return nil, nil, fmt.Errorf("%w: %d bytes do not hold them", ErrPacked, len(b))
	}
	b, rest = b[n:n+int(size):n+int(size)], b[n+int(size):]
	if packing != plain && length > uint64(mostLength(len(b))) {
		return nil, nil, fmt.Errorf("%w: %d bytes are packed into %d", ErrPacked, length, len(b))
	}
	switch packing {
	case compressed:
		b, err = decoder().DecodeAll(b, make([]byte, 0, length))
	case coded:
		b, err = decode(b, int(length))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrPacked, err)
	}
	if uint64(len(b)) != length {
		return nil, nil, fmt.Errorf("%w: %d bytes, not %d", ErrPacked, len(b), length)
	}
	return b, rest, nil
}
