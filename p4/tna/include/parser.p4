// The parser of all programs for Tofino. It sees what stages/parse sees, with
// these exceptions, which set md.unmeasured: no system measures such packets.
//
//   IPv4 options; IPv6 extension headers; DCCP; a second shim with a digest of
//   another length than DIGEST_LEN
//
// And it cannot compare two lengths of a packet: what IP or UDP say of lengths
// is believed, where stages/parse finds a packet malformed whose IP length exceeds the
// frame, or whose UDP length or UDP-Lite coverage exceeds IP's.
//
// A piece of the id (T1, T2, P) is extracted where the IP packet has it whole, by the IP
// length. The select expressions that decide it are written as masks: the lengths
// in question are below 128. Each case of a select takes a row of the parser's memory, of
// which ingress has 256: hence the order of cases, later ones being for what earlier ones left.
//
// A select's first case leads to what selects or extracts most behind it, also where that takes
// a case more: a compiler that loses what parsers select by (README.md) follows the
// first case alone, and the assembler takes its result only if each header is on such a way.
#ifndef WEIR_TNA_PARSER_P4
#define WEIR_TNA_PARSER_P4

#include "headers.p4"

// All bits but that in which TYPE_LEGACY_QINQ differs from TYPE_VLAN.
#define NOT_LEGACY 16w0xefff

#define VLAN_STATE(n, next)                                                            \
    state vlan##n {                                                                    \
        pkt.extract(hdr.vlan[n]);                                                      \
        transition select(pkt.lookahead<bit<16>>()) {                                  \
            TYPE_VLAN &&& NOT_LEGACY: next; /* TYPE_LEGACY_QINQ too */                 \
            TYPE_SERVICE_VLAN: next;                                                   \
            TYPE_SHIM: shim;                                                           \
            default: behind;                                                           \
        }                                                                              \
    }

// What stands in front of the EtherType.
#define LINK_STATES                                                                    \
    state link {                                                                       \
        pkt.extract(hdr.ethernet);                                                     \
        transition select(pkt.lookahead<bit<16>>()) {                                  \
            TYPE_VLAN &&& NOT_LEGACY: vlan0;                                           \
            TYPE_SERVICE_VLAN: vlan0;                                                  \
            TYPE_SHIM: shim;                                                           \
            default: behind;                                                           \
        }                                                                              \
    }                                                                                  \
    VLAN_STATE(0, vlan1)                                                               \
    VLAN_STATE(1, vlan2)                                                               \
    VLAN_STATE(2, vlan3)                                                               \
    VLAN_STATE(3, vlan4)                                                               \
    VLAN_STATE(4, vlan5)                                                               \
    VLAN_STATE(5, vlan6)                                                               \
    VLAN_STATE(6, vlan7)                                                               \
    VLAN_STATE(7, behind) /* a ninth tag is an opaque EtherType */                     \
    /* version 1, and the length of the digest, less one */                            \
    state shim {                                                                       \
        transition select(pkt.lookahead<bit<24>>()) {                                  \
            24w0x88b510 &&& 24w0xfffff0: first_shim;                                   \
            default: behind;                                                           \
        }                                                                              \
    }                                                                                  \
    state first_shim {                                                                 \
        pkt.extract(hdr.shim);                                                         \
        transition select(hdr.shim.length) {                                           \
            4 &&& 4: digest4;                                                          \
            3: digest4;                                                                \
            0: digest_end;                                                             \
            1: known_digest;                                                           \
            2: digest2;                                                                \
        }                                                                              \
    }                                                                                  \
    state known_digest {                                                               \
        pkt.extract(hdr.digest);                                                       \
        transition second_shim;                                                        \
    }                                                                                  \
    state digest4 {                                                                    \
        pkt.extract(hdr.other_digest4);                                                \
        transition select(hdr.shim.length) {                                           \
            7: digest8;                                                                \
            3: second_shim;                                                            \
            4: digest_end;                                                             \
            5: digest2_alone;                                                          \
            6: digest2;                                                                \
        }                                                                              \
    }                                                                                  \
    state digest8 {                                                                    \
        pkt.extract(hdr.other_digest8);                                                \
        transition digest2;                                                            \
    }                                                                                  \
    state digest2_alone {                                                              \
        pkt.extract(hdr.other_digest2);                                                \
        transition second_shim;                                                        \
    }                                                                                  \
    state digest2 {                                                                    \
        pkt.extract(hdr.other_digest2);                                                \
        transition digest_end;                                                         \
    }                                                                                  \
    state digest_end {                                                                 \
        pkt.extract(hdr.other_digest1);                                                \
        transition second_shim;                                                        \
    }

// n words of TCP options: they fill the last ones of the array, so that each has its place.
#define OPTIONS_STATE(n, index, next)                                                  \
    state options##n {                                                                 \
        pkt.extract(hdr.options[index]);                                               \
        transition next;                                                               \
    }

// Everything, for ingress.
parser parse_packet(packet_in pkt, out headers_t hdr, out packet_t md) {
    state start {
        md.t2c = 0;
        md.src_port = 0;
        md.dst_port = 0;
        md.unmeasured = 0;
        md.two_shims = 0;
        transition link;
    }
    LINK_STATES
    state second_shim {
        transition select(pkt.lookahead<bit<24>>()) {
            24w0x88b511 &&& 24w0xfffff7: known_host_shim;
            24w0x88b510 &&& 24w0xfffff0: other_host_shim;
            default: behind;
        }
    }
    state known_host_shim {
        md.two_shims = 1;
        pkt.extract(hdr.host_shim);
        pkt.extract(hdr.host_digest);
        transition behind;
    }
    state other_host_shim {
        md.two_shims = 1;
        md.unmeasured = 1;
        transition accept;
    }

    // The EtherType, and of IP the version, the header length and IPv4's total length.
    state behind {
        pkt.extract(hdr.ether_type);
        transition select(hdr.ether_type.value) {
            TYPE_IPV4: ipv4_length;
            TYPE_IPV6: ipv6_version;
            default: opaque;
        }
    }
    state opaque {
        pkt.extract(hdr.opaque);
        transition accept;
    }
    state unmeasured {
        md.unmeasured = 1;
        transition accept;
    }

    state ipv4_length {
        transition select(pkt.lookahead<bit<32>>()) {
            32w0x45000400 &&& 32w0xff000400: ipv4;   // long
            32w0x45000000 &&& 32w0xff00fff0: opaque; // shorter than its header
            32w0x45000010 &&& 32w0xff00fffc: opaque;
            32w0x45000014 &&& 32w0xff00fffc: ipv4_short; // no T1 in it
            32w0x45000018 &&& 32w0xff00fffc: ipv4_short;
            32w0x45000000 &&& 32w0xff000000: ipv4;
            32w0x40000000 &&& 32w0xfc000000: opaque; // a header of less than 20 bytes
            32w0x44000000 &&& 32w0xff000000: opaque;
            32w0x40000000 &&& 32w0xf0000000: ipv4_options;
            default: opaque;
        }
    }
    state ipv4_options {
        md.unmeasured = 1;
        pkt.extract(hdr.ipv4);
        transition accept;
    }
    state ipv4_short {
        pkt.extract(hdr.ipv4);
        transition accept;
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        transition select(hdr.ipv4.offset, hdr.ipv4.protocol) {
            (0, PROTO_TCP): tcp4;
            (0, PROTO_UDP): udp4;
            (0, PROTO_UDP_LITE): udp_lite4;
            (0, PROTO_ICMP): icmp4;
            (0, PROTO_ICMPV6): icmp4;
            (0, PROTO_SCTP): sctp4;
            (0, PROTO_DCCP): unmeasured;
            default: other4;
        }
    }

    // Each state below knows how long the IP packet is: n4 means the whole IPv4 packet, with
    // its header of 20 bytes. It has at least 28.
    state other4 {
        transition select(hdr.ipv4.total_length) {
            16w0x0000 &&& 16w0xffe0: t1_alone;    // below 36
            16w0x0020 &&& 16w0xfffc: t1_alone;
            16w0x0020 &&& 16w0xfff8: t1_t2;       // below 44
            16w0x0028 &&& 16w0xfffc: t1_t2;
            default: t1_t2_payload;
        }
    }
    state t1_alone {
        pkt.extract(hdr.l4);
        transition accept;
    }
    state t1_payload {
        pkt.extract(hdr.l4);
        transition payload;
    }
    state t1_t2 {
        pkt.extract(hdr.l4);
        pkt.extract(hdr.ta);
        pkt.extract(hdr.tb);
        pkt.extract(hdr.tc);
        md.t2c = hdr.tc.c;
        transition accept;
    }
    state t1_t2_payload {
        pkt.extract(hdr.l4);
        pkt.extract(hdr.ta);
        pkt.extract(hdr.tb);
        pkt.extract(hdr.tc);
        md.t2c = hdr.tc.c;
        transition payload;
    }
    state payload {
        pkt.extract(hdr.payload);
        transition accept;
    }

    state icmp4 {
        transition select(hdr.ipv4.total_length) {
            16w0x0000 &&& 16w0xffe0: t1_alone;    // below 36
            16w0x0020 &&& 16w0xfffc: t1_alone;
            default: t1_payload;
        }
    }
    state udp4 {
        transition select(hdr.ipv4.total_length, pkt.lookahead<bit<48>>()[15:0]) {
            (_, 16w0x0000 &&& 16w0xfff8): other4; // a UDP length below 8: malformed
            (16w0x0000 &&& 16w0xffe0, _): ports_alone; // below 36
            (16w0x0020 &&& 16w0xfffc, _): ports_alone;
            default: ports_payload;
        }
    }
    state udp_lite4 {
        transition select(hdr.ipv4.total_length, pkt.lookahead<bit<48>>()[15:0]) {
            (16w0x0000 &&& 16w0xffe0, 16w0x0000): ports_alone; // covers all
            (16w0x0020 &&& 16w0xfffc, 16w0x0000): ports_alone;
            (_, 16w0x0000): ports_payload;
            (_, 16w0x0000 &&& 16w0xfff8): other4; // a coverage of 1 to 7: malformed
            (16w0x0000 &&& 16w0xffe0, _): ports_alone;
            (16w0x0020 &&& 16w0xfffc, _): ports_alone;
            default: ports_payload;
        }
    }
    state ports_alone {
        pkt.extract(hdr.l4);
        md.src_port = hdr.l4.a;
        md.dst_port = hdr.l4.b;
        transition accept;
    }
    state ports_payload {
        pkt.extract(hdr.l4);
        md.src_port = hdr.l4.a;
        md.dst_port = hdr.l4.b;
        transition payload;
    }

    state sctp4 {
        transition select(hdr.ipv4.total_length) {
            16w0x0000 &&& 16w0xffe0: other4;      // below 32: malformed
            16w0x0020 &&& 16w0xfff8: sctp_alone;  // below 40
            default: sctp_payload;
        }
    }
    state sctp_alone {
        pkt.extract(hdr.l4);
        md.src_port = hdr.l4.a;
        md.dst_port = hdr.l4.b;
        pkt.extract(hdr.ta);
        transition accept;
    }
    state sctp_payload {
        pkt.extract(hdr.l4);
        md.src_port = hdr.l4.a;
        md.dst_port = hdr.l4.b;
        pkt.extract(hdr.ta);
        transition payload;
    }

    // By the length, of w words, and the data offset o, in words, which stands in byte 12: a
    // malformed header, of less than five words or more than the packet has; one with less than
    // 8 bytes behind it; one with a payload. Of IPv4, w is 5 more.
    state tcp4 {
        transition select(hdr.ipv4.total_length, pkt.lookahead<bit<104>>()[7:4]) {
            (16w0x0400 &&& 16w0x0400, 4w0x8 &&& 4w0x8): tcp; // long, with options
            (16w0x0000 &&& 16w0xffe0, _): other4;
            (16w0x0020 &&& 16w0xfff8, _): other4;
            (_, 4w0x0 &&& 4w0xc): other4;
            (_, 4w0x4): other4;
            // w is 10 or 11
            (16w0x0028 &&& 16w0xfff8, 4w0x8 &&& 4w0x8): other4;
            (16w0x0028 &&& 16w0xfff8, 4w0x7): other4;
            (16w0x0028 &&& 16w0xfffc, 4w0x6): other4;
            (16w0x0028 &&& 16w0xfff8, _): tcp_alone;
            // 12 to 15: o is above w - 5
            (16w0x0030 &&& 16w0xfff0, 4w0xc &&& 4w0xc): other4;
            (16w0x0030 &&& 16w0xfff8, 4w0xa &&& 4w0xe): other4;
            (16w0x0030 &&& 16w0xfffc, 4w0x8 &&& 4w0xe): other4;
            (16w0x0034 &&& 16w0xfffc, 4w0x9): other4;
            (16w0x0038 &&& 16w0xfffc, 4w0xa &&& 4w0xe): other4;
            (16w0x003c &&& 16w0xfffc, 4w0xb): other4;
            // o is w - 5 or w - 6
            (16w0x0030 &&& 16w0xfff8, 4w0x7): tcp_alone;
            (16w0x0030 &&& 16w0xfffc, 4w0x6): tcp_alone;
            (16w0x0034 &&& 16w0xfffc, 4w0x8): tcp_alone;
            (16w0x0038 &&& 16w0xfff8, 4w0x9): tcp_alone;
            (16w0x0038 &&& 16w0xfffc, 4w0x8): tcp_alone;
            (16w0x003c &&& 16w0xfffc, 4w0xa): tcp_alone;
            // 16 to 19, the same
            (16w0x0040 &&& 16w0xfff8, 4w0xe &&& 4w0xe): other4;
            (16w0x0040 &&& 16w0xfffc, 4w0xc &&& 4w0xe): other4;
            (16w0x0044 &&& 16w0xfffc, 4w0xd): other4;
            (16w0x0048 &&& 16w0xfffc, 4w0xe &&& 4w0xe): other4;
            (16w0x004c &&& 16w0xfffc, 4w0xf): other4;
            (16w0x0040 &&& 16w0xfff8, 4w0xb): tcp_alone;
            (16w0x0040 &&& 16w0xfffc, 4w0xa): tcp_alone;
            (16w0x0044 &&& 16w0xfffc, 4w0xc): tcp_alone;
            (16w0x0048 &&& 16w0xfff8, 4w0xd): tcp_alone;
            (16w0x0048 &&& 16w0xfffc, 4w0xc): tcp_alone;
            (16w0x004c &&& 16w0xfffc, 4w0xe): tcp_alone;
            // 20 and 21
            (16w0x0050 &&& 16w0xfff8, 4w0xf): tcp_alone;
            (16w0x0050 &&& 16w0xfffc, 4w0xe): tcp_alone;
            default: tcp;
        }
    }
    state tcp_alone {
        pkt.extract(hdr.l4);
        pkt.extract(hdr.ta);
        pkt.extract(hdr.tb);
        pkt.extract(hdr.tcp_rest);
        md.src_port = hdr.l4.a;
        md.dst_port = hdr.l4.b;
        md.t2c = hdr.tcp_rest.checksum;
        transition accept;
    }
    state tcp {
        pkt.extract(hdr.l4);
        pkt.extract(hdr.ta);
        pkt.extract(hdr.tb);
        pkt.extract(hdr.tcp_rest);
        md.src_port = hdr.l4.a;
        md.dst_port = hdr.l4.b;
        md.t2c = hdr.tcp_rest.checksum;
        transition select(hdr.tb.b[15:12]) {
            15: options10;
            14: options9;
            13: options8;
            12: options7;
            11: options6;
            10: options5;
            9: options4;
            8: options3;
            7: options2;
            6: options1;
            default: payload;
        }
    }
    OPTIONS_STATE(10, 0, options9)
    OPTIONS_STATE(9, 1, options8)
    OPTIONS_STATE(8, 2, options7)
    OPTIONS_STATE(7, 3, options6)
    OPTIONS_STATE(6, 4, options5)
    OPTIONS_STATE(5, 5, options4)
    OPTIONS_STATE(4, 6, options3)
    OPTIONS_STATE(3, 7, options2)
    OPTIONS_STATE(2, 8, options1)
    OPTIONS_STATE(1, 9, payload)

    state ipv6_version {
        transition select(pkt.lookahead<bit<4>>()) {
            6: ipv6;
            default: opaque;
        }
    }
    state ipv6 {
        pkt.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTO_TCP: tcp6;
            PROTO_UDP: udp6;
            PROTO_UDP_LITE: udp_lite6;
            PROTO_ICMP: icmp6;
            PROTO_ICMPV6: icmp6;
            PROTO_SCTP: sctp6;
            PROTO_DCCP: unmeasured;
            PROTO_HOP_BY_HOP: unmeasured;
            PROTO_ROUTING: unmeasured;
            PROTO_FRAGMENT: unmeasured;
            PROTO_AH: unmeasured;
            PROTO_DESTINATION: unmeasured;
            PROTO_MOBILITY: unmeasured;
            PROTO_HIP: unmeasured;
            PROTO_SHIM6: unmeasured;
            default: other6;
        }
    }

    // The same by IPv6's length, which does not count its header.
    state other6 {
        transition select(hdr.ipv6.payload_length) {
            16w0x0000 &&& 16w0xfff8: accept;
            16w0x0008 &&& 16w0xfff8: t1_alone;
            16w0x0010 &&& 16w0xfff8: t1_t2;
            default: t1_t2_payload;
        }
    }
    state icmp6 {
        transition select(hdr.ipv6.payload_length) {
            16w0x0000 &&& 16w0xfff8: accept;
            16w0x0008 &&& 16w0xfff8: t1_alone;
            default: t1_payload;
        }
    }
    state udp6 {
        transition select(hdr.ipv6.payload_length, pkt.lookahead<bit<48>>()[15:0]) {
            (16w0x0000 &&& 16w0xfff8, _): accept;
            (_, 16w0x0000 &&& 16w0xfff8): other6;
            (16w0x0008 &&& 16w0xfff8, _): ports_alone;
            default: ports_payload;
        }
    }
    state udp_lite6 {
        transition select(hdr.ipv6.payload_length, pkt.lookahead<bit<48>>()[15:0]) {
            (16w0x0000 &&& 16w0xfff8, _): accept;
            (16w0x0008 &&& 16w0xfff8, 16w0x0000): ports_alone;
            (_, 16w0x0000): ports_payload;
            (_, 16w0x0000 &&& 16w0xfff8): other6;
            (16w0x0008 &&& 16w0xfff8, _): ports_alone;
            default: ports_payload;
        }
    }
    state sctp6 {
        transition select(hdr.ipv6.payload_length) {
            16w0x0000 &&& 16w0xfff8: other6;
            16w0x0008 &&& 16w0xfffc: other6;
            16w0x000c &&& 16w0xfffc: sctp_alone;
            16w0x0010 &&& 16w0xfffc: sctp_alone;
            default: sctp_payload;
        }
    }
    // o is above w where it has a one in the first bit in which they differ. It is w or
    // w - 1 where it is not above and they differ in the last bit at most, and where it is odd and w the next.
    state tcp6 {
        transition select(hdr.ipv6.payload_length, pkt.lookahead<bit<104>>()[7:4]) {
            (_, 4w0x0 &&& 4w0xc): other6;
            (_, 4w0x4): other6;
            (16w0x0000 &&& 16w0xffe0, 4w0x8 &&& 4w0x8): other6;
            (16w0x0000 &&& 16w0xfff0, 4w0x4 &&& 4w0xc): other6;
            (16w0x0020 &&& 16w0xfff0, 4w0xc &&& 4w0xc): other6;
            (16w0x0010 &&& 16w0xfff8, 4w0x6 &&& 4w0xe): other6;
            (16w0x0020 &&& 16w0xfff8, 4w0xa &&& 4w0xe): other6;
            (16w0x0030 &&& 16w0xfff8, 4w0xe &&& 4w0xe): other6;
            (16w0x0010 &&& 16w0xfffc, 4w0x5): other6;
            (16w0x0018 &&& 16w0xfffc, 4w0x7): other6;
            (16w0x0020 &&& 16w0xfffc, 4w0x9): other6;
            (16w0x0028 &&& 16w0xfffc, 4w0xb): other6;
            (16w0x0030 &&& 16w0xfffc, 4w0xd): other6;
            (16w0x0038 &&& 16w0xfffc, 4w0xf): other6;
            (16w0x0010 &&& 16w0xfff8, 4w0x4 &&& 4w0xe): tcp_alone;
            (16w0x0018 &&& 16w0xfff8, 4w0x6 &&& 4w0xe): tcp_alone;
            (16w0x0020 &&& 16w0xfff8, 4w0x8 &&& 4w0xe): tcp_alone;
            (16w0x0028 &&& 16w0xfff8, 4w0xa &&& 4w0xe): tcp_alone;
            (16w0x0030 &&& 16w0xfff8, 4w0xc &&& 4w0xe): tcp_alone;
            (16w0x0038 &&& 16w0xfff8, 4w0xe &&& 4w0xe): tcp_alone;
            (16w0x0018 &&& 16w0xfffc, 4w0x5): tcp_alone;
            (16w0x0020 &&& 16w0xfffc, 4w0x7): tcp_alone;
            (16w0x0028 &&& 16w0xfffc, 4w0x9): tcp_alone;
            (16w0x0030 &&& 16w0xfffc, 4w0xb): tcp_alone;
            (16w0x0038 &&& 16w0xfffc, 4w0xd): tcp_alone;
            (16w0x0040 &&& 16w0xfffc, 4w0xf): tcp_alone;
            default: tcp;
        }
    }
}

#endif
