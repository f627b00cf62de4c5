// A hash of the flow key out of the messages of block.p4, under a seed whose key the control
// plane writes: under the parser's seed low is packet.FlowHash.
#ifndef WEIR_TNA_FLOW_HASH_P4
#define WEIR_TNA_FLOW_HASH_P4

#include "block.p4"
#include "hash.p4"

control flow_hash(in block_t block, in flow_t flow, out bit<32> high, out bit<32> low) {
    CRC32_OF(p);
    CRC32C_OF(q);
    CRC32_OF(p_flow);
    CRC32C_OF(q_flow);
    bit<32> u;
    bit<32> v;

    action set_key(bit<32> key_p, bit<32> key_q) {
        u = key_p;
        v = key_q;
    }
    table flow_key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }
    action first_p() {
        u = u + p.get(FLOW_MESSAGE(block, flow));
    }
    action first_q() {
        v = v + q.get(FLOW_MESSAGE(block, flow));
    }
    action mix() {
        u = u + v;
    }
    action second_high() {
        high = p_flow.get({ u, v });
    }
    action second_low() {
        low = q_flow.get({ u, v });
    }
    apply {
        flow_key.apply();
        first_p();
        first_q();
        mix();
        second_high();
        second_low();
    }
}

#endif
