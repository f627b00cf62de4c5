// The twin of stages/lds with virtual = 1: the measurement points of either side of a
// switch.
//
//   ingress  flow key, packet id ─> columns; u, v of the digest's hash ─> samples ─> rows ─ bridge ┐
//   egress   ┌─────────────────────────────────────────────────────────────────────────────────────┘
//            └> interval by the departure, and the shim's bit ─> rows
//
// A stateful ALU has two words of 32 bits, and cannot add a carry to a second operand.
// So a cell's sums of 64 bits are kept as what can be had of them exactly, and are never
// reset: the control plane makes the cell of an interval (lds.Cell) from what these
// changed by, all modulo 2^64 but where it says 2^32:
//
//   times    -T, where T = sum of x, x = time in the interval + I/2, 0 <= x < 2I
//   bytes    -B, where B = sum of lengths
//   digests  -L, where L = sum of the digests' low halves
//   counts   H = sum of the digests' high halves, N = packets, both modulo 2^32
//
//   Count = N, Sum = T - N*I/2, Bytes = B, Digest = L + H*2^32
//
// These sums go down since an ALU can compare what it subtracts with what it has, and so
// sees the borrow. The operand stands on the left of the comparison, because the compiler
// forgets to negate a hash on the right. N is exact as a cell takes fewer than 2^32 packets in an interval.
//
// Banks: interval i counts in bank i mod 2. Bank i is complete half an interval behind
// the end of i, and the first packet of i+2 may come at that time, too, as the shim's
// bit allows for half an interval: packets that come more than a quarter late or early
// need the bank to be read in less than it takes to be exact.
//
// Rates (banks): row 0 counts the packets whose digest's high half is at most the register
// limit0, row 1 those whose low half is at most limit1. The control plane writes rate * 2^32 - 1, rounded
// down, to them before the first packet, the same at all points that are compared; a rate of
// 1 is 0xffffffff, which they begin with. Where a packet arrives it is decided for both sides.
// The counters packets have all packets (Point.Packets), whatever rows sample.
#ifndef WEIR_TNA_LDS_CONTROL_P4
#define WEIR_TNA_LDS_CONTROL_P4

#include "../../include/telemetry.p4"
#include "headers.p4"
#include "hash.p4"
#include "linear.p4"

// Intervals of 2^LDS_INTERVAL_BITS ns (interval_bits), 20 to 30 on this target.
#ifndef LDS_INTERVAL_BITS
#define LDS_INTERVAL_BITS 30
#endif
// Points of a side, and cells of a row. A register of 2^14 cells takes 9 of the 48 map
// RAMs of a stage, which has four of them.
#ifndef TNA_LDS_POINT_BITS
#define TNA_LDS_POINT_BITS 2
#endif
#ifndef TNA_LDS_COLUMN_BITS
#define TNA_LDS_COLUMN_BITS 11
#endif
#define LDS_CELL_BITS (TNA_LDS_POINT_BITS + 1 + TNA_LDS_COLUMN_BITS)
#define LDS_COLUMN_OF(hash) hash[31:32 - TNA_LDS_COLUMN_BITS]

typedef bit<TNA_LDS_POINT_BITS> lds_point_t;
typedef bit<TNA_LDS_COLUMN_BITS> lds_column_t;
typedef bit<LDS_CELL_BITS> lds_cell_t;

struct lds_sum_t {
    bit<32> low;
    bit<32> high;
}

struct lds_count_t {
    bit<32> digests;
    bit<32> packets;
}

// A program may say by these in which stages (@stage) packets are counted, as the counters'
// indices take units of hashes where they would come by themselves.
#ifndef LDS_ARRIVALS_STAGE
#define LDS_ARRIVALS_STAGE
#endif
#ifndef LDS_DEPARTURES_STAGE
#define LDS_DEPARTURES_STAGE
#endif

// What the egress points need to know of a packet, in front of it in between.
header lds_t {
    @flexible bit<1> measured; // it has a flow key
    @flexible bit<1> marked;   // by a shim
    @flexible bit<1> odd;      // the shim's bit
    @flexible bit<16> length;  // WireLen
    @flexible lds_column_t column0;
    @flexible lds_column_t column1;
    @flexible bit<1> sampled0; // by row 0
    @flexible bit<1> sampled1;
}

// One row of cells, in two halves: times and lengths of its packets, which are known
// stages before their digests.
control lds_lengths(in lds_point_t point, in bit<1> bank, in lds_column_t column, in bit<32> x, in bit<16> bytes_of) {
    Register<lds_sum_t, lds_cell_t>(1 << LDS_CELL_BITS) times;
    RegisterAction<lds_sum_t, lds_cell_t, bit<32>>(times) add_time = {
        void apply(inout lds_sum_t sum) {
            if (x > sum.low) {
                sum.high = sum.high - 1;
            }
            sum.low = sum.low - x;
        }
    };
    Register<lds_sum_t, lds_cell_t>(1 << LDS_CELL_BITS) bytes;
    RegisterAction<lds_sum_t, lds_cell_t, bit<32>>(bytes) add_length = {
        void apply(inout lds_sum_t sum) {
            if ((bit<32>)bytes_of > sum.low) {
                sum.high = sum.high - 1;
            }
            sum.low = sum.low - (bit<32>)bytes_of;
        }
    };

    action time() {
        add_time.execute(point ++ bank ++ column);
    }
    action length() {
        add_length.execute(point ++ bank ++ column);
    }
    apply {
        time();
        length();
    }
}

// u and v are of the digest's hash.
control lds_digests(in lds_point_t point, in bit<1> bank, in lds_column_t column, in bit<32> u, in bit<32> v,
                    in bit<32> before_high, in bit<32> before_low) {
    LINEAR_CRC32_OF(digest_high);
    LINEAR_CRC32C_OF(digest_low);
    bit<32> high;
    bit<32> low;

    Register<lds_sum_t, lds_cell_t>(1 << LDS_CELL_BITS) digests;
    RegisterAction<lds_sum_t, lds_cell_t, bit<32>>(digests) add_digest = {
        void apply(inout lds_sum_t sum) {
            if (low > sum.low) {
                sum.high = sum.high - 1;
            }
            sum.low = sum.low - low;
        }
    };
    Register<lds_count_t, lds_cell_t>(1 << LDS_CELL_BITS) counts;
    RegisterAction<lds_count_t, lds_cell_t, bit<32>>(counts) add_packet = {
        void apply(inout lds_count_t count) {
            count.digests = count.digests + high;
            count.packets = count.packets + 1;
        }
    };

    action digest() {
        low = digest_low.get({ before_low, u, v });
        add_digest.execute(point ++ bank ++ column);
    }
    action count() {
        high = digest_high.get({ before_high, u, v });
        add_packet.execute(point ++ bank ++ column);
    }
    apply {
        digest();
        count();
    }
}

// The port's point.
control lds_points(in PortId_t port, out lds_point_t point, out bit<1> measured) {
    action set_point(lds_point_t point_number) {
        point = point_number;
        measured = 1;
    }
    action pass() {
        point = 0;
        measured = 0;
    }
    table points {
        key = { port: exact; }
        actions = { set_point; pass; }
        default_action = pass();
        size = 1 << TNA_LDS_POINT_BITS;
    }
    apply {
        points.apply();
    }
}

// The time of a packet + I/2: the control plane adds I/2 to the offset of the clock. So
// its highest bits are an interval, and x is what is left of it, or that + I. Beside, what
// stands in front of the digest's messages.
control lds_clock(in bit<48> timestamp, out bit<32> x, out bit<32> before_high, out bit<32> before_low) {
    action shift(bit<32> offset) {
        x = timestamp[31:0] + offset;
        before_high = IN_FRONT_OF_CRC32;
        before_low = IN_FRONT_OF_CRC32C;
    }
    table clock {
        actions = { shift; }
        default_action = shift(0);
        size = 1;
    }
    apply {
        clock.apply();
    }
}

// The number of the interval of x modulo 4, whether x is in its second half, and what
// is put in place of the number.
#define LDS_NUMBER(x) x[LDS_INTERVAL_BITS + 1:LDS_INTERVAL_BITS]
#define LDS_HALF(x) x[LDS_INTERVAL_BITS - 1:LDS_INTERVAL_BITS - 1]
#define LDS_LATE(x) x[31:LDS_INTERVAL_BITS]
typedef bit<(32 - LDS_INTERVAL_BITS)> lds_late_t;

// The bank of x, and the time in its interval: by the clock, or by the bit the nearest interval of its parity.
control lds_interval(inout bit<32> x, in bit<1> marked, in bit<1> odd, out bit<1> bank) {
    action in_bank(bit<1> parity, lds_late_t late) {
        bank = parity;
        LDS_LATE(x) = late;
    }
    table interval {
        key = {
            marked : exact @name("marked");
            odd : ternary @name("odd");
            LDS_NUMBER(x) : exact @name("number");
            LDS_HALF(x) : ternary @name("half");
        }
        actions = { in_bank; }
        default_action = in_bank(0, 0);
        const entries = {
            // By the clock: x is half an interval ahead.
            (0, _, 0, 0) : in_bank(1, 1);
            (0, _, 1, 0) : in_bank(0, 1);
            (0, _, 2, 0) : in_bank(1, 1);
            (0, _, 3, 0) : in_bank(0, 1);
            (0, _, 0, 1) : in_bank(0, 0);
            (0, _, 1, 1) : in_bank(1, 0);
            (0, _, 2, 1) : in_bank(0, 0);
            (0, _, 3, 1) : in_bank(1, 0);
            // By the bit.
            (1, 0, 0, _) : in_bank(0, 0);
            (1, 0, 1, _) : in_bank(0, 1);
            (1, 0, 2, _) : in_bank(0, 0);
            (1, 0, 3, _) : in_bank(0, 1);
            (1, 1, 0, _) : in_bank(1, 1);
            (1, 1, 1, _) : in_bank(1, 0);
            (1, 1, 2, _) : in_bank(1, 1);
            (1, 1, 3, _) : in_bank(1, 0);
        }
        size = 16;
    }
    apply {
        interval.apply();
    }
}

// WireLen by what IP says, from the link header on: packets are padded to 60 bytes.
#define LDS_LINK(v0, v1, v2, v3, v4, v5, v6, v7, tags)                                              \
    (v0, v1, v2, v3, v4, v5, v6, v7, false) : link(ETHERNET_LEN + VLAN_LEN * tags);                 \
    (v0, v1, v2, v3, v4, v5, v6, v7, true) : link(ETHERNET_LEN + VLAN_LEN * tags + IPV6_LEN);
#define LDS_SHIM(length)                                                                            \
    (true, length - 1, false) : add(SHIM_FIXED_LEN + length);                                       \
    (true, length - 1, true) : add(SHIM_FIXED_LEN + length + SHIM_LEN);

control wire_length(in headers_t hdr, out bit<16> length) {
    action link(bit<16> bytes) {
        length = bytes;
    }
    table tags {
        key = {
            hdr.vlan[0].isValid() : ternary;
            hdr.vlan[1].isValid() : ternary;
            hdr.vlan[2].isValid() : ternary;
            hdr.vlan[3].isValid() : ternary;
            hdr.vlan[4].isValid() : ternary;
            hdr.vlan[5].isValid() : ternary;
            hdr.vlan[6].isValid() : ternary;
            hdr.vlan[7].isValid() : ternary;
            hdr.ipv6.isValid() : ternary;
        }
        actions = { link; }
        default_action = link(ETHERNET_LEN);
        const entries = {
            LDS_LINK(false, _, _, _, _, _, _, _, 0)
            LDS_LINK(true, false, _, _, _, _, _, _, 1)
            LDS_LINK(_, true, false, _, _, _, _, _, 2)
            LDS_LINK(_, _, true, false, _, _, _, _, 3)
            LDS_LINK(_, _, _, true, false, _, _, _, 4)
            LDS_LINK(_, _, _, _, true, false, _, _, 5)
            LDS_LINK(_, _, _, _, _, true, false, _, 6)
            LDS_LINK(_, _, _, _, _, _, true, false, 7)
            LDS_LINK(_, _, _, _, _, _, _, true, 8)
        }
        size = 18;
    }
    action add(bit<16> bytes) {
        length = length + bytes;
    }
    table shims {
        key = {
            hdr.shim.isValid() : exact;
            hdr.shim.length : exact;
            hdr.host_shim.isValid() : exact;
        }
        actions = { add; @defaultonly NoAction; }
        default_action = NoAction();
        const entries = {
            LDS_SHIM(1)
            LDS_SHIM(2)
            LDS_SHIM(3)
            LDS_SHIM(4)
            LDS_SHIM(5)
            LDS_SHIM(6)
            LDS_SHIM(7)
            LDS_SHIM(8)
        }
        size = 16;
    }
    action add_ipv4() {
        length = length + hdr.ipv4.total_length;
    }
    action add_ipv6() {
        length = length + hdr.ipv6.payload_length;
    }
    action pad() {
        length = max(length, 60);
    }
    apply {
        tags.apply();
        if (hdr.ipv4.isValid()) {
            add_ipv4();
        } else {
            add_ipv6();
        }
        shims.apply();
        pad();
    }
}

// The sums of a packet's digest: its id's first round, and the key of the member packetSeed.
control lds_digest(in bit<32> id_high, in bit<32> id_low, out bit<32> u, out bit<32> v) {
    CRC32_OF(id_p);
    CRC32C_OF(id_q);

    action set_key(bit<32> key_p, bit<32> key_q) {
        u = key_p;
        v = key_q;
    }
    table digest_key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }
    action first_p() {
        u = u + id_p.get({ SWAP64(id_high, id_low) });
    }
    action first_q() {
        v = v + id_q.get({ SWAP64(id_high, id_low) });
    }
    action mix() {
        u = u + v;
    }
    apply {
        digest_key.apply();
        first_p();
        first_q();
        mix();
    }
}

// Whether the rows sample the packet, by a half of its digest each. The hash stands on the
// left of the comparison here, too.
control lds_rates(in bit<32> u, in bit<32> v, in bit<32> before_high, in bit<32> before_low, out bit<1> sampled0,
                  out bit<1> sampled1) {
    LINEAR_CRC32_OF(digest_high);
    LINEAR_CRC32C_OF(digest_low);
    bit<32> high;
    bit<32> low;

    Register<bit<32>, bit<1>>(1, 0xffffffff) limit0;
    RegisterAction<bit<32>, bit<1>, bit<1>>(limit0) samples0 = {
        void apply(inout bit<32> limit, out bit<1> sampled) {
            sampled = 0;
            if (high <= limit) {
                sampled = 1;
            }
        }
    };
    Register<bit<32>, bit<1>>(1, 0xffffffff) limit1;
    RegisterAction<bit<32>, bit<1>, bit<1>>(limit1) samples1 = {
        void apply(inout bit<32> limit, out bit<1> sampled) {
            sampled = 0;
            if (low <= limit) {
                sampled = 1;
            }
        }
    };

    action sample0() {
        high = digest_high.get({ before_high, u, v });
        sampled0 = samples0.execute(0);
    }
    action sample1() {
        low = digest_low.get({ before_low, u, v });
        sampled1 = samples1.execute(0);
    }
    apply {
        sample0();
        sample1();
    }
}

// The port is the one of arrival; of lds, length and columns are there.
control lds_ingress(in headers_t hdr, in bit<48> timestamp, in PortId_t port, in bit<32> u, in bit<32> v, inout lds_t lds) {
    lds_points() point_of;
    lds_clock() clock;
    lds_interval() interval;
    lds_rates() rates;
    lds_lengths() lengths0;
    lds_lengths() lengths1;
    lds_digests() digests0;
    lds_digests() digests1;
    lds_point_t point;
    bit<1> measured;
    bit<1> bank;
    bit<32> x;
    bit<32> before_high;
    bit<32> before_low;

    // With interval_bit the control plane adds: a packet with a shim -> by_shim.
    action by_clock() {
        lds.marked = 0;
        lds.odd = 0;
    }
    action by_shim() {
        lds.marked = 1;
        lds.odd = hdr.shim.interval;
    }
    table mark {
        key = { hdr.shim.isValid() : exact @name("shim"); }
        actions = { by_clock; by_shim; }
        default_action = by_clock();
        size = 2;
    }

    // By point and bank: Point.Packets.
    Counter<bit<32>, bit<(TNA_LDS_POINT_BITS + 1)>>(1 << (TNA_LDS_POINT_BITS + 1), CounterType_t.PACKETS) packets;
    action tally() {
        packets.count(point ++ bank);
    }
    LDS_ARRIVALS_STAGE table tallies {
        actions = { tally; }
        default_action = tally();
        size = 1;
    }

    apply {
        point_of.apply(port, point, measured);
        clock.apply(timestamp, x, before_high, before_low);
        mark.apply();
        interval.apply(x, lds.marked, lds.odd, bank);
        rates.apply(u, v, before_high, before_low, lds.sampled0, lds.sampled1);
        if (measured == 1 && lds.measured == 1) {
            tallies.apply();
            if (lds.sampled0 == 1) {
                lengths0.apply(point, bank, lds.column0, x, lds.length);
            }
            if (lds.sampled1 == 1) {
                lengths1.apply(point, bank, lds.column1, x, lds.length);
            }
            if (lds.sampled0 == 1) {
                digests0.apply(point, bank, lds.column0, u, v, before_high, before_low);
            }
            if (lds.sampled1 == 1) {
                digests1.apply(point, bank, lds.column1, u, v, before_high, before_low);
            }
        }
    }
}

// The port is the one of departure.
control lds_egress(in bit<48> timestamp, in PortId_t port, in bit<32> u, in bit<32> v, in lds_t lds) {
    lds_points() point_of;
    lds_clock() clock;
    lds_interval() interval;
    lds_lengths() lengths0;
    lds_lengths() lengths1;
    lds_digests() digests0;
    lds_digests() digests1;
    lds_point_t point;
    bit<1> measured;
    bit<1> bank;
    bit<32> x;
    bit<32> before_high;
    bit<32> before_low;

    // By point and bank: Point.Packets.
    Counter<bit<32>, bit<(TNA_LDS_POINT_BITS + 1)>>(1 << (TNA_LDS_POINT_BITS + 1), CounterType_t.PACKETS) packets;
    action tally() {
        packets.count(point ++ bank);
    }
    LDS_DEPARTURES_STAGE table tallies {
        actions = { tally; }
        default_action = tally();
        size = 1;
    }

    apply {
        point_of.apply(port, point, measured);
        clock.apply(timestamp, x, before_high, before_low);
        interval.apply(x, lds.marked, lds.odd, bank);
        if (measured == 1 && lds.measured == 1) {
            tallies.apply();
            if (lds.sampled0 == 1) {
                lengths0.apply(point, bank, lds.column0, x, lds.length);
            }
            if (lds.sampled1 == 1) {
                lengths1.apply(point, bank, lds.column1, x, lds.length);
            }
            if (lds.sampled0 == 1) {
                digests0.apply(point, bank, lds.column0, u, v, before_high, before_low);
            }
            if (lds.sampled1 == 1) {
                digests1.apply(point, bank, lds.column1, u, v, before_high, before_low);
            }
        }
    }
}

#endif
