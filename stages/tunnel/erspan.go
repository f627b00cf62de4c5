package tunnel

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// A tunnel of kind erspan carries copies of packets, which the stage mirror makes, to a remote host: ERSPAN type II
// (draft-foschiano-erspan-03, 4.2), a GRE packet with a sequence number (RFC 2890). Nothing comes out of it.
//
//	| Ethernet 14 | IPv4 20 or IPv6 40 | GRE 8 | ERSPAN 8 | the packet
//
//	GRE     | 0x1000: sequence number present | 0x88be | sequence number 32 |
//	ERSPAN  | version 4 | VLAN 12 | class 3 | tag 2 | truncated 1 | session 10 | reserved 12 | index 20 |
const (
	erspanLen      = 8 + 8
	erspanType     = 0x88be
	maxSession     = 1<<10 - 1
	erspanVersion2 = 1 << 28 // the number of type II is 1
	erspanInFrame  = 3 << 11 // the tag is in the packet
	erspanCut      = 1 << 10
	minMirrored    = 64
	maxMirrored    = 1 << 16
)

// sequences are those of ports of kind erspan. They outlive configurations.
type sequences map[uint16]*atomic.Uint32

func (s sequences) of(port uint16) *atomic.Uint32 {
	if s[port] == nil {
		s[port] = &atomic.Uint32{}
	}
	return s[port]
}

// sendCopy puts a packet into a tunnel of kind erspan, and returns 1 if it could. What exceeds the underlay's MTU is cut, as the header says.
func (s *encap) sendCopy(b *packet.Batch, p *packet.Packet, t *tunnel) int {
	if len(t.floods) == 0 || s.ends[t.floods[0]].hop == nil {
		b.Drop(p, ReasonNoEnd)
		return 0
	}
	e := &s.ends[t.floods[0]]
	mac := e.hop.mac.Load()
	if mac == 0 || b.Now-e.hop.confirmed.Load() > confirmEvery {
		if s.want(e.hop, b.Now); mac == 0 {
			b.Drop(p, ReasonUnresolved)
			return 0
		}
	}
	ipLen := header.IPv4Len
	if e.six {
		ipLen = header.IPv6Len
	}
	n := header.EthernetLen + ipLen + erspanLen
	if b.Headroom(p) < n {
		b.Drop(p, ReasonHeadroom)
		return 0
	}
	word := uint32(erspanVersion2) | t.session
	if p.Flags.Has(packet.FlagVLAN) {
		word |= uint32(p.VLAN&0xfff)<<16 | uint32(p.VLAN>>13)<<13 | erspanInFrame
	}
	most := uint32(max(e.mtu-ipLen-erspanLen, header.EthernetLen))
	if t.truncate != 0 {
		most = min(most, t.truncate)
	}
	if wasCut := cutCopy(p, b); p.WireLen > most {
		shorten(b, p, most)
		word |= erspanCut
		s.cut.Add(1)
	} else if wasCut {
		word |= erspanCut
	}
	index, flow := uint32(p.InPort), p.FlowHash&0xfffff
	p.Addr -= uint64(n)
	p.Len += uint32(n)
	p.WireLen += uint32(n)
	d := b.Data(p)
	hw := macBytes(mac)
	copy(d[0:6], hw[:])
	copy(d[6:12], e.hw[:])
	size, tos := int(p.WireLen)-header.EthernetLen-ipLen, uint8(max(t.dscp, 0)<<2)
	l4 := header.EthernetLen + ipLen
	p.Flags = p.Flags&packet.FlagCopy | packet.FlagL4
	if e.six {
		header.EthernetAt(d, 0).SetType(header.TypeIPv6)
		header.IPv6At(d, header.EthernetLen).Init(e.src, e.dst, header.ProtoGRE, t.ttl, size)
		binary.BigEndian.PutUint32(d[header.EthernetLen:], 6<<28|uint32(tos)<<20|flow)
		p.EtherType = header.TypeIPv6
		p.Flags |= packet.FlagIPv6
	} else {
		header.EthernetAt(d, 0).SetType(header.TypeIPv4)
		ip := header.IPv4At(d, header.EthernetLen)
		ip.Init([4]byte(e.src[:4]), [4]byte(e.dst[:4]), header.ProtoGRE, t.ttl, tos, 0, size+ipLen)
		ip[6], ip[10], ip[11] = 0x40, 0, 0 // DF: the identification means nothing (RFC 6864)
		binary.BigEndian.PutUint16(ip[10:], header.Checksum(ip[:]))
		p.EtherType = header.TypeIPv4
		p.Flags |= packet.FlagIPv4
	}
	h := (*[erspanLen]byte)(d[l4:])
	binary.BigEndian.PutUint32(h[0:], 0x1000<<16|erspanType)
	binary.BigEndian.PutUint32(h[4:], t.sequence.Add(1)-1)
	binary.BigEndian.PutUint32(h[8:], word)
	binary.BigEndian.PutUint32(h[12:], index&0xfffff)
	p.OutPort, p.Proto, p.TTL, p.VLAN, p.SrcPort, p.DstPort = e.port, header.ProtoGRE, t.ttl, 0, 0, 0
	p.L3, p.L4, p.Payload = header.EthernetLen, uint16(l4), uint16(l4)
	return 1
}

// cutCopy reports whether a packet was cut before, as far as its IP header says: truncate_bytes of a mirror session does so.
func cutCopy(p *packet.Packet, b *packet.Batch) bool {
	if p.Flags&packet.FlagIP == 0 || uint32(p.L3)+header.IPv4Len > p.Len {
		return false
	}
	d := b.Mem[p.Addr+uint64(p.L3):]
	size := uint32(binary.BigEndian.Uint16(d[2:]))
	if p.Flags.Has(packet.FlagIPv6) {
		size = header.IPv6Len + uint32(binary.BigEndian.Uint16(d[4:]))
	}
	return uint32(p.L3)+size > p.WireLen
}

// shorten cuts a packet to a length that is less than its own: frames behind the first one are given back.
func shorten(b *packet.Batch, p *packet.Packet, length uint32) {
	if p.Next != 0 {
		addr, _, next := b.Pool().Next(p.Next)
		b.Frames.FreePacket(&packet.Packet{Addr: addr, Next: next})
		p.Next = 0
	}
	p.Len = min(p.Len, length)
	p.WireLen = p.Len
}
