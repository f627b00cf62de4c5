package conntrack

import (
	"encoding/binary"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// words is the sum of 16-bit words that a checksum loses or gets.
type words uint32

// of adds a 32-bit value.
func (w words) of(v uint32) words { return w + words(v>>16) + words(v&0xffff) }

// update returns a checksum of which so many words left and others came (RFC 1624, equation 3).
func update(sum uint16, left, came words) uint16 {
	// The complement of each word that left is added: as many times 0xffff, which is 0 in this arithmetic, less the words.
	s := uint32(^sum) + uint32(came) + 0xffff*8 - uint32(left)
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return ^uint16(s)
}

// rewriteAddresses gives an IPv4 header other addresses. It returns what its checksum, and that of a pseudo-header, lost and got.
func rewriteAddresses(ip *header.IPv4, src, dst uint32) (left, came words) {
	left = left.of(binary.BigEndian.Uint32(ip[12:16])).of(binary.BigEndian.Uint32(ip[16:20]))
	came = came.of(src).of(dst)
	binary.BigEndian.PutUint32(ip[12:16], src)
	binary.BigEndian.PutUint32(ip[16:20], dst)
	binary.BigEndian.PutUint16(ip[10:12], update(ip.Checksum(), left, came))
	return left, came
}

// rewrite gives a packet, which is tracked and no later fragment, other ends.
func (s *stage) rewrite(b *packet.Batch, p *packet.Packet, src, dst end48) {
	data := b.Data(p)
	left, came := rewriteAddresses(header.IPv4At(data, int(p.L3)), uint32(src>>16), uint32(dst>>16))
	l4 := data[p.L4:]
	if p.Proto == header.ProtoICMP {
		// The identifier is of the end that asks; the other one has the kind of query. There is no pseudo-header.
		id := src
		if l := l4[0]; l == header.ICMPEchoReply || l != header.ICMPEchoRequest && l&1 == 0 {
			id = dst // 0, 14, 16, 18
		}
		ip := header.IPv4At(data, int(p.L3))
		putIdentifier(data[p.L4:min(len(data), int(p.L3)+ip.TotalLen())], uint16(id), p.Next == 0 && !ip.MoreFragments())
		return
	}
	if p.Next != 0 && b.Pool().Large(p.Next).Kind != 0 {
		// A large packet's checksum is partial: the sum of the pseudo-header, not inverted, which has no ports.
		field := checksumField(l4, p.Proto)
		binary.BigEndian.PutUint16(field, ^update(^binary.BigEndian.Uint16(field), left, came))
		left, came = 0, 0
	}
	oldPorts := binary.BigEndian.Uint32(l4[0:4])
	ports := uint32(uint16(src))<<16 | uint32(uint16(dst))
	binary.BigEndian.PutUint32(l4[0:4], ports)
	p.SrcPort, p.DstPort = uint16(src), uint16(dst)
	if left|came != 0 {
		putChecksum(checksumField(l4, p.Proto), left.of(oldPorts), came.of(ports), p.Proto == header.ProtoUDP)
	}
}

// checksumField is that of a TCP or UDP header.
func checksumField(l4 []byte, proto uint8) []byte {
	if proto == header.ProtoTCP {
		return l4[16:18]
	}
	return l4[6:8]
}

// putIdentifier gives a query of ICMP another identifier. whole: icmp is all of the message.
func putIdentifier(icmp []byte, id uint16, whole bool) {
	sum := update(binary.BigEndian.Uint16(icmp[2:4]), words(binary.BigEndian.Uint16(icmp[4:6])), words(id))
	binary.BigEndian.PutUint16(icmp[4:6], id)
	binary.BigEndian.PutUint16(icmp[2:4], 0)
	// Of an answer with nothing but zeros the update makes the other zero of this arithmetic, as RFC 1624 says of equation 3, and receivers refuse it.
	if sum == 0 && whole && header.Checksum(icmp) == 0xffff {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(icmp[2:4], sum)
}

// putChecksum updates a checksum. Of UDP 0 means none, and stays; what becomes 0 is written in its other form (RFC 768).
func putChecksum(field []byte, left, came words, udp bool) {
	sum := binary.BigEndian.Uint16(field)
	if udp && sum == 0 {
		return
	}
	if sum = update(sum, left, came); udp && sum == 0 {
		sum = 0xffff
	}
	binary.BigEndian.PutUint16(field, sum)
}

// rewriteQuoted gives a packet that an ICMP error quotes, from its IP header on, other ends, as far as there is of it. It returns what the
// error's checksum lost and got.
func rewriteQuoted(quote []byte, src, dst end48) (left, came words) {
	ip := header.IPv4At(quote, 0)
	l4 := quote[ip.HeaderLen():]
	ipSum := ip.Checksum()
	addrLeft, addrCame := rewriteAddresses(ip, uint32(src>>16), uint32(dst>>16))
	left, came = addrLeft+words(ipSum), addrCame+words(ip.Checksum())
	put := func(field []byte, v uint16) {
		left += words(binary.BigEndian.Uint16(field))
		binary.BigEndian.PutUint16(field, v)
		came += words(v)
	}
	switch proto := ip.Protocol(); proto {
	case header.ProtoICMP:
		id := src
		if typ := l4[0]; typ == header.ICMPEchoReply || typ != header.ICMPEchoRequest && typ&1 == 0 {
			id = dst
		}
		fields := words(0).of(binary.BigEndian.Uint32(l4[2:6]))
		putIdentifier(l4, uint16(id), len(quote) == ip.TotalLen() && !ip.MoreFragments())
		left, came = left+fields, came.of(binary.BigEndian.Uint32(l4[2:6]))
	case header.ProtoTCP, header.ProtoUDP:
		ports := uint32(uint16(src))<<16 | uint32(uint16(dst))
		portsLeft, portsCame := words(0).of(binary.BigEndian.Uint32(l4[0:4])), words(0).of(ports)
		at := 6
		if proto == header.ProtoTCP {
			at = 16
		}
		if at+2 <= len(l4) {
			if sum := binary.BigEndian.Uint16(l4[at:]); proto == header.ProtoTCP || sum != 0 {
				sum = update(sum, addrLeft+portsLeft, addrCame+portsCame)
				if sum == 0 && proto == header.ProtoUDP {
					sum = 0xffff
				}
				put(l4[at:at+2], sum)
			}
		}
		put(l4[0:2], uint16(src))
		put(l4[2:4], uint16(dst))
	}
	return left, came
}

// translateError translates an ICMP error about a packet of a translated connection (RFC 5508, 4): the packet that it quotes becomes what
// its sender sent, and the error goes there. Its source is translated as an answer's would be, so that it does not show inside addresses.
func (s *stage) translateError(b *packet.Batch, p *packet.Packet, n uint32, back bool) {
	data := b.Data(p)
	outer := header.IPv4At(data, int(p.L3))
	at := int(p.L4) + header.ICMPLen
	quote := data[at:min(len(data), int(p.L3)+outer.TotalLen())]
	before := binary.BigEndian.Uint32(quote[16:20])
	src, dst := s.table.sent(n, back)
	left, came := rewriteQuoted(quote, src, dst)
	putChecksum(data[p.L4+2:p.L4+4], left, came, false)
	from := binary.BigEndian.Uint32(outer[12:16])
	if to := uint32(dst >> 16); to != before {
		from = to
	}
	rewriteAddresses(outer, from, uint32(src>>16))
	s.changed.add(p)
}

// sent returns the ends of a translated connection's packets as they were sent, by the side that began it, or back by the other one.
func (t *table) sent(n uint32, back bool) (src, dst end48) {
	if back {
		dst, src = t.leaving(n, 0)
		return src, dst
	}
	dst, src = t.leaving(n, 1)
	return src, dst
}

// Restore implements pipeline.Translator.
func (m *Module) Restore(w int, inPort uint16, ip []byte) bool {
	return m.stages[w].restore(inPort, ip)
}

func (s *stage) restore(inPort uint16, quote []byte) bool {
	if s.nat == nil {
		return false
	}
	h := header.IPv4At(quote, 0)
	if h == nil || h.Version() != 4 || h.HeaderLen() < header.IPv4Len || h.FragmentOffset() != 0 {
		return false
	}
	e, ok := innerEnds(quote, h.HeaderLen(), h.Protocol(), false)
	if !ok {
		return false
	}
	var l look
	l.fromFirst, _ = key4(&l.key, h, h.Protocol(), s.groups[s.byPort[inPort]].zone, e)
	l.tag = uint32(l.key.hash(&s.table.seed))
	n, byAlias := s.connection(&l)
	if n == none || s.table.entries[n].flags&flagTranslated == 0 {
		return false
	}
	back := s.table.direction(n, &l, byAlias) != 0
	if back == byAlias {
		return false
	}
	src, dst := s.table.sent(n, back)
	rewriteQuoted(quote, src, dst)
	return true
}
