package port

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// completer completes partial checksums. A host whose interface has transmit checksum offload leaves the
// checksum to the device, and a device that is software only (veth, a TAP, a paravirtual NIC)
// hands the packet on as it is. The kernel knows that beside the packet (CHECKSUM_PARTIAL, include/linux/skbuff.h),
// but AF_XDP has no place for it, and the next kernel drops what a switch forwards so: ping
// works, and TCP hangs.
//
// A partial checksum shows in the packet: the field holds the sum of the pseudo-header, not inverted
// (tcp_v4_check and udp4_hwcsum in the kernel), and of SCTP zero. A complete one
// has that value once in 65,536 packets and is told apart by the full sum, so nothing right is ever changed, and a wrong
// checksum is made right only if it is wrong in exactly this way. Packets within tunnels are looked at, see within.
type completer struct {
	pool      *packet.Pool
	completed atomic.Uint64 // packets; written by the worker
}

// complete looks at received packets. It costs a few nanoseconds each where nothing is to be done.
func (c *completer) complete(mem []byte, packets []packet.Packet) {
	var found [1 + maxTunnels]transport
	for i := range packets {
		p := &packets[i]
		data := mem[p.Addr : p.Addr+uint64(p.Len) : p.Addr+uint64(p.Len)]
		if n := partial(&found, data); n != 0 {
			c.finishAll(data, p, found[:n])
		}
	}
}

// transport is where the checksum of a packet is, and what it covers.
type transport struct {
	protocol   uint8
	start, end int    // of the transport header and its payload, from the packet's first byte
	field      int    // of the checksum
	pseudo     uint16 // the sum of the pseudo-header
}

// maxTunnels bounds how many tunnels within each other are looked into.
const maxTunnels = 2

// partial finds the transport checksums of a packet, and of those that it carries in tunnels, that look as if they were partial, the
// outermost first. The kernel notes one place beside a packet: an outer checksum is then right once the inner one is complete (local
// checksum offload, Documentation/networking/checksum-offloads.rst). But of a packet that is to be cut into segments both are partial.
func partial(found *[1 + maxTunnels]transport, data []byte) (n int) {
	if len(data) < header.EthernetLen {
		return 0
	}
	at, etherType := header.EthernetLen, binary.BigEndian.Uint16(data[12:])
	for range found {
		t := &found[n]
		if t.partialAt(data, at, etherType) {
			n++
		}
		if t.protocol == header.ProtoTCP {
			break
		}
		if at, etherType = t.within(data); etherType == 0 {
			break
		}
	}
	return n
}

// The lengths of tunnels' headers, in bytes.
const (
	greHeader   = 4
	vxlanHeader = 8 // Geneve's, without options
)

// partialAt looks at the packet that begins behind the EtherType. The transport's protocol is 0 if there is none.
func (t *transport) partialAt(data []byte, l3 int, etherType uint16) bool {
	t.protocol = 0
	for tags := 0; tags < 2 && (etherType == header.TypeVLAN || etherType == header.TypeServiceVLAN); tags++ {
		if len(data) < l3+4 {
			return false
		}
		etherType = binary.BigEndian.Uint16(data[l3+2:])
		l3 += 4
	}
	if len(data) < l3+header.IPv4Len {
		return false
	}
	ip := data[l3:]
	var sum uint64
	switch etherType {
	case header.TypeIPv4:
		size := int(ip[0]&0x0f) * 4
		const fragment = 0x3fff // more fragments, and the offset
		if size < header.IPv4Len || binary.BigEndian.Uint16(ip[6:])&fragment != 0 {
			return false
		}
		t.protocol = ip[9]
		t.start, t.end = l3+size, l3+int(binary.BigEndian.Uint16(ip[2:]))
		sum = uint64(binary.BigEndian.Uint32(ip[12:])) + uint64(binary.BigEndian.Uint32(ip[16:]))
	case header.TypeIPv6:
		if len(ip) < header.IPv6Len {
			return false
		}
		t.protocol = ip[6]
		t.start, t.end = l3+header.IPv6Len, l3+header.IPv6Len+int(binary.BigEndian.Uint16(ip[4:]))
		to := ip[24:40]
		for n := 0; n < 3 && (t.protocol == header.ProtoHopByHop || t.protocol == header.ProtoDestination || t.protocol == header.ProtoRouting); n++ {
			if len(data) < t.start+8 {
				return false
			}
			// The pseudo-header has the last address of a route (RFC 8200, section 8.1). The first in the list is the last one
			// (RFC 8754), or the only one (RFC 6275).
			if kind, left := data[t.start+2], data[t.start+3]; t.protocol == header.ProtoRouting && left != 0 {
				if kind != 2 && kind != 4 || len(data) < t.start+24 {
					t.protocol = 0
					return false
				}
				to = data[t.start+8 : t.start+24]
			}
			t.protocol = data[t.start]
			t.start += 8 + 8*int(data[t.start+1])
		}
		for i := 0; i < 16; i += 4 {
			sum += uint64(binary.BigEndian.Uint32(ip[8+i:])) + uint64(binary.BigEndian.Uint32(to[i:]))
		}
	default:
		return false
	}
	switch t.protocol {
	case header.ProtoTCP:
		t.field = t.start + 16
	case header.ProtoUDP:
		t.field = t.start + 6
	case header.ProtoSCTP:
		t.field = t.start + 8
		return t.field+4 <= len(data) && t.field+4 <= t.end && binary.LittleEndian.Uint32(data[t.field:]) == 0
	default:
		return false
	}
	if t.field+2 > len(data) || t.field+2 > t.end {
		return false
	}
	sum += uint64(t.protocol) + uint64(t.end-t.start)
	sum = sum>>32 + sum&0xffffffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	t.pseudo = uint16(sum)
	return binary.BigEndian.Uint16(data[t.field:]) == t.pseudo
}

// within is where a tunnel's inner packet begins, and its EtherType; 0 if the transport is of no tunnel. UDP is by the ports that
// IANA assigned, and the one that Linux has for VXLAN.
func (t *transport) within(data []byte) (at int, etherType uint16) {
	switch t.protocol {
	case header.ProtoIPv4:
		return t.start, header.TypeIPv4
	case header.ProtoIPv6:
		return t.start, header.TypeIPv6
	case header.ProtoGRE: // RFC 2784, RFC 2890
		if len(data) < t.start+greHeader || data[t.start+1]&7 != 0 {
			return 0, 0
		}
		flags := data[t.start]
		at, etherType = t.start+greHeader, binary.BigEndian.Uint16(data[t.start+2:])
		for _, field := range []byte{0x80, 0x20, 0x10} { // checksum, key, sequence number
			if flags&field != 0 {
				at += 4
			}
		}
	case header.ProtoUDP:
		if len(data) < t.start+8+vxlanHeader {
			return 0, 0
		}
		tunnel := data[t.start+8:]
		at = t.start + 8 + vxlanHeader
		switch binary.BigEndian.Uint16(data[t.start+2:]) {
		case 4789, 8472: // VXLAN
			etherType = header.TypeBridging
		case 6081: // Geneve, RFC 8926
			at, etherType = at+int(tunnel[0]&0x3f)*4, binary.BigEndian.Uint16(tunnel[2:])
		}
	}
	if etherType == header.TypeBridging {
		if len(data) < at+header.EthernetLen {
			return 0, 0
		}
		return at + header.EthernetLen, binary.BigEndian.Uint16(data[at+12:])
	}
	return at, etherType
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// finishAll completes a packet's checksums, the innermost first: an outer one covers it.
//
//go:noinline
func (c *completer) finishAll(data []byte, p *packet.Packet, found []transport) {
	completed := false
	for i := range slices.Backward(found) {
		if c.finish(data, p, found[i]) {
			completed = true
		}
	}
	if completed {
		c.completed.Add(1)
	}
}

// finish computes a checksum that looks partial, and reports whether it was.
func (c *completer) finish(data []byte, p *packet.Packet, t transport) bool {
	if t.end > int(p.WireLen) {
		return false // cut short: what is missing was summed too
	}
	if t.protocol == header.ProtoSCTP {
		crc := uint32(0)
		c.each(data, p, t, func(piece []byte) { crc = crc32.Update(crc, castagnoli, piece) })
		binary.LittleEndian.PutUint32(data[t.field:], crc) // RFC 9260, appendix A
		return true
	}
	sum, odd := uint32(0), false
	c.each(data, p, t, func(piece []byte) {
		part := header.Sum(piece, 0)
		if odd {
			part = bits.ReverseBytes16(part)
		}
		sum += uint32(part)
		odd = odd != (len(piece)%2 != 0)
	})
	// The field is in the sum, and stands for the pseudo-header.
	sum = sum>>16 + sum&0xffff
	sum = sum>>16 + sum&0xffff
	whole := sum + uint32(t.pseudo)
	if whole = whole>>16 + whole&0xffff; whole == 0xffff {
		return false // it is right as it is
	}
	check := ^uint16(sum)
	if check == 0 && t.protocol == header.ProtoUDP {
		check = 0xffff // RFC 768: zero would mean none
	}
	binary.BigEndian.PutUint16(data[t.field:], check)
	return true
}

// each passes the pieces of what a checksum covers, one for each frame, in order.
func (c *completer) each(data []byte, p *packet.Packet, t transport, add func(piece []byte)) {
	left := t.end - t.start
	piece := data[t.start:]
	for link := p.Next; ; {
		piece = piece[:min(left, len(piece))]
		add(piece)
		left -= len(piece)
		if left == 0 || link == 0 {
			return
		}
		addr, length, next := c.pool.Next(link)
		piece, link = c.pool.Memory()[addr:addr+uint64(length)], next
	}
}
