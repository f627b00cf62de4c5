// The use of output links, as HPCC estimates it (pint.Utilisation): a moving average
// over the round trip time T, with tau for the time since the packet before,
//
//   U <- (T - tau)/T * U + queue*tau/(B*T^2) + bytes/(B*T)
//
// whose products are sums of logarithms (PINT, appendix C).
//
// Registers:
//
//   logarithm    1024 x 32 bits   i: pint.Log's table[i], in 2^-24         control plane
//   exponential  1024 x 64 bits   i: pint.Exp's table[i], in 2^-32         control plane
//   used         by port, 64 bits  U in 2^-32                               this control
//   last         by port, 64 bits  time of the last packet, ns              this control
#ifndef WEIR_PINT_UTILISATION_P4
#define WEIR_PINT_UTILISATION_P4

#include "../include/telemetry.p4"

// What the control plane tells of a link.
struct link_t {
    bit<64> round_trip;     // T, ns
    bit<64> log_round_trip; // log T
    bit<64> log_bytes;      // log(B*T), of the bytes of a full link in T
}

// bit_length is the place of the leading one, counted from 1; 0 of 0.
bit<8> bit_length(in bit<64> x) {
    bit<64> rest = x;
    bit<8> n = (rest[63:32] != 0) ? 8w32 : 8w0;
    bit<8> sum = n;
    rest = rest >> n;
    n = (rest[31:16] != 0) ? 8w16 : 8w0;
    sum = sum + n;
    rest = rest >> n;
    n = (rest[15:8] != 0) ? 8w8 : 8w0;
    sum = sum + n;
    rest = rest >> n;
    n = (rest[7:4] != 0) ? 8w4 : 8w0;
    sum = sum + n;
    rest = rest >> n;
    n = (rest[3:2] != 0) ? 8w2 : 8w0;
    sum = sum + n;
    rest = rest >> n;
    n = (rest[1:1] != 0) ? 8w2 : rest[7:0];
    return sum + n;
}

control pint_utilisation(in bit<32> port, in bit<64> now, in bit<64> queue, in bit<64> bytes, in link_t link, out bit<64> value) {
    register<bit<32>>(UTILISATION_TABLE_SIZE) logarithm;
    register<bit<64>>(UTILISATION_TABLE_SIZE) exponential;
    register<bit<64>>(MAX_PORTS) used;
    register<bit<64>>(MAX_PORTS) last;

    // Logarithms are in two's complement. That of 0 is below any other.
    action log2(in bit<64> x, out bit<64> log) {
        bit<8> n = bit_length(x);
        bit<64> fraction = x << (8w65 - n);
        bit<32> entry;
        logarithm.read(entry, (bit<32>)fraction[63:64 - UTILISATION_TABLE_BITS]);
        log = (((bit<64>)n - 1) << LOG_FRACTION) + (bit<64>)entry;
    }

    // 2^x rounded down, at most 2^60, so that sums of a few do not overflow.
    action exp2(in bit<64> x, out bit<64> power) {
        bit<64> entry;
        exponential.read(entry, (bit<32>)x[LOG_FRACTION - 1:LOG_FRACTION - UTILISATION_TABLE_BITS]);
        bit<64> n = x >> LOG_FRACTION;
        bit<8> right = EXP_BITS - n[7:0];
        bit<8> left = n[7:0] - EXP_BITS;
        power = (n <= EXP_BITS) ? entry >> right : entry << left;
        power = (n > 60 || power > 1 << 60) ? 64w1 << 60 : power;
        power = (x[63:63] == 1) ? 64w0 : power;
    }

    // x * 2^factor, or 0 if x or y is.
    action product(in bit<64> x, in bit<64> y, in bit<64> factor, out bit<64> z) {
        bit<64> log;
        log2(x, log);
        bit<64> power;
        exp2(log + factor, power);
        z = (x == 0 || y == 0) ? 64w0 : power;
    }

    apply {
        bit<64> u;
        bit<64> before;
        used.read(u, port);
        last.read(before, port);
        bit<64> tau = 0;
        if (now > before) {
            tau = now - before;
            last.write(port, now);
        }
        if (tau > link.round_trip) {
            tau = link.round_trip;
        }
        bit<64> log_tau;
        log2(tau, log_tau);

        bit<64> term;
        if (tau <= link.round_trip >> 1) {
            product(u, tau, log_tau - link.log_round_trip, term);
            u = (u > term) ? u - term : 64w0;
        } else {
            bit<64> rest = link.round_trip - tau;
            bit<64> log_rest;
            log2(rest, log_rest);
            product(u, rest, log_rest - link.log_round_trip, term);
            u = term;
        }
        const bit<64> one = UTILISATION_SCALE << LOG_FRACTION;
        product(queue, tau, log_tau - link.log_bytes - link.log_round_trip + one, term);
        u = u + term;
        product(bytes, 1, one - link.log_bytes, term);
        u = u + term;
        used.write(port, u);
        value = u >> (UTILISATION_SCALE - UTILISATION_VALUE_BITS);
    }
}

#endif
