// PINT (stages/pint) for plans of a path in hashed values with at most two layers, a hop's
// latency drawn by reservoir sampling, and the most used link, each in 8 bits: the path
// in the digest's bits 7 to 0, latency or congestion in 15 to 8, never both in one
// query set. Carrier shim; hops from the shim.
//
//   ingress  packet id ─> CRCs of it ─> sums with the keys ─> g, q, v ─> query set, layer, thresholds ─ bridge ┐
//   egress   ┌──────────────────────────────────────────────────────────────────────────────────────────────┘
//            └> fate ; latency, use of the link ─> code of the value ─> digest
//
// All hashes are made in ingress, where hop and packet id are known, and what they
// choose is bridged; what becomes of a packet is decided in egress, where its output port
// is. Both share the stages.
//
// Hashes as in v1model/pint_encoder.p4: q = h(id), g = h(id, hop), v = h(switch, id).
#ifndef WEIR_TNA_PINT_P4
#define WEIR_TNA_PINT_P4

#include "headers.p4"
#include "hash.p4"
#include "../../include/telemetry.p4"

// What ingress tells egress of a packet.
header pint_bridge_t {
    bit<8> kind;          // BRIDGED
    bit<8> hop;           // that is to be written, 0: none
    bit<1> interval;      // of the shim that a source puts in
    bit<1> from_edge;
    bit<1> unmeasured;
    bit<1> two_shims;
    bit<1> path;          // the path is written,
    bit<1> overwrites;    // and not added to
    bit<1> latency;       // latency is written
    bit<1> congestion;    // the most congestion is kept
    bit<16> in_port;
    bit<32> id_high;
    bit<32> id_low;
    bit<48> arrival;
    bit<16> round;        // of the code
    bit<8> v;             // the switch's contribution to the path
}

// The hashes of a packet's digest, and what they choose; the packet id stands in the
// bridge, and p and q are its first round. Tables:
//
//   query_set    q_a: ternary -> set_queries(path, latency, congestion)   prefixes of the sets' ranges
//   layer        q_b: ternary -> set_layer(number, overwrites)            prefixes likewise
//   path_writes  layer, hop: exact -> path_up_to(most)                    g_a is at most: accept's high half
//   sample       hop: exact -> sample_up_to(most)                         g_b is at most: acceptReservoir's high half
//
// Both thresholds are met where the saturating difference is zero.
control pint_hashes(in bit<32> p, in bit<32> q, in bit<8> hop, inout pint_bridge_t bridge) {
    CRC32_OF(p_writer);
    CRC32C_OF(q_writer);
    CRC32_OF(a_set);
    CRC32C_OF(b_set);
    CRC32_OF(a_writer);
    CRC32C_OF(b_writer);
    CRC32C_OF(b_value);
    bit<32> set_u;
    bit<32> set_v;
    bit<32> writer_u;
    bit<32> writer_v;
    bit<32> value_u;
    bit<32> value_v;
    bit<32> q_a;         // query set
    bit<32> q_b;         // layer, rounding
    bit<32> g_a;         // path
    bit<32> g_b;         // sample
    bit<1> of_path;      // the set's queries
    bit<1> of_latency;
    bit<1> which;        // layer
    bit<32> path_most;
    bit<32> sample_most;
    bit<32> path_over;
    bit<32> sample_over;

    // hash.Key of the seeds of q, g and v (telemetry/pint).
    action set_writer_key(bit<32> writer_p, bit<32> writer_q) {
        writer_u = writer_p;
        writer_v = writer_q;
    }
    table writer_key {
        actions = { set_writer_key; }
        default_action = set_writer_key(0, 0);
        size = 1;
    }
    action crc_p_of_writer() {
        writer_u = writer_u + p_writer.get({ SWAP64(bridge.id_high, bridge.id_low), WORD_OF_8(hop) });
    }
    action crc_q_of_writer() {
        writer_v = writer_v + q_writer.get({ SWAP64(bridge.id_high, bridge.id_low), WORD_OF_8(hop) });
    }

    action add_set_key(bit<32> set_p, bit<32> set_q) {
        set_u = p + set_p;
        set_v = q + set_q;
    }
    table set_key {
        actions = { add_set_key; }
        default_action = add_set_key(0, 0);
        size = 1;
    }

    // The first round of (switch, id) differs from that of id by a constant of the switch,
    // as a CRC does whose beginning is another:
    // CRC(switch, id) = CRC(id) ^ (CRC(switch, 0) ^ CRC(0)), with words of 8 bytes.
    action begin_with_switch(bit<32> switch_p, bit<32> switch_q) {
        value_u = p ^ switch_p;
        value_v = q ^ switch_q;
    }
    table switch_id {
        actions = { begin_with_switch; }
        default_action = begin_with_switch(0, 0);
        size = 1;
    }
    action add_value_key(bit<32> value_p, bit<32> value_q) {
        value_u = value_u + value_p;
        value_v = value_v + value_q;
    }
    table value_key {
        actions = { add_value_key; }
        default_action = add_value_key(0, 0);
        size = 1;
    }

    action mix_writer() {
        writer_u = writer_u + writer_v;
    }
    action mix_set() {
        set_u = set_u + set_v;
    }
    action mix_value() {
        value_u = value_u + value_v;
    }
    action second_of_set_a() {
        q_a = a_set.get({ set_u, set_v });
    }
    action second_of_set_b() {
        q_b = b_set.get({ set_u, set_v });
    }
    action second_of_writer_a() {
        g_a = a_writer.get({ writer_u, writer_v });
    }
    action second_of_writer_b() {
        g_b = b_writer.get({ writer_u, writer_v });
    }
    action second_of_value() {
        bridge.v = b_value.get({ value_u, value_v })[7:0];
    }

    action set_queries(bit<1> path, bit<1> latency, bit<1> congestion) {
        of_path = path;
        of_latency = latency;
        bridge.congestion = congestion;
    }
    table query_set {
        key = { q_a: ternary; }
        actions = { set_queries; }
        default_action = set_queries(0, 0, 0);
        size = 256;
    }

    action set_layer(bit<1> number, bit<1> overwriting) {
        which = number;
        bridge.overwrites = overwriting;
    }
    table layer {
        key = { q_b: ternary; }
        actions = { set_layer; }
        default_action = set_layer(0, 0);
        size = 64;
    }

    action path_up_to(bit<32> most) {
        path_most = most;
    }
    table path_writes {
        key = {
            which: exact;
            hop: exact;
        }
        actions = { path_up_to; }
        default_action = path_up_to(0);
        size = 512;
    }
    action sample_up_to(bit<32> most) {
        sample_most = most;
    }
    table sample {
        key = { hop: exact; }
        actions = { sample_up_to; }
        default_action = sample_up_to(0);
        size = 256;
    }
    action exceed_path() {
        path_over = g_a |-| path_most;
    }
    action exceed_sample() {
        sample_over = g_b |-| sample_most;
    }


    action write_path() {
        bridge.path = 1;
    }
    action keep_path() {
        bridge.path = 0;
    }
    table path_choice {
        key = {
            of_path: ternary;
            path_over: ternary;
        }
        actions = { write_path; keep_path; }
        const default_action = keep_path();
        const entries = {
            (1, 0): write_path();
        }
        size = 2;
    }
    action write_latency() {
        bridge.latency = 1;
    }
    action keep_latency() {
        bridge.latency = 0;
    }
    table latency_choice {
        key = {
            of_latency: ternary;
            sample_over: ternary;
        }
        actions = { write_latency; keep_latency; }
        const default_action = keep_latency();
        const entries = {
            (1, 0): write_latency();
        }
        size = 2;
    }
    action take_round() {
        bridge.round = q_b[15:0];
    }

    apply {
        writer_key.apply();
        crc_p_of_writer();
        crc_q_of_writer();
        set_key.apply();
        switch_id.apply();
        value_key.apply();
        mix_writer();
        mix_set();
        mix_value();
        second_of_set_a();
        second_of_set_b();
        second_of_writer_a();
        second_of_writer_b();
        second_of_value();
        take_round();
        query_set.apply();
        layer.apply();
        sample.apply();
        path_writes.apply();
        exceed_sample();
        exceed_path();
        path_choice.apply();
        latency_choice.apply();
    }
}

// The use of the output link. The moving average of pint.Utilisation, whose state
// is multiplied for each packet, is no operation that a register can do in one pass. Here two of
// the target's low-pass filters take its place, one of the rate of bytes and one of
// the queue, with the round trip time as their time constant: their sum is the use
// times the bytes of a full link in that time, up to a factor which the table of logarithms
// takes away. So codes are those of the Go stage for the value, and the value is measured
// by other means. Queues count in cells of 80 bytes, so the filter's scale makes
// them bytes.
control link_use(in egress_intrinsic_metadata_t intrinsic, out bit<32> rate, out bit<32> queue) {
    DirectLpf<bit<32>>() rate_filter;
    DirectLpf<bit<32>>() queue_filter;
    bit<32> length;
    bit<32> depth;

    action filter_rate() {
        rate = rate_filter.execute(length);
    }
    table rates {
        key = { intrinsic.egress_port: exact; }
        actions = { filter_rate; @defaultonly NoAction; }
        default_action = NoAction();
        filters = rate_filter;
        size = MAX_PORTS;
    }

    action filter_queue() {
        queue = queue_filter.execute(depth);
    }
    table queues {
        key = { intrinsic.egress_port: exact; }
        actions = { filter_queue; @defaultonly NoAction; }
        default_action = NoAction();
        filters = queue_filter;
        size = MAX_PORTS;
    }

    apply {
        rate = 0;
        queue = 0;
        length = (bit<32>)intrinsic.pkt_length;
        depth = (bit<32>)intrinsic.deq_qdepth;
        rates.apply();
        queues.apply();
    }
}

// The multiplicative code of a value (pint.Codec), of 8 bits: the leading one's place
// gives a logarithm and a shift, the CODE_BITS bits behind it the rest. The plan's q
// of the codec's table is at most CODE_BITS.
//
//   whole   code: exact, value: ternary -> at_K(logarithm)   K is the place of the leading one, from CODE_BITS on:
//                                                            Codec.whole[K+1], in 2^-16 of a code
//                                       -> below(logarithm)  values below 2^CODE_BITS: 0; the part has it all
//   part    code, small: exact, fraction: exact -> part(logarithm)   Codec.part; where small is 1: whole and part of the value
//
// code is 0 for latency and 1 for congestion, whose codecs differ.
#define CODE_BITS 10
#define PLACE(k, low)                                                                  \
    action at_##k(bit<32> logarithm) {                                                 \
        sum = sum + logarithm;                                                         \
        fraction = copy[k - 1:low];                                                    \
    }

control pint_code(in bit<1> of, in bit<32> value, in bit<16> round, out bit<8> code) {
    bit<32> sum;
    bit<32> copy;
    bit<10> fraction;
    bit<1> small;

    // All bits of the copy are cut apart, and by a hash those of what made the value stay
    // together: else the compiler places them one by one.
    Hash<bit<32>>(HashAlgorithm_t.IDENTITY) identity;
    action copy_value() {
        copy = identity.get({ value });
    }

    PLACE(10, 0)
    PLACE(11, 1)
    PLACE(12, 2)
    PLACE(13, 3)
    PLACE(14, 4)
    PLACE(15, 5)
    PLACE(16, 6)
    PLACE(17, 7)
    PLACE(18, 8)
    PLACE(19, 9)
    PLACE(20, 10)
    PLACE(21, 11)
    PLACE(22, 12)
    PLACE(23, 13)
    PLACE(24, 14)
    PLACE(25, 15)
    PLACE(26, 16)
    PLACE(27, 17)
    PLACE(28, 18)
    PLACE(29, 19)
    PLACE(30, 20)
    PLACE(31, 21)
    action below() {
        small = 1;
        fraction = copy[9:0];
    }
    table whole {
        key = {
            of: ternary;
            copy: ternary @name("value");
        }
        actions = {
            below;
            at_10; at_11; at_12; at_13; at_14; at_15; at_16; at_17; at_18; at_19; at_20;
            at_21; at_22; at_23; at_24; at_25; at_26; at_27; at_28; at_29; at_30; at_31;
        }
        default_action = below();
        size = 64;
    }

    action part_of(bit<32> logarithm) {
        sum = sum + logarithm;
    }
    table part {
        key = {
            of: exact;
            small: exact;
            fraction: exact;
        }
        actions = { part_of; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    // Below the smallest value that matters the sum is negative. An identical hash moves
    // what is between containers of different sizes.
    Hash<bit<8>>(HashAlgorithm_t.IDENTITY) narrow;
    action least() {
        code = 0;
    }
    action most() {
        code = 0xff;
    }
    action within() {
        code = narrow.get({ sum[23:16] });
    }
    table bounds {
        key = { sum: ternary; }
        actions = { least; most; within; }
        const default_action = most();
        const entries = {
            32w0x80000000 &&& 32w0x80000000: least();
            32w0x00000000 &&& 32w0xff000000: within();
        }
        size = 2;
    }

    apply {
        sum = (bit<32>)round;
        small = 0;
        copy_value();
        whole.apply();
        part.apply();
        bounds.apply();
    }
}

// What is done to a packet, and what its digest becomes. Tables:
//
//   port         egress port: exact -> set_port(edge, limit, source_limit)   limit: the longest frame plus 1, in the unit of
//                pkt_length (it counts the bridge and the FCS); source_limit: the same less SHIM_LEN
//   plan         digest.isValid() (true), plan: exact -> known(); newest() sets the id for new ones
//   code.*       see pint_code
//
// What fate decides (encodes, records, strips) is zeroed by the parser; each other one is
// written by its table, so that containers are taken no longer than they are needed.
struct pint_egress_t {
    bit<1> to_edge;
    bit<1> known_plan;
    bit<1> encodes;
    bit<1> records;
    bit<1> strips;
    bit<16> plan;        // for new digests
    bit<16> room;        // 0: longer than the link takes
    bit<16> source_room;
    bit<32> latency;
    bit<32> rate;        // their sum is the use of the link
    bit<32> queue;
    bit<32> value;
    bit<8> code;
    bit<8> low;          // the digest
    bit<8> high;
    bit<8> hop;
}

control pint_digest(inout link_headers_t hdr, in pint_bridge_t bridge, in egress_intrinsic_metadata_t intrinsic,
                    in egress_intrinsic_metadata_from_parser_t from_parser,
                    inout egress_intrinsic_metadata_for_deparser_t deparser, inout pint_egress_t md) {
    DirectCounter<bit<64>>(CounterType_t.PACKETS) fates;
    link_use() use;
    pint_code() encode;

    action set_port(bit<1> edge, bit<16> limit, bit<16> source_limit) {
        md.to_edge = edge;
        md.room = limit |-| intrinsic.pkt_length;
        md.source_room = source_limit |-| intrinsic.pkt_length;
    }
    action no_port() {
        md.to_edge = 0;
        md.room = 0;
        md.source_room = 0;
    }
    table port {
        key = { intrinsic.egress_port: exact; }
        actions = { set_port; @defaultonly no_port; }
        default_action = no_port();
        size = MAX_PORTS;
    }

    action known() {
        md.known_plan = 1;
    }
    action unknown_plan() {
        md.known_plan = 0;
    }
    table plan {
        key = {
            hdr.digest.isValid(): exact;
            hdr.shim.plan: exact;
        }
        actions = { known; @defaultonly unknown_plan; }
        default_action = unknown_plan();
        size = 2;
    }
    action newest(bit<16> id) {
        md.plan = id;
    }
    table new_plan {
        actions = { newest; }
        default_action = newest(0);
        size = 1;
    }

    // What becomes of the packet: the counts of stages/pint.
    action left_unmeasured() {
        fates.count();
    }
    action left_mtu() {
        fates.count();
    }
    action left_bare() {
        fates.count();
    }
    action left_forged() {
        deparser.drop_ctl = 1;
        fates.count();
    }
    action sourced() {
        hdr.added.setValid();
        hdr.added.type = TYPE_SHIM;
        hdr.added.version = SHIM_VERSION;
        hdr.added.interval = 0;
        hdr.added.length = DIGEST_LEN - 1;
        hdr.added.hop = 1;
        hdr.added.plan = md.plan;
        hdr.added_digest.setValid();
        md.low = 0;
        md.high = 0;
        md.encodes = 1;
        fates.count();
    }
    action local() {
        md.low = 0;
        md.high = 0;
        md.encodes = 1;
        md.records = 1;
        fates.count();
    }
    action transited() {
        hdr.shim.hop = md.hop;
        md.low = hdr.digest.value[7:0];
        md.high = hdr.digest.value[15:8];
        md.encodes = 1;
        fates.count();
    }
    action unknown() {
        hdr.shim.hop = md.hop;
        fates.count();
    }
    action strip() {
        hdr.shim.setInvalid();
        hdr.digest.setInvalid();
        hdr.other_digest4.setInvalid();
        hdr.other_digest8.setInvalid();
        hdr.other_digest2.setInvalid();
        hdr.other_digest1.setInvalid();
        md.strips = 1;
    }
    action sunk() {
        md.low = hdr.digest.value[7:0];
        md.high = hdr.digest.value[15:8];
        md.encodes = 1;
        md.records = 1;
        md.plan = hdr.shim.plan;
        strip();
        fates.count();
    }
    action stripped() {
        strip();
        fates.count();
    }
    table fate {
        key = {
            bridge.from_edge: ternary;
            md.to_edge: ternary;
            bridge.unmeasured: ternary;
            hdr.shim.isValid(): ternary;
            bridge.two_shims: ternary;
            md.known_plan: ternary;
            md.room: ternary;
            md.source_room: ternary;
        }
        actions = {
            left_unmeasured; left_mtu; left_bare; left_forged; sourced; local; transited; unknown; sunk; stripped;
        }
        const default_action = left_bare();
        const entries = {
            (1, 1, 1, _, _, _, _, _): left_unmeasured();
            (1, 1, _, _, _, _, _, _): local();
            (1, _, _, true, _, _, _, 0): left_forged();
            (1, _, _, _, _, _, _, 0): left_mtu();
            (1, _, _, _, 1, _, _, _): left_forged();
            (1, _, 1, _, _, _, _, _): left_unmeasured();
            (1, _, _, _, _, _, _, _): sourced();
            (_, _, _, false, _, _, _, _): left_bare();
            (_, 0, _, _, 1, _, 0, _): left_forged();
            (_, 0, _, _, _, _, 0, _): stripped();
            (_, 1, 1, _, _, _, _, _): stripped();
            (_, 1, _, _, _, 1, _, _): sunk();
            (_, 1, _, _, _, _, _, _): stripped();
            (_, _, 1, _, _, _, _, _): left_unmeasured();
            (_, _, _, _, _, 1, _, _): transited();
            (_, _, _, _, _, _, _, _): unknown();
        }
        counters = fates;
        size = 16;
    }

    action subtract_arrival() {
        md.latency = from_parser.global_tstamp[31:0] - bridge.arrival[31:0];
    }
    action take_use() {
        md.value = md.rate + md.queue;
    }
    action take_latency() {
        md.value = md.latency;
    }

    action keep() { }
    action overwrite() {
        md.low = bridge.v;
    }
    action add() {
        md.low = md.low ^ bridge.v;
    }
    table path {
        key = {
            md.encodes: ternary;
            bridge.hop: ternary;
            bridge.path: ternary;
            bridge.overwrites: ternary;
        }
        actions = { overwrite; add; keep; }
        const default_action = keep();
        const entries = {
            (_, 0, _, _): keep();
            (1, _, 1, 1): overwrite();
            (1, _, 1, 0): add();
        }
        size = 4;
    }

    action keep_numeric() { }
    action put_latency() {
        md.high = md.code;
    }
    action put_congestion() {
        md.high = max(md.high, md.code);
    }
    table numeric {
        key = {
            md.encodes: ternary;
            bridge.hop: ternary;
            bridge.latency: ternary;
            bridge.congestion: ternary;
        }
        actions = { put_latency; put_congestion; keep_numeric; }
        const default_action = keep_numeric();
        const entries = {
            (_, 0, _, _): keep_numeric();
            (1, _, 1, _): put_latency();
            (1, _, _, 1): put_congestion();
        }
        size = 4;
    }

    action write_digest() {
        hdr.digest.value = md.high ++ md.low;
    }
    action write_added() {
        hdr.added_digest.value = md.high ++ md.low;
    }
    // An action of its own: one that writes constants into a container cannot move a bit
    // into it from another place.
    action mark_interval() {
        hdr.added.interval = 1;
    }

    apply {
        port.apply();
        plan.apply();
        new_plan.apply();
        subtract_arrival();
        use.apply(intrinsic, md.rate, md.queue);
        // The hop stays at its largest.
        if (bridge.hop == 0) {
            md.hop = MAX_HOPS;
        } else {
            md.hop = bridge.hop;
        }
        if (bridge.congestion == 1) {
            take_use();
        } else {
            take_latency();
        }
        encode.apply(bridge.congestion, md.value, bridge.round, md.code);
        fate.apply();
        path.apply();
        numeric.apply();
        // A digest that is not known to be of this plan stays as it is.
        if (hdr.added.isValid()) {
            write_added();
            if (bridge.interval == 1) {
                mark_interval();
            }
        } else if (md.encodes == 1 && bridge.from_edge == 0) { // from one edge to another a host's own shim stays
            write_digest();
        }
    }
}

#endif
