// Package conntrack is the stateful stage: it follows connections, and permits what belongs to one. Security groups of ports
// decide about the first packet of each; a packet of a connection that was permitted passes in both directions.
//
//	         ┌────────────────────────── worker ──────────────────────────┐
//	batch ──>│ key ──> connection? ─ yes ─> its state, windows, ports ──> │──> permitted
//	         │             └─ no ─> the port's group ──> new connection   │──> dropped: ct_invalid, ct_denied, ct_full, ct_fragment
//	         └────────────────────────────────────────────────────────────┘
//
// # What it follows
//
// TCP with Linux's states and window checks, UDP and UDP-Lite, queries of ICMP and ICMPv6, and every other protocol by its
// addresses, with ports where SCTP and DCCP have them. An ICMP error passes if it is about a packet of a connection, and goes to
// that packet's sender. Neighbour and multicast listener discovery pass untracked, and so does what is not IP: ARP is for acl.
// A packet in which a receiver may find IP though the parser did not is invalid. Checksums are not verified, as they are
// often left to a device.
//
// A connection belongs to two ports: that from which it was begun, and that from which it was first answered. Packets from a third
// one are for that port's group to decide about, so a forged packet needs the right port. When rules change, each connection
// is decided about anew, with its next packet.
//
// # Fragments
//
// A first fragment is tracked as the whole packet, and later fragments share its fate for 30 s. They must come after it, and must not
// overlap its transport header; ct_fragment counts those that do not. Datagrams are not put together. TCP that comes in fragments is not held to
// windows from then on, since a first fragment does not say how much data there are.
//
// # Address translation
//
// Rules of snat and dnat give a connection over IPv4 other addresses and ports, in front of the router. The table then has a second key for it, the
// alias, of its ends on the other side. Inside addresses get blocks of outside ports; see nat.
//
// # Memory
//
// The table is a worker's, flat, and of a fixed size. Each port has a share of it, for the connections that were begun from
// it. At the limit, the port's oldest unconfirmed connection makes room: TCP that both sides have not taken up, UDP that was not
// answered for longer than two seconds, ICMP. If all are confirmed, the packet is dropped (ct_full). So a flood of SYNs displaces its
// own connections, and no others. Fragments have a part for each port, too.
//
// # Workers
//
// Each worker has its table, port blocks and fragments; workers share nothing. A packet's home, the worker that has its connection, follows
// from its key and the rules, on either side of a translation: see steer.go. The worker that receives a packet hands it over to its home in front of the stage.
// Limits are divided evenly.
//
// # Reports
//
// Config keys: connections, invalid, tcp_loose, tcp_liberal, timeouts, group, snat, dnat. Drop reasons: ct_invalid, ct_denied, ct_full, ct_fragment,
// nat_exhausted, nat_unmapped, nat_unsupported.
// Metrics by port, in `weir ctl show telemetry`; `weir ctl trace` says of which connection a packet is.
package conntrack
