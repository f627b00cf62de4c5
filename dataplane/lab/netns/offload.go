package netns

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offload is one transmit or receive offload of an interface, as ethtool -K
// names it.
type Offload int

// The offloads that matter to a userspace switch on veth.
const (
	// TxChecksum leaves checksums to the far end. It must be off on every host
	// whose packets cross a userspace switch: the switch forwards the unfinished
	// checksum and the far kernel drops the packet. Off turns TSO off too.
	TxChecksum Offload = iota
	// RxChecksum trusts checksums found good by the device.
	RxChecksum
	// ScatterGather sends packets in several pieces.
	ScatterGather
	// TSO hands TCP segments larger than the MTU to the device.
	TSO
	// GSO cuts such segments right before the driver, in software.
	GSO
	// GRO joins received segments. On a veth it also runs NAPI at that end, which
	// a peer needs before XDP can redirect frames towards it.
	GRO
	// TxVLAN carries the VLAN tag outside the packet. Off puts it into the bytes,
	// where an XDP program at the peer can see it.
	TxVLAN
	// RxVLAN strips the VLAN tag from the bytes on reception.
	RxVLAN
)

// offloads maps an Offload to its name and its ethtool requests (linux/ethtool.h):
// a pair of get and set commands, or a bit of the flags word.
var offloads = [...]struct {
	name     string
	get, set uint32
	flag     uint32
}{
	TxChecksum:    {name: "tx-checksum", get: 0x16, set: 0x17},
	RxChecksum:    {name: "rx-checksum", get: 0x14, set: 0x15},
	ScatterGather: {name: "scatter-gather", get: 0x18, set: 0x19},
	TSO:           {name: "tso", get: 0x1e, set: 0x1f},
	GSO:           {name: "gso", get: 0x23, set: 0x24},
	GRO:           {name: "gro", get: 0x2b, set: 0x2c},
	TxVLAN:        {name: "tx-vlan", get: 0x25, set: 0x26, flag: 1 << 7},
	RxVLAN:        {name: "rx-vlan", get: 0x25, set: 0x26, flag: 1 << 8},
}

func (o Offload) String() string { return offloads[o].name }

// SetOffload switches an offload of an interface on or off, and checks that it
// now is. Asking for the present state is no error, also where the device
// cannot change it.
func (ns *Namespace) SetOffload(name string, o Offload, on bool) error {
	err := ns.Do(func() error {
		was, err := offloadState(name, o)
		if err != nil || was == on {
			return err
		}
		if err := setOffload(name, o, on); err != nil {
			return err
		}
		is, err := offloadState(name, o)
		if err == nil && is != on {
			err = errors.New("the driver keeps its setting")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("set %s=%t on interface %s in namespace %s: %w", o, on, name, ns.name, err)
	}
	return nil
}

// Offload reports whether an offload of an interface is on.
func (ns *Namespace) Offload(name string, o Offload) (on bool, err error) {
	err = ns.Do(func() error {
		on, err = offloadState(name, o)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("read %s of interface %s in namespace %s: %w", o, name, ns.name, err)
	}
	return on, nil
}

// SetHostOffloads prepares the host's end of a veth whose far end is a
// userspace switch: full checksums and tags in the bytes, one packet per frame
// on the wire, and GRO on, so that the switch may redirect into the pair.
func (ns *Namespace) SetHostOffloads(name string) error {
	for _, off := range []Offload{TSO, TxChecksum, TxVLAN} {
		if err := ns.SetOffload(name, off, false); err != nil {
			return err
		}
	}
	return ns.SetOffload(name, GRO, true)
}

// SetSwitchOffloads prepares the switch's end of a veth: what the switch sends
// arrives unchanged, and GRO is on so that a redirect into the far end's pair works
// before the switch has attached its XDP program.
func (ns *Namespace) SetSwitchOffloads(name string) error {
	return ns.SetHostOffloads(name)
}

func offloadState(name string, o Offload) (bool, error) {
	value, err := ethtool(name, offloads[o].get, 0)
	if flag := offloads[o].flag; flag != 0 {
		return value&flag != 0, err
	}
	return value != 0, err
}

func setOffload(name string, o Offload, on bool) error {
	var value uint32
	if flag := offloads[o].flag; flag != 0 {
		now, err := ethtool(name, offloads[o].get, 0)
		if err != nil {
			return err
		}
		if value = now &^ flag; on {
			value |= flag
		}
	} else if on {
		value = 1
	}
	_, err := ethtool(name, offloads[o].set, value)
	if !on && errors.Is(err, unix.EOPNOTSUPP) {
		// A device that cannot has it off: veth takes segmentation away from a
		// peer of an XDP program.
		return nil
	}
	return err
}

// ethtool makes one SIOCETHTOOL request with a struct ethtool_value, in the
// calling thread's namespace.
func ethtool(name string, command, value uint32) (uint32, error) {
	if len(name) >= unix.IFNAMSIZ {
		return 0, fmt.Errorf("interface name %q is longer than 15 bytes", name)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket for ethtool: %w", err)
	}
	defer unix.Close(fd)
	argument := struct{ command, value uint32 }{command, value}
	request := struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&argument)}
	copy(request.name[:], name)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return 0, fmt.Errorf("ethtool request %#x: %w", command, errno)
	}
	return argument.value, nil
}

// SeparateFrames has a packet socket see the frames that crossed the wire, with GRO still on: without GRO a veth
// delivers through the sending CPU's own queue, and a sender that changes its CPU overtakes itself.
func (ns *Namespace) SeparateFrames(name string) error {
	link, err := ns.Link(name)
	if err != nil {
		return err
	}
	return errors.Join(ns.Netlink().LinkSetGROMaxSize(link, 1), ns.Netlink().LinkSetGROIPv4MaxSize(link, 1))
}
