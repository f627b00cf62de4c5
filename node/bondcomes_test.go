package node

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
)

// memberPorts are the cables to the far end, and lacpPort is a bond of them.
const (
	memberPorts = "[[port]]\ninterface = \"m0\"\nqueues = $WORKERS\n[[port]]\ninterface = \"m1\"\nqueues = $WORKERS\n"
	lacpPort    = "[[port]]\nname = \"bond0\"\ndriver = \"bond\"\nmode = \"lacp\"\nlacp_rate = \"fast\"\nmembers = [\"m0\", \"m1\"]\n"
)

// partner is a bond with LACP at the far end: that of Linux, or of another switch where the kernel has none.
type partner struct {
	host *netnstest.Host
	what string
	end  func() error
	// uses is how many members it sends by.
	uses func() int
}

func (b *bondBed) partner(t *testing.T) *partner {
	t.Helper()
	bond := exec.Command("ip", "link", "add", "bond1", "type", "bond", "mode", "802.3ad", "lacp_rate", "fast", "miimon", "20", "xmit_hash_policy", "layer3+4")
	if b.far.Start(bond) == nil && bond.Wait() == nil {
		for _, u := range []string{"u0", "u1"} {
			check(t, b.far.SetDown(u))
			run(t, b.far, "ip", "link", "set", u, "master", "bond1")
			check(t, b.far.SetUp(u))
		}
		check(t, b.far.SetUp("bond1"))
		mac, err := b.far.MAC("bond1")
		check(t, err)
		const distributing = "ad_actor_oper_port_state_str <active,short_timeout,aggregating,in_sync,collecting,distributing>"
		return &partner{
			host: &netnstest.Host{NS: b.far, Interface: "bond1", MAC: mac}, what: "Linux", end: func() error { return nil },
			uses: func() int {
				return strings.Count(run(t, b.far, "ip", "-details", "link", "show", "master", "bond1"), distributing)
			},
		}
	}
	host, far := b.farBed(t)
	far.write(t, strings.ReplaceAll(farSwitch, "$BOND", "mode = \"lacp\"\nlacp_rate = \"fast\"\n[workers]\npoll = \"interrupt\"\npin = false"))
	far.start(t)
	check(t, host.NS.SetARP(host.Interface, true))
	return &partner{host: host, what: "another switch", end: far.end, uses: func() (n int) {
		for _, m := range far.Metrics() {
			if m.Name == "member_active" && m.Value != 0 {
				n++
			}
		}
		return n
	}}
}

// bondsBed is a switch with hosts at p0, p1 and p2, and cables from m0 and m1.
func bondsBed(t *testing.T, workers int) *bondBed {
	t.Helper()
	b := &bondBed{bed: newBedOf(t, workers), far: netnstest.New(t, prefix)}
	b.near = b.hosts[0]
	b.cable(t, workers)
	return b
}

// writeBond writes the configuration with a graph, and ports beside p0, p1, p2, m0 and m1.
func (b *bondBed) writeBond(t *testing.T, workers int, graph, ports string) {
	t.Helper()
	text := strings.Replace(graphSwitch, "[telemetry]", memberPorts+ports+"[telemetry]", 1)
	b.write(t, strings.NewReplacer("$GRAPH", graph, "$WORKERS", fmt.Sprint(workers), "$TABLES", "").Replace(text))
}

// speaker sends frames of a station by u0, past the bond at the far end.
type speaker struct {
	*netns.PacketSocket
	b *bondBed
}

const speakerMAC = "02:00:00:00:00:77"

func (b *bondBed) speaker(t *testing.T) *speaker {
	t.Helper()
	socket, err := b.far.PacketSocket("u0")
	check(t, err)
	t.Cleanup(func() { _ = socket.Close() })
	return &speaker{socket, b}
}

// at reports whether a frame has the bridge know the station at a port, and at no other one.
func (s *speaker) at(port string) func() bool {
	frame := make([]byte, 60)
	copy(frame, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x77, 0x88, 0xb6})
	return func() bool {
		_ = s.Send(frame) // the socket reports once that its interface was down
		stations, _ := s.b.Fdb()
		found := false
		for e := range stations {
			if e.Mac == speakerMAC {
				found = e.Port == port
			}
		}
		return found
	}
}

// TestBondComes: two ports of a bridge become the members of a bond with LACP, and ports of the bridge again, while other hosts exchange pings and a TCP stream, of
// which nothing is lost. While the bond is there, both its members carry TCP, one of them is cut and mended, and another bond takes its place; while it is not, what tells of it is
// gone, and each of the ports is the bridge's.
func TestBondComes(t *testing.T) {
	rounds := 4
	if testing.Short() {
		rounds = 2
	}
	for _, c := range []struct {
		workers int
		more    string // stages in the graph beside
	}{{1, ""}, {2, ""}, {2, `"conntrack", `}} {
		t.Run(fmt.Sprintf("%d workers, %s", c.workers, c.more), func(t *testing.T) {
			b := bondsBed(t, c.workers)
			for i := range b.hosts {
				check(t, b.hosts[i].NS.SetARP(b.hosts[i].Interface, true))
				address(t, b.hosts[i], fmt.Sprintf("10.0.0.%d/24", i+1))
			}
			far := b.partner(t)
			there := address(t, far.host, "10.0.0.9/24")
			plain := func() { b.writeBond(t, c.workers, `"parse", `+c.more+`"l2"`, "") }
			bonded := func(port string) {
				b.writeBond(t, c.workers, `"parse", "bond", `+c.more+`"l2", "distribute"`, port)
			}
			plain()
			b.start(t)
			speaker := b.speaker(t)
			stop := &atomic.Bool{}
			bytes, ended := stream(t, b.bed, stop)
			ping := exec.Command("ping", "-i", "0.002", "-W", "30", "10.0.0.2")
			var out strings.Builder
			ping.Stdout = &out
			check(t, b.hosts[0].NS.Start(ping))
			links := func(n int, members ...string) {
				t.Helper()
				b.await(t, fmt.Sprintf("%v carry packets", members), func() bool { return b.uses(members...)() && far.uses() == n })
			}
			sent := func(name string) uint64 {
				for _, p := range b.Report().Ports {
					if p.Name == name {
						return p.Transmitted
					}
				}
				return 0
			}
			through := func() {
				t.Helper()
				check(t, transfer(b.hosts[2], far.host, there, 1<<18))
				check(t, transfer(far.host, b.hosts[2], b.hosts[2].Addresses[0].Addr(), 1<<18))
			}
			gone := func(name string) {
				t.Helper()
				for _, p := range b.Report().Ports {
					if p.Name == name && p.State != "removed" {
						t.Errorf("port %s is %s", name, p.State)
					}
				}
				for _, m := range b.Metrics() {
					if m.Labels["bond"] == name {
						t.Errorf("there is a metric %s of %s", m.Name, name)
					}
				}
				stations, _ := b.Fdb()
				for e := range stations {
					if e.Port == name {
						t.Errorf("a station is at %s: %v", name, e)
					}
				}
			}
			b.await(t, "the station is at m0", speaker.at("m0"))
			for range rounds {
				bonded(lacpPort)
				b.reload(t)
				links(2, "m0", "m1")
				b.await(t, "the station is at bond0", speaker.at("bond0"))
				before := [2]uint64{sent("m0"), sent("m1")}
				b.await(t, "both members carry TCP", func() bool {
					through()
					return sent("m0") > before[0]+100 && sent("m1") > before[1]+100
				})
				check(t, b.far.SetDown("u0"))
				links(1, "m1")
				through()
				check(t, b.far.SetUp("u0"))
				links(2, "m0", "m1")
				through()

				bonded(strings.Replace(lacpPort, "fast", "slow", 1))
				if _, err := b.Reload(&api.ReloadRequest{}); err == nil || !strings.Contains(err.Error(), "port[5].lacp_rate: cannot change while the port is there") {
					t.Errorf("another key of a bond: %v", err)
				}
				bonded(strings.NewReplacer("bond0", "bond1", "\"lacp\"", "\"lacp\"\nhash = \"layer2\"").Replace(lacpPort))
				b.reload(t)
				gone("bond0")
				links(2, "m0", "m1")
				b.await(t, "the station is at bond1", speaker.at("bond1"))
				through()

				plain()
				b.reload(t)
				gone("bond0")
				gone("bond1")
				if _, ok := b.Bonds(); ok {
					t.Error("there are bonds without a stage of them")
				}
				b.await(t, "the station is at m0", speaker.at("m0"))
				b.await(t, "the far end notices", func() bool { return far.uses() < 2 })
			}
			check(t, ping.Process.Signal(os.Interrupt))
			_ = ping.Wait()
			stop.Store(true)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			answered := allAnswered(t, out.String())
			r := b.stop(t)
			if t.Failed() {
				for _, p := range r.Ports {
					t.Logf("%s: %d received; lost before: ring full %d, no frame %d, in the kernel %d; after: %d", p.Name, p.Received, p.RxRingFull, p.RxNoFrame, p.RxDropped, p.LinkTxDrops+p.TxUnsent)
				}
			}
			fmt.Printf("a bond comes and goes: %d times, %d workers, %s LACP of %s, %d bytes of TCP, %d pings, 0 lost; dropped beside %v\n",
				rounds, c.workers, c.more, far.what, bytes.Load(), answered, r.Dropped)
			if !r.Balanced {
				t.Error("the books do not add up")
			}
			// Of the members, while the bond comes, goes or has lost one: then they are of no domain of the bridge yet, or anew; and LACPDUs at ports of the bridge; TCP's of connections by it that have ended.
			for why, n := range r.Dropped {
				if !strings.HasPrefix(why, "bond_") && !strings.HasPrefix(why, "ct_") && why != "port_down" && why != "vlan_filtered" && why != "no_port" && why != "link_local" {
					t.Errorf("%d packets are dropped: %s", n, why)
				}
			}
			check(t, far.end())
		})
	}
}
