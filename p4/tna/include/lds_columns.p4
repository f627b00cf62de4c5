// The columns of a packet's cells out of its flow's name, the hash of its flow key under the seed 0: a hash of that
// under the member flowSeed. u and v are the sums of its first round.
#ifndef WEIR_TNA_LDS_COLUMNS_P4
#define WEIR_TNA_LDS_COLUMNS_P4

#include "hash.p4"
#include "lds_control.p4"

control lds_columns(in bit<32> name_high, in bit<32> name_low, out lds_column_t column0, out lds_column_t column1) {
    bit<32> u;
    bit<32> v;

    CRC32_OF(name_p);
    CRC32C_OF(name_q);
    CRC32_OF(column_high);
    CRC32C_OF(column_low);

    // Of the member flowSeed.
    action set_key(bit<32> key_p, bit<32> key_q) {
        u = key_p;
        v = key_q;
    }
    table columns_key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }
    action first_p() {
        u = u + name_p.get({ SWAP64(name_high, name_low) });
    }
    action first_q() {
        v = v + name_q.get({ SWAP64(name_high, name_low) });
    }
    action mix() {
        u = u + v;
    }
    action first_row() {
        column0 = LDS_COLUMN_OF(column_high.get({ u, v }));
    }
    action second_row() {
        column1 = LDS_COLUMN_OF(column_low.get({ u, v }));
    }
    apply {
        columns_key.apply();
        first_p();
        first_q();
        mix();
        first_row();
        second_row();
    }
}

#endif
