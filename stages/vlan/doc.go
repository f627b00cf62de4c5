// Package vlan is two stages that make VLAN subinterfaces of ports, as eth1.100 is one in Linux: vlan gives packets that arrive with a
// tag to the subinterface of that tag, without it; tag puts it on packets that leave by a subinterface.
//
//	eth1, tag 100 ──> vlan: arrived at eth1.100 ──> stages between ──> OutPort eth1.100 ──> tag: leaves by eth1, tag 100
//
// A subinterface is a port (driver = "vlan"): the stages between forward, filter, police and measure by it as by any other. The ports say
// all, so the stages have no configuration. Its packets count at it, and are consumed by the port beneath; what leaves is transmitted by
// the port beneath alone.
//
// A packet belongs to the subinterface with both of its two outer VLANs, else to that with the outer one, whatever is behind it, else
// to the port itself, as it is. Any type of tag arrives: 802.1Q, 802.1ad and 0x9100. A priority survives: a packet that leaves with a
// tag has that of the tag it came with.
//
// Drop reasons: no_headroom, port_down.
package vlan
