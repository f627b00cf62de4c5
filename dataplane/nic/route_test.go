package nic

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestIsDefault: a route to nowhere is none, nor is one to a network that begins with 0.
func TestIsDefault(t *testing.T) {
	for prefix, want := range map[string]bool{"0.0.0.0/0": true, "::/0": true, "0.0.0.0/8": false, "::/96": false, "10.0.0.0/8": false, "fd00::/8": false} {
		_, dst, err := net.ParseCIDR(prefix)
		if err != nil {
			t.Fatal(err)
		}
		if got := isDefault(&netlink.Route{Dst: dst, Type: unix.RTN_UNICAST}); got != want {
			t.Errorf("%s: %v", prefix, got)
		}
		if isDefault(&netlink.Route{Dst: dst, Type: unix.RTN_UNREACHABLE}) {
			t.Errorf("unreachable %s is one", prefix)
		}
	}
	if !isDefault(&netlink.Route{Type: unix.RTN_UNICAST}) {
		t.Error("a route without a destination is none")
	}
}

// TestCarries: members of bridges and bonds carry what leaves them, and the interface below a VLAN; the other end of a veth, which its
// attributes name as below it, and members of a VRF do not.
func TestCarries(t *testing.T) {
	link := func(index, parent, master int) netlink.LinkAttrs {
		return netlink.LinkAttrs{Index: index, ParentIndex: parent, MasterIndex: master}
	}
	member, lone := &netlink.Device{LinkAttrs: link(2, 0, 9)}, &netlink.Device{LinkAttrs: link(2, 0, 0)}
	for _, tt := range []struct {
		name   string
		l, top netlink.Link
		want   bool
	}{
		{"a bridge's member", member, &netlink.Bridge{LinkAttrs: link(9, 0, 0)}, true},
		{"a bond's member", member, &netlink.Bond{LinkAttrs: link(9, 0, 0)}, true},
		{"a VRF's member", member, &netlink.Vrf{LinkAttrs: link(9, 0, 0)}, false},
		{"no member", lone, &netlink.Bridge{LinkAttrs: link(9, 0, 0)}, false},
		{"below a VLAN", lone, &netlink.Vlan{LinkAttrs: link(9, 2, 0)}, true},
		{"below a macvlan", lone, &netlink.Macvlan{LinkAttrs: link(9, 2, 0)}, true},
		{"beside a VLAN", lone, &netlink.Vlan{LinkAttrs: link(9, 3, 0)}, false},
		{"the other end of a veth", lone, &netlink.Veth{LinkAttrs: link(9, 2, 0)}, false},
	} {
		if got := carries(tt.l, tt.top); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}
