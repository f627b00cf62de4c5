// Forwarding of the programs with one system: what arrives at a port leaves by
// another, as stages/patch does.
#ifndef WEIR_TNA_PATCH_P4
#define WEIR_TNA_PATCH_P4

control patch(in PortId_t in_port, inout ingress_intrinsic_metadata_for_tm_t tm,
              inout ingress_intrinsic_metadata_for_deparser_t deparser) {
    action to(PortId_t out_port) {
        tm.ucast_egress_port = out_port;
    }
    action unpatched() {
        deparser.drop_ctl = 1;
    }
    table ports {
        key = { in_port: exact; }
        actions = { to; unpatched; }
        default_action = unpatched();
        size = 512;
    }
    apply {
        ports.apply();
    }
}

#endif
