package l3

import (
	"net/netip"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// arp deals with an ARP packet: it answers for the port's own addresses, and
// learns from those who ask for them or answer (RFC 826). Who only announces
// itself is not learned, but an entry that is there is brought up to date.
func (s *stage) arp(b *packet.Batch, p *packet.Packet, number uint16) {
	in, data := &s.t.ports[number], b.Data(p)
	arp := header.ARPAt(data, int(p.L3))
	sender, target := netip.AddrFrom4(arp.SenderIP()), netip.AddrFrom4(arp.TargetIP())
	forUs := in.owns(target)
	b.Drop(p, packet.Consumed)
	if in.owns(sender) {
		p.Reason = reasonNeighbour // somebody else has our address, or it comes back to us
		return
	}
	s.confirm(b, sender, number, macWord(arp.SenderHW()), forUs && in.onLink(sender))
	if arp.Op() != header.ARPRequest || !forUs {
		if forUs {
			s.answerToHost(b, p, number)
		}
		return
	}
	answer := s.newARP(b, number, arp.SenderHW())
	if answer == nil {
		return
	}
	header.ARPAt(b.Data(answer), header.EthernetLen).Init(header.ARPReply, in.hardware(), arp.TargetIP(), arp.SenderHW(), arp.SenderIP())
	s.answered.Add(1)
}

// newARP appends an ARP packet to the batch, which leaves by the port to the
// station. Its content is not written yet.
func (s *stage) newARP(b *packet.Batch, port uint16, to [6]byte) *packet.Packet {
	const length = 60 // the least Ethernet frame without FCS; the padding must be zero
	p := s.newPacket(b, length)
	if p == nil {
		return nil
	}
	data := b.Data(p)
	clear(data)
	eth := header.EthernetAt(data, 0)
	eth.SetDst(to)
	eth.SetSrc(s.t.ports[port].hardware())
	eth.SetType(header.TypeARP)
	p.Flags |= packet.FlagARP
	p.L3, p.EtherType, p.OutPort = header.EthernetLen, header.TypeARP, port
	return p
}

// request asks for a neighbour's MAC address: everybody, or the one who had it
// last.
func (s *stage) request(b *packet.Batch, n *neighbour, last uint64) {
	out := &s.t.ports[n.port]
	from, ok := out.source(n.addr)
	if !ok {
		return
	}
	s.requests.Add(1)
	if n.addr.Is6() {
		s.solicit(b, n, last, from)
		return
	}
	to := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if last != 0 {
		to = macBytes(last)
	}
	if p := s.newARP(b, n.port, to); p != nil {
		header.ARPAt(b.Data(p), header.EthernetLen).Init(header.ARPRequest, out.hardware(), from.As4(), [6]byte{}, n.addr.As4())
	}
}
