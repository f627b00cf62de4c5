package netnstest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

var sequence atomic.Uint64

// UniqueName returns a name that begins with prefix and that no other call returns,
// in any process of this test run.
func UniqueName(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), sequence.Add(1))
}

// New makes a namespace whose kernel says nothing unasked, and removes it when
// the test ends.
func New(t testing.TB, prefix string) *netns.Namespace {
	t.Helper()
	ns, err := netns.Create(UniqueName(prefix))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ns.Delete(); err != nil {
			t.Error(err)
		}
	})
	if err := ns.Quiet(); err != nil {
		t.Fatal(err)
	}
	return ns
}

// Port is the far end of a host's cable: an interface to be made in a
// namespace that exists.
type Port struct {
	Namespace *netns.Namespace
	Name      string
	Queues    int // receive and transmit queues at both ends; 0 is 1
	MTU       int // bytes; 0 is 1500
}

// Host is a namespace with one interface, which has a kernel IP stack behind it.
type Host struct {
	NS        *netns.Namespace
	Interface string // always "eth0"
	MAC       net.HardwareAddr
	Addresses []netip.Prefix
}

// NewHost makes a host and the port at the far end of its cable. Both ends are
// up, and their offloads are as a userspace switch at the port needs them. The port's
// namespace gets no IPv6 on that interface. addresses are given as "10.0.0.1/24" or "fd00::1/64".
func NewHost(t testing.TB, prefix string, port Port, addresses ...string) *Host {
	t.Helper()
	host := &Host{NS: New(t, prefix), Interface: "eth0"}
	must(t, port.Namespace.DisableIPv6())
	host.cable(t, port)
	for _, address := range addresses {
		host.address(t, address)
	}
	return host
}

// cable connects the host to the port and brings both ends up.
func (h *Host) cable(t testing.TB, port Port) {
	t.Helper()
	must(t, netns.AddVeth(netns.End{Namespace: h.NS, Name: h.Interface},
		netns.End{Namespace: port.Namespace, Name: port.Name},
		netns.Veth{Queues: port.Queues, MTU: port.MTU}))
	must(t, h.NS.SetHostOffloads(h.Interface))
	must(t, port.Namespace.SetSwitchOffloads(port.Name))
	mac, err := h.NS.MAC(h.Interface)
	must(t, err)
	h.MAC = mac
	must(t, port.Namespace.SetUp(port.Name))
	must(t, h.NS.SetUp(h.Interface))
	must(t, port.Namespace.WaitUp(port.Name, upWait))
	must(t, h.NS.WaitUp(h.Interface, upWait))
}

// upWait is far more than an interface needs to come up.
const upWait = time.Minute

func (h *Host) address(t testing.TB, address string) {
	t.Helper()
	prefix, err := netip.ParsePrefix(address)
	must(t, err)
	must(t, h.NS.AddAddress(h.Interface, prefix))
	h.Addresses = append(h.Addresses, prefix)
}

// Pair makes two hosts joined by one cable. Of the addresses, the first is the
// first host's and the second the second's.
func Pair(t testing.TB, prefix string, addresses ...string) (a, b *Host) {
	t.Helper()
	b = &Host{NS: New(t, prefix), Interface: "eth0"}
	a = &Host{NS: New(t, prefix), Interface: "eth0"}
	a.cable(t, Port{Namespace: b.NS, Name: b.Interface})
	mac, err := b.NS.MAC(b.Interface)
	must(t, err)
	b.MAC = mac
	for i, address := range addresses {
		[]*Host{a, b}[i].address(t, address)
	}
	return a, b
}

// Introduce gives every host permanent neighbour entries for all the others and
// switches address resolution off, so that no host sends requests and counters are exact.
func Introduce(t testing.TB, hosts ...*Host) {
	t.Helper()
	for _, h := range hosts {
		must(t, h.NS.SetARP(h.Interface, false))
		for _, other := range hosts {
			if other == h {
				continue
			}
			for _, address := range other.Addresses {
				must(t, h.NS.AddNeighbour(h.Interface, address.Addr(), other.MAC))
			}
		}
	}
}

// Packet opens a packet socket on the host's interface until the test ends.
func (h *Host) Packet(t testing.TB) *netns.PacketSocket {
	t.Helper()
	socket, err := h.NS.PacketSocket(h.Interface)
	must(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return socket
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
