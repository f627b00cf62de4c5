// Package memif is an interface in memory that two processes share, mostly containers: memif of VPP, version 2.0, both
// roles, for Ethernet frames. There is no document that defines it; the format is that of VPP's libmemif and DPDK's
// net_memif (drivers/net/memif/memif.h).
//
// A server (master) listens on a socket, for several interfaces by number. A client (slave) connects, makes the memory, and
// passes it:
//
//	client ── Init, AddRegion, AddRing, Connect ──> server       a message each, answered by Ack, at last Connected
//	client's rings ── packets ──> server: the client fills descriptors up to head, the server empties them up to tail
//	server's rings ── packets ──> client: the client offers buffers up to head, the server fills them up to tail
//
// So the client alone writes head and the server alone tail, in both directions. Each packet is copied; see decision 21.
//
// The peer is hostile. Messages have a fixed size, files and notifications are checked (package shmem), each descriptor is
// read once into private memory and checked there, and chains are bounded. As a client we know where our buffers
// are, and read no address. What is refused is counted by its Fault. It costs a packet, or, where the ring cannot be followed any more, the
// connection.
package memif
