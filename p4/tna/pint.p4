// PINT on Tofino 1: source, transit and sink in one program, between ports that are
// patched through. See include/pint.p4 for what it does and README.md for what a Tofino cannot do.
#include <core.p4>
#include <tna.p4>

#include "include/parser.p4"
#include "include/link.p4"
#include "include/block.p4"
#include "include/block_id.p4"
#include "include/id_crcs.p4"
#include "include/patch.p4"
#include "include/pint.p4"

const MirrorType_t MIRROR_RECORD = 1;

struct ingress_headers_t {
    pint_bridge_t bridge;
    headers_t packet;
}

struct ingress_metadata_t {
    packet_t packet;
    block_t block;
    flow_t flow;
    bit<8> hop;
}

struct egress_headers_t {
    link_headers_t packet;
}

struct egress_metadata_t {
    pint_bridge_t bridge;
    pint_egress_t pint;
    bit<1> bridged; // else it is a copy for the CPU port
    MirrorId_t session;
    bit<8> kind; // of a mirrored copy
}

parser ingress_parser(packet_in pkt, out ingress_headers_t hdr, out ingress_metadata_t md,
                      out ingress_intrinsic_metadata_t intrinsic) {
    parse_packet() parse;
    state start {
        pkt.extract(intrinsic);
        pkt.advance(PORT_METADATA_SIZE);
        md.hop = 1;
        parse.apply(pkt, hdr.packet, md.packet);
        transition accept;
    }
}

control ingress(inout ingress_headers_t hdr, inout ingress_metadata_t md, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t deparser,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    messages() message;
    block_id() id;
    id_crcs() crcs;
    patch() forward;
    pint_hashes() hashes;
    bit<32> p;
    bit<32> q;

    // The parity of the interval of arrival: one entry with the mask of its bit.
    action odd() {
        hdr.bridge.interval = 1;
    }
    table interval {
        key = { intrinsic.ingress_mac_tstamp: ternary; }
        actions = { odd; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1;
    }

    action count_hop() {
        md.hop = hdr.packet.shim.hop + 1; // 0 behind hop 255
    }
    action bridge() {
        hdr.bridge.setValid();
        hdr.bridge.kind = BRIDGED;
        hdr.bridge.interval = 0;
        hdr.bridge.unmeasured = md.packet.unmeasured;
        hdr.bridge.two_shims = md.packet.two_shims;
        hdr.bridge.in_port = (bit<16>)intrinsic.ingress_port;
        hdr.bridge.arrival = intrinsic.ingress_mac_tstamp;
    }
    action bridge_hop() {
        hdr.bridge.hop = md.hop;
    }

    apply {
        bridge();
        forward.apply(intrinsic.ingress_port, hdr.bridge.from_edge, tm, deparser);
        interval.apply();
        if (hdr.bridge.from_edge == 0) {
            count_hop();
        }
        message.apply(hdr.packet, md.packet, md.block, md.flow);
        id.apply(md.block, hdr.bridge.id_high, hdr.bridge.id_low);
        crcs.apply(hdr.bridge.id_high, hdr.bridge.id_low, p, q);
        hashes.apply(p, q, md.hop, hdr.bridge);
        bridge_hop();
    }
}

control ingress_deparser(packet_out pkt, inout ingress_headers_t hdr, in ingress_metadata_t md,
                         in ingress_intrinsic_metadata_for_deparser_t deparser) {
    apply {
        pkt.emit(hdr);
    }
}

// The egress parser does not look behind the shim: what is there is not changed.
parser egress_parser(packet_in pkt, out egress_headers_t hdr, out egress_metadata_t md,
                     out egress_intrinsic_metadata_t intrinsic) {
    parse_link() parse;
    state start {
        pkt.extract(intrinsic);
        md.bridged = 0;
        md.pint.encodes = 0;
        md.pint.records = 0;
        md.pint.strips = 0;
        transition select(pkt.lookahead<bit<8>>()) {
            BRIDGED: bridged;
            default: accept;
        }
    }
    state bridged {
        pkt.extract(md.bridge);
        md.bridged = 1;
        parse.apply(pkt, hdr.packet);
        transition accept;
    }
}

control egress(inout egress_headers_t hdr, inout egress_metadata_t md, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t deparser,
               inout egress_intrinsic_metadata_for_output_port_t output) {
    pint_digest() digest;
    action mirror() {
        deparser.mirror_type = MIRROR_RECORD;
        md.kind = CPU_RECORD;
        md.session = CPU_SESSION;
    }
    apply {
        if (md.bridged == 1) {
            digest.apply(hdr.packet, md.bridge, intrinsic, from_parser, deparser, md.pint);
            if (md.pint.records == 1) {
                mirror();
            }
        }
    }
}

control egress_deparser(packet_out pkt, inout egress_headers_t hdr, in egress_metadata_t md,
                        in egress_intrinsic_metadata_for_deparser_t deparser, in egress_intrinsic_metadata_t intrinsic) {
    Mirror(MIRROR_RECORD) record;
    apply {
        if (deparser.mirror_type == MIRROR_RECORD) {
            record.emit<report_t>(md.session, { md.kind, md.pint.hop, md.pint.plan, md.bridge.in_port,
                (bit<16>)intrinsic.egress_port, md.pint.high ++ md.pint.low, md.bridge.id_high, md.bridge.id_low,
                md.bridge.arrival });
        }
        pkt.emit(hdr);
    }
}

Pipeline(ingress_parser(), ingress(), ingress_deparser(), egress_parser(), egress(), egress_deparser()) pipe;
Switch(pipe) main;
