// Multiplicative value codes (pint.Codec): code c > 0 stands for
// min * (1+epsilon)^(2(c-1)). The place of the leading bit and the bits behind it
// each index a table; the sum of both logarithms, rounded at random, is the code.
//
// Tables, written by the control plane from pint.Codec:
//
//   whole   value: lpm          -> whole_of(logarithm, zeros)   one entry for each number of leading zeros
//           value of z leading zeros: prefix 2^(63-z), length z+1, zeros = z; value 0: prefix 0, length 64, zeros = 0
//           logarithm: Codec.whole[64-z], two's complement, in 2^-16 of a code
//   part    fraction: lpm       -> part_of(logarithm)           the 16 bits behind the leading one
//           entry i of the 2^q of Codec.part: prefix i << (16-q), length q
#ifndef WEIR_PINT_CODEC_P4
#define WEIR_PINT_CODEC_P4

#include "../include/telemetry.p4"

// code of value, at most top; round is the randomness, the same for all hops.
control pint_codec(in bit<64> value, in bit<ROUND_BITS> round, in bit<DIGEST_BITS> top, out bit<DIGEST_BITS> code) {
    bit<64> sum = 0;
    bit<8> shift = 0;
    bit<CODE_PART_BITS> fraction = 0;

    action whole_of(bit<64> logarithm, bit<8> zeros) {
        sum = logarithm;
        shift = zeros;
    }
    table whole {
        key = { value : lpm; }
        actions = { whole_of; NoAction; }
        default_action = NoAction();
        size = 65;
    }

    action part_of(bit<32> logarithm) {
        sum = sum + (bit<64>)logarithm;
    }
    table part {
        key = { fraction : lpm; }
        actions = { part_of; NoAction; }
        default_action = NoAction();
        size = 1 << CODE_PART_BITS;
    }

    apply {
        whole.apply();
        bit<64> behind = value << shift << 1;
        fraction = behind[63:64 - CODE_PART_BITS];
        part.apply();
        sum = sum + (bit<64>)round;
        bit<64> steps = sum >> ROUND_BITS;
        if (sum[63:63] == 1) {
            code = 0; // below the smallest value that matters
        } else if (steps > (bit<64>)top) {
            code = top;
        } else {
            code = steps[DIGEST_BITS - 1:0];
        }
    }
}

#endif
