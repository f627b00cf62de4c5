package header

import "encoding/binary"

// Shim carries a telemetry digest between the switches of a network. It is
// behind the addresses and VLAN tags, where a VLAN tag would be, and keeps
// the EtherType of the packet that it was put into:
//
//	bytes  | 0                                    | 1   | 2    | 4         | 4+n           6+n
//	       | version(4) interval(1) length-1 (3)  | hop | plan | digest(n) | original type |
//
// the EtherType TypeShim precedes it. The digest has 1 to 8 bytes,
// most significant first, and the first byte says how many, so that a parser can
// look behind a shim of a plan that it does not know. The last ones are not the digest's but
// the edge's where a plan has EdgeBits. A Shim is a view: its
// length is the shim's, so accessors need no further checks.
type Shim []byte

const (
	// TypeShim announces a shim: IEEE 802 local experimental EtherType 1.
	TypeShim = 0x88b5
	// ShimVersion is the only version there is.
	ShimVersion = 1

	shimFixed = 6 // the view without the digest

	// ShimInterval is the interval bit, of the first byte.
	ShimInterval = 0x08
	// MaxShimDigest is the longest digest, in bytes.
	MaxShimDigest = 8
)

// ShimLen returns the length of a shim with a digest of n bytes, 1 to 8. A
// packet grows by as much: the shim begins behind an EtherType and ends with one.
func ShimLen(n int) int { return shimFixed + n }

// ShimAt returns the shim at off, behind its EtherType, or nil if data ends
// before its end.
func ShimAt(data []byte, off int) Shim {
	if uint(off)+shimFixed+1 > uint(len(data)) {
		return nil
	}
	n := shimFixed + 1 + int(data[off]&7)
	if off+n > len(data) {
		return nil
	}
	return Shim(data[off : off+n : off+n])
}

// NewShim writes a shim with a digest of n bytes, a hop number of 0 and a digest
// of 0 in front of the original EtherType, which is already where the view
// ends: data has ShimLen(n) bytes.
func NewShim(data []byte, n int, plan uint16) Shim {
	s := Shim(data[:ShimLen(n)])
	s[0], s[1] = ShimVersion<<4|byte(n-1), 0
	binary.BigEndian.PutUint16(s[2:4], plan)
	clear(s[4 : 4+n])
	return s
}

// Version returns the version; the other accessors hold for ShimVersion.
func (s Shim) Version() int { return int(s[0] >> 4) }

// Interval returns the bit that separates a measurement interval from the next.
func (s Shim) Interval() bool { return s[0]&ShimInterval != 0 }

// Hop returns how many switches have written the packet.
func (s Shim) Hop() uint8 { return s[1] }

// Plan returns the id of the plan by which the digest is to be read.
func (s Shim) Plan() uint16 { return binary.BigEndian.Uint16(s[2:4]) }

// DigestLen returns the length of the digest, 1 to 8 bytes.
func (s Shim) DigestLen() int { return len(s) - shimFixed }

// Digest returns the digest, whose last byte is the lowest.
func (s Shim) Digest() uint64 {
	if len(s) == shimFixed+2 { // by far the most usual length
		return uint64(s[4])<<8 | uint64(s[5])
	}
	var d uint64
	for _, c := range s[4 : len(s)-2] {
		d = d<<8 | uint64(c)
	}
	return d
}

// Edge returns the last n bytes of the digest, 0 to its length: the id of the switch at which the packet entered the network, by plans that
// have so many bytes for it.
func (s Shim) Edge(n int) (edge uint32) {
	for _, c := range s[len(s)-2-n : len(s)-2] {
		edge = edge<<8 | uint32(c)
	}
	return edge
}

// Type returns the EtherType of the packet that the shim was put into.
func (s Shim) Type() uint16 { return binary.BigEndian.Uint16(s[len(s)-2:]) }

// SetInterval sets the interval bit.
func (s Shim) SetInterval(odd bool) {
	s[0] &^= ShimInterval
	if odd {
		s[0] |= ShimInterval
	}
}

// SetHop sets the hop number.
func (s Shim) SetHop(hop uint8) { s[1] = hop }

// SetDigest sets the digest. Bits beyond its length are ignored.
func (s Shim) SetDigest(d uint64) {
	if len(s) == shimFixed+2 {
		s[4], s[5] = byte(d>>8), byte(d)
		return
	}
	for i := len(s) - 3; i >= 4; i-- {
		s[i] = byte(d)
		d >>= 8
	}
}
