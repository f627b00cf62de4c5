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
//	access = 10  carries VLAN 10, untagged. A tag of VLAN 10 or 0 (a priority
//	             tag) is taken off; packets of other VLANs are dropped.
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
// addresses and the zero address are never learned. When the table is full,
// new stations are not learned (and flooded to), while the learned ones stay
// until they age, as in the Linux bridge with fdb_max_learned: a flood of
// forged addresses cannot push out the stations that talk. Static entries
// neither move nor age.
//
// Where one thread does everything (replay, tests, a simulator), Inline makes
// the stage apply events at once, and time is Batch.Now alone, so that the
// same packets give the same result.
//
// # Reports
//
// Config keys: ageing, table_size, forward_link_local, static, port. Drop
// reasons: vlan_filtered, same_port, no_member, link_local, no_headroom.
// Copies of flooded packets that could not be made count as copies that were
// dropped: no_frame, no_room.
//
// References: IEEE 802.1Q-2018, 6.9 (tagging), 8.6 (forwarding), 8.8 (FDB).
package l2
