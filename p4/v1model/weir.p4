// Weir for BMv2 (simple_switch): the stages in the order of the graph in Go.
//
//   parse -> oblivious, lds -> forward -> [queue] -> pint, disketch, lds -> out
//
// Compile it with WEIR_XXHASH for the hash family xxhash, without for crc (hash.p4), and
// with WEIR_GIVEN_TIME for packets that bring their time along (given_time_t). Packets go to the CPU port, mirroring session CPU_SESSION, as
// copies with the header cpu_t: what arrived at ingress, or what leaves at egress.
#include <core.p4>
#include <v1model.p4>

#include "packet.p4"
#include "hash.p4"
#include "parser.p4"
#include "deparser.p4"
#include "derive.p4"
#include "clock.p4"
#include "forward.p4"
#include "oblivious.p4"
#include "lds.p4"
#include "pint.p4"
#include "disketch.p4"

// standard_metadata.instance_type
#define INSTANCE_INGRESS_CLONE 1
#define INSTANCE_EGRESS_CLONE 2

control verify_checksums(inout headers_t hdr, inout metadata_t meta) {
    // With the checksum in it the sum is 0, however a checksum of 0 was written.
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.mark, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.checksum, hdr.ipv4.src, hdr.ipv4.dst },
            meta.zero, HashAlgorithm.csum16);
        verify_checksum(hdr.ipv4_options.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_length, hdr.ipv4.identification,
              hdr.ipv4.mark, hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.checksum, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4_options.bytes },
            meta.zero, HashAlgorithm.csum16);
    }
}

control ingress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    // By reason: what was dropped, or consumed, here.
    counter(NUM_REASONS, CounterType.packets) ingress_dropped;

    apply {
        ingress_clock.apply(hdr, meta, sm);
        if (meta.reason == NO_REASON) {
            derive.apply(hdr, meta, sm);
        }
        oblivious_ingress.apply(hdr, meta, sm);
        lds_ingress.apply(hdr, meta, sm);
        forward.apply(hdr, meta, sm);
        if (meta.cpu_kind != 0) {
            // Samples are taken before a port is chosen, and what is punted has none.
            meta.cpu_in_port = meta.in_port;
            meta.cpu_out_port = NO_PORT;
            clone_preserving_field_list(CloneType.I2E, CPU_SESSION, CPU_FIELDS);
        }
        if (meta.reason == NO_REASON) {
            sm.egress_spec = (bit<9>)meta.out_port;
        } else {
            ingress_dropped.count((bit<32>)meta.reason);
            sm.mcast_grp = 0;
            mark_to_drop(sm);
        }
    }
}

// to_cpu puts the header in front of a copy for the CPU port.
control to_cpu(inout headers_t hdr, in metadata_t meta) {
    apply {
        hdr.cpu.setValid();
        hdr.cpu.kind = meta.cpu_kind;
        hdr.cpu.hop = meta.cpu_hop;
        hdr.cpu.plan = meta.cpu_plan;
        hdr.cpu.in_port = meta.cpu_in_port;
        hdr.cpu.out_port = meta.cpu_out_port;
        hdr.cpu.digest = meta.cpu_digest;
        hdr.cpu.id = meta.id;
        hdr.cpu.arrival = meta.arrival;
    }
}

control egress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    // By reason, copies of flooded packets too, which copies_dropped has alone.
    counter(NUM_REASONS, CounterType.packets) egress_dropped;
    counter(NUM_REASONS, CounterType.packets) copies_dropped;
    counter(1, CounterType.packets) copies;

    apply {
        if (sm.instance_type == INSTANCE_INGRESS_CLONE || sm.instance_type == INSTANCE_EGRESS_CLONE) {
            to_cpu.apply(hdr, meta);
        } else {
            egress_clock.apply(hdr, meta, sm);
            meta.out_port = (bit<16>)sm.egress_port;
            meta.cpu_kind = 0;
            if (sm.egress_rid != 0) {
                meta.flags = meta.flags | FLAG_COPY;
                copies.count(0);
            }
            if (meta.bridged == 1) {
                l2_leave.apply(hdr, meta);
            }
            pint_egress.apply(hdr, meta, sm);
            disketch_egress.apply(hdr, meta, sm);
            lds_egress.apply(hdr, meta, sm);
            if (meta.cpu_kind != 0) {
                meta.cpu_in_port = meta.in_port;
                meta.cpu_out_port = meta.out_port;
                clone_preserving_field_list(CloneType.E2E, CPU_SESSION, CPU_FIELDS);
            }
            if (meta.reason != NO_REASON) {
                egress_dropped.count((bit<32>)meta.reason);
                if (sm.egress_rid != 0) {
                    copies_dropped.count((bit<32>)meta.reason);
                }
                mark_to_drop(sm);
            }
        }
    }
}

// Checksums are updated where headers change.
control compute_checksums(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

V1Switch(packet_parser(), verify_checksums(), ingress(), egress(), compute_checksums(), packet_deparser()) main;
