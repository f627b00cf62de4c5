package header

import "encoding/binary"

// TCP is the fixed part of a TCP header (RFC 9293).
//
//	0          2          4          8     12             13      14       16         18      20
//	| src port | dst port | sequence | ack | offset, rsvd | flags | window | checksum | urgent |
type TCP [TCPLen]byte

// TCPLen is the length of a TCP header without options, in bytes.
const TCPLen = 20

// TCP flags.
const (
	TCPFin = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
	TCPUrg
	TCPEce
	TCPCwr
)

// TCPAt returns the header at off, or nil if data ends before the end of its
// fixed part.
func TCPAt(data []byte, off int) *TCP {
	if uint(off)+TCPLen > uint(len(data)) {
		return nil
	}
	return (*TCP)(data[off:])
}

// SrcPort returns the source port.
func (h *TCP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort returns the destination port.
func (h *TCP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Seq returns the sequence number.
func (h *TCP) Seq() uint32 { return binary.BigEndian.Uint32(h[4:8]) }

// Ack returns the acknowledgement number.
func (h *TCP) Ack() uint32 { return binary.BigEndian.Uint32(h[8:12]) }

// HeaderLen returns the length with options, in bytes: a multiple of 4 from 0
// to 60, at least 20 in a valid header.
func (h *TCP) HeaderLen() int { return int(h[12]>>4) * 4 }

// Flags returns the eight flags, TCPFin to TCPCwr.
func (h *TCP) Flags() uint8 { return h[13] }

// Window returns the window field, unscaled.
func (h *TCP) Window() uint16 { return binary.BigEndian.Uint16(h[14:16]) }

// Checksum returns the checksum field.
func (h *TCP) Checksum() uint16 { return binary.BigEndian.Uint16(h[16:18]) }

// UDP is a UDP header (RFC 768). UDP-Lite (RFC 3828) has the same, but its
// third field is the number of bytes that the checksum covers.
//
//	0          2          4        6          8
//	| src port | dst port | length | checksum |
type UDP [UDPLen]byte

// UDPLen is the length of a UDP header, in bytes.
const UDPLen = 8

// UDPAt returns the header at off, or nil if data ends before its end.
func UDPAt(data []byte, off int) *UDP {
	if uint(off)+UDPLen > uint(len(data)) {
		return nil
	}
	return (*UDP)(data[off:])
}

// SrcPort returns the source port.
func (h *UDP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort returns the destination port.
func (h *UDP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Len returns the length of header and payload, in bytes.
func (h *UDP) Len() int { return int(binary.BigEndian.Uint16(h[4:6])) }

// Checksum returns the checksum field; 0 over IPv4 means none.
func (h *UDP) Checksum() uint16 { return binary.BigEndian.Uint16(h[6:8]) }

// SCTP is an SCTP common header (RFC 9260).
//
//	0          2          4                  8          12
//	| src port | dst port | verification tag | checksum |
type SCTP [SCTPLen]byte

// SCTPLen is the length of an SCTP common header, in bytes.
const SCTPLen = 12

// SCTPAt returns the header at off, or nil if data ends before its end.
func SCTPAt(data []byte, off int) *SCTP {
	if uint(off)+SCTPLen > uint(len(data)) {
		return nil
	}
	return (*SCTP)(data[off:])
}

// SrcPort returns the source port.
func (h *SCTP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort returns the destination port.
func (h *SCTP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// Tag returns the verification tag.
func (h *SCTP) Tag() uint32 { return binary.BigEndian.Uint32(h[4:8]) }

// DCCP is the generic DCCP header with a short sequence number (RFC 4340).
//
//	0          2          4             5           6          8            9          12
//	| src port | dst port | data offset | cc, cover | checksum | type, ext | sequence |
type DCCP [DCCPLen]byte

// The lengths of a generic DCCP header, in bytes: with short and with
// extended sequence numbers.
const (
	DCCPLen    = 12
	DCCPExtLen = 16
)

// DCCPAt returns the header at off, or nil if data ends before its end.
func DCCPAt(data []byte, off int) *DCCP {
	if uint(off)+DCCPLen > uint(len(data)) {
		return nil
	}
	return (*DCCP)(data[off:])
}

// SrcPort returns the source port.
func (h *DCCP) SrcPort() uint16 { return binary.BigEndian.Uint16(h[0:2]) }

// DstPort returns the destination port.
func (h *DCCP) DstPort() uint16 { return binary.BigEndian.Uint16(h[2:4]) }

// DataOffset returns the length of the header with options, in bytes: a
// multiple of 4 from 0 to 1020.
func (h *DCCP) DataOffset() int { return int(h[4]) * 4 }

// Extended reports whether the sequence number has 48 bits: then the generic
// header has DCCPExtLen bytes.
func (h *DCCP) Extended() bool { return h[8]&1 != 0 }

// ICMP is the first eight bytes of an ICMP (RFC 792) or ICMPv6 (RFC 4443)
// message.
//
//	0      1      2          4              8
//	| type | code | checksum | depends on the type |
type ICMP [ICMPLen]byte

// ICMPLen is the length of that, in bytes.
const ICMPLen = 8

// ICMPAt returns the message at off, or nil if data ends before its first
// eight bytes do.
func ICMPAt(data []byte, off int) *ICMP {
	if uint(off)+ICMPLen > uint(len(data)) {
		return nil
	}
	return (*ICMP)(data[off:])
}

// Type returns the message type.
func (h *ICMP) Type() uint8 { return h[0] }

// Code returns the code within the type.
func (h *ICMP) Code() uint8 { return h[1] }

// Echo returns the identifier and sequence number of an echo request or reply.
func (h *ICMP) Echo() (id, seq uint16) {
	return binary.BigEndian.Uint16(h[4:6]), binary.BigEndian.Uint16(h[6:8])
}
