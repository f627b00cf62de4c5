// Package parse is the first stage of every graph: it turns bytes into
// metadata. It changes no byte of a packet and chooses no output port.
//
//	           ┌───────────────────── worker ─────────────────────┐
//	batch ───> │ plain IPv4 TCP or UDP? ──────────────> metadata  │ ───> flags, offsets,
//	           │      │ no                                ^       │      ports, TTL, VLAN
//	           │      └─> link ─> ARP, IPv4, IPv6 ─> transport    │
//	           │                                                  │
//	           │ as the graph needs: flow hash, packet id, time   │
//	           └──────────────────────────────────────────────────┘
//
// # What it knows
//
// Ethernet, VLAN tags (802.1Q, 802.1ad and 0x9100, up to 8), telemetry shims
// (up to 2: what follows is parsed as if they were not there, so that all
// switches of a path see the same packet), ARP, IPv4 with
// options, IPv6 with extension headers (up to 16), TCP, UDP, UDP-Lite, ICMP,
// ICMPv6, SCTP and DCCP. Everything else passes as opaque: MPLS, 802.3 lengths
// with LLC, and unknown EtherTypes behind the link header; tunnels, ESP and
// unknown protocols behind the IP header. Checksums are not verified.
//
// # Short and wrong packets
//
// A packet of fewer than 14 bytes is dropped: runt. A header that contradicts
// itself or the length of the packet ends the parse: the packet gets
// FlagMalformed, is counted by Fault, and passes as opaque from there on, or
// is dropped if so configured. A header that a capture cut off (the packet's
// length on the wire has room for it) ends the parse too, but is no fault. A
// first fragment may end within its transport header (RFC 791 permits it); it
// then has no FlagL4.
//
// # Hashes
//
// The flow hash is the low half of the switch's hash (Env.Hash: XXH64, or crc) over
// Packet.KeyWords4 or KeyWords6 under the configured seed. Fragments have no ports there, so those of one
// datagram agree, but not with unfragmented packets of their flow. Packets
// that are not IP are hashed by their addresses and EtherType. The packet id is the hash
// over packet.IDBlock; switches agree on it if they have the same family and seed.
//
// # Reports
//
// Config keys: malformed, seed, ipid_carrier. Drop reasons: runt, malformed.
// Counters: malformed packets by Fault. The P4 twin is the parser of each
// program.
package parse
