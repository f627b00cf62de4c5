package tunnel

import (
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// tooBig is an ICMP error that waits for the worker's next batch: it comes from the tunnel, as if the far side had sent it, and
// so finds its way back through the bridge, in the packet's VLAN and by the rules of the graph.
type tooBig struct {
	port uint16
	n    int
	data [header.EthernetLen + header.VLANLen + 1280]byte
}

// The longest ICMP errors, in bytes with their IP header (RFC 1812, 4.3.2.3; RFC 4443, 2.4 c).
const (
	maxError4 = 576
	maxError6 = 1280
)

// tooLong notes an error about a packet that exceeds a tunnel's MTU, for its sender. Its source is the packet's destination, as
// with Linux's bridges. room is the longest inner Ethernet packet. IPv4 packets without DF have no such error, and are dropped alone.
func (s *encap) tooLong(b *packet.Batch, p *packet.Packet, room int) {
	data := b.Data(p)
	if slot, _ := s.module.fdb.find(stationKey(p.OutPort, macAt((*[6]byte)(data)))); slot == nil {
		return // it is flooded: by an error from the tunnel the bridge would learn its station there, which may be elsewhere
	}
	mtu := room - int(p.L3)
	if len(s.tooBig) == cap(s.tooBig) || p.Flags&packet.FlagIP == 0 || mtu < 68 ||
		p.Flags.Has(packet.FlagLaterFragment|packet.FlagMulticast|packet.FlagBroadcast) || p.L3 > header.EthernetLen+header.VLANLen {
		return
	}
	six := p.Flags.Has(packet.FlagIPv6)
	switch {
	case six && p.Proto == header.ProtoICMPv6 && (!p.Flags.Has(packet.FlagL4) || header.ICMPv6IsError(data[p.L4])):
		return
	case !six && (!header.IPv4At(data, int(p.L3)).DontFragment() ||
		p.Proto == header.ProtoICMP && (!p.Flags.Has(packet.FlagL4) || header.ICMPIsError(data[p.L4]))):
		return
	}
	s.tooBig = s.tooBig[:len(s.tooBig)+1]
	e := &s.tooBig[len(s.tooBig)-1]
	e.port = p.OutPort
	copy(e.data[:], data[:p.L3]) // with the tag, if there is one
	copy(e.data[0:6], data[6:12])
	copy(e.data[6:12], data[0:6])
	l3 := int(p.L3)
	if six {
		quote := data[l3:min(len(data), l3+maxError6-header.IPv6Len-header.ICMPLen)]
		size := header.ICMPLen + len(quote)
		src := header.IPv6At(data, l3)
		ip := (*header.IPv6)(e.data[l3:])
		ip.Init(src.Dst(), src.Src(), header.ProtoICMPv6, ownTTL, size)
		message := e.data[l3+header.IPv6Len:][:size]
		header.ICMPAt(message, 0).Init(header.ICMPv6TooBig, 0, uint32(mtu))
		copy(message[header.ICMPLen:], quote)
		header.ICMPAt(message, 0).SetChecksum(^header.Sum(message, header.PseudoSum6(ip, header.ProtoICMPv6, size)))
		e.n = l3 + header.IPv6Len + size
		return
	}
	quote := data[l3:min(len(data), l3+maxError4-header.IPv4Len-header.ICMPLen)]
	size := header.ICMPLen + len(quote)
	src := header.IPv4At(data, l3)
	(*header.IPv4)(e.data[l3:]).Init(src.Dst(), src.Src(), header.ProtoICMP, ownTTL, 0, 0, header.IPv4Len+size)
	message := e.data[l3+header.IPv4Len:][:size]
	header.ICMPAt(message, 0).Init(header.ICMPUnreachable, header.ICMPFragNeeded, uint32(mtu))
	copy(message[header.ICMPLen:], quote)
	header.ICMPAt(message, 0).SetChecksum(header.Checksum(message))
	e.n = l3 + header.IPv4Len + size
}

// sendTooBig appends the errors of the batch before. They are copies in the books, at the tunnel's port.
func (s *decap) sendTooBig(b *packet.Batch) {
	first := len(b.Pkts)
	s.scratch.Pkts = s.scratch.Pkts[:0]
	for i := range s.tooBig {
		e := &s.tooBig[i]
		if len(b.Pkts) == cap(b.Pkts) || int(e.port) >= len(s.roles) || s.roles[e.port].kind != isTunnel {
			continue
		}
		p, ok := s.newPacket(b, packet.NoPort, e.n)
		if !ok {
			continue
		}
		copy(b.Data(&p), e.data[:e.n])
		b.Enter(&p, e.port)
		*b.Append() = p
		s.scratch.Pkts = append(s.scratch.Pkts, p)
		s.tooBigs.Add(1)
	}
	s.tooBig = s.tooBig[:0]
	if len(s.scratch.Pkts) == 0 {
		return
	}
	s.scratch.Mem, s.scratch.Now, s.scratch.Dropped = b.Mem, b.Now, 0
	s.parse.Process(&s.scratch)
	b.Dropped += s.scratch.Dropped
	for k := range s.scratch.Pkts {
		s.scratch.Pkts[k].Flags |= packet.FlagCopy
		b.Pkts[first+k] = s.scratch.Pkts[k]
	}
}
