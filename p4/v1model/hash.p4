// The crc family of seeded hashes (telemetry/hash/crc.go) with the extern of
// v1model. For a message m, whose numbers are least significant byte first,
//
//   p = CRC-32(m), q = CRC-32C(m)                    the first round: of no seed
//   v = q + key.q, u = p + key.p + v                 mod 2^32
//   h = CRC-32(u ++ v) ++ CRC-32C(u ++ v)            the second round
//
// The control plane turns seeds into keys (hash.Key). CRC-32 is that of IEEE 802.3,
// which BMv2 has as crc32. CRC-32C is crc32_custom: in the compiled program every
// calculation with the algorithm crc32_custom needs these parameters before the
// first packet (runtime command set_crc32_parameters NAME ...; names are the
// compiler's, so they are to be read from its output):
//
//   polynomial 0x1edc6f41, initial remainder 0xffffffff, final xor 0xffffffff,
//   data reflected, remainder reflected
#ifndef WEIR_HASH_P4
#define WEIR_HASH_P4

#include "../include/types.p4"

#define CRC32_RANGE 64w0x100000000

// The first round, of a message that is given as a list of fields: crcs is a
// crcs_t. Fields of numbers are swapped before (SWAP64).
#define FIRST_ROUND(crcs, ...)                                                  \
    hash((crcs).p, HashAlgorithm.crc32, 32w0, { __VA_ARGS__ }, CRC32_RANGE);    \
    hash((crcs).q, HashAlgorithm.crc32_custom, 32w0, { __VA_ARGS__ }, CRC32_RANGE)

// A number of 64 bits with its least significant byte first.
#define SWAP64(x)                                                               \
    ((x)[7:0] ++ (x)[15:8] ++ (x)[23:16] ++ (x)[31:24] ++                       \
     (x)[39:32] ++ (x)[47:40] ++ (x)[55:48] ++ (x)[63:56])

// A number below 256 as such a word, and one below 2^16.
#define WORD_OF_8(x) ((x) ++ 56w0)
#define WORD_OF_16(x) ((x)[7:0] ++ (x)[15:8] ++ 48w0)

// The second round.
control second_round(out hash_t h, in crcs_t m, in hash_key_t key) {
    apply {
        bit<32> v = m.q + key.q;
        bit<32> u = m.p + key.p + v;
        hash(h.a, HashAlgorithm.crc32, 32w0, { u, v }, CRC32_RANGE);
        hash(h.b, HashAlgorithm.crc32_custom, 32w0, { u, v }, CRC32_RANGE);
    }
}

#endif
