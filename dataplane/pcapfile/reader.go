package pcapfile

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// bufferSize is the reader's buffer: large reads cost the fewest system calls
// per packet and still fit the second-level cache.
const bufferSize = 256 << 10

// Reader reads a capture record by record. Not safe for concurrent use.
type Reader struct {
	in     *bufio.Reader
	format Format
	order  binary.ByteOrder
	link   LinkType // pcap

	left    uint32 // bytes of the current packet not yet read
	records uint64
	err     error

	// next reads up to the packet bytes of the next record.
	next func() (Header, error)

	pcap pcapState
	ng   ngState

	scratch [32]byte
}

// NewReader reads the head of a capture: of pcapng, up to the first packet, so
// that linkTypes knows the interfaces described by then.
func NewReader(r io.Reader) (*Reader, error) {
	rd := &Reader{in: bufio.NewReaderSize(r, bufferSize)}
	if magic, _ := rd.in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(rd.in)
		if err != nil {
			return nil, fmt.Errorf("%w: gzip header: %w", ErrFormat, err)
		}
		rd.in = bufio.NewReaderSize(z, bufferSize)
	}
	magic, err := rd.in.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: %d bytes are too few for a header", ErrFormat, len(magic))
		}
		return nil, readFault(err)
	}
	if binary.LittleEndian.Uint32(magic) == magicNG {
		err = rd.openNG()
	} else {
		err = rd.openPcap(magic)
	}
	if err != nil {
		return nil, err
	}
	return rd, nil
}

// Format describes the file.
func (r *Reader) Format() Format { return r.format }

// Next goes to the next record, passing over what is unread of this one. It
// returns io.EOF at the proper end. An error stays.
func (r *Reader) Next() (Header, error) {
	if r.err != nil {
		return Header{}, r.err
	}
	if !r.ng.ahead {
		if err := r.finish(); err != nil {
			return Header{}, r.fail(err)
		}
	}
	h, err := r.next()
	if err != nil {
		return Header{}, r.fail(err)
	}
	r.left = h.CapLen
	r.records++
	return h, nil
}

// Read fills dst with bytes of the packet; dst must not be longer than what
// is unread of its CapLen.
func (r *Reader) Read(dst []byte) error {
	if r.err != nil {
		return r.err
	}
	if len(dst) > int(r.left) {
		return r.fail(fmt.Errorf("read %d bytes of a packet that has %d left", len(dst), r.left))
	}
	if err := r.full(dst); err != nil {
		return r.fail(err)
	}
	r.left -= uint32(len(dst))
	return nil
}

// Skip passes over the rest of the packet and fails if the file does not hold it.
func (r *Reader) Skip() error {
	if r.err != nil {
		return r.err
	}
	if err := r.discard(uint64(r.left)); err != nil {
		return r.fail(err)
	}
	r.left = 0
	return nil
}

// finish passes over the rest of the packet and of the record.
func (r *Reader) finish() error {
	if err := r.discard(uint64(r.left)); err != nil {
		return err
	}
	r.left = 0
	if !r.ng.open {
		return nil
	}
	r.ng.open = false
	return r.endBlock(r.ng.rest)
}

// fail keeps the first error, saying how far the file was good.
func (r *Reader) fail(err error) error {
	if err != io.EOF {
		err = fmt.Errorf("%w (record %d)", err, r.records+1)
	}
	r.err = err
	return err
}

// readFault says what an error of the source means in the middle of a record.
func readFault(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	if errors.Is(err, gzip.ErrChecksum) || errors.Is(err, gzip.ErrHeader) || isFlate(err) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// full reads len(dst) bytes or fails.
func (r *Reader) full(dst []byte) error {
	if _, err := io.ReadFull(r.in, dst); err != nil {
		return readFault(err)
	}
	return nil
}

// words reads n bytes into the scratch buffer.
func (r *Reader) words(n int) ([]byte, error) {
	b := r.scratch[:n]
	return b, r.full(b)
}

// discard passes over n bytes.
func (r *Reader) discard(n uint64) error {
	for n > 0 {
		k, err := r.in.Discard(int(min(n, 1<<30)))
		n -= uint64(k)
		if err != nil {
			return readFault(err)
		}
	}
	return nil
}

// atEnd reports whether the file ends here, between two records.
func (r *Reader) atEnd() (bool, error) {
	_, err := r.in.Peek(1)
	if err == nil {
		return false, nil
	}
	if err == io.EOF {
		return true, nil
	}
	return false, readFault(err)
}
