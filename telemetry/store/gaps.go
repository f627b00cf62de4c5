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

// sent is a batch as others of its sender see it.
type sent struct {
	sender
	Window
	sequence uint64
	before   uint64 // digests that were sent before
	digests  uint64
}

func sentOf(b *Batch) sent {
	return sent{sender{b.Switch, b.Instance, b.Boot}, b.Window, b.Sequence, b.Sent, uint64(b.Len())}
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
	bySender := map[sender]*[]*sent{}
	var list *[]*sent
	var last sender
	note := func(b *sent) {
		if list == nil || b.sender != last { // batches of a sender mostly come one behind the other
			if list, last = bySender[b.sender], b.sender; list == nil {
				list = new([]*sent)
				bySender[last] = list
			}
		}
		*list = append(*list, b)
	}
	for _, part := range s.sent {
		for i := range part {
			note(&part[i])
		}
	}
	if s.sent == nil {
		for i := range s.Batches {
			b := sentOf(s.Batches[i])
			note(&b)
		}
	}
	for _, list := range bySender {
		found = append(found, s.gapsOf(*list)...)
	}
	return found
}

// gapsOf finds the gaps of one sender, and puts its batches in order.
func (s *Store) gapsOf(list []*sent) (found []gap) {
	bySequence := func(a, b *sent) int { return cmp.Compare(a.sequence, b.sequence) }
	if !slices.IsSortedFunc(list, bySequence) { // as they are if they came as they were sent
		slices.SortFunc(list, bySequence)
	}
	for i := 1; i < len(list); i++ {
		a, b := list[i-1], list[i]
		lost := b.sequence - a.sequence
		// At the edge of what is kept, one between them may have had to make room.
		if lost <= 1 || s.edge(a.sw, min(a.From, b.From)) {
			continue
		}
		g := gap{sender: a.sender, Window: Window{min(a.From, b.From), max(a.To, b.To)}, records: lost - 1}
		if before := a.before + a.digests; b.before > before {
			g.digests = b.before - before
		}
		found = append(found, g)
	}
	return found
}

// sum stays at what signed numbers hold: senders choose the terms.
func sum(a, b uint64) uint64 { return min(min(a, math.MaxInt64)+min(b, math.MaxInt64), math.MaxInt64) }

// missingDigests adds what gaps show to what is known of a measurement.
func (s *Store) missingDigests(w Window, found map[source]*Missing) {
	all := s.gaps()
	for i := range all {
		g := &all[i]
		if !w.Overlaps(g.Window) {
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
