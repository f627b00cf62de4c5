// Package query answers questions about a network from the records of its
// switches: typed answers, each with its bounds and with what was missing.
//
//	Question ── Validate ──> Engine.Ask ──> the answer type of its Kind, or a Series of a Step
//
//	store.Store ──> Engine ── Volume, HeavyHitters, Frequency, Cardinality   from the network-wide sample
//	                   │ ──── Frequency, Entropy, Cardinality                from the sketch's fragments, along paths
//	                   │ ──── PathAnswer, LatencyAnswer, CongestionAnswer,
//	                   │      LoopsAnswer                                    from PINT's digests, as they came
//	                   │ ──── HeavyHittersAt                                 from one measurement point, of flows named
//	                   │ ──── Between: delay and loss                        from two measurement points
//	                   └ ──── Network                                        from what switches say of themselves
//
// The systems complete each other: the sample knows flows by their keys, which a
// sketch cannot list, so it gives the candidates of the sketch's queries, and a
// total in which no packet counts twice; PINT's digests give the paths, which say
// which fragments counted a flow. A question to which the records say nothing gives
// [ErrNoRecords], one about a flow that none of them is of [ErrUnknownFlow], and one that
// would take more than [Limits] [ErrTooCostly].
//
// Answers from digests are of those in the question's window alone, as if a sink
// had recorded nothing else.
//
// An Engine is immutable, and safe for concurrent use while its store is.
package query
