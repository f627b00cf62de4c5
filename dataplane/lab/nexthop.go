package lab

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"golang.org/x/sys/unix"
)

// routed reports whether packets from one host to another pass a router: none of their IPv4 networks is common.
func routed(from, to *Host) bool {
	for _, p := range from.prefixes() {
		if !p.Addr().Is4() {
			continue
		}
		if slices.ContainsFunc(to.prefixes(), func(q netip.Prefix) bool { return p.Contains(q.Addr()) }) {
			return false
		}
	}
	return len(from.Gateway) > 0
}

// OnLink reports whether a host sends to an address without a router: it is of a network of the host.
func (h *Host) OnLink(to netip.Addr) bool {
	return slices.ContainsFunc(h.prefixes(), func(p netip.Prefix) bool { return p.Contains(to) })
}

// nextHop is the MAC address that the source's frames go to: the sink's, or that of the source's router.
func (l *load) nextHop(source net.HardwareAddr) (net.HardwareAddr, error) {
	if !l.routed {
		return l.sink.MAC(hostInterface)
	}
	mac, err := askMAC(l.source, source, l.sourceIP, l.gateway)
	if err != nil {
		return nil, fmt.Errorf("flows: the router of %s: %w", l.From, err)
	}
	return mac, nil
}

// How often and how patiently a router is asked for its address.
const (
	askTimes = 5
	askWait  = time.Second
)

// askMAC finds the MAC address of an IPv4 neighbour by ARP (RFC 826) through a packet socket, so that the host's own stack
// need not talk to it.
func askMAC(ns *netns.Namespace, ourMAC net.HardwareAddr, our, target netip.Addr) (net.HardwareAddr, error) {
	socket, err := ns.PacketSocket(hostInterface)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	request := arpRequest(ourMAC, our, target)
	buf := make([]byte, 2048)
	for range askTimes {
		if err := socket.Send(request); err != nil {
			return nil, err
		}
		if err := socket.SetDeadline(time.Now().Add(askWait)); err != nil {
			return nil, err
		}
		for {
			n, err := socket.Receive(buf)
			if os.IsTimeout(err) {
				break
			}
			if err != nil {
				return nil, err
			}
			if mac, ok := arpAnswer(buf[:n], target); ok {
				return mac, nil
			}
		}
	}
	return nil, fmt.Errorf("%s does not answer to ARP", target)
}

const arpFrame = 14 + 28 // bytes

func arpRequest(ourMAC net.HardwareAddr, our, target netip.Addr) []byte {
	f := make([]byte, arpFrame)
	copy(f, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	copy(f[6:], ourMAC)
	binary.BigEndian.PutUint16(f[12:], unix.ETH_P_ARP)
	copy(f[14:], []byte{0, 1, 8, 0, 6, 4, 0, 1}) // Ethernet, IPv4, request
	copy(f[22:], ourMAC)
	copy(f[28:], our.AsSlice())
	copy(f[38:], target.AsSlice())
	return f
}

// arpAnswer reads the MAC address of the target from an ARP reply.
func arpAnswer(f []byte, target netip.Addr) (net.HardwareAddr, bool) {
	if len(f) < arpFrame || binary.BigEndian.Uint16(f[12:]) != unix.ETH_P_ARP ||
		string(f[14:22]) != "\x00\x01\x08\x00\x06\x04\x00\x02" || netip.AddrFrom4([4]byte(f[28:32])) != target {
		return nil, false
	}
	return slices.Clone(net.HardwareAddr(f[22:28])), true
}
