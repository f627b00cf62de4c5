package pcapfile

import (
	"compress/flate"
	"errors"
	"fmt"
)

// pcapState is what a pcap header fixes for all records.
//
//	header: magic(32) major(16) minor(16) zone(32) sigfigs(32) snaplen(32) link(32)
//	record: seconds(32) fraction(32) caplen(32) wirelen(32) [modified: 8 more bytes] packet
type pcapState struct {
	fraction int64  // nanoseconds per unit of a record's second word
	limit    uint32 // longest record that can be true
	extra    int    // bytes that modified headers have more
	swapped  bool   // before version 2.3 the two lengths were in the other order
	either   bool   // 2.3: some writers used one order, some the other
}

func (r *Reader) openPcap(magic []byte) error {
	for _, big := range []bool{false, true} {
		f := Format{BigEndian: big}
		switch f.order().Uint32(magic) {
		case magicMicro:
			r.pcap.fraction = 1000
		case magicNano:
			r.pcap.fraction, f.Nano = 1, true
		case magicModified:
			r.pcap.fraction, r.pcap.extra = 1000, 8
		default:
			continue
		}
		r.format, r.order, r.next = f, f.order(), r.nextPcap
		return r.pcapHeader()
	}
	return fmt.Errorf("%w: it begins with % x, which neither pcap nor pcapng does", ErrFormat, magic)
}

func (r *Reader) pcapHeader() error {
	h, err := r.words(24)
	if err != nil {
		return fmt.Errorf("%w: the header is shorter than 24 bytes", ErrFormat)
	}
	major, minor := r.order.Uint16(h[4:]), r.order.Uint16(h[6:])
	if major != 2 || minor > 4 {
		return fmt.Errorf("%w: pcap version %d.%d is unknown: convert it to 2.4", ErrFormat, major, minor)
	}
	r.pcap.swapped, r.pcap.either = minor < 3, minor == 3
	r.format.Zone, r.format.SigFigs = r.order.Uint32(h[8:]), r.order.Uint32(h[12:])
	r.format.SnapLen, r.format.LinkField = r.order.Uint32(h[16:]), r.order.Uint32(h[20:])
	r.link = linkOf(r.format.LinkField)
	// Files exist whose records exceed their own snap length; they are still
	// read. Beyond both limits a length is noise.
	r.pcap.limit = max(r.format.SnapLen, maxRecord)
	return nil
}

func (r *Reader) nextPcap() (Header, error) {
	if end, err := r.atEnd(); end || err != nil {
		return Header{}, orEOF(err)
	}
	b, err := r.words(16 + r.pcap.extra)
	if err != nil {
		return Header{}, err
	}
	h := Header{
		Time:     int64(r.order.Uint32(b))*1e9 + int64(r.order.Uint32(b[4:]))*r.pcap.fraction,
		CapLen:   r.order.Uint32(b[8:]),
		WireLen:  r.order.Uint32(b[12:]),
		LinkType: r.link,
	}
	if r.pcap.swapped || r.pcap.either && h.CapLen > h.WireLen {
		h.CapLen, h.WireLen = h.WireLen, h.CapLen
	}
	if h.CapLen > r.pcap.limit {
		return Header{}, fmt.Errorf("%w: a record claims %d bytes, the longest may have %d", ErrCorrupt, h.CapLen, r.pcap.limit)
	}
	return h, nil
}

// linkTypes returns the link types of the interfaces that the file has
// described so far; pcap has one.
func (r *Reader) linkTypes() []LinkType {
	if !r.format.NG {
		return []LinkType{r.link}
	}
	return append([]LinkType(nil), r.ng.seen...)
}

func isFlate(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.As(err, &corrupt)
}
