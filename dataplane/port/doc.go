// Package port is how packets enter and leave a switch: the contract between
// a worker and one queue of a port, and its drivers.
//
//	xsk     our own AF_XDP rings on the switch's one UMEM; no copy inside the switch
//	asavie  github.com/asavie/xdp, for comparison; copies each packet in and out
//	vhost   virtual machines, by vhost-user; copies each packet between guest and pool
//	memif   containers and other programs; copies each packet between shared memory and pool
//	tap     the host's own stack, by a TAP interface; copies each packet by a system call
//	pcap    a capture file in, a capture file out
//	memory  packets made once and sent round, for measuring stages without I/O
//
// A Port belongs to control: it is opened, reported and closed there. A Queue
// belongs to one worker and is called by no other. Frames pass as the
// packet package describes: Receive gives frames to the batch, Transmit takes
// them, Service and Close give transmitted and unused ones back to the cache.
package port
