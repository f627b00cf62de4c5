// A packet as the programs for Tofino see it. Link headers and network headers are
// those of p4/include; transport headers are cut up as packet.IDBlock wants them,
// for a Tofino has no varbit fields, and hashes what its parser has put into containers.
//
//   | macs | tags | added shim | shim | host's shim | type | IP | l4 (8) | ta (4) | tb (2) | ... | options | payload (8) |
//                                                          | opaque (32)                                              |
#ifndef WEIR_TNA_HEADERS_P4
#define WEIR_TNA_HEADERS_P4

#include "../../include/headers.p4"

// T1 of packet.IDBlock: bytes 0 to 7 of the transport header, whatever it is.
header l4_t {
    bit<16> a; // the source port, with ports
    bit<16> b; // the destination port
    bit<32> c;
}

// Bytes 8 to 11, of protocols that have something there which counts.
header ta_t {
    bit<32> a;
}

// Bytes 12 and 13.
header tb_t {
    bit<16> b;
}

// Bytes 14 and 15, where they count.
header tc_t {
    bit<16> c;
}

// Bytes 14 to 19 of TCP, of which the checksum counts.
header tcp_rest_t {
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header option_t {
    bit<32> word;
}

// P of packet.IDBlock: the first eight bytes of the payload.
header payload_t {
    bit<32> a;
    bit<32> b;
}

// What other packets begin with behind the link header.
header opaque_t {
    bit<32> w0;
    bit<32> w1;
    bit<32> w2;
    bit<32> w3;
    bit<32> w4;
    bit<32> w5;
    bit<32> w6;
    bit<32> w7;
}

#define TCP_OPTION_WORDS 10

// Digests of other lengths than DIGEST_LEN, from 1 to 8 bytes: as many of these as
// make up the length, 8 being 4, 1, 2 and 1.
header bytes4_t {
    bit<32> bytes;
}
header bytes2_t {
    bit<16> bytes;
}
header bytes1_t {
    bit<8> bytes;
}

// In front of mirrored packets, which go to the CPU port: what a kind does not use is
// zero. It is cpu_t without the bits that a Tofino does not have, for a mirror
// carries 32 bytes at most. Bridged packets begin with a kind of 0.
header report_t {
    bit<8> kind;      // CPU_SAMPLE, ...
    bit<8> hop;       // record: that the packet passed
    bit<16> plan;     // record
    bit<16> in_port;
    bit<16> out_port; // record
    bit<16> digest;   // record
    bit<32> id_high;  // of the packet
    bit<32> id_low;
    bit<48> arrival;  // ns of the device's clock
}

#define BRIDGED 8w0

// The headers in the order in which they are sent. What a packet lacks is not
// valid, and reads as zero: no container is shared with what else such a
// packet has.
struct headers_t {
    ethernet_t ethernet;
    vlan_t[MAX_TAGS] vlan;
    shim_t shim;           // the network's, or a host's that arrives at the source
    digest_t digest;
    bytes4_t other_digest4;
    bytes1_t other_digest8;
    bytes2_t other_digest2;
    bytes1_t other_digest1;
    shim_t host_shim;      // behind the network's
    digest_t host_digest;
    ether_type_t ether_type;
    ipv4_t ipv4;
    ipv6_t ipv6;
    l4_t l4;
    ta_t ta;
    tb_t tb;
    tc_t tc;
    tcp_rest_t tcp_rest;
    option_t[TCP_OPTION_WORDS] options;
    payload_t payload;
    opaque_t opaque;
}

// Those that egress knows: what stands behind the shim is not changed there, and takes no
// containers.
struct link_headers_t {
    ethernet_t ethernet;
    vlan_t[MAX_TAGS] vlan;
    shim_t added;          // that this switch puts in, as the source
    digest_t added_digest;
    shim_t shim;
    digest_t digest;
    bytes4_t other_digest4;
    bytes1_t other_digest8;
    bytes2_t other_digest2;
    bytes1_t other_digest1;
}

// What the parser gives to all systems; the names are those of packet.Packet.
struct packet_t {
    bit<16> t2c;            // the last two bytes of T2
    bit<16> src_port;       // as the flow key has them: zero without ports
    bit<16> dst_port;
    bit<1> two_shims;
    bit<1> unmeasured;      // the parser cannot follow it as the Go stages do: see README.md
}

#endif
