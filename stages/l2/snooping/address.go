package snooping

import (
	"encoding/binary"
	"net/netip"
)

// Address is an IP address in two words. An IPv4 address has Hi 0, which no IPv6 group has.
type Address struct{ Hi, Lo uint64 }

func address4(b []byte) Address { return Address{0, uint64(binary.BigEndian.Uint32(b))} }

func address6(b []byte) Address {
	return Address{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:16])}
}

// IP returns the address of a family.
func (a Address) IP(v6 bool) netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.Hi)
	binary.BigEndian.PutUint64(b[8:], a.Lo)
	if v6 {
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte(b[12:]))
}

func (a Address) less(b Address) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

const (
	allHosts4    = 0xe0000001 // 224.0.0.1
	linkLocal6   = 0xff02 << 48
	allSnoopers4 = 0xe000006a // 224.0.0.106, of multicast router discovery
	pimRouters4  = 0xe000000d // 224.0.0.13
)

// isGroup reports whether an address is that of a group.
func (a Address) isGroup(v6 bool) bool {
	if v6 {
		return a.Hi>>56 == 0xff
	}
	return a.Lo>>28 == 0xe
}

// Always reports whether a group is never reported, or not by all, so that its packets go to all ports: 224.0.0.0/24 (RFC 4541, 2.1.2), ff02::1, and the
// scopes that are no network's, ff00::/15 (RFC 4541, 3).
func (a Address) Always(v6 bool) bool {
	if v6 {
		return a.Hi>>48&0x0f < 2 || a.Hi == linkLocal6 && a.Lo == 1
	}
	return a.Lo>>8 == 0xe00000
}

// LinkScope reports whether an IPv6 group is of link-local scope: neighbour discovery and others depend on it.
func (a Address) LinkScope(v6 bool) bool { return v6 && a.Hi>>48&0x0f == 2 }

// mac returns the Ethernet address of a group (RFC 1112, 6.4, and RFC 2464, 7).
func (a Address) mac(v6 bool) [6]byte {
	if v6 {
		return [6]byte{0x33, 0x33, byte(a.Lo >> 24), byte(a.Lo >> 16), byte(a.Lo >> 8), byte(a.Lo)}
	}
	return [6]byte{1, 0, 0x5e, byte(a.Lo >> 16 & 0x7f), byte(a.Lo >> 8), byte(a.Lo)}
}

// Addresses returns the source and the group of a packet with a valid IP header, at the beginning of ip. It reports false if the packet is
// to no group, or its Ethernet address is not that of a group of its family: it goes where such addresses go.
func Addresses(mac [6]byte, v6 bool, ip []byte) (source, group Address, ok bool) {
	if v6 {
		if len(ip) < 40 || mac[0] != 0x33 || mac[1] != 0x33 {
			return source, group, false
		}
		source, group = address6(ip[8:]), address6(ip[24:])
	} else {
		if len(ip) < 20 || mac[0] != 1 || mac[1] != 0 || mac[2] != 0x5e {
			return source, group, false
		}
		source, group = address4(ip[12:]), address4(ip[16:])
	}
	return source, group, group.isGroup(v6)
}
