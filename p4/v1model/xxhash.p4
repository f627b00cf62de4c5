// The xxhash family (telemetry/hash/xxhash.go): XXH64 of the message's words, least
// significant byte first. The key is the seed. What XXH64 does to a word before the seed
// comes into it is the first round: of words in stripes of four, a product; of the others,
//
//   scramble(w) = rotate(w * PRIME2, 31) * PRIME1
//
// Messages of fewer than four words have no stripe; of 5 words, one is behind the stripe;
// those of 8 have two.
#ifndef WEIR_XXHASH_P4
#define WEIR_XXHASH_P4

#define FAMILY_KEY xxhash_seed

#define PRIME1 64w0x9e3779b185ebca87
#define PRIME2 64w0xc2b2ae3d27d4eb4f
#define PRIME3 64w0x165667b19e3779f9
#define PRIME4 64w0x85ebca77c2b2ae63
#define PRIME5 64w0x27d4eb2f165667c5

// Of one word, and of two: scrambled.
typedef bit<64> word_message_t;
struct pair_message_t {
    bit<64> a;
    bit<64> b;
}

// Of 2, 4, 5 or 8 words, which have so many bytes: a to d are the first stripe of 4 words
// and more, e to h the second one of 8. a and b of 2 words, and e of 5, are scrambled.
struct message_t {
    bit<64> bytes;
    bit<64> a;
    bit<64> b;
    bit<64> c;
    bit<64> d;
    bit<64> e;
    bit<64> f;
    bit<64> g;
    bit<64> h;
}

#define NO_MESSAGE { 0, 0, 0, 0, 0, 0, 0, 0, 0 }

#define FIRST_ROUND_WORD(m, a_) m = scramble(a_)
#define FIRST_ROUND_PAIR(m, a_, b_)                     \
    m.a = scramble(a_);                                 \
    m.b = scramble(b_)
#define FIRST_ROUND_2(m, a_, b_)                        \
    m.bytes = 16;                                       \
    m.a = scramble(a_);                                 \
    m.b = scramble(b_)
#define FIRST_STRIPE(m, a_, b_, c_, d_)                 \
    m.a = (a_) * PRIME2;                                \
    m.b = (b_) * PRIME2;                                \
    m.c = (c_) * PRIME2;                                \
    m.d = (d_) * PRIME2
#define FIRST_ROUND_4(m, a_, b_, c_, d_)                \
    m.bytes = 32;                                       \
    FIRST_STRIPE(m, a_, b_, c_, d_)
// Some of the arguments are two words (WIRE_PAIR), so these count them when they are replaced.
#define FIRST_ROUND_5(m, ...) FIRST_ROUND_5_WORDS(m, __VA_ARGS__)
#define FIRST_ROUND_5_WORDS(m, a_, b_, c_, d_, e_)      \
    m.bytes = 40;                                       \
    FIRST_STRIPE(m, a_, b_, c_, d_);                    \
    m.e = scramble(e_)
#define FIRST_ROUND_8(m, ...) FIRST_ROUND_8_WORDS(m, __VA_ARGS__)
#define FIRST_ROUND_8_WORDS(m, a_, b_, c_, d_, e_, f_, g_, h_)  \
    m.bytes = 64;                                       \
    FIRST_STRIPE(m, a_, b_, c_, d_);                    \
    m.e = (e_) * PRIME2;                                \
    m.f = (f_) * PRIME2;                                \
    m.g = (g_) * PRIME2;                                \
    m.h = (h_) * PRIME2

#define NUMBER(x) (x)
#define WORD_OF_8(x) ((bit<64>)(x))
#define WIRE(x) SWAP64(x)
#define WIRE_PAIR(x) SWAP64((x)[127:64]), SWAP64((x)[63:0])

// A rotation to the left that has x once: the product has x in both halves, n bits further
// on. The compiler replaces variables by what they were assigned, so what is named twice
// is computed twice, and what is named twice in that four times; behind a call of an
// action it does not.
#define ROTATE(x, n) (((bit<128>)(x) * ((128w1 << n) | (128w1 << (64 + n))))[127:64])

// A word of a stripe, as a product, mixed into a lane.
bit<64> lane(in bit<64> before, in bit<64> product) {
    return ROTATE(before + product, 31) * PRIME1;
}

bit<64> scramble(in bit<64> w) {
    return lane(0, w * PRIME2);
}

// A lane joined to the state behind all stripes.
bit<64> join(in bit<64> state, in bit<64> v) {
    return (state ^ scramble(v)) * PRIME1 + PRIME4;
}

// A word, scrambled, behind the stripes.
bit<64> tail(in bit<64> state, in bit<64> scrambled) {
    return ROTATE(state ^ scrambled, 27) * PRIME1 + PRIME4;
}

// Each bit of the state x comes to each one of the hash.
#define AVALANCHE(hash, x)              \
    x = (x ^ (x >> 33)) * PRIME2;       \
    x = (x ^ (x >> 29)) * PRIME3;       \
    x = x ^ (x >> 32);                  \
    hash.a = x[63:32];                  \
    hash.b = x[31:0]

control word_hash(out hash_t h, in word_message_t m, in hash_key_t key) {
    bit<64> x;

    @hidden action mix() {
        x = tail(key + (PRIME5 + 8), m);
    }
    @hidden action avalanche() {
        AVALANCHE(h, x);
    }

    apply {
        mix();
        avalanche();
    }
}

control pair_hash(out hash_t h, in pair_message_t m, in hash_key_t key) {
    bit<64> x;

    @hidden action mix() {
        x = tail(tail(key + (PRIME5 + 16), m.a), m.b);
    }
    @hidden action avalanche() {
        AVALANCHE(h, x);
    }

    apply {
        mix();
        avalanche();
    }
}

control message_hash(out hash_t h, in message_t m, in hash_key_t key) {
    bit<64> x;
    bit<64> v1;
    bit<64> v2;
    bit<64> v3;
    bit<64> v4;

    @hidden action mix_two() {
        x = tail(tail(key + (PRIME5 + 16), m.a), m.b);
    }
    @hidden action first_stripe() {
        v1 = lane(key + (PRIME1 + PRIME2), m.a);
        v2 = lane(key + PRIME2, m.b);
        v3 = lane(key, m.c);
        v4 = lane(key - PRIME1, m.d);
    }
    @hidden action second_stripe() {
        v1 = lane(v1, m.e);
        v2 = lane(v2, m.f);
        v3 = lane(v3, m.g);
        v4 = lane(v4, m.h);
    }
    @hidden action merge() {
        x = ROTATE(v1, 1) + ROTATE(v2, 7) + ROTATE(v3, 12) + ROTATE(v4, 18);
        x = join(join(join(join(x, v1), v2), v3), v4) + m.bytes;
    }
    @hidden action mix_last() {
        x = tail(x, m.e);
    }
    @hidden action avalanche() {
        AVALANCHE(h, x);
    }

    apply {
        if (m.bytes == 16) {
            mix_two();
        } else {
            first_stripe();
            if (m.bytes == 64) {
                second_stripe();
            }
            merge();
            if (m.bytes == 40) {
                mix_last();
            }
        }
        avalanche();
    }
}

#endif
