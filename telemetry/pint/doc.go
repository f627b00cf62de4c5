// Package pint is probabilistic in-band network telemetry: digests of a few
// bits in packets, from which the sink learns the path of a flow, the latency
// of its hops and the congestion that its packets met (Ben Basat et al.,
// "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020; sections and
// appendices named here are that paper's).
//
//	Query --NewPlan--> Plan --Compile--> Encoder    at each switch: digest in, digest out
//	                     |
//	                     +--NewRecorder-> Recorder  at the sink: digests in, answers out
//
// A Plan says which queries run on which packets. A global hash of the
// packet's id decides, so switches and recorder agree without a word between
// them. Three kinds of queries exist: static per flow (a path; Static and
// Decoder), dynamic per flow (samples of each hop's values; Sampler and
// HopStreams), and per packet (one value over the whole path).
//
// Everything a switch does per packet is integer arithmetic with tables that
// are made beforehand, without allocation: Encoder, Codec, Log, Exp and
// Utilisation keep to operations that P4 targets have.
//
// The package holds algorithms only: no packets, no clock, no I/O but the
// plan's file.
package pint
