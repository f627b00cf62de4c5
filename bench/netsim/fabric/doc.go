// Package fabric moves packets through a network of switches and hosts, event by
// event: links with a rate and a delay, egress queues in a shared buffer, routes of equal
// cost, priority flow control, and telemetry at every switch.
//
//	host ──link──> switch ──queue, link──> switch ──queue, link──> host
//	  ^               │ PFC: the ingress pauses and resumes the link to it
//	  └── Send        └ INT: a record per hop; PINT: telemetry/pint's encoder
//
// Hosts are the caller's: Network.Next runs the network until something concerns a
// host (a packet arrives, its link is free, a timer ends) and returns that as a
// value. Package transport has hosts that send flows.
//
// A packet that starts on a link ends its time in the queue. Then, and not before, its bytes
// leave the buffer, the link's utilisation is updated and its digest is written, with the
// functions that stages/pint calls; a test holds both against each other.
//
// All time is simulated and nothing is random but by seed, so equal calls have equal
// outcomes. A Network belongs to one goroutine; networks are independent of each other.
package fabric
