package conntrack

import (
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/header"
	"github.com/weirswitch/weir/pipeline/packet"
)

// The reasons of address translation.
var (
	reasonExhausted   = packet.Register("nat_exhausted", "the inside address has no free outside port in as many blocks as it may have, or there is no free block")
	reasonUnmapped    = packet.Register("nat_unmapped", "no inside address has the outside port, and a port that snat gives out has no other service")
	reasonUnsupported = packet.Register("nat_unsupported", "a packet that snat applies to, of a protocol that is not translated")
)

// end48 is one end of a connection over IPv4: address << 16 | port, or identifier, or kind of query, as in a key.
type end48 = uint64

// translation is how the first packet of a connection is translated.
type translation struct {
	src, dst   end48 // as the packet leaves
	from       end48 // the source as it came
	rest       uint64
	asks       bool
	key        key // of src and dst
	tag        uint32
	snat, dnat handle // which the connection holds

	home           int // the outside address of the source's blocks; -1: it has none
	looks, clashes int // at connections that could make room, and at outside ports that did not fit
}

// ends48 returns the source and destination of a packet by its key.
func (l *look) ends48() (src, dst end48) {
	if l.fromFirst {
		return l.key[0], l.key[1]
	}
	return l.key[1], l.key[0]
}

// plan decides whether the connection that a packet would begin is translated, and how. What it needs of mappings it holds.
func (s *stage) plan(l *look, port uint16, t *tuple, tr *translation) (r packet.Reason, translated bool) {
	v := &s.settings.nat
	tr.from, tr.dst = l.ends48()
	tr.src, tr.rest, tr.asks = tr.from, l.key[4], t.proto == header.ProtoICMP
	tr.snat, tr.dnat = noHandle, noHandle
	to := tr.dst
	destination := v.destination(t, port)
	kind, can := natKind(t.proto)
	if destination < 0 && can && t.ports {
		if at, o := s.nat.byAddr(uint32(to >> 16)); o != nil && o.gives(uint16(to)) {
			addr, inside, ok := o.inside(kind, uint16(to), uint16(tr.rest>>16))
			if !ok || !v.snat[o.rule].independent {
				return reasonUnmapped, false
			}
			tr.dst, tr.dnat = uint64(addr)<<16|uint64(inside), o.handle(at, kind, uint32(uint16(to))-uint32(o.low))
			s.nat.hold(tr.dnat)
		}
	}
	source := s.source(t, port, to, destination >= 0 || tr.dnat != noHandle)
	switch {
	case source < 0 && destination < 0 && tr.dnat == noHandle:
		return 0, false
	case !can:
		return reasonUnsupported, false
	case destination < 0:
		if s.place(source, port, kind, l, tr) {
			return 0, true
		}
		s.nat.release(tr.dnat)
		return reasonExhausted, false
	}
	// Another backend is tried where the client speaks to the first one already.
	backends := v.dnat[destination].backends
	at := int(uint64(l.tag) * uint64(len(backends)) >> 32)
	for range min(len(backends), maxTries) {
		if tr.dst = withPort(backends[at], uint16(to)); tr.dst == to && source < 0 {
			return 0, false // to itself
		}
		if s.place(source, port, kind, l, tr) {
			return 0, true
		}
		if at++; at == len(backends) {
			at = 0
		}
	}
	return reasonExhausted, false
}

// source returns the snat rule that translates a connection to an address, or -1. Multicast and broadcast stay in the network that they come from, and what is
// for an outside address itself, so that its destination is not translated, is for the router, which would get its own address as the source.
func (s *stage) source(t *tuple, port uint16, to end48, onward bool) int {
	addr := uint32(to >> 16)
	if addr >= 224<<24 {
		return -1
	}
	if _, own := s.nat.byAddr(addr); own != nil && !onward {
		return -1
	}
	return s.settings.nat.source(t, port)
}

// A first packet is worth so many backends, a look at so many unconfirmed connections, which may be evicted, and so many outside ports that other
// connections have to its destination.
const (
	maxTries   = 4
	maxLooks   = minBlock
	maxClashes = 64
)

// place gives the connection its source, an outside port where a rule wants one, so that no other connection has the same ends.
func (s *stage) place(rule int, port uint16, kind int, l *look, tr *translation) bool {
	if rule < 0 {
		tr.src = tr.from
		return s.fits(l, tr)
	}
	for {
		ok, room := s.mapSource(rule, port, kind, l, tr)
		if ok || !room || !s.makeRoom(rule, port, tr) {
			return ok
		}
	}
}

// makeRoom frees a block of the rule, of the source's outside address where it has one already, and reports whether it could. The block is that of the
// port's oldest unconfirmed connection that has one which no other kind of connection keeps; those of its connections that are too far down the list end by the next packets.
func (s *stage) makeRoom(rule int, port uint16, tr *translation) bool {
	t, n := s.table, s.nat
	const noBlock = ^uint32(0)
	target := noBlock
	for at := t.shares[port].head; at != none && tr.looks < maxLooks; {
		number, a := at, &t.aliases[at]
		e := &t.entries[at]
		at = e.next
		tr.looks++
		if e.flags&flagTranslated == 0 || a.snat == noHandle {
			continue
		}
		o, _, mapped := n.of(a.snat)
		b := &o.owners[mapped/o.size]
		home := int(a.snat >> 18)
		if target == noBlock && !o.retired && o.rule == rule && (tr.home < 0 || tr.home == home) && b.kept == 0 {
			target = uint32(home)<<16 | mapped/o.size
		}
		if target != uint32(home)<<16|mapped/o.size {
			continue
		}
		t.remove(number)
		t.shares[port].evicted++
		if b.owner == 0 {
			return true
		}
	}
	return false
}

// fits reports whether no connection has the ends of the translation.
func (s *stage) fits(l *look, tr *translation) bool {
	if tr.asks {
		tr.key = key{tr.src, tr.dst, 0, 0, tr.rest}
	} else {
		tr.key = key{min(tr.src, tr.dst), max(tr.src, tr.dst), 0, 0, tr.rest}
	}
	tr.tag = uint32(tr.key.hash(&s.table.seed))
	other := look{key: tr.key, tag: tr.tag}
	n, _ := s.connection(&other)
	return n == none && tr.key != l.key
}

// mapSource gives the source an outside port: the one that it has, if it has one, which makes the mapping endpoint-independent (RFC 4787, 4.1). If
// not, room reports whether that is for want of a block that others of the port have.
func (s *stage) mapSource(rule int, port uint16, kind int, l *look, tr *translation) (ok, room bool) {
	n, r := s.nat, &s.settings.nat.snat[rule]
	owner := ownerOf(uint16(tr.rest>>16), uint32(tr.from>>16))
	home, blocks := -1, 0
	for _, known := range [...]bool{true, false} {
		blocks = 0
		for link := *n.head(owner); link != 0; {
			number := link - 1
			o, b := n.blockAt(number)
			link = b.next
			if b.owner != owner || o.retired || o.rule != rule {
				continue
			}
			home = int(number >> 16)
			blocks++
			if !known && uint32(b.used[kind]) == o.size {
				continue
			}
			if s.tryBlock(number, kind, known, l, tr) {
				return true, false
			}
			if link = b.next; b.owner != owner { // its last connection has just expired, so the chain has changed
				link, blocks = *n.head(owner), 0
			}
		}
	}
	if blocks >= r.blocks || tr.clashes == maxClashes {
		return false, false
	}
	tr.home = home
	use := &n.rules[rule]
	if int(use.byPort[port]) >= r.perPort {
		return false, true
	}
	at := n.choose(use, home, owner)
	if at < 0 {
		return false, true
	}
	return s.tryBlock(n.newBlock(at, owner, port), kind, false, l, tr), false
}

// choose returns the outside address that an inside address gets a block of: that of its other blocks, or the first by its
// hash that has one free; -1 if there is none.
func (n *nat) choose(use *natUse, home int, owner uint64) int {
	if home >= 0 {
		if n.outside[home].freeLen == 0 {
			return -1
		}
		return home
	}
	first := int((owner * (n.seed | 1) >> 32) * uint64(len(use.order)) >> 32)
	for i := range use.order {
		at := int(use.order[(first+i)%len(use.order)])
		if n.outside[at].freeLen != 0 {
			return at
		}
	}
	return -1
}

// tryBlock looks for a mapping of the source in a block, one that it has or a free one, and holds it. A block may be free after it: one that was
// taken for nothing, or whose connections have expired.
func (s *stage) tryBlock(number uint32, kind int, known bool, l *look, tr *translation) bool {
	o, b := s.nat.blockAt(number)
	inside := uint16(tr.from)
	for step := uint32(0); tr.clashes < maxClashes; step++ {
		at, found, ok := o.take(number&0xffff, kind, inside, step, known)
		if !ok {
			break
		}
		step = found
		before := tr.snat
		tr.src = uint64(o.addr)<<16 | (uint64(o.low) + uint64(at))
		tr.snat = o.handle(int(number>>16), kind, at)
		o.mappings[kind][at].port = inside
		b.reach[kind] = max(b.reach[kind], uint16(step)+1)
		s.nat.hold(tr.snat) // first: to look for the other ends may remove what has expired
		s.nat.release(before)
		if s.fits(l, tr) {
			return true
		}
		tr.clashes++
	}
	s.nat.release(tr.snat)
	tr.snat = noHandle
	return false
}

// translate changes the packet of a translated connection, which goes in a direction.
func (s *stage) translate(b *packet.Batch, p *packet.Packet, n uint32, dir uint8) {
	src, dst := s.table.leaving(n, dir)
	s.rewrite(b, p, src, dst)
	s.changed.add(p)
}

// changed are the packets of a batch that have other ends now, as a parser that reads them again wants them.
type changed struct {
	parse pipeline.Stage // nil: no stage needs what it computes
	batch packet.Batch
	of    [packet.BatchSize]*packet.Packet
	any   bool
}

func (c *changed) add(p *packet.Packet) {
	c.any = true
	if c.parse != nil {
		c.of[len(c.batch.Pkts)] = p
		c.batch.Pkts = append(c.batch.Pkts, *p) // never grows
	}
}

// finish gives the packets the flow hash and the id of what they are now.
func (c *changed) finish(b *packet.Batch) {
	c.any = false
	b.Flows = b.Flows[:0]
	if len(c.batch.Pkts) == 0 {
		return
	}
	c.batch.Mem, c.batch.Now, c.batch.Dropped = b.Mem, b.Now, 0
	c.parse.Process(&c.batch)
	for i := range c.batch.Pkts {
		p, q := c.of[i], &c.batch.Pkts[i]
		p.FlowHash, p.ID = q.FlowHash, q.ID
		c.of[i] = nil
	}
	c.batch.Pkts = c.batch.Pkts[:0]
}

// leaving returns the ends of a translated connection's packets in a direction, as they leave.
func (t *table) leaving(n uint32, dir uint8) (src, dst end48) {
	e, a := &t.entries[n], &t.aliases[n]
	if dir == 0 {
		if a.fromFirst {
			return a.key[0], a.key[1]
		}
		return a.key[1], a.key[0]
	}
	if e.flags&flagFromFirst != 0 {
		return e.key[1], e.key[0]
	}
	return e.key[0], e.key[1]
}

// stillTranslated reports whether rules that are newer than a connection translate it as it is.
func (s *stage) stillTranslated(n uint32, t *tuple) bool {
	e := &s.table.entries[n]
	if e.key.is6() || s.nat == nil {
		return true
	}
	v := &s.settings.nat
	destination := v.destination(t, e.inPort)
	to, _ := s.table.leaving(n, 1) // where the one that began it sent to
	mapped := e.flags&flagTranslated != 0 && s.table.aliases[n].dnat != noHandle
	source := s.source(t, e.inPort, to, destination >= 0 || mapped)
	if e.flags&flagTranslated == 0 {
		return source < 0 && (destination < 0 || v.dnat[destination].has(to, uint16(to)))
	}
	a := &s.table.aliases[n]
	if (a.snat == noHandle) != (source < 0) {
		return false
	}
	if source >= 0 {
		if o, _, _ := s.nat.of(a.snat); o.retired || o.rule != source {
			return false
		}
	}
	if mapped {
		o, _, _ := s.nat.of(a.dnat)
		return destination < 0 && !o.retired && v.snat[o.rule].independent
	}
	_, leaves := s.table.leaving(n, 0)
	if destination < 0 {
		return leaves == to
	}
	return v.dnat[destination].has(leaves, uint16(to))
}
