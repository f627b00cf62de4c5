package parse

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// maxDatagram is the longest IP payload that fragments can add up to, in
// bytes: their lengths and offsets are given in 16 bits.
const maxDatagram = 65535

func ipv4(p *packet.Packet, data []byte) Fault {
	off := int(p.L3)
	ip := header.IPv4At(data, off)
	if ip == nil {
		return missing(p, off+header.IPv4Len, IPv4Truncated)
	}
	hlen, total := ip.HeaderLen(), ip.TotalLen()
	switch {
	case ip.Version() != 4:
		return IPv4Version
	case hlen < header.IPv4Len:
		return IPv4HeaderLength
	case total < hlen || off+total > wireLen(p):
		return IPv4TotalLength
	case off+hlen > len(data):
		return NoFault // a capture cut the options
	case ip.FragmentOffset()+total > maxDatagram:
		return IPv4Fragment // RFC 791: the whole datagram's total length has 16 bits
	}
	p.Flags |= packet.FlagIPv4
	p.TTL, p.Proto = ip.TTL(), ip.Protocol()
	if hlen > header.IPv4Len {
		p.Flags |= packet.FlagIPOptions
	}
	if ip.Fragment() {
		p.Flags |= packet.FlagFragment
		if ip.FragmentOffset() != 0 {
			p.Flags |= packet.FlagLaterFragment
			return NoFault
		}
	}
	return transport(p, data, off+hlen, off+total)
}

func ipv6(p *packet.Packet, data []byte) Fault {
	off := int(p.L3)
	ip := header.IPv6At(data, off)
	if ip == nil {
		return missing(p, off+header.IPv6Len, IPv6Truncated)
	}
	if ip.Version() != 6 {
		return IPv6Version
	}
	off += header.IPv6Len
	// A jumbogram (RFC 2675) has payload length 0 and exceeds every frame of
	// ours; its hop-by-hop header is found to lie behind the end.
	end := off + ip.PayloadLen()
	if end > wireLen(p) {
		return IPv6PayloadLength
	}
	p.Flags |= packet.FlagIPv6
	p.TTL, p.Proto = ip.HopLimit(), ip.NextHeader()
	if !header.IsIPv6Ext(p.Proto) {
		return transport(p, data, off, end)
	}
	return extensions(p, data, off, end)
}

// maxExtensions bounds the IPv6 extension headers of a packet. Each type
// should occur at most once, destination options twice (RFC 8200, 4.1).
const maxExtensions = 16

// extensions walks the extension headers from off on. The payload of the IPv6
// packet ends at end.
func extensions(p *packet.Packet, data []byte, off, end int) Fault {
	p.Flags |= packet.FlagIPOptions
	for range maxExtensions {
		if off+header.IPv6ExtLen > end {
			return IPv6Extension
		}
		ext := header.IPv6ExtAt(data, off)
		if ext == nil {
			return NoFault // a capture cut it
		}
		self := p.Proto
		n := ext.HeaderLen(self)
		if off+n > end {
			return IPv6Extension
		}
		p.Proto = ext.NextHeader()
		if self == header.ProtoFragment {
			if fault := fragment6(p, ext, end-off-n); fault != NoFault || p.Flags.Has(packet.FlagLaterFragment) {
				return fault
			}
		}
		off += n
		if !header.IsIPv6Ext(p.Proto) {
			return transport(p, data, off, end)
		}
	}
	return IPv6ExtensionCount
}

// fragment6 notes the fragment header of a packet with length bytes behind it.
// A header that says "first and last" makes no fragment (RFC 6946).
func fragment6(p *packet.Packet, h *header.IPv6Ext, length int) Fault {
	if h.FragmentOffset()+length > maxDatagram {
		return IPv6Fragment
	}
	if h.FragmentOffset() != 0 {
		p.Flags |= packet.FlagFragment | packet.FlagLaterFragment
	} else if h.MoreFragments() {
		p.Flags |= packet.FlagFragment
	}
	return NoFault
}
