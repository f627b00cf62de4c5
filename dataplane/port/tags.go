package port

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
)

// kindVeth is the kind of links whose far end may send VLAN tags outside the packets.
const kindVeth = "veth"

// tagsOf is the interface whose driver is to give its program VLAN tags, 0 for none. Where it should and cannot be, the
// error says why. Of other devices than veth, ports turn the offload off that takes tags out of packets.
func (x *XSK) tagsOf(l *link) (ifindex int, err error) {
	if l.kind != kindVeth || x.config.Mode == xdp.Generic.String() {
		return 0, nil
	}
	if x.memory.config.Timestamps == TimestampsHardware {
		return 0, errors.New("the program asks the device for times (dataplane.timestamps)")
	}
	can, err := nic.XDPFeatures(l.index)
	if err != nil {
		return 0, err
	}
	if !can.RxVLAN {
		return 0, errors.New("the kernel does not give them to the program (Linux 6.8)")
	}
	return l.index, nil
}

// attach puts the port's program on the interface of l, which it takes over with its settings: for a veth a program
// that is loaded for it, which sees VLAN tags outside the packets, and where that was asked for, one that gets its times.
// Only the times take a second program: each one that comes or goes holds the kernel's lock of links for a grace period.
func (x *XSK) attach(l *link, settings *nic.Held) (*beneath, error) {
	tags, noTags := x.tagsOf(l)
	b, err := x.attachWith(l, settings, tags)
	if tags != 0 && err != nil {
		// Another one needs less of the kernel, and may run in generic mode, too.
		noTags = err
		b, err = x.attachWith(l, settings, 0)
	}
	if err != nil {
		l.close()
		return nil, errors.Join(err, settings.Release())
	}
	if noTags != nil {
		b.noTags = fmt.Sprintf("VLAN tags that the far end sends outside the packets are lost: %v; turn that off there (ethtool -K FAR txvlan off)", noTags)
	}
	if x.hardware {
		x.takeHardware(b)
	}
	return b, nil
}

// attachWith is attach with a program that sees tags of an interface, or with one that is for any. Where it fails, nothing has changed.
func (x *XSK) attachWith(l *link, settings *nic.Held, tags int) (_ *beneath, err error) {
	var device *xdp.Program
	program := x.program
	if program.TagsOf() != tags || tags != 0 && x.bound { // an interface may have the index of one that is gone
		if device, err = program.WithTags(tags); err != nil {
			return nil, err
		}
		program = device
	}
	b, err := attach(program, l, settings, &x.config)
	if err != nil {
		if device != nil {
			err = errors.Join(err, device.Close())
		}
		return nil, err
	}
	b.device, x.bound = device, true
	return b, nil
}
