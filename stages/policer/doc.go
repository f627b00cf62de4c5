// Package policer is the rate limiting stage: a token bucket per policed port,
// which drops what exceeds its rate.
//
//	batch ──> [bucket of the input port] ──> conforming
//	                     └──> dropped: policed
//
// A bucket fills with rate_bits per second up to burst_bytes, and a packet
// takes its length on the wire, without FCS, out of it, or is dropped (RFC 2697's
// committed bucket, without colours). One bucket serves all workers: each takes
// what a whole batch needs with one atomic operation, so no packet costs one.
//
// Config keys: port (name, rate_bits, burst_bytes). Counters: policed packets and
// bytes by port. Drop reason: policed.
package policer
