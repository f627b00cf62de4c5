// The first round of the packet id, for those who hash it further: the stage behind it.
#ifndef WEIR_TNA_ID_CRCS_P4
#define WEIR_TNA_ID_CRCS_P4

#include "hash.p4"

control id_crcs(in bit<32> id_high, in bit<32> id_low, out bit<32> p, out bit<32> q) {
    CRC32_OF(p_of_id);
    CRC32C_OF(q_of_id);
    action crc_p() {
        p = p_of_id.get({ SWAP64(id_high, id_low) });
    }
    action crc_q() {
        q = q_of_id.get({ SWAP64(id_high, id_low) });
    }
    apply {
        crc_p();
        crc_q();
    }
}

#endif
