// The first rounds of the packet id and of the flow key from the fields where they
// stand, for weir.p4, which has more stages to spare than containers: block.p4 copies them to one place
// for packets of all kinds. Each kind has its own CRCs, which take the units of four stages.
//
//   id     IPv6    | source | dest | f0 f1 | T1 | T2 | P |    64 bytes
//          IPv4    | source dest   | f0 f1 | T1 | T2 | P |    40
//          others  | the first 32 bytes |
//   flow   IPv6    | source | dest | ports | protocol 6 | 0 0 |
//          IPv4    | source dest   | ports | protocol 4 | 0 0 |
//          others  | MAC addresses, dest first | type, low byte first | 0 0 |
#ifndef WEIR_TNA_SUMS_P4
#define WEIR_TNA_SUMS_P4

#include "headers.p4"
#include "hash.p4"

// T1, T2 and P.
#define TRANSPORT hdr.l4.a, hdr.l4.b, hdr.l4.c, hdr.ta.a, hdr.tb.b, md.t2c, hdr.payload.a, hdr.payload.b
#define ID_OF_IPV4                                                                          \
    { hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, 8w0, hdr.ipv4.identification,          \
      3w0, hdr.ipv4.offset, hdr.ipv4.total_length, TRANSPORT }
#define ID_OF_IPV6                                                                          \
    { hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, 24w0, hdr.ipv6.payload_length, 16w0, TRANSPORT }
#define ID_OF_OTHER                                                                         \
    { hdr.opaque.w0, hdr.opaque.w1, hdr.opaque.w2, hdr.opaque.w3,                           \
      hdr.opaque.w4, hdr.opaque.w5, hdr.opaque.w6, hdr.opaque.w7 }
#define FLOW_OF_IPV4                                                                        \
    { hdr.ipv4.src, hdr.ipv4.dst, md.src_port, md.dst_port, hdr.ipv4.protocol, 8w4, 16w0 }
#define FLOW_OF_IPV6                                                                        \
    { hdr.ipv6.src, hdr.ipv6.dst, md.src_port, md.dst_port, hdr.ipv6.next_header, 8w6, 16w0 }
#define FLOW_OF_OTHER                                                                       \
    { hdr.ethernet.dst, hdr.ethernet.src, hdr.ether_type.value[7:0], hdr.ether_type.value[15:8], 16w0 }

control packet_id(in headers_t hdr, in packet_t md, out bit<32> high, out bit<32> low) {
    CRC32_OF(p4);
    CRC32C_OF(q4);
    CRC32_OF(p6);
    CRC32C_OF(q6);
    CRC32_OF(p_other);
    CRC32C_OF(q_other);
    CRC32_OF(p_id);
    CRC32C_OF(q_id);
    bit<32> u;
    bit<32> v;

    // hash.Key of the parser's seed.
    action set_key(bit<32> key_p, bit<32> key_q) {
        u = key_p;
        v = key_q;
    }
    table id_key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }
    action first_p4() {
        u = u + p4.get(ID_OF_IPV4);
    }
    action first_q4() {
        v = v + q4.get(ID_OF_IPV4);
    }
    action first_p6() {
        u = u + p6.get(ID_OF_IPV6);
    }
    action first_q6() {
        v = v + q6.get(ID_OF_IPV6);
    }
    action first_p_other() {
        u = u + p_other.get(ID_OF_OTHER);
    }
    action first_q_other() {
        v = v + q_other.get(ID_OF_OTHER);
    }
    action mix() {
        u = u + v;
    }
    action second_high() {
        high = p_id.get({ u, v });
    }
    action second_low() {
        low = q_id.get({ u, v });
    }
    apply {
        id_key.apply();
        if (hdr.ipv4.isValid()) {
            first_p4();
            first_q4();
        } else if (hdr.ipv6.isValid()) {
            first_p6();
            first_q6();
        } else {
            first_p_other();
            first_q_other();
        }
        mix();
        second_high();
        second_low();
    }
}

control flow_crcs(in headers_t hdr, inout packet_t md, out bit<32> p, out bit<32> q) {
    CRC32_OF(p4);
    CRC32C_OF(q4);
    CRC32_OF(p6);
    CRC32C_OF(q6);
    CRC32_OF(p_other);
    CRC32C_OF(q_other);

    // Fragments have no ports in their keys; the parser saw those of the first one.
    action no_ports() {
        md.src_port = 0;
        md.dst_port = 0;
    }
    action crc_p4() {
        p = p4.get(FLOW_OF_IPV4);
    }
    action crc_q4() {
        q = q4.get(FLOW_OF_IPV4);
    }
    action crc_p6() {
        p = p6.get(FLOW_OF_IPV6);
    }
    action crc_q6() {
        q = q6.get(FLOW_OF_IPV6);
    }
    action crc_p_other() {
        p = p_other.get(FLOW_OF_OTHER);
    }
    action crc_q_other() {
        q = q_other.get(FLOW_OF_OTHER);
    }
    apply {
        if (hdr.ipv4.isValid()) {
            if (hdr.ipv4.more_fragments == 1) {
                no_ports();
            }
            crc_p4();
            crc_q4();
        } else if (hdr.ipv6.isValid()) {
            crc_p6();
            crc_q6();
        } else {
            crc_p_other();
            crc_q_other();
        }
    }
}

#endif
