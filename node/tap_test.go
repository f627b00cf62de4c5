package node

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// tapBed runs a node with the port t0 of the host, joined to p0 by the stages behind parse, which commas separate. The second element is the host behind it:
// the namespace of the node itself.
func tapBed(t *testing.T, graph, stage string, workers, queues int) (*bed, *netnstest.Host) {
	t.Helper()
	b := newBed(t)
	b.write(t, fmt.Sprintf(`
[switch]
name = "r1"
id = 1
graph = ["parse", %s]
[workers]
count = %d
pin = false
[dataplane]
audit = true
[[port]]
name = "p0"
interface = "p0"
queues = 1
[[port]]
name = "t0"
interface = "t0"
driver = "tap"
queues = %d
%s
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`, `"`+strings.ReplaceAll(graph, ",", `", "`)+`"`, workers, queues, stage))
	b.start(t)
	mac, err := b.ns.MAC("t0")
	check(t, err)
	return b, &netnstest.Host{NS: b.ns, Interface: "t0", MAC: mac}
}

// address gives a host an address.
func address(t *testing.T, h *netnstest.Host, text string) netip.Addr {
	t.Helper()
	p := netip.MustParsePrefix(text)
	check(t, h.NS.AddAddress(h.Interface, p))
	h.Addresses = append(h.Addresses, p)
	return p.Addr()
}

const patchTap = "[stages.patch]\npairs = [[\"p0\", \"t0\"]]"

// TestTapHostStack: the kernel of the host speaks ARP, ICMP, UDP and TCP by a TAP port with a host behind an interface,
// in both directions. Large packets of TCP arrive whole where no stage needs those of the wire, and are cut elsewhere.
func TestTapHostStack(t *testing.T) {
	for _, c := range []struct {
		graph, stage    string
		workers, queues int
	}{{"patch", patchTap, 1, 1}, {"l2", "", 2, 3}, {"patch,disketch", patchTap, 1, 1}} {
		t.Run(c.graph, func(t *testing.T) {
			b, here := tapBed(t, c.graph, c.stage, c.workers, c.queues)
			there := b.hosts[0]
			own, far := address(t, here, "10.9.0.1/24"), address(t, there, "10.9.0.2/24")
			check(t, there.NS.SetARP(there.Interface, true)) // Introduce switched it off
			ping := exec.Command("ping", "-c", "20", "-i", "0.002", "-W", "60", far.String())
			check(t, b.ns.Start(ping))
			if err := ping.Wait(); err != nil {
				t.Errorf("ping: %v", err)
			}
			check(t, echo(here, there, far))
			const size = 4 << 20
			before := b.tapReceived(t)
			check(t, transfer(here, there, far, size))
			const segments = size / 1448 // of TCP with timestamps
			if n := b.tapReceived(t) - before; (n >= segments) != (c.graph == "patch,disketch") {
				t.Errorf("%d packets were received for %d segments", n, segments)
			}
			check(t, transfer(there, here, own, size))
			b.stop(t)
			if links, err := b.ns.Netlink().LinkList(); err != nil || len(links) != 4 {
				t.Errorf("%d interfaces are left, %v", len(links), err)
			}
		})
	}
}

// tapReceived is how many packets the port of the host has received.
func (b *bed) tapReceived(t *testing.T) uint64 {
	t.Helper()
	for _, p := range b.Report().Ports {
		if p.Name == "t0" {
			return p.Received
		}
	}
	t.Fatal("there is no port t0")
	return 0
}

// TestTapNumberedFlows: numbered packets of several flows keep their order, and all arrive.
func TestTapNumberedFlows(t *testing.T) {
	b, here := tapBed(t, "patch", patchTap, 2, 2)
	there := b.hosts[0]
	for _, d := range [][2]*netnstest.Host{{here, there}, {there, here}} {
		load := traffictest.Start(t, d[0], d[1:], 64, 20_000, 20_000)
		sent, at := load.Received(t, func() uint64 { return b.lost(t, here) })
		report, err := load.Sinks[0].Report()
		check(t, err)
		// The kernel counts what it sends by itself too, such as reports of multicast groups.
		if lost := b.lost(t, here); at[0] > sent || at[0]+lost < sent || report.Reordered != 0 {
			t.Errorf("of %d packets %d arrived, %d were lost by the kernel: %+v", sent, at[0], lost, report)
		}
	}
	b.stop(t)
}

// lost is what the ports lost so far where the kernel has no room: its count of the TAP's queue to the switch, and of its backlog.
func (b *bed) lost(t *testing.T, here *netnstest.Host) (n uint64) {
	t.Helper()
	l, err := b.ns.Link(here.Interface)
	check(t, err)
	for _, p := range b.Report().Ports {
		n += p.RxRingFull + p.RxNoFrame + p.RxDropped
	}
	return n + l.Attrs().Statistics.RxDropped
}

// TestTapComesAndGoes: a TAP port is added to a switch that runs, and removed; its interface is removed by hand, and is made again.
func TestTapComesAndGoes(t *testing.T) {
	b, here := tapBed(t, "l2", "", 1, 1)
	there := b.hosts[0]
	address(t, here, "10.9.0.1/24")
	far := address(t, there, "10.9.0.2/24")
	check(t, there.NS.SetARP(there.Interface, true))
	check(t, b.ns.DeleteLink("t0"))
	b.await(t, "t0 is up again", func() bool {
		_, err := b.ns.Link("t0")
		return err == nil && b.portState("t0") == "up"
	})
	address(t, here, "10.9.0.1/24")
	check(t, echo(here, there, far))

	b.set(t, "", "port", false, "", "name=t1", "interface=t1", "driver=tap", "queues=1")
	b.await(t, "t1 is up", func() bool { return b.portState("t1") == "up" })
	b.set(t, "", "port", true, "", "name=t1")
	if _, err := b.ns.Link("t1"); err == nil {
		t.Error("t1 is left")
	}
	check(t, echo(here, there, far))
	b.stop(t)
	if _, err := net.InterfaceByName("t0"); err == nil {
		t.Error("t0 is in the wrong namespace")
	}
}

// portState is a port's state, empty if there is none of the name.
func (b *bed) portState(name string) string {
	for _, p := range b.Report().Ports {
		if p.Name == name {
			return p.State
		}
	}
	return ""
}

// await waits until something is so.
func (b *bed) await(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * patience); !so(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s; ports %v", what, b.Report().Ports)
		}
	}
}
