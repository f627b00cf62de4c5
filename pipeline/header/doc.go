// Package header gives views over the bytes of packets: Ethernet, VLAN tags,
// ARP, IPv4, IPv6 and its extension headers, TCP, UDP, SCTP, DCCP and ICMP,
// their constants, and the Internet checksum.
//
// A view is an array type of the header's fixed length, used by pointer:
//
//	ip := header.IPv4At(data, off) // nil if the fixed header is not all there
//	if ip == nil || ip.Version() != 4 { ... }
//
// The one bounds check is in the conversion from slice to array pointer; all
// accessors index constants and inline to a load. A view aliases the packet
// and copies nothing. Variable parts (IPv4 options, TCP options) lie behind
// the view; HeaderLen says how far. Multi-byte values are in host byte order.
//
// Views check nothing but length: whether fields make sense is for the caller
// to judge. The package imports nothing of ours.
package header
