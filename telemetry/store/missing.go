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
	// Point is the measurement point that the instance is, as "s1:1 out"; empty: it is none, or none of its records is here.
	Point string `json:"point,omitempty"`
	// Absent slices are those that other switches have and this one has not.
	Absent int `json:"absent_slices"`
	// Partial slices are those that the switch was not there for all of.
	Partial int `json:"partial_slices"`
	// Packets passed the switch and are in none of its records.
	Packets uint64 `json:"missed_packets"`
	// Lost records of digests were numbered by the switch, and did not come.
	Lost uint64 `json:"lost_records"`
	// Evicted records were here, and had to make room: those of a switch that held more than its share of
	// memory, or the oldest of all, of which the switch is not named.
	Evicted uint64 `json:"evicted_records"`
	// Skewed records are here and were left out, as the switch's clock is ahead of the collector's.
	Skewed uint64 `json:"skewed_records"`
	// Disputed records are here and were left out, as their shape, seed or hash is not that of most switches.
	Disputed uint64 `json:"disputed_records"`
	// Surplus packets passed the switch, by its own exact count, beyond what its samples account for: they were
	// identical to others or came again, or were chosen not to be sampled. Excess packets are in its samples
	// beyond that count: packets were chosen for their ranks, or records are forged.
	Surplus uint64 `json:"surplus_packets"`
	Excess  uint64 `json:"excess_packets"`
	// Unreached is why the digests of a partition, which is the instance, are not in the answer: no collector that has them could be
	// asked. What the answer says is of the flows of the other partitions.
	Unreached string `json:"unreached,omitempty"`
	// Region is where records are evicted, skewed or disputed, in an answer about several regions; or, with Unreached and Of "region", one that could not
	// be asked: what the answer says is of the switches of the others.
	Region string `json:"region,omitempty"`
}

// OfRegion is what a region is called of which all records are missing.
const OfRegion = "region"

// Skewed and Disputed name why records are left out of a view.
const (
	Skewed   = "skewed"
	Disputed = "disputed"
)

// left are records of one origin that are here and were left out.
type left struct {
	of      string
	origin  *Origin
	why     why
	records uint64
}

type why uint8

const (
	leftSkewed why = iota
	leftDisputed
)

// leave leaves a record out of a view.
func (s *Store) leave(e *entry, w why) {
	s.left = append(s.left, left{e.of, &e.origin, w, 1})
}

// missingLeft adds what was left out to what is known of a measurement.
func (s *Store) missingLeft(of string, w Window, partition int, found map[source]*Missing) {
	for i := range s.left {
		l := &s.left[i]
		if l.of != of || partition != AllPartitions && int(l.origin.Instance) != partition || !l.origin.Overlaps(w) && l.why != leftSkewed { // whose times are not those of the window
			continue
		}
		at := source{l.origin.Switch, l.origin.Instance}
		m := found[at]
		if m == nil {
			m = &Missing{Switch: s.Name(l.origin.Switch), Of: of, Instance: l.origin.Instance}
			found[at] = m
		}
		if l.why == leftSkewed {
			m.Skewed = sum(m.Skewed, l.records)
		} else {
			m.Disputed = sum(m.Disputed, l.records)
		}
	}
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
	return s.missingOnce(missingKey{of, w, AllPartitions})
}

// MissingDigests is Missing of the digests of one partition, with what may be of it: records that had to make room, and regions that could not be asked.
func (s *Store) MissingDigests(partition int, w Window) []Missing {
	return slices.DeleteFunc(s.missingOnce(missingKey{OfDigests, w, partition}), func(m Missing) bool {
		return int(m.Instance) != partition && m.Evicted == 0 && m.Of != OfRegion
	})
}

// missingKey is what Missing was asked for.
type missingKey struct {
	of        string
	w         Window
	partition int // of digests
}

// missingBytes is what a Missing takes.
const missingBytes = 128

func (s *Store) missingOnce(key missingKey) []Missing {
	list, _ := s.Remember(key, func() (any, int64, error) { // which never fails
		list := s.missing(key.of, key.w, key.partition)
		return list, int64(cap(list)) * missingBytes, nil
	})
	return slices.Clone(list.([]Missing))
}

func (s *Store) missing(of string, w Window, partition int) []Missing {
	slicesSeen := map[int64]bool{}
	have := map[source]map[int64]bool{}
	regular := of != OfFragments && of != OfDigests && of != OfStatuses // one for each slice
	found := map[source]*Missing{}
	at := func(o *Origin) *Missing {
		from := source{o.Switch, o.Instance}
		m := found[from]
		if m == nil {
			m = &Missing{Switch: s.Name(o.Switch), Of: of, Instance: o.Instance}
			found[from] = m
		}
		return m
	}
	lacks := func(o *Origin) {
		if !o.Overlaps(w) || !o.Partial && o.Missed == 0 {
			return
		}
		m := at(o)
		if o.Partial && of != OfStatuses { // which are of a moment
			m.Partial++
		}
		m.Packets = sum(m.Packets, o.Missed)
	}
	switch {
	case of == OfDigests:
		for _, b := range s.DigestsWithin(partition, w) {
			lacks(&b.Origin)
		}
		s.missingDigests(w, partition, found)
	case regular:
		s.eachOf(of, func(o *Origin) {
			from := source{o.Switch, o.Instance}
			if at(o); have[from] == nil {
				have[from] = map[int64]bool{}
			}
			if o.Overlaps(w) {
				slicesSeen[o.From], have[from][o.From] = true, true
				lacks(o)
			}
		})
	default:
		s.eachOf(of, lacks)
	}
	if of == OfSamples {
		for i := range s.Samples {
			if x := s.Samples[i]; x.Surplus|x.Excess != 0 && x.Instance == 0 && x.Overlaps(w) {
				m := found[source{x.Switch, 0}]
				m.Surplus, m.Excess = sum(m.Surplus, x.Surplus), sum(m.Excess, x.Excess)
			}
		}
	}
	for sw, own := range s.own {
		if n := evictedIn(own.evicted, of, w); n != 0 {
			found[source{sw, 0}] = plus(found[source{sw, 0}], Missing{Switch: s.Name(sw), Of: of, Evicted: n})
		}
	}
	present := maps.Clone(found)
	s.missingLeft(of, w, partition, found)
	var list []Missing
	if n := s.evictedIn(of, w); n != 0 {
		list = append(list, Missing{Of: of, Evicted: n})
	}
	order := func(a, b source) int { return cmp.Or(cmp.Compare(a.sw, b.sw), cmp.Compare(a.instance, b.instance)) }
	for _, from := range slices.SortedFunc(maps.Keys(found), order) {
		m := found[from]
		if regular && present[from] != nil && have[from] != nil {
			m.Absent = len(slicesSeen) - len(have[from])
		}
		if *m != (Missing{Switch: m.Switch, Of: of, Instance: m.Instance}) {
			list = append(list, *m)
		}
	}
	if of == OfPoints && len(list) > 0 {
		s.namePoints(list)
	}
	slices.SortStableFunc(list, func(a, b Missing) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(a.Instance, b.Instance))
	})
	list = append(append(list, s.unreached...), s.late...)
	for _, m := range s.regions {
		if m.Of == of || m.Of == OfRegion {
			list = append(list, m)
		}
	}
	return list
}

// namePoints names the measurement points of which something is missing.
func (s *Store) namePoints(list []Missing) {
	names := map[source]string{}
	for _, p := range s.Points {
		if at := (source{p.Switch, p.Instance}); names[at] == "" {
			names[at] = p.At(s.Name(p.Switch))
		}
	}
	for i := range list {
		if m := &list[i]; m.Evicted == 0 { // of all points of a switch
			id, _ := s.Switch(m.Switch)
			m.Point = names[source{id, m.Instance}]
		}
	}
}

// plus adds evictions to what is missing of a measurement, which may be nil.
func plus(m *Missing, more Missing) *Missing {
	if m == nil {
		return &more
	}
	m.Evicted += more.Evicted
	return m
}
