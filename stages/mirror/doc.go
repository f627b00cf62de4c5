// Package mirror is the SPAN stage: it sends copies of packets to a port on
// which somebody watches.
//
//	batch ──> what arrived at, or leaves by, the watched ports ──> goes on as it is
//	                                 └── copy, cut, one of N ──> the session's port
//
// Effect on the packet: none. A copy is of the packet as it leaves the pipeline,
// with the tags and headers of its output port; what an earlier stage dropped is
// not mirrored. Copies are at the end of the batch, so they are the first that
// lack room when there is too little; what could not be copied is counted as a
// copy dropped for want of a frame or of room.
//
// Config keys: session (ports, direction, to, truncate_bytes, one_in). Counters: mirrored
// and truncated packets by session. Cost: nothing measurable per packet that is
// not mirrored; a copy of its bytes per packet that is.
package mirror
