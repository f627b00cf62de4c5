package header

import "encoding/binary"

// Init writes the whole of an IPv4 header without options: total is the length
// of header and payload, in bytes; the packet may be fragmented, and its
// identification is id. The checksum is right.
func (h *IPv4) Init(src, dst [4]byte, proto, ttl, tos uint8, id uint16, total int) {
	*h = IPv4{0: 0x45, 1: tos, 8: ttl, 9: proto}
	binary.BigEndian.PutUint16(h[2:4], uint16(total))
	binary.BigEndian.PutUint16(h[4:6], id)
	copy(h[12:16], src[:])
	copy(h[16:20], dst[:])
	h.setChecksum(Checksum(h[:]))
}

// SwapAddrs exchanges source and destination, which no checksum notices.
func (h *IPv4) SwapAddrs() {
	src := h.Src()
	copy(h[12:16], h[16:20])
	copy(h[16:20], src[:])
}

// DecrementTTL takes one off the time to live, which must not be 0, and updates
// the checksum: the word in question falls by 0x0100, so the complement that
// is stored rises by it, with the carry added back in (RFC 1624, 3).
func (h *IPv4) DecrementTTL() {
	sum := uint32(h.Checksum()) + 0x0100
	// A stored 0xffff means the same sum as 0; equation 3 never leaves 0xffff
	// behind for a header, whose words are not all zero.
	sum += sum >> 16
	if uint16(sum) == 0xffff {
		sum = 0
	}
	h.setChecksum(uint16(sum))
	h[8]--
}

// ValidChecksum reports whether the checksum of a header without options is
// right. It adds 32-bit words: 2^32 is 1 modulo 2^16-1.
func (h *IPv4) ValidChecksum() bool {
	sum := uint64(binary.BigEndian.Uint32(h[0:4])) + uint64(binary.BigEndian.Uint32(h[4:8])) +
		uint64(binary.BigEndian.Uint32(h[8:12])) + uint64(binary.BigEndian.Uint32(h[12:16])) +
		uint64(binary.BigEndian.Uint32(h[16:20]))
	sum = sum>>32 + sum&0xffffffff
	return fold(uint32(sum>>16+sum&0xffff)) == 0xffff
}

// Init writes the whole of an IPv6 header for a payload of length bytes.
func (h *IPv6) Init(src, dst [16]byte, next, hopLimit uint8, length int) {
	*h = IPv6{0: 0x60, 6: next, 7: hopLimit}
	binary.BigEndian.PutUint16(h[4:6], uint16(length))
	copy(h[8:24], src[:])
	copy(h[24:40], dst[:])
}

// SwapAddrs exchanges source and destination, which no checksum notices.
func (h *IPv6) SwapAddrs() {
	src := h.Src()
	copy(h[8:24], h[24:40])
	copy(h[24:40], src[:])
}

// Init writes the whole of an ARP packet for IPv4 over Ethernet.
func (h *ARP) Init(op uint16, senderHW [6]byte, senderIP [4]byte, targetHW [6]byte, targetIP [4]byte) {
	binary.BigEndian.PutUint64(h[0:8], 0x0001_0800_06_04<<16|uint64(op))
	copy(h[8:14], senderHW[:])
	copy(h[14:18], senderIP[:])
	copy(h[18:24], targetHW[:])
	copy(h[24:28], targetIP[:])
}
