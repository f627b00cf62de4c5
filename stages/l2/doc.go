// Package l2 is the learning bridge stage: it learns behind which port a
// station is from the source addresses of its packets, and sends a packet to
// the port of its destination, or to all ports of its VLAN if that is unknown
// or a group.
//
//	           ┌──────────────────── worker ────────────────────┐
//	batch ───> │ VLAN of the port ─> source ──> destination ──> │ ──> OutPort, tag
//	           │                     known?     known? flood?   │
//	           └───────────────────────│───────────────▲────────┘
//	                     learn event   v               │ lock-free reads
//	                 [ring per worker] ──> Run ──────> FDB
//
// # VLANs
//
// Inside the bridge each packet is in one VLAN, 0 to 4095; VLAN 0 is that of
// untagged packets on ports without VLAN configuration. A port is in one of
// three modes:
//
//	transparent  the default: carries every VLAN and leaves tags alone, so that
//	             a switch without VLAN configuration is transparent to VLANs.
//	             Learning is per (outer VLAN, address).
//	access = 10  carries VLAN 10, untagged. A priority tag (VLAN 0) is taken off;
//	             all other tags are dropped: a tag of VLAN 10 that hides one of VLAN 20
//	             would bring the packet there, behind the next trunk whose native VLAN is 10.
//	             With accept_tagged a tag of VLAN 10 is taken off, too.
//	trunk = [..] carries the listed VLANs, tagged. Untagged and priority-tagged
//	             packets belong to the native VLAN, which leaves untagged, or
//	             are dropped if there is none.
//
// Transparent ports are, as in Open vSwitch, trunks of all VLANs: what comes in
// through an access port of VLAN 10 leaves them with a tag of VLAN 10. The outer
// tag decides, be it 802.1Q, 802.1ad or the older 0x9100; tags that the bridge
// adds are 802.1Q.
//
// # Learning
//
// The FDB is shared by all workers, which only read it. An unknown source, or
// a known one on another port, becomes an event in the worker's own ring; the
// module's goroutine, Run, is the one writer that applies it, about a
// millisecond later. Until then the station's packets are flooded. Group
// addresses and the zero address are never learned. When the table is full, a new station
// displaces one of the port that has most, of some the one that was silent for longest, as in Open vSwitch:
// a flood of forged addresses displaces its own, and the stations of other ports are learned and stay. Each port
// has a share of a worker's ring of events for the same reason. Static entries
// neither move, age nor go.
//
// Where one thread does everything (replay, tests, a simulator), Inline makes
// the stage apply events at once, and time is Batch.Now alone, so that the
// same packets give the same result.
//
// # Snooping
//
// With IGMP and MLD snooping (package snooping), the second pass, which floods, sends a packet to an IP group to the ports that have joined it. A
// message of IGMP, MLD or PIM is read there, too: the worker copies it into a ring, and Run, the table's one writer, applies it. Other
// packets pay nothing for it.
//
// # Reports
//
// Config keys: ageing, table_size, forward_link_local, bpdu_guard, loop_moves, guard_time, static, port, storm, snooping, flood_unregistered,
// group_table, multicast_routers, router_guard, fast_leave. Drop reasons: vlan_filtered, tagged_on_access, same_port, no_member, link_local,
// no_headroom, storm, bpdu_guard, loop_guard, not_joined, router_guard.
// Copies of flooded packets that could not be made count as copies that were
// dropped: no_frame, no_room.
//
// References: IEEE 802.1Q-2018, 6.9 (tagging), 8.6 (forwarding), 8.8 (FDB).
package l2
