package node

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// TestTagsOutsidePackets: a host with a VLAN interface on the far end of a veth leaves tags outside the packets, as Linux
// does by default. The switch sees them: both hosts tag, or one of them does and the port of the other one is in the VLAN.
// Packets without a tag are dropped at a trunk.
func TestTagsOutsidePackets(t *testing.T) {
	const trunk, access = "trunk = [10]", "access = 10"
	for _, second := range []string{trunk, access} {
		t.Run(second, func(t *testing.T) {
			b := newBed(t)
			for i, h := range b.hosts[:2] {
				name := "eth0"
				for _, o := range []netns.Offload{netns.TxChecksum, netns.TSO, netns.TxVLAN} {
					check(t, h.NS.SetOffload(name, o, true))
				}
				if i == 0 || second == trunk {
					parent, err := h.NS.Link(name)
					check(t, err)
					attributes := netlink.NewLinkAttrs()
					name += ".10"
					attributes.Name, attributes.ParentIndex = name, parent.Attrs().Index
					err = h.NS.Netlink().LinkAdd(&netlink.Vlan{LinkAttrs: attributes, VlanId: 10})
					if errors.Is(err, unix.EOPNOTSUPP) {
						t.Skip("the kernel has no VLAN interfaces (8021q); make vm-test VM=veth tries them")
					}
					check(t, err)
					check(t, h.NS.SetUp(name))
				}
				check(t, h.NS.SetARP(name, true))
				for _, n := range offloadNetworks {
					check(t, h.NS.AddAddress(name, netip.MustParsePrefix(fmt.Sprintf(n, i+1))))
				}
			}
			b.write(t, fmt.Sprintf(`
[switch]
name = "s"
graph = ["parse", "l2"]
[dataplane]
audit = true
[[port]]
interface = "p0"
mode = "native"
[[port]]
interface = "p1"
mode = "native"
[[stages.l2.port]]
port = "p0"
trunk = [10]
[[stages.l2.port]]
port = "p1"
%s
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`, second))
			b.start(t)
			for from := range 2 {
				for _, n := range offloadNetworks {
					to := netip.MustParsePrefix(fmt.Sprintf(n, 2-from)).Addr()
					if err := transfer(b.hosts[from], b.hosts[1-from], to, 4<<20); err != nil {
						t.Errorf("TCP to %v: %v", to, err)
					}
					if err := echo(b.hosts[from], b.hosts[1-from], to); err != nil {
						t.Errorf("UDP to %v: %v", to, err)
					}
				}
			}
			for _, p := range b.stop(t).Ports {
				if p.RxTagLost != 0 || len(p.Fallbacks) != 0 {
					t.Errorf("port %s: %d tags lost, %q", p.Name, p.RxTagLost, p.Fallbacks)
				}
			}
		})
	}
}
