package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// The test bond: the second host has a bond of Linux with LACP, of its NIC and of that at the far end of c.
//
//	host 1, eth0 ───> a ── l2 ── bond0 ┬─ b <──> eth0 ─┐
//	                                   └─ c <──> eth1 ─┴ bond1, host 2
var bondSwitch = switchFile{"s1", 1, []string{"a", "b", "c"}, `"parse", "bond", "l2", "distribute"`, `
[[port]]
name = "bond0"
driver = "bond"
mode = "lacp"
lacp_rate = "fast"
members = ["b", "c"]
`}

const (
	hostBond    = "bond1" // the module makes a bond0 itself
	secondNIC   = "eth1"
	bondMonitor = 20 // ms between two looks of Linux at its links
)

var bondAddresses = [2]netip.Prefix{netip.MustParsePrefix("10.41.0.1/24"), netip.MustParsePrefix("10.41.0.2/24")}

// makeBond gives the second host its bond.
func (r *running) makeBond() error {
	h := &r.hosts[1]
	if err := errors.Join(r.ports.SetDown("d"), moveAs("d", r.ports, secondNIC, h.Namespace)); err != nil {
		return err
	}
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: hostBond})
	bond.Mode, bond.LacpRate, bond.Miimon, bond.XmitHashPolicy = netlink.BOND_MODE_802_3AD, netlink.BOND_LACP_RATE_FAST, bondMonitor, netlink.BOND_XMIT_HASH_POLICY_LAYER3_4
	if err := h.Netlink().LinkAdd(bond); err != nil {
		return fmt.Errorf("make %s: %w", hostBond, err)
	}
	for _, name := range []string{hostInterface, secondNIC} {
		slave, err := h.Link(name)
		if err != nil {
			return err
		}
		if err := errors.Join(h.SetDown(name), h.Netlink().LinkSetMaster(slave, bond)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	mac, err := h.MAC(hostBond)
	if err != nil {
		return err
	}
	h.mac, h.device = mac.String(), hostBond
	if !r.bonded { // the first host keeps its address
		r.bonded = true
		err = r.hosts[0].AddAddress(hostInterface, bondAddresses[0])
	}
	return errors.Join(err, h.SetUp(hostInterface), h.SetUp(secondNIC), h.SetUp(hostBond), h.AddAddress(hostBond, bondAddresses[1]))
}

// moveAs moves a NIC, which is down, and gives it another name. Its number may change on the way.
func moveAs(name string, from *netns.Namespace, newName string, to *netns.Namespace) error {
	if err := from.MoveLink(name, to); err != nil {
		return err
	}
	link, err := to.Link(name)
	if err != nil {
		return err
	}
	return to.Netlink().LinkSetName(link, newName)
}

// undoBond puts the NICs back.
func (r *running) undoBond() error {
	h := &r.hosts[1]
	err := h.DeleteLink(hostBond)
	if err != nil {
		return err
	}
	err = errors.Join(h.SetDown(secondNIC), moveAs(secondNIC, h.Namespace, "d", r.ports))
	mac, macErr := h.MAC(hostInterface)
	h.mac, h.device = mac.String(), hostInterface
	return errors.Join(err, macErr, r.up())
}

func (r *running) bondEnds() (from, to lab.Stack) {
	return lab.Stack{Namespace: r.hosts[0].Namespace, Address: bondAddresses[0].Addr()}, lab.Stack{Namespace: r.hosts[1].Namespace, Address: bondAddresses[1].Addr()}
}

// linksOf is how many links each side's bond has. While Linux finds its partner anew, its NICs may be of two aggregators, of which it uses one.
func (r *running) linksOf() (linux, ours int, err error) {
	aggregators := map[uint16]int{}
	for _, name := range []string{hostInterface, secondNIC} {
		link, err := r.hosts[1].Link(name)
		if err != nil {
			return 0, 0, err
		}
		const distributing = 1 << 5 // IEEE 802.1AX-2014, 6.4.2.3
		if b, ok := link.Attrs().Slave.(*netlink.BondSlave); ok && b.AdActorOperPortState&distributing != 0 {
			aggregators[b.AggregatorId]++
			linux = max(linux, aggregators[b.AggregatorId])
		}
	}
	out, err := weir("ctl", "--socket", bondSwitch.socket(), "show", "bonds", "--json")
	if err != nil {
		return 0, 0, err
	}
	var answer struct {
		Bonds []struct{ Members []struct{ Active bool } }
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return 0, 0, fmt.Errorf("the bonds: %w: %s", err, out)
	}
	for _, b := range answer.Bonds {
		for _, m := range b.Members {
			if m.Active {
				ours++
			}
		}
	}
	return linux, ours, nil
}

// awaitLinks waits until both sides have so many links.
func (r *running) awaitLinks(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	var linux, ours int
	for ctx.Err() == nil {
		var err error
		if linux, ours, err = r.linksOf(); err != nil {
			return err
		}
		if linux == n && ours == n {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("links: %d in the bond of Linux and %d in that of the switch, not %d: %w %s", linux, ours, n, ctx.Err(), r.showBonds())
}

// showBonds is what the switch says of its bond, for a failure.
func (r *running) showBonds() string {
	out, err := weir("ctl", "--socket", bondSwitch.socket(), "show", "bonds")
	if err != nil {
		return err.Error()
	}
	return string(out) + r.showPorts()
}

// cutPackets is how many packets are sent while a cable is cut.
const cutPackets = 3000

// bonds has both sides agree on two cables, by which packets pass in order; then one is cut under load, and mended.
func (r *running) bonds(ctx context.Context) (text string, err error) {
	from, to := r.bondEnds()
	h := &r.hosts[1]
	if err := r.awaitLinks(ctx, 2); err != nil {
		return "", err
	}
	if err := ping(ctx, from, to, pingSizes...); err != nil {
		return "", err
	}
	if text, err = r.tcp(ctx, from, to, r.row.Bytes/4); err != nil {
		return "", err
	}
	if err := r.bondComes(ctx); err != nil {
		return "", err
	}
	text += fmt.Sprintf("; %d times gone and come by reload", r.row.Reloads)
	if err := r.bothNumbered(ctx); err != nil {
		return "", err
	}
	type result struct {
		arrived
		err error
	}
	done := make(chan result, 1)
	before, err := h.Counters(secondNIC)
	if err != nil {
		return "", err
	}
	r.runs++
	go func() {
		got, err := r.counted(ctx, r.runs-1, cutPackets, &r.hosts[0], h)
		done <- result{got, err}
	}()
	for ctx.Err() == nil { // until packets of the load come by the cable
		now, err := h.Counters(secondNIC)
		if err != nil {
			return "", err
		}
		if now.RxPackets > before.RxPackets+cutPackets/10 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := h.SetDown(secondNIC); err != nil {
		return "", err
	}
	got := <-done
	if got.err != nil {
		return "", got.err
	}
	text += fmt.Sprintf("; a cable cut: %d of %d packets lost", got.Lost, cutPackets)
	if got.Reordered+got.Duplicates+got.Stale != 0 || got.Packets+got.Lost != cutPackets {
		return "", fmt.Errorf("as a cable was cut, of %d packets: %+v", cutPackets, got.arrived)
	}
	if err := r.awaitLinks(ctx, 1); err != nil {
		return "", err
	}
	if err := ping(ctx, from, to, pingSizes...); err != nil {
		return "", err
	}
	if err := h.SetUp(secondNIC); err != nil {
		return "", err
	}
	if err := r.awaitLinks(ctx, 2); err != nil {
		return "", err
	}
	if _, err := r.tcp(ctx, from, to, r.row.Bytes/16); err != nil {
		return "", err
	}
	return text, r.bothNumbered(ctx)
}

// bondComes takes the bond and its stages out of the switch that runs and brings them back, so that Linux has lost its partner and finds it anew. Meanwhile the
// members are ports of the bridge.
func (r *running) bondComes(ctx context.Context) error {
	from, to := r.bondEnds()
	plain := bondSwitch
	plain.graph, plain.stages = `"parse", "l2"`, ""
	for i := range r.row.Reloads {
		if err := r.reload(&plain); err != nil {
			return err
		}
		if out, err := weir("ctl", "--socket", bondSwitch.socket(), "show", "bonds"); err == nil {
			return fmt.Errorf("there are bonds still: %s", out)
		}
		if err := r.settle(ctx); err != nil {
			return err
		}
		if err := r.reload(&bondSwitch); err != nil {
			return err
		}
		if err := r.awaitLinks(ctx, 2); err != nil {
			return err
		}
		if err := ping(ctx, from, to, pingSizes...); err != nil {
			return err
		}
		text, err := r.tcp(ctx, from, to, r.row.Bytes/16)
		if err != nil {
			return fmt.Errorf("by the bond that came %d times: %w", i+1, err)
		}
		fmt.Printf("guest: the bond went and came, both sides have two links: %s\n", text)
	}
	return nil
}

// reload has the switch of a configuration run another one.
func (r *running) reload(f *switchFile) error {
	path := "/run/" + f.name + ".toml"
	if err := os.WriteFile(path, []byte(f.text(r.row, r.jumbo)), 0o600); err != nil {
		return err
	}
	if out, err := weir("ctl", "--socket", f.socket(), "reload", path); err != nil {
		return fmt.Errorf("reload: %w: %s", err, out)
	}
	return nil
}
