// The twin of stages/disketch: one fragment, a row of a Count Sketch or a Count-Min
// Sketch of flows by their 5-tuple.
//
//   schedule (by the epoch's parity)     u, v of both hashes, and which bits of the
//        |                               time are the subepoch
//   differ                               subepoch of the flow XOR that of the time; sign
//        |
//   count (ternary)                      the cell of the flow, up or down
//
// Cells are 32 bits wide and never reset: the control plane reads them at the end of
// each subepoch and exports what they grew by, modulo 2^32. So they do not saturate as
// those of Go do, but a subepoch of more than 2^31 packets or bytes in one cell is
// ambiguous.
//
// What the control plane writes:
//
//   schedule  for each parity of the epoch's number an action begin_x, n = 2^x, with the
//             keys of Schedule.Seed and of its cell seed; that of the next epoch while
//             this one lasts
//   unit      packets or bytes
//   count     by parity and sign: difference 0 &&& n-1 -> add, of Count Sketch with sign
//             1 -> subtract; and where flows between host ports count twice, for them
//             0 &&& n/2-1 in place of it: the second subepoch is half an epoch from the
//             first, so they differ in the highest bit
#ifndef WEIR_TNA_DISKETCH_CONTROL_P4
#define WEIR_TNA_DISKETCH_CONTROL_P4

#include "hash.p4"

// Epochs of 2^DISKETCH_EPOCH_BITS ns (epoch_bits), 20 to 31 on this target.
#ifndef DISKETCH_EPOCH_BITS
#define DISKETCH_EPOCH_BITS 30
#endif
// The binary logarithm of the cells (memory / 4), at most 16.
#ifndef DISKETCH_COLUMN_BITS
#define DISKETCH_COLUMN_BITS 15
#endif

// Of an epoch with 2^log subepochs.
#define DISKETCH_BEGIN(log)                                                                                      \
    action begin_##log(bit<32> subepoch_p, bit<32> subepoch_q, bit<32> cell_p, bit<32> cell_q) {                 \
        subepoch_u = p + subepoch_p;                                                                             \
        subepoch_v = q + subepoch_q;                                                                             \
        cell_u = p + cell_p;                                                                                     \
        cell_v = q + cell_q;                                                                                     \
        difference = now >> (DISKETCH_EPOCH_BITS - log);                                                         \
    }

// p and q are the first-round CRCs of the flow, now is its departure, length is that
// of the packet on the wire, in bytes.
control disketch(in bit<32> p, in bit<32> q, in bit<32> now, in bit<32> length, in bit<1> from_host, in bit<1> to_host) {
    bit<32> subepoch_u;
    bit<32> subepoch_v;
    bit<32> cell_u;
    bit<32> cell_v;
    bit<32> difference; // its lowest log bits: of the subepochs
    bit<1> sign;        // 1: the flow counts down
    bit<32> value;

    CRC32C_OF(subepoch_hash);
    CRC32C_OF(sign_hash);
    CRC32_OF(cell_hash);

    action packets() {
        value = 1;
    }
    action bytes() {
        value = length;
    }
    table unit {
        actions = { packets; bytes; }
        default_action = packets();
        size = 1;
    }

    DISKETCH_BEGIN(0)
    DISKETCH_BEGIN(1)
    DISKETCH_BEGIN(2)
    DISKETCH_BEGIN(3)
    DISKETCH_BEGIN(4)
    DISKETCH_BEGIN(5)
    DISKETCH_BEGIN(6)
    DISKETCH_BEGIN(7)
    DISKETCH_BEGIN(8)
    DISKETCH_BEGIN(9)
    DISKETCH_BEGIN(10)
    table schedule {
        key = { now[DISKETCH_EPOCH_BITS:DISKETCH_EPOCH_BITS] : exact @name("odd_epoch"); }
        actions = {
            begin_0; begin_1; begin_2; begin_3; begin_4; begin_5; begin_6; begin_7; begin_8; begin_9; begin_10;
        }
        size = 2;
    }

    // The subepoch is in the lowest bits of a hash, the sign is the lowest of another
    // one, whose highest bits are the column.
    action differ() {
        difference = difference ^ subepoch_hash.get({ subepoch_u, subepoch_v });
    }
    action turn() {
        sign = sign_hash.get({ cell_u, cell_v })[0:0];
    }

    Register<bit<32>, bit<DISKETCH_COLUMN_BITS>>(1 << DISKETCH_COLUMN_BITS) cells;
    RegisterAction<bit<32>, bit<DISKETCH_COLUMN_BITS>, bit<32>>(cells) up = {
        void apply(inout bit<32> cell) {
            cell = cell + value;
        }
    };
    RegisterAction<bit<32>, bit<DISKETCH_COLUMN_BITS>, bit<32>>(cells) down = {
        void apply(inout bit<32> cell) {
            cell = cell - value;
        }
    };
    action add() {
        up.execute(cell_hash.get({ cell_u, cell_v })[31:32 - DISKETCH_COLUMN_BITS]);
    }
    action subtract() {
        down.execute(cell_hash.get({ cell_u, cell_v })[31:32 - DISKETCH_COLUMN_BITS]);
    }
    table count {
        key = {
            now[DISKETCH_EPOCH_BITS:DISKETCH_EPOCH_BITS] : exact @name("odd_epoch");
            sign : exact;
            from_host : ternary;
            to_host : ternary;
            difference[9:0] : ternary @name("difference");
        }
        actions = { add; subtract; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    apply {
        unit.apply();
        if (schedule.apply().hit) {
            differ();
            turn();
            count.apply();
        }
    }
}

#endif
