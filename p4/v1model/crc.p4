// The crc family (telemetry/hash/crc.go) with the extern of v1model. For a message m,
// whose numbers are least significant byte first,
//
//   p = CRC-32(m), q = CRC-32C(m)                    the first round
//   v = q + low half of the key                      mod 2^32
//   u = p + high half of the key + v                 mod 2^32
//   h = CRC-32(u ++ v) ++ CRC-32C(u ++ v)            the second round
//
// The key is hash.Key of the seed. CRC-32 is that of IEEE 802.3, which BMv2 has as
// crc32. CRC-32C is crc32_custom: in the compiled program every calculation with the
// algorithm crc32_custom needs these parameters before the first packet (runtime command
// set_crc32_parameters NAME ...; names are the compiler's, so they are to be read from
// its output):
//
//   polynomial 0x1edc6f41, initial remainder 0xffffffff, final xor 0xffffffff,
//   data reflected, remainder reflected
#ifndef WEIR_CRC_P4
#define WEIR_CRC_P4

#define FAMILY_KEY crc_key

#define CRC32_RANGE 64w0x100000000

// Both CRCs of a message, however long it is.
struct crcs_t {
    bit<32> p; // CRC-32
    bit<32> q; // CRC-32C
}
typedef crcs_t word_message_t;
typedef crcs_t pair_message_t;
typedef crcs_t message_t;

#define NO_MESSAGE { 0, 0 }

#define FIRST_ROUND(m, ...)                                                     \
    hash((m).p, HashAlgorithm.crc32, 32w0, { __VA_ARGS__ }, CRC32_RANGE);       \
    hash((m).q, HashAlgorithm.crc32_custom, 32w0, { __VA_ARGS__ }, CRC32_RANGE)
#define FIRST_ROUND_WORD FIRST_ROUND
#define FIRST_ROUND_PAIR FIRST_ROUND
#define FIRST_ROUND_2 FIRST_ROUND
#define FIRST_ROUND_4 FIRST_ROUND
#define FIRST_ROUND_5 FIRST_ROUND
#define FIRST_ROUND_8 FIRST_ROUND

#define NUMBER(x) SWAP64(x)
#define WORD_OF_8(x) ((x) ++ 56w0)
#define WIRE(x) x
#define WIRE_PAIR(x) x

control crc_hash(out hash_t h, in crcs_t m, in hash_key_t key) {
    apply {
        bit<32> v = m.q + key[31:0];
        bit<32> u = m.p + key[63:32] + v;
        hash(h.a, HashAlgorithm.crc32, 32w0, { u, v }, CRC32_RANGE);
        hash(h.b, HashAlgorithm.crc32_custom, 32w0, { u, v }, CRC32_RANGE);
    }
}
#define word_hash crc_hash
#define pair_hash crc_hash
#define message_hash crc_hash

#endif
