// One sample of the whole network on Tofino 1: what the sampler admits is copied to the
// CPU port, and packets go from port to port.
//
//   ingress  messages ─> packet id ─> oblivious ─> deparser: a copy with a report_t in front
//
// What this target does otherwise than stages/oblivious: include/oblivious_control.p4,
// and include/parser.p4 of packets that it does not measure. Kinds by bytes and samples
// of flows are left out.
#include <core.p4>
#include <tna.p4>

#include "include/parser.p4"
#include "include/block.p4"
#include "include/block_id.p4"
#include "include/patch.p4"
#include "include/oblivious_control.p4"

struct ingress_headers_t {
    headers_t packet;
}

struct ingress_metadata_t {
    packet_t packet;
    block_t block;
    flow_t flow;
    report_t report;
    MirrorId_t session;
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
    oblivious() sampler;

    // A mirror sends what stands in containers.
    action report() {
        md.session = CPU_SESSION;
        md.report.kind = CPU_SAMPLE;
        md.report.in_port = (bit<16>)intrinsic.ingress_port;
        md.report.arrival = from_parser.global_tstamp;
    }

    apply {
        report();
        forward.apply(intrinsic.ingress_port, md.from_edge, tm, deparser);
        message.apply(hdr.packet, md.packet, md.block, md.flow);
        id.apply(md.block, md.report.id_high, md.report.id_low);
        sampler.apply(md.packet.unmeasured, md.report.id_high, md.report.id_low, deparser.mirror_type);
    }
}

control ingress_deparser(packet_out pkt, inout ingress_headers_t hdr, in ingress_metadata_t md,
                         in ingress_intrinsic_metadata_for_deparser_t deparser) {
    Mirror() mirror;

    apply {
        if (deparser.mirror_type == 1) {
            mirror.emit<report_t>(md.session, { md.report.kind, 0, 0, md.report.in_port, 0, 0,
                md.report.id_high, md.report.id_low, md.report.arrival });
        }
        pkt.emit(hdr.packet);
    }
}

struct egress_headers_t {
}

struct egress_metadata_t {
}

// Nothing is to be done to packets or copies at the egress.
parser egress_parser(packet_in pkt, out egress_headers_t hdr, out egress_metadata_t md,
                     out egress_intrinsic_metadata_t intrinsic) {
    state start {
        pkt.extract(intrinsic);
        transition accept;
    }
}

control egress(inout egress_headers_t hdr, inout egress_metadata_t md, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    apply {
    }
}

control egress_deparser(packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t md,
                        in egress_intrinsic_metadata_for_deparser_t deparser) {
    apply {
    }
}

Pipeline(ingress_parser(), ingress(), ingress_deparser(), egress_parser(), egress(), egress_deparser()) pipe;

Switch(pipe) main;
