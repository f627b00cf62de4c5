package node

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
)

// bondSwitch joins the host at p0 with the bond of m0 and m1.
const bondSwitch = `
[switch]
name = "r1"
id = 1
graph = ["parse", "bond", "l2", "distribute"]
[dataplane]
audit = true
[[port]]
interface = "p0"
[[port]]
interface = "m0"
[[port]]
interface = "m1"
[[port]]
name = "bond0"
driver = "bond"
members = ["m0", "m1"]
$BOND
[control]
socket = "$DIR/s.sock"
audit = ""
metrics = ""
`

// bondBed is a switch with a host at p0, and cables from its ports m0 and m1 to u0 and u1 of the namespace far.
type bondBed struct {
	*bed
	near *netnstest.Host
	far  *netns.Namespace
}

func newBondBed(t *testing.T, bond string) *bondBed {
	t.Helper()
	netnstest.Require(t)
	b := &bondBed{bed: &bed{ns: netnstest.New(t, prefix), dir: t.TempDir()}, far: netnstest.New(t, prefix)}
	b.file = b.dir + "/r1.toml"
	b.near = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.ns, Name: "p0"})
	b.cable(t, 1)
	b.write(t, strings.ReplaceAll(bondSwitch, "$BOND", bond))
	return b
}

// cable lays the cables, whose ends have so many queues.
func (b *bondBed) cable(t *testing.T, queues int) {
	t.Helper()
	check(t, b.far.DisableIPv6())
	for i := range 2 {
		m, u := fmt.Sprintf("m%d", i), fmt.Sprintf("u%d", i)
		check(t, netns.AddVeth(netns.End{Namespace: b.ns, Name: m}, netns.End{Namespace: b.far, Name: u}, netns.Veth{Queues: queues}))
		check(t, b.far.SetHostOffloads(u))
		check(t, b.ns.SetSwitchOffloads(m))
		check(t, b.ns.SetUp(m))
		check(t, b.far.SetUp(u))
		check(t, b.ns.WaitUp(m, patience))
	}
}

// bridged makes one host of the far ends, by a bridge: as two ports of a switch that knows no bond.
func (b *bondBed) bridged(t *testing.T) *netnstest.Host {
	t.Helper()
	check(t, b.far.AddBridge("br0", "u0", "u1"))
	mac, err := b.far.MAC("br0")
	check(t, err)
	return &netnstest.Host{NS: b.far, Interface: "br0", MAC: mac}
}

// uses reports whether the bond sends by these members alone.
func (b *bondBed) uses(members ...string) func() bool {
	return func() bool {
		var use []string
		for _, m := range b.Metrics() {
			if m.Name == "member_active" && m.Value != 0 {
				use = append(use, m.Labels["member"])
			}
		}
		slices.Sort(use)
		return slices.Equal(use, members)
	}
}

// stationAt is the port of a bridge behind which it has a station.
func stationAt(t *testing.T, ns *netns.Namespace, mac string) string {
	t.Helper()
	var entries []struct{ MAC, Ifname string }
	check(t, json.Unmarshal([]byte(run(t, ns, "bridge", "-json", "fdb", "show", "br", "br0")), &entries))
	for _, e := range entries {
		if e.MAC == mac {
			return e.Ifname
		}
	}
	return ""
}

// TestActiveBackup: of two cables to a Linux bridge one carries packets. When it is cut, the other one does, and the bridge is notified where
// the host is, which itself says nothing.
func TestActiveBackup(t *testing.T) {
	b := newBondBed(t, "mode = \"active-backup\"\nprimary = \"m0\"")
	far := b.bridged(t)
	b.start(t)
	address(t, b.near, "10.9.0.1/24")
	there := address(t, far, "10.9.0.2/24")
	b.await(t, "m0 carries packets", b.uses("m0"))
	check(t, transfer(b.near, far, there, 1<<20))
	host := b.near.MAC.String()
	at := func(port string) func() bool { return func() bool { return stationAt(t, b.far, host) == port } }
	b.await(t, "the bridge has the host behind u0", at("u0"))

	check(t, b.far.SetDown("u0"))
	b.await(t, "m1 carries packets", b.uses("m1"))
	b.await(t, "the bridge has the host behind u1", at("u1"))
	check(t, transfer(b.near, far, there, 1<<20))

	check(t, b.far.SetUp("u0"))
	b.await(t, "m0 carries packets again", b.uses("m0"))
	b.await(t, "the bridge has the host behind u0 again", at("u0"))
	check(t, transfer(b.near, far, there, 1<<20))

	check(t, b.far.SetDown("u0"))
	check(t, b.far.SetDown("u1"))
	b.await(t, "the bond is down", func() bool {
		for _, p := range b.Report().Ports {
			if p.Name == "bond0" {
				return !p.Up && strings.Contains(p.Error, "m0, m1")
			}
		}
		return false
	})
	b.stopBond(t)
}

// stopBond ends the node, whose books must add up.
func (b *bondBed) stopBond(t *testing.T) {
	t.Helper()
	check(t, b.end())
}

// farSwitch is the other side of a bond, with a host.
const farSwitch = `
[switch]
name = "far"
id = 2
graph = ["parse", "bond", "l2", "distribute"]
[dataplane]
audit = true
[[port]]
interface = "h0"
[[port]]
interface = "u0"
[[port]]
interface = "u1"
[[port]]
name = "bond0"
driver = "bond"
members = ["u0", "u1"]
$BOND
[control]
socket = "$DIR/far.sock"
audit = ""
metrics = ""
`

// farBed is the far end with a host, for a switch.
func (b *bondBed) farBed(t *testing.T) (*netnstest.Host, *bondBed) {
	t.Helper()
	far := &bondBed{bed: &bed{ns: b.far, dir: t.TempDir()}}
	far.file = far.dir + "/far.toml"
	for _, u := range []string{"u0", "u1"} {
		check(t, b.far.SetSwitchOffloads(u))
	}
	return netnstest.NewHost(t, prefix, netnstest.Port{Namespace: b.far, Name: "h0"}), far
}

// bonded has a switch with a bond at the far end, and a host behind it.
func (b *bondBed) bonded(t *testing.T, bond string) (*netnstest.Host, *bondBed) {
	t.Helper()
	host, far := b.farBed(t)
	far.write(t, strings.ReplaceAll(farSwitch, "$BOND", bond))
	far.start(t)
	return host, far
}

// switched has a switch at the far end that knows no bond, and a host behind it.
func (b *bondBed) switched(t *testing.T) (*netnstest.Host, *bondBed) {
	t.Helper()
	host, far := b.farBed(t)
	plain, control, _ := strings.Cut(farSwitch, "[[port]]\nname")
	_, control, _ = strings.Cut(control, "$BOND\n")
	far.write(t, strings.Replace(plain, `"parse", "bond", "l2", "distribute"`, `"parse", "l2"`, 1)+control)
	far.start(t)
	return host, far
}

// TestMemberLost: under load a member's cable is cut. What is lost is what was on its way there, and no packet overtakes another one of its flow,
// also when the member comes back.
func TestMemberLost(t *testing.T) {
	if os.Getenv("WEIR_MEMBER_LOST") == "" {
		t.Skip("WEIR_MEMBER_LOST is not set: run make member-lost on a quiet machine, as one that cannot keep up loses packets elsewhere")
	}
	for _, mode := range []string{"active-backup", "balance-xor", "lacp"} {
		t.Run(mode, func(t *testing.T) {
			b := newBondBed(t, fmt.Sprintf("mode = %q", mode))
			var host *netnstest.Host
			var far *bondBed
			all := []string{"m0", "m1"}
			if mode == "active-backup" {
				host, far = b.switched(t)
				all = all[:1]
			} else {
				host, far = b.bonded(t, fmt.Sprintf("mode = %q", mode))
			}
			b.start(t)
			address(t, b.near, "10.9.0.1/24")
			there := address(t, host, "10.9.0.2/24")
			b.await(t, "all members carry packets", b.uses(all...))
			if mode != "active-backup" {
				far.await(t, "all members carry packets at the far end", far.uses("u0", "u1"))
			}
			check(t, transfer(b.near, host, there, 1<<20))
			check(t, transfer(host, b.near, b.near.Addresses[0].Addr(), 1<<20))
			const count, rate = 100_000, 10_000
			load := traffictest.Start(t, b.near, []*netnstest.Host{host}, 128, rate, count)
			arrived := func(n uint64) func() bool {
				return func() bool { r, err := load.Sinks[0].Report(); return err == nil && r.Packets > n }
			}
			b.await(t, "packets arrive", arrived(count/10))
			check(t, b.far.SetDown("u0"))
			b.await(t, "m1 alone carries packets", b.uses("m1"))
			b.await(t, "packets arrive by it", arrived(count/3))
			check(t, b.far.SetUp("u0"))
			if mode != "active-backup" {
				b.await(t, "both carry packets again", b.uses("m0", "m1"))
			}
			sent := load.Wait()
			b.await(t, "the last packet", func() bool { r, err := load.Sinks[0].Report(); return err == nil && r.NextSeq >= sent })
			r, err := load.Sinks[0].Report()
			check(t, err)
			lost := sent - r.Unique()
			t.Logf("sent %d, lost %d, reordered %d, duplicates %d", sent, lost, r.Reordered, r.Duplicates)
			if r.Reordered != 0 || r.Duplicates != 0 {
				t.Errorf("%d packets overtook others of their flow, %d came twice", r.Reordered, r.Duplicates)
			}
			// What is lost was on its way by the member that was cut: the kernel dropped it there, behind the switch or in front of the far end.
			// Of LACP that is not bounded yet (docs/bond.md).
			if most := b.lostBy("m0") + far.lostBy("u0"); lost > most && mode != "lacp" {
				t.Errorf("%d packets are lost, of which %d at the member", lost, most)
			}
			check(t, transfer(b.near, host, there, 1<<20))
			b.stopBond(t)
			far.stopBond(t)
		})
	}
}

// lostBy is how many packets were lost at a port, after the switch has sent them, before it received them, or as it was down.
func (b *bondBed) lostBy(name string) (n uint64) {
	for _, p := range b.Report().Ports {
		if p.Name == name {
			n += p.LinkTxDrops + p.TxUnsent + p.RxDropped + p.RxRingFull + p.RxNoFrame + p.LinkRxErrors
		}
		for reason, count := range p.Dropped {
			if reason == "port_down" {
				n += count
			}
		}
	}
	return n
}

// plain is the configuration without its bond, and without the stages of bonds.
func (b *bondBed) plain(t *testing.T) string {
	t.Helper()
	with, err := os.ReadFile(b.file)
	check(t, err)
	ports, rest, _ := strings.Cut(strings.Replace(string(with), `"parse", "bond", "l2", "distribute"`, `"parse", "l2"`, 1), "[[port]]\nname = \"bond0\"")
	_, control, _ := strings.Cut(rest, "[control]")
	return ports + "[control]" + control
}

// TestBondRefused: members with different MTUs are refused by one sentence, at the start and by a reload, which leaves all as it is.
func TestBondRefused(t *testing.T) {
	b := newBondBed(t, "mode = \"balance-xor\"")
	check(t, b.ns.SetMTU("m1", 1400))
	c, err := config.Load(b.file)
	check(t, err)
	err = b.ns.Do(func() error {
		n, err := New(c, Options{File: b.file})
		if err == nil {
			_ = n.Close()
		}
		return err
	})
	want := "port bond0: its members m0 and m1 have MTUs of 1500 and 1400 bytes: set them equal (ip link set INTERFACE mtu)"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	with, err := os.ReadFile(b.file)
	check(t, err)
	b.write(t, b.plain(t))
	b.start(t)
	before := b.Config()
	b.write(t, string(with))
	if _, err := b.Reload(&api.ReloadRequest{}); err == nil || err.Error() != want {
		t.Errorf("reload: %v, want %s", err, want)
	}
	if b.Config() != before || len(b.Report().Ports) != 3 || len(b.Report().Stages) != 2 {
		t.Errorf("ports %v, stages %v", b.Report().Ports, b.Report().Stages)
	}
	check(t, b.ns.SetMTU("m1", 1500))
	b.await(t, "the members have one MTU", func() bool { _, err := b.Reload(&api.ReloadRequest{}); return err == nil })
	b.await(t, "both carry packets", b.uses("m0", "m1"))
	b.stopBond(t)
}

// TestBondComesAndGoes: a reload joins two ports of a running switch to a bond, and parts them again; the stages of bonds stay, or come and go with it. What passes the
// ports at that moment may be lost, and is counted then.
func TestBondComesAndGoes(t *testing.T) {
	for _, stays := range []bool{true, false} {
		t.Run(fmt.Sprintf("stages stay %t", stays), func(t *testing.T) { bondComesAndGoes(t, stays) })
	}
}

func bondComesAndGoes(t *testing.T, stays bool) {
	b := newBondBed(t, "mode = \"active-backup\"")
	with, err := os.ReadFile(b.file)
	check(t, err)
	plain, control, _ := strings.Cut(string(with), "[[port]]\nname = \"bond0\"")
	_, control, _ = strings.Cut(control, "mode = \"active-backup\"\n")
	far := b.bridged(t)
	check(t, b.far.SetDown("u1")) // without the bond there would be a loop
	if !stays {
		plain = strings.Replace(plain, `"parse", "bond", "l2", "distribute"`, `"parse", "l2"`, 1)
	}
	b.write(t, plain+control)
	b.start(t)
	address(t, b.near, "10.9.0.1/24")
	there := address(t, far, "10.9.0.2/24")
	check(t, transfer(b.near, far, there, 1<<20))
	for range 2 {
		b.write(t, string(with))
		b.reload(t)
		check(t, b.far.SetUp("u1"))
		b.await(t, "m0 carries packets", b.uses("m0"))
		check(t, transfer(b.near, far, there, 1<<20))
		check(t, b.far.SetDown("u0"))
		b.await(t, "m1 carries packets", b.uses("m1"))
		check(t, transfer(b.near, far, there, 1<<20))
		check(t, b.far.SetUp("u0"))
		check(t, b.far.SetDown("u1"))
		b.await(t, "m0 carries packets again", b.uses("m0"))
		b.write(t, plain+control)
		b.reload(t)
		check(t, transfer(b.near, far, there, 1<<20))
	}
	ping := exec.Command("ping", "-i", "0.002", "-W", "30", there.String())
	var out strings.Builder
	ping.Stdout = &out
	check(t, b.near.NS.Start(ping))
	answered := func() uint64 { return b.Report().Ports[0].Received }
	dropped := func() (n uint64) {
		r := b.Report()
		for _, m := range []map[string]uint64{r.Dropped, r.Copies.Dropped} {
			for _, k := range m {
				n += k
			}
		}
		return n
	}
	times, droppedBefore := 20, dropped()
	for range times {
		for _, text := range []string{string(with), plain + control} {
			b.write(t, text)
			b.reload(t)
			before := answered()
			b.await(t, "pings go on", func() bool { return answered() > before+20 })
		}
	}
	check(t, ping.Process.Signal(os.Interrupt))
	_ = ping.Wait()
	n, last := pingsOf(t, out.String())
	fmt.Printf("a bond of which a member carries pings comes and goes %d times, its stages stay %t: %d of %d pings lost; dropped %v\n", times, stays, last-n, last, b.Report().Dropped)
	if lost := uint64(last - n); n == 0 || lost > dropped()-droppedBefore {
		t.Errorf("%d pings are answered, and %d lost, of which %d were counted", n, lost, dropped()-droppedBefore)
	}
	b.stopBond(t)
}
