package virtio

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
)

// The packet's header (virtio 1.3, 5.1.6): flags 1, segmentation type 1, length of the headers 2, segment size 2, start of the
// checksum 2, its offset from there 2.
const (
	needsChecksum = 1 << 0 // VIRTIO_NET_HDR_F_NEEDS_CSUM
	segmentECN    = 1 << 7 // VIRTIO_NET_HDR_GSO_ECN

	segmentNone = 0
	segmentTCP4 = 1
	segmentTCP6 = 4
	segmentUDP  = 5 // VIRTIO_NET_HDR_GSO_UDP_L4
)

// The bounds of a packet that is cut into segments.
const (
	// maxHeaders bounds the headers that each segment repeats, in bytes.
	maxHeaders = 256
	// minSegment is the least payload of a segment, in bytes: the kernel's TCP_MIN_GSO_SIZE. It bounds how many segments
	// a packet becomes.
	minSegment = 8
	// maxLarge is the longest packet, in bytes: an IP packet behind two tags.
	maxLarge = 14 + 8 + 65535
)

// Offloads are what the driver may leave to this device.
type Offloads struct {
	Checksum        bool // VIRTIO_NET_F_CSUM
	TCP4, TCP6, UDP bool // VIRTIO_NET_F_HOST_TSO4, HOST_TSO6, HOST_USO (of both versions of IP)
}

func (o *Offloads) cuts() bool { return o.TCP4 || o.TCP6 || o.UDP }

// cut is a large packet on its way: Get returns its segments one by one. The headers are a private copy.
type cut struct {
	on      bool
	udp, v6 bool
	start   cursor // of its chain
	headers int    // bytes
	l3, l4  int    // offsets
	size    int    // payload of a segment, bytes
	left    int    // payload to come, bytes
	index   int    // of the next segment
	segment int    // where the payload goes on: in segments[segment] at offset
	offset  int
	bytes   [maxHeaders]byte
}

// read copies the next bytes of the packet, each of them once.
func (r *Ring) read(dst []byte) (n int) {
	c := &r.cut
	for n < len(dst) && c.segment < r.nsegs {
		s := r.segments[c.segment][c.offset:]
		k := copy(dst[n:], s)
		n += k
		if c.offset += k; k == len(s) {
			c.segment, c.offset = c.segment+1, 0
		}
	}
	return n
}

// complete copies a packet and completes its checksum, or begins to cut a large one and returns its first segment. The length
// is 0 if it was refused.
func (r *Ring) complete(dst []byte, start cursor) (n int, large bool) {
	want := r.buffers[0].room - r.layout.Header
	if want < minPacket {
		r.fault(FaultShort)
		return 0, false
	}
	r.cut.segment, r.cut.offset = 0, 0
	var h [12]byte
	r.read(h[:r.layout.Header])
	if h[1] != segmentNone {
		if !r.begin(h[:10], want, len(dst)) {
			return 0, false
		}
		r.cut.start, r.cut.on = start, true
		return r.cutNext(dst), true
	}
	if want > len(dst) {
		r.fault(FaultLong)
		return 0, false
	}
	r.read(dst[:want])
	if h[0]&needsChecksum != 0 && !finishChecksum(dst[:want], int(binary.LittleEndian.Uint16(h[6:])), int(binary.LittleEndian.Uint16(h[8:]))) {
		r.fault(FaultChecksum)
		return 0, false
	}
	return want, false
}

// finishChecksum completes the checksum of what is behind start. Its field holds the sum of the pseudo-header.
func finishChecksum(p []byte, start, offset int) bool {
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

// begin reads the headers of a large packet of want bytes, whose segments must fit into room bytes. What the driver says about
// them must be what they say.
func (r *Ring) begin(h []byte, want, room int) bool {
	c := &r.cut
	if want > maxLarge {
		return r.fault(FaultLong)
	}
	b := c.bytes[:r.read(c.bytes[:min(want, maxHeaders)])]
	kind := h[1] &^ segmentECN
	protocol, l3, l4 := transportOf(b)
	c.v6 = l3 != 0 && b[l3]>>4 == 6
	c.udp = protocol == header.ProtoUDP
	at := 16
	switch {
	case l3 == 0:
		return r.fault(FaultSegment)
	case kind == segmentTCP4 && r.layout.Offloads.TCP4 && protocol == header.ProtoTCP && !c.v6:
	case kind == segmentTCP6 && r.layout.Offloads.TCP6 && protocol == header.ProtoTCP && c.v6:
	case kind == segmentUDP && r.layout.Offloads.UDP && c.udp:
		at = 6
	default:
		return r.fault(FaultSegment)
	}
	c.l3, c.l4, c.headers = l3, l4, l4+8
	if !c.udp {
		if len(b) < l4+20 || b[l4+12]>>4 < 5 {
			return r.fault(FaultSegment)
		}
		c.headers = l4 + int(b[l4+12]>>4)*4
	}
	c.size = int(binary.LittleEndian.Uint16(h[4:]))
	if c.headers > len(b) || c.size < minSegment || c.headers+c.size > room {
		return r.fault(FaultSegment)
	}
	if h[0]&needsChecksum == 0 || int(binary.LittleEndian.Uint16(h[6:])) != l4 || int(binary.LittleEndian.Uint16(h[8:])) != at {
		return r.fault(FaultChecksum)
	}
	c.index, c.left = 0, want-c.headers
	r.seek(r.layout.Header + c.headers)
	return true
}

// seek goes on reading at an offset of the chain.
func (r *Ring) seek(at int) {
	c := &r.cut
	for c.segment, c.offset = 0, at; c.segment < r.nsegs && c.offset >= len(r.segments[c.segment]); c.segment++ {
		c.offset -= len(r.segments[c.segment])
	}
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

// cutNext returns the next segment. Behind the last one the buffer goes back to the driver.
func (r *Ring) cutNext(dst []byte) int {
	c := &r.cut
	n := min(c.left, c.size)
	total := c.headers + n
	if total > len(dst) { // the caller gives less room than before
		r.fault(FaultLong)
		r.cutEnd()
		return 0
	}
	dst = dst[:total]
	copy(dst, c.bytes[:c.headers])
	r.read(dst[c.headers:])
	c.left -= n
	ip, l4 := dst[c.l3:], dst[c.l4:]
	var sum uint16
	if c.v6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-40))
		sum = header.Sum(ip[8:40], 0)
	} else {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		binary.BigEndian.PutUint16(ip[4:], binary.BigEndian.Uint16(ip[4:])+uint16(c.index))
		binary.BigEndian.PutUint16(ip[10:], 0)
		binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:c.l4-c.l3]))
		sum = header.Sum(ip[12:20], 0)
	}
	pseudo := [4]byte{1: header.ProtoTCP, 2: byte(len(l4) >> 8), 3: byte(len(l4))}
	if c.udp {
		pseudo[1] = header.ProtoUDP
		binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
		binary.BigEndian.PutUint16(l4[6:], 0)
		putChecksum(l4[6:], header.Sum(l4, header.Sum(pseudo[:], sum)))
	} else {
		const fin, push, cwr = 1 << 0, 1 << 3, 1 << 7
		binary.BigEndian.PutUint32(l4[4:], binary.BigEndian.Uint32(l4[4:])+uint32(c.index*c.size))
		if c.left != 0 {
			l4[13] &^= fin | push // of the last one
		}
		if c.index != 0 {
			l4[13] &^= cwr // of the first one
		}
		binary.BigEndian.PutUint16(l4[16:], 0)
		binary.BigEndian.PutUint16(l4[16:], ^header.Sum(l4, header.Sum(pseudo[:], sum)))
	}
	c.index++
	if c.left == 0 {
		r.cutEnd()
	}
	return total
}

func (r *Ring) cutEnd() {
	r.cut.on = false
	b := &r.buffers[0]
	r.push(b.id, b.descs, 0)
}
