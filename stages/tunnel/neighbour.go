package tunnel

import (
	"net/netip"
	"time"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Next hops are asked for by ARP and neighbour discovery when there is a packet for them: once a second while they are not known,
// and by unicast when they were not confirmed for confirmEvery. After maxProbes requests without an answer they are unknown again.
const (
	askEvery     = int64(time.Second)
	confirmEvery = int64(30 * time.Second)
	maxProbes    = 5
	linkHopLimit = 255
	ownTTL       = 64
	headroom     = 256 // in front of packets made here, as in front of those that a driver received
)

// want notes that a next hop has to be asked for, if that is due. One worker of all asks.
func (s *encap) want(h *hop, now int64) {
	asked := h.asked.Load()
	if asked != 0 && now-asked < askEvery && now >= asked || s.nAsks == len(s.asks) || !h.asked.CompareAndSwap(asked, now) {
		return
	}
	if h.probes.Add(1) > maxProbes {
		h.probes.Store(1)
		h.mac.Store(0)
	}
	s.asks[s.nAsks] = h
	s.nAsks++
}

// ask sends the request.
func (s *encap) ask(b *packet.Batch, h *hop) {
	u := &s.underlays[h.underlay]
	last := h.mac.Load()
	if h.addr.Is4() {
		to := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
		if last != 0 {
			to = macBytes(last)
		}
		if p, ok := s.arpPacket(b, u, to); ok {
			header.ARPAt(b.Data(&p), header.EthernetLen).Init(header.ARPRequest, u.hw, h.from.As4(), [6]byte{}, h.addr.As4())
			s.emit(b, p)
		}
		return
	}
	to, mac := header.SolicitedNode(h.addr.As16())
	if last != 0 {
		to, mac = h.addr.As16(), macBytes(last)
	}
	if p, ok := s.discoveryPacket(b, u, h.from.As16(), to, mac, header.ICMPv6NeighbourSolicit, 0, h.addr.As16(), header.OptSourceLink); ok {
		s.emit(b, p)
	}
}

func (s *encap) emit(b *packet.Batch, p packet.Packet) {
	if o := b.Append(); o != nil {
		*o = p
		return
	}
	b.Frames.FreePacket(&p)
	b.NoRoom++
	b.Copied--
}

// newPacket makes a packet of n bytes, all zero, that leaves by an underlay. It is a copy in the books of the batch.
func (w *worker) newPacket(b *packet.Batch, port uint16, n int) (p packet.Packet, ok bool) {
	addr, ok := b.Frames.AllocOne()
	if !ok {
		b.NoFrame++
		return p, false
	}
	first := &b.Pkts[0]
	p = packet.Packet{
		Addr: addr + headroom, Len: uint32(n), WireLen: uint32(n), InPort: first.InPort, InQueue: first.InQueue,
		Arrival: b.Now, Flags: packet.FlagCopy, OutPort: port,
	}
	clear(b.Data(&p))
	b.Copied++
	return p, true
}

func (w *worker) arpPacket(b *packet.Batch, u *underlay, to [6]byte) (packet.Packet, bool) {
	p, ok := w.newPacket(b, u.port, 60)
	if ok {
		eth := header.EthernetAt(b.Data(&p), 0)
		eth.SetDst(to)
		eth.SetSrc(u.hw)
		eth.SetType(header.TypeARP)
		p.Flags |= packet.FlagARP
		p.L3, p.EtherType = header.EthernetLen, header.TypeARP
	}
	return p, ok
}

func (w *worker) discoveryPacket(b *packet.Batch, u *underlay, from, to [16]byte, mac [6]byte, typ uint8, flags uint32, target [16]byte, option uint8) (packet.Packet, bool) {
	const l4 = header.EthernetLen + header.IPv6Len
	const size = header.NeighbourLen + header.NeighbourOptLen
	p, ok := w.newPacket(b, u.port, l4+size)
	if !ok {
		return p, false
	}
	d := b.Data(&p)
	eth := header.EthernetAt(d, 0)
	eth.SetDst(mac)
	eth.SetSrc(u.hw)
	eth.SetType(header.TypeIPv6)
	ip := header.IPv6At(d, header.EthernetLen)
	ip.Init(from, to, header.ProtoICMPv6, linkHopLimit, size)
	header.ICMPAt(d, l4).Init(typ, 0, flags)
	header.NeighbourAt(d, l4).SetTarget(target)
	header.PutLinkOption((*[header.NeighbourOptLen]byte)(d[l4+header.NeighbourLen:]), option, u.hw)
	header.ICMPAt(d, l4).SetChecksum(^header.Sum(d[l4:], header.PseudoSum6(ip, header.ProtoICMPv6, size)))
	p.Flags |= packet.FlagIPv6 | packet.FlagL4
	p.L3, p.L4, p.Payload = header.EthernetLen, l4, l4+header.ICMPLen
	p.EtherType, p.Proto, p.TTL = header.TypeIPv6, header.ProtoICMPv6, linkHopLimit
	return p, true
}

// local deals with what an underlay's port gets beside tunnels: ARP, neighbour discovery and echo requests to its own addresses.
func (s *decap) local(b *packet.Batch, p *packet.Packet, u *underlay) {
	data := b.Data(p)
	switch {
	case p.Flags.Has(packet.FlagARP):
		s.arp(b, p, u, data)
	case p.Flags.Has(packet.FlagL4) && !p.Flags.Has(packet.FlagFragment) && p.Flags.Has(packet.FlagIPv6) && p.Proto == header.ProtoICMPv6:
		if typ := data[p.L4]; typ == header.ICMPv6NeighbourSolicit || typ == header.ICMPv6NeighbourAdvert {
			s.discovery(b, p, u, data)
			return
		}
		s.echo(b, p, u, data, header.ICMPv6EchoRequest)
	case p.Flags.Has(packet.FlagL4) && !p.Flags.Has(packet.FlagFragment) && p.Flags.Has(packet.FlagIPv4) && p.Proto == header.ProtoICMP:
		s.echo(b, p, u, data, header.ICMPEchoRequest)
	default:
		b.Drop(p, ReasonUnderlay)
	}
}

// confirm notes the MAC address of a next hop.
func (w *worker) confirm(port uint16, addr netip.Addr, mac [6]byte, now int64) {
	if mac[0]&1 != 0 || mac == ([6]byte{}) {
		return
	}
	for i := range w.ends {
		if h := w.ends[i].hop; h != nil && w.ends[i].port == port && h.addr == addr {
			h.mac.Store(macAt(&mac) | macKnown)
			h.confirmed.Store(now)
			h.probes.Store(0)
			h.asked.Store(0)
			return
		}
	}
}

func (s *decap) reply(p packet.Packet) {
	if len(s.replies) < cap(s.replies) {
		s.replies = append(s.replies, p)
	}
}

func (s *decap) room() bool { return len(s.replies) < cap(s.replies) }

func (s *decap) arp(b *packet.Batch, p *packet.Packet, u *underlay, data []byte) {
	arp := header.ARPAt(data, int(p.L3))
	target, sender := arp.TargetIP(), netip.AddrFrom4(arp.SenderIP())
	k := addrKey(netip.AddrFrom4(target))
	b.Drop(p, packet.Consumed)
	s.confirm(u.port, sender, arp.SenderHW(), b.Now)
	if arp.Op() != header.ARPRequest || !u.owns(&k, false) || !s.room() {
		return
	}
	r, ok := s.arpPacket(b, u, arp.SenderHW())
	if !ok {
		return
	}
	header.ARPAt(b.Data(&r), header.EthernetLen).Init(header.ARPReply, u.hw, target, arp.SenderHW(), arp.SenderIP())
	s.answered.Add(1)
	s.reply(r)
}

func (s *decap) discovery(b *packet.Batch, p *packet.Packet, u *underlay, data []byte) {
	ip := header.IPv6At(data, int(p.L3))
	end := int(p.L3) + header.IPv6Len + ip.PayloadLen()
	if p.TTL != linkHopLimit || end > len(data) || end-int(p.L4) < header.NeighbourLen ||
		header.Sum(data[p.L4:end], header.PseudoSum6(ip, header.ProtoICMPv6, end-int(p.L4))) != 0xffff {
		b.Drop(p, ReasonUnderlay)
		return
	}
	message := header.NeighbourAt(data, int(p.L4))
	options := data[int(p.L4)+header.NeighbourLen : end]
	target := message.Target()
	b.Drop(p, packet.Consumed)
	if message.Type() == header.ICMPv6NeighbourAdvert {
		mac, found, valid := header.LinkOption(options, header.OptTargetLink)
		if !found {
			mac = header.EthernetAt(data, 0).Src()
		}
		if valid {
			s.confirm(u.port, netip.AddrFrom16(target), mac, b.Now)
		}
		return
	}
	mac, found, valid := header.LinkOption(options, header.OptSourceLink)
	if !valid || !u.owns(&target, true) || !s.room() {
		return
	}
	to, toMAC, flags := ip.Src(), header.EthernetAt(data, 0).Src(), uint32(header.NeighbourOverride)
	if to == ([16]byte{}) {
		to = [16]byte{0xff, 0x02, 15: 1}
		toMAC = header.MulticastMAC6(to)
	} else {
		flags |= header.NeighbourSolicited
		if found {
			toMAC = mac
			s.confirm(u.port, netip.AddrFrom16(to), mac, b.Now)
		}
	}
	if r, ok := s.discoveryPacket(b, u, target, to, toMAC, header.ICMPv6NeighbourAdvert, flags, target, header.OptTargetLink); ok {
		s.answered.Add(1)
		s.reply(r)
	}
}

// echo answers an echo request by a copy of it; other ICMP messages end here.
func (s *decap) echo(b *packet.Batch, p *packet.Packet, u *underlay, data []byte, request uint8) {
	var o outer
	dst, _ := o.read(p, data)
	if !u.owns(&dst, o.six) {
		b.Drop(p, ReasonUnderlay)
		return
	}
	typ := data[p.L4]
	b.Drop(p, packet.Consumed)
	if typ != request || !s.room() {
		return
	}
	var r packet.Packet
	if !b.Copy(&r, p) {
		return
	}
	r.Reason, r.OutPort, r.TTL = 0, u.port, ownTTL
	d := b.Data(&r)
	eth := header.EthernetAt(d, 0)
	eth.SetDst(eth.Src())
	eth.SetSrc(u.hw)
	icmp := header.ICMPAt(d, int(r.L4))
	if o.six {
		ip := header.IPv6At(d, int(r.L3))
		ip.SwapAddrs()
		ip.SetHopLimit(ownTTL)
		icmp.SetType(header.ICMPv6EchoReply)
	} else {
		ip := header.IPv4At(d, int(r.L3))
		ip.SwapAddrs()
		ip.SetTTL(ownTTL)
		icmp.SetType(header.ICMPEchoReply)
	}
	s.echoes.Add(1)
	s.reply(r)
}
