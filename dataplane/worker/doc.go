// Package worker runs a switch: one OS thread per worker, each with its own
// queues of ports, its own graph and its own cache of frames.
//
//	for each queue:  Receive -> Graph.Run -> dispatch -> Transmit
//	for each worker: take what other workers handed over -> Transmit
//	then:            Service the queues, answer control, perhaps sleep
//
// Every (port, queue) has one owner. A packet that must leave by a port of
// which the worker owns no queue is handed over a ring with one producer and
// one consumer to the worker that owns the queue with the packet's queue
// number. The choice depends on nothing but the ports and queues of a packet,
// so a flow, which stays on its receive queue, keeps its order.
//
// Counters are plain memory of their worker. Control reads them, and does
// anything else, by Worker.Do: a function that runs on the worker between two
// batches.
package worker
