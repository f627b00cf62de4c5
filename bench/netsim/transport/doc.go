// Package transport has the hosts of a simulated network: flows that arrive at random, and
// the congestion control by which they send.
//
//	flows (Poisson, sizes of a Distribution) ──> Simulation ──> Result: a completion time per flow
//	                                                 │
//	                              fabric.Network <───┴──> HPCC on INT or PINT, or TCP Reno
//
// HPCC is Algorithm 1 of Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019. On INT, hosts
// estimate each link's use from the switches' records. On PINT, switches do (section 4.3 of
// "PINT: Probabilistic In-band Network Telemetry", SIGCOMM 2020) and the digest brings
// the largest use on the path, on each packet or on those that the plan chooses.
//
// Flows of HPCC have a window W and are paced at W/T; the network must not drop. Reno is RFC 5681 with the
// recovery of RFC 6582 (partial acknowledgements), without selective acknowledgements.
// Each packet is acknowledged.
//
// One Simulation runs on one goroutine; a study runs many of them side by side.
package transport
