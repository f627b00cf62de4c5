package oblivious

import (
	"math"
	"slices"
)

// store holds the entries of a sampler in slots, column by column: what is
// compared apart from what is only kept. A slot is found by its rank.
type store struct {
	values, ids []uint64
	rest        []rest
	index       index
	free        []uint32 // a stack of slots given back
	used        int      // slots from here on were never used
}

// rest is what of an entry is not its rank.
type rest struct {
	bytes, seen uint32 // seen: how often
	key         Key
}

func newStore(capacity int) store {
	return store{
		values: make([]uint64, capacity), ids: make([]uint64, capacity), rest: make([]rest, capacity),
		index: newIndex(capacity), free: make([]uint32, 0, capacity+1),
	}
}

// len is the number of entries.
func (s *store) len() int { return s.used - len(s.free) }

// full reports that no slot is left.
func (s *store) full() bool { return s.used == len(s.values) && len(s.free) == 0 }

// next returns a slot that is not used; the store is not full.
func (s *store) next() uint32 {
	if n := len(s.free); n > 0 {
		return s.free[n-1]
	}
	return uint32(s.used)
}

// take marks the slot that next returned as used.
func (s *store) take() {
	if n := len(s.free); n > 0 {
		s.free = s.free[:n-1]
	} else {
		s.used++
	}
}

// touch loads what claim will look at for ranks, and fill will write: so short a loop has all loads in flight at once.
// What it loads is returned, mixed, for the loads to be of use.
func (s *store) touch(values, ids []uint64) (mix uint64) {
	cells, shift := s.index.cells, s.index.shift&63
	mask := uint64(len(cells) - 1)
	free := s.free[len(s.free)-min(len(s.free), len(ids)):] // these come next
	for i, id := range ids {
		mix ^= uint64(cells[cellHash(Rank{values[i], id})>>shift&mask])
	}
	for _, slot := range free {
		mix ^= s.values[slot] ^ s.ids[slot] ^ uint64(s.rest[slot].bytes)
	}
	return mix
}

// fill stores an entry in a slot that it has claimed.
func (s *store) fill(slot uint32, r Rank, bytes uint32, key *Key) {
	s.values[slot], s.ids[slot] = r.Value, r.ID
	rest := &s.rest[slot]
	rest.bytes, rest.seen, rest.key = bytes, 1, *key
}

// settle decides between two packets of the same rank, which then have the same
// id: the smaller stays, so that the order of arrival does not matter.
func (s *store) settle(slot, bytes uint32, key *Key) {
	have := &s.rest[slot]
	if have.seen < math.MaxUint32 {
		have.seen++
	}
	if bytes < have.bytes || bytes == have.bytes && key.compare(&have.key) < 0 {
		have.bytes, have.key = bytes, *key
	}
}

// remove gives a slot back. Its rank stays findable until the slot is used
// again, so it must not be asked for: it is beyond the limit by now.
func (s *store) remove(slot uint32) { s.free = append(s.free, slot) }

func (s *store) reset() {
	s.free, s.used = s.free[:0], 0
	s.index.reset()
}

// smallest returns at most n entries, those of the smallest ranks, in order, and how often
// each was seen.
func (s *store) smallest(n int) ([]Entry, []uint32) {
	gone := make([]bool, s.used)
	for _, slot := range s.free {
		gone[slot] = true
	}
	items := make([]heapItem, 0, s.len())
	for slot := range s.used {
		if !gone[slot] {
			items = append(items, heapItem{Rank{s.values[slot], s.ids[slot]}, uint32(slot)})
		}
	}
	// Ranks alone are sorted, as entries are three times as long.
	slices.SortFunc(items, func(a, b heapItem) int {
		switch {
		case b.above(&a):
			return -1
		case a.above(&b):
			return 1
		}
		return 0
	})
	items = items[:min(n, len(items))]
	out, seen := make([]Entry, len(items)), make([]uint32, len(items))
	for i, item := range items {
		r := &s.rest[item.slot]
		out[i], seen[i] = Entry{Rank: item.Rank, Bytes: r.bytes, Key: r.key}, r.seen
	}
	return out, seen
}
