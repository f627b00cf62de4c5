// DiSketch on Tofino 1: a fragment of a sketch, in front of which packets go from port
// to port.
//
//   ingress  messages ─> flow hash ─> first round of it ─ bridge ─> egress: disketch
//
// What this target does otherwise than stages/disketch: include/disketch_control.p4,
// and include/parser.p4 of packets that it does not measure. One fragment; by 5-tuple;
// no UnivMon, no candidates.
#include <core.p4>
#include <tna.p4>

#include "include/parser.p4"
#include "include/block.p4"
#include "include/flow_hash.p4"
#include "include/clock.p4"
#include "include/patch.p4"
#include "include/disketch_control.p4"

// In front of a packet between ingress and egress.
header bridge_t {
    @flexible bit<32> p; // first round of the flow
    @flexible bit<32> q;
    @flexible bit<1> from_host;
    @flexible bit<1> unmeasured;
}

struct ingress_headers_t {
    bridge_t bridge;
    headers_t packet;
}

struct ingress_metadata_t {
    packet_t packet;
    block_t block;
    flow_t flow;
    bit<32> flow_hash;
    bit<32> flow_high;
    bit<1> from_edge;
}

parser ingress_parser(packet_in pkt, out ingress_headers_t hdr, out ingress_metadata_t md,
                      out ingress_intrinsic_metadata_t intrinsic) {
    parse_packet() packet;

    state start {
        pkt.extract(intrinsic);
        pkt.advance(PORT_METADATA_SIZE);
        packet.apply(pkt, hdr.packet, md.packet);
        transition accept;
    }
}

control ingress(inout ingress_headers_t hdr, inout ingress_metadata_t md, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t deparser, inout ingress_intrinsic_metadata_for_tm_t tm) {
    messages() message;
    flow_hash() hash_flow;
    patch() forward;
    disketch_ports() ports;
    CRC32_OF(p);
    CRC32C_OF(q);

    action first_p() {
        hdr.bridge.p = p.get({ SWAP32(md.flow_hash), 32w0 });
    }
    action first_q() {
        hdr.bridge.q = q.get({ SWAP32(md.flow_hash), 32w0 });
    }
    action bridge() {
        hdr.bridge.setValid();
        hdr.bridge.unmeasured = md.packet.unmeasured;
    }

    apply {
        bridge();
        forward.apply(intrinsic.ingress_port, md.from_edge, tm, deparser);
        ports.apply(intrinsic.ingress_port, hdr.bridge.from_host);
        message.apply(hdr.packet, md.packet, md.block, md.flow);
        hash_flow.apply(md.block, md.flow, md.flow_high, md.flow_hash);
        first_p();
        first_q();
    }
}

control ingress_deparser(packet_out pkt, inout ingress_headers_t hdr, in ingress_metadata_t md,
                         in ingress_intrinsic_metadata_for_deparser_t deparser) {
    apply {
        pkt.emit(hdr.bridge);
        pkt.emit(hdr.packet);
    }
}

struct egress_headers_t {
    bridge_t bridge;
}

struct egress_metadata_t {
    bit<32> now;
    bit<16> length; // WireLen
    bit<1> to_host;
}

parser egress_parser(packet_in pkt, out egress_headers_t hdr, out egress_metadata_t md,
                     out egress_intrinsic_metadata_t intrinsic) {
    state start {
        pkt.extract(intrinsic);
        pkt.extract(hdr.bridge);
        transition accept;
    }
}

control egress(inout egress_headers_t hdr, inout egress_metadata_t md, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    tai() clock;
    disketch_ports() ports;
    disketch() fragment;

    // Lengths that the target tells have the bridge and the frame's checksum in them.
    action wire_length() {
        md.length = intrinsic.pkt_length - (bit<16>)(sizeInBytes(hdr.bridge) + 4);
    }

    apply {
        wire_length();
        clock.apply(from_parser.global_tstamp, md.now);
        ports.apply(intrinsic.egress_port, md.to_host);
        fragment.apply(hdr.bridge.p, hdr.bridge.q, md.now, md.length, sizeInBytes(hdr.bridge) + 4,
                       hdr.bridge.from_host, md.to_host, hdr.bridge.unmeasured);
    }
}

// What follows the bridge is the packet.
control egress_deparser(packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t md,
                        in egress_intrinsic_metadata_for_deparser_t deparser) {
    apply {
    }
}

Pipeline(ingress_parser(), ingress(), ingress_deparser(), egress_parser(), egress(), egress_deparser()) pipe;

Switch(pipe) main;
