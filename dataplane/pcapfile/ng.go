package pcapfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
)

// ngState is where the reader is in a pcapng file.
//
//	block:   type(32) length(32) body, padded to 32 bits  length(32)
//	section: magic(32) major(16) minor(16) length(64) options
type ngState struct {
	ifaces []ngInterface // of this section
	seen   []LinkType    // of all sections, each type once
	alien  bool          // this section has an undefined version
	// block is the total length of the block being read; open says that a
	// packet of it was handed out, behind which rest bytes of the body lie.
	block uint32
	open  bool
	rest  uint64
	// ahead is a packet block's header that openNG met.
	ahead  bool
	header Header
}

// ngInterface is an interface description block.
type ngInterface struct {
	link    LinkType
	snapLen uint32
	// units is how many timestamp units make a second; 0 where 64 bits cannot
	// say it, which no clock needs.
	units  uint64
	offset int64 // seconds to add
}

// maxInterfaces bounds the memory that a hostile section can ask for.
const maxInterfaces = 1 << 16

// Block types.
const (
	blockInterface = 1
	blockPacket    = 2 // obsolete
	blockSimple    = 3
	blockEnhanced  = 6
)

// Options of an interface description block.
const (
	optEnd        = 0
	optResolution = 9
	optOffset     = 14
)

// openNG reads up to the first packet, or the first fault behind it, which
// Next then reports.
func (r *Reader) openNG() error {
	r.format = Format{NG: true, Nano: true, LinkField: uint32(Ethernet)}
	r.next = r.nextNG
	if _, _, err := r.readBlock(); err != nil {
		return fmt.Errorf("%w: section header: %w", ErrFormat, err)
	}
	h, err := r.nextNG()
	if err != nil {
		r.err = r.fail(err)
		return nil
	}
	r.ng.ahead, r.ng.header = true, h
	return nil
}

func (r *Reader) nextNG() (Header, error) {
	if r.ng.ahead {
		r.ng.ahead = false
		return r.ng.header, nil
	}
	for {
		if end, err := r.atEnd(); end || err != nil {
			return Header{}, orEOF(err)
		}
		h, found, err := r.readBlock()
		if err != nil || found {
			return h, err
		}
	}
}

func orEOF(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// readBlock reads one block; of a packet block, all before the packet.
func (r *Reader) readBlock() (h Header, found bool, err error) {
	b, err := r.words(8)
	if err != nil {
		return h, false, err
	}
	if binary.LittleEndian.Uint32(b) == magicNG {
		return h, false, r.readSection()
	}
	kind := r.order.Uint32(b)
	if err := r.setLength(r.order.Uint32(b[4:])); err != nil {
		return h, false, err
	}
	body := uint64(r.ng.block) - 12
	if r.ng.alien {
		return h, false, r.endBlock(body)
	}
	switch kind {
	case blockInterface:
		return h, false, r.readInterface(body)
	case blockEnhanced, blockPacket:
		h, err = r.readPacket(body, kind == blockPacket)
		return h, err == nil, err
	case blockSimple:
		h, err = r.readSimple(body)
		return h, err == nil, err
	}
	return h, false, r.endBlock(body)
}

func (r *Reader) setLength(n uint32) error {
	if n < 12 || n%4 != 0 {
		return fmt.Errorf("%w: a block of %d bytes: blocks have at least 12, in fours", ErrCorrupt, n)
	}
	r.ng.block = n
	return nil
}

// endBlock passes over the rest of a block's body and compares the length
// behind it.
func (r *Reader) endBlock(rest uint64) error {
	if err := r.discard(rest); err != nil {
		return err
	}
	b, err := r.words(4)
	if err != nil {
		return err
	}
	if n := r.order.Uint32(b); n != r.ng.block {
		return fmt.Errorf("%w: a block has %d bytes at its head and %d at its end", ErrCorrupt, r.ng.block, n)
	}
	return nil
}

// readSection reads a section header behind its type. A section may have
// another byte order than the one before.
func (r *Reader) readSection() error {
	var length [4]byte
	copy(length[:], r.scratch[4:8])
	b, err := r.words(16)
	if err != nil {
		return err
	}
	switch uint32(magicOrder) {
	case binary.LittleEndian.Uint32(b):
		r.order = binary.LittleEndian
	case binary.BigEndian.Uint32(b):
		r.order = binary.BigEndian
	default:
		return fmt.Errorf("%w: a section's byte order mark is % x", ErrCorrupt, b[:4])
	}
	r.format.BigEndian = r.order == binary.BigEndian
	if err := r.setLength(r.order.Uint32(length[:])); err != nil {
		return err
	}
	if r.ng.block < 28 {
		return fmt.Errorf("%w: a section header of %d bytes: it has at least 28", ErrCorrupt, r.ng.block)
	}
	r.ng.ifaces = r.ng.ifaces[:0]
	// Minor 2 is 1.0 under the number of an early draft. Of other versions
	// only the framing is known, so their packets cannot be read.
	major, minor := r.order.Uint16(b[4:]), r.order.Uint16(b[6:])
	r.ng.alien = major != 1 || minor != 0 && minor != 2
	return r.endBlock(uint64(r.ng.block) - 28)
}

func (r *Reader) readInterface(body uint64) error {
	if body < 8 {
		return fmt.Errorf("%w: an interface description of %d bytes: it has at least 8", ErrCorrupt, body)
	}
	if len(r.ng.ifaces) == maxInterfaces {
		return fmt.Errorf("%w: a section describes more than %d interfaces", ErrCorrupt, maxInterfaces)
	}
	b, err := r.words(8)
	if err != nil {
		return err
	}
	iface := ngInterface{link: LinkType(r.order.Uint16(b)), snapLen: r.order.Uint32(b[4:]), units: 1e6}
	rest, err := r.readOptions(&iface, body-8)
	if err != nil {
		return err
	}
	if err := r.endBlock(rest); err != nil {
		return err
	}
	r.ng.ifaces = append(r.ng.ifaces, iface)
	if !slices.Contains(r.ng.seen, iface.link) {
		r.ng.seen = append(r.ng.seen, iface.link)
	}
	return nil
}

// readOptions reads the options that bear on time and returns how many bytes
// of the block it left unread. An option that overruns the block ends the list:
// the block's own length says where to go on.
//
//	option: code(16) length(16) value, padded to 32 bits
func (r *Reader) readOptions(iface *ngInterface, rest uint64) (uint64, error) {
	for rest >= 4 {
		b, err := r.words(4)
		if err != nil {
			return 0, err
		}
		rest -= 4
		code, length := r.order.Uint16(b), r.order.Uint16(b[2:])
		padded := (uint64(length) + 3) &^ 3
		if code == optEnd || padded > rest {
			break
		}
		rest -= padded
		switch {
		case code == optResolution && length == 1:
			if b, err = r.words(4); err == nil {
				iface.units = unitsPerSecond(b[0])
			}
		case code == optOffset && length == 8:
			if b, err = r.words(8); err == nil {
				iface.offset = int64(r.order.Uint64(b))
			}
		default:
			err = r.discard(padded)
		}
		if err != nil {
			return 0, err
		}
	}
	return rest, nil
}

// unitsPerSecond reads if_tsresol: a negative power of 10, or, with the top
// bit, of 2. It returns 0 for what exceeds 64 bits.
func unitsPerSecond(resolution byte) uint64 {
	n := resolution & 0x7f
	if resolution&0x80 != 0 {
		return 1 << n // 0 from 2^64 on, as Go shifts
	}
	if n > 19 {
		return 0
	}
	units := uint64(1)
	for range n {
		units *= 10
	}
	return units
}

// nanoseconds converts a timestamp of the interface.
func (f *ngInterface) nanoseconds(ts uint64) int64 {
	if f.units == 0 {
		return 0
	}
	seconds := ts / f.units
	// The remainder is less than units, so the quotient is less than 1e9.
	hi, lo := bits.Mul64(ts%f.units, 1e9)
	fraction, _ := bits.Div64(hi, lo, f.units)
	const limit = int64(math.MaxInt64/1_000_000_000 - 1)
	if seconds > uint64(limit) || f.offset > limit-int64(seconds) {
		return math.MaxInt64
	}
	if f.offset < -limit {
		return math.MinInt64
	}
	return (int64(seconds)+f.offset)*1e9 + int64(fraction)
}

// readPacket reads an enhanced packet block, or its obsolete forerunner, up to
// the packet.
//
//	enhanced: interface(32)           time(32+32) caplen(32) wirelen(32) packet options
//	obsolete: interface(16) drops(16) time(32+32) caplen(32) wirelen(32) packet options
func (r *Reader) readPacket(body uint64, obsolete bool) (Header, error) {
	if body < 20 {
		return Header{}, fmt.Errorf("%w: a packet block of %d bytes: it has at least 20", ErrCorrupt, body)
	}
	b, err := r.words(20)
	if err != nil {
		return Header{}, err
	}
	h := Header{Interface: r.order.Uint32(b), CapLen: r.order.Uint32(b[12:]), WireLen: r.order.Uint32(b[16:])}
	if obsolete {
		h.Interface = uint32(r.order.Uint16(b))
	}
	iface, err := r.iface(h.Interface)
	if err != nil {
		return Header{}, err
	}
	h.LinkType = iface.link
	h.Time = iface.nanoseconds(uint64(r.order.Uint32(b[4:]))<<32 | uint64(r.order.Uint32(b[8:])))
	return h, r.packetBehind(h.CapLen, body-20)
}

// readSimple reads a simple packet block up to the packet. It belongs to the
// first interface, whose snap length says how much of the packet is there.
//
//	simple: wirelen(32) packet
func (r *Reader) readSimple(body uint64) (Header, error) {
	if body < 4 {
		return Header{}, fmt.Errorf("%w: a simple packet block of %d bytes: it has at least 4", ErrCorrupt, body)
	}
	b, err := r.words(4)
	if err != nil {
		return Header{}, err
	}
	iface, err := r.iface(0)
	if err != nil {
		return Header{}, err
	}
	h := Header{WireLen: r.order.Uint32(b), LinkType: iface.link}
	h.CapLen = h.WireLen
	if iface.snapLen != 0 {
		h.CapLen = min(h.CapLen, iface.snapLen)
	}
	return h, r.packetBehind(h.CapLen, body-4)
}

func (r *Reader) iface(i uint32) (*ngInterface, error) {
	if uint64(i) >= uint64(len(r.ng.ifaces)) {
		return nil, fmt.Errorf("%w: a packet of interface %d, of %d described", ErrCorrupt, i, len(r.ng.ifaces))
	}
	return &r.ng.ifaces[i], nil
}

// packetBehind notes what follows a packet of capLen bytes in a body of which
// rest bytes are unread.
func (r *Reader) packetBehind(capLen uint32, rest uint64) error {
	if uint64(capLen) > rest {
		return fmt.Errorf("%w: a packet of %d bytes in a block with room for %d", ErrCorrupt, capLen, rest)
	}
	r.ng.open, r.ng.rest = true, rest-uint64(capLen)
	return nil
}
