// Sizes and numbers of the telemetry stages (telemetry/pint, disketch, lds); a Go
// test keeps what both sides know equal.
#ifndef WEIR_TELEMETRY_P4
#define WEIR_TELEMETRY_P4

#include "types.p4"

// pint. What becomes of a packet (stages/pint, count), exactly one of these ...
#define SOURCED 32w0
#define TRANSITED 32w1
#define SUNK 32w2
#define LOCAL 32w3
#define LEFT_BARE 32w4
#define LEFT_MTU 32w5
#define LEFT_ROOM 32w6
#define LEFT_OTHER 32w7
#define LEFT_NONZERO 32w8
#define LEFT_OWN 32w9
#define LEFT_LOOPING 32w10
#define LEFT_FORGED 32w11
// ... and what is counted beside.
#define UNKNOWN_PLAN 32w12
#define HOP_SATURATED 32w13
#define HOP_UNKNOWN 32w14
#define LOOPS_FOUND 32w15
#define RECORDED 32w16
#define RING_FULL 32w17
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

// Latencies are counted by the leading bit and the LATENCY_BITS behind it; those of 2^LATENCY_TOP ns
// and more, 18 minutes, count as the longest below. A port has 2^LATENCY_PORT_BITS cells.
#define LATENCY_BITS 3
#define LATENCY_TOP 40
#define LATENCY_PORT_BITS 9

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
// Entries of the table of weights: a policy takes four at most, by either address and either port.
#define LDS_WEIGHTS 256

#endif
