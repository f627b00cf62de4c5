package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/netnstest"
	"github.com/weirswitch/weir/dataplane/traffic/traffictest"
	"github.com/weirswitch/weir/internal/handover"
)

// bondTestbed is two switches and a bond of two cables between them. Both are real processes, each with a host.
//
//	10.0.0.1 ── p0 ── s1 ══ m0 u0 ══ far ── p0 ── 10.0.0.2
//	                     ══ m1 u1 ══
type bondTestbed struct {
	*testbed          // of s1
	far      *testbed // the same hosts
}

func newBondTestbed(t *testing.T, queues int) *bondTestbed {
	t.Helper()
	netnstest.Require(t)
	b := &bondTestbed{&testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}, &testbed{ns: netnstest.New(t, prefix), dir: t.TempDir()}}
	for i, side := range []*testbed{b.testbed, b.far} {
		b.hosts[i] = netnstest.NewHost(t, prefix, netnstest.Port{Namespace: side.ns, Name: "p0", Queues: queues}, fmt.Sprintf("10.0.0.%d/24", i+1))
		must(t, side.ns.DisableIPv6())
	}
	b.far.hosts = b.hosts
	netnstest.Introduce(t, b.hosts[:]...)
	for i := range 2 {
		m, u := fmt.Sprintf("m%d", i), fmt.Sprintf("u%d", i)
		must(t, netns.AddVeth(netns.End{Namespace: b.ns, Name: m}, netns.End{Namespace: b.far.ns, Name: u}, netns.Veth{Queues: queues}))
		for ns, name := range map[*netns.Namespace]string{b.ns: m, b.far.ns: u} {
			must(t, ns.SetSwitchOffloads(name))
			must(t, ns.SetUp(name))
		}
		must(t, b.ns.WaitUp(m, time.Minute))
	}
	return b
}

// write writes the configuration of one of the switches; without a mode it has no bond.
func (b *testbed) writeBonded(t *testing.T, name, member, mode string, workers int) (config string) {
	t.Helper()
	text := fmt.Sprintf("[switch]\nname = %q\ngraph = [\"parse\", \"l2\"]\n[dataplane]\naudit = true\n[workers]\ncount = %d\npin = false\npoll = \"interrupt\"\n"+
		"[control]\ntakeover = true\nsocket = %q\n", name, workers, b.socket(name))
	for _, port := range []string{"p0", member + "0", member + "1"} {
		text += fmt.Sprintf("[[port]]\ninterface = %q\n", port)
	}
	if mode != "" {
		text = strings.Replace(text, `"parse", "l2"`, `"parse", "bond", "l2", "distribute"`, 1)
		text += fmt.Sprintf("[[port]]\nname = \"bond0\"\ndriver = \"bond\"\nmembers = [\"%[1]s0\", \"%[1]s1\"]\nmode = %s\n", member, mode)
	}
	config = filepath.Join(b.dir, name+".toml")
	must(t, os.WriteFile(config, []byte(text), 0o600))
	return config
}

// bond is what a switch says of its bond.
func (b *testbed) bond(t *testing.T, name string) *api.Bond {
	t.Helper()
	status, out, stderr := weir("ctl", "--socket", b.socket(name), "show", "bonds", "--json")
	if status != 0 {
		t.Fatal(stderr)
	}
	var r api.BondsResponse
	must(t, json.Unmarshal([]byte(out), &r))
	if len(r.Bonds) != 1 {
		t.Fatalf("bonds: %s", out)
	}
	return r.Bonds[0]
}

// awaitActive waits until packets leave by these members of a bond alone.
func (b *testbed) awaitActive(t *testing.T, name string, members ...string) {
	t.Helper()
	awaitThat(t, fmt.Sprintf("%s to send by %v", name, members), func() (string, bool) {
		bond := b.bond(t, name)
		var active []string
		for _, m := range bond.Members {
			if m.Active {
				active = append(active, m.Name)
			}
		}
		return fmt.Sprint(bond), slices.Equal(active, members)
	})
}

// steady is what of a bond may not change as long as it is in sync: which members are used, how often their use has ended, the active one has changed, and LACP's partner
// was another one, and LACP's states and numbers. received are the LACPDUs.
func steady(bond *api.Bond) (text string, received []uint64) {
	text = fmt.Sprintf("%s up %v, %d changes, system %s", bond.Mode, bond.Up, bond.Changes, bond.System)
	for _, m := range bond.Members {
		text += fmt.Sprintf("; %s active %v, receives %v, ended %d times", m.Name, m.Active, m.Receives, m.Ends)
		if l := m.Lacp; l != nil && bond.System != "" {
			text += fmt.Sprintf(", %s %s selected %v, %s; partner %s key %d port %d %s, %d changes", l.ReceiveMachine, l.MuxMachine, l.Selected, l.ActorState,
				l.PartnerSystem, l.PartnerKey, l.PartnerPort, l.PartnerState, l.PartnerChanges)
			received = append(received, l.Received)
		}
	}
	return text, received
}

// bondDown finds in a log that a bond was down.
var bondDown = regexp.MustCompile(`warn\s+bond changed`)

// TestTakeoverBond: processes take a switch with a bond over from each other, and some of them are killed half way, while numbered packets and a TCP connection pass by the bond; then those
// of the switch at its far end do so. No packet is lost, none overtakes another one of its flow, and at neither end LACP, or the member that is used, is ever another one than
// before. LACPDUs are received and sent as before. With two workers, packets pass from one to the other by rings.
func TestTakeoverBond(t *testing.T) {
	times := takeovers(t, 2, 1)
	const lacp = "\"lacp\"\nlacp_rate = \"fast\""
	for _, c := range []struct {
		name, mode      string
		workers, queues int
	}{
		{"LACP", lacp, 1, 1},
		{"LACP, 2 workers", lacp, 2, 2},
		{"LACP, 2 workers with rings between", lacp, 2, 1},
		{"balance-xor", "\"balance-xor\"", 1, 1},
		{"active-backup", "\"active-backup\"", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.workers == c.queues && c.mode != "\"active-backup\"" {
				t.Skip("it takes many seconds")
			}
			b := newBondTestbed(t, c.queues)
			config := b.writeBonded(t, "s1", "m", c.mode, c.workers)
			backup := c.name == "active-backup"
			farMode := c.mode
			if backup {
				farMode = "" // two ports of one switch
			}
			farConfig := b.far.writeBonded(t, "far", "u", farMode, c.workers)
			far := b.far.start(t, farConfig)
			p := b.start(t, config)
			switch {
			case backup: // the member that is active is not the one that would be after a start
				b.awaitActive(t, "s1", "m0")
				must(t, b.far.ns.SetDown("u0"))
				b.awaitActive(t, "s1", "m1")
				must(t, b.far.ns.SetUp("u0"))
				awaitThat(t, "m0 to have a link", func() (string, bool) { bond := b.bond(t, "s1"); return fmt.Sprint(bond), bond.Members[0].Link })
			default:
				b.awaitActive(t, "s1", "m0", "m1")
				b.far.awaitActive(t, "far", "u0", "u1")
			}
			bonds := func() (texts []string, received []uint64) {
				text, pdus := steady(b.bond(t, "s1"))
				texts, received = append(texts, text), append(received, pdus...)
				if !backup {
					text, pdus = steady(b.far.bond(t, "far"))
					texts, received = append(texts, text), append(received, pdus...)
				}
				return texts, received
			}
			settled := func() (texts []string) { // once both have said that they send and take
				awaitThat(t, "both ends to know each other's state", func() (string, bool) {
					texts, _ = bonds()
					all := fmt.Sprint(texts)
					return all, c.mode != lacp || strings.Count(all, "collecting,distributing") == 8
				})
				return texts
			}
			// The bridges learn where the hosts are.
			b.exchange(t, 5)
			before := settled()
			s := b.stream(t)
			l := traffictest.Start(t, b.hosts[0], b.hosts[1:], 128, 500, uint64(3000*times))
			var blocked []time.Duration
			same := func(after string) {
				t.Helper()
				if now, _ := bonds(); !slices.Equal(now, before) {
					t.Errorf("%s:\n%s\nbefore\n%s", after, strings.Join(now, "\n"), strings.Join(before, "\n"))
				}
				if log := p.stderr.String(); after != "after a takeover that was killed" && bondDown.MatchString(log) {
					t.Errorf("%s the bond was down: %s", after, log)
				}
			}
			lastReports := ""
			for i := range times {
				b.killedAt(t, config, p, []handover.Kind{sayQueue, sayEnd, sayReady}[i%3])
				same("after a takeover that was killed")
				old := p
				p = b.takeOver(t, config, old)
				old.kept(t)
				lastReports += old.stdout.String()
				blocked = append(blocked, p.blocked(t))
				same("after a takeover")
			}
			for range min(times, 2) {
				old := far
				far = b.far.takeOver(t, farConfig, old)
				old.kept(t)
				lastReports += old.stdout.String()
				blocked = append(blocked, far.blocked(t))
				same("after a takeover of the far end")
			}
			during := !l.Ended()
			sent, at := l.Received(t)
			bytes := s.end(t)
			report, err := l.Sinks[0].Report()
			must(t, err)
			if at[0] != sent || report.Reordered+report.Duplicates+report.Stale != 0 {
				t.Errorf("%d of %d packets are lost, %d overtook others, %d came twice, %d late: %s", int64(sent)-int64(at[0]), sent, report.Reordered, report.Duplicates, report.Stale, lastReports)
			}
			_, received := bonds()
			awaitThat(t, "all members to receive LACPDUs", func() (string, bool) {
				_, now := bonds()
				for i := range now {
					if now[i] <= received[i] {
						return fmt.Sprint(now), false
					}
				}
				return "", true
			})
			same("at the end")
			b.exchange(t, 20)
			if c.workers > c.queues {
				status, out, stderr := weir("ctl", "--socket", b.socket("s1"), "show", "workers", "--json")
				if status != 0 || !regexp.MustCompile(`"handed_over": *"?[1-9]`).MatchString(out) {
					t.Errorf("no packet passed from worker to worker: %s%s", out, stderr)
				}
			}
			for q, side := range map[*process]*testbed{p: b.testbed, far: b.far} {
				if status := q.stop(t); status != 0 {
					t.Errorf("the last process ended with %d: %s", status, &q.stderr)
				}
				q.kept(t)
				side.checkNoTakeover(t)
			}
			slices.Sort(blocked)
			fmt.Printf("%s: %d takeovers and %d killed ones, %d packets (until the last: %v), lost %d, out of order %d, %d MiB of TCP; LACPDUs received %v, states as before; blocked for %v to %v, median %v\n",
				c.name, len(blocked), times, sent, during, int64(sent)-int64(at[0]), report.Reordered, bytes>>20, received, blocked[0], blocked[len(blocked)-1], blocked[len(blocked)/2])
		})
	}
}
