// All four systems on Tofino 2, between ports that are patched through: one parse, one
// packet id, one flow key, whose first-round CRCs all systems share.
//
//   ingress  packet id ─> CRCs of it ─> PINT's hashes and choices, sample's rank, LDS's digest ┐
//            CRCs of the flow key ─> flow hash, name ─> LDS's columns                          ├─ bridge
//            LDS points of arrival                                                             ┘
//   egress   PINT's digest, DiSketch's fragment, LDS points of departure
//
// Containers are what it has least of: so messages are hashed where they stand (include/sums.p4), and
// CRCs that one word of the bridge leads to are made again in egress.
//
// What this target does otherwise than the Go stages: include/*.p4 and README.md.
#include <core.p4>
#include <t2na.p4>

#include "include/parser.p4"
#include "include/link.p4"
#include "include/id_crcs.p4"
#include "include/linear.p4"
#include "include/sums.p4"
#include "include/patch.p4"
#include "include/sample.p4"
#include "include/clock.p4"
#include "include/pint.p4"
#include "include/disketch_control.p4"

// Stages 9 to 11 have no unit of hashes to spare for the indices of these counters: there
// the rows of departure begin.
#define LDS_ARRIVALS_STAGE @stage(13)
#define LDS_DEPARTURES_STAGE @stage(14)
#include "include/lds_control.p4"
#include "include/lds_columns.p4"

// What the target counts beyond a packet's bytes: the bridge, and the FCS.
#define OVERHEAD (sizeInBytes(md.bridge) + sizeInBytes(md.disketch) + sizeInBytes(md.lds) + 4)

const MirrorType_t MIRROR_SAMPLE = 1;
const MirrorType_t MIRROR_RECORD = 2;

// What DiSketch's fragment needs to know, and LDS of a shim that PINT takes away.
header disketch_bridge_t {
    @flexible bit<32> flow_hash;
    @flexible bit<1> from_host;
    @flexible bit<1> host_odd; // the interval bit of the second shim
}

struct ingress_headers_t {
    pint_bridge_t pint;
    disketch_bridge_t disketch;
    lds_t lds;
    headers_t packet;
}

struct ingress_metadata_t {
    packet_t packet;
    bit<8> hop;
    MirrorId_t session;
    bit<8> kind; // of a mirrored copy
    // First rounds, and sums with keys.
    bit<32> id_p;
    bit<32> id_q;
    bit<32> flow_p;
    bit<32> flow_q;
    bit<32> rank_u;
    bit<32> rank_v;
    bit<32> hash_u;
    bit<32> hash_v;
    bit<32> name_u;
    bit<32> name_v;
    bit<32> lds_u;
    bit<32> lds_v;
    bit<32> name_high;
    bit<32> name_low;
}

struct egress_headers_t {
    link_headers_t packet;
}

struct egress_metadata_t {
    pint_bridge_t bridge;
    disketch_bridge_t disketch;
    lds_t lds;
    pint_egress_t pint;
    bit<32> flow_p; // first round of the flow hash
    bit<32> flow_q;
    bit<32> lds_u;
    bit<32> lds_v;
    bit<32> now;
    bit<16> length;
    bit<1> bridged; // else it is a copy for the CPU port
    bit<1> to_host;
    bit<3> shim_length; // that of the digest of the packet's first shim, less one
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

// The hashes of the flow: packet.FlowHash, and LDS's name of the flow with the columns
// that it leads to.
control flow_hashes(inout ingress_metadata_t md, out bit<32> of_flow, inout lds_t lds) {
    CRC32C_OF(low_hash);
    CRC32_OF(high_name);
    CRC32C_OF(low_name);
    lds_columns() columns;

    // Of the parser's seed, and of the seed 0, under which LDS hashes flow keys.
    action add_keys(bit<32> hash_p, bit<32> hash_q, bit<32> name_p, bit<32> name_q) {
        md.hash_u = md.flow_p + hash_p;
        md.hash_v = md.flow_q + hash_q;
        md.name_u = md.flow_p + name_p;
        md.name_v = md.flow_q + name_q;
    }
    table keys {
        actions = { add_keys; }
        default_action = add_keys(0, 0, 0, 0);
        size = 1;
    }
    action mix_keys() {
        md.hash_u = md.hash_u + md.hash_v;
        md.name_u = md.name_u + md.name_v;
    }
    action second_of_hash() {
        of_flow = low_hash.get({ md.hash_u, md.hash_v });
    }
    action second_of_name_p() {
        md.name_high = high_name.get({ md.name_u, md.name_v });
    }
    action second_of_name_q() {
        md.name_low = low_name.get({ md.name_u, md.name_v });
    }

    apply {
        keys.apply();
        mix_keys();
        second_of_hash();
        second_of_name_p();
        second_of_name_q();
        columns.apply(md.name_high, md.name_low, lds.column0, lds.column1);
    }
}

// The sample's rank (stages/oblivious), and whether it is small enough; LDS's digest
// begins with the same CRCs.
control samples(inout ingress_metadata_t md, inout ingress_intrinsic_metadata_for_deparser_t deparser) {
    LINEAR_CRC32_OF(rank_hash);
    bit<32> rank;     // high half
    bit<32> in_front; // of its message

    SAMPLE_TOTALS
    action add_keys(bit<32> rank_p, bit<32> rank_q, bit<32> digest_p, bit<32> digest_q) {
        md.rank_u = md.id_p + rank_p;
        md.rank_v = md.id_q + rank_q;
        md.lds_u = md.id_p + digest_p;
        md.lds_v = md.id_q + digest_q;
        in_front = IN_FRONT_OF_CRC32;
    }
    table keys {
        actions = { add_keys; }
        default_action = add_keys(0, 0, 0, 0);
        size = 1;
    }
    action mix() {
        md.rank_u = md.rank_u + md.rank_v;
        md.lds_u = md.lds_u + md.lds_v;
    }

    SAMPLE_LIMIT(rank, MIRROR_SAMPLE)
    action admit() {
        rank = rank_hash.get({ in_front, md.rank_u, md.rank_v });
        deparser.mirror_type = admits.execute(0);
    }

    apply {
        count();
        keys.apply();
        mix();
        if (md.packet.unmeasured == 0) {
            admit();
        }
    }
}

control ingress(inout ingress_headers_t hdr, inout ingress_metadata_t md, in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t deparser,
                inout ingress_intrinsic_metadata_for_tm_t tm) {
    packet_id() id;
    flow_crcs() of_flow;
    id_crcs() crcs;
    flow_hashes() flow;
    samples() sample;
    patch() forward;
    pint_hashes() hashes;
    disketch_ports() hosts;
    wire_length() wire;
    lds_ingress() points;

    // The parity of the interval of arrival: one entry with the mask of its bit.
    action odd() {
        hdr.pint.interval = 1;
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
        hdr.pint.setValid();
        hdr.pint.kind = BRIDGED;
        hdr.pint.interval = 0;
        hdr.pint.unmeasured = md.packet.unmeasured;
        hdr.pint.two_shims = md.packet.two_shims;
        hdr.pint.in_port = (bit<16>)intrinsic.ingress_port;
        hdr.pint.arrival = intrinsic.ingress_mac_tstamp;
        hdr.disketch.setValid();
        hdr.disketch.host_odd = hdr.packet.host_shim.interval;
        hdr.lds.setValid();
        hdr.lds.measured = 0;
        md.session = CPU_SESSION;
        md.kind = CPU_SAMPLE;
    }
    action measure() {
        hdr.lds.measured = 1;
    }
    action bridge_hop() {
        hdr.pint.hop = md.hop;
    }

    apply {
        bridge();
        if (md.packet.unmeasured == 0 && (hdr.packet.ipv4.isValid() || hdr.packet.ipv6.isValid())) {
            measure();
        }
        forward.apply(intrinsic.ingress_port, hdr.pint.from_edge, tm, deparser);
        interval.apply();
        hosts.apply(intrinsic.ingress_port, hdr.disketch.from_host);
        if (hdr.pint.from_edge == 0) {
            count_hop();
        }
        id.apply(hdr.packet, md.packet, hdr.pint.id_high, hdr.pint.id_low);
        of_flow.apply(hdr.packet, md.packet, md.flow_p, md.flow_q);
        crcs.apply(hdr.pint.id_high, hdr.pint.id_low, md.id_p, md.id_q);
        flow.apply(md, hdr.disketch.flow_hash, hdr.lds);
        sample.apply(md, deparser);
        hashes.apply(md.id_p, md.id_q, md.hop, hdr.pint);
        wire.apply(hdr.packet, hdr.lds.length);
        points.apply(hdr.packet, hdr.pint.arrival, intrinsic.ingress_port, md.lds_u, md.lds_v, hdr.lds);
        bridge_hop();
    }
}

control ingress_deparser(packet_out pkt, inout ingress_headers_t hdr, in ingress_metadata_t md,
                         in ingress_intrinsic_metadata_for_deparser_t deparser, in ingress_intrinsic_metadata_t intrinsic) {
    Mirror(MIRROR_SAMPLE) sample;
    apply {
        if (deparser.mirror_type == MIRROR_SAMPLE) {
            sample.emit<report_t>(md.session, { md.kind, 0, 0, hdr.pint.in_port, 0, 0,
                hdr.pint.id_high, hdr.pint.id_low, hdr.pint.arrival });
        }
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
        pkt.extract(md.disketch);
        pkt.extract(md.lds);
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
    tai() clock;
    disketch_ports() hosts;
    disketch() fragment;
    lds_digest() sums;
    lds_egress() points;
    CRC32_OF(p_hash);
    CRC32C_OF(q_hash);

    action first_of_hash_p() {
        md.flow_p = p_hash.get({ SWAP32(md.disketch.flow_hash), 32w0 });
    }
    action first_of_hash_q() {
        md.flow_q = q_hash.get({ SWAP32(md.disketch.flow_hash), 32w0 });
    }
    action mirror() {
        deparser.mirror_type = MIRROR_RECORD;
        md.kind = CPU_RECORD;
        md.session = CPU_SESSION;
    }
    // The length on the wire, as it came: the bridge and the FCS are in the target's.
    action measure_length() {
        md.length = intrinsic.pkt_length - (bit<16>)(OVERHEAD);
    }
    action note_shim() {
        md.shim_length = hdr.packet.shim.length;
    }
    action grow() {
        md.length = md.length + SHIM_LEN;
        md.lds.length = md.lds.length + SHIM_LEN;
    }
    // By what is added modulo 2^16: an action cannot subtract its data.
    action shrink(bit<16> change) {
        md.length = md.length + change;
        md.lds.length = md.lds.length + change;
    }
    table stripped {
        key = { md.shim_length: exact; }
        actions = { shrink; }
        default_action = shrink(65536 - SHIM_LEN);
        const entries = {
            0: shrink(65536 - SHIM_FIXED_LEN - 1);
            2: shrink(65536 - SHIM_FIXED_LEN - 3);
            3: shrink(65536 - SHIM_FIXED_LEN - 4);
            4: shrink(65536 - SHIM_FIXED_LEN - 5);
            5: shrink(65536 - SHIM_FIXED_LEN - 6);
            6: shrink(65536 - SHIM_FIXED_LEN - 7);
            7: shrink(65536 - SHIM_FIXED_LEN - 8);
        }
        size = 8;
    }

    // The shim whose bit tells LDS the interval of departure is the first one that leaves. With
    // interval_bit the control plane adds: added -> by_added; strips, two_shims -> by_host; strips alone -> by_clock.
    action by_added() {
        md.lds.marked = 1;
        md.lds.odd = md.bridge.interval;
    }
    action by_host() {
        md.lds.odd = md.disketch.host_odd;
    }
    action by_clock() {
        md.lds.marked = 0;
    }
    table mark {
        key = {
            hdr.packet.added.isValid(): exact @name("added");
            md.pint.strips: exact @name("strips");
            md.bridge.two_shims: exact @name("two_shims");
        }
        actions = { by_added; by_host; by_clock; @defaultonly NoAction; }
        default_action = NoAction();
        size = 8;
    }

    // What PINT drops is not seen behind it.
    action forget() {
        md.bridge.unmeasured = 1;
        md.lds.measured = 0;
    }

    apply {
        if (md.bridged == 1) {
            measure_length();
            note_shim();
            digest.apply(hdr.packet, md.bridge, intrinsic, from_parser, deparser, md.pint);
            if (md.pint.records == 1) {
                mirror();
            }
            if (hdr.packet.added.isValid()) {
                grow();
            } else if (md.pint.strips == 1) {
                stripped.apply();
            }
            mark.apply();
            if (deparser.drop_ctl != 0) {
                forget();
            }
            clock.apply(from_parser.global_tstamp, md.now);
            hosts.apply(intrinsic.egress_port, md.to_host);
            first_of_hash_p();
            first_of_hash_q();
            fragment.apply(md.flow_p, md.flow_q, md.now, md.length, OVERHEAD, md.disketch.from_host, md.to_host,
                           md.bridge.unmeasured);
            sums.apply(md.bridge.id_high, md.bridge.id_low, md.lds_u, md.lds_v);
            points.apply(from_parser.global_tstamp, intrinsic.egress_port, md.lds_u, md.lds_v, md.lds);
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
