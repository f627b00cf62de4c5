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

// tunnelInterface is the host's end of a tunnel.
const tunnelInterface = "tunnel0"

// tunnels are those that hosts of a testbed use, from one address to another.
var tunnels = []struct {
	name string
	link func(own, peer netip.Addr, a netlink.LinkAttrs) netlink.Link
}{
	{"VXLAN", func(own, peer netip.Addr, a netlink.LinkAttrs) netlink.Link {
		return &netlink.Vxlan{LinkAttrs: a, VxlanId: 7, SrcAddr: own.AsSlice(), Group: peer.AsSlice(), Port: 4789, Learning: true}
	}},
	{"VXLAN with an outer checksum", func(own, peer netip.Addr, a netlink.LinkAttrs) netlink.Link {
		return &netlink.Vxlan{LinkAttrs: a, VxlanId: 7, SrcAddr: own.AsSlice(), Group: peer.AsSlice(), Port: 8472, Learning: true, UDPCSum: true}
	}},
	{"Geneve", func(_, peer netip.Addr, a netlink.LinkAttrs) netlink.Link {
		return &netlink.Geneve{LinkAttrs: a, ID: 7, Remote: peer.AsSlice(), Dport: 6081}
	}},
	{"GRE", func(own, peer netip.Addr, a netlink.LinkAttrs) netlink.Link {
		return &netlink.Gretun{LinkAttrs: a, Local: own.AsSlice(), Remote: peer.AsSlice(), IKey: 7, OKey: 7}
	}},
	{"Ethernet over GRE", func(own, peer netip.Addr, a netlink.LinkAttrs) netlink.Link {
		return &netlink.Gretap{LinkAttrs: a, Local: own.AsSlice(), Remote: peer.AsSlice()}
	}},
	{"IP in IP", func(own, peer netip.Addr, a netlink.LinkAttrs) netlink.Link {
		return &netlink.Iptun{LinkAttrs: a, Local: own.AsSlice(), Remote: peer.AsSlice()}
	}},
}

// tunnels carries TCP through tunnels between the hosts, whose drivers leave the checksums within to their devices where they can.
func (r *running) tunnels(ctx context.Context) (text string, err error) {
	for i, tunnel := range tunnels {
		var ends [2]lab.Stack
		for k := range r.hosts {
			h, peer := &r.hosts[k], &r.hosts[1-k]
			a := netlink.NewLinkAttrs()
			a.Name = tunnelInterface
			ends[k] = lab.Stack{Namespace: h.Namespace, Address: netip.AddrFrom4([4]byte{10, 7, byte(i), byte(k + 1)})}
			if err := h.Netlink().LinkAdd(tunnel.link(h.plain, peer.plain, a)); err != nil {
				return "", fmt.Errorf("make the tunnel %s: %w", tunnel.name, err)
			}
			if r.plan.SoftTunnels {
				if err := h.SetOffload(tunnelInterface, netns.TxChecksum, false); err != nil {
					return "", err
				}
			}
			err := errors.Join(h.SetUp(tunnelInterface), h.AddAddress(tunnelInterface, netip.PrefixFrom(ends[k].Address, 24)))
			if err != nil {
				return "", err
			}
		}
		err := ping(ctx, ends[0], ends[1], 64, 1400)
		if err == nil {
			text, err = r.tcp(ctx, ends[0], ends[1], r.row.Bytes/16)
		}
		for k := range r.hosts {
			err = errors.Join(err, r.hosts[k].DeleteLink(tunnelInterface))
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", tunnel.name, err)
		}
	}
	return text, nil
}
