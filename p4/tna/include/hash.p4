// The crc family of seeded hashes (telemetry/hash/crc.go) with the externs of TNA.
// For a message m, whose numbers are least significant byte first,
//
//   v = CRC-32C(m) + key.q, u = CRC-32(m) + key.p + v    mod 2^32
//   h = CRC-32(u ++ v) ++ CRC-32C(u ++ v)
//
// A stage has six units that bring 16 bits of a hash to the action bus, so at most
// three CRCs of 32 bits reach containers in a stage, and a table brings one: an action has one
// of them. Where a key stands in a container beforehand, the first round is one stage
// (u = u + CRC, v = v + CRC), the addition of v to u the next one, and the second round
// the third.
// Keys come from the control plane, as default actions of tables without keys.
#ifndef WEIR_TNA_HASH_P4
#define WEIR_TNA_HASH_P4

// One Hash per message and polynomial: CRC-32 (IEEE 802.3) and CRC-32C (Castagnoli),
// both reflected, begun with ones and complemented at the end.
#define CRC32_OF(name) Hash<bit<32>>(HashAlgorithm_t.CRC32) name
#define CRC32C_OF(name)                                                               \
    CRCPolynomial<bit<32>>(32w0x1EDC6F41, true, false, false, 32w0xFFFFFFFF, 32w0xFFFFFFFF) name##_polynomial; \
    Hash<bit<32>>(HashAlgorithm_t.CUSTOM, name##_polynomial) name

// A number of 32 bits with its least significant byte first, in the list of a message,
// and a number of 64 bits that stands in two containers.
#define SWAP32(x) (x)[7:0], (x)[15:8], (x)[23:16], (x)[31:24]
#define SWAP64(high, low) SWAP32(low), SWAP32(high)

// A number below 256 as a word of a message.
#define WORD_OF_8(x) x, 56w0

#endif
