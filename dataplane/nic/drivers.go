package nic

// driverFacts are what drivers do not tell by themselves.
type driverFacts struct {
	// noXDP and noZeroCopy say when a driver that can does not.
	noXDP, noZeroCopy string
	// bufferUnit is the step of receive buffers' sizes in zero-copy, in bytes; 0: any size.
	bufferUnit int
	// perProcessor: with an XDP program the driver adds a queue for each processor, if there can be so many.
	perProcessor bool
	// halfQueues: XDP takes as many queues for itself, so the others may be half of what there can be.
	halfQueues bool
	// symmetric: the device has a symmetric hash of its own. For others a port tries it too, before it takes another key.
	symmetric bool
	// forgetsXDP: the driver drops the XDP program when it stops the device, and the kernel does not know.
	forgetsXDP bool
	// genericOnly is why AF_XDP gets nothing of the program that the driver takes.
	genericOnly string
	// needs is what else zero-copy takes, as far as it can be seen.
	needs func(*Interface) string
	note  string
}

// policy is for drivers of virtual machines whose host decides which addresses may pass.
const policy = "the host's switch may keep what is not for the interface's own address, and promiscuous mode does not tell"

// drivers is by the name of ETHTOOL_GDRVINFO; docs/nic.md has the whole table, with the sources.
var drivers = map[string]driverFacts{
	"igb":   {bufferUnit: 1024, noZeroCopy: "it came with Linux 6.14"},
	"igc":   {bufferUnit: 1024},
	"ixgbe": {bufferUnit: 1024}, // the 82599; later ones would not need it
	"virtio_net": {
		perProcessor: true, needs: virtioNeeds, noZeroCopy: "it came with Linux 6.13",
		noXDP: "unless the host's offloads can be switched off (QEMU: ctrl_guest_offloads=on, or guest_tso4=off and its likes)",
	},
	vethDriver:  {noXDP: "while it has fewer receive queues than the far end has to transmit (ethtool -L)"},
	"mlx5_core": {noXDP: "while LRO or hardware GRO is on; a port turns them off"},
	"ice":       {symmetric: true},
	"iavf":      {symmetric: true},
	"ena":       {halfQueues: true, note: "XDP takes an MTU of one page at most, less headroom (3,498 bytes); " + policy},
	"gve":       {halfQueues: true, note: policy + ": allow forwarding (canIpForward)", noXDP: "in this queue format (GQI-QPL has it)"},
	"vmxnet3":   {forgetsXDP: true, note: "the number of queues follows the processors of the virtual machine, and cannot be set; " + policy + ": allow promiscuous mode and forged transmits"},
	"hv_netvsc": {note: "VLAN tags are always taken out of the packets: give the virtual machine one network per VLAN; " + policy + ": allow MAC address spoofing"},
	// It runs the program on its members' queues, and AF_XDP refuses, without a count, what comes from another device than the
	// socket's (xsk_rcv_check in net/xdp/xsk.c).
	"bonding": {genericOnly: "a bond's packets come from its members, and a socket of the bond gets none of them: make each member a port"},
}

// accessPlatform is VIRTIO_F_ACCESS_PLATFORM, a bit of the device's features.
const accessPlatform = 33

// virtioNeeds says why virtio_net would refuse zero-copy: the driver maps frames for the device itself only where that takes
// the kernel's DMA addresses.
func virtioNeeds(i *Interface) string {
	if len(i.virtio) > accessPlatform && i.virtio[accessPlatform] == '0' {
		return "the device does not take the kernel's DMA addresses (QEMU: iommu_platform=on,disable-legacy=on)"
	}
	return ""
}
