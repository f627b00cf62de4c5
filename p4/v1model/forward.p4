// The forwarding stage: one of patch, l2 and l3, as the control plane says. The
// entries of the others may be empty.
#ifndef WEIR_FORWARD_P4
#define WEIR_FORWARD_P4

#include "patch.p4"
#include "l2.p4"
#include "l3.p4"

control forward(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    action use_none() { }
    action use_patch() { }
    action use_l2() {
        meta.bridged = 1;
    }
    action use_l3() { }

    table forwarding {
        actions = { use_none; use_patch; use_l2; use_l3; }
        default_action = use_none();
    }

    apply {
        if (meta.reason == NO_REASON) {
            switch (forwarding.apply().action_run) {
                use_patch: { patch.apply(meta); }
                use_l2: { l2.apply(hdr, meta, sm); }
                use_l3: { l3.apply(hdr, meta, sm); }
                default: { }
            }
            if (meta.reason == NO_REASON && meta.out_port == NO_PORT && sm.mcast_grp == 0) {
                meta.reason = REASON_NO_PORT;
            }
        }
    }
}

#endif
