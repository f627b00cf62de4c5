package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab"
)

// The VLANs of the test irb, whose switch bridges and routes between subinterfaces:
//
//	host 1, eth0.100 ─────> a.100   ─┐
//	                                 ├─ blue, irb-blue ──┐
//	host 2, eth0.100 ─────> b.100   ─┘                   ├─ router
//	host 1, eth0.400.7 ───> a.400.7 ─── green, irb-green ┤
//	host 2, eth0.500 ─────> b.500 ───────────────────────┘
const (
	blueVLAN   = 100
	outerVLAN  = 400
	innerVLAN  = 7
	routedVLAN = 500
	// qinqMTU is that of what has two tags, as a cable has room for one beyond its MTU.
	qinqMTU = mtu - 4
)

// tagged are the addresses of the hosts' stacks by interface: of the domain alone, and of what is routed, IPv4 and IPv6.
type tagged struct{ bridged, routed, routed6, qinq, qinq6 netip.Addr }

var taggedAddresses = [2]tagged{
	{
		bridged: netip.MustParseAddr("10.31.0.2"), routed: netip.MustParseAddr("10.33.0.2"), routed6: netip.MustParseAddr("fd33::2"),
		qinq: netip.MustParseAddr("10.32.0.2"), qinq6: netip.MustParseAddr("fd32::2"),
	},
	{
		bridged: netip.MustParseAddr("10.31.0.3"), routed: netip.MustParseAddr("10.35.0.2"), routed6: netip.MustParseAddr("fd35::2"),
		qinq: netip.MustParseAddr("10.36.0.2"), qinq6: netip.MustParseAddr("fd36::2"),
	},
}

// routedSwitch is the switch of the test.
var routedSwitch = switchFile{"s1", 1, []string{"a", "b"}, `"parse", "vlan", "l2", "l3", "irb", "tag"`, `
[[port]]
driver = "vlan"
parent = "a"
vlan = 100

[[port]]
driver = "vlan"
parent = "b"
vlan = 100

[[port]]
driver = "vlan"
parent = "a"
vlan = 400
inner_vlan = 7

[[port]]
driver = "vlan"
parent = "b"
vlan = 500

[[port]]
name = "irb-blue"
driver = "irb"

[[port]]
name = "irb-green"
driver = "irb"

[[stages.l2.domain]]
name = "blue"
ports = ["a.100", "b.100", "irb-blue"]

[[stages.l2.domain]]
name = "green"
ports = ["a.400.7", "irb-green"]

[[stages.l3.interface]]
port = "irb-blue"
addresses = ["10.33.0.1/24", "fd33::1/64"]

[[stages.l3.interface]]
port = "irb-green"
addresses = ["10.32.0.1/24", "fd32::1/64"]

[[stages.l3.interface]]
port = "b.500"
addresses = ["10.35.0.1/24", "10.36.0.1/24", "fd35::1/64", "fd36::1/64"]
`}

// addTagged gives a host the interfaces of the test: VLANs of Linux, one of them in another one.
func (h *host) addTagged(i int) error {
	here, far := &taggedAddresses[i], &taggedAddresses[1-i]
	blue := fmt.Sprintf("%s.%d", hostInterface, blueVLAN)
	routed, qinq := blue, fmt.Sprintf("%s.%d.%d", hostInterface, outerVLAN, innerVLAN)
	err := h.addVLANOn(hostInterface, blue, blueVLAN, netlink.VLAN_PROTOCOL_8021Q)
	if i == 0 {
		outer := fmt.Sprintf("%s.%d", hostInterface, outerVLAN)
		err = errors.Join(err, h.addVLANOn(hostInterface, outer, outerVLAN, netlink.VLAN_PROTOCOL_8021AD),
			h.addVLANOn(outer, qinq, innerVLAN, netlink.VLAN_PROTOCOL_8021Q), h.SetMTU(qinq, qinqMTU))
	} else {
		routed = fmt.Sprintf("%s.%d", hostInterface, routedVLAN)
		qinq = routed
		err = errors.Join(err, h.addVLANOn(hostInterface, routed, routedVLAN, netlink.VLAN_PROTOCOL_8021Q))
	}
	if err != nil {
		return err
	}
	if err := h.AddAddress(blue, netip.PrefixFrom(here.bridged, 24)); err != nil {
		return err
	}
	for _, a := range []struct {
		name      string
		own, peer netip.Addr
		bits      int
	}{{routed, here.routed, far.routed, 24}, {routed, here.routed6, far.routed6, 64}, {qinq, here.qinq, far.qinq, 24}, {qinq, here.qinq6, far.qinq6, 64}} {
		gateway := netip.PrefixFrom(a.own, a.bits).Masked().Addr().Next()
		err := errors.Join(h.AddAddress(a.name, netip.PrefixFrom(a.own, a.bits)),
			h.AddRoute(a.name, netip.PrefixFrom(a.peer, a.bits).Masked(), gateway))
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
	}
	return nil
}

// addVLANOn makes an interface for a VLAN on another one.
func (h *host) addVLANOn(parent, name string, id int, protocol netlink.VlanProtocol) error {
	on, err := h.Link(parent)
	if err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.ParentIndex = name, on.Attrs().Index
	if err := h.Netlink().LinkAdd(&netlink.Vlan{LinkAttrs: attributes, VlanId: id, VlanProtocol: protocol}); err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	return h.SetUp(name)
}

// bridgedAndRouted has the hosts talk through subinterfaces of the switch: in a domain, and through its router, behind one tag and two.
// Then the second host's VLAN of the domain is one of a bridge of its own that filters VLANs.
func (r *running) bridgedAndRouted(ctx context.Context) (text string, err error) {
	a, b := &r.hosts[0], &r.hosts[1]
	one, two := &taggedAddresses[0], &taggedAddresses[1]
	stack := func(h *host, address netip.Addr) lab.Stack {
		return lab.Stack{Namespace: h.Namespace, Address: address}
	}
	small := append(pingSizes[:len(pingSizes)-1:len(pingSizes)-1], qinqMTU)
	// A router asks for a station once a second, and the first questions may be lost: the first answer is waited for.
	reach := func(from, to netip.Addr, sizes ...int) func() error {
		return func() error {
			if err := r.settleBetween(ctx, stack(a, from), stack(b, to)); err != nil {
				return err
			}
			return ping(ctx, stack(a, from), stack(b, to), sizes...)
		}
	}
	inDomain := reach(one.bridged, two.bridged, pingSizes...)
	for _, try := range []struct {
		name string
		run  func() error
	}{
		{"in the domain", inDomain},
		{"routed", reach(one.routed, two.routed, pingSizes...)},
		{"routed, IPv6", reach(one.routed6, two.routed6, 64, 1500)},
		{"routed, two tags", reach(one.qinq, two.qinq, small...)},
		{"routed, two tags, IPv6", reach(one.qinq6, two.qinq6, 64, qinqMTU)},
		{"in the domain, by a bridge of the host", func() error { return b.behindBridge(two.bridged, inDomain) }},
	} {
		if err := try.run(); err != nil {
			return "", fmt.Errorf("%s: %w", try.name, err)
		}
	}
	for _, ends := range [][2]lab.Stack{
		{stack(a, one.bridged), stack(b, two.bridged)}, {stack(a, one.routed), stack(b, two.routed)}, {stack(a, one.qinq), stack(b, two.qinq)},
	} {
		if text, err = r.tcp(ctx, ends[0], ends[1], r.row.Bytes/16); err != nil {
			return "", err
		}
	}
	return text, nil
}

// behindBridge runs f while the host has an address at a bridge that filters VLANs, in place of its VLAN interface: the bridge takes the
// tag off, and puts it on.
func (h *host) behindBridge(address netip.Addr, f func() error) (err error) {
	blue := fmt.Sprintf("%s.%d", hostInterface, blueVLAN)
	if err := h.DeleteLink(blue); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, h.addVLANOn(hostInterface, blue, blueVLAN, netlink.VLAN_PROTOCOL_8021Q), h.AddAddress(blue, netip.PrefixFrom(address, 24)))
	}()
	const name = "vlans"
	attributes := netlink.NewLinkAttrs()
	attributes.Name = name
	filtering := true
	if err := h.Netlink().LinkAdd(&netlink.Bridge{LinkAttrs: attributes, VlanFiltering: &filtering}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.DeleteLink(name)) }()
	bridge, err := h.Link(name)
	if err != nil {
		return err
	}
	port, err := h.Link(hostInterface)
	if err != nil {
		return err
	}
	own := h.Netlink()
	return errors.Join(own.LinkSetMaster(port, bridge), own.BridgeVlanAdd(port, blueVLAN, false, false, false, true),
		own.BridgeVlanAdd(bridge, blueVLAN, true, true, true, false), h.SetUp(name), h.AddAddress(name, netip.PrefixFrom(address, 24)), f())
}

// taggedEnds are the stacks by which the bed of the test settles.
func (r *running) taggedEnds() (from, to lab.Stack) {
	return lab.Stack{Namespace: r.hosts[0].Namespace, Address: taggedAddresses[0].bridged},
		lab.Stack{Namespace: r.hosts[1].Namespace, Address: taggedAddresses[1].bridged}
}
