package header

import "encoding/binary"

// ICMP types and codes (RFC 792, RFC 1191).
const (
	ICMPEchoReply       = 0
	ICMPUnreachable     = 3
	ICMPSourceQuench    = 4
	ICMPRedirect        = 5
	ICMPEchoRequest     = 8
	ICMPTimeExceeded    = 11
	ICMPParameter       = 12
	ICMPNetUnreachable  = 0 // codes of ICMPUnreachable
	ICMPHostUnreachable = 1
	ICMPPortUnreachable = 3
	ICMPFragNeeded      = 4
)

// ICMPv6 types and codes (RFC 4443, RFC 4861). Types below 128 are errors.
const (
	ICMPv6Unreachable        = 1
	ICMPv6TooBig             = 2
	ICMPv6TimeExceeded       = 3
	ICMPv6EchoRequest        = 128
	ICMPv6EchoReply          = 129
	ICMPv6RouterSolicit      = 133
	ICMPv6RouterAdvert       = 134
	ICMPv6NeighbourSolicit   = 135
	ICMPv6NeighbourAdvert    = 136
	ICMPv6Redirect           = 137
	ICMPv6NoRoute            = 0 // codes of ICMPv6Unreachable
	ICMPv6AddressUnreachable = 3
	ICMPv6PortUnreachable    = 4
)

// ICMPIsError reports whether an ICMP type announces an error, about which no
// other error may be sent (RFC 1122, 3.2.2).
func ICMPIsError(typ uint8) bool {
	switch typ {
	case ICMPUnreachable, ICMPSourceQuench, ICMPRedirect, ICMPTimeExceeded, ICMPParameter:
		return true
	}
	return false
}

// ICMPv6IsError is ICMPIsError for ICMPv6 (RFC 4443, 2.4 e); redirects count.
func ICMPv6IsError(typ uint8) bool { return typ < 128 || typ == ICMPv6Redirect }

// Checksum returns the checksum field.
func (h *ICMP) Checksum() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// SetChecksum sets the checksum.
func (h *ICMP) SetChecksum(sum uint16) { binary.BigEndian.PutUint16(h[2:4], sum) }

// SetType sets the type and updates the checksum.
func (h *ICMP) SetType(typ uint8) {
	code := uint16(h[1])
	h.SetChecksum(checksumUpdate(h.Checksum(), uint16(h[0])<<8|code, uint16(typ)<<8|code))
	h[0] = typ
}

// Init writes a message's type, code and the four bytes behind the checksum,
// which it leaves zero.
func (h *ICMP) Init(typ, code uint8, rest uint32) {
	h[0], h[1], h[2], h[3] = typ, code, 0, 0
	binary.BigEndian.PutUint32(h[4:8], rest)
}

// Neighbour is an ICMPv6 neighbour solicitation or advertisement (RFC 4861,
// 4.3 and 4.4), without options.
//
//	0      1      2          4       8        24
//	| type | code | checksum | flags | target |
type Neighbour [NeighbourLen]byte

// NeighbourLen is the length of that, in bytes, and NeighbourOptLen that of
// its link-layer address option.
const (
	NeighbourLen    = 24
	NeighbourOptLen = 8
)

// Options and flags of neighbour discovery.
const (
	OptSourceLink = 1 // of solicitations
	OptTargetLink = 2 // of advertisements

	NeighbourRouter    = 1 << 31
	NeighbourSolicited = 1 << 30
	NeighbourOverride  = 1 << 29
)

// NeighbourAt returns the message at off, or nil if data ends before its end.
func NeighbourAt(data []byte, off int) *Neighbour {
	if uint(off)+NeighbourLen > uint(len(data)) {
		return nil
	}
	return (*Neighbour)(data[off:])
}

// Type returns the message type.
func (h *Neighbour) Type() uint8 { return h[0] }

// Code returns the code, 0 in a valid message.
func (h *Neighbour) Code() uint8 { return h[1] }

// Flags returns the flags of an advertisement.
func (h *Neighbour) Flags() uint32 { return binary.BigEndian.Uint32(h[4:8]) }

// Target returns the address in question.
func (h *Neighbour) Target() [16]byte { return [16]byte(h[8:24]) }

// SetTarget sets the address in question.
func (h *Neighbour) SetTarget(a [16]byte) { copy(h[8:24], a[:]) }

// LinkOption finds the link-layer address option of the given type among
// options. It reports false for found if there is none, and for valid if the
// options are malformed (RFC 4861, 7.1: such a message is discarded).
func LinkOption(options []byte, typ uint8) (mac [6]byte, found, valid bool) {
	for len(options) > 0 {
		if len(options) < 2 || options[1] == 0 || int(options[1])*8 > len(options) {
			return mac, false, false
		}
		if options[0] == typ && options[1] == 1 && !found {
			mac, found = [6]byte(options[2:8]), true
		}
		options = options[int(options[1])*8:]
	}
	return mac, found, true
}

// PutLinkOption writes a link-layer address option.
func PutLinkOption(o *[NeighbourOptLen]byte, typ uint8, mac [6]byte) {
	o[0], o[1] = typ, 1
	copy(o[2:8], mac[:])
}

// SolicitedNode returns the multicast address that neighbour solicitations for
// an address go to (RFC 4291, 2.7.1), and its Ethernet address (RFC 2464, 7).
func SolicitedNode(a [16]byte) (ip [16]byte, mac [6]byte) {
	ip = [16]byte{0xff, 0x02, 11: 1, 12: 0xff, 13: a[13], 14: a[14], 15: a[15]}
	return ip, MulticastMAC6(ip)
}

// MulticastMAC6 returns the Ethernet address of an IPv6 multicast address.
func MulticastMAC6(ip [16]byte) [6]byte {
	return [6]byte{0x33, 0x33, ip[12], ip[13], ip[14], ip[15]}
}
