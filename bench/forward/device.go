package forward

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// device is a kind of device under test.
type device struct {
	name string
	// about says in a clause what it is.
	about string
	// afxdp marks the rivals that forward through AF_XDP.
	afxdp bool
	// weir marks those that are a weir process.
	weir bool
	// before marks those that are the other build of weir, Config.Before.
	before bool
	// optional devices are measured only if they are named, or in a run with floods.
	optional bool
	// third marks those that a hostile host can have a port of.
	third bool
	// peer finds the rival's programs; nil where nothing has to be installed.
	peer func() Peer
	// start brings it up in a rig between portA and portB. It undoes all on failure.
	start func(r *rig, o deviceOptions) (running, error)
}

// running is a device that forwards.
type running interface {
	// stop ends it and says what was granted, in words: "native XDP, copy, need_wakeup".
	// That it had ended before is an error.
	stop() (granted string, err error)
}

// deviceOptions are for Weir's own devices.
type deviceOptions struct {
	weir []string // command that behaves as weir, of which switch -c FILE is asked
	poll string   // workers.poll
	busy int      // busy_poll of xsk ports
	ring int      // packets in each ring; 0: the default
	// collections has the switch write a line to its log for each garbage collection.
	collections bool
}

// devices in the order of the table: the ceiling, the rivals, Weir.
var devices = []device{
	{name: "redirect", about: "XDP program that redirects in the kernel: the ceiling", start: startRedirect},
	{name: "bridge", about: "Linux bridge", third: true, start: startBridge},
	{name: "asavie", about: "Weir's patch over github.com/asavie/xdp", weir: true, afxdp: true, start: startWeir("asavie", "patch")},
	{name: "ovs", about: "Open vSwitch, netdev-afxdp", afxdp: true, peer: peerOVS, start: startOVS},
	{name: "ovs_normal", about: "Open vSwitch as a learning switch; only if named", afxdp: true, optional: true, third: true, peer: peerOVS, start: startOVSNormal},
	{name: "testpmd", about: "DPDK testpmd, net_af_xdp", afxdp: true, peer: peerTestpmd, start: startTestpmd},
	{name: "patch", about: "Weir's patch over xsk", weir: true, start: startWeir("xsk", "patch")},
	{name: "l2", about: "Weir's l2 over xsk", weir: true, third: true, start: startWeir("xsk", "l2")},
	{name: "l2_all", about: "Weir's l2 and all four telemetry systems; only if named", weir: true, optional: true, third: true, start: startWeir("xsk", "l2_all")},
	{name: "patch2", about: "Weir's patch over xsk with two workers, the first one beside the source; only if named", weir: true, optional: true,
		start: startWorkers("xsk", "patch", func(c Cores) []int { return []int{c.Source, c.Device} })},
	{name: "patch_before", about: "patch of another build of weir, that of --before; only if named", weir: true, before: true, optional: true, start: startWeir("xsk", "patch")},
	{name: "l2_before", about: "l2 of another build of weir, that of --before; only if named", weir: true, before: true, optional: true, start: startWeir("xsk", "l2")},
}

// Devices names all devices under test.
func Devices() []string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = d.name
	}
	return names
}

// About says in a clause what a device is.
func About(name string) string {
	for _, d := range devices {
		if d.name == name {
			return d.about
		}
	}
	return ""
}

// choose looks names up, keeping the table's order. No name at all means each device that is
// installed; with floods, each that has a third port.
func choose(names []string, floods bool) ([]device, error) {
	var chosen []device
	for _, d := range devices {
		missing := d.peer != nil && !d.peer().Installed()
		switch {
		case slices.Contains(names, d.name) && missing:
			return nil, fmt.Errorf("%s is not installed: run weir bench peers --install, or leave it out", d.name)
		case slices.Contains(names, d.name), len(names) == 0 && !missing && (floods && d.third || !floods && !d.optional):
			chosen = append(chosen, d)
		}
	}
	var errs []error
	for _, name := range names {
		if !slices.Contains(Devices(), name) {
			errs = append(errs, fmt.Errorf("there is no device %q: choose among %s", name, strings.Join(Devices(), ", ")))
		}
	}
	return chosen, errors.Join(errs...)
}
