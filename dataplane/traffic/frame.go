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

// Mark is what a packet says about itself, right behind the UDP header:
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
}

// NewWriter makes a writer of a workload, which must be valid.
func NewWriter(w Workload) (*Writer, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	fw := &Writer{w: w, drawer: newDrawer(w), sides: newSides(w)}
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
// touched and must be zero.
func (fw *Writer) Write(buf []byte, seq, sentNs uint64) int {
	flow := fw.drawer.flow(seq)
	n := fw.frameLen(seq)
	buf = buf[:n]
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
		rest = writeIPv4(buf, from.addr, to.addr)
	}
	length := uint16(len(rest))
	be.PutUint16(rest[0:], from.port)
	be.PutUint16(rest[2:], to.port)
	be.PutUint16(rest[4:], length)
	be.PutUint16(rest[6:], 0)

	magicSeq := uint64(markMagic)<<48 | seq&seqMask
	be.PutUint64(rest[8:], magicSeq)
	be.PutUint16(rest[16:], fw.w.Run)
	be.PutUint64(rest[18:], sentNs)
	if fw.w.UDPChecksum || fw.w.isIPv6() {
		sum := uint64(fw.netSum) + words(uint64(from.addr)) + words(uint64(to.addr)) + protoUDP + 2*uint64(length) +
			uint64(from.port) + uint64(to.port) + words(magicSeq) + uint64(fw.w.Run) + words(sentNs)
		folded := fold(sum)
		if folded == 0 {
			folded = 0xffff // zero means none, RFC 768
		}
		be.PutUint16(rest[6:], folded)
	}
	return n
}

func writeIPv4(buf []byte, src, dst uint32) []byte {
	length := uint16(len(buf) - ethLen)
	be.PutUint16(buf[12:], etherIPv4)
	ip := buf[ethLen:]
	be.PutUint32(ip[0:], 0x4500<<16|uint32(length))
	be.PutUint32(ip[4:], 0x4000) // no identification; do not fragment: RFC 6864's atomic datagram
	be.PutUint16(ip[8:], 64<<8|protoUDP)
	sum := 0x4500 + 0x4000 + 64<<8 + protoUDP + uint64(length) + words(uint64(src)) + words(uint64(dst))
	be.PutUint16(ip[10:], fold(sum))
	be.PutUint32(ip[12:], src)
	be.PutUint32(ip[16:], dst)
	return ip[ip4Len:]
}

func (fw *Writer) writeIPv6(buf []byte, src, dst uint32) []byte {
	be.PutUint16(buf[12:], etherIPv6)
	ip := buf[ethLen:]
	be.PutUint32(ip[0:], 6<<28)
	be.PutUint32(ip[4:], uint32(len(ip)-ip6Len)<<16|protoUDP<<8|64)
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

// Reader reads the marks of a workload's frames. It does not change and may be
// shared.
type Reader struct {
	sides    sides
	ipv6     bool
	reversed bool
	run      uint16
}

// newReader makes a reader of a workload, which must be valid.
func newReader(w Workload) (*Reader, error) {
	if err := w.Validate(); err != nil {
		return nil, err
	}
	return &Reader{newSides(w), w.isIPv6(), w.Reversed, w.Run}, nil
}

// Read gives the mark of a frame, or false if the frame is not of this run. VLAN tags
// and IPv4 options are not looked through.
func (r *Reader) Read(frame []byte) (Mark, bool) {
	var addr uint32
	var rest []byte
	if r.ipv6 {
		if len(frame) < ethLen+ip6Len+udpLen+markLen || be.Uint16(frame[12:]) != etherIPv6 || frame[ethLen+6] != protoUDP {
			return Mark{}, false
		}
		rest = frame[ethLen+ip6Len:]
		addr = be.Uint32(frame[ethLen+20:])
		if r.reversed {
			addr = be.Uint32(frame[ethLen+36:])
		}
	} else {
		if len(frame) < ethLen+ip4Len+udpLen+markLen || be.Uint16(frame[12:]) != etherIPv4 ||
			frame[ethLen] != 0x45 || frame[ethLen+9] != protoUDP {
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
	magicSeq := be.Uint64(rest[8:])
	if magicSeq>>48 != markMagic || be.Uint16(rest[16:]) != r.run {
		return Mark{}, false
	}
	return Mark{
		Seq: magicSeq & seqMask, Run: r.run, SentNs: be.Uint64(rest[18:]), Flow: r.sides.number(addr, port),
	}, true
}
