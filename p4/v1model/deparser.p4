// The deparser: headers in the order in which the parser finds them.
#ifndef WEIR_DEPARSER_P4
#define WEIR_DEPARSER_P4

#include "packet.p4"

control packet_deparser(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.cpu);
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.vlan);
        pkt.emit(hdr.shim);
        pkt.emit(hdr.digest);
        pkt.emit(hdr.other_digest);
        pkt.emit(hdr.host_shim);
        pkt.emit(hdr.host_digest);
        pkt.emit(hdr.host_other_digest);
        pkt.emit(hdr.ether_type);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.ipv4_options);
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.ipv6_extension);
        pkt.emit(hdr.tcp);
        pkt.emit(hdr.tcp_options);
        pkt.emit(hdr.dccp);
        pkt.emit(hdr.dccp_options);
        pkt.emit(hdr.opaque_32);
        pkt.emit(hdr.opaque_16);
        pkt.emit(hdr.opaque_8);
        pkt.emit(hdr.opaque_4);
        pkt.emit(hdr.opaque_2);
        pkt.emit(hdr.opaque_1);
    }
}

#endif
