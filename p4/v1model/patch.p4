// The cross-connect (stages/patch).
#ifndef WEIR_PATCH_P4
#define WEIR_PATCH_P4

#include "packet.p4"

control patch(inout metadata_t meta) {
    action patch_to(port_t port) {
        meta.out_port = port;
    }

    action unpatched() {
        meta.reason = REASON_UNPATCHED;
    }

    table pairs {
        key = { meta.in_port: exact; }
        actions = { patch_to; unpatched; }
        default_action = unpatched();
        size = MAX_PORTS;
    }

    apply {
        pairs.apply();
    }
}

#endif
