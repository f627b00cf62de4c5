package store

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
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

// sentBatches are those of a sender, in the order of their numbers.
type sentBatches struct {
	list  []*Batch
	jumps []gap // between them
	stale bool  // jumps is not of list as it is
}

// bySequence orders the batches of a sender.
func bySequence(a, b *Batch) int { return cmp.Compare(a.Sequence, b.Sequence) }

func senderOf(b *Batch) sender { return sender{b.Switch, b.Instance, b.Boot} }

// sent notes a batch of its sender. Mostly it is the next one.
func (l *Live) sent(b *Batch) {
	of := l.senders[senderOf(b)]
	if of == nil {
		of = new(sentBatches)
		l.senders[senderOf(b)] = of
	}
	n := len(of.list)
	if n == 0 || of.list[n-1].Sequence < b.Sequence && b.Sequence-of.list[n-1].Sequence == 1 {
		of.list = append(of.list, b)
		return
	}
	at := sort.Search(n, func(i int) bool { return of.list[i].Sequence > b.Sequence })
	of.list = slices.Insert(of.list, at, b)
	l.changed(of, senderOf(b))
}

// unsent forgets a batch that had to make room. Mostly it is the first one.
func (l *Live) unsent(b *Batch) {
	key := senderOf(b)
	of := l.senders[key]
	at, _ := slices.BinarySearchFunc(of.list, b, bySequence)
	at += slices.Index(of.list[at:], b)
	if at == 0 {
		of.list[0], of.list = nil, of.list[1:]
	} else {
		of.list = slices.Delete(of.list, at, at+1)
	}
	if len(of.list) == 0 {
		delete(l.senders, key)
		delete(l.jumping, key)
	} else if at > 0 || len(of.jumps) > 0 || of.stale {
		l.changed(of, key)
	}
}

func (l *Live) changed(of *sentBatches, key sender) {
	of.stale = true
	l.jumping[key] = of
}

// jumps are all there are.
func (l *Live) jumps() (all []gap) {
	for key, of := range l.jumping {
		if of.stale {
			of.jumps, of.stale = jumpsOf(of.list), false
		}
		if all = append(all, of.jumps...); len(of.jumps) == 0 {
			delete(l.jumping, key)
		}
	}
	return all
}

// jumpsOf finds where numbers of a sender's batches are missing, which are in order.
func jumpsOf(list []*Batch) (found []gap) {
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		if b.Sequence-a.Sequence <= 1 {
			continue
		}
		g := gap{sender: senderOf(a), Window: Window{min(a.From, b.From), max(a.To, b.To)}, records: b.Sequence - a.Sequence - 1}
		if before := a.Sent + uint64(a.Len()); b.Sent > before {
			g.digests = b.Sent - before
		}
		found = append(found, g)
	}
	return found
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
		found = slices.Clone(s.jumps)
	} else {
		senders := map[sender][]*Batch{}
		for _, b := range s.Batches {
			senders[senderOf(b)] = append(senders[senderOf(b)], b)
		}
		for _, list := range senders {
			slices.SortFunc(list, bySequence)
			found = append(found, jumpsOf(list)...)
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
