// Package ipmatch reads what rules of stages match packets by, as configurations write it: prefixes, ranges of ports, protocols;
// and it finds packets that rules on IP do not see.
package ipmatch

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Protocols are the transport protocols with a name in rules.
var Protocols = map[string]uint64{"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58, "sctp": 132}

// Number reads a number up to limit, 0x for hexadecimal, or one of the names. An empty string matches any.
func Number(s string, limit uint64, names map[string]uint64) (n uint16, any bool, err error) {
	if s == "" {
		return 0, true, nil
	}
	if v, ok := names[s]; ok {
		return uint16(v), false, nil
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil || v > limit {
		return 0, false, fmt.Errorf("%q: write a number up to %d, or one of %s", s, limit, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
	}
	return uint16(v), false, nil
}

// Prefix reads an IP prefix or an address. An empty string is the zero Prefix, which is not valid and stands for any.
func Prefix(s string) (netip.Prefix, error) {
	if s == "" {
		return netip.Prefix{}, nil
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		return p, fmt.Errorf("%q is no IP prefix: write 10.0.0.0/8 or 2001:db8::/32", s)
	}
	if p != p.Masked() {
		return p, fmt.Errorf("%q has bits behind the prefix: write %s", s, p.Masked())
	}
	return p, nil
}

// Ports is a range of ports.
type Ports struct {
	Low, High uint16
	Needed    bool // the packet must have ports
}

// AnyPort matches all packets, also those without ports.
var AnyPort = Ports{0, 65535, false}

// PortRange reads a port or a range, "1024-65535". An empty string is AnyPort.
func PortRange(s string) (Ports, error) {
	if s == "" {
		return AnyPort, nil
	}
	low, high, ok := strings.Cut(s, "-")
	if !ok {
		high = low
	}
	a, err1 := strconv.ParseUint(low, 10, 16)
	b, err2 := strconv.ParseUint(high, 10, 16)
	if err1 != nil || err2 != nil || a > b {
		return AnyPort, fmt.Errorf("%q: write a port such as 80 or a range such as 1024-65535", s)
	}
	return Ports{uint16(a), uint16(b), true}, nil
}

// Matches reports whether a packet with the port, or without one, is in the range.
func (r Ports) Matches(port uint16, has bool) bool {
	return !r.Needed || has && r.Low <= port && port <= r.High
}

// HidesIP reports whether a packet without an IP header that the parser could read may be IP to its receiver: more tags or
// shims than the parser looks behind, a malformed IP header, or IP in 802.2 SNAP.
func HidesIP(p *packet.Packet, data []byte) bool {
	return header.IsVLAN(p.EtherType) || p.EtherType == header.TypeIPv4 || p.EtherType == header.TypeIPv6 ||
		HiddenShim(p, data) || SNAP(p, data)
}

// HiddenShim reports whether a telemetry shim is left behind those that the parser looks behind. The
// same type with another version is another protocol's packet.
func HiddenShim(p *packet.Packet, data []byte) bool {
	if p.EtherType != header.TypeShim {
		return false
	}
	at := int(p.L3)
	return at >= len(data) || data[at]>>4 == header.ShimVersion
}

// SNAP reports whether an 802.3 packet carries an EtherType in 802.2 SNAP (RFC 1042, 802.1H), behind which
// some hosts, though not Linux, look for IP.
func SNAP(p *packet.Packet, data []byte) bool {
	const least, head = 0x600, 6
	if p.EtherType >= least || int(p.L3)+head > len(data) {
		return false
	}
	h := (*[head]byte)(data[p.L3:])
	return binary.BigEndian.Uint32(h[:4]) == 0xaaaa0300 && h[4] == 0 && (h[5] == 0 || h[5] == 0xf8)
}
