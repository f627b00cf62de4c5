// Types and constants of all programs: EtherTypes, protocols, flags of the parser,
// faults of malformed packets, reasons for dropping them. The names are those of
// the Go packages that are named beside; a Go test keeps the values equal. Constants
// are macros, since compilers warn of constants that a program does not use.
#ifndef WEIR_TYPES_P4
#define WEIR_TYPES_P4

#include "sizes.p4"

typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;
typedef bit<128> ipv6_address_t;
typedef bit<16> port_t;     // a switch port as in packet.Packet: NO_PORT until chosen
typedef bit<64> time_t;     // ns of CLOCK_TAI
typedef bit<16> flags_t;
typedef bit<8> fault_t;
typedef bit<8> reason_t;

// EtherTypes (pipeline/header).
#define TYPE_IPV4 16w0x0800
#define TYPE_ARP 16w0x0806
#define TYPE_VLAN 16w0x8100
#define TYPE_SERVICE_VLAN 16w0x88a8
#define TYPE_LEGACY_QINQ 16w0x9100
#define TYPE_IPV6 16w0x86dd
#define TYPE_MPLS 16w0x8847
#define TYPE_MPLS_MULTICAST 16w0x8848
#define TYPE_SHIM 16w0x88b5

#define SHIM_VERSION 4w1

// IP protocols and IPv6 next headers (pipeline/header).
#define PROTO_HOP_BY_HOP 8w0
#define PROTO_ICMP 8w1
#define PROTO_TCP 8w6
#define PROTO_UDP 8w17
#define PROTO_DCCP 8w33
#define PROTO_ROUTING 8w43
#define PROTO_FRAGMENT 8w44
#define PROTO_AH 8w51
#define PROTO_ICMPV6 8w58
#define PROTO_NO_NEXT 8w59
#define PROTO_DESTINATION 8w60
#define PROTO_SCTP 8w132
#define PROTO_MOBILITY 8w135
#define PROTO_UDP_LITE 8w136
#define PROTO_HIP 8w139
#define PROTO_SHIM6 8w140

// What is neighbour discovery of ICMPv6 (RFC 4861), and fe80::/10.
#define ICMPV6_NEIGHBOUR_SOLICIT 8w135
#define ICMPV6_NEIGHBOUR_ADVERT 8w136
#define LINK_LOCAL_PREFIX 10w0x3fa

#define NO_PORT 16w0xffff

// What the parser found (packet.Flags).
#define FLAG_VLAN 16w0x0001
#define FLAG_QINQ 16w0x0002
#define FLAG_IPV4 16w0x0004
#define FLAG_IPV6 16w0x0008
#define FLAG_IP_OPTIONS 16w0x0010
#define FLAG_FRAGMENT 16w0x0020
#define FLAG_LATER_FRAGMENT 16w0x0040
#define FLAG_L4 16w0x0080
#define FLAG_PORTS 16w0x0100
#define FLAG_MULTICAST 16w0x0200
#define FLAG_BROADCAST 16w0x0400
#define FLAG_MALFORMED 16w0x0800
#define FLAG_MPLS 16w0x1000
#define FLAG_ARP 16w0x2000
#define FLAG_COPY 16w0x4000
#define FLAG_SHIM 16w0x8000
#define FLAG_IP 16w0x000c

// What is wrong with a malformed packet (parse.Fault).
#define NO_FAULT 8w0
#define FAULT_VLAN_TRUNCATED 8w1
#define FAULT_SHIM_TRUNCATED 8w2
#define FAULT_SHIM_VERSION 8w3
#define FAULT_ARP_TRUNCATED 8w4
#define FAULT_IPV4_TRUNCATED 8w5
#define FAULT_IPV4_VERSION 8w6
#define FAULT_IPV4_HEADER_LENGTH 8w7
#define FAULT_IPV4_TOTAL_LENGTH 8w8
#define FAULT_IPV4_FRAGMENT 8w9
#define FAULT_IPV6_TRUNCATED 8w10
#define FAULT_IPV6_VERSION 8w11
#define FAULT_IPV6_PAYLOAD_LENGTH 8w12
#define FAULT_IPV6_EXTENSION 8w13
#define FAULT_IPV6_EXTENSION_COUNT 8w14
#define FAULT_IPV6_FRAGMENT 8w15
#define FAULT_TCP_TRUNCATED 8w16
#define FAULT_TCP_DATA_OFFSET 8w17
#define FAULT_UDP_TRUNCATED 8w18
#define FAULT_UDP_LENGTH 8w19
#define FAULT_UDPLITE_COVERAGE 8w20
#define FAULT_ICMP_TRUNCATED 8w21
#define FAULT_SCTP_TRUNCATED 8w22
#define FAULT_DCCP_TRUNCATED 8w23
#define FAULT_DCCP_DATA_OFFSET 8w24
#define NUM_FAULTS 25

// Why a packet was dropped, or where it ended. The numbers are P4's alone; in
// lower case the names are those of packet.Reason. REASON_CONSUMED is no drop:
// the control plane has the packet.
#define NO_REASON 8w0
#define REASON_CONSUMED 8w1
#define REASON_NO_PORT 8w2
#define REASON_RUNT 8w3
#define REASON_MALFORMED 8w4
#define REASON_UNPATCHED 8w5
#define REASON_VLAN_FILTERED 8w6
#define REASON_LINK_LOCAL 8w7
#define REASON_SAME_PORT 8w8
#define REASON_NO_MEMBER 8w9
#define REASON_NOT_ROUTED 8w10
#define REASON_NOT_FOR_US 8w11
#define REASON_MULTICAST 8w12
#define REASON_MARTIAN 8w13
#define REASON_BAD_CHECKSUM 8w14
#define REASON_TTL_EXPIRED 8w15
#define REASON_NO_ROUTE 8w16
#define REASON_MTU_EXCEEDED 8w17
#define REASON_NEIGHBOUR_UNREACHABLE 8w18
#define REASON_PINT_LOOP 8w19
#define REASON_PINT_HOST_SHIM 8w20
#define NUM_REASONS 32

// Why a packet is at the CPU port (cpu_t.kind): one or more of these.
#define CPU_SAMPLE 8w1 // oblivious: the sampler admits it
#define CPU_RECORD 8w2 // pint: its digest at the sink
#define CPU_PUNT 8w4   // forward: for the switch itself, or for a neighbour that is not known

// The clone session of the CPU port.
#define CPU_SESSION 1

#endif
