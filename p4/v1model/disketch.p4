// Fragments of disaggregated sketches at the output ports (stages/disketch): rows of
// Count Sketch or Count-Min, or UnivMon's, a row of Count Sketch for each level, over
// flows by their 5-tuple or by prefixes of addresses. A flow is counted in one
// subepoch of each epoch, one from host to host in two (DiSketch, Section 4.4), and by
// UnivMon in the row of its level.
//
// Cells and counts are never reset: they wrap, and the control plane takes differences
// (Section 5). A subepoch has the bank of its parity, so that the one before can be
// read meanwhile; schedules keep that up where the number of subepochs changes.
//
// Tables:
//
//   from_host, to_host   meta.in_port, meta.out_port: exact -> in_from_host(), out_to_host()   the host ports
//   and of each fragment N (fragment_N):
//   shape    no key -> set_shape(with_signs, in_bytes, in_two, log_epoch, row_cells)
//            with_signs 1: Count Sketch and UnivMon, 0: Count-Min; in_bytes 1: unit = "bytes"; in_two 0: one_subepoch;
//            log_epoch: epoch_bits; a row has row_cells cells, all rows at most 2^FRAGMENT_COLUMN_BITS
//   levels   no key -> set_levels(level_top, of_levels)
//            of UnivMon: 1 << (levels - 1), and the key of Config.LevelSeed()
//   flow_key no key -> by_addresses(src4, dst4, src6, dst6, of_flows)
//            masks of what of the addresses is in the key, and the key of the seed of such flows (Keyer);
//            without it flows are by their 5-tuple. Packets other than IP are then in no flow.
//
// Registers of each fragment:
//
//   schedule_epoch     2 x 64 bits   by the epoch's parity: its number                    control plane
//   schedule_log       2 x 8 bits    log2 of its subepochs (Schedule.Log)                 control plane
//   schedule_flip      2 x 1 bit     bank of its subepoch 0                               control plane
//   schedule_key       2 x 64 bits   key of Schedule.Seed: subepochs of flows             control plane
//   cell_key           2 x 64 bits   key of Schedule.cellSeed(): cells and signs          control plane
//   cells              32 bits       bank << FRAGMENT_COLUMN_BITS | level * row_cells + column, two's complement   this control
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

// The number of trailing zeros of a number that is not 0, by its lowest bit.
control trailing_zeros(in bit<32> x, out bit<32> n) {
    apply {
        bit<32> lowest = x & (0 - x);
        n = 0;
        if (lowest & 0xffff0000 != 0) { n = n + 16; }
        if (lowest & 0xff00ff00 != 0) { n = n + 8; }
        if (lowest & 0xf0f0f0f0 != 0) { n = n + 4; }
        if (lowest & 0xcccccccc != 0) { n = n + 2; }
        if (lowest & 0xaaaaaaaa != 0) { n = n + 1; }
    }
}

// The addresses of an IP packet; version 0: it is none. Those of IPv4 are in the first 32 bits.
struct addresses_t {
    bit<64> version;
    bit<128> src;
    bit<128> dst;
}

control disketch_fragment(in word_message_t tuple_message, in addresses_t ip, in bit<64> now, in bit<32> bytes, in bit<1> host_to_host) {
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
    bit<32> columns = 0;
    bit<1> of_addresses = 0;
    bit<32> src4_mask = 0;
    bit<32> dst4_mask = 0;
    bit<128> src6_mask = 0;
    bit<128> dst6_mask = 0;
    hash_key_t address_key = 0;
    bit<32> top = 1;
    hash_key_t level_key = 0;
    message_hash() hash_address;
    word_hash() hash_level;
    word_hash() hash_subepoch;
    word_hash() hash_cell;

    action set_shape(bit<1> with_signs, bit<1> in_bytes, bit<1> in_two, bit<8> log_epoch, bit<32> row_cells) {
        has_shape = 1;
        signs = with_signs;
        of_bytes = in_bytes;
        twice = in_two;
        epoch_bits = log_epoch;
        columns = row_cells;
    }
    table shape {
        actions = { set_shape; NoAction; }
        default_action = NoAction();
    }

    action set_levels(bit<32> level_top, hash_key_t of_levels) {
        top = level_top;
        level_key = of_levels;
    }
    table levels {
        actions = { set_levels; NoAction; }
        default_action = NoAction();
    }

    action by_addresses(bit<32> src4, bit<32> dst4, bit<128> src6, bit<128> dst6, hash_key_t of_flows) {
        of_addresses = 1;
        src4_mask = src4;
        dst4_mask = dst4;
        src6_mask = src6;
        dst6_mask = dst6;
        address_key = of_flows;
    }
    table flow_key {
        actions = { by_addresses; NoAction; }
        default_action = NoAction();
    }

    apply {
        shape.apply();
        levels.apply();
        flow_key.apply();
        word_message_t flow = tuple_message;
        if (of_addresses == 1) {
            bit<128> src = ip.src & src6_mask;
            bit<128> dst = ip.dst & dst6_mask;
            if (ip.version == 4) {
                src = ip.src & (src4_mask ++ 96w0);
                dst = ip.dst & (dst4_mask ++ 96w0);
            }
            message_t addresses = NO_MESSAGE;
            hash_t h;
            FIRST_ROUND_5(addresses, NUMBER(src[127:64]), NUMBER(src[63:0]), NUMBER(dst[127:64]), NUMBER(dst[63:0]), NUMBER(ip.version));
            hash_address.apply(h, addresses, address_key);
            bit<64> number = h.a ++ h.b;
            FIRST_ROUND_WORD(flow, NUMBER(number));
        }
        if (has_shape == 1 && !(of_addresses == 1 && ip.version == 0)) {
            bit<64> epoch = now >> epoch_bits;
            bit<32> parity = (bit<32>)epoch[0:0];
            bit<64> scheduled;
            schedule_epoch.read(scheduled, parity);
            if (scheduled != epoch) {
                ADD(missed, 0, 1)
            } else {
                bit<8> log;
                bit<1> flip;
                hash_key_t key;
                hash_t h;
                schedule_log.read(log, parity);
                schedule_flip.read(flip, parity);

                // What is behind the epoch's bit of the time: subepochs, then within one.
                bit<64> slice = now >> (epoch_bits - log);
                bit<64> last = (64w1 << log) - 1;
                bit<64> subepoch = slice & last;
                bit<32> bank = (bit<32>)(subepoch[0:0] ^ flip);

                schedule_key.read(key, parity);
                hash_subepoch.apply(h, flow, key);
                bit<64> first = (bit<64>)h.b & last;
                bit<64> second = (first + ((last + 1) >> 1)) & last;
                bit<64> v = (of_bytes == 1) ? (bit<64>)bytes : 64w1;

                ADD(seen, bank, 1)
                if (first == subepoch || (host_to_host == 1 && twice == 1 && second == subepoch)) {
                    cell_key.read(key, parity);
                    hash_cell.apply(h, flow, key);
                    bit<96> product = (bit<96>)(h.a ++ h.b) * (bit<96>)columns;
                    bit<32> column = product[95:64];
                    if (top != 1) {
                        hash_t l;
                        hash_level.apply(l, flow, level_key);
                        bit<32> level;
                        trailing_zeros.apply(l.b | top, level);
                        column = column + level * columns;
                    }
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
            word_message_t tuple_message;
            bit<64> number = (bit<64>)meta.flow_hash;
            FIRST_ROUND_WORD(tuple_message, NUMBER(number));
            addresses_t ip = { 0, 0, 0 };
            if (hdr.ipv4.isValid()) {
                ip.version = 4;
                ip.src = hdr.ipv4.src ++ 96w0;
                ip.dst = hdr.ipv4.dst ++ 96w0;
            } else if (hdr.ipv6.isValid()) {
                ip.version = 6;
                ip.src = hdr.ipv6.src;
                ip.dst = hdr.ipv6.dst;
            }
            fragment_0.apply(tuple_message, ip, meta.now, meta.length, is_from_host & is_to_host);
            fragment_1.apply(tuple_message, ip, meta.now, meta.length, is_from_host & is_to_host);
        }
    }
}

#endif
