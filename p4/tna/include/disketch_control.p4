// The twin of stages/disketch: one fragment, a row of a Count Sketch or a Count-Min
// Sketch of flows by their 5-tuple, as p4/v1model/disketch.p4 has two.
//
//   stage 0   the time
//   stage 1   schedule    u, v of both hashes; the subepoch, which is a part of the time
//   stage 2   mix         u, v of both hashes
//   stage 3   choose      subepoch XOR that of the flow; sign, column, bank
//   stage 4   count       the cell, up or down
//
// Cells are 32 bits wide and never reset, so they wrap and do not saturate as those of Go
// do: the control plane takes differences. A subepoch has the bank of its parity, so that
// the one before can be read meanwhile.
//
// Tables:
//
//   hosts      port: exact -> host()   ports behind which there is no other switch, on both sides
//   unit       no key -> packets(), bytes()
//   schedule   epoch modulo 2^(32-DISKETCH_EPOCH_BITS): exact -> begin_X(subepoch_p, subepoch_q, cell_p, cell_q, flip_bank)
//              X: log2 of its subepochs (Schedule.Log), at most 10; halves of hash.Key of Schedule.Seed, and of
//              Schedule.cellSeed(); flip_bank: bank of its subepoch 0, and with X = 0, where the epoch's lowest bit is in the
//              place of the subepoch's, that XOR this bit. An epoch that is not there is not counted: the
//              control plane writes the next one and takes away the last
//   count      log, sign: exact; from_host, to_host, difference: ternary -> add(), subtract()
//              of each log and sign  0 &&& n-1 -> add; of Count Sketch with sign 1 -> subtract; and where flows from host
//              to host count twice, for them 0 &&& n/2-1: the second subepoch is half an epoch from the first, which
//              is their highest bit
//
// The register cells: bank << FRAGMENT_COLUMN_BITS | column. The counters, packets and bytes by bank: seen, and counted,
// of which the unit's part is Record.Value; of a Count-Min that is the sum of its cells, too. In weir.p4 the counters' bytes are
// those before PINT adds or takes a shim: there a Count-Min's Value of bytes is to be made of cells. The control plane resets none.
#ifndef WEIR_TNA_DISKETCH_CONTROL_P4
#define WEIR_TNA_DISKETCH_CONTROL_P4

#include "../../include/telemetry.p4"
#include "hash.p4"

// Epochs of 2^DISKETCH_EPOCH_BITS ns (epoch_bits), 20 to 31 on this target.
#ifndef DISKETCH_EPOCH_BITS
#define DISKETCH_EPOCH_BITS 30
#endif

typedef bit<FRAGMENT_COLUMN_BITS> column_t;
typedef bit<(FRAGMENT_BANK_BITS + FRAGMENT_COLUMN_BITS)> cell_index_t;

// Of an epoch with 2^x subepochs.
#define DISKETCH_BEGIN(x)                                                                                        \
    action begin_##x(bit<32> subepoch_p, bit<32> subepoch_q, bit<32> cell_p, bit<32> cell_q, bit<32> flip_bank) { \
        subepoch_u = p + subepoch_p;                                                                             \
        subepoch_v = q + subepoch_q;                                                                             \
        cell_u = p + cell_p;                                                                                     \
        cell_v = q + cell_q;                                                                                     \
        flip = flip_bank;                                                                                        \
        log = x;                                                                                                 \
        subepoch = now >> (DISKETCH_EPOCH_BITS - x);                                                             \
    }

// Ports behind which there is no other switch (host_ports).
control disketch_ports(in PortId_t port, out bit<1> is_host) {
    action host() {
        is_host = 1;
    }
    action network() {
        is_host = 0;
    }
    table hosts {
        key = { port: exact; }
        actions = { host; network; }
        default_action = network();
        size = MAX_PORTS;
    }
    apply {
        hosts.apply();
    }
}

// p and q are the first-round CRCs of the flow; now is its departure; length is that
// of the packet on the wire, in bytes, and overhead is what the target counts beyond it. Only what counts asks
// whether the packet does, as that is known last: a packet may be dropped.
control disketch(in bit<32> p, in bit<32> q, in bit<32> now, in bit<16> length, in bit<32> overhead,
                 in bit<1> from_host, in bit<1> to_host, in bit<1> uncounted) {
    bit<32> subepoch_u;
    bit<32> subepoch_v;
    bit<32> cell_u;
    bit<32> cell_v;
    bit<32> subepoch;   // what is above its lowest log bits is of no meaning
    bit<32> flip;
    bit<32> bank;       // its lowest bit
    bit<10> difference; // its lowest log bits
    bit<4> log;
    bit<1> sign;        // 1: the flow counts down
    column_t column;
    bit<16> value;

    CRC32C_OF(subepoch_hash);
    CRC32C_OF(sign_hash);
    CRC32_OF(column_hash);

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
        key = { now[31:DISKETCH_EPOCH_BITS] : exact @name("epoch"); }
        actions = {
            begin_0; begin_1; begin_2; begin_3; begin_4; begin_5; begin_6; begin_7; begin_8; begin_9; begin_10;
            @defaultonly NoAction;
        }
        default_action = NoAction();
        size = 1 << (32 - DISKETCH_EPOCH_BITS);
    }

    action mix() {
        subepoch_u = subepoch_u + subepoch_v;
        cell_u = cell_u + cell_v;
    }

    // The flow's subepoch is in the lowest bits of a hash; of another one the lowest bit is the
    // sign and the highest ones are the column.
    action choose_subepoch() {
        difference = subepoch[9:0] ^ subepoch_hash.get({ subepoch_u, subepoch_v })[9:0];
        bank = subepoch ^ flip;
    }
    action choose_cell() {
        sign = sign_hash.get({ cell_u, cell_v })[0:0];
        column = column_hash.get({ cell_u, cell_v })[31:32 - FRAGMENT_COLUMN_BITS];
    }

    Register<bit<32>, cell_index_t>(1 << (FRAGMENT_BANK_BITS + FRAGMENT_COLUMN_BITS)) cells;
    RegisterAction<bit<32>, cell_index_t, bit<32>>(cells) up = {
        void apply(inout bit<32> cell) {
            cell = cell + (bit<32>)value;
        }
    };
    RegisterAction<bit<32>, cell_index_t, bit<32>>(cells) down = {
        void apply(inout bit<32> cell) {
            cell = cell - (bit<32>)value;
        }
    };
    Counter<bit<64>, bit<1>>(2, CounterType_t.PACKETS_AND_BYTES) counted;
    Counter<bit<64>, bit<1>>(2, CounterType_t.PACKETS_AND_BYTES) seen;

    action add() {
        up.execute(bank[0:0] ++ column);
        counted.count(bank[0:0], overhead);
    }
    action subtract() {
        down.execute(bank[0:0] ++ column);
        counted.count(bank[0:0], overhead);
    }
    table count {
        key = {
            log : exact;
            sign : exact;
            from_host : ternary;
            to_host : ternary;
            difference : ternary;
        }
        actions = { add; subtract; @defaultonly NoAction; }
        default_action = NoAction();
        size = 64;
    }
    action see() {
        seen.count(bank[0:0], overhead);
    }

    apply {
        unit.apply();
        if (schedule.apply().hit) {
            mix();
            choose_subepoch();
            choose_cell();
            if (uncounted == 0) {
                see();
                count.apply();
            }
        }
    }
}

#endif
