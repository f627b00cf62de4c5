package packing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// A packed text is
//
//	packing(1) length(uvarint) size(uvarint) size bytes: the text (plain), or a zstd frame of length bytes
//
// A frame is at most mostRatio times shorter than its text, and slackBytes: what is compressed more would have a
// short record exhaust its reader.
const (
	plain      = 0
	compressed = 1

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

// Append appends a text, compressed if that is less.
func Append(dst, text []byte) []byte {
	if len(text) >= leastBytes {
		if short := encoder().EncodeAll(text, nil); len(short) < len(text) && len(text) <= mostLength(len(short)) {
			return appendForm(dst, compressed, len(text), short)
		}
	}
	return appendForm(dst, plain, len(text), text)
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
	if len(b) < 1 || b[0] > compressed {
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
	if packing == compressed {
		if length > uint64(mostLength(len(b))) {
			return nil, nil, fmt.Errorf("%w: %d bytes are packed into %d", ErrPacked, length, len(b))
		}
		if b, err = decoder().DecodeAll(b, make([]byte, 0, length)); err != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrPacked, err)
		}
	}
	if uint64(len(b)) != length {
		return nil, nil, fmt.Errorf("%w: %d bytes, not %d", ErrPacked, len(b), length)
	}
	return b, rest, nil
}
