// What samples are made of in oblivious.p4 and weir.p4 alike: how much arrived, and which ranks can enter. They are
// declarations, not a control, so that a program's stages depend on its own sums alone.
#ifndef WEIR_TNA_SAMPLE_P4
#define WEIR_TNA_SAMPLE_P4

// The counter totals: packets and bytes that arrived, exactly (Sample.Packets and Bytes).
#define SAMPLE_TOTALS                                                          \
    Counter<bit<64>, bit<1>>(1, CounterType_t.PACKETS_AND_BYTES) totals;       \
    action count() {                                                           \
        totals.count(0, 4); /* the target counts the frame's checksum */       \
    }

// The high half of the largest rank that can enter. Until the control plane writes
// it, all may. Those that are admitted have a mirrored copy of the type.
#define SAMPLE_LIMIT(rank, type)                                               \
    Register<bit<32>, bit<1>>(1, 0xffffffff) limit;                            \
    RegisterAction<bit<32>, bit<1>, MirrorType_t>(limit) admits = {            \
        void apply(inout bit<32> value, out MirrorType_t admitted) {           \
            admitted = 0;                                                      \
            if (rank <= value) {                                               \
                admitted = type;                                               \
            }                                                                  \
        }                                                                      \
    };

#endif
