// Package bond is two stages that make one port of several, as bond0 is one in Linux: bond gives what arrives at the members to the bond, and
// distribute chooses the member by which a packet leaves.
//
//	eth1 ──┐                                                                        ┌──> eth1
//	       ├─> bond: arrived at bond0 ──> stages between ──> OutPort bond0 ──> distribute
//	eth2 ──┘                                                                        └──> eth2
//
// A bond is a port (driver = "bond"): the stages between forward, filter, police and measure by it as by any other, and know no member. The
// ports say all, so the stages have no configuration. A bond's packets count as received at it, and are consumed by the member; what leaves is
// transmitted by the member alone.
//
// A flow's hash falls into one of 1024 buckets, and a bucket has one member, so a flow keeps its order. When a member is lost, its buckets, and no
// others, go to the rest at once. When one comes, it takes its share of the buckets, each once no packet of it came for a millisecond and none waits
// in the queue of its former member: no packet overtakes another of its flow. Each worker moves the buckets of its own packets.
//
// In an active-backup bond one member sends and receives, and what arrives at the others is dropped. When it changes, the switch announces its
// stations by the new one, so that switches there learn where they are: the router's addresses (gratuitous ARP), and the stations of the
// bridge (RARP with the station's address).
//
// LACP is in the package lacp; its PDUs end at the member where they arrive.
//
// Drop reasons: bond_inactive, port_down, lacp_malformed, lacp_overflow.
package bond
