package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
	"github.com/weirswitch/weir/internal/handover"
)

// overlay is a switch with two hosts and two underlays, each with a host that has a vxlan device of the kernel. The tunnel's one remote end is that of the first; the second one, over IPv6, is learned, and
// floods do not go there. What p0 receives is mirrored to the first underlay's host, in ERSPAN.
//
//	numbered packets  10.0.0.1 ── p0        p1 ── 192.0.2.2     vx 10.0.0.3
//	                                 weir
//	TCP               10.0.0.2 ── p3        p2 ── 2001:db8::2   vx 10.0.0.4
type overlay struct {
	*testbed
	tenants, ends [2]*netnstest.Host
}

func newOverlay(t *testing.T, queues int) *overlay {
	t.Helper()
	netnstest.Require(t)
	o := &overlay{testbed: &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}}
	host := func(port, address string) *netnstest.Host {
		return netnstest.NewHost(t, prefix, netnstest.Port{Namespace: o.ns, Name: port, Queues: queues}, address)
	}
	o.tenants = [2]*netnstest.Host{host("p0", "10.0.0.1/24"), host("p3", "10.0.0.2/24")}
	o.ends = [2]*netnstest.Host{host("p1", "192.0.2.2/24"), host("p2", "2001:db8::2/64")}
	o.hosts = [2]*netnstest.Host{o.tenants[0], o.ends[0]}
	var devices []*netnstest.Host
	for i, own := range []string{"192.0.2.2", "2001:db8::2"} {
		far := o.ends[i]
		must(t, far.NS.SetARP(far.Interface, true))
		for _, c := range []string{
			fmt.Sprintf("link add vx type vxlan id 42 local %s remote %s dstport 4789 dev %s", own, strings.TrimSuffix(own, "2")+"1", far.Interface),
			fmt.Sprintf("link set vx arp off address 02:00:00:00:07:0%d", 3+i), fmt.Sprintf("address add 10.0.0.%d/24 dev vx", 3+i), "link set vx up",
		} {
			must(t, far.NS.Do(func() error {
				out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput()
				if err != nil {
					err = fmt.Errorf("ip %s: %w: %s", c, err, out)
				}
				return err
			}))
		}
		devices = append(devices, &netnstest.Host{NS: far.NS, Interface: "vx", MAC: net.HardwareAddr{2, 0, 0, 0, 7, byte(3 + i)}, Addresses: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", 3+i))}})
	}
	for _, a := range o.tenants {
		netnstest.Introduce(t, a, devices[0])
		netnstest.Introduce(t, a, devices[1])
	}
	return o
}

// config writes the switch's configuration.
func (o *overlay) config(t *testing.T, workers int, edit ...string) string {
	t.Helper()
	text := fmt.Sprintf("[workers]\ncount = %d\npin = false\npoll = \"interrupt\"\n", workers) + `
[switch]
name = "s1"
graph = ["parse", "tunnel", "l2", "mirror", "encap"]
[dataplane]
audit = true
[[port]]
interface = "p0"
[[port]]
interface = "p1"
[[port]]
interface = "p2"
[[port]]
interface = "p3"
[[port]]
name = "vx"
driver = "tunnel"
[[port]]
name = "probe"
driver = "tunnel"
[[stages.tunnel.underlay]]
port = "p1"
addresses = ["192.0.2.1/24"]
[[stages.tunnel.underlay]]
port = "p2"
addresses = ["2001:db8::1/64"]
[[stages.tunnel.tunnel]]
port = "vx"
kind = "vxlan"
vni = 42
remotes = ["192.0.2.2"]
learn_remotes = true
[[stages.tunnel.tunnel]]
port = "probe"
kind = "erspan"
session = 7
remotes = ["192.0.2.2"]
[[stages.mirror.session]]
ports = ["p0"]
direction = "in"
to = "probe"
[control]
takeover = true
socket = "$SOCKET"
`
	path := filepath.Join(o.dir, "s1.toml")
	must(t, os.WriteFile(path, []byte(strings.NewReplacer(append(edit, "$SOCKET", o.socket("s1"))...).Replace(text)), 0o600))
	return path
}

// metrics are those of a stage without labels.
func (b *testbed) metrics(t *testing.T, stage string) map[string]float64 {
	t.Helper()
	status, out, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "telemetry", "--json")
	if status != 0 {
		t.Fatal(stderr)
	}
	var shown struct {
		Metrics []struct {
			Stage, Name string
			Value       float64
		}
	}
	must(t, json.Unmarshal([]byte(out), &shown))
	all := map[string]float64{}
	for _, m := range shown.Metrics {
		if m.Stage == stage {
			all[m.Name] += m.Value
		}
	}
	return all
}

// outer is what an underlay's host sees: the source port of each inner flow, and the sequence numbers of copies.
type outer struct {
	stop chan struct{}
	done sync.WaitGroup

	flows map[[12]byte]uint16 // by addresses and ports of UDP in IPv4
	packets,
	changed int
	copies map[uint32]bool
	twice  int
	err    error
}

func watchOuter(t *testing.T, h *netnstest.Host) *outer {
	t.Helper()
	o := &outer{stop: make(chan struct{}), flows: map[[12]byte]uint16{}, copies: map[uint32]bool{}}
	socket := h.Packet(t)
	o.done.Go(func() {
		buf := make([]byte, 4096)
		for {
			select {
			case <-o.stop:
				return
			default:
			}
			if o.err = socket.SetDeadline(time.Now().Add(100 * time.Millisecond)); o.err != nil {
				return
			}
			n, err := socket.Receive(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue
			}
			if o.err = err; err != nil {
				return
			}
			o.see(buf[:n])
		}
	})
	return o
}

// see reads a packet of | Ethernet 14 | IPv4 20 | UDP 8 | VXLAN 8 | Ethernet 14 | IPv4 20 | UDP, or | Ethernet 14 | IPv4 20 | GRE 8.
func (o *outer) see(d []byte) {
	if len(d) < 14+20+8 || binary.BigEndian.Uint16(d[12:]) != 0x0800 || string(d[26:30]) != "\xc0\x00\x02\x01" {
		return
	}
	if d[23] == 47 {
		n := binary.BigEndian.Uint32(d[38:])
		if o.copies[n] {
			o.twice++
		}
		o.copies[n] = true
		return
	}
	inner := d[min(len(d), 14+20+8+8):]
	if d[23] != 17 || len(inner) < 14+20+8 || binary.BigEndian.Uint16(inner[12:]) != 0x0800 || inner[23] != 17 {
		return
	}
	flow, port := [12]byte(inner[26:38]), binary.BigEndian.Uint16(d[34:])
	if before, known := o.flows[flow]; known && before != port {
		o.changed++
	}
	o.flows[flow] = port
	o.packets++
}

func (o *outer) end(t *testing.T) {
	t.Helper()
	close(o.stop)
	o.done.Wait()
	must(t, o.err)
}

// TestTakeoverTunnel: processes take a switch with tunnels over from each other, some of which are killed on the way, while numbered packets go to the kernel's vxlan device at a named remote end, and TCP to one at a
// learned end. No packet is lost or flooded, flows keep their source ports, and no copy has another one's sequence number.
func TestTakeoverTunnel(t *testing.T) {
	times := takeovers(t, 5, 2)
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			if testing.Short() && workers == 1 {
				t.Skip("it takes many seconds")
			}
			o := newOverlay(t, workers)
			config := o.config(t, workers)
			p := o.start(t, config)
			// Stations speak first: that of the numbered packets, and the second end, which only is known for that.
			device := netnstest.Host{NS: o.ends[0].NS, Interface: "vx"}
			speak := device.Packet(t)
			awaitThat(t, "stations to be known at both ends", func() (string, bool) {
				frame := make([]byte, 60)
				copy(frame, []byte{2, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0x88, 0xb6})
				must(t, speak.Send(frame))
				_ = o.ends[1].NS.Do(func() error { return exec.Command("ping", "-q", "-c", "1", "-W", "1", "10.0.0.2").Run() })
				known := o.metrics(t, "tunnel")
				return fmt.Sprint(known), known["stations"] >= 2 && known["end_resolved"] == 2
			})
			s := startStream(t, o.tenants[1], o.ends[1], "10.0.0.4:7000", "10.0.0.4:7000")
			watch := watchOuter(t, o.ends[0])
			l := traffictest.Start(t, o.tenants[0], []*netnstest.Host{&device}, 128, 500, uint64(2500*times))
			var blocked []time.Duration
			for i := range times {
				o.killedAt(t, config, p, []handover.Kind{sayStage, sayRested, sayReady}[i%3])
				old := p
				p = o.takeOver(t, config, old)
				r := old.kept(t)
				blocked = append(blocked, p.blocked(t))
				if n := r.Dropped["tunnel_unresolved"]; i > 0 && n != 0 {
					t.Errorf("%d packets were dropped as a next hop was not known", n)
				}
				if shown := o.metrics(t, "tunnel"); shown["flooded_packets_total"] != 0 || shown["stations"] < 2 || shown["end_resolved"] != 2 {
					t.Errorf("after takeover %d: %v", i+1, shown)
				}
			}
			during := !l.Ended()
			sent, at := l.Received(t)
			bytes := s.end(t)
			shown := o.metrics(t, "tunnel")
			watch.end(t)
			if at[0] != sent {
				t.Errorf("%d of %d packets are lost", int64(sent)-int64(at[0]), sent)
			}
			if report, err := l.Sinks[0].Report(); err != nil || report.Duplicates+report.Stale+report.Reordered != 0 && workers == 1 {
				t.Errorf("%v: %d packets came twice, %d late, %d out of order", err, report.Duplicates, report.Stale, report.Reordered)
			}
			if shown["flooded_packets_total"] != 0 {
				t.Errorf("the last process has flooded: %v", shown)
			}
			if watch.changed != 0 || watch.packets < int(sent)/2 || len(watch.flows) < 500 {
				t.Errorf("of %d packets of %d flows %d have another source port than those before", watch.packets, len(watch.flows), watch.changed)
			}
			if watch.twice != 0 || len(watch.copies) < int(sent)/2 {
				t.Errorf("%d of %d copies have another one's sequence number", watch.twice, len(watch.copies))
			}
			if status := p.stop(t); status != 0 {
				t.Errorf("the last process ended with %d: %s", status, &p.stderr)
			}
			p.kept(t)
			slices.Sort(blocked)
			fmt.Printf("%d takeovers and %d killed ones with tunnels and %d workers: %d packets (until the last: %v), lost %d, %d MiB by TCP through a learned end, 0 flooded; %d flows kept their source ports, %d copies their numbers; blocked for %v to %v, median %v\n",
				times, times, workers, sent, during, int64(sent)-int64(at[0]), bytes>>20, len(watch.flows), len(watch.copies), blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
			o.checkClean(t)
			o.checkNoTakeover(t)
		})
	}
}
