package header

import "encoding/binary"

// IPv6 is an IPv6 header (RFC 8200).
//
//	0                        4                6             7           8        24       40
//	| ver, class, flow label | payload length | next header | hop limit | source | dest   |
type IPv6 [IPv6Len]byte

// IPv6Len is the length of an IPv6 header, in bytes.
const IPv6Len = 40

// IPv6At returns the header at off, or nil if data ends before its end.
func IPv6At(data []byte, off int) *IPv6 {
	if uint(off)+IPv6Len > uint(len(data)) {
		return nil
	}
	return (*IPv6)(data[off:])
}

// Version returns the version, 6 in a valid header.
func (h *IPv6) Version() int { return int(h[0] >> 4) }

// TrafficClass returns the DSCP (6 bits) and ECN (2 bits).
func (h *IPv6) TrafficClass() uint8 { return h[0]<<4 | h[1]>>4 }

// FlowLabel returns the flow label, 20 bits.
func (h *IPv6) FlowLabel() uint32 { return binary.BigEndian.Uint32(h[0:4]) & 0xfffff }

// PayloadLen returns the length of everything behind this header, in bytes.
func (h *IPv6) PayloadLen() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// NextHeader returns the type of the first header behind this one.
func (h *IPv6) NextHeader() uint8 { return h[6] }

// HopLimit returns the hop limit.
func (h *IPv6) HopLimit() uint8 { return h[7] }

// Src returns the source address.
func (h *IPv6) Src() [16]byte { return [16]byte(h[8:24]) }

// Dst returns the destination address.
func (h *IPv6) Dst() [16]byte { return [16]byte(h[24:40]) }

// SetHopLimit sets the hop limit. IPv6 has no header checksum.
func (h *IPv6) SetHopLimit(n uint8) { h[7] = n }

// IPv6Ext is the first eight bytes of an IPv6 extension header; every one has
// at least so many.
//
//	0             1        2
//	| next header | length | depends on the type
type IPv6Ext [IPv6ExtLen]byte

// IPv6ExtLen is the least length of an extension header, in bytes.
const IPv6ExtLen = 8

// IPv6ExtAt returns the extension header at off, or nil if data ends before
// its first eight bytes do.
func IPv6ExtAt(data []byte, off int) *IPv6Ext {
	if uint(off)+IPv6ExtLen > uint(len(data)) {
		return nil
	}
	return (*IPv6Ext)(data[off:])
}

// IsIPv6Ext reports whether a next header value names an extension header with
// a next-header field. ESP is not one: what follows it is encrypted.
func IsIPv6Ext(next uint8) bool {
	// A set of 256 bits, one word tested: the values are spread too widely
	// for a jump table to be short.
	const low = 1<<ProtoHopByHop | 1<<ProtoRouting | 1<<ProtoFragment | 1<<ProtoAH | 1<<ProtoDestination
	const high = 1<<(ProtoMobility-128) | 1<<(ProtoHIP-128) | 1<<(ProtoShim6-128)
	switch next >> 6 {
	case 0:
		return uint64(low)>>(next&63)&1 != 0
	case 2:
		return uint64(high)>>(next&63)&1 != 0
	}
	return false
}

// NextHeader returns the type of the header behind this one.
func (h *IPv6Ext) NextHeader() uint8 { return h[0] }

// HeaderLen returns the length of an extension header whose type is self, in
// bytes, 8 to 2048. AH counts in units of four bytes, less two (RFC 4302); the
// fragment header has no length field; all others count in units of eight,
// less one (RFC 8200, RFC 6564).
func (h *IPv6Ext) HeaderLen(self uint8) int {
	switch self {
	case ProtoFragment:
		return 8
	case ProtoAH:
		return max(int(h[1])*4+8, 8)
	}
	return int(h[1])*8 + 8
}

// FragmentOffset returns where the payload of a fragment header stood in the
// whole datagram, in bytes: a multiple of 8 up to 65,528.
func (h *IPv6Ext) FragmentOffset() int { return int(binary.BigEndian.Uint16(h[2:4]) &^ 7) }

// MoreFragments reports the M flag of a fragment header.
func (h *IPv6Ext) MoreFragments() bool { return h[3]&1 != 0 }

// FragmentID returns the identification of a fragment header.
func (h *IPv6Ext) FragmentID() uint32 { return binary.BigEndian.Uint32(h[4:8]) }
