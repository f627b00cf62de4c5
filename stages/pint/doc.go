// Package pint is the stage that carries PINT's digests through a network, and
// records them where packets leave it. The algorithms are telemetry/pint's; this
// package finds out what a switch observes and where the digest travels.
//
//	                    ┌──────────────────── worker ────────────────────┐
//	edge in ─┐          │ source: put the digest in, write hop 1         │ ──> out
//	         ├─ batch ─>│ transit: write the next hop                    │ ──> out
//	core in ─┘          │ sink: write the last hop, take the digest out  │ ──> out by an edge port
//	                    └───────────────────────┬────────────────────────┘
//	                                       ring │ records; full: counted
//	                      background: outbox <──┘ ──> exporter: records
//
// A packet that arrives by an edge port begins here, one that leaves by an edge
// port ends here: the switch is its source, its sink, both, or in between.
// Nothing is on the wire of edge ports that the hosts have not sent.
//
// # Carriers
//
// shim: a header.Shim behind the addresses and tags, in any packet that has
// room: one that would exceed what the port sends goes without (in transit it loses the shim), and so do
// packets whose frame has no headroom. A host's own frames with the shim's
// EtherType are wrapped like others; if they cannot be, they are dropped, for
// the network would take them for its own.
//
// ipid: the identification of atomic IPv4 datagrams (DF, no fragment; RFC 6864
// gives it no meaning there), with the reserved bit beside DF as the mark that
// a digest is there. The sink restores zero. With identification = "zero" only
// datagrams carry whose identification is zero already, so hosts see each byte
// as it was; with "any" those of TCP connections, which Linux numbers, carry too,
// and arrive with zero. Hop numbers come from the TTL, so switches must route.
//
// With then_one_of not all packets that could carry a digest do: the source chooses (sparing).
//
// Packets that a router makes itself carry nothing. One that waited until the router knew its
// neighbour is treated by the port that it came from, and not by that of the answer.
//
// # What a digest is made of
//
// The switch's id, the port numbers, the arrival, the time from there to this
// stage, the use of the output link, the packets that wait there, and their
// share of the ring. Only what the plan asks for is found out. The stage also
// keeps exact histograms of latency and queue, to compare with what digests say.
//
// # Records
//
// Where records are kept (Listen), what the rings bring goes to the exporter: in batches of
// up to 4096 digests of a plan, of a partition of the flows (record.Partitions) and of a slice of 2^30
// ns, numbered by partition. A record's missed packets are those whose digests found a ring, or
// the room behind it, full. Packets that were found to loop are in batches of their own.
//
// # Counters
//
// Of all packets that reach the stage alive:
//
//	packets = sourced + transited + sunk + local + left alone by reason
//
// and of digests
//
//	sunk and local packets of known plans + loops found = records + lost records + unread packets
//	records = exported + unexported digests, where records are kept
//
// and beside that unknown plans, saturated hops, loops, and records that found
// the ring full. Drop reasons: pint_loop, pint_host_shim.
package pint
