package conntrack

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/ipmatch"
)

// Bounds of address translation.
const (
	MaxOutside  = 64   // outside addresses of all snat rules
	MaxNATRules = 256  // of each kind: a first packet tries them in order
	MaxBackends = 256  // of a dnat rule
	maxWeights  = 4096 // their sum
	minBlock    = 64
	maxBlock    = 8192
	maxBlocks   = 64

	defaultPortRange = "1024-65535"
	defaultBlockSize = 512
	defaultBlocks    = 4
)

// What an outside address does with packets to a mapped port from a station that the inside host has not sent to (RFC 4787, 5).
const (
	FilterConnection  = "address_and_port_dependent"
	FilterIndependent = "endpoint_independent"
)

// SNAT is a rule of source translation (NAPT, RFC 3022), [[stages.conntrack.snat]], for connections over IPv4 of TCP, UDP and ICMP queries.
// The first rule that matches the first packet of a connection decides. Inside addresses get blocks of ports (RFC 6888, RFC 7422); a mapping is
// endpoint-independent (RFC 4787).
type SNAT struct {
	// Ports are names of ports by which the inside's packets arrive; empty: all.
	Ports []string `toml:"ports"`
	// Src and Dst are IPv4 prefixes or addresses, as the packet arrives; empty: all.
	Src string `toml:"src"`
	Dst string `toml:"dst"`
	// Exempt leaves what matches untranslated; the rest of the rule is empty then.
	Exempt bool `toml:"exempt,omitempty"`
	// Addresses are the outside addresses, single ones or prefixes. They are in no other rule.
	Addresses []string `toml:"addresses"`
	// PortRange are the outside ports, and identifiers of ICMP queries; empty: "1024-65535".
	PortRange string `toml:"port_range,omitempty"`
	// BlockSize is how many ports an inside address gets at once, a power of two from 64 to 8192; 0: 512.
	BlockSize int `toml:"block_size,omitempty"`
	// Blocks is how many blocks an inside address may have, 1 to 64, all of one outside address; 0: 4.
	Blocks int `toml:"blocks,omitempty"`
	// Filtering of packets from outside to a mapped port: "address_and_port_dependent", the default, lets in what the inside host
	// has sent to; "endpoint_independent" lets in all that the security group of their port permits.
	Filtering string `toml:"filtering,omitempty"`
}

// DNAT is a rule of destination translation, [[stages.conntrack.dnat]]. The first rule that matches the first packet of a
// connection over IPv4 decides, and the connection stays with its backend.
type DNAT struct {
	// Ports are names of ports by which packets arrive; empty: all, so inside hosts reach inside servers by the outside address.
	Ports []string `toml:"ports"`
	// Src and Dst are IPv4 prefixes or addresses. Dst is needed.
	Src string `toml:"src"`
	Dst string `toml:"dst"`
	// Protocol is "tcp", "udp" or "icmp", whose queries are meant.
	Protocol string `toml:"protocol"`
	// DstPort is a port or a range; empty: all.
	DstPort string `toml:"dst_port"`
	// Backends are chosen by a hash of the connection, in proportion to their weights.
	Backends []Backend `toml:"backend"`
}

// Backend is a server of a dnat rule, [[stages.conntrack.dnat.backend]].
type Backend struct {
	// Address is an IPv4 address.
	Address string `toml:"address"`
	// Port is the server's, 1 to 65535; 0: the one that the packet is sent to.
	Port int `toml:"port,omitempty"`
	// Weight is its share of new connections, 1 to 256; 0: 1.
	Weight int `toml:"weight,omitempty"`
}

// natRule is what a rule of either kind matches.
type natRule struct {
	ports    []bool       // by port of arrival; nil: all
	src, dst netip.Prefix // invalid: any
	proto    uint8        // 0: all that can be translated
	dstPort  ipmatch.Ports
}

func (r *natRule) matches(t *tuple, port uint16) bool {
	return (r.ports == nil || int(port) < len(r.ports) && r.ports[port]) && (r.proto == 0 || r.proto == t.proto) &&
		(!r.src.IsValid() || r.src.Contains(t.src)) && (!r.dst.IsValid() || r.dst.Contains(t.dst)) && r.dstPort.Matches(t.dstPort, t.ports)
}

// snatRule is a SNAT in numbers.
type snatRule struct {
	natRule
	exempt      bool
	first, last int // of natSettings.outside: its addresses
	blocks      int // of an inside address
	perPort     int // blocks that the inside addresses of one port may have
	independent bool
}

// dnatRule is a DNAT in numbers.
type dnatRule struct {
	natRule
	backends []uint64 // address << 16 | port, each as often as its weight says; port 0: unchanged
}

// outsideSpec is an outside address, and the ports of it that are given out.
type outsideSpec struct {
	addr   uint32
	low    uint16
	size   uint32 // of a block
	blocks uint32
	rule   int
}

// natSettings are the rules of a configuration.
type natSettings struct {
	snat    []snatRule
	dnat    []dnatRule
	outside []outsideSpec
}

func (v *natSettings) enabled() bool { return len(v.snat)+len(v.dnat) != 0 }

// source returns the snat rule that matches a connection, or -1.
func (v *natSettings) source(t *tuple, port uint16) int {
	for i := range v.snat {
		if v.snat[i].matches(t, port) {
			if v.snat[i].exempt {
				return -1
			}
			return i
		}
	}
	return -1
}

// destination returns the dnat rule that translates a connection, or -1.
func (v *natSettings) destination(t *tuple, port uint16) int {
	return slices.IndexFunc(v.dnat, func(r dnatRule) bool { return r.matches(t, port) })
}

// has reports whether a backend is one of the rule's, for a connection to a port.
func (r *dnatRule) has(dst uint64, port uint16) bool {
	return slices.ContainsFunc(r.backends, func(b uint64) bool { return withPort(b, port) == dst })
}

// withPort gives a backend without a port the one that the packet was sent to.
func withPort(backend uint64, port uint16) uint64 {
	if uint16(backend) == 0 {
		return backend | uint64(port)
	}
	return backend
}

func (c *Config) compileNAT(ports []string, s *settings, errs *faults) {
	if len(c.SNAT)+len(c.DNAT) == 0 {
		return
	}
	if c.Invalid == Permit {
		errs.add("invalid = %q: packets that belong to no connection would leave untranslated: choose %q with snat or dnat rules", Permit, Deny)
	}
	if len(c.SNAT) > MaxNATRules {
		errs.add("snat: %d rules: %d at most", len(c.SNAT), MaxNATRules)
		return
	}
	if len(c.DNAT) > MaxNATRules {
		errs.add("dnat: %d rules: %d at most", len(c.DNAT), MaxNATRules)
		return
	}
	for i := range c.SNAT {
		s.nat.snat = append(s.nat.snat, c.SNAT[i].compile(fmt.Sprintf("snat[%d]", i), ports, &s.nat, errs))
	}
	if len(s.nat.outside) > MaxOutside {
		errs.add("snat: %d outside addresses: %d at most", len(s.nat.outside), MaxOutside)
	}
	for i := range c.DNAT {
		s.nat.dnat = append(s.nat.dnat, c.DNAT[i].compile(fmt.Sprintf("dnat[%d]", i), ports, errs))
	}
}

func compileMatch(key string, in []string, src, dst string, ports []string, errs *faults) (r natRule) {
	r.dstPort = ipmatch.AnyPort
	for _, name := range in {
		n := slices.Index(ports, name)
		if n < 0 || name == "" {
			errs.add("%s.ports: port %q is not defined: define [[port]] name = %q or correct the name", key, name, name)
			continue
		}
		if r.ports == nil {
			r.ports = make([]bool, len(ports))
		}
		r.ports[n] = true
	}
	for _, f := range []struct {
		name, text string
		to         *netip.Prefix
	}{{"src", src, &r.src}, {"dst", dst, &r.dst}} {
		var err error
		if *f.to, err = ipmatch.Prefix(f.text); err != nil {
			errs.add("%s.%s: %w", key, f.name, err)
		} else if f.to.IsValid() && !f.to.Addr().Is4() {
			errs.add("%s.%s: %s is of IPv6, which is not translated: name an IPv4 prefix", key, f.name, f.text)
		}
	}
	return r
}

func (c *SNAT) compile(key string, ports []string, v *natSettings, errs *faults) snatRule {
	r := snatRule{natRule: compileMatch(key, c.Ports, c.Src, c.Dst, ports, errs), exempt: c.Exempt, first: len(v.outside), last: len(v.outside)}
	if c.Exempt {
		if len(c.Addresses) != 0 || c.PortRange != "" || c.BlockSize != 0 || c.Blocks != 0 || c.Filtering != "" {
			errs.add("%s.exempt: what the rule matches is not translated: leave the keys of outside addresses out", key)
		}
		return r
	}
	if c.Filtering != "" && c.Filtering != FilterConnection && c.Filtering != FilterIndependent {
		errs.add("%s.filtering: %q: choose %q or %q", key, c.Filtering, FilterConnection, FilterIndependent)
	}
	r.independent = c.Filtering == FilterIndependent
	if r.blocks = c.Blocks; r.blocks == 0 {
		r.blocks = defaultBlocks
	}
	if r.blocks < 1 || r.blocks > maxBlocks {
		errs.add("%s.blocks: %d: choose 1 to %d", key, c.Blocks, maxBlocks)
	}
	spec, ok := c.spec(key, errs)
	if !ok {
		return r
	}
	spec.rule = len(v.snat)
	v.outside = c.outside(key, spec, v.outside, errs)
	r.last = len(v.outside)
	if r.last == r.first {
		errs.add("%s.addresses: name the outside addresses, or exempt = true", key)
	}
	// The blocks are divided among the ports by which inside addresses come, as connections are.
	among := 0
	for i, name := range ports {
		if name != "" && (r.ports == nil || r.ports[i]) {
			among++
		}
	}
	r.perPort = max((r.last-r.first)*int(spec.blocks)/max(among, 1), 1)
	return r
}

// spec reads what all outside addresses of a rule have in common.
func (c *SNAT) spec(key string, errs *faults) (spec outsideSpec, ok bool) {
	text := c.PortRange
	if text == "" {
		text = defaultPortRange
	}
	size := c.BlockSize
	if size == 0 {
		size = defaultBlockSize
	}
	given, err := ipmatch.PortRange(text)
	switch {
	case err != nil:
		errs.add("%s.port_range: %w", key, err)
		return spec, false
	case size < minBlock || size > maxBlock || size&(size-1) != 0:
		errs.add("%s.block_size: %d: choose a power of two from %d to %d", key, size, minBlock, maxBlock)
		return spec, false
	}
	low := max(int(given.Low)+1, 2) &^ 1 // even, so that ports keep their parity (RFC 4787, 4.2.2); port 0 is none
	blocks := (int(given.High) + 1 - low) / size
	if blocks < 1 {
		errs.add("%s.port_range: %s has no room for a block of %d ports: widen it, or lower block_size", key, text, size)
		return spec, false
	}
	return outsideSpec{low: uint16(low), size: uint32(size), blocks: uint32(blocks)}, true
}

// outside appends the outside addresses of the rule to those of the rules before.
func (c *SNAT) outside(key string, spec outsideSpec, all []outsideSpec, errs *faults) []outsideSpec {
	for _, text := range c.Addresses {
		p, err := ipmatch.Prefix(text)
		if err != nil || !p.IsValid() || !p.Addr().Is4() {
			errs.add("%s.addresses: %q is no IPv4 address or prefix: write 192.0.2.1 or 192.0.2.16/28", key, text)
			continue
		}
		if p.Bits() < 32-6 {
			errs.add("%s.addresses: %s has more than %d addresses: name a part of it", key, text, MaxOutside)
			continue
		}
		for a := p.Addr(); p.Contains(a); a = a.Next() {
			spec.addr = addrWord(a)
			if i := slices.IndexFunc(all, func(o outsideSpec) bool { return o.addr == spec.addr }); i >= 0 {
				errs.add("%s.addresses: %v is in snat[%d] already: leave it in one place", key, a, all[i].rule)
				continue
			}
			all = append(all, spec)
		}
	}
	return all
}

func (c *DNAT) compile(key string, ports []string, errs *faults) dnatRule {
	r := dnatRule{natRule: compileMatch(key, c.Ports, c.Src, c.Dst, ports, errs)}
	if c.Dst == "" {
		errs.add("%s.dst: name the address whose connections go to the backends", key)
	}
	switch c.Protocol {
	case "tcp":
		r.proto = header.ProtoTCP
	case "udp":
		r.proto = header.ProtoUDP
	case "icmp":
		r.proto = header.ProtoICMP
	default:
		errs.add("%s.protocol: %q: choose tcp, udp or icmp: others are not translated", key, c.Protocol)
	}
	var err error
	if r.dstPort, err = ipmatch.PortRange(c.DstPort); err != nil {
		errs.add("%s.dst_port: %w", key, err)
	} else if r.dstPort.Needed && c.Protocol == "icmp" {
		errs.add("%s.dst_port: icmp has no ports: leave it out", key)
	}
	if len(c.Backends) < 1 || len(c.Backends) > MaxBackends {
		errs.add("%s.backend: %d backends: name 1 to %d", key, len(c.Backends), MaxBackends)
		return r
	}
	for i := range c.Backends {
		b := &c.Backends[i]
		where := fmt.Sprintf("%s.backend[%d]", key, i)
		a, err := netip.ParseAddr(b.Address)
		if err != nil || !a.Is4() {
			errs.add("%s.address: %q is no IPv4 address", where, b.Address)
			continue
		}
		if b.Port < 0 || b.Port > 65535 || b.Port != 0 && c.Protocol == "icmp" {
			errs.add("%s.port: %d: choose 1 to 65535, or 0 to keep the packet's, as of icmp", where, b.Port)
		}
		weight := max(b.Weight, 1)
		if b.Weight < 0 || b.Weight > 256 {
			errs.add("%s.weight: %d: choose 1 to 256", where, b.Weight)
			continue
		}
		for range weight {
			r.backends = append(r.backends, uint64(addrWord(a))<<16|uint64(uint16(b.Port)))
		}
	}
	if len(r.backends) > maxWeights {
		errs.add("%s.backend: the weights sum up to %d: %d at most", key, len(r.backends), maxWeights)
	}
	return r
}

func addrWord(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}
