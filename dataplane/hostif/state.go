package hostif

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// State is what the kernel has for the host interfaces.
type State struct {
	Addresses  []Address
	Routes     []Route // one for each prefix, sorted
	Neighbours []Neighbour

	complete bool // all was read
}

// Address is an address of a host interface.
type Address struct {
	Interface string
	Prefix    netip.Prefix
}

// Route is the kernel's best route to a prefix of those that lead to a host interface.
type Route struct {
	Prefix   netip.Prefix
	Protocol string // who made it: "bird", "static"
	Metric   int
	Hops     []Hop // none: packets are dropped
}

// Hop is a next hop by a host interface.
type Hop struct {
	Interface string
	Gateway   netip.Addr // not valid: the prefix is on the link
	Weight    int        // from 1
}

// Neighbour is a configured neighbour on a host interface.
type Neighbour struct {
	Interface string
	Address   netip.Addr
	MAC       [6]byte
}

func (s *State) equal(o *State) bool {
	return s.complete == o.complete && slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.Neighbours, o.Neighbours) &&
		slices.EqualFunc(s.Routes, o.Routes, func(a, b Route) bool {
			return a.Prefix == b.Prefix && a.Protocol == b.Protocol && a.Metric == b.Metric && slices.Equal(a.Hops, b.Hops)
		})
}

// read reads the state of the calling thread's namespace.
func (s *State) read(wants []Want) error {
	names := map[int]string{}
	for i := range wants {
		l, err := netlink.LinkByName(wants[i].Interface)
		if errors.As(err, new(netlink.LinkNotFoundError)) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the kernel's interfaces: %w", err)
		}
		index := l.Attrs().Index
		names[index] = wants[i].Interface
		addresses, err := addressesOf(l)
		if err != nil {
			return fmt.Errorf("read the kernel's addresses: %w", err)
		}
		for _, p := range addresses {
			s.Addresses = append(s.Addresses, Address{wants[i].Interface, p})
		}
		if err := s.readNeighbours(index, wants[i].Interface); err != nil {
			return fmt.Errorf("read the kernel's neighbours: %w", err)
		}
	}
	best := map[netip.Prefix]Route{}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		filter := &netlink.Route{Table: unix.RT_TABLE_MAIN}
		err := netlink.RouteListFilteredIter(family, filter, netlink.RT_FILTER_TABLE, func(k netlink.Route) bool {
			r, ok := routeOf(&k, family, names)
			if old, twice := best[r.Prefix]; ok && twice && old.Metric == r.Metric && len(old.Hops) != 0 {
				old.Hops = append(old.Hops, r.Hops...)
				best[r.Prefix] = old
			} else if ok && (!twice || r.Metric < old.Metric) {
				best[r.Prefix] = r
			}
			return true
		})
		if err != nil {
			return fmt.Errorf("read the kernel's routes: %w", err)
		}
	}
	s.Routes = slices.SortedFunc(maps.Values(best), func(a, b Route) int { return a.Prefix.Compare(b.Prefix) })
	s.complete = true
	return nil
}

func (s *State) readNeighbours(index int, name string) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		all, err := netlink.NeighList(index, family)
		if err != nil {
			return err
		}
		for _, n := range all {
			a, ok := netip.AddrFromSlice(n.IP)
			if ok && n.State&unix.NUD_PERMANENT != 0 && len(n.HardwareAddr) == 6 && !n.IP.IsMulticast() {
				s.Neighbours = append(s.Neighbours, Neighbour{name, a.Unmap(), [6]byte(n.HardwareAddr)})
			}
		}
	}
	return nil
}

// routeOf returns a route of the kernel, if it leads to interfaces with names or drops packets. Networks of the interfaces
// themselves follow from their addresses.
func routeOf(k *netlink.Route, family int, names map[int]string) (r Route, ok bool) {
	r = Route{Protocol: k.Protocol.String(), Metric: k.Priority}
	if r.Prefix, ok = prefixOf(k.Dst); !ok {
		any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
		if k.Dst != nil {
			return r, false
		}
		if r.Prefix = netip.PrefixFrom(any4, 0); family == netlink.FAMILY_V6 {
			r.Prefix = netip.PrefixFrom(any6, 0)
		}
	}
	switch k.Type {
	case unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT:
		return r, k.Protocol != unix.RTPROT_KERNEL
	case unix.RTN_UNICAST:
	default:
		return r, false
	}
	if k.Protocol == unix.RTPROT_KERNEL || k.Tos != 0 || k.Flags&unix.RTM_F_CLONED != 0 {
		return r, false
	}
	add := func(index, flags, weight int, gateway net.IP, via netlink.Destination) {
		name := names[index]
		if name == "" || flags&(unix.RTNH_F_DEAD|unix.RTNH_F_LINKDOWN) != 0 {
			return
		}
		h := Hop{Interface: name, Weight: weight}
		if v, is := via.(*netlink.Via); is {
			gateway = v.Addr
		}
		if a, is := netip.AddrFromSlice(gateway); is && !a.IsUnspecified() {
			h.Gateway = a.Unmap()
		}
		r.Hops = append(r.Hops, h)
	}
	if len(k.MultiPath) == 0 {
		add(k.LinkIndex, k.Flags, 1, k.Gw, k.Via)
	}
	for _, n := range k.MultiPath {
		add(n.LinkIndex, n.Flags, n.Hops+1, n.Gw, n.Via)
	}
	return r, len(r.Hops) != 0
}
