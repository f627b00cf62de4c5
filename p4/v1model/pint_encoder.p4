// The digest of a packet behind a hop (pint.Encoder), for plans of a path in hashed
// values, a hop's latency drawn by reservoir sampling, and the most used link. All
// three are found side by side, and the packet's query set says which ones are
// written (PINT, Section 5 and Figure 6).
//
// Hashes, each of the plan's own key:
//
//   q = h(id)             .a: query set, .b ++ .a: layer of the path, low 16 bits of .b: rounding of codes
//   g = h(id, hop)        .a ++ .b: does the hop write to the path, .b ++ .a: does it replace the latency
//   v = h(switch, id)     low bits: the switch's contribution to the path
//
// Tables:
//
//   keys         no key -> set_keys(of_switch, of_set, of_writer, of_path)
//                the switch's id, and keys of the seeds: of q (Plan.setSeed), g (Plan.shared) and v (the path's h)
//   query_set    q.a: range -> set_queries(of_path, path_at, of_latency, latency_at, of_congestion, congestion_at)
//                from the threshold of the set before to this one's less 1; of_...: mask of the query's digest, not shifted, 0: not in the set; ..._at: its shift
//   layer        turned: range -> set_layer(number, overwriting)   turned is q.b ++ q.a; of at most two layers, number 0 and 1;
//                0 from 0 to upTo, 1 behind; overwriting is 1 for Baseline, 0 for XOR
//   path_writes  layer, hop: exact -> path_up_to(most)          g.a ++ g.b is at most: accept
//   sample       hop: exact -> sample_up_to(most)               g.b ++ g.a is at most: acceptReservoir
//   latency_code.whole, latency_code.part, congestion_code.whole, congestion_code.part: see pint_codec.p4
#ifndef WEIR_PINT_ENCODER_P4
#define WEIR_PINT_ENCODER_P4

#include "hash.p4"
#include "../include/telemetry.p4"
#include "pint_codec.p4"

// What a switch observes of a packet (pint.Observed), as far as plans for P4 ask.
struct observed_t {
    bit<64> hop_latency;
    bit<64> egress_utilisation;
}

control pint_encoder(in bit<64> id, in word_message_t id_message, in bit<8> hop, in observed_t seen, inout bit<DIGEST_BITS> written) {
    bit<32> switch_id = 0;
    hash_key_t set_key = 0;
    hash_key_t writer_key = 0;
    hash_key_t value_key = 0;
    bit<DIGEST_BITS> path_mask = 0;
    bit<DIGEST_BITS> latency_mask = 0;
    bit<DIGEST_BITS> congestion_mask = 0;
    bit<8> path_shift = 0;
    bit<8> latency_shift = 0;
    bit<8> congestion_shift = 0;
    bit<8> layer_number = 0;
    bit<1> overwrites = 0;
    bit<1> writes = 0;
    bit<1> samples = 0;
    hash_t q;
    bit<64> turned;
    hash_t g;
    hash_t v;
    pair_message_t hop_message;
    pair_message_t value_message;

    word_hash() hash_set;
    pair_hash() hash_writer;
    pair_hash() hash_value;
    pint_codec() latency_code;
    pint_codec() congestion_code;

    action set_keys(bit<32> of_switch, hash_key_t of_set, hash_key_t of_writer, hash_key_t of_path) {
        switch_id = of_switch;
        set_key = of_set;
        writer_key = of_writer;
        value_key = of_path;
    }
    table keys {
        actions = { set_keys; NoAction; }
        default_action = NoAction();
    }

    action set_queries(bit<DIGEST_BITS> of_path, bit<8> path_at, bit<DIGEST_BITS> of_latency, bit<8> latency_at,
                       bit<DIGEST_BITS> of_congestion, bit<8> congestion_at) {
        path_mask = of_path;
        path_shift = path_at;
        latency_mask = of_latency;
        latency_shift = latency_at;
        congestion_mask = of_congestion;
        congestion_shift = congestion_at;
    }
    table query_set {
        key = { q.a : range; }
        actions = { set_queries; NoAction; }
        default_action = NoAction(); // packets of no set carry nothing
        size = 8;
    }

    action set_layer(bit<8> number, bit<1> overwriting) {
        layer_number = number;
        overwrites = overwriting;
    }
    table layer {
        key = { turned : range; }
        actions = { set_layer; NoAction; }
        default_action = NoAction();
        size = 2;
    }

    action path_up_to(bit<64> most) {
        writes = (g.a ++ g.b <= most) ? 1w1 : 1w0;
    }
    table path_writes {
        key = { layer_number : exact; hop : exact; }
        actions = { path_up_to; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action sample_up_to(bit<64> most) {
        samples = (g.b ++ g.a <= most) ? 1w1 : 1w0;
    }
    table sample {
        key = { hop : exact; }
        actions = { sample_up_to; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply {
        keys.apply();
        bit<64> number = (bit<64>)switch_id;
        FIRST_ROUND_PAIR(hop_message, NUMBER(id), WORD_OF_8(hop));
        FIRST_ROUND_PAIR(value_message, NUMBER(number), NUMBER(id));
        hash_set.apply(q, id_message, set_key);
        turned = q.b ++ q.a;
        hash_writer.apply(g, hop_message, writer_key);
        hash_value.apply(v, value_message, value_key);
        query_set.apply();
        layer.apply();
        path_writes.apply();
        sample.apply();

        bit<DIGEST_BITS> latency;
        bit<DIGEST_BITS> congestion;
        bit<ROUND_BITS> round = q.b[ROUND_BITS - 1:0];
        latency_code.apply(seen.hop_latency, round, latency_mask, latency);
        congestion_code.apply(seen.egress_utilisation, round, congestion_mask, congestion);

        if (writes == 1) {
            bit<DIGEST_BITS> contribution = (v.b[DIGEST_BITS - 1:0] & path_mask) << path_shift;
            bit<DIGEST_BITS> cleared = (overwrites == 1) ? path_mask << path_shift : (bit<DIGEST_BITS>)0;
            written = (written & ~cleared) ^ contribution;
        }
        if (samples == 1) {
            written = (written & ~(latency_mask << latency_shift)) | (latency << latency_shift);
        }
        if (congestion > (written >> congestion_shift & congestion_mask)) {
            written = (written & ~(congestion_mask << congestion_shift)) | (congestion << congestion_shift);
        }
    }
}

#endif
