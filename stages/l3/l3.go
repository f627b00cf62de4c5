package l3

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The drop reasons of the router.
var (
	reasonNotRouted   = packet.Register("not_routed", "the port has no IP address, or the packet is neither untagged IP nor ARP")
	reasonNotForUs    = packet.Register("not_for_us", "the destination MAC address is not the port's")
	ReasonMulticast   = packet.Register("multicast", "a multicast or broadcast packet, which is not routed")
	reasonMartian     = packet.Register("martian", "no packet may come from, or go to, such an IP address")
	reasonBadChecksum = packet.Register("bad_checksum", "the checksum of the IPv4 header, or of a neighbour's message, is wrong")
	reasonTTLExpired  = packet.Register("ttl_expired", "the time to live or hop limit ended here")
	reasonNoRoute     = packet.Register("no_route", "no route leads to the destination")
	reasonMTU         = packet.Register("mtu_exceeded", "the packet exceeds the MTU of its output port")
	reasonPending     = packet.Register("neighbour_pending", "the next hop's MAC address is not known yet, and no more packets may wait for it")
	reasonUnreachable = packet.Register("neighbour_unreachable", "the next hop does not answer ARP or neighbour discovery")
	reasonNoListener  = packet.Register("no_listener", "for an address of the switch, which offers no such service")
	reasonHostLimited = packet.Register("host_limited", "for the router's host interface, and more than host_rate")
	reasonNeighbour   = packet.Register("neighbour_refused", "an ARP or neighbour discovery message that breaks the rules, or is none of ours")
)

// Module is the router of one switch. Its exported methods may be called from
// anywhere.
type Module struct {
	env    pipeline.Env
	tables atomic.Pointer[tables]
	// version counts the changes of routes.
	version atomic.Uint64
	ticked  atomic.Int64 // the last tick, in the batch's clock
	// perPacket: ECMP chooses for each packet.
	perPacket bool

	control sync.Mutex // serialises changes of the configuration, and guards host
	host    HostState
	// hostIgnored is how many of the host's routes are not in the table.
	hostIgnored atomic.Int64
	// mu guards what follows. Workers take it by lock alone.
	mu       sync.Mutex
	config   Config
	known    map[neighbourKey]*neighbour
	list     []*neighbour // of known, in an order that repeats
	shares   []int        // by port: those of list that may be evicted
	hand     int          // where in list the search for one to evict goes on
	spoken   []budget     // by port
	arena    arena
	counters counters

	stages []*stage
	bridge atomic.Pointer[pipeline.Bridge] // in front; nil: there is none
	// translator is in front, too: packets have other addresses than when they arrived. Nil: there is none. It is set while no worker is in a batch.
	translator pipeline.Translator
}

// New makes the module of a configuration, which it validates.
func New(c Config, env pipeline.Env) (*Module, error) {
	m := &Module{env: env, known: map[neighbourKey]*neighbour{}, arena: newArena(), perPacket: c.ECMP == ECMPPacket}
	commit, err := m.Prepare(c, env.Ports)
	if err != nil {
		return nil, err
	}
	commit()
	for w := range max(env.Workers, 1) {
		s := &stage{module: m, number: w, findings: make([]finding, 0, packet.BatchSize)}
		s.rate.Store(int64(c.ICMPRate))
		s.hostRate.Store(int64(c.HostRate))
		m.stages = append(m.stages, s)
	}
	return m, nil
}

// Role implements pipeline.Module.
func (m *Module) Role() pipeline.Role { return pipeline.RoleForward }

// Follows implements pipeline.Follower: behind a bridge the router has what this sends to it, and what is not of the bridge.
func (m *Module) Follows() (name string, always bool) { return "l2", false }

// Join implements pipeline.Joined: a bridge in front is told of changes of the ports, and errors quote packets as they were before a translator.
func (m *Module) Join(chain []pipeline.Named) error {
	var bridge *pipeline.Bridge
	var translator pipeline.Translator
	follower := false
	for _, n := range chain {
		if b, ok := n.Module.(pipeline.Bridge); ok {
			bridge = &b
		}
		if t, ok := n.Module.(pipeline.Translator); ok {
			translator = t
		}
		if f, ok := n.Module.(pipeline.Follower); ok {
			name, always := f.Follows()
			follower = follower || always && name == "l3"
		}
	}
	if bridge != nil && !follower {
		return errors.New("what is routed to a bridge domain would go nowhere: add \"irb\" behind \"l3\"")
	}
	m.translator = translator
	m.bridge.Store(bridge)
	return nil
}

// Leave implements pipeline.Leaver: the bridge gets nothing more of what is still under way.
func (m *Module) Leave() {
	m.control.Lock()
	defer m.control.Unlock()
	m.bridge.Store(nil)
}

// tell says to the bridge which ports are the router's. The caller has the lock of changes.
func (m *Module) tell() {
	if b := m.bridge.Load(); b != nil {
		(*b).Route(m.RoutedPorts())
	}
}

// RoutedPorts implements pipeline.PortRouter.
func (m *Module) RoutedPorts() (ports []pipeline.RoutedPort) {
	t := m.tables.Load()
	for i := range t.ports {
		if p := &t.ports[i]; len(p.prefixes) != 0 || p.host != packet.NoPort || p.pair != packet.NoPort {
			ports = append(ports, pipeline.RoutedPort{Port: uint16(i), MAC: p.address})
		}
	}
	return ports
}

// TakesLarge implements pipeline.LargeTaker: segments have its addresses, and FrameLen is held against the MTU.
func (m *Module) TakesLarge() bool { return true }

// Needs implements pipeline.Module: ECMP chooses by the flow hash, or by the packet's id.
func (m *Module) Needs() packet.Needs {
	if m.perPacket {
		return packet.NeedFlowHash | packet.NeedID
	}
	return packet.NeedFlowHash
}

// spread is the hash by which ECMP chooses for a packet.
func (m *Module) spread(p *packet.Packet) uint32 {
	if m.perPacket {
		return uint32(p.ID)
	}
	return p.FlowHash
}

// Stage implements pipeline.Module.
func (m *Module) Stage(w int) pipeline.Stage { return m.stages[w] }

// stage is one worker's router. All but the counters is the worker's alone.
type stage struct {
	module   *Module
	number   int     // the worker's
	t        *tables // of this batch
	findings []finding
	cache    cache
	results  [packet.BatchSize]uint32 // of tables.flat for a batch's packets
	rate     atomic.Int64             // Config.ICMPRate
	hostRate atomic.Int64             // Config.HostRate
	// hostLimits are for each port that of routing protocols and that of the rest, icmpLimits those of ICMP errors about packets of
	// each port: no port uses up those of others.
	hostLimits, icmpLimits []bucket
	ipID                   uint16 // of the next packet made here
	made                   []made
	workerCounters
}

// made is a packet that was made in this batch and is not routed yet: where in the batch, and at which port of the router.
type made struct {
	at uint32
	in uint16
}

// Flags that take a packet off the straight path, though it is IP.
const oddFlags4 = packet.FlagVLAN | packet.FlagShim | packet.FlagMulticast | packet.FlagIPOptions
const oddFlags6 = packet.FlagVLAN | packet.FlagShim | packet.FlagMulticast

// The straight path's view of a packet: link and IP header without tags, shims and
// options.
const (
	plain4 = header.EthernetLen + header.IPv4Len
	plain6 = header.EthernetLen + header.IPv6Len
)

// Process implements pipeline.Stage. The loop forwards what needs no more than
// a new TTL and a new link header; exception deals with the rest. What the
// switch itself says is appended, and routed at the end like the rest.
func (s *stage) Process(b *packet.Batch) {
	t := s.module.tables.Load()
	s.t = t
	s.cache.follow(t)
	if n := 2 * len(t.ports); n > len(s.hostLimits) {
		s.hostLimits = append(s.hostLimits, make([]bucket, n-len(s.hostLimits))...) // a port came
		s.icmpLimits = append(s.icmpLimits, make([]bucket, n/2-len(s.icmpLimits))...)
	}
	n := len(b.Pkts)
	for first := 0; first < n; first += packet.BatchSize {
		pkts := b.Pkts[first:min(first+packet.BatchSize, n)]
		if t.flat {
			s.look(b, pkts)
		}
		s.forward(b, pkts)
	}
	s.finish(b)
}

// arrived is the port of the router at which a packet arrived: what the bridge sends to a routed interface arrived there. ours is false
// of what the bridge has sent elsewhere.
func (t *tables) arrived(p *packet.Packet) (in uint16, ours bool) {
	if p.OutPort == packet.NoPort {
		return p.InPort, true
	}
	return p.OutPort, int(p.OutPort) < len(t.ports) && t.ports[p.OutPort].routed
}

// look looks all packets of the straight path up in the flat tables: two short loops, so that the loads of each are in flight at
// once.
func (s *stage) look(b *packet.Batch, pkts []packet.Packet) {
	if len(s.t.fibs) > 1 {
		s.lookVRFs(b, pkts)
		return
	}
	f := s.t.fibs[0].flat
	var last [packet.BatchSize]uint8 // of the addresses
	for i := range pkts {
		p := &pkts[i]
		if p.Flags&(oddFlags4|packet.FlagIPv4) == packet.FlagIPv4 && p.Len >= plain4 {
			address := binary.BigEndian.Uint32(b.Mem[p.Addr+header.EthernetLen+16:])
			s.results[i&(packet.BatchSize-1)], last[i&(packet.BatchSize-1)] = f.first[address>>8], uint8(address)
		}
	}
	for i := range pkts {
		if e := &s.results[i&(packet.BatchSize-1)]; *e&grouped != 0 {
			*e = f.groups[*e&^grouped*groupSize|uint32(last[i&(packet.BatchSize-1)])]
		}
	}
}

// lookVRFs is look with several tables. It leaves out what a bridge has sent elsewhere, as that has no table.
func (s *stage) lookVRFs(b *packet.Batch, pkts []packet.Packet) {
	var last [packet.BatchSize]uint8
	var flats [packet.BatchSize]*flat // of the packets' tables
	t := s.t
	for i := range pkts {
		p := &pkts[i]
		if p.Flags&(oddFlags4|packet.FlagIPv4) == packet.FlagIPv4 && p.Len >= plain4 {
			in, ours := t.arrived(p)
			if !ours {
				continue
			}
			f := t.fibOf(in).flat
			if f == nil {
				continue
			}
			flats[i&(packet.BatchSize-1)] = f
			address := binary.BigEndian.Uint32(b.Mem[p.Addr+header.EthernetLen+16:])
			s.results[i&(packet.BatchSize-1)], last[i&(packet.BatchSize-1)] = f.first[address>>8], uint8(address)
		}
	}
	for i := range pkts {
		if e, f := &s.results[i&(packet.BatchSize-1)], flats[i&(packet.BatchSize-1)]; f != nil && *e&grouped != 0 {
			*e = f.groups[*e&^grouped*groupSize|uint32(last[i&(packet.BatchSize-1)])]
		}
	}
}

// forward is the straight path.
func (s *stage) forward(b *packet.Batch, pkts []packet.Packet) {
	t := s.t
	id, family, mem := s.module.env.ID, s.module.env.Hash, b.Mem
	fib, flat := &t.fibs[0], t.fibs[0].flat
	several := len(t.fibs) > 1
	for i := range pkts {
		p := &pkts[i]
		if p.Reason != 0 {
			continue
		}
		in := p.InPort
		if p.OutPort != packet.NoPort {
			ours := false
			if in, ours = t.arrived(p); !ours {
				continue
			}
			p.OutPort = packet.NoPort
		}
		port := &t.ports[in]
		if several {
			fib = &t.fibs[port.vrf]
			flat = fib.flat
		}
		data := mem[p.Addr:][:p.Len]
		var v *target
		switch {
		case p.Flags&(oddFlags4|packet.FlagIPv4) == packet.FlagIPv4 && len(data) >= plain4:
			h := (*[plain4]byte)(data) // BCE: all indexes are constants
			ip := (*header.IPv4)(h[header.EthernetLen:])
			if binary.LittleEndian.Uint64(h[0:8])&macMask != port.mac || !ip.ValidChecksum() ||
				h[22] <= 1 || martianSource4(binary.BigEndian.Uint32(h[26:30])) {
				s.exception(b, p, in)
				continue
			}
			lo := uint64(binary.BigEndian.Uint32(h[30:34]))
			if flat != nil {
				v = flat.results[s.results[i&(packet.BatchSize-1)]]
			}
			if flat != nil && (v == nil || v.kind != connected) {
				break
			}
			if e := s.cache.at(high4, lo, port.vrf); e.lo == lo && e.hi == high4 && e.vrf == port.vrf && e.v != nil {
				v = e.v
			} else if v = fib.lookup4(ip.Dst()); v != nil && v.kind == forward {
				e.hi, e.lo, e.vrf, e.v = high4, lo, port.vrf, v
			}
		case p.Flags&(oddFlags6|packet.FlagIPv6) == packet.FlagIPv6 && len(data) >= plain6:
			h := (*[plain6]byte)(data) // BCE
			ip := (*header.IPv6)(h[header.EthernetLen:])
			if binary.LittleEndian.Uint64(h[0:8])&macMask != port.mac || h[21] <= 1 ||
				martianSource6(binary.BigEndian.Uint64(h[22:30]), binary.BigEndian.Uint64(h[30:38])) {
				s.exception(b, p, in)
				continue
			}
			hi, lo := binary.BigEndian.Uint64(h[38:46]), binary.BigEndian.Uint64(h[46:54])
			if e := s.cache.at(hi, lo, port.vrf); e.lo == lo && e.hi == hi && e.vrf == port.vrf && e.v != nil {
				v = e.v
			} else if v = fib.lookup6(ip.Dst()); v != nil && v.kind == forward {
				e.hi, e.lo, e.vrf, e.v = hi, lo, port.vrf, v
			}
		}
		if v == nil || v.kind != forward {
			s.exception(b, p, in)
			continue
		}
		next := v.hops[0]
		if len(v.hops) > 1 {
			next = v.hops[Pick(family, s.module.spread(p), id, len(v.hops))]
		}
		link := next.link.Load()
		out := &t.ports[next.port]
		if link>>48 != linkKnown>>48 || p.WireLen > out.maxFrame && b.FrameLen(p) > out.maxFrame {
			s.exception(b, p, in)
			continue
		}
		binary.LittleEndian.PutUint64(data[0:8], link&macMask|out.mac<<48)
		binary.LittleEndian.PutUint32(data[8:12], uint32(out.mac>>16))
		if p.Flags&packet.FlagIPv4 != 0 {
			(*header.IPv4)(data[header.EthernetLen:]).DecrementTTL()
		} else {
			data[header.EthernetLen+7]--
		}
		p.TTL--
		p.OutPort = next.port
	}
}

// finish does what is left to the batch's end: to learn neighbours, to
// look after neighbours, and to route what was made here.
func (s *stage) finish(b *packet.Batch) {
	if len(s.findings) > 0 {
		s.learn(b)
	}
	s.tick(b)
	for i := 0; i < len(s.made); i++ { // what is routed may make more
		m := s.made[i]
		if p := &b.Pkts[m.at]; p.Reason == 0 && p.OutPort == packet.NoPort {
			s.route(b, p, m.in, true)
		}
	}
	s.made = s.made[:0]
}

// send sets a packet's next hop: link is its link. own packets were made
// here and keep their TTL.
func (s *stage) send(b *packet.Batch, p *packet.Packet, port uint16, link uint64, own bool) {
	data := b.Data(p)
	eth := header.EthernetAt(data, 0)
	eth.SetDst(macBytes(link & macMask))
	eth.SetSrc(s.t.ports[port].hardware())
	p.OutPort = port
	p.Flags &^= packet.FlagMulticast | packet.FlagBroadcast
	if own {
		return
	}
	p.TTL--
	if p.Flags.Has(packet.FlagIPv4) {
		header.IPv4At(data, int(p.L3)).DecrementTTL()
	} else {
		header.IPv6At(data, int(p.L3)).SetHopLimit(p.TTL)
	}
}

// exception deals with a packet that is not simply forwarded: it checks all
// that a router has to, one by one.
func (s *stage) exception(b *packet.Batch, p *packet.Packet, number uint16) {
	in := &s.t.ports[number]
	data := b.Data(p)
	mac := binary.LittleEndian.Uint64(data[0:8]) & macMask
	switch {
	case in.pair != packet.NoPort:
		s.fromHost(b, p, in)
	case p.Flags.Has(packet.FlagVLAN) || len(in.prefixes) == 0:
		b.Drop(p, reasonNotRouted)
	case p.Flags.Has(packet.FlagARP):
		s.arp(b, p, number)
	case Discovery(p, data):
		s.discovery(b, p, number)
	case p.Flags.Has(packet.FlagMulticast) && in.host != packet.NoPort && linkMulticast(p, data):
		s.toHost(b, p, number)
	case p.Flags.Has(packet.FlagMulticast):
		b.Drop(p, ReasonMulticast)
	case mac != in.mac:
		b.Drop(p, reasonNotForUs)
	case !p.Flags.Has(packet.FlagIP):
		b.Drop(p, reasonNotRouted)
	case !validHeader(p, data):
		b.Drop(p, reasonBadChecksum)
	case martian(source(p, data)):
		b.Drop(p, reasonMartian)
	default:
		s.route(b, p, number, false)
	}
}

func validHeader(p *packet.Packet, data []byte) bool {
	if !p.Flags.Has(packet.FlagIPv4) {
		return true
	}
	ip := header.IPv4At(data, int(p.L3))
	return header.Checksum(data[p.L3:int(p.L3)+ip.HeaderLen()]) == 0
}

func martian(a netip.Addr) bool { return unroutable(a) != 0 && !(a.Is6() && a.IsLinkLocalUnicast()) }

func source(p *packet.Packet, data []byte) netip.Addr {
	if p.Flags.Has(packet.FlagIPv4) {
		return netip.AddrFrom4(header.IPv4At(data, int(p.L3)).Src())
	}
	return netip.AddrFrom16(header.IPv6At(data, int(p.L3)).Src())
}

func destination(p *packet.Packet, data []byte) netip.Addr {
	if p.Flags.Has(packet.FlagIPv4) {
		return netip.AddrFrom4(header.IPv4At(data, int(p.L3)).Dst())
	}
	return netip.AddrFrom16(header.IPv6At(data, int(p.L3)).Dst())
}

// route finds a packet's route by its destination, in the table of the port at which it arrived.
func (s *stage) route(b *packet.Batch, p *packet.Packet, in uint16, own bool) {
	data := b.Data(p)
	dst := destination(p, data)
	if dst.Is6() && dst.IsLinkLocalUnicast() && !s.t.ports[in].owns(dst) {
		s.routeLinkLocal(b, p, in, dst, own)
		return
	}
	v := s.t.fibOf(in).lookup(dst)
	switch {
	case v == nil:
		b.Drop(p, reasonNoRoute)
		if !own {
			s.sendError(b, p, in, netUnreachable, 0)
		}
	case v.kind == discard:
		b.Drop(p, v.reason)
	case v.kind == local && own:
		b.Drop(p, reasonNoListener) // to ourselves, by a forged source
	case v.kind == local:
		s.local(b, p, in)
	case !own && source(p, data).IsLinkLocalUnicast() && p.Flags.Has(packet.FlagIPv6):
		b.Drop(p, reasonMartian) // stays on its link (RFC 4291, 2.5.6)
	case !own && p.TTL <= 1:
		b.Drop(p, reasonTTLExpired)
		s.sendError(b, p, in, timeExceeded, 0)
	case v.kind == connected:
		s.toNeighbour(b, p, in, nil, neighbourKey{dst, v.port}, own)
	default:
		n := v.hops[0]
		if len(v.hops) > 1 {
			n = v.hops[Pick(s.module.env.Hash, s.module.spread(p), s.module.env.ID, len(v.hops))]
		}
		s.toNeighbour(b, p, in, n, n.neighbourKey, own)
	}
}

// routeLinkLocal sends what the switch has to say to a link-local address back
// where it came from. No other packets are routed to one.
func (s *stage) routeLinkLocal(b *packet.Batch, p *packet.Packet, in uint16, dst netip.Addr, own bool) {
	if !own {
		b.Drop(p, reasonMartian)
		return
	}
	s.toNeighbour(b, p, in, nil, neighbourKey{dst, in}, own)
}

// toNeighbour sends a packet to a neighbour, if it fits and the neighbour is
// known. n may be nil if it is not.
func (s *stage) toNeighbour(b *packet.Batch, p *packet.Packet, in uint16, n *neighbour, k neighbourKey, own bool) {
	out := &s.t.ports[k.port]
	if length(p, b.Data(p)) > out.mtu && b.FrameLen(p) > out.maxFrame {
		b.Drop(p, reasonMTU)
		if !own {
			s.sendTooBig(b, p, in, out.mtu)
		}
		return
	}
	if n != nil {
		v := n.link.Load()
		if v&linkStale == 0 && v != 0 || v != 0 && s.stale(b, n, v) {
			s.send(b, p, n.port, v, own)
			return
		}
	}
	s.await(b, p, in, n, k, own)
}

// length returns the length of the IP packet, in bytes: the frame may be longer,
// by padding.
func length(p *packet.Packet, data []byte) int {
	if p.Flags.Has(packet.FlagIPv4) {
		return header.IPv4At(data, int(p.L3)).TotalLen()
	}
	return header.IPv6Len + header.IPv6At(data, int(p.L3)).PayloadLen()
}

// Explain implements pipeline.Explainer. It looks the destination up again, so
// just after a change it may know more than the decision did.
func (s *stage) Explain(b *packet.Batch, p *packet.Packet) string {
	data := b.Data(p)
	if int(p.OutPort) < len(s.t.ports) {
		if out := &s.t.ports[p.OutPort]; len(out.prefixes) == 0 && out.host == packet.NoPort && out.pair == packet.NoPort {
			return "" // of the bridge in front
		}
	}
	switch {
	case p.Flags.Has(packet.FlagARP):
		arp := header.ARPAt(data, int(p.L3))
		return fmt.Sprintf("ARP of %s about %s", netip.AddrFrom4(arp.SenderIP()), netip.AddrFrom4(arp.TargetIP()))
	case !p.Flags.Has(packet.FlagIP):
		return "no IP packet"
	}
	src, dst := source(p, data), destination(p, data)
	text := fmt.Sprintf("%s to %s", src, dst)
	if p.OutPort == packet.NoPort {
		return text
	}
	via := "on link"
	fib := s.t.fibOf(p.OutPort) // as of the port of arrival
	if v := fib.lookup(dst); v != nil && v.kind == forward && v.route {
		i := 0
		if len(v.hops) > 1 {
			i = Pick(s.module.env.Hash, s.module.spread(p), s.module.env.ID, len(v.hops))
		}
		via = fmt.Sprintf("%s, via %s", v.prefix, v.hops[i].addr)
		if len(v.hops) > 1 {
			via += fmt.Sprintf(" (choice %d of %d)", i+1, len(v.hops))
		}
	}
	if fib.name != "" {
		via += " in VRF " + fib.name
	}
	return fmt.Sprintf("%s: %s, leaves by %s to %s with TTL %d", text, via, s.t.env[p.OutPort].Name,
		macText(header.EthernetAt(data, 0).Dst()), p.TTL)
}

func macText(m [6]byte) string {
	return fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", m[0], m[1], m[2], m[3], m[4], m[5])
}
