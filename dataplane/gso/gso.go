// Package gso cuts large packets into the segments that leave by a wire (generic segmentation offload): TCP over IPv4 and IPv6
// (TSO), and UDP (USO). A sender that leaves this to its device says how in a header of virtio-net (virtio 1.3, 5.1.6), which guests
// and the kernel's TAP interfaces use alike.
package gso

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
)

// HeaderSize is the length in bytes of the header of virtio-net without num_buffers: flags 1, segmentation type 1, length of the headers 2,
// segment size 2, start of the checksum 2, its offset from there 2.
const HeaderSize = 10

// The values in a header of virtio-net.
const (
	NeedsChecksum = 1 << 0 // flags: VIRTIO_NET_HDR_F_NEEDS_CSUM
	ECN           = 1 << 7 // type: VIRTIO_NET_HDR_GSO_ECN

	None = 0 // the types
	TCP4 = 1
	TCP6 = 4
	UDP  = 5 // VIRTIO_NET_HDR_GSO_UDP_L4
)

// The bounds of a packet that is cut into segments.
const (
	// MaxHeaders bounds the headers that each segment repeats, in bytes.
	MaxHeaders = 256
	// MinSegment is the least payload of a segment, in bytes: the kernel's TCP_MIN_GSO_SIZE. It bounds how many segments
	// a packet becomes.
	MinSegment = 8
	// MaxLarge is the longest packet, in bytes: an IP packet behind two tags.
	MaxLarge = minPacket + 8 + 65535

	minPacket = 14
)

// Fault is why a packet cannot be cut.
type Fault uint8

// The faults.
const (
	OK       Fault = iota
	Long           // longer than MaxLarge
	Segment        // not of the kind that it claims to be, or with too small or too large segments
	Checksum       // the checksum is not where its segments have it
)

// Offloads are what one side may leave to the other.
type Offloads struct {
	Checksum        bool // partial checksums
	TCP4, TCP6, UDP bool // large packets
	ECN             bool // large packets of TCP with CWR
}

// Any reports whether any large packet may come.
func (o *Offloads) Any() bool { return o.TCP4 || o.TCP6 || o.UDP }

// Takes reports whether large packets of a type may come.
func (o *Offloads) Takes(kind uint8) bool {
	switch {
	case kind&ECN != 0 && !o.ECN:
		return false
	case kind&^ECN == TCP4:
		return o.TCP4
	case kind&^ECN == TCP6:
		return o.TCP6
	}
	return kind == UDP && o.UDP
}

// Layout is where a packet's headers are.
type Layout struct {
	L3, L4  int   // offsets; L3 is 0 if there is no TCP or UDP header
	Headers int   // bytes of all headers
	Field   int   // the checksum's offset from L4
	Kind    uint8 // TCP4, TCP6 or UDP
	V6      bool
}

// Parse finds the headers of a packet that is no fragment, from its first bytes.
func Parse(b []byte) (l Layout, ok bool) {
	protocol, l3, l4 := transportOf(b)
	if l3 == 0 {
		return l, false
	}
	l = Layout{L3: l3, L4: l4, Headers: l4 + 8, Field: 6, Kind: UDP, V6: b[l3]>>4 == 6}
	if protocol == header.ProtoTCP {
		l.Field, l.Kind = 16, TCP4
		if l.V6 {
			l.Kind = TCP6
		}
		if len(b) < l4+20 || b[l4+12]>>4 < 5 {
			return l, false
		}
		l.Headers = l4 + int(b[l4+12]>>4)*4
	}
	return l, l.Headers <= len(b)
}

// transportOf finds a TCP or UDP header in a packet that is no fragment; l3 is 0 if there is none.
func transportOf(b []byte) (protocol uint8, l3, l4 int) {
	const ipv4, ipv6 = 20, 40
	l3 = minPacket
	if len(b) < l3+ipv4 {
		return 0, 0, 0
	}
	etherType := binary.BigEndian.Uint16(b[12:])
	for tags := 0; tags < 2 && (etherType == header.TypeVLAN || etherType == header.TypeServiceVLAN); tags++ {
		etherType = binary.BigEndian.Uint16(b[l3+2:])
		if l3 += 4; len(b) < l3+ipv4 {
			return 0, 0, 0
		}
	}
	ip := b[l3:]
	switch {
	case etherType == header.TypeIPv4 && ip[0]>>4 == 4:
		const fragment = 0x3fff // more fragments, and the offset
		size := int(ip[0]&0x0f) * 4
		if size < ipv4 || binary.BigEndian.Uint16(ip[6:])&fragment != 0 {
			return 0, 0, 0
		}
		protocol, l4 = ip[9], l3+size
	case etherType == header.TypeIPv6 && ip[0]>>4 == 6 && len(ip) >= ipv6:
		protocol, l4 = ip[6], l3+ipv6
		for n := 0; n < 4 && (protocol == header.ProtoHopByHop || protocol == header.ProtoDestination); n++ {
			if len(b) < l4+8 {
				return 0, 0, 0
			}
			protocol, l4 = b[l4], l4+8+8*int(b[l4+1])
		}
	default:
		return 0, 0, 0
	}
	if protocol != header.ProtoTCP && protocol != header.ProtoUDP || len(b) < l4+8 {
		return 0, 0, 0
	}
	return protocol, l3, l4
}

// Header writes the header of virtio-net for a large packet whose first bytes are b, with segments of size bytes of payload.
func Header(dst []byte, b []byte, kind uint8, size int) (ok bool) {
	l, ok := Parse(b)
	if !ok || l.Kind != kind&^ECN {
		return false
	}
	dst = dst[:HeaderSize]
	dst[0], dst[1] = NeedsChecksum, kind
	binary.LittleEndian.PutUint16(dst[2:], uint16(l.Headers))
	binary.LittleEndian.PutUint16(dst[4:], uint16(size))
	binary.LittleEndian.PutUint16(dst[6:], uint16(l.L4))
	binary.LittleEndian.PutUint16(dst[8:], uint16(l.Field))
	return true
}

// FinishChecksum completes the checksum of what is behind start. Its field holds the sum of the pseudo-header.
func FinishChecksum(p []byte, start, offset int) bool {
	if start < minPacket || start+offset+2 > len(p) {
		return false
	}
	putChecksum(p[start+offset:], header.Sum(p[start:], 0))
	return true
}

// putChecksum writes the complement of a sum; zero would mean none in UDP, and its other form is right in all protocols.
func putChecksum(field []byte, sum uint16) {
	check := ^sum
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(field, check)
}
