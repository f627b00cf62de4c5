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
	of map[string]uint64 // records
}

// maxEvictions bounds what is remembered of evictions: of older ones together.
const maxEvictions = 4096

// remember appends an eviction to those of before, which views may hold: they are
// not changed.
func remember(all []eviction, e eviction) []eviction {
	if len(all) < maxEvictions {
		return append(all, e)
	}
	old := eviction{of: map[string]uint64{}}
	for _, o := range all[:maxEvictions/2] {
		old.Window = old.join(o.Window)
		for of, n := range o.of {
			old.of[of] += n
		}
	}
	return append(append([]eviction{old}, all[maxEvictions/2:]...), e)
}

// evictedIn is how many records of a measurement had to make room in a window, or in
// slices beside it of which no more is known.
func (s *Store) evictedIn(of string, w Window) (n uint64) {
	for i := range s.evicted {
		if e := &s.evicted[i]; e.Overlaps(w) {
			n += e.of[of]
		}
	}
	return n
}

// sender numbers its batches of digests.
type sender struct {
	sw        uint32
	partition uint16
	boot      uint64
}

// gap is what a window lacks of one partition of a switch.
type gap struct{ records, digests uint64 }

// gaps finds which numbers of batches are missing, with the digests that were in them.
// A batch that is missing was sent between its neighbours, so a gap belongs to all
// windows that hold a part of that time. What was sent before the first
// batch that is here, or behind the last, nobody can know.
func (s *Store) gaps(w Window) map[sender]gap {
	bySender := map[sender][]Batch{}
	note := func(b Batch) {
		from := sender{b.Switch, b.Instance, b.Boot}
		bySender[from] = append(bySender[from], b)
	}
	for _, part := range s.sent {
		for _, e := range part {
			note(Batch{e.origin, e.batch})
		}
	}
	if s.sent == nil {
		for _, b := range s.Batches {
			note(b)
		}
	}
	found := map[sender]gap{}
	for from, list := range bySender {
		slices.SortFunc(list, func(a, b Batch) int { return cmp.Compare(a.Sequence, b.Sequence) })
		var g gap
		for i := 1; i < len(list); i++ {
			a, b := &list[i-1], &list[i]
			lost := b.Sequence - a.Sequence
			// At the edge of what is kept, one between them may have had to make room.
			if edge := len(s.evicted) > 0 && min(a.From, b.From) < s.keptFrom+1<<shelfBits; edge {
				continue
			}
			if lost <= 1 || !w.Overlaps(Window{min(a.From, b.From), max(a.To, b.To)}) {
				continue
			}
			g.records = sum(g.records, lost-1)
			if before := a.Sent + uint64(a.Len()); b.Sent > before {
				g.digests = sum(g.digests, b.Sent-before)
			}
		}
		if g != (gap{}) {
			found[from] = g
		}
	}
	return found
}

// sum stays at what signed numbers hold: senders choose the terms.
func sum(a, b uint64) uint64 { return min(min(a, math.MaxInt64)+min(b, math.MaxInt64), math.MaxInt64) }

// missingDigests adds what gaps and evictions tell to what is known of a measurement.
func (s *Store) missingDigests(w Window, found map[source]*Missing) {
	gaps := s.gaps(w)
	for _, from := range slices.SortedFunc(maps.Keys(gaps), func(a, b sender) int { return cmp.Compare(a.boot, b.boot) }) {
		at := source{from.sw, from.partition}
		if found[at] == nil {
			found[at] = &Missing{Switch: s.Name(from.sw), Of: OfDigests, Instance: from.partition}
		}
		found[at].Lost = sum(found[at].Lost, gaps[from].records)
		found[at].Packets = sum(found[at].Packets, gaps[from].digests)
	}
}
