package conntrack

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/ipmatch"
	"github.com/weirswitch/weir/pipeline/packet"
)

// keyOf makes the key of a packet, and says what is to be done with it.
func (s *stage) keyOf(l *look, p *packet.Packet, data []byte) kind {
	if !p.Flags.Has(packet.FlagIP) {
		if ipmatch.HidesIP(p, data) {
			return kindInvalid
		}
		return kindPass
	}
	zone := s.groups[s.byPort[p.InPort]].zone
	if p.Flags.Has(packet.FlagLaterFragment) {
		return s.fragmentKey(&l.key, p, data, zone)
	}
	if !p.Flags.Has(packet.FlagL4) {
		return kindInvalid
	}
	e := ends{src: p.SrcPort, dst: p.DstPort}
	what := kindFlow
	if !p.Flags.Has(packet.FlagPorts) {
		e = ends{}
		if hasPorts(p.Proto) {
			return kindInvalid
		}
		v6 := p.Flags.Has(packet.FlagIPv6)
		if v6 && p.Proto == header.ProtoICMPv6 || !v6 && p.Proto == header.ProtoICMP {
			h := header.ICMPAt(data, int(p.L4))
			if h == nil {
				return kindInvalid
			}
			switch id, _ := h.Echo(); {
			case v6 && untracked(h.Type()):
				return kindPass
			case v6 && header.ICMPv6IsError(h.Type()), !v6 && header.ICMPIsError(h.Type()):
				return innerKey(l, p, data, zone)
			default:
				var query bool
				if e, query = queryOf(v6, h.Type(), id); !query {
					return kindInvalid
				}
				if e.answers {
					what = kindAnswer
				}
			}
		}
	}
	var same bool
	if p.Flags.Has(packet.FlagIPv4) {
		l.fromFirst, same = key4(&l.key, header.IPv4At(data, int(p.L3)), p.Proto, zone, e)
	} else {
		l.fromFirst, same = key6(&l.key, header.IPv6At(data, int(p.L3)), p.Proto, zone, e)
	}
	if same {
		return kindInvalid // from a host to itself, which needs no switch
	}
	return what
}

// innerKey makes the key of the packet that an ICMP error is about. l.fromFirst is that packet's.
func innerKey(l *look, p *packet.Packet, data []byte, zone uint16) kind {
	data = data[:min(len(data), int(p.L3)+ipLength(p, data))] // without the padding
	at := int(p.L4) + header.ICMPLen
	if p.Flags.Has(packet.FlagIPv4) {
		return innerKey4(l, p, data, at, zone)
	}
	inner := header.IPv6At(data, at)
	if inner == nil || inner.Version() != 6 || header.IPv6At(data, int(p.L3)).Dst() != inner.Src() {
		return kindInvalid
	}
	next := inner.NextHeader()
	at += header.IPv6Len
	for range 8 {
		if !header.IsIPv6Ext(next) {
			break
		}
		ext := header.IPv6ExtAt(data, at)
		if ext == nil || next == header.ProtoFragment && ext.FragmentOffset() != 0 {
			return kindInvalid
		}
		at += ext.HeaderLen(next)
		next = ext.NextHeader()
	}
	e, ok := innerEnds(data, at, next, true)
	if !ok || header.IsIPv6Ext(next) {
		return kindInvalid
	}
	l.fromFirst, _ = key6(&l.key, inner, next, zone, e)
	return kindError
}

func innerKey4(l *look, p *packet.Packet, data []byte, at int, zone uint16) kind {
	inner := header.IPv4At(data, at)
	if inner == nil || inner.Version() != 4 || inner.HeaderLen() < header.IPv4Len || inner.FragmentOffset() != 0 ||
		header.IPv4At(data, int(p.L3)).Dst() != inner.Src() {
		return kindInvalid
	}
	e, ok := innerEnds(data, at+inner.HeaderLen(), inner.Protocol(), false)
	if !ok {
		return kindInvalid
	}
	l.fromFirst, _ = key4(&l.key, inner, inner.Protocol(), zone, e)
	return kindError
}

// innerEnds reads the ports of the packet in an error, of which 8 bytes behind the IP header are enough.
func innerEnds(data []byte, at int, proto uint8, v6 bool) (e ends, ok bool) {
	if hasPorts(proto) {
		if at+4 > len(data) {
			return e, false
		}
		return ends{src: binary.BigEndian.Uint16(data[at:]), dst: binary.BigEndian.Uint16(data[at+2:])}, true
	}
	if v6 && proto == header.ProtoICMPv6 || !v6 && proto == header.ProtoICMP {
		h := header.ICMPAt(data, at)
		if h == nil {
			return e, false
		}
		id, _ := h.Echo()
		return queryOf(v6, h.Type(), id)
	}
	return e, true
}

// related decides about an ICMP error: it passes if the packet that it is about was of a connection. It may come from
// any port, as routers on the way send errors, and it changes nothing of the connection.
func (s *stage) related(b *packet.Batch, p *packet.Packet, l *look) packet.Reason {
	n, byAlias := s.connection(l)
	if n == none {
		return reasonInvalid
	}
	translated := s.table.entries[n].flags&flagTranslated != 0
	back := s.table.direction(n, l, byAlias) != 0
	if translated && byAlias == back {
		return reasonInvalid // the packet that it is about did not leave so
	}
	if e := &s.table.entries[n]; e.generation != s.generation && !s.again(n) {
		return reasonDenied
	}
	if translated {
		s.translateError(b, p, n, back)
	}
	return 0
}
