// Types and constants of all programs: EtherTypes, protocols, flags of the parser,
// faults of malformed packets, reasons for dropping them. The names are those of
// the Go packages that are named beside; a Go test keeps the values equal.
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

// A hash of the crc family (see hash.p4): a is its high half, CRC-32 of the second
// round, b its low half, CRC-32C.
struct hash_t {
    bit<32> a;
    bit<32> b;
}

// The first-round CRCs of a message, which do not depend on the seed.
struct crcs_t {
    bit<32> p; // CRC-32
    bit<32> q; // CRC-32C
}

// A member of the family: the halves of hash.Key(seed), from the control plane.
struct hash_key_t {
    bit<32> p;
    bit<32> q;
}

// EtherTypes (pipeline/header).
const bit<16> TYPE_IPV4 = 0x0800;
const bit<16> TYPE_ARP = 0x0806;
const bit<16> TYPE_VLAN = 0x8100;
const bit<16> TYPE_SERVICE_VLAN = 0x88a8;
const bit<16> TYPE_LEGACY_QINQ = 0x9100;
const bit<16> TYPE_IPV6 = 0x86dd;
const bit<16> TYPE_MPLS = 0x8847;
const bit<16> TYPE_MPLS_MULTICAST = 0x8848;
const bit<16> TYPE_SHIM = 0x88b5;

const bit<4> SHIM_VERSION = 1;

// IP protocols and IPv6 next headers (pipeline/header).
const bit<8> PROTO_HOP_BY_HOP = 0;
const bit<8> PROTO_ICMP = 1;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;
const bit<8> PROTO_DCCP = 33;
const bit<8> PROTO_ROUTING = 43;
const bit<8> PROTO_FRAGMENT = 44;
const bit<8> PROTO_AH = 51;
const bit<8> PROTO_ICMPV6 = 58;
const bit<8> PROTO_NO_NEXT = 59;
const bit<8> PROTO_DESTINATION = 60;
const bit<8> PROTO_SCTP = 132;
const bit<8> PROTO_MOBILITY = 135;
const bit<8> PROTO_UDP_LITE = 136;
const bit<8> PROTO_HIP = 139;
const bit<8> PROTO_SHIM6 = 140;

// What is neighbour discovery of ICMPv6 (RFC 4861), and fe80::/10.
const bit<8> ICMPV6_NEIGHBOUR_SOLICIT = 135;
const bit<8> ICMPV6_NEIGHBOUR_ADVERT = 136;
const bit<10> LINK_LOCAL_PREFIX = 0x3fa;

const port_t NO_PORT = 0xffff;

// What the parser found (packet.Flags).
const flags_t FLAG_VLAN = 0x0001;
const flags_t FLAG_QINQ = 0x0002;
const flags_t FLAG_IPV4 = 0x0004;
const flags_t FLAG_IPV6 = 0x0008;
const flags_t FLAG_IP_OPTIONS = 0x0010;
const flags_t FLAG_FRAGMENT = 0x0020;
const flags_t FLAG_LATER_FRAGMENT = 0x0040;
const flags_t FLAG_L4 = 0x0080;
const flags_t FLAG_PORTS = 0x0100;
const flags_t FLAG_MULTICAST = 0x0200;
const flags_t FLAG_BROADCAST = 0x0400;
const flags_t FLAG_MALFORMED = 0x0800;
const flags_t FLAG_MPLS = 0x1000;
const flags_t FLAG_ARP = 0x2000;
const flags_t FLAG_COPY = 0x4000;
const flags_t FLAG_SHIM = 0x8000;
const flags_t FLAG_IP = 0x000c;

// What is wrong with a malformed packet (parse.Fault).
const fault_t NO_FAULT = 0;
const fault_t FAULT_VLAN_TRUNCATED = 1;
const fault_t FAULT_SHIM_TRUNCATED = 2;
const fault_t FAULT_SHIM_VERSION = 3;
const fault_t FAULT_ARP_TRUNCATED = 4;
const fault_t FAULT_IPV4_TRUNCATED = 5;
const fault_t FAULT_IPV4_VERSION = 6;
const fault_t FAULT_IPV4_HEADER_LENGTH = 7;
const fault_t FAULT_IPV4_TOTAL_LENGTH = 8;
const fault_t FAULT_IPV4_FRAGMENT = 9;
const fault_t FAULT_IPV6_TRUNCATED = 10;
const fault_t FAULT_IPV6_VERSION = 11;
const fault_t FAULT_IPV6_PAYLOAD_LENGTH = 12;
const fault_t FAULT_IPV6_EXTENSION = 13;
const fault_t FAULT_IPV6_EXTENSION_COUNT = 14;
const fault_t FAULT_IPV6_FRAGMENT = 15;
const fault_t FAULT_TCP_TRUNCATED = 16;
const fault_t FAULT_TCP_DATA_OFFSET = 17;
const fault_t FAULT_UDP_TRUNCATED = 18;
const fault_t FAULT_UDP_LENGTH = 19;
const fault_t FAULT_UDPLITE_COVERAGE = 20;
const fault_t FAULT_ICMP_TRUNCATED = 21;
const fault_t FAULT_SCTP_TRUNCATED = 22;
const fault_t FAULT_DCCP_TRUNCATED = 23;
const fault_t FAULT_DCCP_DATA_OFFSET = 24;
#define NUM_FAULTS 25

// Why a packet was dropped, or where it ended. The numbers are P4's alone; in
// lower case the names are those of packet.Reason. REASON_CONSUMED is no drop:
// the control plane has the packet.
const reason_t NO_REASON = 0;
const reason_t REASON_CONSUMED = 1;
const reason_t REASON_NO_PORT = 2;
const reason_t REASON_RUNT = 3;
const reason_t REASON_MALFORMED = 4;
const reason_t REASON_UNPATCHED = 5;
const reason_t REASON_VLAN_FILTERED = 6;
const reason_t REASON_LINK_LOCAL = 7;
const reason_t REASON_SAME_PORT = 8;
const reason_t REASON_NO_MEMBER = 9;
const reason_t REASON_NOT_ROUTED = 10;
const reason_t REASON_NOT_FOR_US = 11;
const reason_t REASON_MULTICAST = 12;
const reason_t REASON_MARTIAN = 13;
const reason_t REASON_BAD_CHECKSUM = 14;
const reason_t REASON_TTL_EXPIRED = 15;
const reason_t REASON_NO_ROUTE = 16;
const reason_t REASON_MTU_EXCEEDED = 17;
const reason_t REASON_NEIGHBOUR_UNREACHABLE = 18;
const reason_t REASON_PINT_LOOP = 19;
const reason_t REASON_PINT_HOST_SHIM = 20;
#define NUM_REASONS 32

// Why a packet is at the CPU port (cpu_t.kind): one or more of these.
const bit<8> CPU_SAMPLE = 1; // oblivious: the sampler admits it
const bit<8> CPU_RECORD = 2; // pint: its digest at the sink
const bit<8> CPU_PUNT = 4;   // forward: for the switch itself, or for a neighbour that is not known
const bit<8> CPU_LOOP = 8;   // pint: it was found to loop

// The clone session of the CPU port.
#define CPU_SESSION 1

#endif
