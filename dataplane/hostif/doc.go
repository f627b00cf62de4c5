// Package hostif keeps host interfaces as a router needs them, and reads what the kernel routes by them.
//
// A host interface is a TAP interface that gives the stack of the host what is for a router's port. It has the port's MAC
// address, MTU, addresses and carrier. The kernel's routes by such interfaces, which BIRD or FRR put there, become the router's.
//
// The watch does not apply single messages of the kernel. Any message only means that something changed, and then all routes are read: the
// kernel does not report each route that goes with a link or a next hop, and drops messages when its buffer is full. Between two
// readings passes three times as long as a reading takes, so at most a quarter of a core is used however often routes change.
package hostif
