// A packet as the controls of the v1model programs see it: its headers, and what
// packet.Packet holds in Go.
#ifndef WEIR_PACKET_P4
#define WEIR_PACKET_P4

#include "headers.p4"

struct headers_t {
    cpu_t cpu;
    given_time_t given_time;
    ethernet_t ethernet;
    vlan_t[MAX_TAGS] vlan;
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
    bit<16> l3;          // bytes of link header, tags, shims
    bit<32> length;      // WireLen, bytes: it changes where a shim is put in or taken out

    // Of packet.IDBlock: the pieces of the transport header and the payload, and what
    // other packets begin with behind the link header, in wire order.
    bit<64> t1;
    bit<64> t2;
    bit<64> payload;
    bit<256> opaque;

    // What stages share, from behind the parser on.
    @field_list(CPU_FIELDS)
    bit<64> id;          // the packet id
    crcs_t id_crcs;      // first round of the message id
    bit<32> flow_hash;   // of the 5-tuple under the parser's seed: packet.FlowHash
    crcs_t flow_crcs;    // first round of the flow key's words (packet.KeyWords4, KeyWords6), of IP packets alone
    @field_list(CPU_FIELDS)
    time_t arrival;
    time_t now;          // ingress: arrival; egress: the time at this stage, not before arrival where the clock is the switch's
    bit<32> depth;       // packets that wait at the output port
    port_t out_port;     // egress: where the packet leaves; ingress: as chosen, NO_PORT if not, or flooded
    reason_t reason;     // why it is dropped: stages pass by packets that have one

    // What the clone to the CPU port is to say; kind 0: none.
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

    // Of the parser alone.
    bit<32> room;        // bytes of the packet behind the parser's place
    bit<32> inside;      // of these, bytes of the IP packet
    bit<32> need;        // bytes that come next
    bit<16> next_type;
    bit<1> fits;
    bit<8> shims;
    bit<8> extension;    // the type of the present extension header
    bit<8> behind;       // the type that it names
}

#endif
