package snooping

import (
	"github.com/weirswitch/weir/pipeline/header"
)

// Kind is what a packet is to a switch that snoops.
type Kind uint8

// The kinds.
const (
	Data    Kind = iota // any other packet, also an IGMP or MLD message that is malformed or not known
	Query               // a querier asks who listens
	Report              // a host says what it listens to, or leaves
	Router              // a multicast router is there: a PIM hello, or an advertisement of RFC 4286
	Invalid             // malformed: hosts and routers do not take it, so it says nothing and is forwarded as data
)

// Types of messages (IANA).
const (
	igmpQuery        = 0x11
	igmpReport1      = 0x12
	igmpReport2      = 0x16
	igmpLeave        = 0x17
	igmpReport3      = 0x22
	igmpRouterAdvert = 0x30

	mldQuery        = 130
	mldReport1      = 131
	mldDone         = 132
	mldReport2      = 143
	mldRouterAdvert = 151

	protoPIM = 103
)

// IsControl reports whether packets of a protocol may be other than Data.
func IsControl(v6 bool, proto uint8) bool {
	if v6 {
		return proto == header.ProtoICMPv6 || proto == protoPIM
	}
	return proto == header.ProtoIGMP || proto == protoPIM
}

// Read says what a complete packet is, which begins with a valid IP header and was sent to a group's Ethernet address. Body is the message behind the IP
// header, of queries and reports, and aliases ip; src is the sender's address. It checks what receivers check: length, TTL 1, checksums, in IPv6 a
// link-local source and the router alert (RFC 3810, 5). It does not allocate.
func Read(mac [6]byte, v6 bool, ip []byte) (kind Kind, src Address, body []byte) {
	if v6 {
		return read6(mac, ip)
	}
	return read4(mac, ip)
}

func read4(mac [6]byte, data []byte) (Kind, Address, []byte) {
	ip := header.IPv4At(data, 0)
	if ip == nil {
		return Invalid, Address{}, nil
	}
	length, total := ip.HeaderLen(), ip.TotalLen()
	if ip.Version() != 4 || length < header.IPv4Len || total < length+8 || total > len(data) || ip.FragmentOffset() != 0 || ip.MoreFragments() ||
		header.Checksum(data[:length]) != 0 {
		return Invalid, Address{}, nil
	}
	src, dst, body := address4(data[12:]), address4(data[16:]), data[length:total]
	if !dst.isGroup(false) || mac != dst.mac(false) {
		return Invalid, src, nil // hosts do not get it, or it is not theirs
	}
	if ip.Protocol() == protoPIM {
		return pim(dst.Lo == pimRouters4, body), src, body
	}
	if ip.TTL() != 1 || header.Checksum(body) != 0 {
		return Invalid, src, nil
	}
	switch body[0] {
	case igmpQuery:
		group := address4(body[4:])
		if q := address4(body[4:]); q.Lo != 0 && !q.isGroup(false) || dst.Lo != allHosts4 && (group.Lo == 0 || group != dst) {
			return Invalid, src, nil
		}
		if len(body) != 8 && (len(body) < 12 || !answered(body, 8, 4, group.Lo == 0)) { // RFC 3376, 7.1
			return Invalid, src, nil
		}
		return Query, src, body
	case igmpReport1, igmpReport2, igmpLeave, igmpReport3:
		return Report, src, body
	case igmpRouterAdvert:
		if dst.Lo != allSnoopers4 {
			return Invalid, src, nil
		}
		return Router, src, body
	}
	return Data, src, nil
}

func read6(mac [6]byte, data []byte) (Kind, Address, []byte) {
	ip := header.IPv6At(data, 0)
	if ip == nil {
		return Invalid, Address{}, nil
	}
	end := header.IPv6Len + ip.PayloadLen()
	if ip.Version() != 6 || end > len(data) {
		return Invalid, Address{}, nil
	}
	src, dst := address6(data[8:]), address6(data[24:])
	next, at, alert := ip.NextHeader(), header.IPv6Len, false
	if next == header.ProtoHopByHop {
		ext := header.IPv6ExtAt(data[:end], at)
		if ext == nil || at+ext.HeaderLen(next) > end {
			return Invalid, src, nil
		}
		length := ext.HeaderLen(next)
		alert = hasAlert(data[at+2 : at+length])
		next, at = ext.NextHeader(), at+length
	}
	body := data[at:end]
	if next == protoPIM {
		return pim(dst.Hi == linkLocal6 && dst.Lo == 0x0d && mac == dst.mac(true), body), src, body
	}
	if next != header.ProtoICMPv6 || len(body) < 8 {
		return Data, src, nil
	}
	switch body[0] {
	case mldQuery, mldReport1, mldDone, mldReport2, mldRouterAdvert:
	default:
		return Data, src, nil
	}
	local := src.Hi>>54 == 0xfe80>>6
	unspecified := src == Address{} && (body[0] == mldReport2 || body[0] == mldReport1) // of a host without an address yet (RFC 3810, 5.2.13)
	if !dst.isGroup(true) || mac != dst.mac(true) || ip.HopLimit() != 1 || !local && !unspecified || !alert ||
		header.Sum(body, header.PseudoSum6(ip, header.ProtoICMPv6, len(body))) != 0xffff {
		return Invalid, src, nil
	}
	switch body[0] {
	case mldRouterAdvert:
		return Router, src, body
	case mldReport2:
		return Report, src, body
	}
	if len(body) < 24 {
		return Invalid, src, nil
	}
	if body[0] != mldQuery {
		return Report, src, body
	}
	group, all := address6(body[8:]), Address{linkLocal6, 1}
	if group != (Address{}) && !group.isGroup(true) || dst != all && (group == Address{} || group != dst) ||
		len(body) != 24 && (len(body) < 28 || !answered(body, 24, 16, group == Address{})) {
		return Invalid, src, nil
	}
	return Query, src, body
}

// answered reports whether hosts take a query of IGMPv3 or MLDv2, whose part that all versions have is of so many bytes: all its sources are there, and a general one
// has none.
func answered(body []byte, fixed, size int, general bool) bool {
	n := int(body[fixed+2])<<8 | int(body[fixed+3])
	return len(body) >= fixed+4+n*size && !(general && n != 0)
}

// hasAlert reports whether the options of a hop-by-hop header have the router alert of MLD (RFC 2711).
func hasAlert(options []byte) bool {
	for len(options) > 0 {
		if options[0] == 0 { // Pad1
			options = options[1:]
			continue
		}
		if len(options) < 2 || 2+int(options[1]) > len(options) {
			return false
		}
		if options[0] == 5 && options[1] == 2 {
			return options[2] == 0 && options[3] == 0
		}
		options = options[2+int(options[1]):]
	}
	return false
}

// pim reads a message of PIM version 2 (RFC 7761, 4.9). Its checksum is not looked at: who forges one may as well compute it.
func pim(routers bool, body []byte) Kind {
	const helloV2 = 0x20
	if !routers || len(body) < 4 || body[0] != helloV2 {
		return Data
	}
	return Router
}
