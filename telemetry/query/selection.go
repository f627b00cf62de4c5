package query

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/weirswitch/weir/telemetry/oblivious"
)

// Selection is a set of flows: those of which all that is given holds. The zero
// Selection is all flows.
type Selection struct {
	// Prefix holds the source or the destination, Src and Dst one of them; the zero
	// prefix: any.
	Prefix, Src, Dst netip.Prefix
	Proto            *uint8
	Port             *uint16 // of the source or the destination
}

// All reports whether the selection restricts nothing.
func (s *Selection) All() bool { return *s == Selection{} }

// Has reports whether a flow is selected.
func (s *Selection) Has(k *Key) bool {
	in := func(p netip.Prefix, of oblivious.In) bool { return !p.IsValid() || of(k) }
	return in(s.Src, oblivious.SrcIn(s.Src)) && in(s.Dst, oblivious.DstIn(s.Dst)) &&
		(!s.Prefix.IsValid() || oblivious.SrcIn(s.Prefix)(k) || oblivious.DstIn(s.Prefix)(k)) &&
		(s.Proto == nil || k.Version != 0 && oblivious.HasProto(*s.Proto)(k)) &&
		(s.Port == nil || k.Version != 0 && oblivious.HasPort(*s.Port)(k))
}

// String names the flows, as in "to 10.0.0.0/8, udp, port 53".
func (s *Selection) String() string {
	var parts []string
	for _, p := range []struct {
		name   string
		prefix netip.Prefix
	}{{"from or to ", s.Prefix}, {"from ", s.Src}, {"to ", s.Dst}} {
		if p.prefix.IsValid() {
			parts = append(parts, p.name+p.prefix.String())
		}
	}
	if s.Proto != nil {
		parts = append(parts, formatProto(*s.Proto))
	}
	if s.Port != nil {
		parts = append(parts, "port "+strconv.Itoa(int(*s.Port)))
	}
	if len(parts) == 0 {
		return "all flows"
	}
	return strings.Join(parts, ", ")
}

// ParsePrefix reads a prefix; an address means itself alone.
func ParsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is no prefix: write it as 10.0.0.0/8 or fd00::/8", text)
	}
	return p.Masked(), nil
}

// ParseProto reads a protocol, by name or number.
func ParseProto(text string) (uint8, error) {
	if n, ok := protocols[strings.ToLower(text)]; ok {
		return n, nil
	}
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return 0, fmt.Errorf("%q is neither a known protocol (icmp, icmpv6, sctp, tcp, udp) nor a number up to 255", text)
	}
	return uint8(n), nil
}

// formatProto writes a protocol as ParseProto reads it.
func formatProto(proto uint8) string {
	for name, n := range protocols {
		if n == proto {
			return name
		}
	}
	return strconv.Itoa(int(proto))
}

// answerable refuses what the entries' keys do not know, as the switches may be
// configured to keep less than the 5-tuple. Without an IP packet that is unknown.
func (s *Selection) answerable(entries []oblivious.Entry) error {
	var ip, src, dst, proto bool
	for i := range entries {
		k := &entries[i].Key
		ip = ip || k.Version != 0
		src = src || k.Src != [16]byte{}
		dst = dst || k.Dst != [16]byte{}
		proto = proto || k.Proto != 0
	}
	for _, c := range []struct {
		asked, known bool
		what         string
	}{
		{s.Src.IsValid() || s.Prefix.IsValid(), src, "source addresses"},
		{s.Dst.IsValid() || s.Prefix.IsValid(), dst, "destination addresses"},
		{s.Proto != nil || s.Port != nil, proto, "protocols and ports"},
	} {
		if c.asked && ip && !c.known {
			return fmt.Errorf("%s: the flow keys of the samples have no %s: set key = \"5-tuple\" in [stages.oblivious]", s, c.what)
		}
	}
	return nil
}
