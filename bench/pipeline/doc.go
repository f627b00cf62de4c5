// Package pipeline measures what Weir's own code costs for each packet, without any I/O: stages and
// graphs on one core, and whole workers between ports of memory.
//
//	frames of a ring, written anew --> descriptors --> pipeline.Graph --> the next batch
//	       outside the clock           |------------- in the clock -------------|
//
// # What is timed
//
// A pass takes each frame of a ring once, in batches of 64. It sets the descriptors as a driver does
// when it empties an RX ring, and runs the real graph. The clock is read before and after a pass, so its
// own cost, some 40 ns, is spread over thousands of packets. Between passes, outside the clock, each
// frame gets another packet of the workload, as a device writes it: frames are hot, flows and addresses
// vary by packet, and no packet comes twice.
//
// The batches' clock runs only while their row is timed: l2 marks an address once in a second, and
// in a short turn would otherwise mark all of them. Wall time counts; a thread's processor time is next to it. Where the two differ, something else ran on
// the core. The row drop is the floor: descriptors alone, and a graph without stages; touch reads each
// packet's header and chooses a port. A stage's cost is the difference between the graph that ends
// with it and the one before, within the same round.
//
// # Working sets
//
// A ring has 4096 frames of 2 KiB, what the default fill rings of two ports hold, and a pass visits them in
// an order that no prefetcher guesses, as frames lie in a ring after some time. Headers begin at
// the same offset of every frame, so 4096 of them share few sets of a cache and the first two levels hold
// only some hundred: most headers come from the third one. The rows whose names end in _cold
// read 64 MiB or twice the last cache, whichever is more, before each pass, so nothing is in any cache.
//
// # Rounds
//
// All rows take turns in rounds, each beginning with another row; a figure is the median of the rounds,
// with the best round and the spread beside it. Ratios and differences are taken within a round.
// Every packet must leave by its port: a run that dropped or flooded one is an error.
package pipeline
