package conntrack

// table has the connections of one worker. Nothing else reads or writes it.
//
// Slots are an open-addressed hash table with linear probing, at most half full. A slot has the low half of the key's hash,
// which says where the search begins, and one more than the number of the connection:
//
//	slot    63            32 31      30          0
//	        |      tag       | alias | number + 1 |
//
// A connection whose addresses are translated has a second slot, alias, for its ends as they are on the other side.
//
// A slot is freed by moving back those after it that would no longer be found, so there are no marks of deleted ones, and a
// table that was full once is as fast as a new one.
type table struct {
	arrays
	mask    uint32 // len(slots) - 1
	nat     *nat   // whose mappings aliases hold; nil: there are no aliases
	seed    hashSeed
	free    uint32 // the first free entry, by entry.next
	used    uint32
	sweeper uint32 // where sweep goes on
	shares  []share
}

// none is the number of no entry.
const none = ^uint32(0)

// entry is a connection: two cache lines, of which only TCP needs the second one.
type entry struct {
	key        key
	deadline   uint32 // tick from which on the connection is gone
	prev, next uint32 // in its share's list of unconfirmed ones; next also in the list of free ones
	payer      uint16 // the port whose share it counts for
	inPort     uint16 // the port from which it was begun, or went on
	replyPort  uint16 // the port from which it was answered; noPort before
	generation uint16 // of the settings whose rules permitted it
	state      uint8  // of TCP
	flags      flags
	_          uint16

	tcp   tcp
	since uint32 // tick in which it was begun
}

// alias is the other side of a connection whose addresses are translated: one cache line.
type alias struct {
	key        key    // of the ends that its packets have when they left
	snat, dnat handle // mappings that it holds
	fromFirst  bool   // the key's first end is the side that began it
	_          [15]byte
}

// aliasBit marks the slot of an alias.
const aliasBit = 1 << 31

// noPort is the port of what has not come yet.
const noPort = ^uint16(0)

type flags uint8

const (
	flagInUse      flags = 1 << iota
	flagFromFirst        // the key's first end began it
	flagReplied          // it was answered
	flagConfirmed        // it is not for eviction: TCP that both sides took up, a stream of UDP
	flagTranslated       // it has an alias
)

// share is a port's part of the table. A connection counts for the port that began it.
type share struct {
	limit, used uint32
	// head and tail are of the list of unconfirmed connections, the oldest first.
	head, tail  uint32
	unconfirmed uint32
	shareCounters
}

// shareCounters count since the start.
type shareCounters struct{ begun, evicted, expired, denied, full uint64 }

// ticks are units of 2^20 ns, about a millisecond; they wrap after 52 days.
const tickShift = 20

// newTable returns a table for a number of connections, whose addresses can be translated if there is a nat.
func newTable(connections int, seed hashSeed, translator *nat, m *memory) *table {
	t := &table{arrays: m.arrays(connections, translator != nil), seed: seed, nat: translator}
	t.mask = uint32(len(t.slots) - 1)
	for i := range t.entries {
		t.entries[i].next = uint32(i) + 1
	}
	t.entries[connections-1].next = none
	return t
}

// setShares gives each port its limit. New ports have no connections.
func (t *table) setShares(limits []uint32) {
	for len(t.shares) < len(limits) {
		t.shares = append(t.shares, share{head: none, tail: none})
	}
	for i := range t.shares {
		t.shares[i].limit = 0
		if i < len(limits) {
			t.shares[i].limit = limits[i]
		}
	}
}

// find returns the number of a key's connection, or none, and whether the key is that of its alias.
func (t *table) find(k *key, tag uint32) (number uint32, byAlias bool) {
	for at := tag & t.mask; ; at = (at + 1) & t.mask {
		s := t.slots[at]
		if s == 0 {
			return none, false
		}
		if uint32(s>>32) == tag {
			n := uint32(s)&^aliasBit - 1
			if s&aliasBit == 0 {
				if t.entries[n].key == *k {
					return n, false
				}
			} else if t.aliases[n].key == *k {
				return n, true
			}
		}
	}
}

// direction returns that of a packet of a connection: 0 from the side that began it.
func (t *table) direction(n uint32, l *look, byAlias bool) uint8 {
	fromFirst := t.entries[n].flags&flagFromFirst != 0
	if byAlias {
		fromFirst = t.aliases[n].fromFirst
	}
	if l.fromFirst == fromFirst {
		return 0
	}
	return 1
}

// evict removes the oldest unconfirmed connection that a port pays for, and reports whether there was one.
func (t *table) evict(port uint16) bool {
	s := &t.shares[port]
	if s.head == none {
		return false
	}
	t.remove(s.head)
	s.evicted++
	return true
}

// add makes an entry for a key that is not in the table, which the port pays for. At the limit of its share, the oldest
// unconfirmed connection of the port makes room; where there is none, none is returned.
func (t *table) add(k *key, tag uint32, port uint16) uint32 {
	s := &t.shares[port]
	if s.used >= s.limit || t.free == none {
		if !t.evict(port) {
			s.full++
			return none
		}
	}
	n := t.free
	e := &t.entries[n]
	t.free = e.next
	t.used++
	*e = entry{key: *k, payer: port, inPort: port, replyPort: noPort, flags: flagInUse, prev: s.tail, next: none}
	if s.tail == none {
		s.head = n
	} else {
		t.entries[s.tail].next = n
	}
	s.tail = n
	s.used++
	s.unconfirmed++
	s.begun++
	t.insert(tag, n+1)
	return n
}

func (t *table) insert(tag, low uint32) {
	at := tag & t.mask
	for t.slots[at] != 0 {
		at = (at + 1) & t.mask
	}
	t.slots[at] = uint64(tag)<<32 | uint64(low)
}

// addAlias notes how a connection is translated.
func (t *table) addAlias(n uint32, tr *translation) {
	t.aliases[n] = alias{key: tr.key, snat: tr.snat, dnat: tr.dnat, fromFirst: tr.asks || tr.src < tr.dst}
	t.entries[n].flags |= flagTranslated
	t.nat.keep(tr.dnat, 1)
	t.insert(tr.tag, n+1|aliasBit)
}

// confirm takes a connection out of the list of those that can be evicted.
func (t *table) confirm(n uint32) {
	e := &t.entries[n]
	if e.flags&flagConfirmed == 0 {
		t.unlink(e)
		e.flags |= flagConfirmed
		if e.flags&flagTranslated != 0 {
			t.nat.keep(t.aliases[n].snat, 1)
		}
	}
}

func (t *table) unlink(e *entry) {
	s := &t.shares[e.payer]
	if e.prev == none {
		s.head = e.next
	} else {
		t.entries[e.prev].next = e.next
	}
	if e.next == none {
		s.tail = e.prev
	} else {
		t.entries[e.next].prev = e.prev
	}
	s.unconfirmed--
}

// remove frees a connection.
func (t *table) remove(n uint32) {
	e := &t.entries[n]
	t.erase(&e.key, n+1)
	if e.flags&flagTranslated != 0 {
		a := &t.aliases[n]
		t.erase(&a.key, n+1|aliasBit)
		if e.flags&flagConfirmed != 0 {
			t.nat.keep(a.snat, -1)
		}
		t.nat.keep(a.dnat, -1)
		t.nat.release(a.snat)
		t.nat.release(a.dnat)
	}
	if e.flags&flagConfirmed == 0 {
		t.unlink(e)
	}
	t.shares[e.payer].used--
	e.flags = 0
	e.next = t.free
	t.free = n
	t.used--
}

// erase frees the slot of a key.
func (t *table) erase(k *key, low uint32) {
	at := uint32(k.hash(&t.seed)) & t.mask
	for uint32(t.slots[at]) != low {
		at = (at + 1) & t.mask
	}
	t.clear(at)
}

// clear frees a slot, and moves back those of the same run whose search would end there.
func (t *table) clear(at uint32) {
	for next := at; ; {
		next = (next + 1) & t.mask
		s := t.slots[next]
		if s == 0 {
			break
		}
		// Whether the slot's search begins at or before the free one, both counted from the slot back.
		if home := uint32(s>>32) & t.mask; (next-home)&t.mask >= (next-at)&t.mask {
			t.slots[at] = s
			at = next
		}
	}
	t.slots[at] = 0
}

// sweep frees what has expired among the next so many entries.
func (t *table) sweep(many int, now uint32) {
	for range min(many, len(t.entries)) {
		e := &t.entries[t.sweeper]
		if e.flags&flagInUse != 0 && e.expired(now) {
			t.shares[e.payer].expired++
			t.remove(t.sweeper)
		}
		if t.sweeper++; int(t.sweeper) == len(t.entries) {
			t.sweeper = 0
		}
	}
}

// expired reports whether the time of a connection is over. Ticks wrap, so they are compared by their difference.
func (e *entry) expired(now uint32) bool { return int32(e.deadline-now) <= 0 }
