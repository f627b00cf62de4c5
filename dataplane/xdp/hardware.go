package xdp

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ErrNoDeviceTimes says that the interface's driver gives XDP programs no times.
var ErrNoDeviceTimes = errors.New("the driver gives XDP programs no receive times")

// ForDevice loads the program once more, with the same constants and maps, for one interface in
// the network namespace of the calling thread: packets get the time at which the device received
// them (Documentation/networking/xdp-rx-metadata.rst, Linux 6.3), and where it gave none, or its clock is far from
// CLOCK_TAI, that of the program, counted. The program must be one of ClockTAI. It can take the
// replaces p on that interface, natively, and ends with the interface.
func (p *Program) ForDevice(ifindex int) (*Program, error) {
	if p.options.Timestamp != ClockTAI {
		return nil, errors.New("load XDP program for a device: the program must read CLOCK_TAI, which takes Linux 6.1")
	}
	if has, err := deviceTimes(ifindex); err == nil && !has {
		return nil, ErrNoDeviceTimes
	}
	device := &Program{options: p.options, tag: p.tag, device: ifindex}
	return load(device, map[string]*ebpf.Map{"sockets": p.sockets, "counters": p.counters})
}

// Of the generic netlink family netdev, include/uapi/linux/netdev.h (Linux 6.7 for what is asked).
const (
	netdevFamily           = "netdev"
	netdevCommandGet       = 1
	netdevIfindex          = 1
	netdevMetadataFeatures = 5
	metadataTimestamp      = 1 << 0
)

// deviceTimes asks whether the driver of an interface has receive times for XDP programs. The kernel
// loads a program for a device without them as well, whose calls fail for each packet
// (bpf_dev_bound_resolve_kfunc). An error says that it could not be asked.
func deviceTimes(ifindex int) (bool, error) {
	family, err := netlink.GenlFamilyGet(netdevFamily)
	if err != nil {
		return false, fmt.Errorf("ask for the features of interface %d: %w", ifindex, err)
	}
	request := nl.NewNetlinkRequest(int(family.ID), 0)
	// Command, version and two reserved bytes, which nl.Genlmsg leaves to chance and this
	// family wants to be zero.
	header := []byte{netdevCommandGet, 1, 0, 0}
	request.AddRawData(append(header, nl.NewRtAttr(netdevIfindex, nl.Uint32Attr(uint32(ifindex))).Serialize()...))
	replies, err := request.Execute(unix.NETLINK_GENERIC, 0)
	if err != nil {
		return false, fmt.Errorf("ask for the features of interface %d: %w", ifindex, err)
	}
	for _, reply := range replies {
		if len(reply) < nl.SizeofGenlmsg {
			continue
		}
		attributes, err := nl.ParseRouteAttrAsMap(reply[nl.SizeofGenlmsg:])
		if err != nil {
			return false, fmt.Errorf("read the features of interface %d: %w", ifindex, err)
		}
		if features, ok := attributes[netdevMetadataFeatures]; ok && len(features.Value) == 8 {
			return binary.NativeEndian.Uint64(features.Value)&metadataTimestamp != 0, nil
		}
	}
	return false, fmt.Errorf("the kernel reports no XDP features of interface %d", ifindex)
}
