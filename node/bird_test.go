package node

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// birdNet is the network of two routers with a host each, and a second network at a host. Each text is for router %d.
type birdNet struct {
	channel               string // of BIRD
	network, router, host string
	bits                  int
	all                   string
	extra, inside         string // the second network, and an address in it
	links                 []string
}

// The one link of IPv4:
//
//	h1 10.1.0.2 ── 10.1.0.1 r1 10.12.0.1 ── 10.12.0.2 r2 10.2.0.1 ── 10.2.0.2 h2
var birdIPv4 = birdNet{
	channel: "ipv4", network: "10.%d.0.0/24", router: "10.%d.0.1", host: "10.%d.0.2", bits: 24, all: "0.0.0.0/0",
	extra: "10.77.%d.0/24", inside: "10.77.%d.1", links: []string{"10.12.0.%d"},
}

// The two links of IPv6, equal ways from one router to the other.
var birdIPv6 = birdNet{
	channel: "ipv6", network: "fd00:%d::/64", router: "fd00:%d::1", host: "fd00:%d::2", bits: 64, all: "::/0",
	extra: "fd00:77:%d::/64", inside: "fd00:77:%d::1", links: []string{"fd00:12::%d", "fd00:13::%d"},
}

// birdRouter is a router of Weir with BIRD as its control plane, in one namespace:
//
//	host ── p0 ┌──────┐ p1, p2 ... ── the other router
//	           │ weir │
//	        t0 └──────┘ t1, t2 ...
//	          kernel, bird
type birdRouter struct {
	*bed
	host   *netnstest.Host
	net    *birdNet
	id     int
	socket string
}

// birds is two such routers, with a host behind each.
func birds(t *testing.T, n *birdNet, protocol string) (r [2]*birdRouter) {
	t.Helper()
	netnstest.Require(t)
	for _, program := range []string{"bird", "birdc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("BIRD is missing: apt-get install bird2")
		}
	}
	for i := range r {
		id := i + 1
		r[i] = &birdRouter{bed: &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}, net: n, id: id}
		r[i].file = filepath.Join(r[i].dir, "weir.toml")
		r[i].host = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: r[i].ns, Name: "p0"}, fmt.Sprintf(n.host+"/%d", id, n.bits))
		check(t, r[i].host.NS.AddRoute("eth0", netip.MustParsePrefix(n.all), netip.MustParseAddr(fmt.Sprintf(n.router, id))))
	}
	for k := range n.links {
		name := fmt.Sprintf("p%d", k+1)
		check(t, netns.AddVeth(netns.End{Namespace: r[0].ns, Name: name}, netns.End{Namespace: r[1].ns, Name: name}, netns.Veth{Queues: 1}))
		for _, x := range r {
			check(t, x.ns.SetSwitchOffloads(name))
			check(t, x.ns.SetUp(name))
		}
	}
	for _, x := range r {
		if n.channel == "ipv6" { // of the host interfaces, which are made from now on
			check(t, x.ns.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("0"), 0) }))
		}
		x.configure(t)
		x.start(t)
		x.startBird(t, protocol)
	}
	return r
}

// configure writes the switch's configuration.
func (r *birdRouter) configure(t *testing.T) {
	t.Helper()
	text := fmt.Sprintf(birdSwitch, r.id)
	for k, address := range append([]string{r.net.router}, r.net.links...) {
		text += fmt.Sprintf(birdPort, k, fmt.Sprintf(address+"/%d", r.id, r.net.bits))
	}
	r.write(t, text)
}

const birdSwitch = `
[switch]
name = "r%[1]d"
id = %[1]d
graph = ["parse", "l3"]
[workers]
pin = false
poll = "interrupt"
[dataplane]
audit = true
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`

const birdPort = `
[[port]]
interface = "p%[1]d"
[[port]]
interface = "t%[1]d"
driver = "tap"
[[stages.l3.interface]]
port = "p%[1]d"
addresses = [%[2]q]
host = "t%[1]d"
`

// startBird runs BIRD in the router's namespace. It announces the host's network, and by the protocol extra_net what the protocol
// "extra" has, which begins disabled.
func (r *birdRouter) startBird(t *testing.T, protocol string) {
	t.Helper()
	r.socket = filepath.Join(r.dir, "bird.ctl")
	file := filepath.Join(r.dir, "bird.conf")
	n, other := r.net, 3-r.id
	channel := n.channel + " { import all; export where source ~ [ RTS_STATIC, RTS_DEVICE ]; };"
	text := fmt.Sprintf(`
router id 10.12.0.%d;
protocol device { scan time 1; }
protocol direct { %s; interface "t0"; }
protocol kernel { %[2]s { export where source != RTS_DEVICE; import none; }; merge paths yes; }
protocol static extra { disabled; %[2]s; route %s via %s; }
`, r.id, n.channel, fmt.Sprintf(n.extra, r.id), fmt.Sprintf(n.host, r.id))
	switch protocol {
	case "bgp":
		for k, link := range n.links {
			peer := fmt.Sprintf("local %s as %d; neighbor %s as %d;", fmt.Sprintf(link, r.id), 65000+r.id, fmt.Sprintf(link, other), 65000+other)
			if k > 0 { // by the link-local addresses that follow from the routers' MAC addresses
				name := fmt.Sprintf("t%d", k+1)
				peer = fmt.Sprintf("local as %d; neighbor %s as %d; interface %q;", 65000+r.id, r.linkLocalOfOther(t, name), 65000+other, name)
			}
			text += fmt.Sprintf("protocol bgp peer%d { %s connect retry time 1; connect delay time 1; error wait time 1, 2; %s }\n", k, peer, channel)
		}
	case "ospf":
		version := map[string]string{"ipv4": "v2", "ipv6": "v3"}[n.channel]
		text += fmt.Sprintf("protocol ospf %s { ecmp yes; %s area 0 { interface \"t1\", \"t2\" { type ptp; hello 1; dead 10; }; }; }\n", version, channel)
	}
	check(t, os.WriteFile(file, []byte(text), 0o600))
	bird := exec.Command("bird", "-f", "-c", file, "-s", r.socket, "-P", filepath.Join(r.dir, "bird.pid"))
	var output strings.Builder
	bird.Stdout, bird.Stderr = &output, &output
	check(t, r.ns.Start(bird))
	t.Cleanup(func() {
		_ = bird.Process.Kill()
		_ = bird.Wait()
		if t.Failed() {
			t.Logf("bird of r%d: %s", r.id, &output)
		}
	})
}

// linkLocalOfOther is the link-local address of the other router's port with a host interface. Both routers' ports have the same numbers, and their
// MAC addresses differ in the id alone.
func (r *birdRouter) linkLocalOfOther(t *testing.T, host string) netip.Addr {
	t.Helper()
	var mac net.HardwareAddr
	r.await(t, "the host interface has the port's MAC address", func() (ok bool) {
		var err error
		mac, err = r.ns.MAC(host)
		return err == nil && mac[0] == 2 && mac[1] == 0 && mac[2] == 0 && mac[3] == byte(r.id)
	})
	return netip.AddrFrom16([16]byte{0: 0xfe, 1: 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: byte(3 - r.id), 14: mac[4], 15: mac[5]})
}

// birdc gives BIRD a command.
func (r *birdRouter) birdc(t *testing.T, command ...string) string {
	t.Helper()
	text, err := exec.Command("birdc", append([]string{"-s", r.socket}, command...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("birdc %v: %v: %s", command, err, text)
	}
	return string(text)
}

// origin is who made the route to a prefix that is in force, empty if there is none.
func (r *birdRouter) origin(prefix string) string {
	routes, _ := r.Routes()
	for _, x := range routes.Routes {
		if x.Prefix == prefix {
			return x.Kind + " " + x.Origin
		}
	}
	return ""
}

// hops are the next hops of the route to a prefix.
func (r *birdRouter) hops(prefix string) []*api.Hop {
	routes, _ := r.Routes()
	for _, x := range routes.Routes {
		if x.Prefix == prefix {
			return x.Hops
		}
	}
	return nil
}

// kernelRoutes reports the kernel's changes of the routes to a prefix in the router's namespace, with the time of each.
func (r *birdRouter) kernelRoutes(t *testing.T, prefix string) <-chan routeEvent {
	t.Helper()
	updates, events, end := make(chan netlink.RouteUpdate), make(chan routeEvent, 64), make(chan struct{})
	check(t, r.ns.Do(func() error { return netlink.RouteSubscribe(updates, end) }))
	t.Cleanup(func() { close(end) })
	go func() {
		for u := range updates {
			if u.Dst != nil && u.Dst.String() == prefix && u.Table == unix.RT_TABLE_MAIN {
				events <- routeEvent{u.Type == unix.RTM_NEWROUTE, time.Now()}
			}
		}
	}()
	return events
}

type routeEvent struct {
	added bool
	at    time.Time
}

// TestBirdBGP: BIRD speaks BGP over the routers' ports. What it learns forwards, and what is withdrawn does not any more.
func TestBirdBGP(t *testing.T) { birdRoutes(t, &birdIPv4, "bgp") }

// TestBirdOSPF is the same with OSPF, whose packets are multicast.
func TestBirdOSPF(t *testing.T) {
	if testing.Short() {
		t.Skip("OSPF takes some seconds to find its neighbours")
	}
	birdRoutes(t, &birdIPv4, "ospf")
}

// TestBirdBGP6 is the same for IPv6: two sessions, the second one between link-local addresses, and two equal ways.
func TestBirdBGP6(t *testing.T) {
	if testing.Short() {
		t.Skip("TestBirdBGP is short, and has what both have in common")
	}
	birdRoutes(t, &birdIPv6, "bgp")
}

// TestBirdOSPF6 is the same with OSPFv3, all of whose next hops are link-local.
func TestBirdOSPF6(t *testing.T) {
	if testing.Short() {
		t.Skip("OSPF takes some seconds to find its neighbours")
	}
	birdRoutes(t, &birdIPv6, "ospf")
}

func birdRoutes(t *testing.T, n *birdNet, protocol string) {
	r := birds(t, n, protocol)
	begin := time.Now()
	of := func(text string, id int) string { return fmt.Sprintf(text, id) }
	far := netip.MustParseAddr(of(n.host, 2))
	for i, x := range r {
		prefix := of(n.network, 2-i)
		x.await(t, fmt.Sprintf("r%d has the other's network", x.id), func() bool {
			return x.origin(prefix) == "kernel bird" && len(x.hops(prefix)) == len(n.links)
		})
	}
	t.Logf("%s: both networks known after %v: %v", protocol, time.Since(begin), r[0].hops(of(n.network, 2)))
	check(t, echo(r[0].host, r[1].host, far))
	check(t, transfer(r[0].host, r[1].host, far, 1<<20))
	if len(n.links) > 1 {
		equalWays(t, r, protocol)
	}

	// A network behind h2 appears.
	extra := of(n.extra, 2)
	inside := netip.MustParseAddr(of(n.inside, 2))
	check(t, r[1].host.NS.AddAddress("eth0", netip.PrefixFrom(inside, inside.BitLen())))
	at := netip.AddrPortFrom(inside, 7777).String()
	server, err := r[1].host.NS.ListenPacket("udp", at)
	check(t, err)
	defer server.Close()
	arrived := make(chan time.Time, 1)
	go func() {
		buf := make([]byte, 64)
		for {
			if _, _, err := server.ReadFrom(buf); err != nil {
				return
			}
			select {
			case arrived <- time.Now():
			default:
			}
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	client, err := r[0].host.NS.Dial(ctx, "udp", at)
	check(t, err)
	defer client.Close()
	events := r[0].kernelRoutes(t, extra)
	next := func(added bool) time.Time {
		t.Helper()
		for {
			select {
			case e := <-events:
				if e.added == added {
					return e.at
				}
			case <-ctx.Done():
				t.Fatalf("the kernel's route did not change: %s", r[0].birdc(t, "show", "protocols", "all"))
			}
		}
	}
	enabled := time.Now()
	r[1].birdc(t, "enable", "extra")
	learned := next(true)
	var first time.Time
	for first.IsZero() {
		_, _ = client.Write([]byte("x")) // refused as long as there is no route
		select {
		case first = <-arrived:
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			t.Fatal("no packet arrives")
		}
	}
	t.Logf("%s: announced; in the kernel of r1 after %v; the first packet was forwarded %v after that", protocol, learned.Sub(enabled), first.Sub(learned))

	// And goes.
	r[1].birdc(t, "disable", "extra")
	gone := next(false)
	before := r[0].dropped("no_route")
	r[0].await(t, "packets are dropped", func() bool {
		_, _ = client.Write([]byte("x"))
		return r[0].dropped("no_route") > before
	})
	t.Logf("%s: withdrawn; dropped %v after the kernel's route went", protocol, time.Since(gone))
	if o := r[0].origin(extra); o != "" {
		t.Errorf("the route of %s is left", o)
	}
	if len(n.links) > 1 {
		oneWay(t, r, far)
	}
	for _, x := range r {
		x.linkDown(t)
	}
	for _, x := range r {
		check(t, x.end())
	}
}

// equalWays: flows take all ways to the other network, with OSPF by next hops that are link-local. (BIRD prefers a global one where BGP gives both.)
func equalWays(t *testing.T, r [2]*birdRouter, protocol string) {
	t.Helper()
	far := r[0].net
	for _, h := range r[0].hops(fmt.Sprintf(far.network, 2)) {
		if protocol == "ospf" && !netip.MustParseAddr(h.Address).IsLinkLocalUnicast() {
			t.Errorf("the next hop by %s is %s", h.Port, h.Address)
		}
	}
	// Of 64 flows a way gets fewer than 8 by a chance of 1e-10, and all ports but those send some packets of the protocols.
	const flows, packets = 64, 100
	before := r[0].Report()
	server, err := r[1].host.NS.ListenPacket("udp", netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf(far.host, 2)), 0).String())
	check(t, err)
	defer server.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	buf := make([]byte, 64)
	for range flows {
		client, err := r[0].host.NS.Dial(ctx, "udp", server.LocalAddr().String())
		check(t, err)
		for range packets {
			_, err = client.Write([]byte("x"))
			check(t, err)
			check(t, server.SetReadDeadline(time.Now().Add(patience)))
			_, _, err = server.ReadFrom(buf)
			check(t, err)
		}
		check(t, client.Close())
	}
	after := r[0].Report()
	for i, p := range after.Ports {
		if p.Name == "p1" || p.Name == "p2" {
			if n := p.Transmitted - before.Ports[i].Transmitted; n < 8*packets {
				t.Errorf("of %d packets of %d flows %d left by %s", flows*packets, flows, n, p.Name)
			}
		}
	}
}

// oneWay: a link goes down, and all take the other one.
func oneWay(t *testing.T, r [2]*birdRouter, far netip.Addr) {
	t.Helper()
	check(t, r[1].ns.SetDown("p2"))
	begin := time.Now()
	for i, x := range r {
		prefix := fmt.Sprintf(x.net.network, 2-i)
		x.await(t, "one way is left", func() bool { h := x.hops(prefix); return len(h) == 1 && h[0].Port == "p1" })
	}
	t.Logf("a link is down; both routers use the other one after %v", time.Since(begin))
	check(t, echo(r[0].host, r[1].host, far))
	check(t, transfer(r[0].host, r[1].host, far, 1<<20))
}

// linkDown: the carrier of a port is that of its host interface.
func (r *birdRouter) linkDown(t *testing.T) {
	t.Helper()
	carrier := func() bool {
		l, err := r.ns.Link("t0")
		check(t, err)
		return l.Attrs().RawFlags&unix.IFF_LOWER_UP != 0
	}
	if !carrier() {
		t.Error("t0 has no carrier")
	}
	check(t, r.host.NS.SetDown("eth0"))
	r.await(t, "t0 without carrier", func() bool { return !carrier() })
}

// dropped is how many packets the ports dropped for a reason.
func (r *birdRouter) dropped(reason string) (n uint64) {
	for _, p := range r.Report().Ports {
		n += p.Dropped[reason]
	}
	return n
}
