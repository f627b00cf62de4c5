package tables

// reasonNames are the reasons for dropping, by the program's numbers (p4/include/types.p4), with
// the names that packet.Reason has. The first is none, the second no drop: the control plane has the packet.
var reasonNames = [...]string{
	"none", "consumed", "no_port", "runt", "malformed", "unpatched", "vlan_filtered", "link_local", "same_port", "no_member",
	"not_routed", "not_for_us", "multicast", "martian", "bad_checksum", "ttl_expired", "no_route", "mtu_exceeded",
	"neighbour_unreachable", "pint_loop", "pint_host_shim",
}

// ReasonNames are the names of the program's reasons, by their numbers.
func ReasonNames() []string { return append([]string(nil), reasonNames[:]...) }
