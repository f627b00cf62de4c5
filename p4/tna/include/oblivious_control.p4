// The twin of stages/oblivious where all ranks are one hash of the packet id: kind dus,
// or uwra and nwps in packets. The target decides which packets may enter the sample,
// as Sampler.Admits does, and sends copies of these to the CPU port; the control plane
// inserts them, and writes the limit as the sample fills and an epoch begins anew.
//
//   key                u, v = key of the sampler's seed
//     |
//   first round        u, v += CRCs of the packet id
//     |
//   admit              high half of the hash <= limit (the sampler's, whose low half is
//                      all ones): a copy to the CPU port
//
// How much arrived is in totals: include/sample.p4.
#ifndef WEIR_TNA_OBLIVIOUS_CONTROL_P4
#define WEIR_TNA_OBLIVIOUS_CONTROL_P4

#include "hash.p4"
#include "linear.p4"
#include "sample.p4"

// mirror is what the deparser makes a copy for: 1 if the packet is admitted, else 0.
control oblivious(in bit<1> unmeasured, in bit<32> id_high, in bit<32> id_low, inout MirrorType_t mirror) {
    bit<32> u;
    bit<32> v;
    bit<32> rank;     // high half
    bit<32> in_front; // of its message

    LINEAR_CRC32_OF(rank_hash);
    CRC32_OF(id_crc32);
    CRC32C_OF(id_crc32c);

    SAMPLE_TOTALS

    action set_key(bit<32> key_p, bit<32> key_q) {
        u = key_p;
        v = key_q;
        in_front = IN_FRONT_OF_CRC32;
    }
    table key {
        actions = { set_key; }
        default_action = set_key(0, 0);
        size = 1;
    }

    action first_p() {
        u = u + id_crc32.get({ SWAP64(id_high, id_low) });
    }
    action first_q() {
        v = v + id_crc32c.get({ SWAP64(id_high, id_low) });
    }

    action mix() {
        u = u + v;
    }

    SAMPLE_LIMIT(rank, 1)
    action admit() {
        rank = rank_hash.get({ in_front, u, v });
        mirror = admits.execute(0);
    }

    apply {
        count();
        key.apply();
        first_p();
        first_q();
        mix();
        if (unmeasured == 0) {
            admit();
        }
    }
}

#endif
