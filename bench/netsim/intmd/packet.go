package intmd

import (
	"encoding/binary"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Mark is the DSCP of packets with a stack: that of the specification's examples.
const Mark = 0x17

// Outcome is what became of a packet at a hop.
type Outcome uint8

// What Source, Push and Strip do.
const (
	// Done: the packet is changed as asked.
	Done Outcome = iota
	// NotCarried: it is no whole TCP or UDP datagram directly behind an IP header, and stays as it is.
	NotCarried
	// NoRoom: it would exceed the MTU with a header alone, and goes without. One with the mark loses it: the next hop would look
	// for a stack.
	NoRoom
	// MTUExceeded: it would exceed the MTU with the hop's metadata. The M bit is set, and no metadata written.
	MTUExceeded
	// HopsExceeded: the remaining hop count is 0. The E bit is set, and no metadata written.
	HopsExceeded
	// Full: the shim's length cannot grow by the hop's metadata, of which nothing is written.
	Full
	// NoStack: the packet has none, or one that contradicts itself, and stays as it is.
	NoStack
)

// maxDatagram is the longest IP packet.
const maxDatagram = 65535

// place is where a packet has its headers.
type place struct {
	ip, l4, payload int
	length          int // of the IP packet
	v6, udp         bool
}

// locate finds the headers of a whole TCP or UDP datagram. The frame may be cut behind them.
func locate(frame []byte) (p place, ok bool) {
	end := header.EthernetLen
	for end <= len(frame) && header.IsVLAN(binary.BigEndian.Uint16(frame[end-2:])) {
		end += header.VLANLen
	}
	if end > len(frame) {
		return p, false
	}
	p.ip = end
	var proto uint8
	switch binary.BigEndian.Uint16(frame[end-2:]) {
	case header.TypeIPv4:
		h := header.IPv4At(frame, p.ip)
		if h == nil || h.Version() != 4 || h.HeaderLen() < header.IPv4Len || h.Fragment() {
			return p, false
		}
		p.l4, p.length, proto = p.ip+h.HeaderLen(), h.TotalLen(), h.Protocol()
	case header.TypeIPv6:
		h := header.IPv6At(frame, p.ip)
		if h == nil || h.Version() != 6 || h.PayloadLen() == 0 {
			return p, false
		}
		p.l4, p.length, p.v6, proto = p.ip+header.IPv6Len, header.IPv6Len+h.PayloadLen(), true, h.NextHeader()
	default:
		return p, false
	}
	switch proto {
	case header.ProtoTCP:
		h := header.TCPAt(frame, p.l4)
		if h == nil || h.HeaderLen() < header.TCPLen {
			return p, false
		}
		p.payload = p.l4 + h.HeaderLen()
	case header.ProtoUDP:
		h := header.UDPAt(frame, p.l4)
		if h == nil || h.Len() < header.UDPLen || p.l4+h.Len() > p.ip+p.length {
			return p, false
		}
		p.payload, p.udp = p.l4+header.UDPLen, true
	default:
		return p, false
	}
	return p, p.payload <= min(len(frame), p.ip+p.length)
}

// dscp is the packet's.
func (p *place) dscp(frame []byte) uint8 {
	if p.v6 {
		return header.IPv6At(frame, p.ip).TrafficClass() >> 2
	}
	return header.IPv4At(frame, p.ip).TOS() >> 2
}

// stack is the packet's, within its payload; nil: there is none.
func (p *place) stack(frame []byte) Stack {
	if p.dscp(frame) != Mark {
		return nil
	}
	end := p.ip + p.length
	if p.udp {
		end = p.l4 + header.UDPAt(frame, p.l4).Len()
	}
	s := StackAt(frame[p.payload:min(end, len(frame))])
	if s == nil || s.NextProtocol() != 0 {
		return nil
	}
	return s
}

// setDSCP changes the DSCP. Of sums, only that of an IPv4 header has it.
func (p *place) setDSCP(frame []byte, dscp uint8) {
	if !p.v6 {
		h := header.IPv4At(frame, p.ip)
		h.SetTOS(dscp<<2 | h.TOS()&3)
		return
	}
	class := dscp<<2 | header.IPv6At(frame, p.ip).TrafficClass()&3
	frame[p.ip] = frame[p.ip]&0xf0 | class>>4
	frame[p.ip+1] = frame[p.ip+1]&0x0f | class<<4
}

// grow changes the lengths of IP and UDP by n bytes of payload whose sum was before, and is after.
func (p *place) grow(frame []byte, n int, before, after uint16) {
	segment := p.length - (p.l4 - p.ip)
	p.length += n
	if p.v6 {
		binary.BigEndian.PutUint16(frame[p.ip+4:], uint16(p.length-header.IPv6Len))
	} else {
		old := binary.BigEndian.Uint32(frame[p.ip:])
		binary.BigEndian.PutUint16(frame[p.ip+2:], uint16(p.length))
		sum := header.ChecksumUpdate32(binary.BigEndian.Uint16(frame[p.ip+10:]), old, binary.BigEndian.Uint32(frame[p.ip:]))
		binary.BigEndian.PutUint16(frame[p.ip+10:], sum)
	}
	at := p.l4 + 16 // of TCP's checksum
	if p.udp {
		at = p.l4 + 6
		old := binary.BigEndian.Uint16(frame[p.l4+4:])
		segment = int(old) // the pseudo header has UDP's own length
		binary.BigEndian.PutUint16(frame[p.l4+4:], old+uint16(n))
		if binary.BigEndian.Uint16(frame[at:]) == 0 {
			return // the sender's wish (RFC 768, 6936)
		}
	}
	was, is := uint32(before)<<16|uint32(uint16(segment)), uint32(after)<<16|uint32(uint16(segment+n))
	sum := header.ChecksumUpdate32(binary.BigEndian.Uint16(frame[at:]), was, is)
	if p.udp {
		sum = header.ChecksumUpdate32(sum, uint32(uint16(segment)), uint32(uint16(segment+n)))
		if sum == 0 {
			sum = 0xffff
		}
	}
	binary.BigEndian.PutUint16(frame[at:], sum)
}

// Source puts a shim and a header into a packet, which must have room for them in an IP packet of mtu bytes; 0: no limit but
// IP's. A frame of small capacity is copied, as by append.
func Source(frame []byte, c *Config, mtu int) ([]byte, Outcome) {
	p, ok := locate(frame)
	if !ok {
		return frame, NotCarried
	}
	dscp := p.dscp(frame)
	if p.length+FixedLen > limit(mtu) {
		if dscp == Mark {
			p.setDSCP(frame, 0)
		}
		return frame, NoRoom
	}
	frame = slices.Insert(frame, p.payload, make([]byte, FixedLen)...)
	s := newStack(frame[p.payload:], c, dscp)
	p.grow(frame, FixedLen, 0, header.Sum(s, 0))
	p.setDSCP(frame, Mark)
	return frame, Done
}

func limit(mtu int) int {
	if mtu == 0 {
		return maxDatagram
	}
	return min(mtu, maxDatagram)
}

// Push puts a hop's metadata in front of that of the hops before.
func Push(frame []byte, h *Hop, mtu int) ([]byte, Outcome) {
	p, ok := locate(frame)
	if !ok {
		return frame, NotCarried
	}
	s := p.stack(frame)
	if s == nil {
		return frame, NoStack
	}
	before, n := header.Sum(s, 0), s.HopWords()*word
	bit, outcome := byte(0), Done
	switch {
	case s.Remaining() == 0:
		bit, outcome = hopsBit, HopsExceeded
	case int(s[1])+s.HopWords() > maxWords:
		return frame, Full
	case p.length+n > limit(mtu):
		bit, outcome = mtuBit, MTUExceeded
	}
	if outcome != Done {
		s[flagsAt] |= bit
		p.grow(frame, 0, before, header.Sum(s, 0))
		return frame, outcome
	}
	length := len(s) + n
	frame = slices.Insert(frame, p.payload+FixedLen, make([]byte, n)...)
	s = Stack(frame[p.payload : p.payload+length])
	s.put(h, n)
	p.grow(frame, n, before, header.Sum(s, 0))
	return frame, Done
}

// Strip takes the stack out of a packet, which is then as it came to the source, and copies it to dst. What is copied is nil if there
// is none.
func Strip(frame []byte, dst []byte) ([]byte, Stack) {
	p, ok := locate(frame)
	if !ok {
		return frame, nil
	}
	s := p.stack(frame)
	if s == nil {
		return frame, nil
	}
	out := Stack(append(dst[:0], s...))
	frame = slices.Delete(frame, p.payload, p.payload+len(out))
	p.grow(frame, -len(out), header.Sum(out, 0), 0)
	p.setDSCP(frame, out.DSCP())
	return frame, out
}

// StackLen is how many bytes a packet's stack takes; false: it has none.
func StackLen(frame []byte) (n int, ok bool) {
	p, ok := locate(frame)
	if !ok {
		return 0, false
	}
	s := p.stack(frame)
	return len(s), s != nil
}

// FlowOf is the flow of a packet that can carry a stack; false: it cannot.
func FlowOf(frame []byte) (k pint.FlowKey, ok bool) {
	p, ok := locate(frame)
	if !ok {
		return k, false
	}
	k.Proto, k.Version = header.ProtoTCP, 4
	if p.udp {
		k.Proto = header.ProtoUDP
	}
	if p.v6 {
		h := header.IPv6At(frame, p.ip)
		k.Version, k.Src, k.Dst = 6, h.Src(), h.Dst()
	} else {
		h := header.IPv4At(frame, p.ip)
		src, dst := h.Src(), h.Dst()
		copy(k.Src[:], src[:])
		copy(k.Dst[:], dst[:])
	}
	k.SrcPort, k.DstPort = binary.BigEndian.Uint16(frame[p.l4:]), binary.BigEndian.Uint16(frame[p.l4+2:])
	return k, true
}
