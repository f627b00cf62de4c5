// Package vectors proves that our P4 programs do what the Go stages do: the same packets
// go through both, one by one and by the same clocks, and all that comes out is compared: packets
// by port, what goes to the control plane, registers, counters.
//
//	captures ── Inputs ──> packets with arrival, now, depth ──┬─> Go: the graph that a switch runs
//	                                                           └─> P4: simple_switch (p4/bmv2), or a Vector made by it
//	                              Compare: packet, field, both values
//
// A [Vector] is what BMv2 gave, in a file of p4/testdata that names the compiler and the switch
// that made it, so that the Go stages are held to it also where those are not installed.
package vectors
