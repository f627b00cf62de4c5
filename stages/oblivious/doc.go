// Package oblivious is the stage that samples what arrives at a switch, so that
// the samples of all switches together count each packet of the network once,
// whatever its path (package telemetry/oblivious).
//
//	batch ──> [per packet: one hash of its id, one comparison, exact totals] ──> batch
//	               └── rarely: the flow key, into the sample
//
// It changes no packet. Packets are distinguished by the packet id, so all switches
// need the same seed in [stages.parse]; their samples can be merged if kind, unit
// and seed here agree too, and the switches' hash family. With crc and packets as the unit a P4
// target can decide which packets may enter: the comparison is one of 32 bits then. A retransmission is another packet where its header or
// first bytes differ; a packet that a loop brings back is the same.
//
// Records (kind oblivious), one for each epoch: instance 0 is the sample, with exact totals of TCP, UDP and others and how often
// each sampled packet was seen; with flows = true, instance 1 is a sample of flows, of which each counts once. The
// workers' samples are merged into the one that a single worker would have.
//
// Config keys: kind, unit, size, gamma, epoch_bits, seed, key, prefix4, prefix6,
// flows. Metrics: updates_total, records_total, missed_packets_total,
// overruns_total, entries.
package oblivious
