// The Lossy Difference Sketch on Tofino 1: points at the arrival and at the departure of
// packets, which go from port to port.
//
//   ingress  messages ─> packet id, flow hash ─> lds_columns ─> lds_ingress ─ bridge ─> egress: lds_egress
//
// What this target does otherwise than stages/lds: include/lds_control.p4, and
// include/parser.p4 of packets that it does not measure. Two rows, virtual = 1, a rate each,
// no weights; lengths are what IP says of itself with what stands in front of it, so
// bytes behind the IP packet count no more than the padding to 60 bytes.
#include <core.p4>
#include <tna.p4>

#include "include/parser.p4"
#include "include/block.p4"
#include "include/block_id.p4"
#include "include/patch.p4"
#include "include/flow_hash.p4"
#include "include/lds_control.p4"
#include "include/lds_columns.p4"

// The sums of the digest's hash, which egress would need two stages to make again.
header digest_bridge_t {
    @flexible bit<32> u;
    @flexible bit<32> v;
}

struct ingress_headers_t {
    lds_t lds;
    digest_bridge_t digest;
    headers_t packet;
}

struct ingress_metadata_t {
    packet_t packet;
    block_t block;
    flow_t flow;
    bit<32> id_high;
    bit<32> id_low;
    bit<32> name_high; // of the flow
    bit<32> name_low;
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
    block_id() id;
    patch() forward;
    lds_digest() digest;
    flow_hash() name;
    lds_columns() columns;
    wire_length() wire;
    lds_ingress() points;

    action bridge() {
        hdr.lds.setValid();
        hdr.digest.setValid();
        hdr.lds.measured = 0;
    }
    action measure() {
        hdr.lds.measured = 1;
    }

    apply {
        bridge();
        if (md.packet.unmeasured == 0 && (hdr.packet.ipv4.isValid() || hdr.packet.ipv6.isValid())) {
            measure();
        }
        forward.apply(intrinsic.ingress_port, md.from_edge, tm, deparser);
        message.apply(hdr.packet, md.packet, md.block, md.flow);
        id.apply(md.block, md.id_high, md.id_low);
        digest.apply(md.id_high, md.id_low, hdr.digest.u, hdr.digest.v);
        wire.apply(hdr.packet, hdr.lds.length);
        name.apply(md.block, md.flow, md.name_high, md.name_low);
        columns.apply(md.name_high, md.name_low, hdr.lds.column0, hdr.lds.column1);
        points.apply(hdr.packet, from_parser.global_tstamp, intrinsic.ingress_port, hdr.digest.u, hdr.digest.v, hdr.lds);
    }
}

control ingress_deparser(packet_out pkt, inout ingress_headers_t hdr, in ingress_metadata_t md,
                         in ingress_intrinsic_metadata_for_deparser_t deparser) {
    apply {
        pkt.emit(hdr.lds);
        pkt.emit(hdr.digest);
        pkt.emit(hdr.packet);
    }
}

struct egress_headers_t {
    lds_t lds;
    digest_bridge_t digest;
}

struct egress_metadata_t {
}

parser egress_parser(packet_in pkt, out egress_headers_t hdr, out egress_metadata_t md,
                     out egress_intrinsic_metadata_t intrinsic) {
    state start {
        pkt.extract(intrinsic);
        pkt.extract(hdr.lds);
        pkt.extract(hdr.digest);
        transition accept;
    }
}

control egress(inout egress_headers_t hdr, inout egress_metadata_t md, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    lds_egress() points;

    apply {
        points.apply(from_parser.global_tstamp, intrinsic.egress_port, hdr.digest.u, hdr.digest.v, hdr.lds);
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
