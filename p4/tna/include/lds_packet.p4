// What both points of a packet share: its length and its columns. weir.p4, which hashes its
// fields where they stand, makes the columns itself.
#ifndef WEIR_TNA_LDS_PACKET_P4
#define WEIR_TNA_LDS_PACKET_P4

#include "block.p4"
#include "flow_hash.p4"
#include "hash.p4"
#include "lds_control.p4"

control lds_packet(in headers_t hdr, in block_t block, in flow_t flow, inout lds_t lds) {
    wire_length() wire;
    flow_hash() hash_flow;
    bit<32> flow_high;
    bit<32> flow_low;
    bit<32> u;
    bit<32> v;

    CRC32_OF(flow_p);
    CRC32C_OF(flow_q);
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
    action first_p_of_flow() {
        u = u + flow_p.get({ SWAP64(flow_high, flow_low) });
    }
    action first_q_of_flow() {
        v = v + flow_q.get({ SWAP64(flow_high, flow_low) });
    }
    action mix() {
        u = u + v;
    }
    action columns() {
        lds.column0 = LDS_COLUMN_OF(column_high.get({ u, v }));
        lds.column1 = LDS_COLUMN_OF(column_low.get({ u, v }));
    }
    apply {
        columns_key.apply();
        wire.apply(hdr, lds.length);
        hash_flow.apply(block, flow, flow_high, flow_low);
        first_p_of_flow();
        first_q_of_flow();
        mix();
        columns();
    }
}

#endif
