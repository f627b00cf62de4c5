package store

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// eviction is what had to make room at once.
type eviction struct {
	Window
	of      map[string]uint64 // records
	arrived int64             // when the last of them came, ns of CLOCK_TAI; 0: that is not known
}

// maxEvictions bounds what is remembered of evictions: of older ones together.
const (
	maxEvictions    = 4096
	maxOwnEvictions = 64 // of a switch that held more than its share
)

// ownEvictions are what a switch lost because it held more than its share.
type ownEvictions struct {
	evicted  []eviction
	keptFrom int64 // its slices before had to make room
}

// remember appends an eviction to those of before, which views may hold: they are
// not changed. Of more than most the older half is joined.
func remember(all []eviction, e eviction, most int) []eviction {
	if len(all) < most {
		return append(all, e)
	}
	old := eviction{of: map[string]uint64{}}
	for _, o := range all[:most/2] {
		old.Window, old.arrived = old.Join(o.Window), max(old.arrived, o.arrived)
		for of, n := range o.of {
			old.of[of] += n
		}
	}
	return append(append([]eviction{old}, all[most/2:]...), e)
}

// add adds a record.
func (e *eviction) add(of string, w Window, arrived int64) {
	e.of[of]++
	e.Window, e.arrived = e.Join(w), max(e.arrived, arrived)
}

// The bounds of what is remembered of records that came too late: they are joined with one of the last few of the same second, in which they came and of which
// they are.
const (
	maxRefused = 4096
	lastFew    = 8
)

// refuse remembers a record that came after the others of its time had to make room.
func (l *Live) refuse(e *entry) {
	arrived := e.arrived()
	for i := len(l.refused) - 1; i >= max(len(l.refused)-lastFew, 0); i-- {
		if r := &l.refused[i]; r.From>>bucketBits == e.start>>bucketBits && r.arrived>>bucketBits == arrived>>bucketBits {
			r.add(e.of, e.origin.Window, arrived)
			return
		}
	}
	one := eviction{Window: e.origin.Window, of: map[string]uint64{}}
	one.add(e.of, e.origin.Window, arrived)
	l.refused = remember(l.refused, one, maxRefused)
}

// unarchived are evictions without what is archived: what came until a time, by measurement.
func unarchived(all []eviction, archived map[string]int64) (list []eviction) {
	for _, e := range all {
		arrived := cmp.Or(e.arrived, e.To) // which is about when records come
		left := eviction{e.Window, maps.Clone(e.of), e.arrived}
		maps.DeleteFunc(left.of, func(of string, _ uint64) bool { return arrived <= archived[of] })
		if len(left.of) != 0 {
			list = append(list, left)
		}
	}
	return list
}

// evictedIn is how many records of a measurement had to make room in a window, or in
// slices beside it of which no more is known.
func (s *Store) evictedIn(of string, w Window) uint64 { return evictedIn(s.evicted, of, w) }

func evictedIn(all []eviction, of string, w Window) (n uint64) {
	for i := range all {
		if e := &all[i]; e.Overlaps(w) {
			n += e.of[of]
		}
	}
	return n
}

// edge reports whether records of a switch next to a time may have had to make room.
func (s *Store) edge(sw uint32, at int64) bool {
	own, crowded := s.own[sw]
	return len(s.evicted) > 0 && at < s.keptFrom+1<<bucketBits || crowded && at < own.keptFrom+1<<bucketBits
}

// sender numbers its batches of digests.
type sender struct {
	sw        uint32
	partition uint16
	boot      uint64
}

// gap is what is missing between two batches of a sender, and the time from the one
// to the other.
type gap struct {
	sender
	Window
	records, digests uint64
}

// sent is what the numbers of a batch say: not the batch itself, whose memory is not kept for it.
type sent struct {
	Window
	sequence uint64
	before   uint64 // digests that were sent before
	digests  uint64
}

func sentOf(b *Batch) sent { return sent{b.Window, b.Sequence, b.Sent, uint64(b.Len())} }

// compare orders the batches of a sender. Of a number there are several only where they are forged.
func (s sent) compare(o sent) int {
	return cmp.Or(cmp.Compare(s.sequence, o.sequence), cmp.Compare(s.From, o.From))
}

func senderOf(b *Batch) sender { return sender{b.Switch, b.Instance, b.Boot} }

// sentBatches are those of a sender. Mostly they come in the order of their numbers, and those that came first make room first.
type sentBatches struct {
	// list has the batches in the order of their numbers. A stale one is not in order, and has some that had to make room.
	list  []sent
	held  int   // of list
	jumps []gap // between those of list, where it is not stale
	stale bool
}

// spare is how many batches more than it holds a stale list may have, beside as many again.
const spare = 64

// noteSent notes a batch that came.
func (l *Live) noteSent(b *Batch) {
	key, x := senderOf(b), sentOf(b)
	of := l.senders[key]
	if of == nil {
		of = new(sentBatches)
		l.senders[key] = of
	}
	if n := len(of.list); n > 0 && !of.stale {
		if last := of.list[n-1]; last.sequence >= x.sequence {
			l.spoil(of, key)
		} else if x.sequence-last.sequence > 1 {
			of.jumps = append(of.jumps, jump(key, last, x))
			l.jumping[key], l.jumped = of, nil
		}
	}
	of.list = append(of.list, x)
	of.held++
}

// spoil notes that a list is not in order any more.
func (l *Live) spoil(of *sentBatches, key sender) {
	of.stale, of.jumps = true, nil
	l.noJumps(key)
	l.stale[key] = of
}

func (l *Live) noJumps(key sender) {
	if l.jumping[key] != nil {
		delete(l.jumping, key)
		l.jumped = nil
	}
}

// forgetSent forgets a batch that has to make room; floorOf has its second already.
func (l *Live) forgetSent(b *Batch) {
	key := senderOf(b)
	of := l.senders[key]
	of.held--
	switch first := of.list[0]; {
	case of.held == 0:
		delete(l.senders, key)
		delete(l.stale, key)
		l.noJumps(key)
	case of.stale:
	case first.sequence != b.Sequence || first.From != b.From:
		l.spoil(of, key)
	default:
		if of.list[1].sequence-first.sequence > 1 {
			if of.jumps, l.jumped = of.jumps[1:], nil; len(of.jumps) == 0 {
				l.noJumps(key)
			}
		}
		of.list = of.list[1:]
	}
	if of.stale && len(of.list) > 2*of.held+spare { // a new list: a view may be reading this one
		of.list = heldOf(of.list, l.floorOf(key.sw))
	}
}

// floorOf is the second up to which the batches of a switch had to make room.
func (l *Live) floorOf(sw uint32) int64 {
	floor := int64(math.MinInt64)
	if l.evicts {
		floor = l.floor
	}
	if of := l.switches[sw]; of != nil && of.evicts {
		floor = max(floor, of.floor)
	}
	return floor
}

// heldOf is a list without what had to make room.
func heldOf(list []sent, floor int64) []sent {
	held := make([]sent, 0, len(list)+1)
	for _, x := range list {
		if x.From>>bucketBits > floor {
			held = append(held, x)
		}
	}
	return held
}

// allSent is what the numbers of all senders' batches say, at a time.
type allSent struct {
	jumps [][]gap
	stale []staleList // not yet among them
}

// staleList is a stale list, and what of it is held.
type staleList struct {
	sender
	of    *sentBatches
	list  []sent
	floor int64
}

// allSent takes it down. The caller has the lock.
func (l *Live) allSent() (all allSent) {
	if len(l.jumping) > 0 && l.jumped == nil {
		for _, of := range l.jumping { // to which gaps are appended, and from whose beginning they are taken
			l.jumped = append(l.jumped, of.jumps[:len(of.jumps):len(of.jumps)])
		}
	}
	all.jumps = l.jumped[:len(l.jumped):len(l.jumped)]
	if len(l.stale) > 0 {
		for key, of := range l.stale {
			all.stale = append(all.stale, staleList{key, of, of.list, l.floorOf(key.sw)})
		}
	}
	return all
}

// order puts stale lists in order and finds their jumps, without the lock. They are stale no more, where nothing came or went meanwhile.
func (l *Live) order(all *allSent) {
	for i := range all.stale {
		x := &all.stale[i]
		list := heldOf(x.list, x.floor)
		slices.SortFunc(list, sent.compare)
		jumps := jumpsOf(x.sender, list)
		all.jumps = append(all.jumps, jumps[:len(jumps):len(jumps)])
		l.mu.Lock()
		if now := l.stale[x.sender]; now == x.of && now.held == len(list) && len(now.list) == len(x.list) && &now.list[0] == &x.list[0] {
			now.list, now.jumps, now.stale = list, jumps, false
			if delete(l.stale, x.sender); len(jumps) > 0 {
				l.jumping[x.sender], l.jumped = now, nil
			}
		}
		l.mu.Unlock()
	}
	all.stale = nil
}

// jumpsOf are the jumps between batches of a sender, which are in order.
func jumpsOf(of sender, list []sent) (found []gap) {
	for i := 1; i < len(list); i++ {
		if list[i].sequence-list[i-1].sequence > 1 {
			found = append(found, jump(of, list[i-1], list[i]))
		}
	}
	return found
}

// jump is what is missing between two batches of a sender: a gap, unless one between them had to make room.
func jump(of sender, a, b sent) gap {
	g := gap{sender: of, Window: Window{min(a.From, b.From), max(a.To, b.To)}, records: b.sequence - a.sequence - 1}
	if before := a.before + a.digests; b.before > before {
		g.digests = b.before - before
	}
	return g
}

// gaps finds which numbers of batches are missing, with the digests that were in them.
// A batch that is missing was sent between its neighbours, so a gap belongs to all
// windows that hold a part of that time. What was sent before the first
// batch that is here, or behind the last, is unknown.
func (s *Store) gaps() []gap {
	if s.memo != nil {
		return s.memo.gaps()
	}
	return s.findGaps()
}

func (s *Store) findGaps() (found []gap) {
	if s.view {
		found = slices.Concat(s.sent.jumps...)
	} else {
		senders := map[sender][]sent{}
		for _, b := range s.Batches {
			senders[senderOf(b)] = append(senders[senderOf(b)], sentOf(b))
		}
		for of, list := range senders {
			slices.SortFunc(list, sent.compare)
			found = append(found, jumpsOf(of, list)...)
		}
	}
	// At the edge of what is kept, one between them may have had to make room.
	return slices.DeleteFunc(found, func(g gap) bool { return s.edge(g.sw, g.From) })
}

// sum stays at what signed numbers hold: senders choose the terms.
func sum(a, b uint64) uint64 { return min(min(a, math.MaxInt64)+min(b, math.MaxInt64), math.MaxInt64) }

// missingDigests adds what gaps show to what is known of a measurement.
func (s *Store) missingDigests(w Window, partition int, found map[source]*Missing) {
	all := s.gaps()
	for i := range all {
		g := &all[i]
		if !w.Overlaps(g.Window) || partition != AllPartitions && int(g.partition) != partition {
			continue
		}
		at := source{g.sw, g.partition}
		m := found[at]
		if m == nil {
			m = &Missing{Switch: s.Name(g.sw), Of: OfDigests, Instance: g.partition}
			found[at] = m
		}
		m.Lost, m.Packets = sum(m.Lost, g.records), sum(m.Packets, g.digests)
	}
}
