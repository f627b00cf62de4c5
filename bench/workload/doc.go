// Package workload makes traces for the measurements of telemetry: packets of
// flows in the order of their times, either drawn from a heavy-tailed
// distribution or read from a capture through the switch's own parser.
//
//	Synthetic{...}.Trace()  ──┐
//	                          ├──> Trace ── At(i) ──> Packet
//	Capture(file, seed)     ──┘
//
// A trace is the same for the same seed on any machine. It is immutable once
// made, and then safe for concurrent use.
package workload
