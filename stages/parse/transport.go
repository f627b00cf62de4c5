package parse

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// transport parses the header at off of protocol p.Proto. The IP packet ends
// at end; more of the frame may be padding.
func transport(p *packet.Packet, data []byte, off, end int) Fault {
	switch p.Proto {
	case header.ProtoTCP:
		return tcp(p, data, off, end)
	case header.ProtoUDP:
		return udp(p, data, off, end)
	case header.ProtoUDPLite:
		return udpLite(p, data, off, end)
	case header.ProtoICMP, header.ProtoICMPv6:
		return icmp(p, data, off, end)
	case header.ProtoSCTP:
		return sctp(p, data, off, end)
	case header.ProtoDCCP:
		return dccp(p, data, off, end)
	case header.ProtoNoNext:
		return NoFault
	}
	// ESP, tunnels and protocols that end nowhere we know: payload from here.
	if off <= len(data) {
		setL4(p, data, off, 0)
	}
	return NoFault
}

// absent reports whether a header of n bytes at off is not all there, and what
// fault that is: none if it is a capture's or a fragment's end.
func absent(p *packet.Packet, data []byte, off, n, end int, fault Fault) (bool, Fault) {
	switch {
	case off+n <= end:
		return off+n > len(data), NoFault
	case p.Flags.Has(packet.FlagFragment):
		return true, NoFault
	}
	return true, fault
}

// setL4 notes a transport header of n bytes at off. A capture may have cut its
// options; then the payload begins, and ends, where the data do.
func setL4(p *packet.Packet, data []byte, off, n int) {
	p.Flags |= packet.FlagL4
	p.L4 = uint16(off)
	p.Payload = uint16(min(off+n, len(data)))
}

func setPorts(p *packet.Packet, src, dst uint16) {
	p.Flags |= packet.FlagPorts
	p.SrcPort, p.DstPort = src, dst
}

func tcp(p *packet.Packet, data []byte, off, end int) Fault {
	if gone, fault := absent(p, data, off, header.TCPLen, end, TCPTruncated); gone {
		return fault
	}
	h := header.TCPAt(data, off)
	n := h.HeaderLen()
	if n < header.TCPLen {
		return TCPDataOffset
	}
	if off+n > end {
		if p.Flags.Has(packet.FlagFragment) {
			return NoFault
		}
		return TCPDataOffset
	}
	setL4(p, data, off, n)
	setPorts(p, h.SrcPort(), h.DstPort())
	return NoFault
}

func udp(p *packet.Packet, data []byte, off, end int) Fault {
	if gone, fault := absent(p, data, off, header.UDPLen, end, UDPTruncated); gone {
		return fault
	}
	h := header.UDPAt(data, off)
	// The length is the whole datagram's, so a fragment may have less. Having
	// more than the length says is no fault: the rest is ignored (RFC 768
	// leaves it open; hosts do).
	if h.Len() < header.UDPLen || off+h.Len() > end && !p.Flags.Has(packet.FlagFragment) {
		return UDPLength
	}
	setL4(p, data, off, header.UDPLen)
	setPorts(p, h.SrcPort(), h.DstPort())
	return NoFault
}

func udpLite(p *packet.Packet, data []byte, off, end int) Fault {
	if gone, fault := absent(p, data, off, header.UDPLen, end, UDPTruncated); gone {
		return fault
	}
	h := header.UDPAt(data, off)
	covered := h.Len() // RFC 3828, 3.1: 0 means all, 1 to 7 is invalid
	if covered != 0 && covered < header.UDPLen || off+covered > end && !p.Flags.Has(packet.FlagFragment) {
		return UDPLiteCoverage
	}
	setL4(p, data, off, header.UDPLen)
	setPorts(p, h.SrcPort(), h.DstPort())
	return NoFault
}

func icmp(p *packet.Packet, data []byte, off, end int) Fault {
	if gone, fault := absent(p, data, off, header.ICMPLen, end, ICMPTruncated); gone {
		return fault
	}
	setL4(p, data, off, header.ICMPLen)
	return NoFault
}

func sctp(p *packet.Packet, data []byte, off, end int) Fault {
	if gone, fault := absent(p, data, off, header.SCTPLen, end, SCTPTruncated); gone {
		return fault
	}
	h := header.SCTPAt(data, off)
	setL4(p, data, off, header.SCTPLen)
	setPorts(p, h.SrcPort(), h.DstPort())
	return NoFault
}

func dccp(p *packet.Packet, data []byte, off, end int) Fault {
	if gone, fault := absent(p, data, off, header.DCCPLen, end, DCCPTruncated); gone {
		return fault
	}
	h := header.DCCPAt(data, off)
	least := header.DCCPLen
	if h.Extended() {
		least = header.DCCPExtLen
	}
	n := h.DataOffset()
	if n < least {
		return DCCPDataOffset
	}
	if off+n > end {
		if p.Flags.Has(packet.FlagFragment) {
			return NoFault
		}
		return DCCPDataOffset
	}
	setL4(p, data, off, n)
	setPorts(p, h.SrcPort(), h.DstPort())
	return NoFault
}
