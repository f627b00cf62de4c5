// Package oblivious samples the packets of a whole network without counting
// one twice, whatever switches it passed (Ben Basat et al., "Routing-Oblivious
// Network-Wide Measurements", IEEE/ACM Transactions on Networking; sections,
// lemmas and algorithms named here are that paper's).
//
//	switch 1: Sampler ──> Sample ──┐
//	switch 2: Sampler ──> Sample ──┼─ Simple, Improved, Union ──> Volume, Frequency, HeavyHitters,
//	   ...                         │                              Subset, DistinctFlows
//	switch z: Sampler ──> Sample ──┘
//
// Each packet has a rank, a number drawn from a hash of its packet id, so the
// same at each switch of one hash family. A Sampler keeps the chi entries of the smallest ranks.
// What it kept says of every packet that passed there, sampled or not, whether
// its rank is below the chi-th smallest one, the sample's threshold; so samples
// can be joined as sets, and the joined sample is the one of an observer who
// saw every packet once. Workers of a switch, switches, and epochs are merged
// in the same way.
//
// Three kinds of ranks exist. Those that count packets are all the same; bytes
// are where they differ:
//
//	DUS   packets only: the hash h itself
//	UWRA  a packet of w bytes is w entries, with the w order statistics of w
//	      uniform numbers as ranks: each byte is sampled with equal probability
//	NWPS  one entry with rank h/w, priority sampling: each packet by its size,
//	      or by its size and a constant, for estimates of packets and of bytes (Both)
//
// Ranks here are kept when small. The paper's priority w/h is kept when large,
// which is the same; and its ranks of UWRA are r where ours are -ln(1-r), in
// the same order: the order statistics of w exponential variables, whose gaps
// are independent (Rényi, 1953), so that a step takes one logarithm instead of
// a power. All ranks are integers made by integer operations, so all machines
// agree about them to the bit.
//
// Deviations from the paper's text: estimates count the entries below the
// threshold and divide by its probability, (chi-1)/p, which is unbiased where
// chi/p is not, and the priority sample's threshold is not an entry that it
// estimates with; Lemma 3 applies Lemma 2 with epsilon/2, so its 9 is a 12, and
// where theta is small, a bound that knows it asks for far less than the lemma.
//
// The package holds algorithms only: no packets, no clock, no I/O.
package oblivious
