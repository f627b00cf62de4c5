package node

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// tunnelPort and tunnelTable are a tunnel to the kernel's vxlan device of host 2, by p2. $VNI is its number.
const (
	tunnelPort  = "[[port]]\nname = \"vx\"\ndriver = \"tunnel\"\n"
	tunnelTable = `[stages.tunnel]
[[stages.tunnel.underlay]]
port = "p2"
addresses = ["192.0.2.1/24"]
[[stages.tunnel.tunnel]]
port = "vx"
kind = "vxlan"
vni = $VNI
remotes = ["192.0.2.2"]
`
)

// tryPing reports whether a host answers one ping within a second.
func tryPing(ns *netns.Namespace, to string) bool {
	ping := exec.Command("ping", "-q", "-c", "1", "-W", "1", to)
	return ns.Start(ping) == nil && ping.Wait() == nil
}

// TestTunnelComes: a port becomes an underlay with a tunnel to the kernel's vxlan device, and a port of the bridge again, while other hosts exchange pings and a TCP stream, of which
// nothing is lost. While it is there, the host at the far end is reached by the tunnel; while it is not, by the port itself, and what tells of either is gone.
func TestTunnelComes(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for _, c := range []struct {
		workers int
		more    string // stages in the graph beside
	}{{1, ""}, {2, ""}, {2, `"conntrack", `}} {
		t.Run(fmt.Sprintf("%d workers, %s", c.workers, c.more), func(t *testing.T) {
			b := newBedOf(t, c.workers)
			for i, at := range []string{"10.0.0.1/24", "10.0.0.2/24", "192.0.2.2/24"} {
				check(t, b.hosts[i].NS.SetARP(b.hosts[i].Interface, true))
				address(t, b.hosts[i], at)
			}
			address(t, b.hosts[0], "192.0.2.10/24")
			far := b.hosts[2]
			run(t, far.NS, "ip", "link", "add", "vx", "type", "vxlan", "id", "42", "local", "192.0.2.2", "remote", "192.0.2.1", "dstport", "4789", "dev", far.Interface)
			run(t, far.NS, "ip", "address", "add", "10.0.0.3/24", "dev", "vx")
			run(t, far.NS, "ip", "link", "set", "vx", "up")
			write := func(graph, ports, tables string) {
				text := strings.NewReplacer("$GRAPH", graph, "$WORKERS", fmt.Sprint(c.workers), "$TABLES", tables).Replace(graphSwitch)
				b.write(t, strings.NewReplacer("[telemetry]", ports+"[telemetry]", "$VNI", "42").Replace(text))
			}
			plain := func() { write(`"parse", `+c.more+`"l2"`, "", "") }
			tunnelled := func() { write(`"parse", "tunnel", `+c.more+`"l2", "encap"`, tunnelPort, tunnelTable) }
			plain()
			b.start(t)
			stop := &atomic.Bool{}
			bytes, ended := stream(t, b, stop)
			ping := exec.Command("ping", "-i", "0.002", "-W", "30", "10.0.0.2")
			var out strings.Builder
			ping.Stdout = &out
			check(t, b.hosts[0].NS.Start(ping))
			reached := func(to string) {
				t.Helper()
				b.await(t, to+" is reached", func() bool { return tryPing(b.hosts[0].NS, to) })
				run(t, b.hosts[0].NS, "ping", "-q", "-c", "20", "-i", "0.01", "-s", "1300", "-W", "60", to)
			}
			gone := func(name string) {
				t.Helper()
				for _, p := range b.Report().Ports {
					if p.Name == name && p.State != "removed" {
						t.Errorf("port %s is %s", name, p.State)
					}
				}
				for _, m := range b.Metrics() {
					if name == "vx" && m.Stage == "tunnel" {
						t.Errorf("there is a metric %s of the stage tunnel", m.Name)
						break
					}
				}
				stations, _ := b.Fdb()
				for e := range stations {
					if e.Port == name {
						t.Errorf("a station is at %s: %v", name, e)
					}
				}
			}
			gone("vx")
			reached("192.0.2.2")
			for range rounds {
				tunnelled()
				b.reload(t)
				reached("10.0.0.3")
				if tryPing(b.hosts[0].NS, "192.0.2.2") {
					t.Error("the underlay is a port of the bridge")
				}
				// Another tunnel comes beside it, with its port, and goes.
				write(`"parse", "tunnel", `+c.more+`"l2", "encap"`, tunnelPort+strings.Replace(tunnelPort, "vx", "vy", 1),
					tunnelTable+"[[stages.tunnel.tunnel]]\nport = \"vy\"\nkind = \"geneve\"\nvni = 7\nremotes = [\"192.0.2.2\"]\n")
				b.reload(t)
				reached("10.0.0.3")
				tunnelled()
				b.reload(t)
				gone("vy")
				reached("10.0.0.3")
				stations, _ := b.Fdb()
				for e := range stations {
					if e.Port == "p2" {
						t.Errorf("a station is at the underlay: %v", e)
					}
				}
				plain()
				b.reload(t)
				gone("vx")
				reached("192.0.2.2")
			}
			check(t, ping.Process.Signal(os.Interrupt))
			_ = ping.Wait()
			stop.Store(true)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			fmt.Printf("a tunnel comes and goes: %d times, %d workers, %d bytes of TCP, %d pings, 0 lost\n", rounds, c.workers, bytes.Load(), allAnswered(t, out.String()))
			r := b.stop(t)
			if !r.Balanced {
				t.Error("the books do not add up")
			}
			for why, n := range r.Dropped { // requests before the far end's address was known, and what hosts tried in vain
				if !strings.HasPrefix(why, "tunnel_") && why != "no_port" {
					t.Errorf("%d packets are dropped: %s", n, why)
				}
			}
		})
	}
}
