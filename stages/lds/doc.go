// Package lds is the pair of stages that measure, for each flow, the one-way
// delay and the loss between two points, with the Lossy Difference Sketch
// (telemetry/lds). lds_ingress counts what arrives at its ports, lds_egress what
// leaves by them; each port is a measurement point. Two points that see the same
// packets are subtracted where the records of both arrive:
//
//	switch 1                                   switch 2
//	... [forward] ── [lds_egress] ── link ── [parse] ── [lds_ingress] ── ...
//	                      │                                   │
//	                sender's record                    receiver's record
//
// Effect on the packet: none. Packets without an IP header have no flow key, and
// are counted as skipped. Both ends need equal rows, columns, virtual, banks,
// weights, interval_bits and seed here, one seed in parse, and one hash family. With crc a P4
// target fills the same cells where columns and virtual are powers of two (else a cell's
// offset is a product), flows weigh 1, and it has as many rows: p4/README.md says what a
// target has.
//
// Timestamps are nanoseconds of CLOCK_TAI. lds_ingress has the packet's arrival:
// that of the XDP program where it was granted (dataplane.timestamps), else the
// batch's clock; timed_packets_total counts the former. lds_egress has
// the batch's clock, read when the batch was received, so its resolution is the time
// of a batch, and of the delay inside one switch it sees what passed between a
// packet's arrival and that reading.
//
// Intervals are 2^interval_bits ns from multiples of that on. By the clock, a
// packet in flight at an edge falls into different intervals at both ends, and
// spoils its cells in both. With interval_bit a packet that carries the PINT
// shim is counted in the interval of the shim's bit (alternate marking,
// RFC 9341), at both ends the same: odd intervals set it. A source sets it by the time at which
// the packet leaves it, and a packet may arrive up to half an interval later or earlier than that. An interval's record comes an interval later
// then, and memory is three times as much.
//
// Clocks that step: at each edge of an interval CLOCK_TAI is held against
// CLOCK_MONOTONIC, which cannot be set. Intervals around a step say so in their
// records, and serve for losses only.
//
// A point is a port, or a class of packets of all measured ports: between two prefixes, which are listed or
// found in the routing table, of a tunnel's VNI, or from the edge that the source wrote into the shim, so that ECMP between two edges is one measurement. A plan says what the points are; another one,
// when routes or the configuration change, takes its place as the exporter returns the workers' cells, and marks the slice partial. With crc
// classes are refused for P4 targets.
//
// Inside one switch a port's ingress point and another's egress point see the
// same packets only where all traffic of the one goes to the other, as with patch.
//
// Memory: rows * columns * 17.2 bytes per point, in two copies per worker and one
// more, three more with interval_bit. Counters: see Metrics. Records: kind lds,
// one per interval and point; the instance is twice the port's number, or the class's above 2^15, plus one
// for egress; the body is telemetry/lds's own form.
package lds
