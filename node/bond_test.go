package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	check(t, b.far.DisableIPv6())
	for i := range 2 {
		m, u := fmt.Sprintf("m%d", i), fmt.Sprintf("u%d", i)
		check(t, netns.AddVeth(netns.End{Namespace: b.ns, Name: m}, netns.End{Namespace: b.far, Name: u}, netns.Veth{}))
		check(t, b.far.SetHostOffloads(u))
		check(t, b.ns.SetSwitchOffloads(m))
		check(t, b.ns.SetUp(m))
		check(t, b.far.SetUp(u))
		check(t, b.ns.WaitUp(m, patience))
	}
	b.write(t, strings.ReplaceAll(bondSwitch, "$BOND", bond))
	return b
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

// TestMemberLost: under load a member's cable is cut. What is lost is what was on its way there, and no packet overtakes another one of its flow,
// also when the member comes back.
func TestMemberLost(t *testing.T) {
	for _, mode := range []string{"mode = \"active-backup\"", "mode = \"balance-xor\""} {
		t.Run(mode, func(t *testing.T) {
			b := newBondBed(t, mode)
			far := b.bridged(t)
			b.start(t)
			b.await(t, "a member carries packets", func() bool { return !b.uses()() })
			const count, rate = 100_000, 20_000
			load := traffictest.Start(t, b.near, []*netnstest.Host{far}, 128, rate, count)
			b.await(t, "packets arrive", func() bool { r, err := load.Sinks[0].Report(); return err == nil && r.Packets > count/10 })
			check(t, b.far.SetDown("u0"))
			b.await(t, "m1 alone carries packets", b.uses("m1"))
			check(t, b.far.SetUp("u0"))
			sent := load.Wait()
			_, at := load.Received(t, func() uint64 { return 0 })
			r, err := load.Sinks[0].Report()
			check(t, err)
			t.Logf("sent %d, arrived %d, lost %d, reordered %d, duplicates %d", sent, at[0], sent-at[0], r.Reordered, r.Duplicates)
			if r.Reordered != 0 || r.Duplicates != 0 {
				t.Errorf("%d packets overtook others of their flow, %d came twice", r.Reordered, r.Duplicates)
			}
			b.stopBond(t)
		})
	}
}
