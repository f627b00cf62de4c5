package parse

import "fmt"

// Fault says what is wrong with a malformed packet. The zero Fault is none.
type Fault uint8

// The faults, in the order of the headers.
const (
	NoFault Fault = iota
	VLANTruncated
	ShimTruncated
	ShimVersion
	ARPTruncated
	IPv4Truncated
	IPv4Version
	IPv4HeaderLength
	IPv4TotalLength
	IPv4Fragment
	IPv6Truncated
	IPv6Version
	IPv6PayloadLength
	IPv6Extension
	IPv6ExtensionCount
	IPv6Fragment
	TCPTruncated
	TCPDataOffset
	UDPTruncated
	UDPLength
	UDPLiteCoverage
	ICMPTruncated
	SCTPTruncated
	DCCPTruncated
	DCCPDataOffset
	numFaults
)

var faultTexts = [numFaults]struct{ name, help string }{
	NoFault:            {"none", "nothing is wrong"},
	VLANTruncated:      {"vlan_truncated", "the packet ends within a VLAN tag"},
	ShimTruncated:      {"shim_truncated", "the packet ends within a telemetry shim"},
	ShimVersion:        {"shim_version", "EtherType 0x88b5 with another version than that of the telemetry shim"},
	ARPTruncated:       {"arp_truncated", "the packet ends within the ARP message"},
	IPv4Truncated:      {"ipv4_truncated", "the packet ends within the IPv4 header"},
	IPv4Version:        {"ipv4_version", "EtherType 0x0800 with another version than 4"},
	IPv4HeaderLength:   {"ipv4_header_length", "the header length is below 20 bytes"},
	IPv4TotalLength:    {"ipv4_total_length", "the total length is below the header length, or exceeds the packet"},
	IPv4Fragment:       {"ipv4_fragment", "the fragment ends beyond the longest datagram"},
	IPv6Truncated:      {"ipv6_truncated", "the packet ends within the IPv6 header"},
	IPv6Version:        {"ipv6_version", "EtherType 0x86dd with another version than 6"},
	IPv6PayloadLength:  {"ipv6_payload_length", "the payload length exceeds the packet"},
	IPv6Extension:      {"ipv6_extension", "an extension header exceeds the payload"},
	IPv6ExtensionCount: {"ipv6_extension_count", "more than 16 extension headers"},
	IPv6Fragment:       {"ipv6_fragment", "the fragment ends beyond the longest datagram"},
	TCPTruncated:       {"tcp_truncated", "the IP packet ends within the TCP header"},
	TCPDataOffset:      {"tcp_data_offset", "the data offset is below 20 bytes, or exceeds the IP packet"},
	UDPTruncated:       {"udp_truncated", "the IP packet ends within the UDP header"},
	UDPLength:          {"udp_length", "the UDP length is below 8 bytes, or exceeds the IP packet"},
	UDPLiteCoverage:    {"udplite_coverage", "the checksum coverage is 1 to 7 bytes, or exceeds the IP packet"},
	ICMPTruncated:      {"icmp_truncated", "the IP packet ends within the ICMP header"},
	SCTPTruncated:      {"sctp_truncated", "the IP packet ends within the SCTP header"},
	DCCPTruncated:      {"dccp_truncated", "the IP packet ends within the DCCP header"},
	DCCPDataOffset:     {"dccp_data_offset", "the data offset is below the DCCP header, or exceeds the IP packet"},
}

// String returns the fault's name in metrics and reports.
func (f Fault) String() string {
	if f >= numFaults {
		return fmt.Sprintf("fault_%d", uint8(f))
	}
	return faultTexts[f].name
}

// Help returns one clause that explains the fault.
func (f Fault) Help() string {
	if f >= numFaults {
		return ""
	}
	return faultTexts[f].help
}
