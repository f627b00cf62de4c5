package conntrack

import "fmt"

// audit holds all that a table says against each other: slots and connections, lists and shares, connections and mappings. It is not for the packet path.
func (t *table) audit(worker int) error {
	slots, inUse, aliases := 0, 0, 0
	for _, s := range t.slots {
		if s != 0 {
			slots++
		}
	}
	if slots > len(t.slots)/2 {
		return fmt.Errorf("%d of %d slots are in use", slots, len(t.slots))
	}
	used := make([]uint32, len(t.shares))
	held, kept := map[handle]uint32{}, map[uint32]int32{}
	for i := range t.entries {
		e := &t.entries[i]
		if e.flags&flagInUse == 0 {
			continue
		}
		inUse++
		if !e.portsWithin(len(used)) {
			return fmt.Errorf("connection %d is of port %d, and of ports %d and %d", i, e.payer, e.inPort, e.replyPort)
		}
		used[e.payer]++
		if n, byAlias := t.find(&e.key, uint32(e.key.hash(&t.seed))); n != uint32(i) || byAlias {
			return fmt.Errorf("connection %d is not found by its key", i)
		}
		if e.flags&flagTranslated == 0 {
			continue
		}
		aliases++
		a := &t.aliases[i]
		if n, byAlias := t.find(&a.key, uint32(a.key.hash(&t.seed))); n != uint32(i) || !byAlias {
			return fmt.Errorf("connection %d is not found by its translated key", i)
		}
		for k, h := range [...]handle{a.snat, a.dnat} {
			if h == noHandle {
				continue
			}
			if int(h>>18) >= len(t.nat.outside) || !t.nat.outside[h>>18].gives(uint16(h)) || h>>16&3 >= natKinds {
				return fmt.Errorf("connection %d has mapping %x", i, uint32(h))
			}
			held[h]++
			if o, _, at := t.nat.of(h); k == 1 || e.flags&flagConfirmed != 0 {
				kept[uint32(h>>18)<<16|at/o.size]++
			}
		}
	}
	if inUse != int(t.used) || slots != inUse+aliases {
		return fmt.Errorf("%d slots are of %d connections, %d of them translated, and %d are counted", slots, inUse, aliases, t.used)
	}
	free := 0
	for at := t.free; at != none; at = t.entries[at].next {
		if free++; free > len(t.entries)-inUse || t.entries[at].flags&flagInUse != 0 {
			return fmt.Errorf("the list of free connections has %d, or more", free)
		}
	}
	if free != len(t.entries)-inUse {
		return fmt.Errorf("%d of %d connections are in use, and %d in the list of free ones", inUse, len(t.entries), free)
	}
	for port := range t.shares {
		if err := t.auditShare(port, used[port]); err != nil {
			return err
		}
	}
	return t.auditNAT(worker, held, kept)
}

func (t *table) auditShare(port int, used uint32) error {
	s := &t.shares[port]
	listed, last := uint32(0), none
	for at := s.head; at != none; at = t.entries[at].next {
		e := &t.entries[at]
		if listed++; listed > s.unconfirmed || e.flags&(flagInUse|flagConfirmed) != flagInUse || int(e.payer) != port || e.prev != last {
			return fmt.Errorf("connection %d is in the list of port %d", at, port)
		}
		last = at
	}
	if used != s.used || listed != s.unconfirmed || s.tail != last {
		return fmt.Errorf("port %d has %d connections and %d in its list: %+v", port, used, listed, *s)
	}
	return nil
}

// auditNAT holds the mappings against the connections that hold them, and those because of which blocks are kept.
func (t *table) auditNAT(worker int, held map[handle]uint32, kept map[uint32]int32) error {
	if t.nat == nil {
		return nil
	}
	for number := range t.nat.outside {
		o := &t.nat.outside[number]
		used, free := uint32(0), uint32(0)
		for kind := range o.mappings {
			for at := range o.mappings[kind] {
				m, h := &o.mappings[kind][at], o.handle(number, kind, uint32(at))
				if m.refs != held[h] {
					return fmt.Errorf("outside port %d of kind %d: %d connections have it, and %d are counted", uint32(o.low)+uint32(at), kind, held[h], m.refs)
				}
				if m.refs != 0 {
					used++
				}
			}
		}
		for b := range o.owners {
			w, mine := &o.owners[b], int(o.outsideSpec.owner(uint32(b), t.nat.workers)) == worker
			if w.kept != kept[uint32(number)<<16|uint32(b)] || !mine && w.owner != 0 {
				return fmt.Errorf("block %d: %d connections keep it: %+v", b, kept[uint32(number)<<16|uint32(b)], *w)
			}
			if mine && w.owner == 0 {
				free++
			}
		}
		if used != o.used || free != o.freeLen {
			return fmt.Errorf("outside address %v has %d mappings and %d free blocks, and %d and %d are counted", addrOf(o.addr), used, free, o.used, o.freeLen)
		}
	}
	return nil
}
