// Package tunnel has two stages: tunnel takes packets out of VXLAN (RFC 7348) and Geneve (RFC 8926), and encap puts packets into
// them. A tunnel is a port without a device (driver = "tunnel"), so bridge, rules, mirror and counters know it as any other.
//
//	underlay ──> parse ─> tunnel ─> [acl] ─> l2 or patch ─> encap ──> underlay
//	port                  InPort becomes      OutPort is    OutPort becomes
//	                      the tunnel's port   the tunnel's  the underlay's port
//
// Stages between the two see inner packets, those in front of tunnel and behind encap outer ones.
//
// # Ends
//
// A tunnel has remote ends. Behind which of them a station is, is learned from what comes out of the tunnel, or given as static.
// Packets to groups and to stations that are not known go to all ends of the tunnel (head-end replication). What came out of a
// tunnel never goes into it again: the bridge sends no packet back to its port.
//
// # Outer headers
//
// The source port is made of the inner flow's hash, and the IPv6 flow label too. DF is always set, and nothing is fragmented (RFC
// 7348, 4.3): a packet that would exceed the underlay's MTU is dropped, and its sender told by ICMP, if it is IPv6 or has DF. That
// message comes out of the tunnel with the worker's next batch. ECN is RFC 6040's normal mode, both ways. The UDP checksum is zero
// over IPv4, and computed over IPv6 unless zero_checksum6 is set; one that arrives is verified. Reserved bits are sent as zero and
// ignored. Geneve options are skipped; packets with critical ones are dropped.
//
// # The underlay
//
// The stages answer ARP, neighbour solicitations and echo requests to their own addresses, and ask for next hops when there is a
// packet for them. Until the answer, packets to that hop are dropped: tunnel_unresolved. All else on an underlay's port is dropped.
//
// # Copies
//
// A tunnel of kind erspan takes the copies of the stage mirror to a remote host: see erspan.go.
//
// # Reports
//
// Config keys: underlay, tunnel, vxlan_port, geneve_port, ageing, table_size, zero_checksum6. Drop reasons begin with tunnel_.
package tunnel
