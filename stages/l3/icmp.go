package l3

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// trouble is what an ICMP error reports, in both versions' types and codes.
type trouble struct{ type4, code4, type6, code6 uint8 }

var (
	timeExceeded    = trouble{header.ICMPTimeExceeded, 0, header.ICMPv6TimeExceeded, 0}
	netUnreachable  = trouble{header.ICMPUnreachable, header.ICMPNetUnreachable, header.ICMPv6Unreachable, header.ICMPv6NoRoute}
	hostUnreachable = trouble{header.ICMPUnreachable, header.ICMPHostUnreachable, header.ICMPv6Unreachable, header.ICMPv6AddressUnreachable}
	portUnreachable = trouble{header.ICMPUnreachable, header.ICMPPortUnreachable, header.ICMPv6Unreachable, header.ICMPv6PortUnreachable}
	tooBig          = trouble{header.ICMPUnreachable, header.ICMPFragNeeded, header.ICMPv6TooBig, 0}
)

// The longest ICMP errors, in bytes with their IP header (RFC 1812, 4.3.2.3;
// RFC 4443, 2.4 c). As much of the packet in question is quoted as fits.
const (
	maxError4 = 576
	maxError6 = 1280
)

// ownTTL is that of all packets that the switch makes.
const ownTTL = 64

// sendTooBig reports to the sender of a packet the MTU of the link that it does not
// fit. IPv4 packets without DF should be fragmented, which this switch does not:
// their sender is not notified, since no message exists for that.
func (s *stage) sendTooBig(b *packet.Batch, p *packet.Packet, in uint16, mtu int) {
	if p.Flags.Has(packet.FlagIPv4) && !header.IPv4At(b.Data(p), int(p.L3)).DontFragment() {
		return
	}
	s.sendError(b, p, in, tooBig, uint32(mtu))
}

// sendError sends an ICMP error about a packet, which was not changed yet, to its
// sender, unless the rules forbid it or the worker has said enough to that port for now. in is the port at which the packet arrived,
// rest the message's second word.
func (s *stage) sendError(b *packet.Batch, p *packet.Packet, in uint16, what trouble, rest uint32) {
	data := b.Data(p)
	if !mayTell(p, data) {
		return
	}
	from, ok := s.t.ports[in].source(source(p, data))
	if !ok {
		return
	}
	if !s.icmpLimits[in].take(b.Now, s.rate.Load()) {
		s.limited.Add(1)
		return
	}
	if p.Flags.Has(packet.FlagIPv4) {
		quote := data[p.L3:min(len(data), int(p.L3)+min(length(p, data), maxError4-header.IPv4Len-header.ICMPLen))]
		s.error4(b, b.ArrivalPort(p), in, quote, from.As4(), what, rest)
	} else {
		quote := data[p.L3:min(len(data), int(p.L3)+min(length(p, data), maxError6-header.IPv6Len-header.ICMPLen))]
		s.error6(b, in, quote, from.As16(), what, rest)
	}
}

// mayTell says whether an error about a packet may be sent: never about an
// error, a group's packet, a later fragment or one whose source is no station
// (RFC 1122, 3.2.2; RFC 4443, 2.4 e).
func mayTell(p *packet.Packet, data []byte) bool {
	src := source(p, data)
	if p.Flags.Has(packet.FlagLaterFragment|packet.FlagMulticast|packet.FlagBroadcast) || martian(src) ||
		unroutable(destination(p, data)) == ReasonMulticast {
		return false
	}
	if p.Proto == header.ProtoICMP && p.Flags.Has(packet.FlagIPv4) {
		return p.Flags.Has(packet.FlagL4) && !header.ICMPIsError(data[p.L4])
	}
	if p.Proto == header.ProtoICMPv6 && p.Flags.Has(packet.FlagIPv6) {
		return p.Flags.Has(packet.FlagL4) && !header.ICMPv6IsError(data[p.L4])
	}
	return true
}

func (s *stage) error4(b *packet.Batch, inPort, in uint16, quote []byte, from [4]byte, what trouble, rest uint32) {
	src := header.IPv4At(quote, 0).Src()
	p := s.newIPv4(b, in, from, src, header.ICMPLen+len(quote))
	if p == nil {
		return
	}
	message := b.Data(p)[p.L4:]
	icmp := header.ICMPAt(message, 0)
	icmp.Init(what.type4, what.code4, rest)
	copy(message[header.ICMPLen:], quote)
	if t := s.module.translator; t != nil && t.Restore(s.number, inPort, message[header.ICMPLen:]) {
		header.IPv4At(b.Data(p), int(p.L3)).SetDst(header.IPv4At(message, header.ICMPLen).Src())
	}
	icmp.SetChecksum(header.Checksum(message))
	s.errors.Add(1)
}

func (s *stage) error6(b *packet.Batch, in uint16, quote []byte, from [16]byte, what trouble, rest uint32) {
	src := header.IPv6At(quote, 0).Src()
	p := s.newIPv6(b, in, from, src, ownTTL, header.ICMPLen+len(quote))
	if p == nil {
		return
	}
	message := b.Data(p)[p.L4:]
	icmp := header.ICMPAt(message, 0)
	icmp.Init(what.type6, what.code6, rest)
	copy(message[header.ICMPLen:], quote)
	checksum6(b, p)
	s.errors.Add(1)
}

// newIPv4 appends an ICMP packet over IPv4 with n bytes of message, which are
// not written yet. It will be routed at the end of the batch, as if it had arrived at a port.
func (s *stage) newIPv4(b *packet.Batch, in uint16, from, to [4]byte, n int) *packet.Packet {
	p := s.newPacket(b, plain4+n)
	if p == nil {
		return nil
	}
	s.made = append(s.made, made{uint32(len(b.Pkts) - 1), in})
	data := b.Data(p)
	header.EthernetAt(data, 0).SetType(header.TypeIPv4)
	s.ipID++
	header.IPv4At(data, header.EthernetLen).Init(from, to, header.ProtoICMP, ownTTL, 0, s.ipID, header.IPv4Len+n)
	p.Flags |= packet.FlagIPv4 | packet.FlagL4
	p.L3, p.L4, p.Payload = header.EthernetLen, plain4, plain4+header.ICMPLen
	p.EtherType, p.Proto, p.TTL = header.TypeIPv4, header.ProtoICMP, ownTTL
	return p
}

// newIPv6 is newIPv4 for IPv6.
func (s *stage) newIPv6(b *packet.Batch, in uint16, from, to [16]byte, hopLimit uint8, n int) *packet.Packet {
	p := s.newPacket(b, plain6+n)
	if p == nil {
		return nil
	}
	s.made = append(s.made, made{uint32(len(b.Pkts) - 1), in})
	data := b.Data(p)
	header.EthernetAt(data, 0).SetType(header.TypeIPv6)
	header.IPv6At(data, header.EthernetLen).Init(from, to, header.ProtoICMPv6, hopLimit, n)
	p.Flags |= packet.FlagIPv6 | packet.FlagL4
	p.L3, p.L4, p.Payload = header.EthernetLen, plain6, plain6+header.ICMPLen
	p.EtherType, p.Proto, p.TTL = header.TypeIPv6, header.ProtoICMPv6, hopLimit
	return p
}

// checksum6 completes an ICMPv6 packet of newIPv6, whose checksum field is zero.
func checksum6(b *packet.Batch, p *packet.Packet) {
	data := b.Data(p)
	message := data[p.L4:]
	sum := header.PseudoSum6(header.IPv6At(data, int(p.L3)), header.ProtoICMPv6, len(message))
	header.ICMPAt(message, 0).SetChecksum(^header.Sum(message, sum))
}

// local deals with a packet to one of the switch's own addresses: the host has it, where the port has a host interface. Else
// echo requests are answered, and a request for a service gets port unreachable.
func (s *stage) local(b *packet.Batch, p *packet.Packet, number uint16) {
	data := b.Data(p)
	icmp := p.Flags.Has(packet.FlagL4) && p.Proto == header.ProtoICMP && p.Flags.Has(packet.FlagIPv4) ||
		p.Flags.Has(packet.FlagL4) && p.Proto == header.ProtoICMPv6 && p.Flags.Has(packet.FlagIPv6)
	in := &s.t.ports[number]
	echo := icmp && !p.Flags.Has(packet.FlagFragment) && (data[p.L4] == header.ICMPEchoRequest && p.Flags.Has(packet.FlagIPv4) ||
		data[p.L4] == header.ICMPv6EchoRequest && p.Flags.Has(packet.FlagIPv6))
	switch {
	case in.host != packet.NoPort && (!echo || in.echo):
		s.toHost(b, p, number)
	case icmp && p.Flags.Has(packet.FlagFragment):
		b.Drop(p, reasonNoListener) // nothing is put together here
	case echo:
		b.Drop(p, packet.Consumed)
		s.echo(b, p, number)
	case icmp:
		b.Drop(p, packet.Consumed) // an error, or an answer to what we never asked
	default:
		b.Drop(p, reasonNoListener)
		if p.Proto == header.ProtoUDP || p.Proto == header.ProtoTCP {
			s.sendError(b, p, number, portUnreachable, 0)
		}
	}
}

// echo answers an echo request by a copy of it.
func (s *stage) echo(b *packet.Batch, p *packet.Packet, in uint16) {
	if len(b.Pkts) == cap(b.Pkts) {
		b.NoRoom++
		return
	}
	var answer packet.Packet
	if !b.Copy(&answer, p) {
		return
	}
	answer.Reason, answer.OutPort = 0, packet.NoPort
	data := b.Data(&answer)
	icmp := header.ICMPAt(data, int(answer.L4))
	if answer.Flags.Has(packet.FlagIPv4) {
		ip := header.IPv4At(data, int(answer.L3))
		ip.SwapAddrs()
		ip.SetTTL(ownTTL)
		icmp.SetType(header.ICMPEchoReply)
	} else {
		ip := header.IPv6At(data, int(answer.L3))
		ip.SwapAddrs()
		ip.SetHopLimit(ownTTL)
		icmp.SetType(header.ICMPv6EchoReply)
	}
	answer.TTL = ownTTL
	*b.Append() = answer
	s.made = append(s.made, made{uint32(len(b.Pkts) - 1), in})
	s.echoes.Add(1)
}

// bucket limits ICMP errors: it fills by rate tokens in a second, up to a tenth
// of a second's (at least 10), by the batch's clock.
type bucket struct {
	level int64 // in tokens times 1e9
	last  int64
}

func (k *bucket) take(now, rate int64) bool {
	const token = int64(1e9)
	full := max(rate/10, min(rate, 10)) * token
	elapsed := now - k.last
	k.last = now
	if elapsed < 0 || elapsed > int64(1e9) {
		k.level = full // long ago, or a clock that jumped
	} else {
		k.level = min(full, k.level+elapsed*rate)
	}
	if k.level < token {
		return false
	}
	k.level -= token
	return true
}
