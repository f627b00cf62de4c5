package conntrack

import (
	"errors"
	"math/bits"
	"net/netip"

	"github.com/weirswitch/weir/pipeline/packet"
)

// This file chooses the home of a packet: the worker that has its connection. Workers share nothing, so the home follows from the packet
// and the rules alone. It is a function of the connection's key, which both directions have, and errors about their packets; and it is the same for
// the key on either side of a translation:
//
//	an end is an outside address and a port that snat gives out   the worker that owns the port's block
//	one end is a service of dnat, before or after translation     by the address of the other end, the client's
//	one end is in src of a snat rule                              by that address, so that it has the same outside ports for all
//	all others                                                    by both addresses and ports
//
// For the connections that it is the home of, a worker takes the blocks that it owns. The rules' ports and exemptions
// decide whether a connection is translated, and say nothing about its home.
//
// By addresses and ports means the hash that NICs compute for RSS (Toeplitz) under the key 6d:5a, repeated, which is the same in both directions, and
// of its lowest 7 bits the remainder by the number of workers: a device that is set so delivers packets at home.
//
// Fragments of a datagram meet at a worker by addresses, protocol and identification, which sends them all to the home of the first.

// steering is what the home of packets depends on. It is immutable.
type steering struct {
	workers  uint8
	byHash   [hashRange]uint8 // worker by the hash's lowest bits
	nat      bool             // the rules below are there
	inside   []block4         // src of the snat rules
	services []service        // dst of the dnat rules that are more than one address
	slots    []int32          // of marks by address: number + 1, open-addressed; a power of two
	marks    []mark           // addresses that rules name
}

// hashRange is how many values of the hash there are: as many as most NICs have entries in their table of queues, or a divisor.
const hashRange = 128

// block4 is an IPv4 prefix.
type block4 struct{ addr, mask uint32 }

func blockOf(p netip.Prefix) block4 {
	return block4{addrWord(p.Masked().Addr()), ^uint32(0) << (32 - p.Bits())}
}

func (b *block4) has(addr uint32) bool { return addr&b.mask == b.addr }

// mark is an address that rules name.
type mark struct {
	addr     uint32
	outside  *outsideSpec // nil: it is none
	services []portSet
}

// portSet are ports of a protocol.
type portSet struct {
	proto     uint8
	low, high uint16
}

// service is a prefix whose ports dnat translates.
type service struct {
	dst   block4
	ports portSet
}

// The hash of 16 bits, by bytes: products of the input and the key are sums (XOR) over bits of the input. Since the key repeats after 16 bits, all
// words of the input are summed up first.
var toeplitz = func() (t [2][256]uint8) {
	const key = 0x6d5a
	for half := range t {
		for x := range 256 {
			word := uint16(x) << (8 * (1 - half))
			sum := uint16(0)
			for j := range 16 {
				if word<<j&0x8000 != 0 {
					sum ^= bits.RotateLeft16(key, j)
				}
			}
			t[half][x] = uint8(sum & (hashRange - 1))
		}
	}
	return t
}()

// of returns the worker by the sum of the input's words.
func (v *steering) of(word uint16) uint8 {
	return v.byHash[(toeplitz[0][word>>8]^toeplitz[1][word&0xff])&(hashRange-1)]
}

func (v *steering) byAddr(addr uint32) uint8 { return v.of(uint16(addr>>16) ^ uint16(addr)) }

// steer computes what homes depend on among several workers, divides limits among them, and reports rules by which a home is not certain.
func (s *settings) steer(c *Config, workers int) error {
	if workers <= 1 {
		return nil
	}
	var errs faults
	if least := minConnections * workers; c.Connections < least {
		errs.add("connections = %d: %d workers divide them: choose %d to %d", c.Connections, workers, least, MaxConnections)
	}
	for i := range s.limits {
		if s.limits[i] != 0 {
			s.limits[i] = max(s.limits[i]/uint32(workers), 1)
		}
	}
	v := &steering{workers: uint8(workers), nat: s.nat.enabled()}
	for i := range v.byHash {
		v.byHash[i] = uint8(i % workers)
	}
	s.steering = v
	v.addNAT(&s.nat, workers, &errs)
	if errs != nil {
		return errors.Join(errs...)
	}
	return nil
}

func (v *steering) addNAT(n *natSettings, workers int, errs *faults) {
	at := map[uint32]int{}
	of := func(addr uint32) *mark {
		i, ok := at[addr]
		if !ok {
			i = len(v.marks)
			at[addr] = i
			v.marks = append(v.marks, mark{addr: addr})
		}
		return &v.marks[i]
	}
	for i := range n.snat {
		r := &n.snat[i]
		if r.exempt {
			continue
		}
		r.perPort = max(r.perPort/workers, 1)
		if !r.src.IsValid() || r.src.Bits() == 0 {
			errs.add("snat[%d].src: the inside address chooses among %d workers, so the rule must say which addresses are inside: name their prefix, with a rule for each, or set count = 1 in [workers]", i, workers)
			continue
		}
		v.inside = append(v.inside, blockOf(r.src))
	}
	for i := range n.outside {
		o := &n.outside[i]
		if int(o.blocks) < workers {
			errs.add("snat[%d].block_size: an outside address has %d blocks, which %d workers divide: lower it, or widen port_range", o.rule, o.blocks, workers)
		}
		of(o.addr).outside = o
	}
	for i := range n.dnat {
		r := &n.dnat[i]
		ports := portSet{r.proto, 0, 0xffff}
		if r.dstPort.Needed {
			ports.low, ports.high = r.dstPort.Low, r.dstPort.High
		}
		for k := range n.outside {
			if o := &n.outside[k]; hasPorts(r.proto) && r.dst.Contains(addrOf(o.addr)) && (ports.high >= o.low && uint32(ports.low) < uint32(o.low)+o.size*o.blocks) {
				errs.add("dnat[%d].dst_port: snat[%d] gives out ports of %v among these, which are of one worker each: choose others, or a port_range without them, or set count = 1 in [workers]", i, o.rule, addrOf(o.addr))
				break
			}
		}
		if r.dst.Bits() == 32 {
			of(addrWord(r.dst.Addr())).add(ports)
		} else {
			v.services = append(v.services, service{blockOf(r.dst), ports})
		}
		for _, b := range r.backends {
			after := ports
			if port := uint16(b); port != 0 {
				after.low, after.high = port, port
			}
			of(uint32(b >> 16)).add(after)
		}
	}
	v.slots = make([]int32, 1<<bits.Len(uint(2*len(v.marks))))
	for i := range v.marks {
		at := slotOf(v.marks[i].addr) & uint32(len(v.slots)-1)
		for v.slots[at] != 0 {
			at = (at + 1) & uint32(len(v.slots)-1)
		}
		v.slots[at] = int32(i) + 1
	}
}

func addrOf(word uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{byte(word >> 24), byte(word >> 16), byte(word >> 8), byte(word)})
}

func (m *mark) add(ports portSet) {
	for _, has := range m.services {
		if has == ports {
			return
		}
	}
	m.services = append(m.services, ports)
}

func slotOf(addr uint32) uint32 { return addr * 0x9e3779b1 >> 8 }

// mark returns what rules say of an address, or nil.
func (v *steering) mark(addr uint32) *mark {
	mask := uint32(len(v.slots) - 1)
	for at := slotOf(addr) & mask; v.slots[at] != 0; at = (at + 1) & mask {
		if m := &v.marks[v.slots[at]-1]; m.addr == addr {
			return m
		}
	}
	return nil
}

// home returns the worker of a connection's key.
func (v *steering) home(k *key) uint8 {
	proto := k.proto()
	ports := hasPorts(proto)
	if k.is6() {
		sum := k[0] ^ k[1] ^ k[2] ^ k[3]
		if ports {
			sum ^= k[4] >> 32
		}
		return v.of(fold(sum))
	}
	if v.nat {
		if w, ok := v.translated(k, proto); ok {
			return w
		}
	}
	sum := k[0] ^ k[1]
	if !ports {
		sum &^= 0xffff
	}
	return v.of(fold(sum))
}

func fold(x uint64) uint16 { return uint16(x ^ x>>16 ^ x>>32 ^ x>>48) }

// translated returns the worker of a key that rules of translation may apply to. Of queries the first end has the identifier, and the second one no port.
func (v *steering) translated(k *key, proto uint8) (w uint8, ok bool) {
	first, second := uint32(k[0]>>16), uint32(k[1]>>16)
	m1, m2 := v.mark(first), v.mark(second)
	if w, ok := m1.block(uint16(k[0]), v.workers); ok {
		return w, true
	}
	if hasPorts(proto) {
		if w, ok := m2.block(uint16(k[1]), v.workers); ok {
			return w, true
		}
	}
	s1, s2 := v.serves(m1, k[0], proto), v.serves(m2, k[1], proto)
	switch {
	case s1 && s2:
		return v.of(0), true
	case s1:
		return v.byAddr(second), true
	case s2:
		return v.byAddr(first), true
	}
	i1, i2 := v.isInside(first), v.isInside(second)
	switch {
	case i1 == i2:
		return 0, false
	case i1:
		return v.byAddr(first), true
	}
	return v.byAddr(second), true
}

// block returns the worker that owns the block of an outside port.
func (m *mark) block(port uint16, workers uint8) (w uint8, ok bool) {
	if m == nil || m.outside == nil || uint32(port)-uint32(m.outside.low) >= m.outside.size*m.outside.blocks {
		return 0, false
	}
	return m.outside.owner((uint32(port)-uint32(m.outside.low))/m.outside.size, int(workers)), true
}

// owner is the worker that owns a block.
func (o *outsideSpec) owner(block uint32, workers int) uint8 { return uint8(block % uint32(workers)) }

// serves reports whether an end is a service of dnat, as clients see it or as its backend does.
func (v *steering) serves(m *mark, end end48, proto uint8) bool {
	if m != nil {
		for i := range m.services {
			if m.services[i].has(end, proto) {
				return true
			}
		}
	}
	for i := range v.services {
		if s := &v.services[i]; s.dst.has(uint32(end>>16)) && s.ports.has(end, proto) {
			return true
		}
	}
	return false
}

// has reports whether the port of an end is of the set. Queries have none.
func (s *portSet) has(end end48, proto uint8) bool {
	return proto == s.proto && (!hasPorts(proto) || uint16(end) >= s.low && uint16(end) <= s.high)
}

func (v *steering) isInside(addr uint32) bool {
	for i := range v.inside {
		if v.inside[i].has(addr) {
			return true
		}
	}
	return false
}

// Steer implements pipeline.Steerer.
func (m *Module) Steer(w int, b *packet.Batch, from int, homes []uint8) {
	s := m.stages[w]
	if v := m.settings.Load(); v != s.settings {
		s.adopt(v)
	}
	s.now = uint32(b.Now >> tickShift)
	v := s.steering
	var l look
	for i := range homes {
		p := &b.Pkts[i]
		homes[i] = uint8(w)
		switch {
		case p.Reason != 0:
		case p.Flags.Has(packet.FlagFragment):
			homes[i] = s.homeOfFragment(p, b.Data(p), from)
		case from == w:
			if s.keyOf(&l, p, b.Data(p)) >= kindFlow {
				homes[i] = v.home(&l.key)
			}
		}
	}
}

// homeOfFragment returns where a fragment goes next: to the worker at which those of its datagram meet, and from there to the home of the first one. A
// later one without a first stays where they meet, and is dropped.
func (s *stage) homeOfFragment(p *packet.Packet, data []byte, from int) uint8 {
	self := uint8(s.worker)
	var datagram key
	if s.fragmentKey(&datagram, p, data, s.groups[s.byPort[p.InPort]].zone) != kindLater {
		return self
	}
	switch meets := uint8(datagram.hash(&s.module.seed) % uint64(s.steering.workers)); {
	case meets != self && from == s.worker:
		return meets
	case meets != self:
		return self // it comes from there
	}
	if p.Flags.Has(packet.FlagLaterFragment) {
		if f := s.set(s.following, &datagram, p.InPort).find(&datagram); f != nil && int32(f.deadline-s.now) > 0 {
			return f.home
		}
		return self
	}
	var l look
	home := self
	switch kind := s.keyOf(&l, p, data); {
	case kind == kindPass:
		return self
	case kind >= kindFlow:
		home = s.steering.home(&l.key)
	}
	s.set(s.following, &datagram, p.InPort).put(fragment{key: datagram, deadline: s.now + fragmentTime, home: home})
	return home
}
