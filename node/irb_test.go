package node

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// routedBridge is a switch with three bridge domains and a router. blue and green are routed to each other, red is in a VRF with the
// addresses of blue. p1 is a trunk to another switch with Linux hosts in its VLANs, one of them behind two tags.
const routedBridge = `
[switch]
name = "r1"
id = 1
graph = ["parse", "vlan", "l2", "l3", "irb", "tag"]
[dataplane]
audit = true
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "p2"
[[port]]
driver = "vlan"
parent = "p1"
vlan = 100
[[port]]
driver = "vlan"
parent = "p1"
vlan = 200
[[port]]
driver = "vlan"
parent = "p1"
vlan = 300
[[port]]
driver = "vlan"
parent = "p1"
vlan = 400
inner_vlan = 7
[[port]]
name = "irb-blue"
driver = "irb"
[[port]]
name = "irb-green"
driver = "irb"
[[port]]
name = "irb-red"
driver = "irb"
$PORTS
[[stages.l2.domain]]
name = "blue"
ports = ["p0", "p1.100", "irb-blue"]
[[stages.l2.domain]]
name = "green"
ports = ["p1.200", "p1.400.7", "irb-green"$GREEN]
[[stages.l2.domain]]
name = "red"
ports = ["p2", "p1.300", "irb-red"]
[[stages.l3.vrf]]
name = "red"
[[stages.l3.interface]]
port = "irb-blue"
addresses = ["10.1.0.1/24", "fd00:1::1/64"]
[[stages.l3.interface]]
port = "irb-green"
addresses = ["10.2.0.1/24", "fd00:2::1/64"]
[[stages.l3.interface]]
port = "irb-red"
addresses = ["10.1.0.1/24"]
vrf = "red"
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`

// routedBed is the switch and its hosts: two of blue, two of green and two of red.
type routedBed struct {
	*bed
	blue, green, red [2]*netnstest.Host
}

func (b *routedBed) configure(t *testing.T, ports, green string) {
	t.Helper()
	b.write(t, strings.NewReplacer("$PORTS", ports, "$GREEN", green).Replace(routedBridge))
}

func newRoutedBed(t *testing.T) *routedBed {
	t.Helper()
	b := &routedBed{bed: newBed(t)}
	b.configure(t, "", "")
	b.start(t)
	for _, h := range b.hosts {
		check(t, h.NS.SetARP(h.Interface, true)) // newBed switched it off
	}
	b.blue[0], b.red[0] = b.hosts[0], b.hosts[2]
	b.blue[1], b.green[0], b.red[1], b.green[1] = farHosts(t, b.hosts[1].NS)
	for i := range 2 {
		address(t, b.blue[i], fmt.Sprintf("10.1.0.%d/24", 10+i))
		address(t, b.red[i], fmt.Sprintf("10.1.0.%d/24", 10+i))
		address(t, b.green[i], fmt.Sprintf("10.2.0.%d/24", 10+i))
		address(t, b.blue[i], fmt.Sprintf("fd00:1::%d/64", 10+i))
		address(t, b.green[i], fmt.Sprintf("fd00:2::%d/64", 10+i))
		for _, h := range []*netnstest.Host{b.blue[i], b.red[i], b.green[i]} {
			a := h.Addresses[0].Addr().As4()
			check(t, h.NS.AddRoute(h.Interface, netip.MustParsePrefix("0.0.0.0/0"), netip.AddrFrom4([4]byte{10, a[1], 0, 1})))
		}
		check(t, b.blue[i].NS.AddRoute(b.blue[i].Interface, netip.MustParsePrefix("::/0"), netip.MustParseAddr("fd00:1::1")))
		check(t, b.green[i].NS.AddRoute(b.green[i].Interface, netip.MustParsePrefix("::/0"), netip.MustParseAddr("fd00:2::1")))
	}
	return b
}

// farTrunk is the switch at the far end of p1: each host has a domain with a subinterface of the cable.
const farTrunk = `
[switch]
name = "far"
id = 2
graph = ["parse", "vlan", "l2", "tag"]
[[port]]
interface = "eth0"
[[port]]
interface = "h0"
[[port]]
interface = "h1"
[[port]]
interface = "h2"
[[port]]
interface = "h3"
[[port]]
driver = "vlan"
parent = "eth0"
vlan = 100
[[port]]
driver = "vlan"
parent = "eth0"
vlan = 200
[[port]]
driver = "vlan"
parent = "eth0"
vlan = 300
[[port]]
driver = "vlan"
parent = "eth0"
vlan = 400
inner_vlan = 7
[[stages.l2.domain]]
name = "a"
ports = ["h0", "eth0.100"]
[[stages.l2.domain]]
name = "b"
ports = ["h1", "eth0.200"]
[[stages.l2.domain]]
name = "c"
ports = ["h2", "eth0.300"]
[[stages.l2.domain]]
name = "d"
ports = ["h3", "eth0.400.7"]
[control]
socket = "$DIR/far.sock"
audit = ""
metrics = ""
`

// farHosts makes Linux hosts in VLANs 100, 200, 300 and, with two tags, 400 and 7 of the trunk in a namespace.
func farHosts(t *testing.T, ns *netns.Namespace) (v100, v200, v300, v400 *netnstest.Host) {
	t.Helper()
	far := &bed{ns: ns, dir: t.TempDir()}
	far.file = filepath.Join(far.dir, "far.toml")
	check(t, ns.SetSwitchOffloads("eth0"))
	for i, mtu := range []int{1500, 1500, 1500, 1496} { // a cable of 1500 bytes has room for one tag beyond
		far.hosts = append(far.hosts, netnstest.NewHost(t, prefix, netnstest.Port{Namespace: ns, Name: fmt.Sprintf("h%d", i), MTU: mtu}))
	}
	far.write(t, farTrunk)
	far.start(t)
	return far.hosts[0], far.hosts[1], far.hosts[2], far.hosts[3]
}

func run(t *testing.T, ns *netns.Namespace, command ...string) string {
	t.Helper()
	var said strings.Builder
	c := exec.Command(command[0], command[1:]...)
	c.Stdout, c.Stderr = &said, &said
	err := ns.Start(c)
	if err == nil {
		err = c.Wait()
	}
	if err != nil {
		t.Fatalf("%v: %v: %s", command, err, said.String())
	}
	return said.String()
}

// TestBridgeAndRouter: Linux hosts of the same domain and of others speak to each other by IPv4 and IPv6, TCP arrives whole, and a VRF with
// the same addresses is apart.
func TestBridgeAndRouter(t *testing.T) {
	b := newRoutedBed(t)
	const size = 2 << 20
	for _, c := range []struct {
		name     string
		from, to *netnstest.Host
		v6       bool
	}{
		{"bridged, untagged to VLAN 100", b.blue[0], b.blue[1], false},
		{"bridged, one tag to two", b.green[0], b.green[1], false},
		{"bridged in the VRF", b.red[0], b.red[1], false},
		{"routed, untagged to VLAN 200", b.blue[0], b.green[0], false},
		{"routed, VLAN 100 to 200 of the same cable", b.blue[1], b.green[0], false},
		{"routed to two tags", b.blue[0], b.green[1], false},
		{"routed, IPv6", b.blue[0], b.green[0], true},
		{"routed, IPv6, from two tags", b.green[1], b.blue[1], true},
	} {
		to := c.to.Addresses[0].Addr()
		if c.v6 {
			to = c.to.Addresses[1].Addr()
		}
		run(t, c.from.NS, "ping", "-c", "5", "-i", "0.01", "-W", "60", to.String())
		if err := transfer(c.from, c.to, to, size); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := echo(c.from, c.to, to); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	run(t, b.green[0].NS, "ping", "-c", "2", "-W", "60", "10.1.0.1") // an address of the router at another domain

	// What red sends to green's network has no route in red's table, and the router of red says so.
	before := b.Report().Dropped["no_route"]
	ping := exec.Command("ping", "-c", "3", "-i", "0.2", "-W", "1", "10.2.0.10")
	var said strings.Builder
	ping.Stdout = &said
	check(t, b.red[0].NS.Start(ping))
	if err := ping.Wait(); err == nil || !strings.Contains(said.String(), "From 10.1.0.1") || !strings.Contains(said.String(), "Unreachable") {
		t.Errorf("from red to green: %v: %s", err, said.String())
	}
	if n := b.Report().Dropped["no_route"]; n < before+3 {
		t.Errorf("no_route counts %d, and did %d before", n, before)
	}
	b.answers(t)
	r := b.stop(t)
	if !r.Balanced {
		t.Error("the books do not add up")
	}
}

// answers looks at what the switch says of its tables.
func (b *routedBed) answers(t *testing.T) {
	t.Helper()
	entries, ok := b.Fdb()
	if !ok {
		t.Fatal("there is no table")
	}
	found := map[string]string{}
	for e := range entries {
		found[e.Domain+" "+e.Mac] = e.Port
	}
	for _, x := range []struct {
		domain, port string
		host         *netnstest.Host
	}{{"blue", "p1.100", b.blue[1]}, {"green", "p1.400.7", b.green[1]}, {"red", "p2", b.red[0]}} {
		mac, err := x.host.NS.MAC(x.host.Interface)
		check(t, err)
		if got := found[x.domain+" "+mac.String()]; got != x.port {
			t.Errorf("%s of %s is behind %q, want %s; %v", mac, x.domain, got, x.port, found)
		}
	}
	routes, _ := b.Routes()
	vrfs := map[string]string{}
	for _, r := range routes.Routes {
		vrfs[r.Vrf+" "+r.Prefix] = r.Port
	}
	if vrfs[" 10.1.0.0/24"] != "irb-blue" || vrfs["red 10.1.0.0/24"] != "irb-red" || vrfs["red 10.2.0.0/24"] != "" {
		t.Errorf("routes: %v", vrfs)
	}
	ping := exec.Command("ping", "-c", "100", "-i", "0.05", "10.2.0.11")
	check(t, b.blue[1].NS.Start(ping))
	defer func() { _, _ = ping.Process.Kill(), ping.Wait() }()
	trace, err := b.Trace(context.Background(), &api.TraceRequest{Count: 1, WaitNs: int64(30 * time.Second), Filter: "vlan 100"})
	check(t, err)
	if len(trace.Packets) != 1 {
		t.Fatalf("%d packets were traced", len(trace.Packets))
	}
	text := map[string]string{}
	for _, s := range trace.Packets[0].Steps {
		text[s.Stage] = s.Text
	}
	for stage, want := range map[string]string{
		"vlan": "arrived at p1.100, VLAN 100 of p1", "l2": "to the router by irb-blue", "l3": "leaves by irb-green",
		"irb": "domain green, from irb-green to", "tag": "leaves by p1 with VLAN 400",
	} {
		if !strings.Contains(text[stage], want) {
			t.Errorf("trace of %s: %q, want %q", stage, text[stage], want)
		}
	}
}

// TestBridgeAndRouterReload: subinterfaces and domains come and go while pings are bridged and routed, and none is lost.
func TestBridgeAndRouterReload(t *testing.T) {
	b := newRoutedBed(t)
	const pings = 400
	var commands []*exec.Cmd
	var said [2]strings.Builder
	for i, to := range []string{"10.1.0.11", "10.2.0.10"} {
		run(t, b.blue[0].NS, "ping", "-c", "2", "-W", "60", to)
		c := exec.Command("ping", "-c", fmt.Sprint(pings), "-i", "0.01", "-W", "60", to)
		c.Stdout = &said[i]
		check(t, b.blue[0].NS.Start(c))
		commands = append(commands, c)
	}
	for i := range 6 {
		if i%2 == 0 {
			b.configure(t, "[[port]]\ndriver = \"vlan\"\nparent = \"p1\"\nvlan = 500\n[[port]]\nname = \"irb-new\"\ndriver = \"irb\"\n[[stages.l2.domain]]\nname = \"a\"\nports = [\"irb-new\"]\n", `, "p1.500"`)
		} else {
			b.configure(t, "", "")
		}
		b.reload(t)
	}
	for i, c := range commands {
		if err := c.Wait(); err != nil || !strings.Contains(said[i].String(), fmt.Sprintf("%d received, 0%% packet loss", pings)) {
			t.Errorf("%v: %s", err, said[i].String())
		}
	}
	if b.stop(t).Balanced == false {
		t.Error("the books do not add up")
	}
}
