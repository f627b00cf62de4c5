// Package record is the envelope in which what a switch measured in an epoch
// travels: to a file, to a collector, into a query. The body is of the system
// that measured, by its codec; the envelope names all that is needed to
// distinguish records, to count what is missing and to join them.
//
// A record, in network byte order; an offset is in bytes:
//
//	0      2         3      4        8        12         14     16      24     32       40
//	| "WR" | version | kind | length | switch | instance | plan | start | span | missed |
//	40     42      43            44
//	| key id | flags | name length | name | body | CRC-32C of all before it |
//
// length counts everything, from the first byte to the checksum. Bit 0 of flags says that
// the switch was not there for the whole slice, bit 1 that it hashes by the family crc,
// bit 2 that it does by aes under the network's key with that id; neither means xxhash. Others are zero, as
// is the key id but of aes.
package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/weirswitch/weir/telemetry/hash"
)

// Kind is the system that a record is of.
type Kind uint8

// The kinds. Numbers are never reused.
const (
	PINT      Kind = 1 // digests that a sink took off packets
	DiSketch  Kind = 2 // a fragment's subepoch
	Oblivious Kind = 3 // a sample
	LDS       Kind = 4 // a measurement point's interval
	Status    Kind = 5 // what a switch says of itself
)

// String is the kind's name, as in subjects, metrics and on command lines.
func (k Kind) String() string {
	switch k {
	case PINT:
		return "pint"
	case DiSketch:
		return "disketch"
	case Oblivious:
		return "oblivious"
	case LDS:
		return "lds"
	case Status:
		return "status"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Partitions is into how many parts the digests of a network are divided. The part of a
// flow is a hash of its 5-tuple (pint.FlowKey.Partition), and a record of kind PINT names
// it as its Instance, so that all digests of a flow, whichever sink took them off, meet
// in one part: of a subject, and of the collectors that share a network. A part of
// the records' format, like the numbers of the kinds.
const Partitions = 16

// Header is what a record says beside its body.
type Header struct {
	Kind Kind
	// Switch is the number of the switch in the network, and Name its name, of
	// at most 255 bytes.
	Switch uint32
	Name   string
	// Instance distinguishes several measurements of a kind on one switch: the
	// fragment, the measurement point, the partition of digests.
	Instance uint16
	// Plan is the id of PINT's plan; 0 for the other kinds.
	Plan uint16
	// Start and Span are the slice of the clock in which the packets were
	// measured, in nanoseconds of CLOCK_TAI.
	Start, Span int64
	// Missed packets of the slice are not in the body: the switch had nowhere to
	// count them.
	Missed uint64
	// Partial: the switch, or one of its workers, was not there for the whole
	// slice, or its clock stepped.
	Partial bool
	// Hash is the family by which the switch hashes packets and flows, of aes with the id of the key. Decode returns
	// no family whose key the process does not have.
	Hash hash.Family
}

// Emit takes one record off who measured it: its header, in which the exporter
// fills in the switch, its name and its hash family, and the function that appends its body. Both
// are used before it returns. Where no records are kept, body is not called.
type Emit = func(h *Header, body func(dst []byte) ([]byte, error))

// The sizes of the format, in bytes.
const (
	version   = 1
	fixed     = 44
	trailer   = 4
	MaxLength = 64 << 20 // of a whole record
)

// The flags. A family takes a bit, but for xxhash.
const (
	flagPartial = 1 << iota
	flagCRC
	flagAES
)

// Errors that a reader branches on; they come wrapped with what was wrong.
var (
	// ErrShort: the bytes end inside the record.
	ErrShort = errors.New("the record is cut off")
	// ErrCorrupt: this is no record, or a changed one.
	ErrCorrupt = errors.New("not a record")
	// ErrVersion: the record is of a later version of Weir.
	ErrVersion = errors.New("the record is of a version that this program does not know")
	// ErrKey: the record is of a network whose key the process does not have.
	ErrKey = errors.New("the record is hashed under a network key that is not loaded")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Append appends the record of a header and a body, which is appended by
// appendBody, to dst. On error it returns dst as it was.
func Append(dst []byte, h *Header, appendBody func(dst []byte) ([]byte, error)) ([]byte, error) {
	if len(h.Name) > 255 {
		return dst, fmt.Errorf("a switch name of %d bytes: 255 at most", len(h.Name))
	}
	begin := len(dst)
	dst = append(dst, 'W', 'R', version, byte(h.Kind), 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, h.Switch)
	dst = binary.BigEndian.AppendUint16(dst, h.Instance)
	dst = binary.BigEndian.AppendUint16(dst, h.Plan)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Start))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Span))
	dst = binary.BigEndian.AppendUint64(dst, h.Missed)
	flags := byte(0)
	if h.Partial {
		flags |= flagPartial
	}
	switch h.Hash.Kind() {
	case hash.CRC:
		flags |= flagCRC
	case hash.AES:
		flags |= flagAES
	}
	dst = binary.BigEndian.AppendUint16(dst, h.Hash.KeyID())
	dst = append(dst, flags, byte(len(h.Name)))
	dst = append(dst, h.Name...)
	whole, err := appendBody(dst)
	if err != nil {
		return dst[:begin], err
	}
	dst = whole
	length := len(dst) - begin + trailer
	if length > MaxLength {
		return dst[:begin], fmt.Errorf("a record of %d bytes: %d at most", length, MaxLength)
	}
	binary.BigEndian.PutUint32(dst[begin+4:], uint32(length))
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[begin:], castagnoli)), nil
}

// Decode reads the record at the beginning of b. body and rest alias b. No
// length is believed before the bytes are there. With ErrKey the record is whole, but for its body, which means nothing without
// the key: h and rest are as without an error.
func Decode(b []byte) (h Header, body, rest []byte, err error) {
	length, err := Length(b)
	if err != nil {
		return h, nil, b, err
	}
	if len(b) < length {
		return h, nil, b, fmt.Errorf("%w: %d of %d bytes", ErrShort, len(b), length)
	}
	r, rest := b[:length], b[length:]
	sum := binary.BigEndian.Uint32(r[length-trailer:])
	r = r[:length-trailer]
	if crc32.Checksum(r, castagnoli) != sum {
		return h, nil, b, fmt.Errorf("%w: the checksum is wrong", ErrCorrupt)
	}
	h = head(r)
	end := fixed + int(r[43])
	if end > len(r) {
		return Header{}, nil, b, fmt.Errorf("%w: the name runs over its end", ErrCorrupt)
	}
	h.Name = string(r[fixed:end])
	if !h.Hash.Known() {
		return h, nil, rest, fmt.Errorf("%w: key id %04x, of switch %d (%q)", ErrKey, h.Hash.KeyID(), h.Switch, h.Name)
	}
	return h, r[end:], rest, nil
}

// Length returns the length of the record that begins with b, of which the
// first 8 bytes suffice.
func Length(b []byte) (int, error) {
	if len(b) < 8 {
		return 0, fmt.Errorf("%w: %d bytes", ErrShort, len(b))
	}
	if b[0] != 'W' || b[1] != 'R' {
		return 0, fmt.Errorf("%w: it begins with %x", ErrCorrupt, b[:2])
	}
	if b[2] != version {
		return 0, fmt.Errorf("%w: %d", ErrVersion, b[2])
	}
	length := binary.BigEndian.Uint32(b[4:])
	if length < fixed+trailer || length > MaxLength {
		return 0, fmt.Errorf("%w: it claims %d bytes", ErrCorrupt, length)
	}
	return int(length), nil
}
