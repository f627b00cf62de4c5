// Forwarding of all programs: what arrives at a port leaves by another, as stages/patch does. The same entry says
// whether the port of arrival is one to hosts (edge of PINT), as the first stages of weir.p4 have as many tables as a stage can
// have. Programs without PINT do not read it.
#ifndef WEIR_TNA_PATCH_P4
#define WEIR_TNA_PATCH_P4

control patch(in PortId_t in_port, out bit<1> from_edge, inout ingress_intrinsic_metadata_for_tm_t tm,
              inout ingress_intrinsic_metadata_for_deparser_t deparser) {
    action patch_to(PortId_t port, bit<1> edge) {
        tm.ucast_egress_port = port;
        from_edge = edge;
    }
    action unpatched() {
        from_edge = 0;
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
