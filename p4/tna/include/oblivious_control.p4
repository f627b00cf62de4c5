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
// The counter totals: packets and bytes that arrived, exactly (Sample.Packets and Bytes).
#ifndef WEIR_TNA_OBLIVIOUS_CONTROL_P4
#define WEIR_TNA_OBLIVIOUS_CONTROL_P4

#include "hash.p4"
#include "linear.p4"

// mirror is what the deparser makes a copy for: 1 if the packet is admitted, else 0.
control oblivious(in bit<1> unmeasured, in bit<32> id_high, in bit<32> id_low, inout MirrorType_t mirror) {
    bit<32> u;
    bit<32> v;
    bit<32> rank;     // high half
    bit<32> in_front; // of its message

    LINEAR_CRC32_OF(rank_hash);
    CRC32_OF(id_crc32);
    CRC32C_OF(id_crc32c);

    Counter<bit<64>, bit<1>>(1, CounterType_t.PACKETS_AND_BYTES) totals;
    action count() {
        totals.count(0, 4); // the target counts the frame's checksum
    }

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

    // The high half of the largest rank that can enter. Until the control plane writes
    // it, all may.
    Register<bit<32>, bit<1>>(1, 0xffffffff) limit;
    RegisterAction<bit<32>, bit<1>, MirrorType_t>(limit) admits = {
        void apply(inout bit<32> value, out MirrorType_t admitted) {
            admitted = 0;
            if (rank <= value) {
                admitted = 1;
            }
        }
    };
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
