// The sample of what arrives (stages/oblivious): a packet's rank is a hash of its id,
// the same at all switches, and packets of small ranks are copied to the control
// plane, which keeps the smallest. In unit = "packets" the ranks of all kinds are the
// hash itself, in unit = "bytes" the hash over the packet's bytes, of UWRA at least that.
// A threshold needs no division: h/w >> 32 <= t where h >> 32 < (t+1) w.
//
// Tables:
//
//   sampler   no key -> set_sampler(log_epoch, of_ranks, in_bytes, shift)
//             of_ranks: key of Config.rankSeed(); in_bytes 1: unit = "bytes"; shift: bits by which a hash exceeds the
//             scale of ranks, 6 with UWRA by bytes, else 0
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
// Copy at the CPU port (CPU_SAMPLE): the hash is digest in cpu_t, beside packet id and
// arrival; the packet that follows has length and flow key.
#ifndef WEIR_OBLIVIOUS_P4
#define WEIR_OBLIVIOUS_P4

#include "packet.p4"
#include "hash.p4"
#include "../include/telemetry.p4"

// The bytes that a packet counts for, without tags and shims: what IP declares behind an
// Ethernet header, and of others the shortest frame at least.
control sample_bytes_of(in headers_t hdr, in metadata_t meta, out bit<32> bytes) {
    apply {
        if (hdr.ipv4.isValid()) {
            bytes = (bit<32>)hdr.ipv4.total_length + ETHERNET_LEN;
        } else if (hdr.ipv6.isValid()) {
            bytes = (bit<32>)hdr.ipv6.payload_length + (ETHERNET_LEN + IPV6_LEN);
        } else {
            bytes = meta.length - (bit<32>)meta.l3 + ETHERNET_LEN;
            if (bytes < SHORTEST_FRAME) {
                bytes = SHORTEST_FRAME;
            }
        }
    }
}

control oblivious_ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    register<bit<64>>(2) epoch;
    register<bit<32>>(2) threshold;
    register<bit<64>>(2) packets;
    register<bit<64>>(2) bytes;

    bit<1> measures = 0;
    bit<8> epoch_bits = 0;
    bit<1> of_bytes = 0;
    bit<8> rank_shift = 0;
    hash_key_t key = 0;
    hash_t rank;
    word_hash() hash_rank;

    action set_sampler(bit<8> log_epoch, hash_key_t of_ranks, bit<1> in_bytes, bit<8> shift) {
        measures = 1;
        epoch_bits = log_epoch;
        key = of_ranks;
        of_bytes = in_bytes;
        rank_shift = shift;
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
                hash_rank.apply(rank, meta.id_message, key);
                bit<32> weight = 1;
                if (of_bytes == 1) {
                    sample_bytes_of.apply(hdr, meta, weight);
                }
                if ((bit<64>)(rank.a >> rank_shift) < ((bit<64>)most + 1) * (bit<64>)weight) {
                    meta.cpu_kind = meta.cpu_kind | CPU_SAMPLE;
                    meta.cpu_digest = rank.a ++ rank.b;
                }
            }
        }
    }
}

#endif
