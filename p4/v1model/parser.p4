// The parser: what stages/parse does to a packet, header by header. A fault ends
// the parse; the packet passes as opaque from there on. Every lookahead is behind a
// comparison of lengths, for BMv2 looks beyond the end of short packets.
#ifndef WEIR_PARSER_P4
#define WEIR_PARSER_P4

#include "packet.p4"

// Selects the number of whole words, 0 to 3, in a length of 32 bits.
#define NO_WORD 0 &&& 0xfffffff8
#define ONE_WORD 8 &&& 0xfffffff8
#define TWO_WORDS 16 &&& 0xfffffff8

// words looks at what follows, within the IP packet.
parser words_ahead(packet_in pkt, in bit<32> inside, out words_t words) {
    state start {
        words.a = 0;
        words.b = 0;
        words.c = 0;
        transition select(inside) {
            NO_WORD: accept;
            ONE_WORD: one;
            TWO_WORDS: two;
            default: three;
        }
    }
    state one {
        words.a = pkt.lookahead<bit<64>>();
        transition accept;
    }
    state two {
        bit<128> ahead = pkt.lookahead<bit<128>>();
        words.a = ahead[127:64];
        words.b = ahead[63:0];
        transition accept;
    }
    state three {
        bit<192> ahead = pkt.lookahead<bit<192>>();
        words.a = ahead[191:128];
        words.b = ahead[127:64];
        words.c = ahead[63:0];
        transition accept;
    }
}

parser packet_parser(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    words_ahead() behind_ip;
    words_ahead() at_transport;

    // BMv2 parses again what it copies at ingress, with the metadata of some packet
    // before: then nothing but the packet's bytes counts, which all stay in their order.
    state start {
        meta.tags = 0;
        meta.extensions = 0;
        meta.in_port = (bit<16>)sm.ingress_port;
        meta.out_port = NO_PORT;
        meta.length = sm.packet_length;
#ifdef WEIR_GIVEN_TIME
        pkt.extract(hdr.given_time);
        meta.length = sm.packet_length - GIVEN_TIME_LEN;
        meta.fits = (bit<1>)(sm.packet_length >= GIVEN_TIME_LEN + ETHERNET_LEN);
#else
        meta.fits = (bit<1>)(sm.packet_length >= ETHERNET_LEN);
#endif
        meta.room = meta.length;
        transition select(meta.fits) {
            1: ethernet;
            default: runt;
        }
    }

    state runt {
        meta.reason = REASON_RUNT;
        transition accept;
    }

    state ethernet {
        pkt.extract(hdr.ethernet);
        meta.room = meta.room - 12;
        transition link;
    }

    // The link header's EtherType, or a tag's, is next.
    state link {
        meta.next_type = pkt.lookahead<bit<16>>();
        meta.fits = (bit<1>)(meta.room >= VLAN_LEN + 2);
        transition select(meta.next_type, meta.tags, meta.fits) {
            (TYPE_VLAN, MAX_TAGS, _): ether_type;
            (TYPE_SERVICE_VLAN, MAX_TAGS, _): ether_type;
            (TYPE_LEGACY_QINQ, MAX_TAGS, _): ether_type;
            (TYPE_VLAN, _, 1): vlan;
            (TYPE_SERVICE_VLAN, _, 1): vlan;
            (TYPE_LEGACY_QINQ, _, 1): vlan;
            (TYPE_VLAN, _, 0): vlan_truncated;
            (TYPE_SERVICE_VLAN, _, 0): vlan_truncated;
            (TYPE_LEGACY_QINQ, _, 0): vlan_truncated;
            (TYPE_SHIM, _, _): shim;
            default: ether_type;
        }
    }

    state vlan {
        pkt.extract(hdr.vlan.next);
        meta.tags = meta.tags + 1;
        meta.room = meta.room - VLAN_LEN;
        transition link;
    }

    state vlan_truncated {
        meta.fault = FAULT_VLAN_TRUNCATED;
        transition malformed_type;
    }

    // The first shim. The least one has a digest of one byte.
    state shim {
        meta.fits = (bit<1>)(meta.room >= 2 + SHIM_FIXED_LEN + 1);
        transition select(meta.fits) {
            1: shim_ahead;
            default: shim_truncated;
        }
    }

    state shim_ahead {
        meta.shim_ahead = pkt.lookahead<bit<24>>();
        meta.need = 2 + SHIM_FIXED_LEN + 1 + (bit<32>)meta.shim_ahead[2:0];
        meta.fits = (bit<1>)(meta.room >= meta.need);
        meta.valid = (bit<1>)(meta.shim_ahead[7:4] == SHIM_VERSION);
        transition select(meta.fits, meta.valid) {
            (0, _): shim_truncated;
            (1, 0): shim_version;
            default: shim_extract;
        }
    }

    state shim_extract {
        pkt.extract(hdr.shim);
        meta.room = meta.room - (meta.need - 2);
        transition select(hdr.shim.length) {
            DIGEST_LEN - 1: shim_digest;
            default: shim_other_digest;
        }
    }

    state shim_digest {
        pkt.extract(hdr.digest);
        transition behind_shim;
    }

    state shim_other_digest {
        pkt.extract(hdr.other_digest, ((bit<32>)hdr.shim.length + 1) << 3);
        transition behind_shim;
    }

    // The second one, which a host has sent. A third is an EtherType as any.
    state behind_shim {
        meta.next_type = pkt.lookahead<bit<16>>();
        meta.fits = (bit<1>)(meta.room >= 2 + SHIM_FIXED_LEN + 1);
        transition select(meta.next_type, meta.fits) {
            (TYPE_SHIM, 1): host_shim_ahead;
            (TYPE_SHIM, 0): shim_truncated;
            default: ether_type;
        }
    }

    state host_shim_ahead {
        meta.shim_ahead = pkt.lookahead<bit<24>>();
        meta.need = 2 + SHIM_FIXED_LEN + 1 + (bit<32>)meta.shim_ahead[2:0];
        meta.fits = (bit<1>)(meta.room >= meta.need);
        meta.valid = (bit<1>)(meta.shim_ahead[7:4] == SHIM_VERSION);
        transition select(meta.fits, meta.valid) {
            (0, _): shim_truncated;
            (1, 0): shim_version;
            default: host_shim_extract;
        }
    }

    state host_shim_extract {
        pkt.extract(hdr.host_shim);
        meta.room = meta.room - (meta.need - 2);
        transition select(hdr.host_shim.length) {
            DIGEST_LEN - 1: host_shim_digest;
            default: host_shim_other_digest;
        }
    }

    state host_shim_digest {
        pkt.extract(hdr.host_digest);
        transition ether_type;
    }

    state host_shim_other_digest {
        pkt.extract(hdr.host_other_digest, ((bit<32>)hdr.host_shim.length + 1) << 3);
        transition ether_type;
    }

    state shim_truncated {
        meta.fault = FAULT_SHIM_TRUNCATED;
        transition malformed_type;
    }

    state shim_version {
        meta.fault = FAULT_SHIM_VERSION;
        transition malformed_type;
    }

    // An EtherType that announces what is not there.
    state malformed_type {
        pkt.extract(hdr.ether_type);
        meta.room = meta.room - 2;
        transition opaque;
    }

    state ether_type {
        pkt.extract(hdr.ether_type);
        meta.room = meta.room - 2;
        transition select(hdr.ether_type.value) {
            TYPE_IPV4: ipv4;
            TYPE_IPV6: ipv6;
            TYPE_ARP: arp;
            TYPE_MPLS: mpls;
            TYPE_MPLS_MULTICAST: mpls;
            default: opaque;
        }
    }

    state mpls {
        meta.flags = meta.flags | FLAG_MPLS;
        transition opaque;
    }

    state arp {
        meta.fits = (bit<1>)(meta.room >= 8);
        meta.valid = (bit<1>)(meta.room >= ARP_LEN);
        transition select(meta.fits) {
            1: arp_ahead;
            default: arp_truncated;
        }
    }

    // The rest is ours for IPv4 over Ethernet alone, whatever the operation.
    state arp_ahead {
        meta.ahead = pkt.lookahead<bit<64>>();
        transition select(meta.ahead, meta.valid) {
            (0x0001080006040000 &&& 0xffffffffffff0000, 1): arp_good;
            (0x0001080006040000 &&& 0xffffffffffff0000, 0): arp_truncated;
            default: opaque;
        }
    }

    state arp_good {
        meta.flags = meta.flags | FLAG_ARP;
        transition opaque;
    }

    state arp_truncated {
        meta.fault = FAULT_ARP_TRUNCATED;
        transition opaque;
    }

    state ipv4 {
        meta.fits = (bit<1>)(meta.room >= IPV4_LEN);
        transition select(meta.fits) {
            1: ipv4_ahead;
            default: ipv4_truncated;
        }
    }

    // The first eight bytes: version and header length, total length, fragment.
    state ipv4_ahead {
        meta.ahead = pkt.lookahead<bit<64>>();
        meta.version = meta.ahead[63:60];
        meta.ihl = meta.ahead[59:56];
        meta.need = (bit<32>)meta.ihl << 2;
        meta.inside = (bit<32>)meta.ahead[47:32];
        meta.fits = (bit<1>)(meta.inside >= meta.need && meta.inside <= meta.room);
        meta.valid = (bit<1>)(((bit<32>)meta.ahead[12:0] << 3) + meta.inside <= MAX_DATAGRAM);
        transition select(meta.version, meta.ihl, meta.fits, meta.valid) {
            (4, 0x0 &&& 0xc, _, _): ipv4_header_length;
            (4, 4, _, _): ipv4_header_length;
            (4, _, 0, _): ipv4_total_length;
            (4, _, _, 0): ipv4_fragment;
            (4, _, _, _): ipv4_extract;
            default: ipv4_version;
        }
    }

    state ipv4_truncated {
        meta.fault = FAULT_IPV4_TRUNCATED;
        transition opaque;
    }

    state ipv4_version {
        meta.fault = FAULT_IPV4_VERSION;
        transition opaque;
    }

    state ipv4_header_length {
        meta.fault = FAULT_IPV4_HEADER_LENGTH;
        transition opaque;
    }

    state ipv4_total_length {
        meta.fault = FAULT_IPV4_TOTAL_LENGTH;
        transition opaque;
    }

    state ipv4_fragment {
        meta.fault = FAULT_IPV4_FRAGMENT;
        transition opaque;
    }

    state ipv4_extract {
        pkt.extract(hdr.ipv4);
        meta.flags = meta.flags | FLAG_IPV4;
        meta.ttl = hdr.ipv4.ttl;
        meta.proto = hdr.ipv4.protocol;
        meta.inside = meta.inside - meta.need;
        transition select(hdr.ipv4.ihl) {
            5: behind_ipv4;
            default: ipv4_options;
        }
    }

    state ipv4_options {
        pkt.extract(hdr.ipv4_options, (meta.need - IPV4_LEN) << 3);
        meta.flags = meta.flags | FLAG_IP_OPTIONS;
        transition behind_ipv4;
    }

    state behind_ipv4 {
        behind_ip.apply(pkt, meta.inside, meta.behind);
        meta.transport = meta.behind;
        transition select(hdr.ipv4.offset, hdr.ipv4.more_fragments) {
            (0, 0): transport;
            (0, 1): first_fragment;
            default: later_fragment;
        }
    }

    state first_fragment {
        meta.flags = meta.flags | FLAG_FRAGMENT;
        transition transport;
    }

    state later_fragment {
        meta.flags = meta.flags | FLAG_FRAGMENT | FLAG_LATER_FRAGMENT;
        transition accept;
    }

    state ipv6 {
        meta.fits = (bit<1>)(meta.room >= IPV6_LEN);
        transition select(meta.fits) {
            1: ipv6_ahead;
            default: ipv6_truncated;
        }
    }

    state ipv6_ahead {
        meta.ahead = pkt.lookahead<bit<64>>();
        meta.version = meta.ahead[63:60];
        meta.inside = (bit<32>)meta.ahead[31:16];
        meta.fits = (bit<1>)(meta.inside + IPV6_LEN <= meta.room);
        transition select(meta.version, meta.fits) {
            (6, 1): ipv6_extract;
            (6, 0): ipv6_payload_length;
            default: ipv6_version;
        }
    }

    state ipv6_truncated {
        meta.fault = FAULT_IPV6_TRUNCATED;
        transition opaque;
    }

    state ipv6_version {
        meta.fault = FAULT_IPV6_VERSION;
        transition opaque;
    }

    state ipv6_payload_length {
        meta.fault = FAULT_IPV6_PAYLOAD_LENGTH;
        transition opaque;
    }

    state ipv6_extract {
        pkt.extract(hdr.ipv6);
        meta.flags = meta.flags | FLAG_IPV6;
        meta.ttl = hdr.ipv6.hop_limit;
        meta.proto = hdr.ipv6.next_header;
        behind_ip.apply(pkt, meta.inside, meta.behind);
        meta.transport = meta.behind;
        transition select(hdr.ipv6.next_header) {
            PROTO_HOP_BY_HOP: extension;
            PROTO_ROUTING: extension;
            PROTO_FRAGMENT: extension;
            PROTO_AH: extension;
            PROTO_DESTINATION: extension;
            PROTO_MOBILITY: extension;
            PROTO_HIP: extension;
            PROTO_SHIM6: extension;
            default: transport;
        }
    }

    // The extension header of type meta.proto is next.
    state extension {
        meta.flags = meta.flags | FLAG_IP_OPTIONS;
        meta.fits = (bit<1>)(meta.inside >= IPV6_EXT_LEN);
        transition select(meta.extensions, meta.fits) {
            (MAX_EXTENSIONS, _): extension_count;
            (_, 0): extension_fault;
            default: extension_ahead;
        }
    }

    // AH counts in units of four bytes, the fragment header has one length.
    state extension_ahead {
        meta.ahead = pkt.lookahead<bit<64>>();
        meta.extension = meta.proto;
        transition select(meta.proto) {
            PROTO_FRAGMENT: extension_of_8;
            PROTO_AH: extension_of_4s;
            default: extension_of_8s;
        }
    }

    state extension_of_8 {
        meta.need = 8;
        transition extension_length;
    }

    state extension_of_4s {
        meta.need = ((bit<32>)meta.ahead[55:48] << 2) + 8;
        transition extension_length;
    }

    state extension_of_8s {
        meta.need = ((bit<32>)meta.ahead[55:48] << 3) + 8;
        transition extension_length;
    }

    state extension_length {
        meta.fits = (bit<1>)(meta.inside >= meta.need);
        transition select(meta.fits) {
            1: extension_extract;
            default: extension_fault;
        }
    }

    state extension_extract {
        pkt.extract(hdr.ipv6_extension.next, (meta.need - IPV6_EXT_LEN) << 3);
        meta.extensions = meta.extensions + 1;
        meta.inside = meta.inside - meta.need;
        meta.proto = meta.ahead[63:56];
        meta.fragment = meta.ahead[47:32];
        meta.fits = (bit<1>)((bit<32>)(meta.fragment & 0xfff8) + meta.inside <= MAX_DATAGRAM);
        transition select(meta.extension) {
            PROTO_FRAGMENT: extension_fragment;
            default: behind_extension;
        }
    }

    // Offset and M flag; "first and last" makes no fragment.
    state extension_fragment {
        transition select(meta.fits, meta.fragment) {
            (0, _): ipv6_fragment;
            (1, 0x0000 &&& 0xfff9): behind_extension;
            (1, 0x0001 &&& 0xfff9): extension_first_fragment;
            default: later_fragment;
        }
    }

    state extension_first_fragment {
        meta.flags = meta.flags | FLAG_FRAGMENT;
        transition behind_extension;
    }

    state behind_extension {
        transition select(meta.proto) {
            PROTO_HOP_BY_HOP: extension;
            PROTO_ROUTING: extension;
            PROTO_FRAGMENT: extension;
            PROTO_AH: extension;
            PROTO_DESTINATION: extension;
            PROTO_MOBILITY: extension;
            PROTO_HIP: extension;
            PROTO_SHIM6: extension;
            default: behind_extensions;
        }
    }

    state behind_extensions {
        at_transport.apply(pkt, meta.inside, meta.transport);
        transition transport;
    }

    state extension_fault {
        meta.fault = FAULT_IPV6_EXTENSION;
        transition accept;
    }

    state extension_count {
        meta.fault = FAULT_IPV6_EXTENSION_COUNT;
        transition accept;
    }

    state ipv6_fragment {
        meta.fault = FAULT_IPV6_FRAGMENT;
        transition accept;
    }

    // The transport header of meta.proto is next, and meta.inside bytes of the IP
    // packet. A first fragment may end within it: then it has none, and no fault.
    state transport {
        transition select(meta.proto) {
            PROTO_TCP: tcp;
            PROTO_UDP: udp;
            PROTO_UDP_LITE: udp_lite;
            PROTO_ICMP: icmp;
            PROTO_ICMPV6: icmp;
            PROTO_SCTP: sctp;
            PROTO_DCCP: dccp;
            PROTO_NO_NEXT: accept;
            default: found;
        }
    }

    state found {
        meta.flags = meta.flags | FLAG_L4;
        transition accept;
    }

    state found_ports {
        meta.flags = meta.flags | FLAG_L4 | FLAG_PORTS;
        meta.src_port = meta.transport.a[63:48];
        meta.dst_port = meta.transport.a[47:32];
        transition accept;
    }

    state tcp {
        meta.fits = (bit<1>)(meta.inside >= TCP_LEN);
        transition select(meta.fits, meta.flags) {
            (1, _): tcp_extract;
            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT): accept;
            default: tcp_truncated;
        }
    }

    state tcp_extract {
        pkt.extract(hdr.tcp);
        meta.need = (bit<32>)hdr.tcp.data_offset << 2;
        meta.fits = (bit<1>)(meta.inside >= meta.need);
        meta.valid = (bit<1>)(meta.inside >= meta.need + 8);
        transition select(hdr.tcp.data_offset, meta.fits, meta.flags) {
            (0x0 &&& 0xc, _, _): tcp_data_offset;
            (4, _, _): tcp_data_offset;
            (5, 1, _): behind_tcp;
            (_, 1, _): tcp_options;
            (_, 0, FLAG_FRAGMENT &&& FLAG_FRAGMENT): accept;
            default: tcp_data_offset;
        }
    }

    state tcp_options {
        pkt.extract(hdr.tcp_options, (meta.need - TCP_LEN) << 3);
        transition behind_tcp;
    }

    state behind_tcp {
        transition select(meta.valid) {
            1: tcp_payload;
            default: found_ports;
        }
    }

    state tcp_payload {
        meta.payload = pkt.lookahead<bit<64>>();
        transition found_ports;
    }

    state tcp_truncated {
        meta.fault = FAULT_TCP_TRUNCATED;
        transition accept;
    }

    state tcp_data_offset {
        meta.fault = FAULT_TCP_DATA_OFFSET;
        transition accept;
    }

    // The length is the whole datagram's, so a fragment may have less.
    state udp {
        meta.fits = (bit<1>)(meta.inside >= UDP_LEN);
        meta.need = (bit<32>)meta.transport.a[31:16];
        meta.valid = (bit<1>)(meta.need <= meta.inside);
        transition select(meta.fits, meta.flags, meta.need, meta.valid) {
            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT, _, _): accept;
            (0, _, _, _): udp_truncated;
            (1, _, 0 &&& 0xfffffff8, _): udp_length;
            (1, _, _, 1): found_ports;
            (1, FLAG_FRAGMENT &&& FLAG_FRAGMENT, _, _): found_ports;
            default: udp_length;
        }
    }

    state udp_truncated {
        meta.fault = FAULT_UDP_TRUNCATED;
        transition accept;
    }

    state udp_length {
        meta.fault = FAULT_UDP_LENGTH;
        transition accept;
    }

    // A coverage of 0 is all.
    state udp_lite {
        meta.fits = (bit<1>)(meta.inside >= UDP_LEN);
        meta.need = (bit<32>)meta.transport.a[31:16];
        meta.valid = (bit<1>)(meta.need <= meta.inside);
        transition select(meta.fits, meta.flags, meta.need, meta.valid) {
            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT, _, _): accept;
            (0, _, _, _): udp_truncated;
            (1, _, 0, _): found_ports;
            (1, _, 0 &&& 0xfffffff8, _): udp_lite_coverage;
            (1, _, _, 1): found_ports;
            (1, FLAG_FRAGMENT &&& FLAG_FRAGMENT, _, _): found_ports;
            default: udp_lite_coverage;
        }
    }

    state udp_lite_coverage {
        meta.fault = FAULT_UDPLITE_COVERAGE;
        transition accept;
    }

    state icmp {
        meta.fits = (bit<1>)(meta.inside >= ICMP_LEN);
        transition select(meta.fits, meta.flags) {
            (1, _): found;
            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT): accept;
            default: icmp_truncated;
        }
    }

    state icmp_truncated {
        meta.fault = FAULT_ICMP_TRUNCATED;
        transition accept;
    }

    // Behind the common header of 12 bytes the payload begins.
    state sctp {
        meta.fits = (bit<1>)(meta.inside >= SCTP_LEN);
        meta.valid = (bit<1>)(meta.inside >= SCTP_LEN + 8);
        transition select(meta.fits, meta.valid, meta.flags) {
            (1, 1, _): sctp_payload;
            (1, 0, _): sctp_header;
            (0, _, FLAG_FRAGMENT &&& FLAG_FRAGMENT): accept;
            default: sctp_truncated;
        }
    }

    state sctp_payload {
        bit<160> ahead = pkt.lookahead<bit<160>>();
        meta.transport.b = ahead[95:64] ++ 32w0;
        meta.payload = ahead[63:0];
        transition found_ports;
    }

    state sctp_header {
        bit<96> ahead = pkt.lookahead<bit<96>>();
        meta.transport.b = ahead[31:0] ++ 32w0;
        transition found_ports;
    }

    state sctp_truncated {
        meta.fault = FAULT_SCTP_TRUNCATED;
        transition accept;
    }

    state dccp {
        meta.fits = (bit<1>)(meta.inside >= DCCP_LEN);
        transition select(meta.fits, meta.flags) {
            (1, _): dccp_extract;
            (0, FLAG_FRAGMENT &&& FLAG_FRAGMENT): accept;
            default: dccp_truncated;
        }
    }

    // With extended sequence numbers the least header has 16 bytes.
    state dccp_extract {
        pkt.extract(hdr.dccp);
        meta.need = (bit<32>)hdr.dccp.data_offset << 2;
        meta.fits = (bit<1>)(meta.inside >= meta.need);
        meta.valid = (bit<1>)(meta.need >= DCCP_LEN && (hdr.dccp.extended == 0 || meta.need >= DCCP_EXT_LEN));
        transition select(meta.valid, meta.fits, meta.flags) {
            (0, _, _): dccp_data_offset;
            (1, 1, _): dccp_options;
            (1, 0, FLAG_FRAGMENT &&& FLAG_FRAGMENT): accept;
            default: dccp_data_offset;
        }
    }

    state dccp_options {
        pkt.extract(hdr.dccp_options, (meta.need - DCCP_LEN) << 3);
        meta.fits = (bit<1>)(meta.inside >= meta.need + 8);
        transition select(meta.fits) {
            1: dccp_payload;
            default: found_ports;
        }
    }

    state dccp_payload {
        meta.payload = pkt.lookahead<bit<64>>();
        transition found_ports;
    }

    state dccp_truncated {
        meta.fault = FAULT_DCCP_TRUNCATED;
        transition accept;
    }

    state dccp_data_offset {
        meta.fault = FAULT_DCCP_DATA_OFFSET;
        transition accept;
    }

    // What is not IP: its first 32 bytes, or all there is.
    state opaque {
        meta.opaque = meta.room < OPAQUE_BLOCK_LEN ? (bit<8>)meta.room : OPAQUE_BLOCK_LEN;
        transition select(meta.opaque) {
            32: opaque_32;
            16 &&& 16: opaque_16;
            8 &&& 8: opaque_8;
            4 &&& 4: opaque_4;
            2 &&& 2: opaque_2;
            1: opaque_1;
            default: accept;
        }
    }

    state opaque_32 {
        pkt.extract(hdr.opaque_32);
        transition accept;
    }

    state opaque_16 {
        pkt.extract(hdr.opaque_16);
        transition select(meta.opaque) {
            8 &&& 8: opaque_8;
            4 &&& 4: opaque_4;
            2 &&& 2: opaque_2;
            1 &&& 1: opaque_1;
            default: accept;
        }
    }

    state opaque_8 {
        pkt.extract(hdr.opaque_8);
        transition select(meta.opaque) {
            4 &&& 4: opaque_4;
            2 &&& 2: opaque_2;
            1 &&& 1: opaque_1;
            default: accept;
        }
    }

    state opaque_4 {
        pkt.extract(hdr.opaque_4);
        transition select(meta.opaque) {
            2 &&& 2: opaque_2;
            1 &&& 1: opaque_1;
            default: accept;
        }
    }

    state opaque_2 {
        pkt.extract(hdr.opaque_2);
        transition select(meta.opaque) {
            1 &&& 1: opaque_1;
            default: accept;
        }
    }

    state opaque_1 {
        pkt.extract(hdr.opaque_1);
        transition accept;
    }
}

#endif
