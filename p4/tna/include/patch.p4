// Forwarding of the programs with one system: what arrives at a port leaves by
// another, as stages/patch does.
#ifndef WEIR_TNA_PATCH_P4
#define WEIR_TNA_PATCH_P4

control patch(in PortId_t in_port, inout ingress_intrinsic_metadata_for_tm_t tm,
              inout ingress_intrinsic_metadata_for_deparser_t deparser) {
    action patch_to(PortId_t port) {
        tm.ucast_egress_port = port;
    }
    action unpatched() {
        deparser.drop_ctl = 1;
    }
    table pairs {
        key = { in_port: exact; }
        actions = { patch_to; unpatched; }
        default_action = unpatched();
        size = MAX_PORTS;
    }
    apply {
        pairs.apply();
    }
}

#endif
