package store

import (
	"slices"
	"time"
)

// Window is a piece of time, From <= t < To, in ns of CLOCK_TAI. Records belong
// to it whole if their slice overlaps it.
type Window struct {
	From int64 `json:"from_ns" unit:"ns of CLOCK_TAI"`
	To   int64 `json:"to_ns" unit:"ns of CLOCK_TAI"`
}

// Overlaps reports whether windows have a nanosecond in common.
func (w Window) Overlaps(v Window) bool { return w.From < v.To && v.From < w.To }

// Length is the window's, in time.
func (w Window) Length() time.Duration { return time.Duration(w.To - w.From) }

// Join is the least window that holds both; the empty one holds nothing.
func (w Window) Join(v Window) Window {
	if w == (Window{}) {
		return v
	}
	return Window{min(w.From, v.From), max(w.To, v.To)}
}

// All is the window of all records; empty without any.
func (s *Store) All() Window {
	all, _ := s.Remember(allKey{}, func() (any, int64, error) { // which never fails
		var w Window
		s.spans(func(_ string, o Window, _ int64) { w = w.Join(o) })
		return w, 0, nil
	})
	return all.(Window)
}

type allKey struct{}

type longestKey struct{}

// Of is the window of all records of some measurements, OfSamples and the like; empty without any.
func (s *Store) Of(measurements ...string) (w Window) {
	s.spans(func(of string, o Window, _ int64) {
		if slices.Contains(measurements, of) {
			w = w.Join(o)
		}
	})
	return w
}

// Range is the window from one time to another; 0: from the first record on, up to the last one. It is empty where no
// record can be.
func (s *Store) Range(from, to int64) Window {
	w, all := Window{From: from, To: to}, s.All()
	if from == 0 {
		if w.From = all.From; to != 0 {
			w.From = min(all.From, to)
		}
	}
	if to == 0 {
		w.To = max(all.To, from)
	}
	return w
}

// Last is the window of the given length before the end of the newest record.
func (s *Store) Last(length time.Duration) Window {
	w := s.All()
	if length > 0 {
		w.From = max(w.From, w.To-int64(length))
	}
	return w
}

// recordsInMaking is how long records of a slice that is over may be under way.
const recordsInMaking = 15 * time.Second

// LastBefore is the window of the given length before now, in ns of CLOCK_TAI by the clock of who asks; 0 now is
// Last. It ends with the newest record, since the slices behind it are still being measured, but not behind
// now, whatever a record claims; and at now if records are late: what is old is not taken for what is new.
func (s *Store) LastBefore(length time.Duration, now int64) Window {
	w := s.All()
	if now == 0 || w == (Window{}) {
		return s.Last(length)
	}
	now += s.ahead
	longest, _ := s.Remember(longestKey{}, func() (any, int64, error) { // of the slices of those that end last; it never fails
		longest := int64(0)
		s.spans(func(_ string, o Window, length int64) {
			if o.To > w.To-int64(recordsInMaking) {
				longest = max(longest, length)
			}
		})
		return longest, 0, nil
	})
	if w.To > now || now-w.To > int64(recordsInMaking)+longest.(int64) {
		w.To = now
	}
	if length > 0 {
		w.From = max(min(w.From, w.To), w.To-int64(length))
	}
	return w
}

// Measurements, as [Missing] names them.
const (
	OfSamples     = "sample"
	OfFlowSamples = "sample of flows"
	OfPoints      = "point"
	OfFragments   = "fragment"
	OfDigests     = "digests"
	OfStatuses    = "status"
)

// kindOf names what a sample measures.
func (s *Sample) kindOf() string {
	if s.Instance != 0 {
		return OfFlowSamples
	}
	return OfSamples
}

func (s *Store) each(f func(of string, o *Origin)) {
	for _, of := range measurements {
		s.eachOf(of, func(o *Origin) { f(of, o) })
	}
}

// eachOf is each of the records of one measurement.
func (s *Store) eachOf(of string, f func(o *Origin)) {
	switch of {
	case OfSamples, OfFlowSamples:
		for _, x := range s.Samples {
			if x.kindOf() == of {
				f(&x.Origin)
			}
		}
	case OfPoints:
		for _, x := range s.Points {
			f(&x.Origin)
		}
	case OfFragments:
		for _, x := range s.Fragments {
			f(&x.Origin)
		}
	case OfDigests:
		for _, x := range s.Batches {
			f(&x.Origin)
		}
	case OfStatuses:
		for _, x := range s.Statuses {
			f(&x.Origin)
		}
	}
}

// span is when a record is that is not here.
type span struct {
	of string
	Window
}

// spans are when records are, and how long the longest slice is: of a view those that begin in the same second together, else each of them. Of records elsewhere it is when the
// first and the last ones are.
func (s *Store) spans(f func(of string, w Window, longest int64)) {
	if s.indexed() {
		s.eachExtent(func(x *extent) { f(x.of, x.Window, x.longest) })
	} else {
		s.each(func(of string, o *Origin) { f(of, o.Window, o.To-o.From) })
	}
	for i := range s.elsewhere {
		x := &s.elsewhere[i]
		f(x.of, x.Window, x.To-x.From)
	}
}
