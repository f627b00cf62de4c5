// Seeded hashes of messages of 64-bit words (telemetry/hash), in the family that the
// program is compiled for: crc.p4, or with WEIR_XXHASH xxhash.p4. Both have
//
//   word_message_t, pair_message_t, message_t    a message of one, of two, of 2, 4, 5 or 8 words, behind its first round
//   NO_MESSAGE                                   what a message_t may begin with
//   FIRST_ROUND_WORD, FIRST_ROUND_PAIR           the first round, which does not depend on the seed and is done once
//   FIRST_ROUND_2, _4, _5, _8                    for all members of the family
//   word_hash, pair_hash, message_hash           controls: the second round, under a member's key
//
// Words are arguments of the first round, in the order of bytes of the family: NUMBER(x)
// is that of a number, WORD_OF_8(x) that of a number of 8 bits, WIRE(x) that of eight bytes
// as they are in the packet, least significant byte first, WIRE_PAIR(x) two of 16 bytes.
//
// The parameter of set_parse in derive.p4 that has the key is named FAMILY_KEY: its name
// tells the control plane which family the program has.
#ifndef WEIR_HASH_P4
#define WEIR_HASH_P4

#include "../include/types.p4"

// A hash: a is its high half, b its low half.
struct hash_t {
    bit<32> a;
    bit<32> b;
}

// A member of the family, from the control plane: what the family makes of a seed.
typedef bit<64> hash_key_t;

// The bytes of a number of 64 bits the other way round.
#define SWAP64(x)                                                               \
    ((x)[7:0] ++ (x)[15:8] ++ (x)[23:16] ++ (x)[31:24] ++                       \
     (x)[39:32] ++ (x)[47:40] ++ (x)[55:48] ++ (x)[63:56])

#ifdef WEIR_XXHASH
#include "xxhash.p4"
#else
#include "crc.p4"
#endif

#endif
