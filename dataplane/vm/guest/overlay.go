package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// The test overlay: the second host has an end of each tunnel, and the switch the other one, in a VLAN of its bridge.
//
//	host 1, eth0.71 ─┐           ┌─ vxlan4 ─┐              ┌─ VXLAN over IPv4
//	        eth0.72 ─┤           ├─ vxlan6 ─┤              ├─ VXLAN over IPv6
//	        eth0.73 ─┼─> a ── l2 ┼─ geneve4 ┼─ b <──> eth0 ┼─ Geneve over IPv4
//	        eth0.74 ─┘           └─ geneve6 ┘              └─ Geneve over IPv6, host 2
var overlaySwitch = switchFile{"s1", 1, []string{"a", "b"}, `"parse", "tunnel", "l2", "encap"`, overlayStages()}

// overlayUnderlay are the addresses of the tunnels' ends: the switch's, and the second host's.
var overlayUnderlay = [2]struct{ four, six netip.Prefix }{
	{netip.MustParsePrefix("10.43.0.1/24"), netip.MustParsePrefix("fd43::1/64")},
	{netip.MustParsePrefix("10.43.0.2/24"), netip.MustParsePrefix("fd43::2/64")},
}

const (
	firstOverlayVLAN = 71
	firstOverlayVNI  = 0xabcd01
	// overlayMTU leaves room for the longest outer headers, those over IPv6.
	overlayMTU = mtu - 70
)

// overlayTunnels in the order of their VLANs and VNIs.
var overlayTunnels = []struct {
	name, kind string
	six        bool
}{{"vxlan4", "vxlan", false}, {"vxlan6", "vxlan", true}, {"geneve4", "geneve", false}, {"geneve6", "geneve", true}}

// overlayEnd is an end of a tunnel, of the switch (0) or of the second host (1).
func overlayEnd(i int, six bool) netip.Addr {
	if six {
		return overlayUnderlay[i].six.Addr()
	}
	return overlayUnderlay[i].four.Addr()
}

func overlayStages() (text string) {
	vlans := ""
	for i, t := range overlayTunnels {
		text += fmt.Sprintf("[[port]]\nname = %q\ndriver = \"tunnel\"\n", t.name)
		text += fmt.Sprintf("[[stages.l2.port]]\nport = %q\naccess = %d\n", t.name, firstOverlayVLAN+i)
		text += fmt.Sprintf("[[stages.tunnel.tunnel]]\nport = %q\nkind = %q\nvni = %d\nremotes = [%q]\n", t.name, t.kind, firstOverlayVNI+i, overlayEnd(1, t.six))
		vlans += fmt.Sprintf("%d, ", firstOverlayVLAN+i)
	}
	text += fmt.Sprintf("[[stages.l2.port]]\nport = \"a\"\ntrunk = [%s]\n", vlans)
	return text + fmt.Sprintf("[[stages.tunnel.underlay]]\nport = \"b\"\naddresses = [%q, %q]\n", overlayUnderlay[0].four, overlayUnderlay[0].six)
}

// overlayLink is the second host's end.
func overlayLink(i int) netlink.Link {
	t := &overlayTunnels[i]
	a := netlink.NewLinkAttrs()
	a.Name = t.name
	own, peer := overlayEnd(1, t.six).AsSlice(), overlayEnd(0, t.six).AsSlice()
	if t.kind == "geneve" {
		return &netlink.Geneve{LinkAttrs: a, ID: uint32(firstOverlayVNI + i), Remote: peer, Dport: 6081}
	}
	return &netlink.Vxlan{LinkAttrs: a, VxlanId: firstOverlayVNI + i, SrcAddr: own, Group: peer, Port: 4789, Learning: true}
}

// overlays has each tunnel carry packets of both hosts: IPv4 and IPv6, and TCP both ways.
func (r *running) overlays(ctx context.Context) (text string, err error) {
	far := &r.hosts[1]
	for _, p := range []netip.Prefix{overlayUnderlay[1].four, overlayUnderlay[1].six} {
		if err := far.AddAddress(hostInterface, p); err != nil {
			return "", err
		}
	}
	for i, t := range overlayTunnels {
		figures, err := r.overlay(ctx, i)
		if err != nil {
			return "", fmt.Errorf("%s: %w %s", t.name, err, r.showPorts())
		}
		text += fmt.Sprintf("%s %s; ", t.name, figures)
	}
	return text, nil
}

func (r *running) overlay(ctx context.Context, i int) (text string, err error) {
	near, far := &r.hosts[0], &r.hosts[1]
	t := &overlayTunnels[i]
	vlan := fmt.Sprintf("%s.%d", hostInterface, firstOverlayVLAN+i)
	if err := near.addVLANOn(hostInterface, vlan, firstOverlayVLAN+i, netlink.VLAN_PROTOCOL_8021Q); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, near.DeleteLink(vlan)) }()
	if err := far.Netlink().LinkAdd(overlayLink(i)); err != nil {
		return "", fmt.Errorf("make the device: %w", err)
	}
	defer func() { err = errors.Join(err, far.DeleteLink(t.name)) }()
	if r.plan.SoftTunnels {
		if err := far.SetOffload(t.name, netns.TxChecksum, false); err != nil {
			return "", err
		}
	}
	var four, six [2]lab.Stack
	for k, on := range []struct {
		h    *host
		name string
	}{{near, vlan}, {far, t.name}} {
		address4 := netip.AddrFrom4([4]byte{10, 44, byte(i), byte(k + 1)})
		address6 := netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x44, 3: byte(i), 15: byte(k + 1)})
		err := errors.Join(on.h.SetMTU(on.name, overlayMTU), on.h.SetUp(on.name),
			on.h.AddAddress(on.name, netip.PrefixFrom(address4, 24)), on.h.AddAddress(on.name, netip.PrefixFrom(address6, 64)))
		if err != nil {
			return "", err
		}
		four[k], six[k] = lab.Stack{Namespace: on.h.Namespace, Address: address4}, lab.Stack{Namespace: on.h.Namespace, Address: address6}
	}
	if err := r.settleBetween(ctx, four[0], four[1]); err != nil {
		return "", err
	}
	if err := errors.Join(ping(ctx, four[0], four[1], 64, 512, overlayMTU), ping(ctx, six[0], six[1], 64, overlayMTU)); err != nil {
		return "", err
	}
	return r.tcp(ctx, four[0], four[1], r.row.Bytes/16)
}
