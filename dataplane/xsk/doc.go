// Package xsk is AF_XDP in Go without cgo: packet memory and rings that are
// shared with the kernel.
//
// One [UMEM] holds the frames of the whole switch. A [Socket] serves one queue of
// one interface and has four rings, all of them single producer, single consumer
// (net/xdp/xsk_queue.h, include/uapi/linux/if_xdp.h). The life of a frame:
//
//	      free (ours)                         1. Fill.Push gives the kernel an empty frame.
//	       |       ^                          2. The kernel takes it, when a packet is redirected to
//	1 fill |       | 8 completion                the socket (xsk_buff_alloc in net/xdp/xsk_buff_pool.c),
//	       v       |                          3. writes the packet into it (__xsk_rcv in net/xdp/xsk.c)
//	   +---------------+                         or the device did so by DMA, in zero-copy mode,
//	   |    kernel     |                      4. and RX.Pop hands the packet to us.
//	   +---------------+                      5. The pipeline works on the packet in place.
//	4 RX   |       ^                          6. TX.Push offers it to the kernel, on any socket of the
//	       v       | 6 TX                        same UMEM, so a switch forwards without a copy.
//	   5 pipeline (ours)                      7. TX.Kick has it sent (__xsk_generic_xmit in net/xdp/xsk.c),
//	                                          8. and Completion.Pop returns the frame, free again.
//
// # Push and Pop, not Reserve and Commit
//
// The rings copy descriptors in and out of the caller's slices, in at most two
// memmoves. Handing out slots of the ring itself would save the copy, but a
// forwarder turns RX descriptors into packets of its batch and fills TX descriptors
// per output port, so it has such a slice in the first-level cache anyway; the copy
// of 16 bytes costs well under a nanosecond (see BenchmarkRing), one slice bounds
// each loop of the caller, and the ring keeps the promise that no half packet is
// ever published.
//
// # Concurrency
//
// Fill and RX of a socket belong to one goroutine, TX and Completion to one
// goroutine, which may be another. The methods of Socket itself may be called by
// any goroutine, except Reclaim and Close, which need the rings at rest.
package xsk
