// Package l3 is the router stage: it sends IPv4 and IPv6 packets to the port of
// the longest matching prefix, with a new link header and one hop less to live.
//
//	           ┌───────────────────────── worker ──────────────────────────┐
//	batch ───> │ MAC ours? ─> prefix ─> next hop ─> MTU ─> MAC known? ───> │ ──> OutPort
//	           │     │           │         │ Pick    │         │           │
//	           │     v           v         │         v         v           │
//	           │ ARP, ND      our own      │   ICMP errors   held, asked   │
//	           └──────│────────address─────│───────────────────│───────────┘
//	                  └─> neighbours <─────┴───────────────────┘
//
// # Routing
//
// A port takes part if it has an [[stages.l3.interface]] with addresses. The
// table holds configured routes, the ports' networks, the switch's own
// addresses, neighbours that are known, and prefixes that are never routed, so
// one lookup finds what becomes of a packet. Among several gateways Pick
// chooses by flow hash and switch id; weights repeat a gateway. Workers read an
// immutable table, whose pointer they load once per batch.
//
// Routed ports are untagged. IPv4 options and IPv6 extension headers travel
// along unread. Redirects, router advertisements and fragments are never made:
// an IPv4 packet that is longer than the MTU and may be fragmented is dropped,
// reason mtu_exceeded, as one with DF, whose sender is notified.
//
// # What the switch says itself
//
// ICMP errors (time exceeded, unreachable, fragmentation needed, packet too
// big) come from the address of the port at which the packet arrived, so that
// traceroute shows each hop, and are limited in rate for each worker. None is
// sent about an error, a group's packet or a later fragment. Echo requests to
// an own address are answered, UDP and TCP to one are refused.
//
// # Books
//
// What is for the switch itself is consumed, and what cannot be routed is
// dropped by reason; whatever the switch says is a packet made here, counted
// like a copy: received = forwarded + consumed + dropped, and copied = forwarded +
// consumed + dropped. A packet that waits for a neighbour is consumed too, and
// comes back as a copy: forwarded when the answer comes, or dropped, reason
// neighbour_unreachable, after three seconds.
//
// # Neighbours
//
// They are found by ARP and neighbour discovery, or configured. Up to Hold
// packets wait for each, 256 in all, outside of the frames; they leave in order,
// in front of those that came later. Nothing is sent but in the wake of a
// packet: time is Batch.Now, and there is no goroutine. A neighbour that was
// not confirmed for Reachable is asked again by unicast while packets go on; one
// that is silent three times is looked for anew. The workers share the table of
// neighbours behind a lock that only packets off the straight path want, and
// only by trying.
//
// # The host
//
// A port with a host interface leaves what is for the switch itself to the kernel of the host, and the kernel's routes
// become the router's: see host.go.
//
// # Reports
//
// Config keys: reachable, neighbour_table, hold, icmp_rate, host_rate, interface, route,
// neighbour. Drop reasons: not_routed, not_for_us, multicast, martian,
// bad_checksum, ttl_expired, no_route, mtu_exceeded, neighbour_pending,
// neighbour_unreachable, no_listener, neighbour_refused,
// host_limited.
//
// References: RFC 791, 792, 826, 1122, 1191, 1624, 1812; RFC 4291, 4443, 4861,
// 8200.
package l3
