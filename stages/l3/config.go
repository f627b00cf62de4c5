package l3

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline/packet"

	"github.com/weirswitch/weir/pipeline"
)

// Config is the stage's section of the configuration, [stages.l3].
type Config struct {
	// Reachable is how long a neighbour is believed to be there without having
	// answered, 1 s to 24 h. Then, if it is in use, it is asked again; if it
	// is not for ten times as long, it is forgotten.
	Reachable time.Duration `toml:"reachable"`
	// NeighbourTable is the most neighbours that are known or looked for at a
	// time, static ones and gateways included, from 1 to 65,536.
	NeighbourTable int `toml:"neighbour_table"`
	// Hold is how many packets wait for each neighbour that is looked for, from
	// 0 to 64. Those beyond are dropped, reason neighbour_pending.
	Hold int `toml:"hold"`
	// ICMPRate is how many ICMP errors each worker sends in a second at most about packets of one port, from 0
	// (none) to a million.
	ICMPRate int `toml:"icmp_rate"`
	// HostRate is how many packets each worker passes to a port's host interface in a second at most, from 1 to
	// a million: of routing protocols and neighbours, and as many of others.
	HostRate int `toml:"host_rate"`
	// ECMP is what chooses among a route's gateways: ECMPFlow, so that packets of a flow keep their order, or ECMPPacket, which spreads each flow
	// over all of them.
	ECMP string `toml:"ecmp"`
	// VRFs are the names of tables beside that of all ports without one. Ports of different VRFs do not reach each other, and may have
	// the same addresses.
	VRFs []VRF `toml:"vrf"`
	// Interfaces are the ports that take part in routing.
	Interfaces []Interface `toml:"interface"`
	// Routes lead to networks that are not on a port.
	Routes []Route `toml:"route"`
	// Neighbours are known from the start, do not age and are not asked for.
	Neighbours []Neighbour `toml:"neighbour"`
}

// What Config.ECMP can be.
const (
	ECMPFlow   = "flow"
	ECMPPacket = "packet"
)

// VRF is a table of routes of its own.
type VRF struct {
	Name string `toml:"name"` // as interfaces and routes call it
}

// Interface is the IP side of a port.
type Interface struct {
	Port      string   `toml:"port"`          // the port's name
	Addresses []string `toml:"addresses"`     // the switch's own, with prefix lengths
	MAC       string   `toml:"mac,omitempty"` // default: see DefaultMAC
	MTU       int      `toml:"mtu,omitempty"` // bytes, without Ethernet header; 0: the port's, at most 1500
	VRF       string   `toml:"vrf,omitempty"` // whose table its packets have; default: that of all ports without one
	// Host is the name of another port, with driver = "tap", by which the host has what is for the router itself.
	Host string `toml:"host,omitempty"`
	// HostEcho leaves echo requests to the host; otherwise the router answers them.
	HostEcho bool `toml:"host_echo,omitempty"`
}

// Route leads to a network: by gateways, among which flows are spread, or
// to a port on which the network is.
type Route struct {
	Prefix  string   `toml:"prefix"`            // the network, as in "10.0.3.0/24"
	Via     []string `toml:"via,omitempty"`     // gateways; "fe80::1%p0" names the port of a link-local one
	Weights []int    `toml:"weights,omitempty"` // one per gateway, 1 to 64; default: all 1
	Port    string   `toml:"port,omitempty"`    // instead of via
	VRF     string   `toml:"vrf,omitempty"`     // in whose table it is
}

// Neighbour is a station on a port's link.
type Neighbour struct {
	Address string `toml:"address"` // its IP address
	MAC     string `toml:"mac"`     // its MAC address
	Port    string `toml:"port"`    // the name of the port that it is behind
}

// Bounds of the configuration.
const (
	MaxNeighbours = 1 << 16
	MaxHold       = 64
	MaxWeight     = 64
	MaxVRFs       = 4095
	maxHops       = 256 // the weights of a route's gateways together
	maxReachable  = 24 * time.Hour
	maxICMPRate   = 1_000_000
	maxHostRate   = 1_000_000
	minMTU4       = 68   // RFC 791
	minMTU6       = 1280 // RFC 8200
	maxMTU        = 65535
)

// DefaultConfig returns the configuration of a router without interfaces, which
// drops everything.
func DefaultConfig() Config {
	return Config{Reachable: 30 * time.Second, NeighbourTable: 1024, Hold: 16, ICMPRate: 1000, HostRate: 10_000, ECMP: ECMPFlow}
}

// Warnings say what is allowed, and hardly meant.
func (c *Config) Warnings() []string {
	if len(c.Interfaces) == 0 {
		return []string{"interface: no port has an address, so every packet is dropped: add [[stages.l3.interface]] with port and addresses"}
	}
	return nil
}

// Validate reports all faults of the configuration for a switch with the named
// ports, joined. Each begins with the key inside the stage's section.
func (c *Config) Validate(ports []string) error {
	_, err := c.plan(ports)
	return err
}

// plan is a configuration that was found good, in numbers.
type plan struct {
	vrfs       []string        // names by number; the first, empty, is that of ports without one
	interfaces []planInterface // by port number
	routes     []planRoute
	neighbours []planNeighbour
}

type planInterface struct {
	vrf      uint16
	prefixes []netip.Prefix // with the switch's own address in each; none: not routed
	mac      [6]byte        // zero: the default
	mtu      int            // 0: the port's
	host     uint16         // the host interface, or packet.NoPort
	pair     uint16         // of a host interface, the router's port; else packet.NoPort
	echo     bool           // of Interface.HostEcho
	// configured are those of prefixes that are in the configuration.
	configured []netip.Prefix
	local6     netip.Addr // the host's link-local address, if it has another one
}

type planRoute struct {
	vrf    uint16
	prefix netip.Prefix
	via    []gateway // empty: port
	port   uint16
}

type gateway struct {
	neighbourKey
	weight int
}

type planNeighbour struct {
	neighbourKey
	mac [6]byte
}

// faults collects what is wrong with a configuration.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

func (f *faults) between(key string, n, least, most int) {
	if n < least || n > most {
		f.add("%s: %d is out of range: choose %d to %d", key, n, least, most)
	}
}

func (f *faults) port(key, name string, ports []string) (uint16, bool) {
	i := slices.Index(ports, name)
	switch {
	case name == "":
		f.add("%s: is missing: name a port", key)
	case i < 0:
		f.add("%s: %w", key, pipeline.UndefinedPort(name))
	}
	return uint16(max(i, 0)), i >= 0
}

func (f *faults) mac(key, text string) ([6]byte, bool) {
	hw, err := net.ParseMAC(text)
	if err != nil || len(hw) != 6 {
		f.add("%s: %q is not a MAC address: write six bytes, as in \"02:00:00:00:00:01\"", key, text)
		return [6]byte{}, false
	}
	m := [6]byte(hw)
	if m[0]&1 != 0 || m == ([6]byte{}) {
		f.add("%s: %s is not the address of a station: groups and zero are none: write one whose first byte is even, as in \"02:00:00:00:00:01\"", key, text)
		return m, false
	}
	return m, true
}

func (c *Config) plan(ports []string) (*plan, error) {
	var f faults
	if c.Reachable < time.Second || c.Reachable > maxReachable {
		f.add("reachable: %v is out of range: choose 1s to 24h", c.Reachable)
	}
	f.between("neighbour_table", c.NeighbourTable, 1, MaxNeighbours)
	f.between("hold", c.Hold, 0, MaxHold)
	f.between("icmp_rate", c.ICMPRate, 0, maxICMPRate)
	f.between("host_rate", c.HostRate, 1, maxHostRate)
	if c.ECMP != ECMPFlow && c.ECMP != ECMPPacket {
		f.add("ecmp: %q: choose %q or %q", c.ECMP, ECMPFlow, ECMPPacket)
	}
	p := &plan{vrfs: c.planVRFs(&f)}
	p.interfaces = c.planInterfaces(p, ports, &f)
	p.planRoutes(c.Routes, ports, &f)
	p.planNeighbours(c.Neighbours, ports, &f)
	known := map[neighbourKey]bool{}
	for _, r := range p.routes {
		for _, g := range r.via {
			known[g.neighbourKey] = true
		}
	}
	for _, n := range p.neighbours {
		known[n.neighbourKey] = true
	}
	if len(known) > c.NeighbourTable {
		f.add("neighbour_table: %d gateways and static neighbours exceed %d: raise it", len(known), c.NeighbourTable)
	}
	return p, errors.Join(f...)
}

// planVRFs returns the names of the VRFs by number.
func (c *Config) planVRFs(f *faults) []string {
	if len(c.VRFs) > MaxVRFs {
		f.add("vrf: %d VRFs: a switch has %d at most", len(c.VRFs), MaxVRFs)
	}
	names := []string{""}
	for i, v := range c.VRFs {
		key := fmt.Sprintf("vrf[%d].name", i)
		switch {
		case v.Name == "":
			f.add("%s: is missing: name the VRF", key)
		case slices.Contains(names, v.Name):
			f.add("%s: %q is another VRF already: choose another name", key, v.Name)
		}
		names = append(names, v.Name)
	}
	return names
}

// vrf finds the number of a VRF by its name.
func (p *plan) vrf(key, name string, f *faults) (uint16, bool) {
	i := slices.Index(p.vrfs, name)
	if i < 0 {
		f.add("%s: there is no VRF %q: add [[stages.l3.vrf]] name = %q, or correct the name", key, name, name)
	}
	return uint16(max(i, 0)), i >= 0
}

// These are unique in a VRF.
type (
	vrfAddr struct {
		vrf  uint16
		addr netip.Addr
	}
	vrfNet struct {
		vrf    uint16
		prefix netip.Prefix
	}
)

func (c *Config) planInterfaces(p *plan, ports []string, f *faults) []planInterface {
	all := make([]planInterface, len(ports))
	for i := range all {
		all[i].host, all[i].pair = packet.NoPort, packet.NoPort
	}
	defer c.planHosts(all, ports, f)
	first := map[string]int{}
	owner := map[vrfAddr]string{}
	nets := map[vrfNet]string{}
	for i, ic := range c.Interfaces {
		key := fmt.Sprintf("interface[%d]", i)
		number, ok := f.port(key+".port", ic.Port, ports)
		if before, twice := first[ic.Port]; twice {
			f.add("%s.port: port %q is already set by interface[%d]: join the two", key, ic.Port, before)
			ok = false
		}
		first[ic.Port] = i
		v := planInterface{mtu: ic.MTU, host: packet.NoPort, pair: packet.NoPort, echo: ic.HostEcho}
		v.vrf, _ = p.vrf(key+".vrf", ic.VRF, f)
		if v.vrf != 0 && ic.Host != "" {
			f.add("%s.host: the kernel's main table has no VRFs: remove host, or vrf", key)
		}
		if ic.MAC != "" {
			v.mac, _ = f.mac(key+".mac", ic.MAC)
		}
		if len(ic.Addresses) == 0 && ic.Host == "" {
			f.add("%s.addresses: is missing: give the port one address or more, as in [\"10.0.0.1/24\"]", key)
		}
		for j, text := range ic.Addresses {
			v.address(fmt.Sprintf("%s.addresses[%d]", key, j), text, ic.Port, owner, nets, f)
		}
		if ic.MTU != 0 {
			least := minMTU4
			if slices.ContainsFunc(v.prefixes, func(p netip.Prefix) bool { return p.Addr().Is6() }) {
				least = minMTU6
			}
			f.between(key+".mtu", ic.MTU, least, maxMTU)
		}
		if ok {
			all[number] = v
		}
	}
	return all
}

// planHosts joins ports to their host interfaces.
func (c *Config) planHosts(all []planInterface, ports []string, f *faults) {
	for i, ic := range c.Interfaces {
		key := fmt.Sprintf("interface[%d].host", i)
		if ic.Host == "" {
			if ic.HostEcho {
				f.add("%s_echo: there is no host interface: name one with host, or remove it", key)
			}
			continue
		}
		host, ok := f.port(key, ic.Host, ports)
		number := slices.Index(ports, ic.Port)
		switch {
		case !ok || number < 0:
		case slices.ContainsFunc(c.Interfaces, func(o Interface) bool { return o.Port == ic.Host }):
			f.add("%s: port %q takes part in routing itself: name a port of driver = \"tap\" that has no [[stages.l3.interface]]", key, ic.Host)
		case all[host].pair != packet.NoPort:
			f.add("%s: port %q is the host interface of port %q already: name another one", key, ic.Host, ports[all[host].pair])
		default:
			all[number].host, all[host].pair = host, uint16(number)
		}
	}
}

// address adds one own address of an interface.
func (v *planInterface) address(key, text, port string, owner map[vrfAddr]string, nets map[vrfNet]string, f *faults) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		f.add("%s: %q: write an address with its prefix length, as in \"10.0.0.1/24\" or \"fd00::1/64\"", key, text)
		return
	}
	a := p.Addr()
	switch {
	case unroutable(a) != 0 || a.Is4In6():
		f.add("%s: %s is not an address that a router can have: choose a unicast address", key, a)
		return
	case a.Is4() && p.Bits() < 31 && (a == p.Masked().Addr() || a == broadcast(p)):
		f.add("%s: %s is the network's or its broadcast address: choose one between", key, a)
		return
	}
	if other, ok := owner[vrfAddr{v.vrf, a}]; ok {
		f.add("%s: %s belongs to port %s already: choose another address", key, a, other)
	}
	owner[vrfAddr{v.vrf, a}] = port
	if other, ok := nets[vrfNet{v.vrf, p.Masked()}]; ok && other != port {
		f.add("%s: the network %s is on port %s already: give each port its own", key, p.Masked(), other)
	}
	nets[vrfNet{v.vrf, p.Masked()}] = port
	v.prefixes = append(v.prefixes, p)
}

func (p *plan) planRoutes(routes []Route, ports []string, f *faults) {
	first := map[vrfNet]int{}
	for i, rc := range routes {
		key := fmt.Sprintf("route[%d]", i)
		prefix, err := netip.ParsePrefix(rc.Prefix)
		if err != nil {
			f.add("%s.prefix: %q: write a network with its prefix length, as in \"10.0.3.0/24\"", key, rc.Prefix)
			continue
		}
		if prefix != prefix.Masked() {
			f.add("%s.prefix: %s has bits behind its length: write %s", key, prefix, prefix.Masked())
		}
		if prefix.Bits() > 0 && (unroutable(prefix.Addr()) != 0 || prefix.Addr().Is4In6()) {
			f.add("%s.prefix: packets to %s are never routed: remove the route", key, prefix)
		}
		vrf, known := p.vrf(key+".vrf", rc.VRF, f)
		if !known {
			continue
		}
		if before, twice := first[vrfNet{vrf, prefix}]; twice {
			f.add("%s.prefix: %s is already in route[%d]: join the two", key, prefix, before)
			continue
		}
		first[vrfNet{vrf, prefix}] = i
		if r, ok := p.planRoute(key, rc, vrf, prefix, ports, f); ok {
			p.routes = append(p.routes, r)
		}
	}
}

func (p *plan) planRoute(key string, rc Route, vrf uint16, prefix netip.Prefix, ports []string, f *faults) (planRoute, bool) {
	r := planRoute{vrf: vrf, prefix: prefix}
	switch {
	case rc.Port != "" && len(rc.Via) > 0:
		f.add("%s: via and port exclude each other: keep one", key)
		return r, false
	case rc.Port == "" && len(rc.Via) == 0:
		f.add("%s: has neither via nor port: name gateways, or the port on which the network is", key)
		return r, false
	case rc.Port != "":
		number, ok := f.port(key+".port", rc.Port, ports)
		if ok && !p.routed(number, prefix.Addr()) {
			f.add("%s.port: %s has no address of that IP version: add one to its [[stages.l3.interface]]", key, rc.Port)
			return r, false
		}
		if ok && p.interfaces[number].vrf != vrf {
			f.add("%s.port: %s is of another VRF than the route: choose a port of the route's", key, rc.Port)
			return r, false
		}
		r.port = number
		return r, ok
	}
	if len(rc.Weights) != 0 && len(rc.Weights) != len(rc.Via) {
		f.add("%s.weights: %d weights for %d gateways: write one each", key, len(rc.Weights), len(rc.Via))
	}
	total, good := 0, true
	for j, text := range rc.Via {
		g, ok := p.gateway(fmt.Sprintf("%s.via[%d]", key, j), text, vrf, prefix, ports, f)
		if good = good && ok; !ok {
			continue
		}
		g.weight = 1
		if j < len(rc.Weights) {
			f.between(fmt.Sprintf("%s.weights[%d]", key, j), rc.Weights[j], 1, MaxWeight)
			g.weight = rc.Weights[j]
		}
		if slices.ContainsFunc(r.via, func(o gateway) bool { return o.neighbourKey == g.neighbourKey }) {
			f.add("%s.via[%d]: %s appears twice: remove one, or use weights", key, j, text)
		}
		total += max(g.weight, 0)
		r.via = append(r.via, g)
	}
	if total > maxHops {
		f.add("%s.weights: their sum %d exceeds %d: choose smaller ones", key, total, maxHops)
		good = false
	}
	return r, good
}

// gateway finds the port of a gateway: that of the network that it is in, or
// the one that its zone names.
func (p *plan) gateway(key, text string, vrf uint16, prefix netip.Prefix, ports []string, f *faults) (g gateway, ok bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		f.add("%s: %q is not an IP address: write one, as in \"10.0.2.2\"", key, text)
		return g, false
	}
	if a.Is4() != prefix.Addr().Is4() {
		f.add("%s: %s is not of the IP version of %s: choose one that is", key, text, prefix)
		return g, false
	}
	if a.IsLinkLocalUnicast() && a.Is6() {
		if a.Zone() == "" {
			f.add("%s: a link-local address is not unique: name its port, as in \"%s%%p0\"", key, text)
			return g, false
		}
		number, ok := f.port(key, a.Zone(), ports)
		if ok && p.interfaces[number].vrf != vrf {
			f.add("%s: %s is of another VRF than the route: choose a port of the route's", key, a.Zone())
			return g, false
		}
		g.neighbourKey = neighbourKey{a.WithZone(""), number}
		return g, ok
	}
	for number, in := range p.interfaces {
		if in.vrf != vrf {
			continue
		}
		for _, own := range in.prefixes {
			if own.Addr() == a {
				f.add("%s: %s is the switch's own address: name another router", key, text)
				return g, false
			}
			if own.Contains(a) {
				g.neighbourKey, ok = neighbourKey{a, uint16(number)}, true
			}
		}
	}
	if !ok {
		f.add("%s: %s is in no network of an interface: correct the address, or give a port one of that network", key, text)
	}
	return g, ok
}

// routed reports whether a port has an own address of the version of a.
func (p *plan) routed(port uint16, a netip.Addr) bool {
	return slices.ContainsFunc(p.interfaces[port].prefixes, func(own netip.Prefix) bool { return own.Addr().Is4() == a.Is4() })
}

func (p *plan) planNeighbours(neighbours []Neighbour, ports []string, f *faults) {
	first := map[neighbourKey]int{}
	for i, nc := range neighbours {
		key := fmt.Sprintf("neighbour[%d]", i)
		a, err := netip.ParseAddr(nc.Address)
		if err != nil || a.Zone() != "" {
			f.add("%s.address: %q is not an IP address: write one, as in \"10.0.2.2\"", key, nc.Address)
		}
		number, portOK := f.port(key+".port", nc.Port, ports)
		mac, macOK := f.mac(key+".mac", nc.MAC)
		if err != nil || !portOK || !macOK {
			continue
		}
		if !p.routed(number, a) {
			f.add("%s.port: %s has no address of that IP version: add one to its [[stages.l3.interface]]", key, nc.Port)
			continue
		}
		k := neighbourKey{a, number}
		if before, twice := first[k]; twice {
			f.add("%s.address: %s on port %s is already in neighbour[%d]: remove one", key, a, nc.Port, before)
			continue
		}
		first[k] = i
		p.neighbours = append(p.neighbours, planNeighbour{k, mac})
	}
}
