package packet

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net/netip"
)

// FlowKey is the 5-tuple of a packet. It is comparable, so it can be a map's
// key, and equal for all packets of a flow in one direction. The zero FlowKey
// belongs to no packet.
//
// Later fragments carry no ports, so every fragment of a datagram, the first
// too, has a key without ports. IPv6 fragments have ProtoFragment instead of
// the protocol, since the fragments of one datagram may differ in what their
// fragment headers name (RFC 8200, 4.5).
type FlowKey struct {
	// Src and Dst are the addresses. An IPv4 address is in the first four
	// bytes, with zeros behind, so that a prefix is a prefix for both versions.
	Src, Dst [16]byte
	// SrcPort and DstPort are the ports, host byte order; zero without ports.
	SrcPort, DstPort uint16
	// Proto is the protocol behind all extension headers.
	Proto uint8
	// Version is 4 or 6.
	Version uint8
}

// protoFragment is the IPv6 next header value of a fragment header.
const protoFragment = 44

// Offsets into IP headers, from their first byte.
const (
	ipv4Addrs = 12 // source and destination, 4 bytes each
	ipv6Addrs = 8  // source and destination, 16 bytes each
)

// Key returns the flow key of a parsed packet whose bytes are data. It reports
// false for a packet without FlagIP.
func (p *Packet) Key(data []byte) (k FlowKey, ok bool) {
	ok = p.WriteKey(&k, data)
	return k, ok
}

// WriteKey is [Packet.Key] into memory of the caller, all of which it writes; nothing if there is no key.
func (p *Packet) WriteKey(k *FlowKey, data []byte) (ok bool) {
	switch {
	case p.Flags.Has(FlagIPv4):
		addrs := data[p.L3+ipv4Addrs:][:8]
		k.Src, k.Dst = [16]byte{}, [16]byte{}
		copy(k.Src[:4], addrs[:4])
		copy(k.Dst[:4], addrs[4:])
		k.Version = 4
	case p.Flags.Has(FlagIPv6):
		addrs := data[p.L3+ipv6Addrs:][:32]
		copy(k.Src[:], addrs[:16])
		copy(k.Dst[:], addrs[16:])
		k.Version = 6
	default:
		return false
	}
	k.SrcPort, k.DstPort, k.Proto = p.keyPorts()
	return true
}

// keyPorts returns what of the 5-tuple is not an address.
func (p *Packet) keyPorts() (src, dst uint16, proto uint8) {
	switch {
	case !p.Flags.Has(FlagFragment):
		return p.SrcPort, p.DstPort, p.Proto // ports are zero without FlagPorts
	case p.Flags.Has(FlagIPv6):
		return 0, 0, protoFragment
	}
	return 0, 0, p.Proto
}

// The number of words that a flow key is hashed as.
const (
	keyWords4 = 2
	keyWords6 = 5
)

// KeyWords4 returns the flow key of an IPv4 packet as the words to hash, which
// are these 16 bytes in little-endian order, so that words are plain loads:
//
//	0        4        8          10         12         13          14    16
//	| source | dest   | src port | dst port | protocol | version 4 | 0 0 |
//
// Ports are in network byte order. The caller has tested FlagIPv4.
func (p *Packet) KeyWords4(data []byte) (a, b uint64) {
	ports := uint64(bits.ReverseBytes32(uint32(p.SrcPort)<<16 | uint32(p.DstPort)))
	if p.Flags.Has(FlagFragment) {
		ports = 0
	}
	return binary.LittleEndian.Uint64(data[p.L3+ipv4Addrs:]), ports | uint64(p.Proto)<<32 | 4<<40
}

// KeyWords6 returns the flow key of an IPv6 packet as the words to hash:
//
//	0        16       32         34         36         37          38    40
//	| source | dest   | src port | dst port | protocol | version 6 | 0 0 |
//
// The caller has tested FlagIPv6.
func (p *Packet) KeyWords6(data []byte) (a, b, c, d, e uint64) {
	w := (*[32]byte)(data[p.L3+ipv6Addrs:])
	src, dst, proto := p.keyPorts()
	return binary.LittleEndian.Uint64(w[0:8]), binary.LittleEndian.Uint64(w[8:16]),
		binary.LittleEndian.Uint64(w[16:24]), binary.LittleEndian.Uint64(w[24:32]), portsWord(src, dst, proto, 6)
}

func portsWord(src, dst uint16, proto, version uint8) uint64 {
	return uint64(bits.ReverseBytes16(src)) | uint64(bits.ReverseBytes16(dst))<<16 |
		uint64(proto)<<32 | uint64(version)<<40
}

// Words returns the key as the words to hash, the first n of w: the same as
// KeyWords4 and KeyWords6 give for the packet, without the packet.
func (k *FlowKey) Words() (w [keyWords6]uint64, n int) {
	last := portsWord(k.SrcPort, k.DstPort, k.Proto, k.Version)
	if k.Version == 4 {
		w[0] = uint64(binary.LittleEndian.Uint32(k.Src[:])) | uint64(binary.LittleEndian.Uint32(k.Dst[:]))<<32
		w[1] = last
		return w, keyWords4
	}
	w[0], w[1] = binary.LittleEndian.Uint64(k.Src[:]), binary.LittleEndian.Uint64(k.Src[8:])
	w[2], w[3] = binary.LittleEndian.Uint64(k.Dst[:]), binary.LittleEndian.Uint64(k.Dst[8:])
	w[4] = last
	return w, keyWords6
}

// SrcAddr returns the source address.
func (k *FlowKey) SrcAddr() netip.Addr { return k.addr(&k.Src) }

// DstAddr returns the destination address.
func (k *FlowKey) DstAddr() netip.Addr { return k.addr(&k.Dst) }

func (k *FlowKey) addr(a *[16]byte) netip.Addr {
	if k.Version == 4 {
		return netip.AddrFrom4([4]byte(a[:4]))
	}
	return netip.AddrFrom16(*a)
}

// String returns the key as text: "10.0.0.1:1234 > 10.0.0.2:80 protocol 6".
func (k FlowKey) String() string {
	return fmt.Sprintf("%s > %s protocol %d", netip.AddrPortFrom(k.SrcAddr(), k.SrcPort),
		netip.AddrPortFrom(k.DstAddr(), k.DstPort), k.Proto)
}
