// A packet as the controls of the v1model programs see it: its headers, and what
// packet.Packet holds in Go.
#ifndef WEIR_PACKET_P4
#define WEIR_PACKET_P4

#include "../include/headers.p4"
#include "hash.p4"

// Eight bytes each that follow each other, in wire order; a word that the packet has
// only in part is zero.
struct words_t {
    bit<64> a;
    bit<64> b;
    bit<64> c;
}

// What packets other than IP begin with behind the link header, in pieces: the first
// 32 bytes, or all there is.
header opaque_32_t {
    bit<256> bytes;
}

header opaque_16_t {
    bit<128> bytes;
}

header opaque_8_t {
    bit<64> bytes;
}

header opaque_4_t {
    bit<32> bytes;
}

header opaque_2_t {
    bit<16> bytes;
}

header opaque_1_t {
    bit<8> bytes;
}

struct headers_t {
    cpu_t cpu;
    given_time_t given_time;
    ethernet_t ethernet;
    vlan_t[MAX_TAGS + 1] vlan; // one more than the parser takes out: forwarding may add one
    // The outermost shim is the network's, or a host's before the source has wrapped
    // it. Either digest or other_digest is there with it.
    shim_t shim;
    digest_t digest;
    other_digest_t other_digest;
    shim_t host_shim;
    digest_t host_digest;
    other_digest_t host_other_digest;
    ether_type_t ether_type;
    ipv4_t ipv4; // valid with FLAG_IPV4 alone
    ipv4_options_t ipv4_options;
    ipv6_t ipv6; // valid with FLAG_IPV6 alone
    ipv6_extension_t[MAX_EXTENSIONS] ipv6_extension;
    tcp_t tcp;
    tcp_options_t tcp_options;
    dccp_t dccp;
    dccp_options_t dccp_options;
    opaque_32_t opaque_32;
    opaque_16_t opaque_16;
    opaque_8_t opaque_8;
    opaque_4_t opaque_4;
    opaque_2_t opaque_2;
    opaque_1_t opaque_1;
}

// Fields with the list CPU_FIELDS are what clones to the CPU port keep.
#define CPU_FIELDS 1

struct metadata_t {
    // The parser's, with the names of packet.Packet.
    port_t in_port;
    flags_t flags;
    fault_t fault;
    bit<8> proto;
    bit<8> ttl;
    bit<16> ether_type;
    bit<16> vlan;        // the outer tag's TCI
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> l3;          // bytes in front of the IP header
    bit<32> length;      // WireLen, bytes: it changes where tags or shims come or go

    // What stages share, from behind the parser on.
    @field_list(CPU_FIELDS)
    bit<64> id;          // the packet id
    word_message_t id_message; // the id as a message, behind its first round
    bit<32> flow_hash;   // of the 5-tuple under the parser's seed: packet.FlowHash
    message_t flow_message; // the flow key's words (packet.KeyWords4, KeyWords6) behind their first round: of IP packets alone
    @field_list(CPU_FIELDS)
    time_t arrival;
    time_t now;          // the clock: at ingress, and again at egress
    bit<32> depth;       // packets that wait at the output port, known at egress
    port_t out_port;     // where the packet leaves; NO_PORT until chosen, and at ingress where it is flooded
    reason_t reason;     // why it is dropped: stages pass by packets that have one
    bit<12> bridge_vlan; // of l2: the VLAN of the packet inside the bridge
    bit<1> bridged;      // l2 has forwarded it: it leaves with the port's tag
    bit<16> zero;        // what the checksum of a right IPv4 header is

    // What the copy for the CPU port is to say; kind 0: there is none.
    @field_list(CPU_FIELDS)
    bit<8> cpu_kind;
    @field_list(CPU_FIELDS)
    bit<8> cpu_hop;
    @field_list(CPU_FIELDS)
    bit<16> cpu_plan;
    @field_list(CPU_FIELDS)
    bit<64> cpu_digest;
    @field_list(CPU_FIELDS)
    port_t cpu_in_port;
    @field_list(CPU_FIELDS)
    port_t cpu_out_port;

    // Of the parser, for derive: words behind the IP header (of IPv6: the fixed
    // one), at the transport header, and at the payload behind a header with options.
    words_t behind;
    words_t transport;
    bit<64> payload;

    // Of the parser alone.
    bit<32> room;        // bytes of the packet from the parser's place on
    bit<32> inside;      // of these, bytes of the IP packet
    bit<32> need;        // bytes of the header that comes next
    bit<1> fits;
    bit<1> valid;
    bit<24> shim_ahead;
    bit<64> ahead;
    bit<4> version;
    bit<4> ihl;
    bit<16> fragment;    // of IPv6: offset and flags
    bit<16> next_type;
    bit<8> tags;
    bit<8> extensions;
    bit<8> extension;    // the type of the present extension header
    bit<8> opaque;       // bytes that other than IP packets begin with, 0 to 32
}

#endif
