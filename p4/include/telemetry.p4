// Sizes and numbers of the telemetry stages (telemetry/pint, disketch, lds); a Go
// test keeps what both sides know equal.
#ifndef WEIR_TELEMETRY_P4
#define WEIR_TELEMETRY_P4

#include "types.p4"

// pint. What becomes of a packet (stages/pint, count), exactly one of these ...
const bit<32> SOURCED = 0;
const bit<32> TRANSITED = 1;
const bit<32> SUNK = 2;
const bit<32> LOCAL = 3;
const bit<32> LEFT_BARE = 4;
const bit<32> LEFT_MTU = 5;
const bit<32> LEFT_ROOM = 6;
const bit<32> LEFT_OTHER = 7;
const bit<32> LEFT_NONZERO = 8;
const bit<32> LEFT_OWN = 9;
const bit<32> LEFT_LOOPING = 10;
const bit<32> LEFT_FORGED = 11;
// ... and what is counted beside.
const bit<32> UNKNOWN_PLAN = 12;
const bit<32> HOP_SATURATED = 13;
const bit<32> HOP_UNKNOWN = 14;
const bit<32> LOOPS_FOUND = 15;
const bit<32> RECORDED = 16;
const bit<32> RING_FULL = 17;
#define PINT_COUNTS 18

// Bytes of a shim whose digest has DIGEST_BITS.
#define SHIM_LEN (SHIM_FIXED_LEN + DIGEST_LEN)

// The first round of the codes of values: fractions of a code, and the table of the
// bits behind the leading one.
#define ROUND_BITS 16
#define CODE_PART_BITS 16

// Logarithms are in units of 2^-LOG_FRACTION; the tables of the utilisation are for
// UTILISATION_TABLE_BITS bits of it, and powers have EXP_BITS bits behind the point.
#define LOG_FRACTION 24
#define UTILISATION_TABLE_BITS 10
#define UTILISATION_TABLE_SIZE 1024
#define EXP_BITS 32
// A utilisation of 1 is 2^UTILISATION_SCALE in the register, and 2^16 as a value.
#define UTILISATION_SCALE 32
#define UTILISATION_VALUE_BITS 16

// disketch. Fragments of a switch, and the most cells of one bank of one fragment.
#define FRAGMENTS 2
#define FRAGMENT_COLUMN_BITS 15
#define FRAGMENT_BANK_BITS 1

// lds. Measurement points of a switch on either side, rows of a point, cells of a row
// at most; banks by the parity of the interval.
#define LDS_POINT_BITS 2
#define LDS_ROWS 4
#define LDS_ROW_BITS 2
#define LDS_COLUMN_BITS 10

// Adds to a number of a register of 64 bits.
#define ADD(numbers, index, v) {                \
        bit<64> before_;                        \
        numbers.read(before_, index);           \
        numbers.write(index, before_ + (v));    \
    }

#endif
