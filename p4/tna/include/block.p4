// The messages of the packet id and of the flow key, in containers of their own, so
// that packets of all kinds are hashed by the same units: a stage has six of 16 bits,
// and IPv4, IPv6 and the rest would take two stages of them.
//
// Messages of different lengths have one place. The longest is IPv6's; a shorter one
// stands at its end, with zeros in front, but for the first eight bytes: these are
// chosen so that CRC-32 and CRC-32C are those of the short message alone. There is
// exactly one such number for each length, since the polynomials have no common
// divisor.
//
//   id     0                       32         40       48       56    64 bytes
//   IPv6   | source | dest         | f0 f1    | T1     | T2     | P   |
//   IPv4   | 24 bytes shorter | source dest | f0 f1 | T1 | T2   | P   |
//   others | 32 bytes shorter      | the first 32 bytes               |
//
//   flow   0                       32         36              38      40 bytes
//   IPv6   | source | dest         | ports    | protocol 6    | 0 0   |
//   IPv4   | 24 bytes shorter | source dest | ports | protocol 4 | 0 0 |
//   others | 24 bytes shorter | MAC addresses, dest first | type, low byte first | 0 0 |
#ifndef WEIR_TNA_BLOCK_P4
#define WEIR_TNA_BLOCK_P4

#include "headers.p4"
#include "hash.p4"

// What stands in front of a message that is 24, or 32 bytes shorter.
#define SHORTER_BY_24_HIGH 32w0x6a587ad7
#define SHORTER_BY_24_LOW 32w0x7d39d803
#define SHORTER_BY_32_HIGH 32w0x8d3f7bd4
#define SHORTER_BY_32_LOW 32w0x045f32a5

// In the order of the message, cut up as the fields of some kind of packet are; a2 to
// a5 are those of the flow, too.
struct block_t {
    bit<32> a0;
    bit<32> a1;
    bit<32> a2;
    bit<32> a3;
    bit<32> a4;
    bit<32> a5;
    bit<32> a6;
    bit<16> a7h;
    bit<16> a7l;
    bit<8> f0h; // of IPv4: the protocol, 0, identification, offset, length
    bit<8> f0m;
    bit<16> f0l;
    bit<16> f1h;
    bit<16> f1l;
    bit<16> t0h;
    bit<16> t0l;
    bit<32> t1;
    bit<32> t2;
    bit<16> t3h;
    bit<16> t3l;
    bit<32> t4;
    bit<32> t5;
}

struct flow_t {
    bit<32> a0;
    bit<32> a1;
    bit<32> a6;
    bit<16> a7h;
    bit<16> a7l;
    bit<16> src_port;
    bit<16> dst_port;
    bit<8> protocol;
    bit<8> version;
}

// The fields of messages, for the lists of Hash.
#define ID_MESSAGE(b)                                                                                   \
    { (b).a0, (b).a1, (b).a2, (b).a3, (b).a4, (b).a5, (b).a6, (b).a7h, (b).a7l,                         \
      (b).f0h, (b).f0m, (b).f0l, (b).f1h, (b).f1l,                                                      \
      (b).t0h, (b).t0l, (b).t1, (b).t2, (b).t3h, (b).t3l, (b).t4, (b).t5 }
#define FLOW_MESSAGE(b, f)                                                                              \
    { (f).a0, (f).a1, (b).a2, (b).a3, (b).a4, (b).a5, (f).a6, (f).a7h, (f).a7l,                         \
      (f).src_port, (f).dst_port, (f).protocol, (f).version, 16w0 }

// Stage 0.
control messages(in headers_t hdr, in packet_t md, out block_t block, out flow_t flow) {
    action transport() {
        block.t0h = hdr.l4.a;
        block.t0l = hdr.l4.b;
        block.t1 = hdr.l4.c;
        block.t2 = hdr.ta.a;
        block.t3h = hdr.tb.b;
        block.t3l = md.t2c;
        block.t4 = hdr.payload.a;
        block.t5 = hdr.payload.b;
    }
    action flow_shorter_by_24() {
        flow.a0 = SHORTER_BY_24_HIGH;
        flow.a1 = SHORTER_BY_24_LOW;
    }
    action no_middle() {
        block.a2 = 0;
        block.a3 = 0;
        block.a4 = 0;
        block.a5 = 0;
    }

    action of_ipv4() {
        block.a0 = SHORTER_BY_24_HIGH;
        block.a1 = SHORTER_BY_24_LOW;
        no_middle();
        block.a6 = hdr.ipv4.src;
        block.a7h = hdr.ipv4.dst[31:16];
        block.a7l = hdr.ipv4.dst[15:0];
        block.f0h = hdr.ipv4.protocol;
        block.f0m = 0;
        block.f0l = hdr.ipv4.identification;
        block.f1h = 3w0 ++ hdr.ipv4.offset;
        block.f1l = hdr.ipv4.total_length;
        transport();
        flow_shorter_by_24();
        flow.a6 = hdr.ipv4.src;
        flow.a7h = hdr.ipv4.dst[31:16];
        flow.a7l = hdr.ipv4.dst[15:0];
        flow.protocol = hdr.ipv4.protocol;
        flow.version = 4;
    }
    action whole() {
        of_ipv4();
        flow.src_port = md.src_port;
        flow.dst_port = md.dst_port;
    }
    action fragment() {
        of_ipv4();
        flow.src_port = 0;
        flow.dst_port = 0;
    }
    // Fragments have no ports in their keys.
    table fragments {
        key = {
            hdr.ipv4.more_fragments: exact;
            hdr.ipv4.offset: exact;
        }
        actions = { whole; fragment; }
        default_action = fragment();
        const entries = {
            (0, 0) : whole();
        }
        size = 1;
    }

    action of_ipv6() {
        block.a0 = hdr.ipv6.src[127:96];
        block.a1 = hdr.ipv6.src[95:64];
        block.a2 = hdr.ipv6.src[63:32];
        block.a3 = hdr.ipv6.src[31:0];
        block.a4 = hdr.ipv6.dst[127:96];
        block.a5 = hdr.ipv6.dst[95:64];
        block.a6 = hdr.ipv6.dst[63:32];
        block.a7h = hdr.ipv6.dst[31:16];
        block.a7l = hdr.ipv6.dst[15:0];
        block.f0h = hdr.ipv6.next_header;
        block.f0m = 0;
        block.f0l = 0;
        block.f1h = hdr.ipv6.payload_length;
        block.f1l = 0;
        transport();
        flow.a0 = hdr.ipv6.src[127:96];
        flow.a1 = hdr.ipv6.src[95:64];
        flow.a6 = hdr.ipv6.dst[63:32];
        flow.a7h = hdr.ipv6.dst[31:16];
        flow.a7l = hdr.ipv6.dst[15:0];
        flow.protocol = hdr.ipv6.next_header;
        flow.src_port = md.src_port;
        flow.dst_port = md.dst_port;
        flow.version = 6;
    }

    action of_other() {
        block.a0 = SHORTER_BY_32_HIGH;
        block.a1 = SHORTER_BY_32_LOW;
        no_middle();
        block.a6 = 0;
        block.a7h = 0;
        block.a7l = 0;
        block.f0h = hdr.opaque.w0[31:24];
        block.f0m = hdr.opaque.w0[23:16];
        block.f0l = hdr.opaque.w0[15:0];
        block.f1h = hdr.opaque.w1[31:16];
        block.f1l = hdr.opaque.w1[15:0];
        block.t0h = hdr.opaque.w2[31:16];
        block.t0l = hdr.opaque.w2[15:0];
        block.t1 = hdr.opaque.w3;
        block.t2 = hdr.opaque.w4;
        block.t3h = hdr.opaque.w5[31:16];
        block.t3l = hdr.opaque.w5[15:0];
        block.t4 = hdr.opaque.w6;
        block.t5 = hdr.opaque.w7;
        flow_shorter_by_24();
        flow.a6 = hdr.ethernet.dst[47:16];
        flow.a7h = hdr.ethernet.dst[15:0];
        flow.a7l = hdr.ethernet.src[47:32];
        flow.src_port = hdr.ethernet.src[31:16];
        flow.dst_port = hdr.ethernet.src[15:0];
        flow.protocol = hdr.ether_type.value[7:0];
        flow.version = hdr.ether_type.value[15:8];
    }

    apply {
        if (hdr.ipv4.isValid()) {
            fragments.apply();
        } else if (hdr.ipv6.isValid()) {
            of_ipv6();
        } else {
            of_other();
        }
    }
}

#endif
