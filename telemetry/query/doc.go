// Package query answers questions about a network from the records of its
// switches: typed answers, each with its bounds and with what was missing.
//
//	store.Store ──> Engine ── Volume, HeavyHitters, Frequency, Cardinality   from the network-wide sample
//	                   │ ──── Frequency, Entropy, Cardinality                from the sketch's fragments, along Paths
//	                   │ ──── HeavyHittersAt                                 from one measurement point, of flows named
//	                   └ ──── Between: delay and loss                        from two measurement points
//
// The systems complete each other: the sample knows flows by their keys, which a
// sketch cannot list, so it gives the candidates of the sketch's queries, and a
// total in which no packet counts twice; paths tell which fragments counted a
// flow. A question to which the records say nothing gives [ErrNoRecords].
//
// An Engine is immutable, and safe for concurrent use while its store is.
package query
