// The headers that programs know. Each VLAN tag and shim begins with the EtherType
// that announces it, and the EtherType of what they were put into stands alone
// behind them: to put a shim in or to take it out is to make one header valid or
// not, and moves no field.
//
//   | ethernet | vlan ... | shim | digest | host_shim | host_digest | ether_type | ...
//   | dst, src | type tag | 88b5 ...      | 88b5 ...                | type       |
#ifndef WEIR_HEADERS_P4
#define WEIR_HEADERS_P4

#include "types.p4"

// In front of packets from a test's ports in programs that are compiled with
// WEIR_GIVEN_TIME: what the clocks shall show, so that results repeat.
header given_time_t {
    time_t arrival;
    time_t now;     // the clock of the batch: departure
    bit<16> depth;  // packets that wait at the output port
}

// In front of packets to the CPU port. What a kind does not use is zero.
header cpu_t {
    bit<8> kind;      // CPU_SAMPLE, ...
    bit<8> hop;       // record: that the packet passed
    bit<16> plan;     // record
    port_t in_port;
    port_t out_port;  // record: where it left; else NO_PORT
    bit<64> digest;   // record
    bit<64> id;       // of the packet
    time_t arrival;
}

header ethernet_t {
    mac_t dst;
    mac_t src;
}

header vlan_t {
    bit<16> type;  // TYPE_VLAN, TYPE_SERVICE_VLAN, TYPE_LEGACY_QINQ
    bit<3> priority;
    bit<1> drop_eligible;
    bit<12> id;
}

// header.Shim, its digest apart.
header shim_t {
    bit<16> type;   // TYPE_SHIM
    bit<4> version; // SHIM_VERSION
    bit<1> interval;
    bit<3> length;  // of the digest in bytes, less one
    bit<8> hop;
    bit<16> plan;
}

// The digest of a plan for P4. Digests of other lengths are of no plan that a P4
// switch knows.
header digest_t {
    bit<DIGEST_BITS> value;
}

header other_digest_t {
    varbit<64> value;
}

header ether_type_t {
    bit<16> value;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_length;
    bit<16> identification;
    bit<1> mark;   // reserved; carrier ipid: the identification is a digest
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_address_t src;
    ipv4_address_t dst;
}

header ipv4_options_t {
    varbit<320> bytes;
}

header ipv6_t {
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_length;
    bit<8> next_header;
    bit<8> hop_limit;
    ipv6_address_t src;
    ipv6_address_t dst;
}

// An IPv6 extension header: at least eight bytes, at most 2048.
header ipv6_extension_t {
    bit<8> next_header;
    bit<8> length;
    bit<48> bytes;
    varbit<16320> more;
}

header tcp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> sequence;
    bit<32> acknowledgment;
    bit<4> data_offset;
    bit<12> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header tcp_options_t {
    varbit<320> bytes;
}

header dccp_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<8> data_offset;
    bit<24> bytes;
    bit<7> type;
    bit<1> extended; // sequence numbers of 48 bits
    bit<24> more;
}

header dccp_options_t {
    varbit<8160> bytes;
}

#endif
