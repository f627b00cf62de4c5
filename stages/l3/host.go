package l3

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// A host interface joins a router's port to the stack of the host, as a pair of VPP's linux-cp does. What is for the
// router itself goes to the host unchanged, and what the host sends leaves by the port unchanged:
//
//	                ┌─ l3 ──────────────────────────────┐
//	port  ────────> │ for own addresses, link multicast ├──> host interface ──> kernel: BIRD, FRR, sshd
//	port  <──────── │ <────────────────────────────────┼─── host interface <── kernel
//	                └───────────────────────────────────┘
//
// Both have the same MAC address and addresses. ARP requests and neighbour solicitations are answered here, answers to
// them are learned from and passed on, for the kernel has neighbours of its own.

// toHost sends a packet that arrived at a port to its host interface, unless there are too many.
func (s *stage) toHost(b *packet.Batch, p *packet.Packet, in uint16) {
	k := &s.hostLimits[2*int(in)]
	if !routing(p) {
		k = &s.hostLimits[2*int(in)+1]
	}
	if !k.take(b.Now, s.hostRate.Load()) {
		b.Drop(p, reasonHostLimited)
		return
	}
	p.OutPort = s.t.ports[in].host
	s.toHosts.Add(1)
}

// answerToHost passes an answer of a neighbour on to the host, which may have asked, too. It was consumed here.
func (s *stage) answerToHost(b *packet.Batch, p *packet.Packet, in uint16) {
	if s.t.ports[in].host == packet.NoPort || p.Reason != packet.Consumed {
		return
	}
	p.Reason = 0
	b.Dropped--
	s.toHost(b, p, in)
}

// fromHost sends what the host sent by a host interface out by the port.
func (s *stage) fromHost(b *packet.Batch, p *packet.Packet, in *portTable) {
	if b.FrameLen(p) > s.t.ports[in.pair].maxFrame {
		b.Drop(p, reasonMTU)
		return
	}
	p.OutPort = in.pair
	s.fromHosts.Add(1)
}

// routing reports whether a packet is of the protocols without which a router has no routes and no neighbours. These
// have their own limit, so that a flood of others does not end them.
func routing(p *packet.Packet) bool {
	const bgp, bfd, bfdMultihop = 179, 3784, 4784
	switch {
	case !p.Flags.Has(packet.FlagIP) || p.Flags.Has(packet.FlagMulticast):
		return true
	case p.Proto == header.ProtoTCP && p.Flags.Has(packet.FlagPorts):
		return p.SrcPort == bgp || p.DstPort == bgp
	case p.Proto == header.ProtoUDP && p.Flags.Has(packet.FlagPorts):
		return p.DstPort == bfd || p.DstPort == bfdMultihop
	}
	const ospf = 89
	return p.Proto == ospf || p.Proto == header.ProtoICMPv6 && p.TTL == linkHopLimit
}

// linkMulticast reports whether a packet is for a group of its link: 224.0.0.0/24 and ff02::/16, and those of IEEE 802
// to which LLDP and IS-IS send.
func linkMulticast(p *packet.Packet, data []byte) bool {
	if !p.Flags.Has(packet.FlagIP) {
		return data[0] == 0x01 && data[1] == 0x80 && data[2] == 0xc2
	}
	dst := destination(p, data)
	return dst.IsLinkLocalMulticast()
}

// HostState is what the kernel has for the ports with host interfaces.
type HostState struct {
	Addresses  []HostAddress
	Routes     []HostRoute // one for each prefix
	Neighbours []HostNeighbour
}

// HostAddress is an address of a port's host interface.
type HostAddress struct {
	Port   uint16 // the router's port
	Prefix netip.Prefix
}

// HostRoute is a route of the kernel.
type HostRoute struct {
	Prefix netip.Prefix
	// Origin is who made it, for reports: "bird", "static".
	Origin string
	// Hops are the next hops. Without one, packets are dropped (blackhole, unreachable, prohibit).
	Hops []HostHop
}

// HostHop is one of a route's next hops.
type HostHop struct {
	Port    uint16     // the router's port
	Gateway netip.Addr // not valid: the network is on the port's link
	Weight  int        // from 1
}

// HostNeighbour is a station whose MAC address is configured in the kernel.
type HostNeighbour struct {
	Port    uint16
	Address netip.Addr
	MAC     [6]byte
}

// HostPair is a port of the router and its host interface.
type HostPair struct {
	Port, Host uint16 // numbers of ports
	MAC        [6]byte
	MTU        int            // of what leaves by the port, in bytes of IP
	Addresses  []netip.Prefix // as configured
}

// HostPairs returns the ports that have a host interface, and what these should be like.
func (m *Module) HostPairs() (all []HostPair) {
	t := m.tables.Load()
	for i := range t.ports {
		if p := &t.ports[i]; p.host != packet.NoPort {
			all = append(all, HostPair{uint16(i), p.host, p.address, p.mtu, p.configured})
		}
	}
	return all
}

// SetHostState replaces what the router has of the kernel. Routes and addresses of the configuration come before the
// kernel's; a route's next hops by ports without an address are left out. ignored is how many routes are not in the table.
func (m *Module) SetHostState(h HostState) (ignored int) {
	m.control.Lock()
	defer m.control.Unlock()
	m.host = h
	m.mu.Lock()
	c := m.config
	m.mu.Unlock()
	ports := m.tables.Load().env
	p, err := c.plan(pipeline.PortNames(ports))
	if err != nil {
		return len(h.Routes) // a port of this configuration has gone; the change that removed it follows
	}
	m.change(c, p, ports)
	m.tell()
	return int(m.hostIgnored.Load())
}

// addHost adds to a plan what the kernel has.
func (p *plan) addHost(h *HostState) {
	owned := map[netip.Addr]bool{}
	nets := map[netip.Prefix]uint16{}
	for i := range p.interfaces {
		p.interfaces[i].configured = p.interfaces[i].prefixes
		if p.interfaces[i].vrf != 0 {
			continue // the kernel's main table has nothing of VRFs, nor has a port of theirs a host interface
		}
		for _, own := range p.interfaces[i].prefixes {
			owned[own.Addr()] = true
			nets[own.Masked()] = uint16(i)
		}
	}
	for _, a := range h.Addresses {
		if int(a.Port) >= len(p.interfaces) || p.interfaces[a.Port].host == packet.NoPort {
			continue
		}
		in := &p.interfaces[a.Port]
		if a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast() {
			in.local6 = a.Prefix.Addr()
			continue
		}
		other, taken := nets[a.Prefix.Masked()]
		if owned[a.Prefix.Addr()] || taken && other != a.Port || unroutable(a.Prefix.Addr()) != 0 {
			continue
		}
		owned[a.Prefix.Addr()], nets[a.Prefix.Masked()] = true, a.Port
		in.prefixes = append(slices.Clip(in.prefixes), a.Prefix)
	}
	known := map[neighbourKey]bool{}
	for _, n := range p.neighbours {
		known[n.neighbourKey] = true
	}
	for _, n := range h.Neighbours {
		k := neighbourKey{n.Address, n.Port}
		if int(n.Port) < len(p.interfaces) && p.interfaces[n.Port].host != packet.NoPort && !known[k] && p.routed(n.Port, n.Address) {
			known[k] = true
			p.neighbours = append(p.neighbours, planNeighbour{k, n.MAC})
		}
	}
}

// insertHost adds the kernel's routes to tables that are built. known gives a gateway's neighbour, nil if there is no room.
func (t *tables) insertHost(routes []HostRoute, known func(neighbourKey) *neighbour) (ignored int) {
	for i := range routes {
		r := &routes[i]
		if r.Prefix.Bits() > 0 && unroutable(r.Prefix.Addr()) != 0 {
			continue
		}
		if _, taken := t.fibs[0].prefixes.Get(r.Prefix); taken {
			ignored++ // the configuration's, or none that is routed
			continue
		}
		v := target{prefix: r.Prefix, route: true, origin: cmp.Or(r.Origin, "kernel"), kind: discard, reason: reasonNoRoute}
		onLink := false
		for _, h := range r.Hops {
			if int(h.Port) >= len(t.ports) || t.ports[h.Port].host == packet.NoPort || len(t.ports[h.Port].prefixes) == 0 {
				continue
			}
			if !h.Gateway.IsValid() {
				v.port, onLink = h.Port, true
				continue
			}
			n := known(neighbourKey{h.Gateway, h.Port})
			for k := 0; n != nil && k < h.Weight && len(v.hops) < maxHops; k++ {
				v.hops = append(v.hops, n)
			}
		}
		switch {
		case len(v.hops) != 0:
			v.kind = forward // on-link hops beside gateways are left out
		case onLink:
			v.kind = connected
		case len(r.Hops) != 0:
			ignored++
			continue
		}
		t.fibs[0].prefixes.Insert(r.Prefix, &v)
	}
	return ignored
}
