// The packet id out of the messages of block.p4: stages 1 to 3 behind them.
#ifndef WEIR_TNA_BLOCK_ID_P4
#define WEIR_TNA_BLOCK_ID_P4

#include "block.p4"
#include "hash.p4"

control block_id(in block_t block, out bit<32> high, out bit<32> low) {
    CRC32_OF(p);
    CRC32C_OF(q);
    CRC32_OF(p_id);
    CRC32C_OF(q_id);
    bit<32> u;
    bit<32> v;

    // hash.Key of the parser's seed.
    action set_key(bit<32> key_p, bit<32> key_q) {
        u = key_p;
        v = key_q;
    }
    table id_key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }
    action first_p() {
        u = u + p.get(ID_MESSAGE(block));
    }
    action first_q() {
        v = v + q.get(ID_MESSAGE(block));
    }
    action mix() {
        u = u + v;
    }
    action second_high() {
        high = p_id.get({ u, v });
    }
    action second_low() {
        low = q_id.get({ u, v });
    }
    apply {
        id_key.apply();
        first_p();
        first_q();
        mix();
        second_high();
        second_low();
    }
}

#endif
