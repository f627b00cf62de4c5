package tunnel

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The drop reasons of both stages.
var (
	ReasonMalformed  = packet.Register("tunnel_malformed", "a tunnel's header contradicts itself or the packet's length, or lacks its VNI")
	ReasonUnknownVNI = packet.Register("tunnel_vni", "no tunnel has the packet's kind and VNI")
	ReasonRemote     = packet.Register("tunnel_remote", "the packet's source is no remote end of its tunnel")
	ReasonFragment   = packet.Register("tunnel_fragment", "a fragment of a tunnel's packet, which an endpoint does not put together")
	ReasonChecksum   = packet.Register("tunnel_checksum", "the outer UDP checksum is wrong, or is missing over IPv6")
	ReasonOption     = packet.Register("tunnel_option", "a Geneve packet for control, of another protocol than Ethernet, or with a critical option")
	ReasonECN        = packet.Register("tunnel_ecn", "congestion was marked on the way, which the inner packet cannot carry (RFC 6040)")
	ReasonUnderlay   = packet.Register("tunnel_underlay", "the packet is no tunnel's, and an underlay's port carries no others")
	ReasonUnresolved = packet.Register("tunnel_unresolved", "the MAC address of the next hop to the remote end is not known yet")
	ReasonTooLong    = packet.Register("tunnel_too_long", "with its outer headers the packet exceeds the underlay's MTU")
	ReasonHeadroom   = packet.Register("tunnel_headroom", "no room in front of the packet for its outer headers")
	ReasonNoEnd      = packet.Register("tunnel_no_end", "the station's end is not known, and the tunnel has none to flood to")
)

// decap is the stage tunnel of one worker.
type decap struct {
	*worker
	outer [packet.BatchSize]outer
}

// outer is what is kept of the outer headers until the inner ones were read.
type outer struct {
	src [16]byte
	six bool
	ecn uint8
	end int32
}

// Process implements pipeline.Stage.
func (s *decap) Process(b *packet.Batch) {
	s.tables = s.module.tables.Load()
	s.now.Store(b.Now)
	n := len(b.Pkts)
	for first := 0; first < n; first += packet.BatchSize {
		s.scratch.Pkts = s.scratch.Pkts[:0]
		for i := first; i < min(first+packet.BatchSize, n); i++ {
			p := &b.Pkts[i]
			if p.Reason != 0 || int(p.InPort) >= len(s.roles) || s.roles[p.InPort].kind != isUnderlay {
				continue
			}
			s.receive(b, p, i)
		}
		if len(s.scratch.Pkts) != 0 {
			b.Flows = b.Flows[:0] // of the outer packets
			s.inner(b)
		}
	}
	if len(s.tooBig) != 0 {
		s.sendTooBig(b)
	}
}

// Release implements pipeline.Holder: replies wait for the worker's next batch in encap, if the packets of this one have another home.
func (s *decap) Release(drop func(*packet.Packet)) {
	for i := range s.replies {
		drop(&s.replies[i])
	}
	s.replies = s.replies[:0]
}

// receive deals with a packet of the underlay.
func (s *decap) receive(b *packet.Batch, p *packet.Packet, i int) {
	u := &s.underlays[s.roles[p.InPort].index]
	data := b.Data(p)
	if p.Flags.Has(packet.FlagMalformed) {
		b.Drop(p, ReasonMalformed)
		return
	}
	if p.Flags&packet.FlagIP == 0 || p.Proto != header.ProtoUDP {
		s.local(b, p, u)
		return
	}
	o := &s.outer[len(s.scratch.Pkts)]
	dst, end := o.read(p, data)
	if !u.owns(&dst, o.six) {
		b.Drop(p, ReasonUnderlay)
		return
	}
	if p.Flags.Has(packet.FlagFragment) {
		b.Drop(p, ReasonFragment)
		return
	}
	if !p.Flags.Has(packet.FlagL4) || p.DstPort != s.vxlanPort && p.DstPort != s.geneve {
		b.Drop(p, ReasonUnderlay)
		return
	}
	length, tunnel, reason := s.open(data, p, end, p.DstPort == s.geneve)
	if reason != 0 {
		b.Drop(p, reason)
		return
	}
	if !s.checksum(b, p, o.six, end) {
		b.Drop(p, ReasonChecksum)
		return
	}
	t := &s.tunnels[tunnel]
	o.end = s.endOf(&o.src, o.six)
	if !t.learn && (o.end < 0 || !t.allowed(uint32(o.end))) {
		b.Drop(p, ReasonRemote)
		return
	}
	// The packet is as long as UDP says: what is behind is padding of the outer frame.
	size := end - length
	p.Addr += uint64(length)
	p.Len -= uint32(length)
	p.WireLen -= uint32(length)
	if p.Next == 0 && int(p.WireLen) > size {
		p.WireLen = uint32(size)
		p.Len = min(p.Len, uint32(size))
	}
	b.Enter(p, t.port)
	p.Flags &= packet.FlagCopy
	s.at[len(s.scratch.Pkts)&(packet.BatchSize-1)] = uint16(i)
	s.scratch.Pkts = append(s.scratch.Pkts, *p) // never grows
}

// read reads the addresses and the ECN bits, and returns the destination and where the IP packet ends.
func (o *outer) read(p *packet.Packet, data []byte) (dst [16]byte, end int) {
	o.src = [16]byte{}
	if p.Flags.Has(packet.FlagIPv4) {
		ip := header.IPv4At(data, int(p.L3))
		copy(o.src[:], ip[12:16])
		copy(dst[:], ip[16:20])
		o.six, o.ecn = false, ip.TOS()&3
		return dst, int(p.L3) + ip.TotalLen()
	}
	ip := header.IPv6At(data, int(p.L3))
	o.src, dst = ip.Src(), ip.Dst()
	o.six, o.ecn = true, ip.TrafficClass()&3
	return dst, int(p.L3) + header.IPv6Len + ip.PayloadLen()
}

// open reads a tunnel's header. It returns how many bytes are in front of the inner packet, and the tunnel's number, or why the
// packet is dropped. Reserved bits are ignored, as both RFCs require.
func (t *tables) open(data []byte, p *packet.Packet, end int, geneve bool) (length int, tunnel int32, why packet.Reason) {
	at := int(p.L4) + header.UDPLen
	h, udp := header.TunnelAt(data, at), header.UDPAt(data, int(p.L4))
	if h == nil || int(p.L4)+udp.Len() != end {
		return 0, 0, ReasonMalformed
	}
	length = at + header.TunnelLen
	if geneve {
		if h.GeneveVersion() != 0 {
			return 0, 0, ReasonMalformed
		}
		length += h.GeneveOptionsLen()
		if h.GeneveControl() || h.GeneveProtocol() != header.TypeBridging || h.GeneveCritical() {
			return 0, 0, ReasonOption
		}
	} else if !h.HasVNI() {
		return 0, 0, ReasonMalformed
	}
	if length+header.EthernetLen > end || length+header.EthernetLen > len(data) {
		return 0, 0, ReasonMalformed
	}
	tunnel = t.tunnelOf(segment{geneve, h.VNI()}.word())
	if tunnel < 0 {
		return 0, 0, ReasonUnknownVNI
	}
	return length, tunnel, 0
}

// checksum verifies the outer UDP checksum, if there is one. Over IPv6 there must be, unless the configuration lets it be zero.
func (s *decap) checksum(b *packet.Batch, p *packet.Packet, six bool, end int) bool {
	data := b.Data(p)
	if header.UDPAt(data, int(p.L4)).Checksum() == 0 {
		return !six || s.zero6
	}
	var sum uint16
	if size := end - int(p.L4); six {
		sum = header.PseudoSum6(header.IPv6At(data, int(p.L3)), header.ProtoUDP, size)
	} else {
		sum = header.PseudoSum4(header.IPv4At(data, int(p.L3)), size)
	}
	return sumPacket(b, p, int(p.L4), end, sum) == 0xffff
}

// sumPacket adds the bytes of a packet from one offset to another, of all its frames.
func sumPacket(b *packet.Batch, p *packet.Packet, from, to int, sum uint16) uint16 {
	data := b.Data(p)
	if to <= len(data) {
		return header.Sum(data[from:to], sum)
	}
	odd := false
	add := func(piece []byte) {
		if odd && len(piece) > 0 { // the byte is the low half of a word
			sum = header.Sum([]byte{0, piece[0]}, sum)
			piece, odd = piece[1:], false
		}
		sum = header.Sum(piece, sum)
		odd = odd != (len(piece)%2 != 0)
	}
	add(data[from:])
	at := len(data)
	for link := p.Next; link != 0 && at < to; {
		addr, length, next := b.Pool().Next(link)
		n := min(int(length), to-at)
		add(b.Mem[addr : addr+uint64(n)])
		at += n
		link = next
	}
	return sum
}

// inner reads the headers of what came out of tunnels, and learns where its stations are.
func (s *decap) inner(b *packet.Batch) {
	s.scratch.Mem, s.scratch.Now, s.scratch.Dropped = b.Mem, b.Now, 0
	s.parse.Process(&s.scratch)
	b.Dropped += s.scratch.Dropped
	stamp := stampOf(b.Now)
	done := 0
	for k := range s.scratch.Pkts {
		q, o := &s.scratch.Pkts[k], &s.outer[k&(packet.BatchSize-1)]
		p := &b.Pkts[s.at[k&(packet.BatchSize-1)]]
		flags := p.Flags // a copy stays one
		*p = *q
		p.Flags |= flags & packet.FlagCopy
		if p.Reason != 0 {
			continue
		}
		data := b.Data(p)
		if o.ecn != 0 && !leave(p, data, o.ecn) {
			b.Drop(p, ReasonECN)
			continue
		}
		done++
		src := binary.LittleEndian.Uint64(data[6:14]) & (1<<48 - 1)
		if src&1 != 0 || src == 0 {
			continue
		}
		key := stationKey(p.InPort, src)
		slot, v := s.module.fdb.find(key)
		if slot != nil && (v&staticBit != 0 || o.end >= 0 && v == entryValue(uint32(o.end), stamp)) {
			continue
		}
		if slot != nil && o.end >= 0 && valueEnd(v) == uint32(o.end) {
			slot.CompareAndSwap(v, entryValue(uint32(o.end), stamp))
			continue
		}
		s.seen(event{key, o.src, o.six, stamp})
	}
	s.decapsulated.Add(uint64(done))
}

// seen sends an event to the writer, once in a second.
func (s *decap) seen(e event) {
	if s.module.inline {
		s.module.learn(&e)
		return
	}
	r := &s.recent[(e.key^e.key>>24^e.key>>40)&255]
	if *r == e {
		return
	}
	*r = e
	if !s.events.Push(e) {
		s.lost.Add(1)
		*r = event{}
	}
}

// leave gives an inner packet the congestion that was marked outside, by the table of RFC 6040, 4.2. It reports false if the
// packet must be dropped.
//
//	inner \ outer  ECT(0)   ECT(1)   CE
//	Not-ECT        Not-ECT  Not-ECT  drop
//	ECT(0)         ECT(0)   ECT(1)   CE
//	ECT(1)         ECT(1)   ECT(1)   CE
//	CE             CE       CE       CE
func leave(p *packet.Packet, data []byte, ecn uint8) bool {
	const notECT, ect1, ect0, ce = 0, 1, 2, 3
	var inner uint8
	switch {
	case p.Flags.Has(packet.FlagIPv4):
		inner = data[p.L3+1] & 3
	case p.Flags.Has(packet.FlagIPv6):
		inner = data[p.L3+1] >> 4 & 3
	default:
		return true // no IP packet: nothing is marked, and nothing can be
	}
	switch {
	case inner == notECT:
		return ecn != ce
	case inner == ce || ecn == ect0 || inner == ecn:
		return true
	}
	if p.Flags.Has(packet.FlagIPv6) {
		data[p.L3+1] = data[p.L3+1]&^0x30 | ecn<<4
		return true
	}
	header.IPv4At(data, int(p.L3)).SetTOS(data[p.L3+1]&^3 | ecn)
	return true
}
