// Package packet holds what the whole packet path speaks: the frame pool, the
// packet's metadata and the batch.
//
// A frame is memory, a packet is content. Every packet of a switch lives in a
// frame of one Pool, whose memory is also the UMEM of all AF_XDP sockets, so
// a packet is forwarded by handing over a frame's address. At each moment a
// frame has one owner: a Cache (free), a port's ring (with the kernel), a
// Batch (being processed) or a handoff ring between two workers.
//
//	        Cache ── Alloc ──> fill ring ── kernel ──> RX ring
//	          ^                                           │
//	          │                                           v
//	completion ring <── kernel ── TX ring <── dispatch ── Batch
//
// The package does no I/O and imports nothing of ours.
package packet
