package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
	"github.com/weirswitch/weir/internal/handover"
)

// hostRouter is a router whose ports have host interfaces, by which BIRD in its namespace speaks BGP with BIRD at a host, that announces where numbered packets go, and a process has TCP with the other host.
//
//	numbered packets, TCP  10.1.0.2 ── p0 ┌──────┐ p1 ── 10.2.0.2  bird, 198.19.0.0/16
//	                                      │ weir │
//	                   TCP  10.1.0.1 ── t0└──────┘t1 ── 10.2.0.1  bird
const hostRouter = `
[switch]
name = "s1"
graph = ["parse", "l3"]
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
addresses = ["10.1.0.1/24"]
mac = "06:00:00:00:00:00"
host = "t0"
[[stages.l3.interface]]
port = "p1"
addresses = ["10.2.0.1/24", "10.9.0.1/24"]
host = "t1"
[control]
takeover = true
socket = "$SOCKET"
`

func (b *testbed) hostRouter(t *testing.T, workers int, edit ...string) string {
	t.Helper()
	text := fmt.Sprintf("[workers]\ncount = %d\npin = false\npoll = \"interrupt\"\n", workers) + hostRouter
	path := filepath.Join(b.dir, "s1.toml")
	must(t, os.WriteFile(path, []byte(strings.NewReplacer(append(edit, "$SOCKET", b.socket("s1"))...).Replace(text)), 0o600))
	return path
}

// bird is a running BIRD.
type bird struct{ socket string }

// startBird runs BIRD in a namespace, with a protocol bgp named peer beside those of the text.
func startBird(t *testing.T, ns *netns.Namespace, dir, name, text string) *bird {
	t.Helper()
	b := &bird{filepath.Join(dir, name+".ctl")}
	file := filepath.Join(dir, name+".conf")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	cmd := exec.Command("bird", "-f", "-c", file, "-s", b.socket, "-P", filepath.Join(dir, name+".pid"))
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	must(t, ns.Start(cmd))
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("bird %s: %s", name, &output)
		}
	})
	return b
}

func (b *bird) ask(command ...string) string {
	text, _ := exec.Command("birdc", append([]string{"-s", b.socket}, command...)...).CombinedOutput()
	return string(text)
}

// session is the state of the BGP session, with the time since which it is so.
func (b *bird) session() string {
	for line := range strings.Lines(b.ask("show", "protocols")) {
		if f := strings.Fields(line); len(f) != 0 && f[0] == "peer" {
			return strings.Join(f[3:], " ")
		}
	}
	return ""
}

// hostInterface is what the kernel has of an interface: its index, MAC address, carrier and addresses.
func hostInterface(t *testing.T, ns *netns.Namespace, name string) string {
	t.Helper()
	l, err := ns.Link(name)
	must(t, err)
	a := l.Attrs()
	addresses, err := ns.Netlink().AddrList(l, unix.AF_INET)
	must(t, err)
	text := fmt.Sprintf("%d %v carrier %v", a.Index, a.HardwareAddr, a.RawFlags&unix.IFF_LOWER_UP != 0)
	for _, x := range addresses {
		text += " " + x.IPNet.String()
	}
	return text
}

// TestTakeoverHost: processes take a router with host interfaces over from each other, some of which are killed on the way. The session of BGP and TCP connections of processes of the host go on, what BGP announced
// forwards from the first packet on, and the last process keeps the interfaces as the router is.
func TestTakeoverHost(t *testing.T) {
	for _, program := range []string{"bird", "birdc"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("BIRD is missing: apt-get install bird2")
		}
	}
	times := takeovers(t, 5, 2)
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			if testing.Short() && workers == 1 {
				t.Skip("it takes many seconds")
			}
			netnstest.Require(t)
			b := &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}
			for i := range b.hosts {
				b.hosts[i] = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: fmt.Sprintf("p%d", i), Queues: workers}, fmt.Sprintf("10.%d.0.2/24", i+1))
				must(t, b.hosts[i].NS.SetARP(b.hosts[i].Interface, true))
				must(t, b.hosts[i].NS.AddRoute(b.hosts[i].Interface, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParseAddr(fmt.Sprintf("10.%d.0.1", i+1))))
			}
			config := b.hostRouter(t, workers)
			p := b.start(t, config)
			own := startBird(t, b.ns, b.dir, "own", `
router id 10.2.0.1;
protocol device { scan time 1; }
protocol kernel { ipv4 { export all; import none; }; }
protocol bgp peer { local 10.2.0.1 as 65001; neighbor 10.2.0.2 as 65002; connect retry time 1; connect delay time 1; error wait time 1, 2; ipv4 { import all; export none; }; }
`)
			far := startBird(t, b.hosts[1].NS, b.dir, "far", `
router id 10.2.0.2;
protocol device { scan time 1; }
protocol static announced { ipv4; route 198.19.0.0/16 unreachable; }
protocol bgp peer { local 10.2.0.2 as 65002; neighbor 10.2.0.1 as 65001; connect retry time 1; connect delay time 1; error wait time 1, 2; ipv4 { import none; export all; next hop self; }; }
`)
			routes := func() string {
				_, out, errs := weir("ctl", "--socket", b.socket("s1"), "show", "routes")
				return out + errs
			}
			awaitThat(t, "the network that BGP announces to be routed", func() (string, bool) {
				now := routes()
				return now + own.session(), strings.Contains(now, "198.19.0.0/16") && strings.HasSuffix(own.session(), "Established")
			})
			session := own.session()
			interfaces := []string{hostInterface(t, b.ns, "t0"), hostInterface(t, b.ns, "t1")}
			// Neighbours are known before packets are counted.
			must(t, b.hosts[0].NS.Do(func() error { return exec.Command("ping", "-q", "-c", "1", "-W", "20", "10.2.0.2").Run() }))

			self := &netnstest.Host{NS: b.ns}
			in := startStream(t, b.hosts[0], self, "10.1.0.1:7000", "10.1.0.1:7000")
			out := startStream(t, self, b.hosts[0], "10.1.0.2:7001", "10.1.0.2:7001")
			l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 128, 500, uint64(2500*times))
			var blocked []time.Duration
			for i := range times {
				b.killedAt(t, config, p, []handover.Kind{sayStage, sayEnd, sayReady}[i%3])
				old := p
				p = b.takeOver(t, config, old)
				if now := routes(); !strings.Contains(now, "198.19.0.0/16") {
					t.Errorf("after takeover %d there is no route: %s", i+1, now)
				}
				if r := old.kept(t); r.Dropped["no_route"] != 0 {
					t.Errorf("before takeover %d: %v", i+1, r.Dropped)
				}
				blocked = append(blocked, p.blocked(t))
			}
			during := !l.Ended()
			sent, at := l.Received(t)
			bytes := []uint64{in.end(t), out.end(t)}
			if at[0] != sent {
				t.Errorf("%d of %d packets are lost", int64(sent)-int64(at[0]), sent)
			}
			if now := own.session(); now != session {
				t.Errorf("the session of BGP was %q, and is %q", session, now)
			}
			if now := []string{hostInterface(t, b.ns, "t0"), hostInterface(t, b.ns, "t1")}; !slices.Equal(now, interfaces) {
				t.Errorf("the host interfaces were %q, and are %q", interfaces, now)
			}

			// The last process follows the kernel, and the interfaces follow it.
			far.ask("disable", "announced")
			awaitThat(t, "the route to go", func() (string, bool) { now := routes(); return now, !strings.Contains(now, "198.19.0.0/16") })
			old := p
			p = b.takeOver(t, b.hostRouter(t, workers, `, "10.9.0.1/24"`, ``), old)
			old.kept(t)
			awaitThat(t, "an address to go that the new file does not have", func() (string, bool) {
				now := hostInterface(t, b.ns, "t1")
				return now, !strings.Contains(now, "10.9.0.1") && strings.Contains(now, "10.2.0.1")
			})
			if now := own.session(); now != session {
				t.Errorf("the session of BGP was %q, and is %q", session, now)
			}
			must(t, b.hosts[1].NS.SetDown(b.hosts[1].Interface))
			awaitThat(t, "the host interface to have no carrier", func() (string, bool) {
				now := hostInterface(t, b.ns, "t1")
				return now, strings.Contains(now, "carrier false")
			})
			if status := p.stop(t); status != 0 {
				t.Errorf("the last process ended with %d: %s", status, &p.stderr)
			}
			p.kept(t)
			slices.Sort(blocked)
			fmt.Printf("%d takeovers and %d killed ones with host interfaces and %d workers: BGP %s, %d packets by its route (until the last: %v), lost %d, %d and %d MiB by TCP of the host; blocked for %v to %v, median %v\n",
				times+1, times, workers, session, sent, during, int64(sent)-int64(at[0]), bytes[0]>>20, bytes[1]>>20, blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
			b.checkClean(t)
			b.checkNoTakeover(t)
			if _, err := b.ns.Link("t0"); err == nil {
				t.Error("the host interface is left")
			}
		})
	}
}
