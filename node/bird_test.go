package node

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// birdRouter is a router of Weir with BIRD as its control plane, in one namespace:
//
//	host ── p0 ┌──────┐ p1 ── the other router
//	           │ weir │
//	        t0 └──────┘ t1
//	          kernel, bird
type birdRouter struct {
	*bed
	host   *netnstest.Host
	id     int
	socket string
}

// birds is two such routers, with a host behind each:
//
//	h1 10.1.0.2 ── 10.1.0.1 r1 10.12.0.1 ── 10.12.0.2 r2 10.2.0.1 ── 10.2.0.2 h2
func birds(t *testing.T, protocol string) (r [2]*birdRouter) {
	t.Helper()
	netnstest.Require(t)
	for _, program := range []string{"bird", "birdc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("BIRD is missing: apt-get install bird2")
		}
	}
	for i := range r {
		id := i + 1
		r[i] = &birdRouter{bed: &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}, id: id}
		r[i].file = filepath.Join(r[i].dir, "weir.toml")
		r[i].host = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: r[i].ns, Name: "p0"}, fmt.Sprintf("10.%d.0.2/24", id))
		check(t, r[i].host.NS.AddRoute("eth0", netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr(fmt.Sprintf("10.%d.0.1", id))))
	}
	check(t, netns.AddVeth(netns.End{Namespace: r[0].ns, Name: "p1"}, netns.End{Namespace: r[1].ns, Name: "p1"}, netns.Veth{Queues: 1}))
	for _, x := range r {
		check(t, x.ns.SetSwitchOffloads("p1"))
		check(t, x.ns.SetUp("p1"))
	}
	for _, x := range r {
		x.write(t, fmt.Sprintf(birdSwitch, x.id))
		x.start(t)
		x.startBird(t, protocol)
	}
	return r
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
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "t0"
driver = "tap"
[[port]]
interface = "t1"
driver = "tap"
[[stages.l3.interface]]
port = "p0"
addresses = ["10.%[1]d.0.1/24"]
host = "t0"
[[stages.l3.interface]]
port = "p1"
addresses = ["10.12.0.%[1]d/24"]
host = "t1"
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`

// startBird runs BIRD in the router's namespace. It announces the host's network, and by the protocol extra_net what the protocol
// "extra" has, which begins disabled.
func (r *birdRouter) startBird(t *testing.T, protocol string) {
	t.Helper()
	r.socket = filepath.Join(r.dir, "bird.ctl")
	file := filepath.Join(r.dir, "bird.conf")
	text := fmt.Sprintf(`
router id 10.12.0.%[1]d;
protocol device { scan time 1; }
protocol direct { ipv4; interface "t0"; }
protocol kernel { ipv4 { export where source != RTS_DEVICE; import none; }; }
protocol static extra { disabled; ipv4; route 10.77.%[1]d.0/24 via 10.%[1]d.0.2; }
`, r.id)
	switch protocol {
	case "bgp":
		text += fmt.Sprintf(`
protocol bgp peer {
	local 10.12.0.%d as %d;
	neighbor 10.12.0.%d as %d;
	connect retry time 1; connect delay time 1; error wait time 1, 2;
	ipv4 { import all; export where source ~ [ RTS_STATIC, RTS_DEVICE ]; };
}
`, r.id, 65000+r.id, 3-r.id, 65000+3-r.id)
	case "ospf":
		text += `
protocol ospf v2 {
	ipv4 { import all; export where source ~ [ RTS_STATIC, RTS_DEVICE ]; };
	area 0 { interface "t1" { type ptp; hello 1; dead 10; }; };
}
`
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
func TestBirdBGP(t *testing.T) { birdRoutes(t, "bgp") }

// TestBirdOSPF is the same with OSPF, whose packets are multicast.
func TestBirdOSPF(t *testing.T) {
	if testing.Short() {
		t.Skip("OSPF takes some seconds to find its neighbours")
	}
	birdRoutes(t, "ospf")
}

func birdRoutes(t *testing.T, protocol string) {
	r := birds(t, protocol)
	begin := time.Now()
	r[0].await(t, "r1 has r2's network", func() bool { return r[0].origin("10.2.0.0/24") == "kernel bird" })
	r[1].await(t, "r2 has r1's network", func() bool { return r[1].origin("10.1.0.0/24") == "kernel bird" })
	t.Logf("%s: both networks known after %v", protocol, time.Since(begin))
	far := netip.MustParseAddr("10.2.0.2")
	check(t, echo(r[0].host, r[1].host, far))
	check(t, transfer(r[0].host, r[1].host, far, 1<<20))

	// A network behind h2 appears.
	const extra = "10.77.2.0/24"
	inside := netip.MustParseAddr("10.77.2.1")
	check(t, r[1].host.NS.AddAddress("eth0", netip.PrefixFrom(inside, 32)))
	server, err := r[1].host.NS.ListenPacket("udp", "10.77.2.1:7777")
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
	client, err := r[0].host.NS.Dial(ctx, "udp", "10.77.2.1:7777")
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
	for _, x := range r {
		x.linkDown(t)
	}
	for _, x := range r {
		check(t, x.end())
	}
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
