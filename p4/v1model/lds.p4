// The Lossy Difference Sketch (stages/lds): a port is a measurement point, on the side
// where packets arrive (lds_ingress) and on the one where they leave (lds_egress). Each
// IP packet adds to one cell in each row that samples it; two points that see the same
// packets are subtracted. A row samples at a rate of its own (banks), a flow's packets
// spread over some cells of a row (virtual), and flows that a policy names count more
// than once (weight): a cell's count and sum take so many times the packet.
//
// Cells are never reset: they wrap, and the control plane takes differences. Intervals
// have the bank of their parity; one is read when no more packets of it can come: behind
// its end, and with the interval bit behind half of the next.
//
// Tables, of either side:
//
//   point    meta.in_port or meta.out_port: exact -> set_point(point_number)   below 2^LDS_POINT_BITS
//   shape    no key -> set_shape(log_interval, by_shim, row_cells, flow_cells)
//            by_shim 1: a shim's bit tells the interval; a row has row_cells cells, a flow flow_cells of them
//   weights  p.ipv4, p.src, p.dst, p.proto, p.src_port, p.dst_port: ternary -> set_weight(times)
//            addresses of IPv4 are in the first 32 bits; the first entry that matches decides, and other flows count once
//   rates    no key -> set_rates(limit_0, limit_1, limit_2, limit_3)
//            by row: the most that the low 32 bits of flow_cells times 32 bits of a packet's hash may be for it to
//            be sampled: rate * 2^32, rounded down, less 1. Until set, all are.
//   keys     no key -> set_keys(of_flow_0, of_flow_1, of_packet_0, of_packet_1, of_name)
//            keys of the seeds of the rows 0 and 1 (flowSeed), 2 and 3 (flowSeed+1), of packets there
//            (packetSeed, of digests too, and packetSeed+1), each added to Config.Seed, and of 0, under which flow keys
//            are hashed
//
// Registers, of either side, all written here:
//
//   cell_sum, cell_count, cell_digest, cell_bytes   lds.Cell by point << (1+LDS_ROW_BITS+LDS_COLUMN_BITS)
//             | bank << (LDS_ROW_BITS+LDS_COLUMN_BITS) | row << LDS_COLUMN_BITS | column; 64 bits, of which sum
//             (two's complement) and digest are in halves, cell_sum_high and cell_sum_low and so on,
//             as BMv2's runtime tells no number from 2^63 on
//   packets, outside   64 bits   point << 1 | bank: Point.Packets, Point.Outside
//   measured, skipped, by_bit, timed, waited   1 x 64 bits   counters of the stage
#ifndef WEIR_LDS_P4
#define WEIR_LDS_P4

#include "packet.p4"
#include "hash.p4"
#include "../include/telemetry.p4"
#include "registers.p4"

#define LDS_CELLS (1 << (LDS_POINT_BITS + 1 + LDS_ROW_BITS + LDS_COLUMN_BITS))
#define LDS_BANKS (1 << (LDS_POINT_BITS + 1))

// A row's 32 bits of the flow's and of the packet's hash lead to a cell (lds.Point): the high half of the
// packet's times virtual is the flow's cell, the low half a fraction of 1, which the row samples up to a limit.
#define ADD_SAMPLED(row, of_flow, of_packet, most) {                    \
        bit<64> spread_ = (bit<64>)of_packet * (bit<64>)virtual;        \
        bit<64> first_ = (bit<64>)of_flow * (bit<64>)columns;           \
        if (spread_[31:0] <= most) {                                    \
            bit<32> column_ = first_[63:32] + spread_[63:32];           \
            if (column_ >= columns) {                                   \
                column_ = column_ - columns;                            \
            }                                                           \
            add_cell(row, column_, bank, t, d);                         \
        }                                                               \
    }

// What a side is told of a packet: its port and time there, and the interval bit of its
// outermost shim, if it has one.
struct lds_packet_t {
    port_t port;
    time_t at;
    time_t arrival;
    time_t now;
    flags_t flags;
    bit<32> length;
    bit<1> marked;
    bit<1> odd;
    // By which flows have weights.
    bit<1> ipv4;
    bit<128> src;
    bit<128> dst;
    bit<8> proto;
    bit<16> src_port;
    bit<16> dst_port;
}

control lds_side(in lds_packet_t p, in word_message_t id_message, in message_t flow_message) {
    register<bit<32>>(LDS_CELLS) cell_sum_high;
    register<bit<32>>(LDS_CELLS) cell_sum_low;
    register<bit<64>>(LDS_CELLS) cell_count;
    register<bit<32>>(LDS_CELLS) cell_digest_high;
    register<bit<32>>(LDS_CELLS) cell_digest_low;
    register<bit<64>>(LDS_CELLS) cell_bytes;
    register<bit<64>>(LDS_BANKS) packets;
    register<bit<64>>(LDS_BANKS) outside;
    register<bit<64>>(1) measured;
    register<bit<64>>(1) skipped;
    register<bit<64>>(1) by_bit;
    register<bit<64>>(1) timed;
    register<bit<64>>(1) waited;

    bit<8> interval_bits = 0;
    bit<1> interval_bit = 0;
    bit<32> columns = 0;
    bit<32> virtual = 0;
    bit<64> weight = 1;
    bit<32> most_0 = 0xffffffff;
    bit<32> most_1 = 0xffffffff;
    bit<32> most_2 = 0xffffffff;
    bit<32> most_3 = 0xffffffff;
    bit<32> number = 0;
    hash_key_t flow_0 = 0;
    hash_key_t flow_1 = 0;
    hash_key_t packet_0 = 0;
    hash_key_t packet_1 = 0;
    hash_key_t name = 0;
    message_hash() hash_name;
    word_hash() hash_flow_0;
    word_hash() hash_flow_1;
    word_hash() hash_packet_0;
    word_hash() hash_packet_1;

    action set_point(bit<8> point_number) {
        number = (bit<32>)point_number;
    }
    table point {
        key = { p.port : exact; }
        actions = { set_point; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    action set_shape(bit<8> log_interval, bit<1> by_shim, bit<32> row_cells, bit<32> flow_cells) {
        interval_bits = log_interval;
        interval_bit = by_shim;
        columns = row_cells;
        virtual = flow_cells;
    }
    table shape {
        actions = { set_shape; NoAction; }
        default_action = NoAction();
    }

    action set_weight(bit<16> times) {
        weight = (bit<64>)times;
    }
    table weights {
        key = {
            p.ipv4 : ternary;
            p.src : ternary;
            p.dst : ternary;
            p.proto : ternary;
            p.src_port : ternary;
            p.dst_port : ternary;
        }
        actions = { set_weight; NoAction; }
        default_action = NoAction();
        size = LDS_WEIGHTS;
    }

    action set_rates(bit<32> limit_0, bit<32> limit_1, bit<32> limit_2, bit<32> limit_3) {
        most_0 = limit_0;
        most_1 = limit_1;
        most_2 = limit_2;
        most_3 = limit_3;
    }
    table rates {
        actions = { set_rates; NoAction; }
        default_action = NoAction();
    }

    action set_keys(hash_key_t of_flow_0, hash_key_t of_flow_1, hash_key_t of_packet_0, hash_key_t of_packet_1, hash_key_t of_name) {
        flow_0 = of_flow_0;
        flow_1 = of_flow_1;
        packet_0 = of_packet_0;
        packet_1 = of_packet_1;
        name = of_name;
    }
    table keys {
        actions = { set_keys; NoAction; }
        default_action = NoAction();
    }

    action add_cell(in bit<32> row, in bit<32> column, in bit<32> bank, in bit<64> t, in hash_t d) {
        bit<32> cell = (((bank << LDS_ROW_BITS) | row) << LDS_COLUMN_BITS) | column;
        ADD_HALVES(cell_sum_high, cell_sum_low, cell, t * weight)
        ADD(cell_count, cell, weight)
        ADD_HALVES(cell_digest_high, cell_digest_low, cell, d.a ++ d.b)
        ADD(cell_bytes, cell, (bit<64>)p.length)
    }

    apply {
        if (point.apply().hit) {
            if ((p.flags & FLAG_IP) == 0) {
                ADD(skipped, 0, 1)
            } else {
                shape.apply();
                keys.apply();

                // By the clock, the interval is that of now; by a shim's bit, the nearest to the
                // time at which it arrives, or leaves, that has its parity, at most one away.
                bit<64> slice = p.now >> interval_bits;
                bit<64> interval = slice;
                if (interval_bit == 1 && p.marked == 1) {
                    bit<64> told = p.at >> interval_bits;
                    if (told[0:0] != p.odd) {
                        bit<64> half = p.at >> (interval_bits - 1);
                        if (half[0:0] == 0) {
                            told = told - 1;
                        } else {
                            told = told + 1;
                        }
                    }
                    if (told > slice) {
                        interval = slice + 1;
                    } else if (told < slice) {
                        interval = slice - 1;
                    }
                    ADD(by_bit, 0, 1)
                }
                ADD(measured, 0, 1)
                if (p.arrival != p.now) {
                    ADD(timed, 0, 1)
                }
                ADD(waited, 0, p.at - p.arrival)

                // Relative to the interval's beginning, in two's complement.
                bit<64> t = p.at - (interval << interval_bits);
                bit<64> slack = 64w1 << (interval_bits - 1);
                bit<32> bank = (number << 1) | (bit<32>)interval[0:0];
                if (t + slack >= 64w2 << interval_bits) {
                    ADD(outside, bank, 1)
                } else {
                    ADD(packets, bank, 1)
                    hash_t h;
                    hash_t d;
                    hash_t d_1;
                    word_message_t flow;
                    rates.apply();
                    weights.apply();
                    hash_packet_0.apply(d, id_message, packet_0);
                    hash_packet_1.apply(d_1, id_message, packet_1);
                    hash_name.apply(h, flow_message, name);
                    bit<64> number_of_flow = h.a ++ h.b;
                    FIRST_ROUND_WORD(flow, NUMBER(number_of_flow));
                    hash_flow_0.apply(h, flow, flow_0);
                    ADD_SAMPLED(0, h.a, d.a, most_0)
                    ADD_SAMPLED(1, h.b, d.b, most_1)
                    hash_flow_1.apply(h, flow, flow_1);
                    ADD_SAMPLED(2, h.a, d_1.a, most_2)
                    ADD_SAMPLED(3, h.b, d_1.b, most_3)
                }
            }
        }
    }
}

#define LDS_TELL(p, at_port, at_time)                   \
    p.port = at_port;                                   \
    p.at = at_time;                                     \
    p.arrival = meta.arrival;                           \
    p.now = meta.now;                                   \
    p.flags = meta.flags;                               \
    p.length = meta.length;                             \
    p.marked = hdr.shim.isValid() ? 1w1 : 1w0;          \
    p.odd = hdr.shim.isValid() ? hdr.shim.interval : 1w0;                      \
    p.ipv4 = hdr.ipv4.isValid() ? 1w1 : 1w0;                                   \
    p.src = hdr.ipv4.isValid() ? hdr.ipv4.src ++ 96w0 : hdr.ipv6.src;          \
    p.dst = hdr.ipv4.isValid() ? hdr.ipv4.dst ++ 96w0 : hdr.ipv6.dst;          \
    p.proto = meta.proto;                                                      \
    p.src_port = meta.src_port;                                                \
    p.dst_port = meta.dst_port

control lds_ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    lds_side() side;
    lds_packet_t p;
    apply {
        if (meta.reason == NO_REASON) {
            LDS_TELL(p, meta.in_port, meta.arrival);
            side.apply(p, meta.id_message, meta.flow_message);
        }
    }
}

control lds_egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    lds_side() side;
    lds_packet_t p;
    apply {
        if (meta.reason == NO_REASON) {
            LDS_TELL(p, meta.out_port, meta.now);
            if (p.arrival > p.at) {
                p.at = p.arrival; // a replayed packet may arrive behind the clock
            }
            side.apply(p, meta.id_message, meta.flow_message);
        }
    }
}

#endif
