package l3

import (
	"net/netip"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// linkHopLimit is the hop limit of neighbour discovery: no router can have
// forwarded a packet that still has it (RFC 4861, 7.1).
const linkHopLimit = 255

// Discovery reports whether a parsed packet is a neighbour solicitation or
// advertisement.
func Discovery(p *packet.Packet, data []byte) bool {
	return p.Flags.Has(packet.FlagIPv6) && p.Flags.Has(packet.FlagL4) && p.Proto == header.ProtoICMPv6 &&
		(data[p.L4] == header.ICMPv6NeighbourSolicit || data[p.L4] == header.ICMPv6NeighbourAdvert)
}

// DiscoveryChecksum reports whether the checksum of such a packet is right (RFC 4443, 2.3). One that is cut, or too short
// for a message, is refused for other reasons than its checksum, which counts as right.
func DiscoveryChecksum(p *packet.Packet, data []byte) bool {
	ip := header.IPv6At(data, int(p.L3))
	end := int(p.L3) + header.IPv6Len + ip.PayloadLen()
	if p.TTL != linkHopLimit || end > len(data) || end-int(p.L4) < header.NeighbourLen {
		return true
	}
	body := data[p.L4:end]
	return header.Sum(body, header.PseudoSum6(ip, header.ProtoICMPv6, len(body))) == 0xffff
}

// discovery deals with such a packet, after RFC 4861, 7: it answers for the
// port's own addresses, and learns like arp does.
func (s *stage) discovery(b *packet.Batch, p *packet.Packet, number uint16) {
	in, data := &s.t.ports[number], b.Data(p)
	ip := header.IPv6At(data, int(p.L3))
	end := int(p.L3) + header.IPv6Len + ip.PayloadLen()
	mac := header.EthernetAt(data, 0).Dst()
	if mac[0]&1 == 0 && macWord(mac) != in.mac {
		b.Drop(p, reasonNotForUs)
		return
	}
	if p.TTL != linkHopLimit || end > len(data) || end-int(p.L4) < header.NeighbourLen {
		b.Drop(p, reasonNeighbour)
		return
	}
	if !DiscoveryChecksum(p, data) {
		b.Drop(p, reasonBadChecksum)
		return
	}
	body := data[p.L4:end]
	b.Drop(p, packet.Consumed)
	message := header.NeighbourAt(body, 0)
	ok := message.Code() == 0 && !netip.AddrFrom16(message.Target()).IsMulticast()
	if ok && message.Type() == header.ICMPv6NeighbourSolicit {
		ok = s.solicitation(b, p, number, ip, message, body[header.NeighbourLen:])
	} else if ok {
		ok = s.advertisement(b, p, number, message, body[header.NeighbourLen:])
	}
	if !ok {
		p.Reason = reasonNeighbour
	} else if message.Type() == header.ICMPv6NeighbourAdvert {
		s.answerToHost(b, p, number)
	}
}

// solicitation answers who asks for an address of the port.
func (s *stage) solicitation(b *packet.Batch, p *packet.Packet, number uint16, ip *header.IPv6, message *header.Neighbour, options []byte) bool {
	in := &s.t.ports[number]
	target := netip.AddrFrom16(message.Target())
	mac, found, valid := header.LinkOption(options, header.OptSourceLink)
	src := netip.AddrFrom16(ip.Src())
	if !valid || in.owns(src) || src.IsMulticast() || src.IsUnspecified() && found {
		return false
	}
	if !in.owns(target) {
		return true // of others
	}
	// A node without an address checks whether ours is free (RFC 4862, 5.4): answer all.
	to, toMAC, flags := ip.Src(), header.EthernetAt(b.Data(p), 0).Src(), uint32(header.NeighbourRouter|header.NeighbourOverride)
	if src.IsUnspecified() {
		to = [16]byte{0xff, 0x02, 15: 1}
		toMAC = header.MulticastMAC6(to)
	} else {
		flags |= header.NeighbourSolicited
		if found {
			toMAC = mac
			s.confirm(b, src, number, macWord(mac), in.onLink(src))
		}
	}
	s.neighbourMessage(b, number, message.Target(), to, toMAC, header.ICMPv6NeighbourAdvert, flags, message.Target(), header.OptTargetLink)
	s.answered.Add(1)
	return true
}

// advertisement learns who has an address. Only what was asked for, or is known,
// is of interest.
func (s *stage) advertisement(b *packet.Batch, p *packet.Packet, number uint16, message *header.Neighbour, options []byte) bool {
	in := &s.t.ports[number]
	target := netip.AddrFrom16(message.Target())
	mac, found, valid := header.LinkOption(options, header.OptTargetLink)
	if !valid || in.owns(target) {
		return false
	}
	if !found {
		mac = header.EthernetAt(b.Data(p), 0).Src() // the answer to a unicast question may lack it
	}
	s.confirm(b, target, number, macWord(mac), false)
	return true
}

// solicit asks for a neighbour's MAC address.
func (s *stage) solicit(b *packet.Batch, n *neighbour, last uint64, from netip.Addr) {
	to, mac := header.SolicitedNode(n.addr.As16())
	if last != 0 {
		to, mac = n.addr.As16(), macBytes(last)
	}
	s.neighbourMessage(b, n.port, from.As16(), to, mac, header.ICMPv6NeighbourSolicit, 0, n.addr.As16(), header.OptSourceLink)
}

// neighbourMessage appends a message of neighbour discovery with one option, the
// port's own MAC address.
func (s *stage) neighbourMessage(b *packet.Batch, port uint16, from, to [16]byte, mac [6]byte, typ uint8, flags uint32, target [16]byte, option uint8) {
	p := s.newIPv6(b, port, from, to, linkHopLimit, header.NeighbourLen+header.NeighbourOptLen)
	if p == nil {
		return
	}
	data := b.Data(p)
	own := s.t.ports[port].hardware()
	eth := header.EthernetAt(data, 0)
	eth.SetDst(mac)
	eth.SetSrc(own)
	header.ICMPAt(data, int(p.L4)).Init(typ, 0, flags)
	header.NeighbourAt(data, int(p.L4)).SetTarget(target)
	header.PutLinkOption((*[header.NeighbourOptLen]byte)(data[int(p.L4)+header.NeighbourLen:]), option, own)
	checksum6(b, p)
	p.OutPort = port
}
