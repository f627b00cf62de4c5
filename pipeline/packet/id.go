package packet

import "encoding/binary"

// IDBlock is what the packet id is the hash of: what does not change along the
// path and differs between packets. All switches, whatever they forward by,
// build the same block from a packet, and so does a P4 parser: fields are at
// fixed offsets, and what a packet lacks is zero. The number of words gives the
// three layouts apart, as the hash depends on it. A word is eight bytes of the
// drawing in little-endian order; fields are in network byte order.
//
// IPv4, 5 words. The offset is in units of 8 bytes, without the flags in front:
//
//	0        4        8          9    10   12       14       16   24   32   40
//	| source | dest   | protocol | 0  | id | offset | length | T1 | T2 | P  |
//
// IPv6, 8 words; the protocol is the one behind all extension headers:
//
//	0        16       32         33   36               38   40   48   56   64
//	| source | dest   | protocol | 0  | payload length | 0  | T1 | T2 | P  |
//
// Other packets, 4 words: the first 32 bytes behind the link header, and zeros
// behind the packet's end, like the padding of a short packet on a wire.
//
// T1 and T2 are of the transport header, P of the payload behind it. Each is
// all there or all zero: a piece that the IP packet (not its Ethernet padding)
// has only in part is left out.
//
//	                          T1          T2              P
//	TCP                       bytes 0-7   8-13 and 16-17  first 8 of the payload
//	UDP, UDP-Lite, ICMP (v6)  bytes 0-7   0               first 8 of the payload
//	SCTP                      bytes 0-7   8-11, then 0    first 8 behind byte 12
//	DCCP                      bytes 0-7   8-15            first 8 of the payload
//	others, and see below     bytes 0-7   8-15            16-23
//
// The last line serves what has no transport header that the parser could use:
// unknown protocols, later fragments and headers that are malformed. There the
// bytes count from the end of the IPv4 header or the end of the fixed IPv6
// header. IPv6 fragments, first ones too, are always taken so: T1 is then the
// fragment header, with the identification and offset.
//
// A capture that cut packets gives other ids than the whole packets had, if
// the cut is in front of the end of P.
type IDBlock [8]uint64

// The number of words of an IDBlock by kind of packet.
const (
	IDWordsOther = 4
	IDWords4     = 5
	IDWords6     = 8
)

// Protocol numbers with their own layout.
const (
	protoICMP    = 1
	protoTCP     = 6
	protoUDP     = 17
	protoDCCP    = 33
	protoICMPv6  = 58
	protoSCTP    = 132
	protoUDPLite = 136
)

// Fill builds the block of a parsed packet whose bytes are data, and returns
// how many words it has. With ipidCarrier, telemetry digests travel in the
// identification of atomic IPv4 datagrams (DF set, not a fragment), and it
// counts as zero there; other identifications stay.
func (b *IDBlock) Fill(data []byte, p *Packet, ipidCarrier bool) int {
	switch {
	case p.Flags.Has(FlagIPv4):
		b.fill4(data, p, ipidCarrier)
		return IDWords4
	case p.Flags.Has(FlagIPv6):
		b.fill6(data, p)
		return IDWords6
	}
	b.fillOther(data, p)
	return IDWordsOther
}

// atomicDatagram is how the flags and the fragment offset of an atomic datagram read.
const atomicDatagram = 0x4000

func (b *IDBlock) fill4(data []byte, p *Packet, ipidCarrier bool) {
	ip := (*[20]byte)(data[p.L3:])
	length := binary.BigEndian.Uint16(ip[2:4])
	id := uint64(binary.LittleEndian.Uint16(ip[4:6]))
	frag := binary.BigEndian.Uint16(ip[6:8])
	if ipidCarrier && frag&0x7fff == atomicDatagram {
		id = 0
	}
	b[0] = binary.LittleEndian.Uint64(ip[12:20])
	b[1] = uint64(p.Proto) | id<<16 | uint64(ip[6]&0x1f)<<32 | uint64(ip[7])<<40 |
		uint64(binary.LittleEndian.Uint16(ip[2:4]))<<48
	data = data[p.L3:]
	if len(data) > int(length) {
		data = data[:length] // without the padding
	}
	var l4, payload uint
	if p.Flags.Has(FlagL4) {
		l4, payload = uint(p.L4-p.L3), uint(p.Payload-p.L3)
		b[2], b[3], b[4] = pieces(data, l4, payload, p.Proto)
		return
	}
	l4 = uint(ip[0]&0xf) * 4
	b[2], b[3], b[4] = word(data, l4), word(data, l4+8), word(data, l4+16)
}

func (b *IDBlock) fill6(data []byte, p *Packet) {
	const fixed = 40
	ip := (*[fixed]byte)(data[p.L3:])
	length := fixed + int(binary.BigEndian.Uint16(ip[4:6]))
	for i := range 4 {
		b[i] = binary.LittleEndian.Uint64(ip[ipv6Addrs+8*i:])
	}
	b[4] = uint64(p.Proto) | uint64(binary.LittleEndian.Uint16(ip[4:6]))<<32
	data = data[p.L3:]
	if len(data) > length {
		data = data[:length]
	}
	if p.Flags&(FlagL4|FlagFragment) == FlagL4 {
		b[5], b[6], b[7] = pieces(data, uint(p.L4-p.L3), uint(p.Payload-p.L3), p.Proto)
		return
	}
	b[5], b[6], b[7] = word(data, fixed), word(data, fixed+8), word(data, fixed+16)
}

// pieces returns T1, T2 and P of the transport header at l4 of the IP packet
// in data.
func pieces(data []byte, l4, payload uint, proto uint8) (t1, t2, rest uint64) {
	t1 = word(data, l4)
	switch proto {
	case protoTCP:
		// The window, bytes 14 and 15, makes room for the checksum.
		t2 = word(data, l4+8)&(1<<48-1) | word(data, l4+10)>>48<<48
	case protoUDP, protoUDPLite, protoICMP, protoICMPv6:
	case protoSCTP:
		if l4+12 <= uint(len(data)) {
			t2 = uint64(binary.LittleEndian.Uint32(data[l4+8:]))
		}
	case protoDCCP:
		t2 = word(data, l4+8)
	default:
		return t1, word(data, l4+8), word(data, l4+16)
	}
	return t1, t2, word(data, payload)
}

// word loads the word at off, or zero if data ends before its end.
func word(data []byte, off uint) uint64 {
	if off+8 > uint(len(data)) {
		return 0
	}
	return binary.LittleEndian.Uint64(data[off:])
}

func (b *IDBlock) fillOther(data []byte, p *Packet) {
	var padded [8 * IDWordsOther]byte
	copy(padded[:], data[min(int(p.L3), len(data)):])
	for i := range IDWordsOther {
		b[i] = binary.LittleEndian.Uint64(padded[8*i:])
	}
}
