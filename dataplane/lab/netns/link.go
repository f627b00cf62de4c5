package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// End is one end of a veth pair.
type End struct {
	Namespace *Namespace
	// Name of the interface, 1 to 15 bytes, unused in the namespace.
	Name string
	// MAC address; nil lets the kernel choose one at random.
	MAC net.HardwareAddr
}

// Veth is what both ends of a pair have in common.
type Veth struct {
	// Queues is the number of receive and of transmit queues, 1 to 4096; 0 means 1.
	Queues int
	// MTU in bytes without the Ethernet header, 68 to 65535; 0 means 1500.
	MTU int
}

// AddVeth makes a veth pair directly inside the two namespaces, which may be the
// same. Both ends are down.
func AddVeth(a, b End, veth Veth) error {
	queues, mtu := max(veth.Queues, 1), veth.MTU
	if mtu == 0 {
		mtu = 1500
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = a.Name, mtu, a.MAC
	attrs.NumRxQueues, attrs.NumTxQueues = queues, queues
	link := netlink.NewVeth(attrs)
	link.PeerName, link.PeerHardwareAddr = b.Name, b.MAC
	link.PeerNamespace = netlink.NsFd(b.Namespace.file.Fd())
	link.PeerNumRxQueues, link.PeerNumTxQueues = uint32(queues), uint32(queues)
	link.PeerMTU = uint32(mtu)
	if err := a.Namespace.handle.LinkAdd(link); err != nil {
		return fmt.Errorf("make veth %s/%s - %s/%s with %d queues and MTU %d: %w",
			a.Namespace.name, a.Name, b.Namespace.name, b.Name, queues, mtu, err)
	}
	return nil
}

// Link looks an interface up by name.
func (ns *Namespace) Link(name string) (netlink.Link, error) {
	link, err := ns.handle.LinkByName(name)
	if err != nil {
		where := "this network namespace"
		if ns.name != "" {
			where = "namespace " + ns.name
		}
		return nil, fmt.Errorf("find interface %s in %s: %w: create it or correct the name (ip link shows what there is)", name, where, err)
	}
	return link, nil
}

// change applies f to the named interface and puts both names into its error.
func (ns *Namespace) change(name, what string, f func(netlink.Link) error) error {
	link, err := ns.Link(name)
	if err != nil {
		return err
	}
	if err := f(link); err != nil {
		return fmt.Errorf("%s interface %s in namespace %s: %w", what, name, ns.name, err)
	}
	return nil
}

// SetUp brings an interface up.
func (ns *Namespace) SetUp(name string) error {
	return ns.change(name, "bring up", ns.handle.LinkSetUp)
}

// WaitUp waits, at most for the given while, until an interface that is up has its carrier
// and its transmit queue. The kernel activates the queue some time after SetUp of the
// second end has returned; until then it drops what is sent, without a count.
func (ns *Namespace) WaitUp(name string, most time.Duration) error {
	return ns.AwaitUp(context.Background(), name, most)
}

// AwaitUp is WaitUp until ctx ends.
func (ns *Namespace) AwaitUp(ctx context.Context, name string, most time.Duration) error {
	for deadline := time.Now().Add(most); ; time.Sleep(time.Millisecond) {
		link, err := ns.Link(name)
		if err != nil {
			return err
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("wait for interface %s in namespace %s: it is %s after %s: is its far end up?",
				name, ns.name, link.Attrs().OperState, most)
		}
	}
}

// SetDown takes an interface down.
func (ns *Namespace) SetDown(name string) error {
	return ns.change(name, "take down", ns.handle.LinkSetDown)
}

// SetMTU sets the MTU, in bytes without the Ethernet header.
func (ns *Namespace) SetMTU(name string, mtu int) error {
	return ns.change(name, fmt.Sprintf("set MTU %d of", mtu), func(l netlink.Link) error {
		return ns.handle.LinkSetMTU(l, mtu)
	})
}

// SetARP switches address resolution (ARP, and neighbour discovery with its
// multicast groups) on or off. With it off, every neighbour must be static.
func (ns *Namespace) SetARP(name string, on bool) error {
	f := ns.handle.LinkSetARPOff
	if on {
		f = ns.handle.LinkSetARPOn
	}
	return ns.change(name, "set address resolution of", f)
}

// MoveLink moves an interface to another namespace.
func (ns *Namespace) MoveLink(name string, to *Namespace) error {
	return ns.change(name, "move", func(link netlink.Link) error { return ns.handle.LinkSetNsFd(link, int(to.file.Fd())) })
}

// DeleteLink deletes an interface; of a veth, both ends.
func (ns *Namespace) DeleteLink(name string) error {
	return ns.change(name, "delete", ns.handle.LinkDel)
}

// MAC returns the hardware address of an interface.
func (ns *Namespace) MAC(name string) (net.HardwareAddr, error) {
	link, err := ns.Link(name)
	if err != nil {
		return nil, err
	}
	return link.Attrs().HardwareAddr, nil
}

// AddAddress gives an interface an IPv4 or IPv6 address with its prefix length.
// An IPv6 address is usable at once: there is no duplicate address detection.
func (ns *Namespace) AddAddress(name string, prefix netip.Prefix) error {
	addr := &netlink.Addr{IPNet: &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}}
	if prefix.Addr().Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return ns.change(name, "add address "+prefix.String()+" to", func(l netlink.Link) error {
		return ns.handle.AddrAdd(l, addr)
	})
}

// AddRoute routes a prefix through a gateway on the interface's link. The zero
// prefix length gives the default route.
func (ns *Namespace) AddRoute(name string, to netip.Prefix, gateway netip.Addr) error {
	to = to.Masked()
	return ns.change(name, fmt.Sprintf("route %s via %s over", to, gateway), func(l netlink.Link) error {
		return ns.handle.RouteAdd(&netlink.Route{
			LinkIndex: l.Attrs().Index,
			Gw:        gateway.AsSlice(),
			Dst:       &net.IPNet{IP: to.Addr().AsSlice(), Mask: net.CIDRMask(to.Bits(), to.Addr().BitLen())},
		})
	})
}

// AddNeighbour makes a permanent entry of the ARP or neighbour table, so that
// neither asks.
func (ns *Namespace) AddNeighbour(name string, ip netip.Addr, mac net.HardwareAddr) error {
	return ns.change(name, fmt.Sprintf("add neighbour %s to", ip), func(l netlink.Link) error {
		return ns.handle.NeighSet(&netlink.Neigh{
			LinkIndex:    l.Attrs().Index,
			State:        netlink.NUD_PERMANENT,
			IP:           ip.AsSlice(),
			HardwareAddr: mac,
		})
	})
}

// AddBridge makes a Linux bridge with the named interfaces as its ports, and
// brings it up; the ports' own state is left alone. Multicast snooping is off, so
// multicast is flooded as by a plain learning switch, and nothing is sent.
func (ns *Namespace) AddBridge(name string, ports ...string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := ns.handle.LinkAdd(bridge); err != nil {
		return fmt.Errorf("make bridge %s in namespace %s: %w", name, ns.name, err)
	}
	for _, port := range ports {
		err := ns.change(port, "attach to bridge "+name, func(l netlink.Link) error {
			return ns.handle.LinkSetMaster(l, bridge)
		})
		if err != nil {
			return err
		}
	}
	return ns.SetUp(name)
}

// Counters are the kernel's counters of one interface since it was made.
// RxPackets does not count what RxDropped counts; frames given to AF_XDP count as received.
type Counters struct {
	RxPackets, RxBytes, RxDropped, RxErrors uint64
	TxPackets, TxBytes, TxDropped, TxErrors uint64
}

// Counters reads the counters of an interface.
func (ns *Namespace) Counters(name string) (Counters, error) {
	link, err := ns.Link(name)
	if err != nil {
		return Counters{}, err
	}
	s := link.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("interface %s in namespace %s has no counters", name, ns.name)
	}
	return Counters{
		RxPackets: s.RxPackets, RxBytes: s.RxBytes, RxDropped: s.RxDropped, RxErrors: s.RxErrors,
		TxPackets: s.TxPackets, TxBytes: s.TxBytes, TxDropped: s.TxDropped, TxErrors: s.TxErrors,
	}, nil
}

// AddQueue puts a first-in first-out queue of one TX queue length (1000 packets) in
// front of an interface that sends without one, as veth does. Since Linux 6.16 a veth
// with a queue waits when its far end is slow, where one without drops.
func (ns *Namespace) AddQueue(name string) error {
	return ns.change(name, "add a queue to", func(l netlink.Link) error {
		return ns.handle.QdiscReplace(&netlink.GenericQdisc{
			QdiscAttrs: netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Parent: netlink.HANDLE_ROOT},
			QdiscType:  "pfifo",
		})
	})
}

// FreezeNeighbours makes every entry that the interface has resolved permanent, so
// that the kernel does not probe for it again. It returns their number.
func (ns *Namespace) FreezeNeighbours(name string) (int, error) {
	frozen := 0
	err := ns.change(name, "freeze the neighbours of", func(l netlink.Link) error {
		list, err := ns.handle.NeighList(l.Attrs().Index, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		const resolved = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE
		for _, entry := range list {
			if entry.State&resolved == 0 {
				continue
			}
			entry.State = netlink.NUD_PERMANENT
			if err := ns.handle.NeighSet(&entry); err != nil {
				return err
			}
			frozen++
		}
		return nil
	})
	return frozen, err
}
