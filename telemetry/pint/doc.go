// Package pint is probabilistic in-band network telemetry: digests of a few
// bits in packets, from which the sink learns the path of a flow, the latency
// of its hops and the congestion that its packets met (Ben Basat et al.,
// "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020; sections and
// appendices named here and below are that paper's).
//
// This package has what all parts share: queries, flows, and the records of what a sink took off packets. The parts
// are packages of their own:
//
//	plan    which queries run on which packets: validation, query engine, files
//	encode  what a switch does to a digest, and what a digest says of it
//	path    which paths explain the digests of a flow
//	sink    digests in, answers out
//
//	Query --plan.New--> Plan --Compile--> encode.Encoder    at each switch: digest in, digest out
//	                     |
//	                     +--sink.NewReader--> Reader        at the sink: digests in, answers out
//
// A global hash of the packet's id decides what a switch does to it, so switches and sink agree without
// a message. None of the packages knows packets or a clock; only plan does I/O, for its file.
package pint
