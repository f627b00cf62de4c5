// The twin of stages/lds with virtual = 1 and rates of 1: the cells of one side's
// measurement points.
//
//   interval      which interval the packet is counted in (its bank), time in it
//       |
//   row 0, row 1  a cell: sum of times, packets, sum of digests, bytes
//
// A stateful ALU has two words of 32 bits and one operand for both, and cannot add a
// carry to a third one. So a cell's sums of 64 bits are kept as what can be had of them
// exactly, and never reset; the control plane makes the cell of an interval from what
// they changed by (p4/tna/README-rest.md has the sums):
//
//   times        -(sum of x), 64 bits, x = time in the interval + half an interval
//   digests      -(sum of the low halves of digests), 64 bits
//   counts       sum of the high halves of digests, modulo 2^32; packets, modulo 2^32
//   bytes        -(sum of lengths), 64 bits
//
// Sums count down because an ALU can compare what it subtracts with what it has, so it
// sees the borrow.
#ifndef WEIR_TNA_LDS_CONTROL_P4
#define WEIR_TNA_LDS_CONTROL_P4

#include "hash.p4"

// Intervals of 2^LDS_INTERVAL_BITS ns (interval_bits), 20 to 30 on this target.
#ifndef LDS_INTERVAL_BITS
#define LDS_INTERVAL_BITS 30
#endif
// Points of a side, and cells of a row; a register has at most 2^14 cells, as much as
// four of them in a stage may.
#ifndef LDS_POINT_BITS
#define LDS_POINT_BITS 2
#endif
#ifndef LDS_COLUMN_BITS
#define LDS_COLUMN_BITS 11
#endif
// Of a point, a bank and a column.
#define LDS_CELL_BITS (LDS_POINT_BITS + 1 + LDS_COLUMN_BITS)

typedef bit<LDS_POINT_BITS> lds_point_t;
typedef bit<LDS_COLUMN_BITS> lds_column_t;
typedef bit<LDS_CELL_BITS> lds_cell_t;

struct lds_sum_t {
    bit<32> low;
    bit<32> high;
}

struct lds_count_t {
    bit<32> digests;
    bit<32> packets;
}

// One row of cells. u and v are those of the digest's hash.
control lds_row(in lds_point_t point, in bit<1> bank, in lds_column_t column, in bit<32> x, in bit<32> length,
                in bit<32> u, in bit<32> v) {
    CRC32_OF(digest_high_hash);
    CRC32C_OF(digest_low_hash);
    bit<32> digest_high;
    bit<32> digest_low;

    Register<lds_sum_t, lds_cell_t>(1 << LDS_CELL_BITS) times;
    RegisterAction<lds_sum_t, lds_cell_t, bit<32>>(times) add_time = {
        void apply(inout lds_sum_t sum) {
            if (sum.low < x) {
                sum.high = sum.high - 1;
            }
            sum.low = sum.low - x;
        }
    };
    Register<lds_sum_t, lds_cell_t>(1 << LDS_CELL_BITS) bytes;
    RegisterAction<lds_sum_t, lds_cell_t, bit<32>>(bytes) add_length = {
        void apply(inout lds_sum_t sum) {
            if (sum.low < length) {
                sum.high = sum.high - 1;
            }
            sum.low = sum.low - length;
        }
    };
    Register<lds_sum_t, lds_cell_t>(1 << LDS_CELL_BITS) digests;
    RegisterAction<lds_sum_t, lds_cell_t, bit<32>>(digests) add_digest = {
        void apply(inout lds_sum_t sum) {
            if (sum.low < digest_low) {
                sum.high = sum.high - 1;
            }
            sum.low = sum.low - digest_low;
        }
    };
    Register<lds_count_t, lds_cell_t>(1 << LDS_CELL_BITS) counts;
    RegisterAction<lds_count_t, lds_cell_t, bit<32>>(counts) add_packet = {
        void apply(inout lds_count_t count) {
            count.digests = count.digests + digest_high;
            count.packets = count.packets + 1;
        }
    };

    action time() {
        add_time.execute(point ++ bank ++ column);
    }
    action size() {
        add_length.execute(point ++ bank ++ column);
    }
    action digest() {
        digest_low = digest_low_hash.get({ u, v });
        add_digest.execute(point ++ bank ++ column);
    }
    action packet() {
        digest_high = digest_high_hash.get({ u, v });
        add_packet.execute(point ++ bank ++ column);
    }
    apply {
        time();
        size();
        digest();
        packet();
    }
}

#endif
