package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/vm"
)

// hostInterface is a host's NIC.
const hostInterface = "eth0"

// names are those of the NICs, by number. The ports are in the namespace of this process.
var names = [vm.NICs]string{hostInterface, "a", "b", hostInterface, "c", "d"}

// upWait is far more than a link needs to come up.
const upWait = time.Minute

// host is a namespace with a kernel's IP stack behind a NIC.
type host struct {
	*netns.Namespace
	mac string
	// device is by what the host sends numbered packets: its NIC, or a bond.
	device string
	plain  netip.Addr // untagged
	six    netip.Addr // untagged, IPv6
	vlan   netip.Addr // tagged with VLAN 10
	mixed  netip.Addr // of VLAN 20, which is untagged at the first host and tagged at the second
	far    netip.Addr // behind a router
	far6   netip.Addr
}

// network is the hosts and the namespace of ports.
type network struct {
	plan  *vm.Plan
	ports *netns.Namespace
	hosts [2]host
	runs  int // of numbered packets
	// bonded: the first host has its address of the test bond.
	bonded bool
}

// newNetwork finds the NICs by their addresses, or makes pairs of veth, and gives the hosts their addresses.
func newNetwork(plan *vm.Plan) (*network, error) {
	n := &network{plan: plan}
	var err error
	if n.ports, err = netns.Current(); err != nil {
		return nil, err
	}
	if err := n.ports.SetUp("lo"); err != nil {
		return nil, err
	}
	if err := n.ports.DisableIPv6(); err != nil {
		return nil, err
	}
	for i := range n.hosts {
		h := &n.hosts[i]
		if h.Namespace, err = netns.Create(fmt.Sprintf("h%d", i+1)); err != nil {
			return nil, err
		}
		if err := h.Quiet(); err != nil {
			return nil, err
		}
		if err := h.beStrict(); err != nil {
			return nil, err
		}
	}
	if plan.Veth {
		err = n.makePairs()
	} else {
		err = n.takeNICs()
	}
	if err != nil {
		return nil, err
	}
	for i := range n.hosts {
		if err := n.hosts[i].configure(i); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// beStrict has the host take packets and answer requests only on the interface that has the address, else a tag that was lost
// on the way would go unnoticed.
func (h *host) beStrict() error {
	return h.Do(func() error {
		for key, value := range map[string]string{"rp_filter": "1", "arp_ignore": "1"} {
			if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/"+key, []byte(value), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// spaceOf is the namespace that a NIC belongs to.
func (n *network) spaceOf(nic int) *netns.Namespace {
	switch nic {
	case vm.Host1:
		return n.hosts[0].Namespace
	case vm.Host2:
		return n.hosts[1].Namespace
	}
	return n.ports
}

func (n *network) makePairs() error {
	for i := 0; i < vm.NICs; i += 2 {
		err := netns.AddVeth(netns.End{Namespace: n.spaceOf(i), Name: names[i]}, netns.End{Namespace: n.spaceOf(i + 1), Name: names[i+1]}, netns.Veth{})
		if err != nil {
			return err
		}
	}
	return nil
}

// setTags has the hosts of veth pairs leave VLAN tags outside the packets, as Linux does, but in generic mode: there such a tag
// is lost, and no port can change its far end.
func (n *network) setTags(row *vm.Row) error {
	if !n.plan.Veth {
		return nil
	}
	var errs []error
	for i := range n.hosts {
		errs = append(errs, n.hosts[i].SetOffload(hostInterface, netns.TxVLAN, row.Mode != "generic"))
	}
	return errors.Join(errs...)
}

// takeNICs names the NICs and moves those of the hosts.
func (n *network) takeNICs() error {
	links, err := n.ports.Netlink().LinkList()
	if err != nil {
		return err
	}
	found := 0
	for _, link := range links {
		for i, name := range names {
			if link.Attrs().HardwareAddr.String() != vm.MAC(i) {
				continue
			}
			found++
			if err := n.take(link, name, n.spaceOf(i)); err != nil {
				return fmt.Errorf("name NIC %d %s: %w", i, name, err)
			}
		}
	}
	if found != vm.NICs {
		return fmt.Errorf("found %d of %d NICs: does the driver know the device?", found, vm.NICs)
	}
	return nil
}

func (n *network) take(link netlink.Link, name string, to *netns.Namespace) error {
	if to != n.ports {
		if err := n.ports.MoveLink(link.Attrs().Name, to); err != nil {
			return err
		}
	}
	return to.Netlink().LinkSetName(link, name)
}

// configure gives the host its addresses and routes. Neighbours are found as on any host.
func (h *host) configure(i int) error {
	own, other := i+1, 2-i
	address := func(format string) netip.Addr { return netip.MustParseAddr(fmt.Sprintf(format, own)) }
	h.plain, h.six = address("10.0.0.%d"), address("fd00::%d")
	h.vlan, h.mixed = address("10.0.10.%d"), address("10.0.20.%d")
	h.far, h.far6 = address("10.1.%d.2"), address("fd00:%d::2")
	mac, err := h.MAC(hostInterface)
	if err != nil {
		return err
	}
	h.mac, h.device = mac.String(), hostInterface
	if err := h.SetUp(hostInterface); err != nil {
		return err
	}
	if err := h.addVLAN(10); err != nil {
		return err
	}
	mixed := hostInterface
	if i == 1 {
		if err := h.addVLAN(20); err != nil {
			return err
		}
		mixed += ".20"
	}
	for _, a := range []struct {
		name    string
		address netip.Addr
		bits    int
	}{
		{hostInterface, h.plain, 24}, {hostInterface, h.six, 64}, {hostInterface + ".10", h.vlan, 24}, {mixed, h.mixed, 24},
		{hostInterface, h.far, 24}, {hostInterface, h.far6, 64},
	} {
		if err := h.AddAddress(a.name, netip.PrefixFrom(a.address, a.bits)); err != nil {
			return err
		}
	}
	for _, r := range [][2]string{{"10.1.%d.0/24", "10.1.%d.1"}, {"fd00:%d::/64", "fd00:%d::1"}} {
		err := h.AddRoute(hostInterface, netip.MustParsePrefix(fmt.Sprintf(r[0], other)), netip.MustParseAddr(fmt.Sprintf(r[1], own)))
		if err != nil {
			return err
		}
	}
	return h.addTagged(i)
}

// addVLAN makes an interface on the host's for a VLAN, which has the name eth0.ID.
func (h *host) addVLAN(id int) error {
	return h.addVLANOn(hostInterface, fmt.Sprintf("%s.%d", hostInterface, id), id, netlink.VLAN_PROTOCOL_8021Q)
}

// setMTU sets the MTU of the hosts and of the ports towards them, and that of the cable between two switches.
func (n *network) setMTU(mtu, core int) error {
	for i, name := range names {
		size := mtu
		if i == vm.PortC || i == vm.PortD {
			size = core
		}
		if err := n.spaceOf(i).SetMTU(name, size); err != nil {
			return err
		}
	}
	return nil
}

// up brings all NICs up and waits for their links.
func (n *network) up() error {
	for i, name := range names {
		if err := n.spaceOf(i).SetUp(name); err != nil {
			return err
		}
	}
	for i, name := range names {
		if err := n.spaceOf(i).WaitUp(name, upWait); err != nil {
			return err
		}
	}
	return nil
}
