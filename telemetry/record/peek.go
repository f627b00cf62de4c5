package record

import (
	"encoding/binary"
	"fmt"

	"github.com/weirswitch/weir/telemetry/hash"
)

// HeadLength is what Peek needs of a record, in bytes.
const HeadLength = fixed

// Peek reads the header, but for the name, and the length of the record that
// begins with b, of which the first HeadLength bytes suffice. It checks no checksum:
// who uses the body calls Decode. The header's hash family need not be Known.
func Peek(b []byte) (h Header, length int, err error) {
	if length, err = Length(b); err != nil {
		return h, 0, err
	}
	if len(b) < fixed {
		return h, 0, fmt.Errorf("%w: %d bytes", ErrShort, len(b))
	}
	return head(b), length, nil
}

// head reads the fixed part, but for the length of the name.
func head(r []byte) Header {
	h := Header{
		Kind:     Kind(r[3]),
		Switch:   binary.BigEndian.Uint32(r[8:]),
		Instance: binary.BigEndian.Uint16(r[12:]),
		Plan:     binary.BigEndian.Uint16(r[14:]),
		Start:    int64(binary.BigEndian.Uint64(r[16:])),
		Span:     int64(binary.BigEndian.Uint64(r[24:])),
		Missed:   binary.BigEndian.Uint64(r[32:]),
		Partial:  r[42]&flagPartial != 0,
	}
	switch {
	case r[42]&flagAES != 0:
		h.Hash = hash.FamilyOf(hash.AES, binary.BigEndian.Uint16(r[40:]))
	case r[42]&flagCRC != 0:
		h.Hash = hash.CRC
	}
	return h
}
