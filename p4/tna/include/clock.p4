// Time: the low 32 bits of nanoseconds of CLOCK_TAI, of which intervals and
// epochs of up to 2^31 ns are bits. The target's clock counts from when it was
// started; the control plane writes what is between the two.
#ifndef WEIR_TNA_CLOCK_P4
#define WEIR_TNA_CLOCK_P4

// Both gresses read one clock, so both offsets are the same but for what a user of
// the time adds.
control tai(in bit<48> timestamp, out bit<32> now) {
    action shift(bit<32> offset) {
        now = timestamp[31:0] + offset;
    }
    table offset {
        actions = { shift; }
        default_action = shift(0);
        size = 1;
    }
    apply {
        offset.apply();
    }
}

#endif
