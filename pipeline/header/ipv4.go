package header

import "encoding/binary"

// IP protocol numbers and IPv6 next headers (IANA).
const (
	ProtoHopByHop    = 0 // IPv6 hop-by-hop options
	ProtoICMP        = 1
	ProtoIGMP        = 2
	ProtoIPv4        = 4 // IPv4 in IP
	ProtoTCP         = 6
	ProtoUDP         = 17
	ProtoDCCP        = 33
	ProtoIPv6        = 41 // IPv6 in IP
	ProtoRouting     = 43 // IPv6 routing header
	ProtoFragment    = 44 // IPv6 fragment header
	ProtoGRE         = 47
	ProtoESP         = 50
	ProtoAH          = 51
	ProtoICMPv6      = 58
	ProtoNoNext      = 59 // nothing follows
	ProtoDestination = 60 // IPv6 destination options
	ProtoSCTP        = 132
	ProtoMobility    = 135
	ProtoUDPLite     = 136
	ProtoHIP         = 139
	ProtoShim6       = 140
)

// IPv4 is the fixed part of an IPv4 header (RFC 791).
//
//	0            1     2              4    6                8     9          10         12       16       20
//	| ver, ihl  | tos | total length | id | flags, offset  | ttl | protocol | checksum | source | dest   |
type IPv4 [IPv4Len]byte

// IPv4Len is the length of an IPv4 header without options, in bytes.
const IPv4Len = 20

// IPv4At returns the header at off, or nil if data ends before the end of its
// fixed part.
func IPv4At(data []byte, off int) *IPv4 {
	if uint(off)+IPv4Len > uint(len(data)) {
		return nil
	}
	return (*IPv4)(data[off:])
}

// Version returns the version, 4 in a valid header.
func (h *IPv4) Version() int { return int(h[0] >> 4) }

// HeaderLen returns the length with options, in bytes: a multiple of 4 from 0
// to 60, at least 20 in a valid header.
func (h *IPv4) HeaderLen() int { return int(h[0]&0x0f) * 4 }

// TOS returns the DSCP (6 bits) and ECN (2 bits).
func (h *IPv4) TOS() uint8 { return h[1] }

// TotalLen returns the length of header and payload, in bytes.
func (h *IPv4) TotalLen() int { return int(binary.BigEndian.Uint16(h[2:4])) }

// ID returns the identification.
func (h *IPv4) ID() uint16 { return binary.BigEndian.Uint16(h[4:6]) }

// DontFragment reports the DF flag.
func (h *IPv4) DontFragment() bool { return h[6]&0x40 != 0 }

// MoreFragments reports the MF flag.
func (h *IPv4) MoreFragments() bool { return h[6]&0x20 != 0 }

// FragmentOffset returns where the payload stood in the whole datagram's
// payload, in bytes: a multiple of 8 up to 65,528.
func (h *IPv4) FragmentOffset() int { return int(binary.BigEndian.Uint16(h[6:8])&0x1fff) * 8 }

// Fragment reports whether the packet is a part of a datagram.
func (h *IPv4) Fragment() bool { return binary.BigEndian.Uint16(h[6:8])&0x3fff != 0 }

// TTL returns the time to live.
func (h *IPv4) TTL() uint8 { return h[8] }

// Protocol returns the protocol of the payload.
func (h *IPv4) Protocol() uint8 { return h[9] }

// Checksum returns the header checksum field.
func (h *IPv4) Checksum() uint16 { return binary.BigEndian.Uint16(h[10:12]) }

// Src returns the source address.
func (h *IPv4) Src() [4]byte { return [4]byte(h[12:16]) }

// Dst returns the destination address.
func (h *IPv4) Dst() [4]byte { return [4]byte(h[16:20]) }

// SetID sets the identification and updates the checksum.
func (h *IPv4) SetID(id uint16) {
	h.setChecksum(checksumUpdate(h.Checksum(), h.ID(), id))
	binary.BigEndian.PutUint16(h[4:6], id)
}

// SetTOS sets the DSCP and ECN and updates the checksum.
func (h *IPv4) SetTOS(tos uint8) {
	first := uint16(h[0]) << 8
	h.setChecksum(checksumUpdate(h.Checksum(), first|uint16(h[1]), first|uint16(tos)))
	h[1] = tos
}

// SetDst sets the destination address and updates the checksum.
func (h *IPv4) SetDst(a [4]byte) {
	h.setChecksum(ChecksumUpdate32(h.Checksum(), binary.BigEndian.Uint32(h[16:20]), binary.BigEndian.Uint32(a[:])))
	copy(h[16:20], a[:])
}

// SetTTL sets the time to live and updates the checksum.
func (h *IPv4) SetTTL(ttl uint8) {
	proto := uint16(h[9])
	h.setChecksum(checksumUpdate(h.Checksum(), uint16(h[8])<<8|proto, uint16(ttl)<<8|proto))
	h[8] = ttl
}

func (h *IPv4) setChecksum(sum uint16) { binary.BigEndian.PutUint16(h[10:12], sum) }
