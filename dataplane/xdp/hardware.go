package xdp

import (
	"errors"

	"github.com/cilium/ebpf"

	"github.com/weirswitch/weir/dataplane/nic"
)

// ErrNoDeviceTimes says that the interface's driver gives XDP programs no times.
var ErrNoDeviceTimes = errors.New("the driver gives XDP programs no receive times")

// Twin loads the program once more, with the same constants and maps. A driver that has forgotten the program gets it back only by
// another one: the kernel ignores a replacement by the same (bpf_xdp_link_update in net/core/dev.c).
func (p *Program) Twin() (*Program, error) {
	return load(&Program{options: p.options, tag: p.tag, device: p.device}, p.maps())
}

func (p *Program) maps() map[string]*ebpf.Map {
	return map[string]*ebpf.Map{"sockets": p.sockets, "counters": p.counters}
}

// WithTags loads the program once more, with the same constants and maps, and another Options.TagsOf.
func (p *Program) WithTags(ifindex int) (*Program, error) {
	other := &Program{options: p.options, tag: p.tag, device: ifindex}
	other.options.TagsOf = ifindex
	return load(other, p.maps())
}

// TagsOf is Options.TagsOf.
func (p *Program) TagsOf() int { return p.options.TagsOf }

// ForDevice loads the program once more, with the same constants and maps, for one interface in
// the network namespace of the calling thread: packets get the time at which the device received
// them (Documentation/networking/xdp-rx-metadata.rst, Linux 6.3), and where it gave none, or its clock is far from
// CLOCK_TAI, that of the program, counted. The program must be one of ClockTAI. It can take the
// replaces p on that interface, natively, and ends with the interface.
func (p *Program) ForDevice(ifindex int) (*Program, error) {
	if p.options.Timestamp != ClockTAI {
		return nil, errors.New("load XDP program for a device: the program must read CLOCK_TAI, which takes Linux 6.1")
	}
	// The kernel loads a program for a device without times as well, whose calls fail for each packet
	// (bpf_dev_bound_resolve_kfunc).
	if can, err := nic.XDPFeatures(ifindex); err == nil && can.MetadataKnown && !can.RxTimestamp {
		return nil, ErrNoDeviceTimes
	}
	device := &Program{options: p.options, tag: p.tag, device: ifindex}
	device.options.TagsOf = 0
	return load(device, p.maps())
}
