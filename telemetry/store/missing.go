package store

import (
	"cmp"
	"maps"
	"slices"
)

// Missing is what a window lacks of one measurement of a switch.
type Missing struct {
	Switch   string `json:"switch"`
	Of       string `json:"of"` // OfSamples and the like
	Instance uint16 `json:"instance"`
	// Absent slices are those that other switches have and this one has not.
	Absent int `json:"absent_slices"`
	// Partial slices are those that the switch was not there for all of.
	Partial int `json:"partial_slices"`
	// Packets passed the switch and are in none of its records.
	Packets uint64 `json:"missed_packets"`
	// Lost records of digests were numbered by the switch, and did not come.
	Lost uint64 `json:"lost_records"`
	// Evicted records were here, and had to make room. Of these the switch is not known.
	Evicted uint64 `json:"evicted_records"`
}

// source is a measurement on a switch.
type source struct {
	sw       uint32
	instance uint16
}

// Missing lists what is known to be missing in a window of one measurement:
// nothing of a switch that never sent a record. Fragments divide their epochs
// each differently, so their queries report absent ones themselves.
//
// Of a view it also reports what was evicted, and of digests which of the records
// that switches numbered did not come.
func (s *Store) Missing(of string, w Window) []Missing {
	list, _ := s.Remember(missingKey{of, w}, func() (any, int64, error) { // which never fails
		list := s.missing(of, w)
		return list, int64(cap(list)) * missingBytes, nil
	})
	return slices.Clone(list.([]Missing))
}

// missingKey is what Missing was asked for.
type missingKey struct {
	of string
	w  Window
}

// missingBytes is what a Missing takes.
const missingBytes = 96

func (s *Store) missing(of string, w Window) []Missing {
	slicesSeen := map[int64]bool{}
	have := map[source]map[int64]bool{}
	regular := of != OfFragments && of != OfDigests && of != OfStatuses // one for each slice
	found := map[source]*Missing{}
	s.each(func(kind string, o *Origin) {
		if kind != of {
			return
		}
		from := source{o.Switch, o.Instance}
		m := found[from]
		if m == nil {
			m = &Missing{Switch: s.Name(o.Switch), Of: of, Instance: o.Instance}
			found[from], have[from] = m, map[int64]bool{}
		}
		if !o.Overlaps(w) {
			return
		}
		if regular {
			slicesSeen[o.From], have[from][o.From] = true, true
		}
		if o.Partial && of != OfStatuses { // which are of a moment
			m.Partial++
		}
		m.Packets = sum(m.Packets, o.Missed)
	})
	if of == OfDigests {
		s.missingDigests(w, found)
	}
	var list []Missing
	if n := s.evictedIn(of, w); n != 0 {
		list = append(list, Missing{Of: of, Evicted: n})
	}
	order := func(a, b source) int { return cmp.Or(cmp.Compare(a.sw, b.sw), cmp.Compare(a.instance, b.instance)) }
	for _, from := range slices.SortedFunc(maps.Keys(found), order) {
		m := found[from]
		if regular {
			m.Absent = len(slicesSeen) - len(have[from])
		}
		if m.Absent != 0 || m.Partial != 0 || m.Packets != 0 || m.Lost != 0 {
			list = append(list, *m)
		}
	}
	slices.SortStableFunc(list, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Instance, b.Instance))
	})
	return list
}
