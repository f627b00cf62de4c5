package header

import (
	"encoding/binary"
	"math/bits"
)

// Sum returns the one's complement sum of data in 16-bit words (RFC 1071), not
// yet complemented, continuing from an earlier sum. An odd last byte counts as
// the high half of a word, so only the last piece of a chain may be odd.
//
// Eight bytes are added at a time: the sum modulo 2^64-1 is also right modulo
// 2^16-1.
func Sum(data []byte, sum uint16) uint16 {
	acc := uint64(sum)
	var carry uint64
	for len(data) >= 8 {
		acc, carry = bits.Add64(acc, binary.BigEndian.Uint64(data), carry)
		data = data[8:]
	}
	// The rest is fewer than eight bytes, left-aligned like a full load.
	var last uint64
	for i, c := range data {
		last |= uint64(c) << (56 - 8*i)
	}
	acc, carry = bits.Add64(acc, last, carry)
	acc, carry = bits.Add64(acc, 0, carry)
	acc += carry
	acc = acc>>32 + acc&0xffffffff
	acc = acc>>32 + acc&0xffffffff
	return fold(uint32(acc))
}

// Checksum returns the Internet checksum of data (RFC 1071): what belongs into
// a checksum field that was zero while summed, and 0 over data that includes a
// right checksum.
func Checksum(data []byte) uint16 { return ^Sum(data, 0) }

// checksumUpdate returns the checksum after one 16-bit word of the data
// changed from old to new (RFC 1624, equation 3).
func checksumUpdate(sum, old, new uint16) uint16 {
	return ^fold(uint32(^sum) + uint32(^old) + uint32(new))
}

// ChecksumUpdate32 is checksumUpdate for two adjacent words, such as an IPv4
// address.
func ChecksumUpdate32(sum uint16, old, new uint32) uint16 {
	return ^fold(uint32(^sum) + (^old)>>16 + ^old&0xffff + new>>16 + new&0xffff)
}

// PseudoSum4 returns the sum of the IPv4 pseudo header (RFC 9293, 3.1) for a
// transport header and payload of length bytes, to be continued with Sum.
func PseudoSum4(ip *IPv4, length int) uint16 {
	return Sum(ip[12:20], fold(uint32(ip.Protocol())+uint32(length)))
}

// PseudoSum6 is PseudoSum4 for IPv6 (RFC 8200, 8.1); proto is the transport
// protocol behind all extension headers.
func PseudoSum6(ip *IPv6, proto uint8, length int) uint16 {
	return Sum(ip[8:40], fold(uint32(proto)+uint32(length)))
}

// fold adds the carries of a sum of words back in.
func fold(sum uint32) uint16 {
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
