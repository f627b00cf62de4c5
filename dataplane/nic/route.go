package nic

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DefaultRoutes returns the interfaces of the calling thread's namespace over which a default route of the host leads, of IPv4 or IPv6, each
// with the interface that the route names: itself, or what is on top of it, as a bridge, a bond or a VLAN.
func DefaultRoutes() (map[string]string, error) {
	named, err := routed()
	if err != nil || len(named) == 0 {
		return nil, err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("list the interfaces: %w", err)
	}
	routes := map[string]string{}
	for _, top := range links {
		if !slices.Contains(named, top.Attrs().Index) {
			continue
		}
		below := []netlink.Link{top}
		for i := 0; i < len(below); i++ {
			routes[below[i].Attrs().Name] = top.Attrs().Name
			for _, l := range links {
				if carries(l, below[i]) && !slices.Contains(below, l) {
					below = append(below, l)
				}
			}
		}
	}
	return routes, nil
}

// routed are the indices of the interfaces that default routes of the main table name.
func routed() (indices []int, err error) {
	err = netlink.RouteListFilteredIter(netlink.FAMILY_ALL, &netlink.Route{}, 0, func(r netlink.Route) bool {
		if !isDefault(&r) {
			return true
		}
		indices = append(indices, r.LinkIndex)
		for _, hop := range r.MultiPath {
			indices = append(indices, hop.LinkIndex)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list the routes: %w", err)
	}
	return indices, nil
}

// isDefault reports whether a route is for all destinations of its family.
func isDefault(r *netlink.Route) bool {
	if r.Type != unix.RTN_UNICAST {
		return false
	}
	if r.Dst == nil {
		return true
	}
	ones, _ := r.Dst.Mask.Size()
	return ones == 0 && r.Dst.IP.IsUnspecified()
}

// carries reports whether what leaves an interface, top, may leave by another one, l: its member, or what it was made on.
func carries(l, top netlink.Link) bool {
	if l.Attrs().MasterIndex == top.Attrs().Index {
		return top.Type() != "vrf" // whose members have routes of their own
	}
	switch top.Type() {
	case "vlan", "macvlan", "ipvlan", "macvtap", "ipvtap":
		return l.Attrs().Index == top.Attrs().ParentIndex
	}
	return false
}

// CutsOff says what a port on an interface with a default route does to the host. route is the interface that the route names.
func CutsOff(name, route string) string {
	by := ""
	if route != name {
		by = " (dev " + route + ")"
	}
	return fmt.Sprintf("the host's default route%s leads over %s, whose packets the port takes: a remote login by it ends when the port opens, and so does all else of the host's; leave what it needs to the kernel, as by keep = [\"arp\", \"icmpv6\", \"ssh\"] of the port, or use another interface", by, name)
}
