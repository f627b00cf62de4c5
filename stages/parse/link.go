package parse

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// maxTags bounds the VLAN tags that are looked behind, maxShims the telemetry
// shims: one of the network and one that a host sent.
const (
	maxTags  = 8
	maxShims = 2
)

// headers parses a packet of at least 14 bytes, whatever it holds, and sets
// all its metadata that come from bytes. It is the whole parser; plain only
// does the most usual packets faster.
func headers(p *packet.Packet, data []byte) Fault {
	p.Flags = groupFlags(data)
	p.L4, p.Payload, p.VLAN, p.SrcPort, p.DstPort = 0, 0, 0, 0, 0
	p.Proto, p.TTL = 0, 0
	fault := link(p, data)
	if fault == NoFault && p.EtherType == header.TypeShim {
		fault = shims(p, data)
	}
	if fault == NoFault {
		switch p.EtherType {
		case header.TypeIPv4:
			fault = ipv4(p, data)
		case header.TypeIPv6:
			fault = ipv6(p, data)
		case header.TypeARP:
			fault = arp(p, data)
		case header.TypeMPLS, header.TypeMPLSMulticast:
			p.Flags |= packet.FlagMPLS
		}
	}
	if fault != NoFault {
		p.Flags |= packet.FlagMalformed
	}
	return fault
}

// groupFlags returns the flags of the destination address.
func groupFlags(data []byte) packet.Flags {
	eth := header.EthernetAt(data, 0)
	if !eth.Multicast() {
		return 0
	}
	if eth.Broadcast() {
		return packet.FlagMulticast | packet.FlagBroadcast
	}
	return packet.FlagMulticast
}

// link finds the EtherType behind all VLAN tags.
func link(p *packet.Packet, data []byte) Fault {
	off := header.EthernetLen
	p.EtherType = header.EthernetAt(data, 0).Type()
	p.L3 = uint16(off)
	for range maxTags {
		if !header.IsVLAN(p.EtherType) {
			return NoFault
		}
		tag := header.VLANAt(data, off)
		if tag == nil {
			return missing(p, off+header.VLANLen, VLANTruncated)
		}
		if p.Flags.Has(packet.FlagVLAN) {
			p.Flags |= packet.FlagQinQ
		} else {
			p.Flags |= packet.FlagVLAN
			p.VLAN = tag.TCI()
		}
		off += header.VLANLen
		p.EtherType = tag.Type()
		p.L3 = uint16(off)
	}
	return NoFault // a ninth tag is left as an opaque EtherType
}

// shims finds the EtherType behind the shims. A shim that is malformed, and what
// follows maxShims of them, is an opaque EtherType.
func shims(p *packet.Packet, data []byte) Fault {
	for range maxShims {
		if p.EtherType != header.TypeShim {
			return NoFault
		}
		off := int(p.L3)
		s := header.ShimAt(data, off)
		if s == nil {
			n := header.ShimLen(1)
			if off < len(data) {
				n = header.ShimLen(int(data[off]&7) + 1)
			}
			return missing(p, off+n, ShimTruncated)
		}
		if s.Version() != header.ShimVersion {
			return ShimVersion
		}
		p.Flags |= packet.FlagShim
		p.EtherType = s.Type()
		p.L3 += uint16(len(s))
	}
	return NoFault
}

// missing is the fault of a header that should end at end but is not all in
// the first frame: none if the packet had it on the wire, and a capture cut it.
func missing(p *packet.Packet, end int, fault Fault) Fault {
	if wireLen(p) >= end {
		return NoFault
	}
	return fault
}

// wireLen is the length on the wire, of which a broken capture may say that it
// was less than what was captured.
func wireLen(p *packet.Packet) int { return int(max(p.WireLen, p.Len)) }

func arp(p *packet.Packet, data []byte) Fault {
	// The eight bytes of types and lengths decide whether the rest is ours.
	const fixed = 8
	off := int(p.L3)
	if off+fixed > len(data) {
		return missing(p, off+fixed, ARPTruncated)
	}
	var head header.ARP
	copy(head[:fixed], data[off:])
	if !head.EthernetIPv4() {
		return NoFault
	}
	if off+header.ARPLen > len(data) {
		return missing(p, off+header.ARPLen, ARPTruncated)
	}
	p.Flags |= packet.FlagARP
	return NoFault
}
