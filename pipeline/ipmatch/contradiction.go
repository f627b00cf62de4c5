package ipmatch

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
)

// withPorts are the protocols of which the parser reads ports.
var withPorts = []uint16{header.ProtoTCP, header.ProtoUDP, header.ProtoUDPLite, header.ProtoSCTP, header.ProtoDCCP}

// Contradiction says why no packet that a host sends has all that a rule wants, or nothing if one may. Prefixes that are invalid want any address.
func Contradiction(src, dst netip.Prefix, proto uint16, anyProto, ports bool) string {
	if anyProto {
		return ""
	}
	if ports && !slices.Contains(withPorts, proto) {
		return fmt.Sprintf("packets of protocol %d have no ports: leave src_port and dst_port out, or name tcp, udp or sctp", proto)
	}
	for _, p := range []netip.Prefix{src, dst} {
		switch {
		case p.IsValid() && proto == header.ProtoICMP && !p.Addr().Is4():
			return fmt.Sprintf("protocol icmp is of IPv4, and %s of IPv6: write icmpv6", p)
		case p.IsValid() && proto == header.ProtoICMPv6 && p.Addr().Is4():
			return fmt.Sprintf("protocol icmpv6 is of IPv6, and %s of IPv4: write icmp", p)
		}
	}
	return ""
}

// Covers reports whether r matches all that o matches.
func (r Ports) Covers(o Ports) bool {
	return r.Low <= o.Low && r.High >= o.High && (!r.Needed || o.Needed)
}

// CoversPrefix reports whether p has all addresses of o; invalid prefixes have any.
func CoversPrefix(p, o netip.Prefix) bool {
	return !p.IsValid() || o.IsValid() && p.Bits() <= o.Bits() && p.Contains(o.Addr())
}
