// Package lds is the Lossy Difference Sketch: the one-way delay and the loss of
// each flow between two points, without a byte in any packet (Sanjuàs-Cuxart,
// Barlet-Ros, Duffield, Kompella, "Sketching the Delay: Tracking Temporally
// Uncorrelated Flow-Level Latencies", IMC 2011; sections and figures named here
// are that paper's).
//
//	packets ──Add──> Point at the sender   ──┐
//	                                         ├─Subtract─> Difference ──Flow──> Estimate
//	packets ──Add──> Point at the receiver ──┘
//
// A Point is a matrix of cells. A packet adds its arrival time, one, its digest
// and its length to one cell of each row: the flow's hash chooses a base, the
// packet's hash one of the k cells from there (the flow's virtual LDA):
//
//	row 0   . . . . [ a b c d e ] . . . . . . .     k = 5 cells of the flow
//	row 1   d e ] . . . . . . . . . . [ a b c       the index wraps modulo C at each step
//
// Where both points have the same packets in a cell, the difference of the
// sums is the sum of the delays, whatever happened between. Count and digest
// decide whether they have; a cell that fails is rejected as a whole. Rows may
// sample, each at its own rate (a bank), so that some cell survives much loss.
//
// Points of several workers merge by addition. A switch adds packets by the batch
// (Block), at half the cost. The smallest delays of both directions bound how far the
// points' clocks are apart (Offset). A point must see what its
// counterpart sees: the same flow hashes, packet ids, weights and intervals, by one hash
// family.
//
// Deviations from the paper: the digest adds up the packets' hashes instead of
// combining them by XOR, which would not see a packet that comes three times;
// rows have their own packet hashes, as in Section 2.3.4 (Fig. 5 has one for
// all); counts of sampled rows are divided by the rate wherever cells are
// compared, which Fig. 6 leaves out; and cells are picked with the noise of
// sampling in mind, see Difference.Flow.
//
// Beside the cells a Point can keep arrivals of single packets (Config.Samples), for quantiles of delay, and name the flows
// that lose packets (Config.LostFlows). What it counts can be a Class of packets, so that two points have the same packets though their
// ports have not.
//
// Size chooses the dimensions (Section 3). The sketch of Section 2.2 (SDS) is a Point of one or more rows with Virtual = 1, but that
// delays come from two points, as Weir's packets carry no timestamp.
//
// The package holds algorithms only: no packets, no clock, no I/O. A Point has
// one writer; a Difference may be read concurrently.
package lds
