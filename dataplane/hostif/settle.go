package hostif

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Want is what a host interface is to be like.
type Want struct {
	Interface string
	MAC       [6]byte
	MTU       int            // bytes; 0 leaves it as it is
	Addresses []netip.Prefix // beside those that others give it
	Carrier   bool           // of the port
}

// given is what an interface got from the watch.
type given struct {
	index     int // another one is another interface
	addresses []netip.Prefix
}

// settle gives the interfaces what they lack, unless the watch is held. One that does not exist is left out.
func (w *Watch) settle(wants []Want) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.held {
		return nil
	}
	var errs []error
	for i := range wants {
		if err := w.settleOne(&wants[i]); err != nil {
			errs = append(errs, fmt.Errorf("set up the host interface %s: %w", wants[i].Interface, err))
		}
	}
	return errors.Join(errs...)
}

func (w *Watch) settleOne(want *Want) error {
	l, err := netlink.LinkByName(want.Interface)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return nil
	}
	if err != nil {
		return err
	}
	a := l.Attrs()
	before := w.given[want.Interface]
	if before.index != a.Index {
		before = given{index: a.Index}
	}
	var errs []error
	if mac := net.HardwareAddr(want.MAC[:]); a.HardwareAddr.String() != mac.String() {
		// The kernel makes the link-local address when the interface comes up, and it shall be the router's own.
		errs = append(errs, netlink.LinkSetDown(l), netlink.LinkSetHardwareAddr(l, mac), eui64(l), netlink.LinkSetUp(l))
	}
	if want.MTU != 0 && a.MTU != want.MTU {
		errs = append(errs, netlink.LinkSetMTU(l, want.MTU))
	}
	if up := a.RawFlags&unix.IFF_LOWER_UP != 0; up != want.Carrier {
		errs = append(errs, setCarrier(a.Index, want.Carrier))
	}
	has, err := addressesOf(l)
	errs = append(errs, err)
	for _, p := range want.Addresses {
		if !slices.Contains(has, p) {
			errs = append(errs, netlink.AddrReplace(l, address(p)))
		}
	}
	for _, p := range before.addresses {
		if !slices.Contains(want.Addresses, p) && slices.Contains(has, p) {
			errs = append(errs, netlink.AddrDel(l, address(p)))
		}
	}
	w.given[want.Interface] = given{a.Index, want.Addresses}
	return errors.Join(errs...)
}

// eui64 has the link-local address made of the MAC address, on kernels with IPv6.
func eui64(l netlink.Link) error {
	if err := netlink.LinkSetIP6AddrGenMode(l, genModeEUI64); err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EAFNOSUPPORT) {
		return err
	}
	return nil
}

// genModeEUI64 is IN6_ADDR_GEN_MODE_EUI64 of include/uapi/linux/if_link.h.
const genModeEUI64 = 0

func address(p netip.Prefix) *netlink.Addr {
	bits := p.Addr().BitLen()
	a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), bits)}}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD // the router answers for it already
	}
	return a
}

func addressesOf(l netlink.Link) (all []netip.Prefix, err error) {
	found, err := netlink.AddrList(l, netlink.FAMILY_ALL)
	for i := range found {
		if p, ok := prefixOf(found[i].IPNet); ok {
			all = append(all, p)
		}
	}
	return all, err
}

// setCarrier has an interface lose or find its carrier (IFLA_CARRIER).
func setCarrier(index int, on bool) error {
	value := byte(0)
	if on {
		value = 1
	}
	request := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	request.AddData(message)
	request.AddData(nl.NewRtAttr(unix.IFLA_CARRIER, []byte{value}))
	if _, err := request.Execute(unix.NETLINK_ROUTE, 0); err != nil {
		return fmt.Errorf("set its carrier: %w", err)
	}
	return nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	if n.IP.To4() != nil {
		a = a.Unmap()
	}
	bits, size := n.Mask.Size()
	return netip.PrefixFrom(a, bits), ok && size == a.BitLen()
}
