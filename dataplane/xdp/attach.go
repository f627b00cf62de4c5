package xdp

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
)

// Mode is where the program runs.
type Mode uint8

const (
	// Auto takes Native where the driver has it, else Generic.
	Auto Mode = iota
	// Native runs in the driver, before the kernel makes an skb of the packet.
	Native
	// Generic runs behind the driver, for every interface; slower.
	Generic
)

var modeNames = [...]string{"auto", "native", "generic"}

// String names the mode as the configuration does.
func (m Mode) String() string { return modeNames[m] }

// ParseMode is the inverse of Mode.String.
func ParseMode(name string) (Mode, error) {
	for i, n := range modeNames {
		if n == name {
			return Mode(i), nil
		}
	}
	return Auto, fmt.Errorf("XDP mode %q: want auto, native or generic", name)
}

// Attachment is a program on an interface. It is held by a bpf_link, whose only reference is
// our descriptor: the kernel removes the program when the process ends, however it ends.
type Attachment struct {
	link     link.Link
	mode     Mode
	ifindex  int
	noNative error
	// next is the program that Commit attaches, of an attachment that another process has still (Adopt).
	next    *Program
	adopted bool
}

// Attach puts the program on the interface, which must be in the network namespace of the
// calling thread. It never replaces another program. One for a device is never Generic, with Auto neither.
func (p *Program) Attach(ifindex int, mode Mode) (*Attachment, error) {
	if p.device != 0 && (p.device != ifindex || mode == Generic) {
		return nil, fmt.Errorf("attach XDP program to interface %d: one for a device runs natively, on that device alone", ifindex)
	}
	first := mode
	if mode == Auto {
		first = Native
	}
	l, err := p.attachAs(ifindex, first)
	if err == nil {
		return &Attachment{link: l, mode: first, ifindex: ifindex}, nil
	}
	refused := p.attachError(ifindex, err)
	if mode != Auto || !mayBeGeneric(err) || p.device != 0 {
		return nil, refused
	}
	if l, err = p.attachAs(ifindex, Generic); err != nil {
		return nil, refused
	}
	return &Attachment{link: l, mode: Generic, ifindex: ifindex, noNative: refused}, nil
}

func (p *Program) attachAs(ifindex int, mode Mode) (link.Link, error) {
	return link.AttachXDP(link.XDPOptions{Program: p.program, Interface: ifindex, Flags: attachFlags(mode)})
}

// mayBeGeneric reports whether the kernel may run a program that the driver has refused:
// not if the refusal was the kernel's own, and not if packets are longer than the program takes.
func mayBeGeneric(err error) bool {
	for _, kernel := range []error{unix.EBUSY, unix.EEXIST, unix.EPERM, unix.ENODEV, unix.ERANGE} {
		if errors.Is(err, kernel) {
			return false
		}
	}
	return true
}

func attachFlags(m Mode) link.XDPAttachFlags {
	if m == Native {
		return link.XDPDriverMode
	}
	return link.XDPGenericMode
}

// Mode is the mode granted: Native or Generic.
func (a *Attachment) Mode() Mode { return a.mode }

// NoNative is why a program attached with Auto is Generic, else nil.
func (a *Attachment) NoNative() error { return a.noNative }

// Replace attaches another program, of the same Options.Frags, instead of the present one. No
// packet passes by without either.
func (a *Attachment) Replace(p *Program) error {
	if p.device != 0 && (p.device != a.ifindex || a.mode != Native) {
		// The kernel does not look (bpf_xdp_link_update), and the driver's function would
		// read memory that is not there.
		return errors.New("replace the XDP program: one for a device runs natively, on that device alone")
	}
	if a.adopted {
		a.next = p
		return nil
	}
	return a.update(p)
}

func (a *Attachment) update(p *Program) error {
	if err := a.link.Update(p.program); err != nil {
		return fmt.Errorf("replace the XDP program: %w", err)
	}
	return nil
}

// Close takes the program off the interface.
func (a *Attachment) Close() error { return a.link.Close() }

// attachError explains the errno of bpf_xdp_link_attach and dev_xdp_install (net/core/dev.c).
func (p *Program) attachError(ifindex int, err error) error {
	l, lookup := netlink.LinkByIndex(ifindex)
	if lookup != nil {
		return fmt.Errorf("attach XDP program to interface %d: no such interface in this network namespace: %w", ifindex, err)
	}
	name, mtu := l.Attrs().Name, l.Attrs().MTU
	switch {
	case errors.Is(err, unix.EBUSY) && l.Attrs().Xdp != nil && !l.Attrs().Xdp.Attached:
		// dev_xdp_install and netif_xdp_propagate since Linux 6.14, in all modes.
		return fmt.Errorf("attach XDP program to %s: the device is in use otherwise, perhaps it splits headers from data: turn that off with `ethtool -G %s tcp-data-split off`: %w", name, name, err)
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		var program uint32
		if x := l.Attrs().Xdp; x != nil {
			program = x.ProgId
		}
		return nic.AttachedError(name, program, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("attach XDP program to %s: no privilege: run as root or grant CAP_BPF and CAP_NET_ADMIN: %w", name, err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("attach XDP program to %s: the driver has no native XDP: use mode generic or auto: %w", name, err)
	case errors.Is(err, unix.ERANGE) && !p.options.Frags, errors.Is(err, unix.EINVAL) && !p.options.Frags && mtu > 1500:
		return fmt.Errorf("attach XDP program to %s: the MTU (%d, or that of a veth's peer) is too large for packets of one buffer: "+
			"lower it or turn multi-buffer on: %w", name, mtu, err)
	case errors.Is(err, unix.ERANGE), errors.Is(err, unix.EINVAL):
		return fmt.Errorf("attach XDP program to %s: the driver refuses it, perhaps for its MTU of %d or its offloads (LRO): %w", name, mtu, err)
	default:
		return fmt.Errorf("attach XDP program to %s: %w", name, err)
	}
}

// Alive reports whether the interface still exists, in any network namespace: the kernel takes the program
// off one that is removed (dev_xdp_uninstall in net/core/dev.c).
func (a *Attachment) Alive() bool {
	info, err := a.link.Info()
	if err != nil {
		return true // it could not be asked, which says nothing
	}
	x := info.XDP()
	return x == nil || x.Ifindex != 0
}
