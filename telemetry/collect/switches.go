package collect

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"github.com/weirswitch/weir/telemetry/record"
)

// maxSwitches bounds what is remembered of switches: their numbers come from outside.
const maxSwitches = 1 << 16

// Switches remembers what came of each switch. The zero value is ready; its methods
// may be called by many goroutines.
type Switches struct {
	mu sync.Mutex
	by map[uint32]*Heard
}

// Heard is what came of a switch since the collector started.
type Heard struct {
	Switch  uint32
	Name    string // of the newest record
	Records uint64
	Missed  uint64 // packets that its records say are in none
	// Last is the end of the newest record of each kind, in ns of CLOCK_TAI.
	Last map[record.Kind]int64
}

// Newest is the end of the newest record.
func (h *Heard) Newest() (t int64) {
	for _, end := range h.Last {
		t = max(t, end)
	}
	return t
}

// Note takes a record's header that was applied.
func (s *Switches) Note(h *record.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[uint32]*Heard{}
	}
	x := s.by[h.Switch]
	if x == nil {
		if len(s.by) >= maxSwitches {
			return
		}
		x = &Heard{Switch: h.Switch, Last: map[record.Kind]int64{}}
		s.by[h.Switch] = x
	}
	x.Records++
	x.Missed += h.Missed
	x.Name = h.Name
	x.Last[h.Kind] = max(x.Last[h.Kind], h.Start+h.Span)
}

// List returns all, by number.
func (s *Switches) List() []Heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Heard, 0, len(s.by))
	for _, x := range s.by {
		own := *x
		own.Last = maps.Clone(x.Last)
		all = append(all, own)
	}
	slices.SortFunc(all, func(a, b Heard) int { return cmp.Compare(a.Switch, b.Switch) })
	return all
}
