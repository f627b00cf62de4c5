// Fragments of disaggregated sketches at the output ports (stages/disketch): rows of
// Count Sketch or Count-Min over flows by their 5-tuple. A flow is counted in one
// subepoch of each epoch, one from host to host in two (DiSketch, Section 4.4).
//
// Cells and counts are never reset: they wrap, and the control plane takes differences
// (Section 5). A subepoch has the bank of its parity, so that the one before can be
// read meanwhile; schedules keep that up where the number of subepochs changes.
//
// Tables:
//
//   from_host, to_host   meta.in_port, meta.out_port: exact -> in_from_host(), out_to_host()   the host ports
//   and of each fragment N (fragment_N):
//   shape   no key -> set_shape(with_signs, in_bytes, in_two, log_epoch, log_columns)
//           with_signs 1: Count Sketch, 0: Count-Min; in_bytes 1: unit = "bytes"; in_two 0: one_subepoch;
//           log_epoch: epoch_bits; a row has 2^log_columns cells, at most 2^FRAGMENT_COLUMN_BITS
//
// Registers of each fragment:
//
//   schedule_epoch     2 x 64 bits   by the epoch's parity: its number                    control plane
//   schedule_log       2 x 8 bits    log2 of its subepochs (Schedule.Log)                 control plane
//   schedule_flip      2 x 1 bit     bank of its subepoch 0                               control plane
//   schedule_key       2 x 64 bits   hash.Key(Schedule.Seed): subepochs of flows          control plane
//   cell_key           2 x 64 bits   hash.Key(Schedule.cellSeed()): cells and signs       control plane
//   cells              32 bits       bank << FRAGMENT_COLUMN_BITS | column, two's complement   this control
//   packets, value, seen  2 x 64 bits   by bank: Record.Packets, Value, Seen              this control
//   missed             1 x 64 bits   packets of epochs that have no schedule              this control
//
// A fragment counts nothing in an epoch whose number is not in schedule_epoch.
#ifndef WEIR_DISKETCH_P4
#define WEIR_DISKETCH_P4

#include "packet.p4"
#include "hash.p4"
#include "../include/telemetry.p4"
#include "registers.p4"

#define KEY_OF(key, halves)   \
    key.p = halves[63:32];    \
    key.q = halves[31:0]

control disketch_fragment(in bit<32> flow, in crcs_t flow_crcs, in bit<64> now, in bit<32> bytes, in bit<1> host_to_host) {
    register<bit<64>>(2) schedule_epoch;
    register<bit<8>>(2) schedule_log;
    register<bit<1>>(2) schedule_flip;
    register<bit<64>>(2) schedule_key;
    register<bit<64>>(2) cell_key;
    register<bit<32>>(1 << (FRAGMENT_COLUMN_BITS + FRAGMENT_BANK_BITS)) cells;
    register<bit<64>>(2) packets;
    register<bit<64>>(2) value;
    register<bit<64>>(2) seen;
    register<bit<64>>(1) missed;

    bit<1> has_shape = 0;
    bit<1> signs = 0;
    bit<1> of_bytes = 0;
    bit<1> twice = 0;
    bit<8> epoch_bits = 0;
    bit<8> column_bits = 0;
    second_round() round_subepoch;
    second_round() round_cell;

    action set_shape(bit<1> with_signs, bit<1> in_bytes, bit<1> in_two, bit<8> log_epoch, bit<8> log_columns) {
        has_shape = 1;
        signs = with_signs;
        of_bytes = in_bytes;
        twice = in_two;
        epoch_bits = log_epoch;
        column_bits = log_columns;
    }
    table shape {
        actions = { set_shape; NoAction; }
        default_action = NoAction();
    }

    apply {
        shape.apply();
        if (has_shape == 1) {
            bit<64> epoch = now >> epoch_bits;
            bit<32> parity = (bit<32>)epoch[0:0];
            bit<64> scheduled;
            schedule_epoch.read(scheduled, parity);
            if (scheduled != epoch) {
                ADD(missed, 0, 1)
            } else {
                bit<8> log;
                bit<1> flip;
                bit<64> halves;
                hash_key_t key;
                hash_t h;
                schedule_log.read(log, parity);
                schedule_flip.read(flip, parity);

                // What is behind the epoch's bit of the time: subepochs, then within one.
                bit<64> slice = now >> (epoch_bits - log);
                bit<64> last = (64w1 << log) - 1;
                bit<64> subepoch = slice & last;
                bit<32> bank = (bit<32>)(subepoch[0:0] ^ flip);

                schedule_key.read(halves, parity);
                KEY_OF(key, halves);
                round_subepoch.apply(h, flow_crcs, key);
                bit<64> first = (bit<64>)h.b & last;
                bit<64> second = (first + ((last + 1) >> 1)) & last;
                bit<64> v = (of_bytes == 1) ? (bit<64>)bytes : 64w1;

                ADD(seen, bank, 1)
                if (first == subepoch || (host_to_host == 1 && twice == 1 && second == subepoch)) {
                    cell_key.read(halves, parity);
                    KEY_OF(key, halves);
                    round_cell.apply(h, flow_crcs, key);
                    bit<32> column = h.a >> (8w32 - column_bits);
                    bit<32> at = (bank << FRAGMENT_COLUMN_BITS) | column;
                    bit<32> amount = v[31:0];
                    if (signs == 1 && h.b[0:0] == 1) {
                        amount = 0 - amount;
                    }
                    bit<32> cell;
                    cells.read(cell, at); // with what follows one action, as ports have threads of their own
                    cells.write(at, cell + amount);
                    ADD(packets, bank, 1)
                    ADD(value, bank, v)
                }
            }
        }
    }
}

control disketch_egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    bit<1> is_from_host = 0;
    bit<1> is_to_host = 0;
    disketch_fragment() fragment_0;
    disketch_fragment() fragment_1;

    action in_from_host() {
        is_from_host = 1;
    }
    table from_host {
        key = { meta.in_port : exact; }
        actions = { in_from_host; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    action out_to_host() {
        is_to_host = 1;
    }
    table to_host {
        key = { meta.out_port : exact; }
        actions = { out_to_host; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    apply {
        // Copies that a stage made are not counted.
        if (meta.reason == NO_REASON && (meta.flags & FLAG_COPY) == 0) {
            from_host.apply();
            to_host.apply();
            crcs_t crcs;
            FIRST_ROUND(crcs, SWAP64((bit<64>)meta.flow_hash));
            fragment_0.apply(meta.flow_hash, crcs, meta.now, meta.length, is_from_host & is_to_host);
            fragment_1.apply(meta.flow_hash, crcs, meta.now, meta.length, is_from_host & is_to_host);
        }
    }
}

#endif
