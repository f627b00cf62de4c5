// The clock: ns of CLOCK_TAI at ingress and at egress, and the packets that wait at
// the output port. BMv2 counts microseconds from its start; the control plane writes
// how far TAI is ahead of that. With WEIR_GIVEN_TIME each packet tells the time.
#ifndef WEIR_CLOCK_P4
#define WEIR_CLOCK_P4

#include "packet.p4"

#ifdef WEIR_GIVEN_TIME

control ingress_clock(in headers_t hdr, inout metadata_t meta, in standard_metadata_t sm) {
    apply {
        meta.arrival = hdr.given_time.arrival;
        meta.now = hdr.given_time.now;
    }
}

control egress_clock(in headers_t hdr, inout metadata_t meta, in standard_metadata_t sm) {
    apply {
        meta.now = hdr.given_time.now;
        meta.depth = (bit<32>)hdr.given_time.depth;
    }
}

#else

#define NS_PER_TICK 1000

control ingress_clock(in headers_t hdr, inout metadata_t meta, in standard_metadata_t sm) {
    register<time_t>(1) tai_offset;

    apply {
        tai_offset.read(meta.arrival, 0);
        meta.arrival = meta.arrival + (bit<64>)sm.ingress_global_timestamp * NS_PER_TICK;
        meta.now = meta.arrival;
    }
}

control egress_clock(in headers_t hdr, inout metadata_t meta, in standard_metadata_t sm) {
    apply {
        // BMv2's clock may be set back while the packet waits.
        bit<48> stay = sm.egress_global_timestamp - sm.ingress_global_timestamp;
        if (stay[47:47] == 1) {
            stay = 0;
        }
        meta.now = meta.arrival + (bit<64>)stay * NS_PER_TICK;
        meta.depth = (bit<32>)sm.deq_qdepth;
    }
}

#endif

#endif
