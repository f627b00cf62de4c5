// The packet id: the hash of packet.IDBlock under the seed of stages/parse. Both
// rounds are made in three stages, with as many CRCs in each as it can bring to containers:
//
//   stage 0             1                        2
//   u, v = key          u, v += p, q (IPv4)      id = CRCs of u, v
//   p, q = CRCs (IPv4)  u, v += CRCs (IPv6)
//   p = CRC (others)    u += p, v += CRC (others)
//
// The identification counts always: carrier ipid is not for Tofino.
#ifndef WEIR_TNA_ID_P4
#define WEIR_TNA_ID_P4

#include "headers.p4"
#include "hash.p4"

control packet_id(in headers_t hdr, inout packet_t md) {
    CRC32_OF(p4);
    CRC32C_OF(q4);
    CRC32_OF(p6);
    CRC32C_OF(q6);
    CRC32_OF(p_opaque);
    CRC32C_OF(q_opaque);
    CRC32_OF(p_id);
    CRC32C_OF(q_id);
    bit<32> p;
    bit<32> q;

    // hash.Key of the parser's seed.
    action set_key(bit<32> key_p, bit<32> key_q) {
        md.u = key_p;
        md.v = key_q;
    }
    table id_key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }

    action crcs4() {
        p = p4.get({ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, 8w0, hdr.ipv4.identification,
            3w0, hdr.ipv4.offset, hdr.ipv4.total_length, hdr.l4.a, hdr.l4.b, hdr.l4.c,
            hdr.ta.a, hdr.tb.b, md.t2c, hdr.payload.a, hdr.payload.b });
        q = q4.get({ hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, 8w0, hdr.ipv4.identification,
            3w0, hdr.ipv4.offset, hdr.ipv4.total_length, hdr.l4.a, hdr.l4.b, hdr.l4.c,
            hdr.ta.a, hdr.tb.b, md.t2c, hdr.payload.a, hdr.payload.b });
    }
    action first4() {
        md.u = md.u + p;
        md.v = md.v + q;
    }
    action first6() {
        md.u = md.u + p6.get({ hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, 24w0,
            hdr.ipv6.payload_length, 16w0, hdr.l4.a, hdr.l4.b, hdr.l4.c,
            hdr.ta.a, hdr.tb.b, md.t2c, hdr.payload.a, hdr.payload.b });
        md.v = md.v + q6.get({ hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, 24w0,
            hdr.ipv6.payload_length, 16w0, hdr.l4.a, hdr.l4.b, hdr.l4.c,
            hdr.ta.a, hdr.tb.b, md.t2c, hdr.payload.a, hdr.payload.b });
    }
    action crc_opaque() {
        p = p_opaque.get({ hdr.opaque.w0, hdr.opaque.w1, hdr.opaque.w2, hdr.opaque.w3,
            hdr.opaque.w4, hdr.opaque.w5, hdr.opaque.w6, hdr.opaque.w7 });
    }
    action first_opaque() {
        md.u = md.u + p;
        md.v = md.v + q_opaque.get({ hdr.opaque.w0, hdr.opaque.w1, hdr.opaque.w2, hdr.opaque.w3,
            hdr.opaque.w4, hdr.opaque.w5, hdr.opaque.w6, hdr.opaque.w7 });
    }

    action second() {
        md.id_high = p_id.get({ md.u, md.v });
        md.id_low = q_id.get({ md.u, md.v });
    }

    apply {
        id_key.apply();
        if (hdr.ipv4.isValid()) {
            crcs4();
            first4();
        } else if (hdr.ipv6.isValid()) {
            first6();
        } else {
            crc_opaque();
            first_opaque();
        }
        second();
    }
}

#endif
