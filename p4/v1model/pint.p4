// PINT at the output ports (stages/pint): the source puts a digest into packets from
// edge ports, transit writes the next hop, the sink writes the last one, takes the
// digest out and hands it to the control plane. Two plans are live: sources write
// plan, and next_plan is written and taken out, too, while one replaces the other.
//
// What becomes of a packet is what the Go stage does with it, but for packets of the
// switch itself, loop queries, and frames without headroom, which BMv2 does not have.
//
// Tables:
//
//   plan           no key -> set_plan(id)                         plans of DIGEST_BITS-7 to DIGEST_BITS bits
//   carrier        no key -> by_shim(bits)                        interval_bits; 0: the interval bit stays clear
//                         -> by_identification(any)               1: identification = "any", 0: "zero"
//   hops           no key -> from_shim(), from_ttl(initial)       0: the nearest of 32, 64, 128 and 255
//   next_plan      no key -> set_next_plan(id)                    none without the action
//   next_hops      no key -> as hops, of next_plan
//   arrival_port   meta.in_port: exact -> edge_in()               the edge ports
//   port           meta.out_port: exact -> set_port(edge, longest, round_trip, log_round_trip, log_bytes)
//                  all ports; longest: what the port sends, in bytes (2^32-1: no limit), the others as in pint.Utilisation
//   encoder.*      see pint_encoder.p4, pint_codec.p4; next_encoder.*: of next_plan
//
// Registers:
//
//   utilisation.*  see pint_utilisation.p4
//   latencies      by port << LATENCY_PORT_BITS | leading bit, counted from 1 << LATENCY_BITS | bits behind it:
//                  packets that left by the port with such a latency, of all, 32 bits
//   counts         counters by count (SOURCED and so on, stages/pint/counters.go)
//
// Record: a copy at the CPU port (CPU_RECORD) with plan, hop, digest, packet id and
// arrival in cpu_t, and the packet as it left, which has the flow key.
#ifndef WEIR_PINT_P4
#define WEIR_PINT_P4

#include "packet.p4"
#include "checksum.p4"
#include "../include/telemetry.p4"
#include "pint_encoder.p4"
#include "pint_utilisation.p4"

// What is done to a packet behind the encoder.
const bit<8> DO_NOTHING = 0;
const bit<8> DO_PUT_SHIM = 1;
const bit<8> DO_WRITE_SHIM = 2;
const bit<8> DO_TAKE_SHIM = 3;    // and write a record
const bit<8> DO_STRIP = 4;        // take the shim without one
const bit<8> DO_MARK = 5;         // write the identification
const bit<8> DO_UNMARK = 6;       // restore it, and write a record
const bit<8> DO_RECORD = 7;
const bit<8> DO_DROP = 8;

control pint_egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    counter(PINT_COUNTS, CounterType.packets) counts;
    register<bit<32>>(MAX_PORTS << LATENCY_PORT_BITS) latencies;

    bit<16> plan_id = 0; // that of the packet's digest
    bit<16> next_id = 0;
    bit<1> has_next = 0;
    bit<1> of_next = 0;  // the digest is next_plan's
    bit<1> in_identification = 0;
    bit<1> any_identification = 0;
    bit<8> interval_bits = 0;
    bit<1> hops_from_ttl = 0;
    bit<8> initial_ttl = 0;
    bit<1> from_edge = 0;
    bit<1> to_edge = 0;
    bit<32> max_frame = 0;
    link_t link = { 0, 0, 0 };

    bit<32> fate = LEFT_BARE;
    bit<8> act = DO_NOTHING;
    bit<1> encodes = 0;
    bit<8> hop = 0;
    bit<DIGEST_BITS> written = 0;
    observed_t seen = { 0, 0 };

    pint_utilisation() utilisation;
    pint_encoder() encoder;
    pint_encoder() next_encoder;
    checksum_update() checksum;

    action set_plan(bit<16> id) {
        plan_id = id;
    }
    table plan {
        actions = { set_plan; NoAction; }
        default_action = NoAction();
    }

    action set_next_plan(bit<16> id) {
        next_id = id;
        has_next = 1;
    }
    table next_plan {
        actions = { set_next_plan; NoAction; }
        default_action = NoAction();
    }

    action by_shim(bit<8> bits) {
        in_identification = 0;
        interval_bits = bits;
    }
    action by_identification(bit<1> any) {
        in_identification = 1;
        any_identification = any;
    }
    table carrier {
        actions = { by_shim; by_identification; }
        default_action = by_shim(0);
    }

    action from_shim() {
        hops_from_ttl = 0;
    }
    action from_ttl(bit<8> initial) {
        hops_from_ttl = 1;
        initial_ttl = initial;
    }
    table hops {
        actions = { from_shim; from_ttl; }
        default_action = from_shim();
    }

    table next_hops {
        actions = { from_shim; from_ttl; }
        default_action = from_shim();
    }

    action edge_in() {
        from_edge = 1;
    }
    table arrival_port {
        key = { meta.in_port : exact; }
        actions = { edge_in; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    action set_port(bit<1> edge, bit<32> longest, bit<64> round_trip, bit<64> log_round_trip, bit<64> log_bytes) {
        to_edge = edge;
        max_frame = longest;
        link.round_trip = round_trip;
        link.log_round_trip = log_round_trip;
        link.log_bytes = log_bytes;
    }
    table port {
        key = { meta.out_port : exact; }
        actions = { set_port; NoAction; }
        default_action = NoAction();
        size = MAX_PORTS;
    }

    action put_shim() {
        hdr.host_shim = hdr.shim; // a host's is wrapped
        hdr.host_digest = hdr.digest;
        hdr.host_other_digest = hdr.other_digest;
        hdr.other_digest.setInvalid();
        hdr.shim.setValid();
        hdr.shim.type = TYPE_SHIM;
        hdr.shim.version = SHIM_VERSION;
        bit<64> leaves = (meta.now > meta.arrival) ? meta.now : meta.arrival;
        hdr.shim.interval = (interval_bits == 0) ? 1w0 : (leaves >> interval_bits)[0:0];
        hdr.shim.length = DIGEST_LEN - 1;
        hdr.shim.hop = 1;
        hdr.shim.plan = plan_id;
        hdr.digest.setValid();
        hdr.digest.value = written;
        meta.flags = meta.flags | FLAG_SHIM;
        meta.length = meta.length + SHIM_LEN;
    }

    // What a host sent stands alone again.
    action strip() {
        meta.length = meta.length - SHIM_FIXED_LEN - 1 - (bit<32>)hdr.shim.length;
        hdr.shim = hdr.host_shim;
        hdr.digest = hdr.host_digest;
        hdr.other_digest = hdr.host_other_digest;
        hdr.host_shim.setInvalid();
        hdr.host_digest.setInvalid();
        hdr.host_other_digest.setInvalid();
    }

    action record() {
        meta.cpu_kind = meta.cpu_kind | CPU_RECORD;
        meta.cpu_hop = hop;
        meta.cpu_plan = plan_id;
        meta.cpu_digest = (bit<64>)written;
        counts.count(RECORDED);
    }

    apply {
        if (meta.reason == NO_REASON) {
            if (port.apply().hit) {
                plan.apply();
                next_plan.apply();
                carrier.apply();
                arrival_port.apply();

                // Sources write the first plan.
                if (from_edge == 0 && hdr.shim.isValid() && hdr.shim.plan == next_id) {
                    of_next = has_next;
                }
                if (of_next == 1) {
                    plan_id = next_id;
                    next_hops.apply();
                } else {
                    hops.apply();
                }

                // What waits is known in packets: they count with this one's length.
                utilisation.apply((bit<32>)meta.out_port, meta.now, (bit<64>)meta.depth * (bit<64>)meta.length, (bit<64>)meta.length, link,
                    seen.egress_utilisation);
                if (meta.now > meta.arrival) {
                    seen.hop_latency = meta.now - meta.arrival;
                }
                // Of every packet, as the Go stage has it, to compare with what sinks decode.
                bit<64> latency = (seen.hop_latency >> LATENCY_TOP == 0) ? seen.hop_latency : (64w1 << LATENCY_TOP) - 1;
                bit<8> leading = bit_length(latency);
                bit<64> behind = latency << (8w65 - leading);
                bit<32> bucket = (bit<32>)meta.out_port << LATENCY_PORT_BITS | (bit<32>)leading << LATENCY_BITS |
                    (bit<32>)behind[63:64 - LATENCY_BITS];
                bit<32> packets;
                latencies.read(packets, bucket);
                latencies.write(bucket, packets + 1);

                // How far the TTL is from where it began: 0 if it says nothing.
                bit<8> ttl_hop = 0;
                bit<8> ttl = 0;
                if ((meta.flags & FLAG_IPV4) != 0) {
                    ttl = hdr.ipv4.ttl;
                } else if ((meta.flags & FLAG_IPV6) != 0) {
                    ttl = hdr.ipv6.hop_limit;
                }
                if ((meta.flags & FLAG_IP) != 0) {
                    bit<8> first = initial_ttl;
                    if (first == 0) {
                        if (ttl <= 32) {
                            first = 32;
                        } else if (ttl <= 64) {
                            first = 64;
                        } else if (ttl <= 128) {
                            first = 128;
                        } else {
                            first = 255;
                        }
                    }
                    if (ttl < first) {
                        ttl_hop = first - ttl;
                    }
                }

                // What becomes of the packet.
                bit<1> counts_hops = 0;
                bit<1> atomic = 0;
                if ((meta.flags & FLAG_IPV4) != 0 && hdr.ipv4.dont_fragment == 1 && hdr.ipv4.more_fragments == 0 && hdr.ipv4.offset == 0) {
                    atomic = 1;
                }
                if (meta.id == 0) {
                    fate = LEFT_OWN;
                } else if (from_edge == 1 && to_edge == 1) {
                    // A path of one hop, which needs no carrier.
                    fate = LOCAL;
                    act = DO_RECORD;
                    hop = 1;
                    encodes = 1;
                } else if (in_identification == 1) {
                    if ((meta.flags & FLAG_IPV4) == 0) {
                        fate = LEFT_OTHER;
                    } else if (from_edge == 1) {
                        if (atomic == 0) {
                            fate = LEFT_OTHER;
                        } else if (hdr.ipv4.mark == 1) {
                            fate = LEFT_FORGED;
                            act = DO_DROP;
                        } else if (hdr.ipv4.identification != 0 && any_identification == 0) {
                            fate = LEFT_NONZERO;
                        } else {
                            fate = SOURCED;
                            act = DO_MARK;
                            counts_hops = 1;
                        }
                    } else if (hdr.ipv4.mark == 0 || atomic == 0) {
                        fate = LEFT_BARE;
                    } else {
                        written = hdr.ipv4.identification;
                        counts_hops = 1;
                        if (to_edge == 1) {
                            fate = SUNK;
                            act = DO_UNMARK;
                        } else {
                            fate = TRANSITED;
                            act = DO_MARK;
                        }
                    }
                } else if (from_edge == 1) {
                    if (meta.length + SHIM_LEN > max_frame) {
                        fate = LEFT_MTU;
                        if (hdr.shim.isValid()) {
                            fate = LEFT_FORGED;
                            act = DO_DROP;
                        }
                    } else if (hdr.host_shim.isValid()) {
                        fate = LEFT_FORGED;
                        act = DO_DROP;
                    } else {
                        fate = SOURCED;
                        act = DO_PUT_SHIM;
                        hop = 1;
                        encodes = 1;
                        counts_hops = hops_from_ttl;
                    }
                } else if (!hdr.shim.isValid()) {
                    fate = LEFT_BARE;
                } else if (to_edge == 0 && meta.length > max_frame) {
                    // The packet matters more than its digest; but what is a host's behind
                    // it must not be met by the next switch.
                    if (hdr.host_shim.isValid()) {
                        fate = LEFT_FORGED;
                        act = DO_DROP;
                    } else {
                        fate = LEFT_MTU;
                        act = DO_STRIP;
                    }
                } else {
                    fate = TRANSITED;
                    if (to_edge == 1) {
                        fate = SUNK;
                        act = DO_STRIP;
                    }
                    if (hdr.shim.hop != MAX_HOPS) {
                        hdr.shim.hop = hdr.shim.hop + 1;
                        encodes = 1;
                    } else {
                        counts.count(HOP_SATURATED);
                    }
                    if (hdr.shim.plan != plan_id || !hdr.digest.isValid()) {
                        counts.count(UNKNOWN_PLAN);
                        encodes = 0;
                    } else {
                        hop = hdr.shim.hop;
                        written = hdr.digest.value;
                        counts_hops = hops_from_ttl;
                        act = (to_edge == 1) ? DO_TAKE_SHIM : DO_WRITE_SHIM;
                    }
                }
                counts.count(fate);

                if (counts_hops == 1) {
                    hop = ttl_hop;
                    encodes = 1;
                    if (ttl_hop == 0) {
                        encodes = 0;
                        counts.count(HOP_UNKNOWN);
                    }
                }
                if (encodes == 1) {
                    if (of_next == 1) {
                        next_encoder.apply(meta.id, meta.id_message, hop, seen, written);
                    } else {
                        encoder.apply(meta.id, meta.id_message, hop, seen, written);
                    }
                }

                if (act == DO_PUT_SHIM) {
                    put_shim();
                } else if (act == DO_WRITE_SHIM) {
                    hdr.digest.value = written;
                } else if (act == DO_TAKE_SHIM) {
                    record();
                    strip();
                } else if (act == DO_STRIP) {
                    strip();
                } else if (act == DO_MARK || act == DO_UNMARK) {
                    // Identification, flags and offset of an atomic datagram.
                    bit<32> before = hdr.ipv4.identification ++ hdr.ipv4.mark ++ 15w0x4000;
                    bit<32> word = 0x00004000;
                    if (act == DO_MARK) {
                        word = written ++ 16w0xc000;
                    } else {
                        record();
                    }
                    checksum.apply(hdr.ipv4.checksum, before, word);
                    hdr.ipv4.identification = word[31:16];
                    hdr.ipv4.mark = word[15:15];
                } else if (act == DO_RECORD) {
                    record();
                } else if (act == DO_DROP) {
                    meta.reason = REASON_PINT_HOST_SHIM;
                }
                if (!hdr.shim.isValid()) {
                    meta.flags = meta.flags & ~FLAG_SHIM;
                }
            }
        }
    }
}

#endif
