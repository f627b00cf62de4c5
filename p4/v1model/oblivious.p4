// The sample of what arrives (stages/oblivious): a packet's rank is a hash of its id,
// the same at all switches, and packets of small ranks are copied to the control
// plane, which keeps the smallest. In unit = "packets", where the ranks of all kinds
// are the hash itself.
//
// Tables:
//
//   sampler   no key -> set_sampler(log_epoch, key_p, key_q)    halves of hash.Key(Config.rankSeed())
//
// Registers, by the epoch's parity:
//
//   epoch           2 x 64 bits   the epoch's number                                  control plane
//   threshold       2 x 32 bits   ranks are admitted whose high half is at most this  control plane
//   packets, bytes  2 x 64 bits   what arrived, on the wire, never reset              this control
//
// In an epoch whose number is not in the register all packets are admitted: that is
// what a sample begins with (Sampler.Limit).
//
// Copy at the CPU port (CPU_SAMPLE): the rank is digest in cpu_t, beside packet id and
// arrival; the packet that follows has length and flow key.
#ifndef WEIR_OBLIVIOUS_P4
#define WEIR_OBLIVIOUS_P4

#include "packet.p4"
#include "hash.p4"
#include "../include/telemetry.p4"

control oblivious_ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<64>>(2) epoch;
    register<bit<32>>(2) threshold;
    register<bit<64>>(2) packets;
    register<bit<64>>(2) bytes;

    bit<1> measures = 0;
    bit<8> epoch_bits = 0;
    hash_key_t key = { 0, 0 };
    hash_t rank;
    second_round() round_rank;

    action set_sampler(bit<8> log_epoch, bit<32> key_p, bit<32> key_q) {
        measures = 1;
        epoch_bits = log_epoch;
        key.p = key_p;
        key.q = key_q;
    }
    table sampler {
        actions = { set_sampler; NoAction; }
        default_action = NoAction();
    }

    apply {
        if (meta.reason == NO_REASON) {
            sampler.apply();
            if (measures == 1) {
                bit<64> number = meta.now >> epoch_bits;
                bit<32> parity = (bit<32>)number[0:0];
                bit<64> sum;
                packets.read(sum, parity);
                packets.write(parity, sum + 1);
                bytes.read(sum, parity);
                bytes.write(parity, sum + (bit<64>)meta.length);

                bit<64> known;
                bit<32> most;
                epoch.read(known, parity);
                threshold.read(most, parity);
                if (known != number) {
                    most = 0xffffffff;
                }
                round_rank.apply(rank, meta.id_crcs, key);
                if (rank.a <= most) {
                    meta.cpu_kind = meta.cpu_kind | CPU_SAMPLE;
                    meta.cpu_digest = rank.a ++ rank.b;
                }
            }
        }
    }
}

#endif
