package l3

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// tables are all that a worker reads to forward. A set of tables never changes,
// but for the neighbours' links; a change makes a new one, which shares what
// stayed the same, and swaps the pointer to it.
type tables struct {
	fibs  []fib           // of VRFs, the first of ports without one
	flat  bool            // a fib has a flat table
	ports []portTable     // by port number
	env   []pipeline.Port // of which these were made
}

// fib is the table of a VRF.
type fib struct {
	prefixes *bart.Fast[*target]
	flat     *flat  // nil where IPv4 prefixes are few
	name     string // empty: of ports without a VRF
}

// portTable is the IP side of a port.
type portTable struct {
	mac      uint64         // as the first six bytes of a little-endian load; without prefixes noMAC
	maxFrame uint32         // the longest packet that may leave, in bytes with Ethernet header
	mtu      int            // the same without
	prefixes []netip.Prefix // the switch's own address in each; none: not routed
	local6   netip.Addr     // link-local address, of ports with IPv6
	vrf      uint16         // whose table the packets that arrive have
	routed   bool           // of a bridge domain: packets come by the bridge

	host, pair uint16 // as of planInterface
	echo       bool
	address    [6]byte        // the MAC address, also without prefixes
	configured []netip.Prefix // those of prefixes that are the configuration's
}

// noMAC is no packet's destination: what arrives by a port that is not routed is an
// exception, even if sent to the address that the port would have.
const noMAC = 1 << 63

func (p *portTable) hardware() [6]byte { return macBytes(p.mac) }

// source returns the port's address to speak to an address from: the one in its
// network, else the first of its IP version, else none.
func (p *portTable) source(to netip.Addr) (own netip.Addr, ok bool) {
	if to.Is6() && to.IsLinkLocalUnicast() {
		return p.local6, p.local6.IsValid()
	}
	for _, prefix := range p.prefixes {
		if prefix.Contains(to) {
			return prefix.Addr(), true
		}
		if !own.IsValid() && prefix.Addr().Is4() == to.Is4() {
			own = prefix.Addr()
		}
	}
	return own, own.IsValid()
}

// owns reports whether an address is this port's own.
func (p *portTable) owns(a netip.Addr) bool {
	return a == p.local6 && a.IsValid() ||
		slices.ContainsFunc(p.prefixes, func(own netip.Prefix) bool { return own.Addr() == a })
}

// onLink reports whether an address is in a network of the port.
func (p *portTable) onLink(a netip.Addr) bool {
	return a.Is6() && a.IsLinkLocalUnicast() && p.local6.IsValid() ||
		slices.ContainsFunc(p.prefixes, func(own netip.Prefix) bool { return own.Contains(a) })
}

// target is what becomes of packets to a prefix.
type target struct {
	kind   targetKind
	reason packet.Reason // of kind discard
	port   uint16        // of kind connected
	hops   []*neighbour  // of kind forward: one for each unit of weight
	prefix netip.Prefix
	route  bool   // configured or the kernel's, not made of interfaces or neighbours
	origin string // of the kernel's
}

type targetKind uint8

const (
	forward   targetKind = iota // to a neighbour
	connected                   // to the destination itself, which is to be found on the port
	local                       // the switch's own address
	discard                     // never routed
)

// lookup4 and lookup6 find the target of a destination, nil if there is none.
func (t *fib) lookup4(dst [4]byte) *target {
	v, _ := t.prefixes.Lookup(netip.AddrFrom4(dst))
	return v
}

func (t *fib) lookup6(dst [16]byte) *target {
	v, _ := t.prefixes.Lookup(netip.AddrFrom16(dst))
	return v
}

// fibOf is the table of a port's VRF.
func (t *tables) fibOf(port uint16) *fib { return &t.fibs[t.ports[port].vrf] }

func (t *fib) lookup(dst netip.Addr) *target {
	v, _ := t.prefixes.Lookup(dst)
	return v
}

// build makes the tables of a plan, without the neighbours that were learned.
// known gives the neighbour of a key, to be made if it is new.
func (m *Module) build(p *plan, env []pipeline.Port, known func(neighbourKey) *neighbour) *tables {
	t := &tables{env: env, ports: make([]portTable, len(p.interfaces))}
	insert := func(vrf uint16, prefix netip.Prefix, v target) {
		v.prefix = prefix
		t.fibs[vrf].prefixes.Insert(prefix, &v)
	}
	for vrf, name := range p.vrfs {
		t.fibs = append(t.fibs, fib{name: name, prefixes: new(bart.Fast[*target])})
		for _, u := range unroutables {
			insert(uint16(vrf), u, target{kind: discard, reason: unroutable(u.Addr())})
		}
	}
	for i := range p.interfaces {
		in, out := &p.interfaces[i], &t.ports[i]
		*out = newPortTable(m.env.ID, uint16(i), in, env[i])
		for _, own := range in.prefixes {
			insert(in.vrf, own.Masked(), target{kind: connected, port: uint16(i)})
		}
	}
	for _, r := range p.routes {
		v := target{kind: connected, port: r.port, route: true}
		for _, g := range r.via {
			v.kind = forward
			for range g.weight {
				v.hops = append(v.hops, known(g.neighbourKey))
			}
		}
		insert(r.vrf, r.prefix, v)
	}
	for _, n := range p.neighbours {
		known(n.neighbourKey) // the configuration's have room before the kernel's gateways
	}
	m.hostIgnored.Store(int64(t.insertHost(m.host.Routes, known)))
	for _, k := range p.neighbours {
		if n := known(k.neighbourKey); n != nil {
			t.addHost(n, func(prefix netip.Prefix, v target) { insert(t.ports[n.port].vrf, prefix, v) })
		}
	}
	// What is the switch's own comes last, for no route may take it away.
	for i := range t.ports {
		for _, own := range t.ports[i].prefixes {
			if own.Addr().Is4() && own.Bits() < 31 {
				insert(t.ports[i].vrf, host(own.Masked().Addr()), target{kind: discard, reason: ReasonMulticast})
				insert(t.ports[i].vrf, host(broadcast(own)), target{kind: discard, reason: ReasonMulticast})
			}
		}
		if a := t.ports[i].local6; a.IsValid() {
			insert(t.ports[i].vrf, host(a), target{kind: local})
		}
	}
	for i := range t.ports {
		for _, own := range t.ports[i].prefixes {
			insert(t.ports[i].vrf, host(own.Addr()), target{kind: local})
		}
	}
	for i := range t.fibs {
		t.fibs[i].flat = newFlat(t.fibs[i].prefixes)
		t.flat = t.flat || t.fibs[i].flat != nil
	}
	return t
}

// addHost makes a neighbour's address a host prefix, so that packets to
// it are found by one lookup, unless a route, or an own address, has it. Link-
// local addresses are not unique, and not routed.
func (t *tables) addHost(n *neighbour, insert func(netip.Prefix, target)) {
	if v := t.fibOf(n.port).lookup(n.addr); t.reaches(n) && v.kind == connected && v.prefix != host(n.addr) {
		insert(host(n.addr), target{kind: forward, hops: []*neighbour{n}})
	}
}

// reaches reports whether a neighbour is where packets to its address go.
func (t *tables) reaches(n *neighbour) bool {
	if n.addr.IsLinkLocalUnicast() && n.addr.Is6() {
		return t.ports[n.port].local6.IsValid()
	}
	v := t.fibOf(n.port).lookup(n.addr)
	return v != nil && (v.kind == connected && v.port == n.port || v.kind == forward && v.hops[0] == n)
}

// withHost and withoutHost return tables that know a neighbour's address, or
// do not any more.
func (t *tables) withHost(n *neighbour) *tables {
	next := *t
	t.addHost(n, func(prefix netip.Prefix, v target) {
		v.prefix = prefix
		next.fibs = slices.Clone(t.fibs)
		f := next.fibOf(n.port)
		f.prefixes = f.prefixes.InsertPersist(prefix, &v)
	})
	return &next
}

func (t *tables) withoutHost(n *neighbour) *tables {
	v, ok := t.fibOf(n.port).prefixes.Get(host(n.addr))
	if !ok || v.route || v.kind != forward || v.hops[0] != n {
		return t
	}
	next := *t
	next.fibs = slices.Clone(t.fibs)
	f := next.fibOf(n.port)
	f.prefixes = f.prefixes.DeletePersist(host(n.addr))
	return &next
}

func newPortTable(id uint32, number uint16, in *planInterface, port pipeline.Port) portTable {
	mac := in.mac
	if mac == ([6]byte{}) {
		mac = DefaultMAC(id, number)
	}
	p := portTable{
		mac: macWord(mac), mtu: in.mtu, prefixes: in.prefixes,
		host: in.host, pair: in.pair, echo: in.echo, address: mac, configured: in.configured, vrf: in.vrf, routed: port.Routed,
	}
	if len(in.prefixes) == 0 {
		p.mac = noMAC
	}
	if p.mtu == 0 {
		p.mtu = defaultMTU
	}
	p.mtu = min(p.mtu, mostOf(port))
	p.maxFrame = uint32(p.mtu + header.EthernetLen)
	if slices.ContainsFunc(in.prefixes, func(own netip.Prefix) bool { return own.Addr().Is6() }) {
		p.local6 = linkLocal(mac)
	}
	if in.local6.IsValid() {
		p.local6 = in.local6
	}
	return p
}

// mostOf returns the longest IP packet that a port can send, in bytes.
func mostOf(port pipeline.Port) int {
	most := maxMTU
	if port.MaxFrame > 0 {
		most = port.MaxFrame - header.EthernetLen
	}
	if port.MTU > 0 {
		most = min(most, port.MTU)
	}
	return most
}

// defaultMTU is Ethernet's, in bytes.
const defaultMTU = 1500

// DefaultMAC returns the MAC address of a port without a configured one: it is
// locally administered, and made of the low 24 bits of the switch's id, which no
// other switch of the network has, and the port's number.
//
//	02 | id, 3 bytes | port, 2 bytes
func DefaultMAC(id uint32, port uint16) [6]byte {
	return [6]byte{0x02, byte(id >> 16), byte(id >> 8), byte(id), byte(port >> 8), byte(port)}
}

// linkLocal returns the IPv6 link-local address of a MAC address (RFC 4291,
// appendix A).
func linkLocal(m [6]byte) netip.Addr {
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}

func macWord(m [6]byte) uint64 {
	return uint64(binary.LittleEndian.Uint32(m[:])) | uint64(binary.LittleEndian.Uint16(m[4:]))<<32
}

func macBytes(w uint64) (m [6]byte) {
	binary.LittleEndian.PutUint32(m[:], uint32(w))
	binary.LittleEndian.PutUint16(m[4:], uint16(w>>32))
	return m
}

// host returns the prefix of an address alone.
func host(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// broadcast returns the last address of an IPv4 network.
func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])|uint32(1<<(32-p.Bits())-1))
	return netip.AddrFrom4(a)
}

// unroutables are the prefixes to which, and from which, nothing is routed (RFC
// 6890).
var unroutables = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("::/128"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("::ffff:0.0.0.0/96"),
	netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// unroutable says why an address is not routed, 0 if it is.
func unroutable(a netip.Addr) packet.Reason {
	for _, p := range unroutables {
		if p.Contains(a) {
			if a.IsMulticast() {
				return ReasonMulticast
			}
			return reasonMartian
		}
	}
	return 0
}

// martianSource reports whether no packet may come from an address. The same
// prefixes as unroutables, by tests on bytes, since every packet is asked.
func martianSource4(a uint32) bool {
	top := a >> 24
	return top == 0 || top == 127 || top >= 224
}

func martianSource6(hi, lo uint64) bool {
	return hi>>56 == 0xff || hi>>54 == 0xfe80>>6 || hi == 0 && lo>>32 <= 0xffff && (lo <= 1 || lo>>32 == 0xffff)
}
