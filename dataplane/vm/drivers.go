package vm

import (
	"fmt"
	"slices"
)

// Driver is a driver, the device that QEMU has for it, and the rows of the table that are tried on it.
type Driver struct {
	Name string
	// Modules of the driver, behind common.
	Modules []string
	// Device, RootPort and Pairs are as in [Machine], Veth as in [Plan].
	Device   string
	RootPort bool
	Pairs    int
	Veth     bool
	// SoftTunnels is as in [Plan].
	SoftTunnels bool
	Rows        []Row
}

// common are the modules of the bridge, of VLANs, of tunnels and of bonds, each after those that it needs.
var common = []string{
	"llc", "stp", "bridge", "garp", "mrp", "8021q",
	"udp_tunnel", "ip6_udp_tunnel", "vxlan", "geneve", "gre", "ip_tunnel", "ip_gre", "tunnel4", "ipip",
	"tls", "bonding",
}

var (
	// overPatch are the tests that a bridge can do, too.
	overPatch = []Test{Ping, VLAN, TCP, Tunnels, Flows, Jumbo, Faults}
	// everything but Bond: Linux bonds by LACP only NICs that have a speed, and those of virtio_net have none.
	everything = []Test{Ping, VLAN, TCP, Tunnels, Flows, Jumbo, L2, L3, Overlay, IRB, PINT, LDS, Faults, Restart}
)

// Drivers are those of the full matrix.
func Drivers() []Driver {
	bridge := Row{Name: "bridge", Bridge: true, Tests: overPatch}
	refused := func(r Row, tests ...Test) Row {
		r.Refuses = tests
		return r
	}
	zeroCopy := Row{Name: "zero-copy", Copy: "zero-copy", Granted: "native, zero-copy", Tests: everything}
	copied := Row{Name: "copy", Copy: "copy", Granted: "native, copy", Tests: everything}
	generic := Row{Name: "generic", Mode: "generic", Granted: "generic, copy", Tests: everything}
	auto := Row{Name: "auto", Tests: everything}
	bonded := Row{Name: auto.Name, Tests: append([]Test{Bond}, everything...)}
	// virtio_net has zero-copy only where the device keeps to the platform's DMA.
	const virtio = "virtio-net-pci,iommu_platform=on,disable-legacy=on"
	return []Driver{
		// In generic mode a tag outside the packet is lost, and a host's of 802.1ad stays there.
		{Name: "veth", Modules: []string{"veth"}, Veth: true, Rows: append([]Row{bridge, bonded}, without(IRB, generic)...)},
		{Name: "virtio_net", Modules: virtioModules, Device: virtio, Rows: []Row{bridge, copied, refused(zeroCopy, Jumbo)}},
		{Name: "virtio_net, 4 queue pairs", Modules: virtioModules, Device: virtio, Pairs: 4,
			Rows: []Row{bridge, spread(copied, 4), spread(refused(zeroCopy, Jumbo), 4)}},
		{Name: "igb", Modules: []string{"dca", "i2c-algo-bit", "igb"}, Device: "igb", RootPort: true,
			SoftTunnels: true, // QEMU's igb leaves these partial, over the kernel's bridge as well
			Rows:        []Row{bridge, spread(copied, 2), refused(zeroCopy, Jumbo), spread(refused(zeroCopy, Jumbo), 2), refused(smallFrames(zeroCopy), everything...), auto}},
		{Name: "e1000e", Modules: []string{"e1000e"}, Device: "e1000e", RootPort: true, Rows: []Row{bridge, auto, refused(zeroCopy, everything...)}},
		// QEMU's vmxnet3 loses packets of several buffers, over the kernel's bridge as well.
		{Name: "vmxnet3", Modules: []string{"vmxnet3"}, Device: "vmxnet3",
			Rows: without(Jumbo, bridge, auto, refused(zeroCopy, everything...))},
	}
}

var virtioModules = []string{"failover", "net_failover", "virtio_net"}

// smallFrames is a row with frames of 2 KiB, of which igb would use 1 KiB.
func smallFrames(r Row) Row {
	r.Name, r.FrameSize = r.Name+", 2 KiB frames", 2048
	return r
}

// spread is a row with several queues and two workers.
func spread(r Row, queues int) Row {
	r.Name, r.Queues, r.Workers = fmt.Sprintf("%s, %d queues", r.Name, queues), queues, 2
	return r
}

// without are rows without a test.
func without(test Test, rows ...Row) []Row {
	for i := range rows {
		rows[i].Tests = slices.DeleteFunc(slices.Clone(rows[i].Tests), func(t Test) bool { return t == test })
	}
	return rows
}

// Machine is a machine with the driver's NICs, for the given rows. Kernel, programs and folder are left to the caller.
func (d *Driver) Machine(rows []Row) *Machine {
	modules := append(common[:len(common):len(common)], d.Modules...)
	return &Machine{
		Plan:   Plan{Modules: modules, Veth: d.Veth, SoftTunnels: d.SoftTunnels, Rows: rows},
		Device: d.Device, RootPort: d.RootPort, Pairs: d.Pairs,
	}
}
