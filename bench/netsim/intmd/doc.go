// Package intmd is In-band Network Telemetry with embedded data, INT-MD, of the INT dataplane specification, version 2.1 (The P4.org
// Applications Working Group, 2020-11-11): what switches that do not use PINT write into packets. It is a rival to measure against, as
// bytes: they are pushed hop by hop, count against the MTU, and are decoded at the sink.
//
//	Ethernet | IP, DSCP 0x17 | TCP or UDP | shim | INT-MD header | metadata of the last hop | ... | of the first hop | payload
//
// The shim and what follows lie behind the TCP or UDP header and its options, marked by a value of the DSCP (section 5.6.2, option 2 of the
// specification): of its encapsulations the one that adds least, 16 bytes and the metadata. The original DSCP is in the shim. Checksums of IP, TCP and UDP
// are updated at each hop, incrementally; a UDP checksum of 0 stays 0.
//
//	source:  Source, Push    puts the header in, and the first hop's metadata
//	transit: Push            puts a hop's metadata in front of the others
//	sink:    Push, Strip     takes all out: the packet is as it came
//
// What is not done: INT-MX, Destination headers, other encapsulations, and domain specific metadata other than skipping it.
package intmd
