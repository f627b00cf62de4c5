// The parser of link headers and of the first shim, for egress.
#ifndef WEIR_TNA_LINK_P4
#define WEIR_TNA_LINK_P4

#include "parser.p4"

parser parse_link(packet_in pkt, out link_headers_t hdr) {
    state start {
        transition link;
    }
    LINK_STATES
    state second_shim {
        transition accept;
    }
    state behind {
        transition accept;
    }
}

#endif
