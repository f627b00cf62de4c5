package traffic

import "encoding/binary"

const (
	ethLen  = 14
	ip4Len  = 20
	ip6Len  = 40
	udpLen  = 8
	markLen = 18

	etherIPv4 = 0x0800
	etherIPv6 = 0x86DD
	protoUDP  = 17

	markMagic = 0x5754 // "WT"
	seqMask   = 1<<48 - 1
)

var be = binary.BigEndian

// Mark is what a packet says about itself, right behind the header of UDP or TCP:
//
//	0       2             8     10                18
//	| magic | sequence no | run | send time in ns |   big-endian, the rest is zero
//
// Magic and sequence number come first so that the first eight payload bytes
// differ between packets; the addresses identify the flow, and its order by the
// sequence number, which grows within each flow.
type Mark struct {
	// Seq counts the packets of a run from 0, modulo 2^48.
	Seq uint64
	// Run is the workload's.
	Run uint16
	// SentNs is the send time in nanoseconds of the workload's clock.
	SentNs uint64
	// Flow number, 0 to the workload's Flows - 1.
	Flow uint32
}

// Writer writes the frames of a workload. It is not safe for concurrent use by
// several goroutines, and does not allocate.
type Writer struct {
	w        Workload
	drawer   drawer
	sides    sides
	src, dst [4]uint32 // networks
	netSum   uint32    // their upper six 16-bit words each, summed
	capsule  encapsulation
	proto    uint16
}

// NewWriter makes a writer of a workload, which must be valid.
func NewWriter(w Workload) (*Writer, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	fw := &Writer{w: w, drawer: newDrawer(w), sides: newSides(w), capsule: newEncapsulation(w), proto: protoUDP}
	if w.TCP {
		fw.proto = protoTCP
	}
	fw.src, fw.dst = addrWords(w.Source.Net.Addr()), addrWords(w.Destination.Net.Addr())
	for i := range 3 {
		fw.netSum += fw.src[i]>>16 + fw.src[i]&0xffff + fw.dst[i]>>16 + fw.dst[i]&0xffff
	}
	return fw, nil
}

// frameLen is the length of packet seq in bytes as handed to a device, without the
// frame check sequence.
func (fw *Writer) frameLen(seq uint64) int {
	sizes := fw.w.Sizes
	if len(sizes) == 1 {
		return sizes[0] - FCS
	}
	return sizes[seq%uint64(len(sizes))] - FCS
}

// Write writes packet seq, sent at the given time, to the start of buf and returns
// its length. buf must hold the workload's largest size; bytes behind the mark are not
// touched and must be zero. Of a part of a workload, seq counts the part's packets.
func (fw *Writer) Write(buf []byte, seq, sentNs uint64) int {
	parts, part := uint32(fw.w.parts()), uint32(fw.w.Part)
	flow := fw.drawer.flow(seq)*parts + part
	n := fw.frameLen(seq)
	seq = seq*uint64(parts) + uint64(part)
	frame := buf[:n]
	buf = frame[fw.capsule.offset:]
	from, to := fw.sides.of(flow)
	if fw.w.Reversed {
		from, to = to, from
	}
	putMAC(buf[0:6], to.mac)
	putMAC(buf[6:12], from.mac)
	var rest []byte
	if fw.w.isIPv6() {
		rest = fw.writeIPv6(buf, from.addr, to.addr)
	} else {
		rest = fw.writeIPv4(buf, from.addr, to.addr)
	}
	fw.writeTransport(rest, from, to, seq, sentNs)
	if fw.capsule.offset > 0 {
		fw.capsule.put(frame, flow)
		putMAC(frame[0:6], to.mac)
		putMAC(frame[6:12], from.mac)
	}
	return n
}

// writeTransport writes the header of UDP or TCP, and the mark behind it.
func (fw *Writer) writeTransport(rest []byte, from, to tuple, seq, sentNs uint64) {
	be.PutUint16(rest[0:], from.port)
	be.PutUint16(rest[2:], to.port)
	magicSeq := uint64(markMagic)<<48 | seq&seqMask
	sum := uint64(fw.netSum) + words(uint64(from.addr)) + words(uint64(to.addr)) + uint64(fw.proto) + uint64(len(rest)) +
		uint64(from.port) + uint64(to.port) + words(magicSeq) + uint64(fw.w.Run) + words(sentNs)
	if fw.w.TCP {
		const ack, window = 0x5010, 0xffff // a header of five words; ACK
		be.PutUint32(rest[4:], uint32(seq))
		be.PutUint32(rest[8:], 1)
		be.PutUint16(rest[12:], ack)
		be.PutUint16(rest[14:], window)
		be.PutUint16(rest[16:], fold(sum+words(seq&0xffffffff)+1+ack+window))
		be.PutUint16(rest[18:], 0)
		rest = rest[tcpLen:]
	} else {
		be.PutUint16(rest[4:], uint16(len(rest)))
		be.PutUint16(rest[6:], 0)
		if fw.w.UDPChecksum || fw.w.isIPv6() {
			folded := fold(sum + uint64(len(rest)))
			if folded == 0 {
				folded = 0xffff // zero means none, RFC 768
			}
			be.PutUint16(rest[6:], folded)
		}
		rest = rest[udpLen:]
	}
	be.PutUint64(rest, magicSeq)
	be.PutUint16(rest[8:], fw.w.Run)
	be.PutUint64(rest[10:], sentNs)
}

func (fw *Writer) writeIPv4(buf []byte, src, dst uint32) []byte {
	length := uint16(len(buf) - ethLen)
	be.PutUint16(buf[12:], etherIPv4)
	ip := buf[ethLen:]
	be.PutUint32(ip[0:], 0x4500<<16|uint32(length))
	be.PutUint32(ip[4:], 0x4000) // no identification; do not fragment: RFC 6864's atomic datagram
	be.PutUint16(ip[8:], 64<<8|fw.proto)
	sum := 0x4500 + 0x4000 + 64<<8 + uint64(fw.proto) + uint64(length) + words(uint64(src)) + words(uint64(dst))
	be.PutUint16(ip[10:], fold(sum))
	be.PutUint32(ip[12:], src)
	be.PutUint32(ip[16:], dst)
	return ip[ip4Len:]
}

func (fw *Writer) writeIPv6(buf []byte, src, dst uint32) []byte {
	be.PutUint16(buf[12:], etherIPv6)
	ip := buf[ethLen:]
	be.PutUint32(ip[0:], 6<<28)
	be.PutUint32(ip[4:], uint32(len(ip)-ip6Len)<<16|uint32(fw.proto)<<8|64)
	from, to := fw.src, fw.dst
	if fw.w.Reversed {
		from, to = to, from
	}
	from[3], to[3] = src, dst
	for i := range 4 {
		be.PutUint32(ip[8+4*i:], from[i])
		be.PutUint32(ip[24+4*i:], to[i])
	}
	return ip[ip6Len:]
}

func putMAC(to []byte, mac uint64) {
	be.PutUint16(to, uint16(mac>>32))
	be.PutUint32(to[2:], uint32(mac))
}

// words sums the four 16-bit words of a value.
func words(v uint64) uint64 { return v>>48 + v>>32&0xffff + v>>16&0xffff + v&0xffff }

// fold ends an Internet checksum (RFC 1071): the complement of the one's complement sum.
func fold(sum uint64) uint16 {
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

func isTag(etherType uint16) bool { return etherType == etherVLAN || etherType == etherQinQ }

// Reader reads the marks of a workload's frames. It does not change and may be
// shared.
type Reader struct {
	sides    sides
	ipv6     bool
	reversed bool
	run      uint16
	offset   int // of the plain frame
	vlans    int
	untyped  bool // what is in front of the IP header is no type of Ethernet
	proto    byte
	header   int // bytes of UDP or TCP
}

// newReader makes a reader of a workload, which must be valid.
func newReader(w Workload) (*Reader, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	r := &Reader{
		sides: newSides(w), ipv6: w.isIPv6(), reversed: w.Reversed, run: w.Run,
		offset: w.extraLen(), vlans: len(w.VLANs), untyped: len(w.MPLS) > 0, proto: protoUDP, header: udpLen,
	}
	if w.TCP {
		r.proto, r.header = protoTCP, tcpLen
	}
	return r, nil
}

// Read gives the mark of a frame, or false if the frame is not of this run. Encapsulations that are not the workload's
// and IPv4 options are not looked through; VLAN tags may be missing, as receivers take them off.
func (r *Reader) Read(frame []byte) (Mark, bool) {
	if r.offset > 0 {
		if len(frame) < 20 {
			return Mark{}, false
		}
		tags := 0
		for tags < r.vlans && isTag(be.Uint16(frame[12+4*tags:])) {
			tags++
		}
		at := r.offset - 4*(r.vlans-tags)
		if len(frame) < at {
			return Mark{}, false
		}
		frame = frame[at:]
	}
	var addr uint32
	var rest []byte
	if r.ipv6 {
		if len(frame) < ethLen+ip6Len+r.header+markLen || !r.untyped && be.Uint16(frame[12:]) != etherIPv6 || frame[ethLen+6] != r.proto {
			return Mark{}, false
		}
		rest = frame[ethLen+ip6Len:]
		addr = be.Uint32(frame[ethLen+20:])
		if r.reversed {
			addr = be.Uint32(frame[ethLen+36:])
		}
	} else {
		if len(frame) < ethLen+ip4Len+r.header+markLen || !r.untyped && be.Uint16(frame[12:]) != etherIPv4 ||
			frame[ethLen] != 0x45 || frame[ethLen+9] != r.proto {
			return Mark{}, false
		}
		rest = frame[ethLen+ip4Len:]
		addr = be.Uint32(frame[ethLen+12:])
		if r.reversed {
			addr = be.Uint32(frame[ethLen+16:])
		}
	}
	port := be.Uint16(rest)
	if r.reversed {
		port = be.Uint16(rest[2:])
	}
	rest = rest[r.header:]
	magicSeq := be.Uint64(rest)
	if magicSeq>>48 != markMagic || be.Uint16(rest[8:]) != r.run {
		return Mark{}, false
	}
	return Mark{
		Seq: magicSeq & seqMask, Run: r.run, SentNs: be.Uint64(rest[10:]), Flow: r.sides.number(addr, port),
	}, true
}
