package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

// Origin is where and when a record was made.
type Origin struct {
	Switch   uint32
	Name     string // of the switch
	Instance uint16
	Window          // the slice
	Missed   uint64 // packets of the slice that are not in the record
	Partial  bool   // the switch was not there for all of it
	// Hash is the family by which the switch hashed packets and flows.
	Hash hash.Family
}

// Sample is the record of an epoch by the stage oblivious.
type Sample struct {
	Origin
	*oblivious.Sample
	// Surplus packets were counted exactly beyond what the sample accounts for, Excess packets are those that it
	// accounts for beyond these ([oblivious.Sample.Judge]).
	Surplus, Excess uint64
}

// Point is the record of an interval by a measurement point, as it came: its cells
// can take 128 times as much memory.
type Point struct {
	Origin
	lds.Summary
	body []byte // was checked
}

// Decode makes the point with its cells.
func (p *Point) Decode() (*lds.Point, error) { return lds.Decode(p.body, p.Hash) }

// Port is the number of the point's port on its switch, from 0; -1: the point is of a class.
func (p *Point) Port() int {
	if !p.Class.IsZero() {
		return -1
	}
	return int(p.Instance / 2)
}

// Egress says that the point counts what leaves, not what arrives.
func (p *Point) Egress() bool { return p.Instance&1 != 0 }

// At names the point on a switch: its port or its class, and the direction.
func (p *Point) At(name string) string {
	direction := "in"
	if p.Egress() {
		direction = "out"
	}
	if !p.Class.IsZero() {
		return fmt.Sprintf("%s %s %s", name, &p.Class, direction)
	}
	return fmt.Sprintf("%s:%d %s", name, p.Port(), direction)
}

// Fragment is the record of a subepoch by a fragment of a sketch. Its body is in
// [Store.Sketches].
type Fragment struct {
	Origin
	ID    disketch.ID
	Kind  disketch.Kind
	Unit  disketch.Unit
	Epoch uint64
	// Epochs says how long an epoch is.
	Epochs disketch.Epochs
	// Packets were counted, of Seen.
	Packets, Seen uint64
}

// Batch is the record of digests that a sink took off packets, or of packets that a
// switch found to loop.
type Batch struct {
	Origin
	*pint.Digests
}

// Status is the record of what a switch said of itself, as it came.
type Status struct {
	Origin
	body []byte // was checked
}

// Decode makes the status.
func (s *Status) Decode() (*status.Status, error) { return status.Decode(s.body) }

// Store is a network's records. The zero value is empty and ready.
type Store struct {
	// Samples, Points and so on are in the order of their slices, then of
	// switches and instances, once Sort was called. Several views have the same ones, so they are not changed.
	Samples   []*Sample
	Points    []*Point
	Fragments []*Fragment
	Batches   []*Batch
	Statuses  []*Status
	// Sketches has the bodies of the fragments' records.
	Sketches disketch.Records

	counts Counts
	known  map[identity][]known
	names  map[uint32]string
	// Of a view: its seconds, which numbers of digests' records are missing, and what had to make room.
	view     bool          // sent is used, and Batches not looked at for these numbers
	seconds  []*secondView // of a view with partitions of others, only theirs; nil: no view, one of a window or of seconds that disagree, or nothing is theirs
	sent     allSent
	entries  [][]*entry // those that were taken
	evicted  []eviction
	keptFrom int64 // slices before had to make room
	own      map[uint32]ownEvictions
	left     []left
	ahead    int64 // by how much most switches' clocks are ahead of the collector's, ns
	memo     *memo // nil: the store may still change
	// Of a view with partitions of others (With), or of several regions (Regions).
	base      *Store // has the partitions that are not theirs; nil: With did not make the store
	elsewhere []span // of records that are not here
	heard     []Origin
	unreached []Missing
	late      []Missing    // of partitions that the archive alone has
	theirs    partitionSet // whose entries are others', joined
	joined    [][]*entry
	regions   []Missing // what regions lack
}

// Counts say what became of what came.
type Counts struct {
	Records    uint64 `json:"records"`    // taken
	Duplicates uint64 `json:"duplicates"` // came again, and were left out
	Unreadable uint64 `json:"unreadable"` // pieces of files, or bodies, that are no records
	Conflicts  uint64 `json:"conflicts"`  // contradict others, and were left out
	Unknown    uint64 `json:"unknown"`    // of kinds that no query here reads
	Unkeyed    uint64 `json:"unkeyed"`    // under a network key that is not loaded, and were left out
	CutOff     uint64 `json:"cut_off"`    // files that end inside a record, as one being written does
	Future     uint64 `json:"future"`     // of a time that is still to come, and were left out
	Late       uint64 `json:"late"`       // of slices that had made room already, and were left out
	Evicted    uint64 `json:"evicted"`    // were taken, and had to make room
}

// count adds an outcome.
func (c *Counts) count(o Outcome) {
	*[outcomes]*uint64{
		Taken: &c.Records, Duplicate: &c.Duplicates, Conflict: &c.Conflicts, Unreadable: &c.Unreadable,
		Unknown: &c.Unknown, Future: &c.Future, Late: &c.Late,
	}[o]++
}

// Counts returns what became of what came so far.
func (s *Store) Counts() Counts { return s.counts }

// Add takes a record. body is not kept.
func (s *Store) Add(h record.Header, body []byte) Outcome {
	s.memo = nil
	e, outcome := readEntry(&h, body)
	if outcome == Taken {
		outcome = judge(s.known[e.identity], e)
	}
	if outcome == Taken && !s.put(e) {
		outcome = Conflict
	}
	if outcome == Taken {
		if s.known == nil {
			s.known = map[identity][]known{}
		}
		s.known[e.identity] = append(s.known[e.identity], e.known)
	}
	s.counts.count(outcome)
	return outcome
}

// put adds an entry to its collection; false: it contradicts what is there.
func (s *Store) put(e *entry) bool {
	if e.sketch != nil {
		// A record of a part of its subepoch is of no use to a sketch, but its fragment
		// is known to be there, and missing.
		if err := s.Sketches.AddPrepared(e.sketch); err != nil && !errors.Is(err, disketch.ErrPartial) {
			return false
		}
	}
	s.list(e)
	if s.names == nil {
		s.names = map[uint32]string{}
	}
	s.names[e.sw] = e.origin.Name
	return true
}

// list adds an entry to its collection.
func (s *Store) list(e *entry) {
	switch {
	case e.sample != nil:
		s.Samples = append(s.Samples, e.sample)
	case e.point != nil:
		s.Points = append(s.Points, e.point)
	case e.batch != nil:
		s.Batches = append(s.Batches, e.batch)
	case e.status != nil:
		s.Statuses = append(s.Statuses, e.status)
	case e.fragment != nil:
		s.Fragments = append(s.Fragments, e.fragment)
	}
}

// Sort puts the collections in order. Read does it.
func (s *Store) Sort() {
	slices.SortStableFunc(s.Samples, func(a, b *Sample) int { return a.compare(&b.Origin) })
	slices.SortStableFunc(s.Points, func(a, b *Point) int { return a.compare(&b.Origin) })
	slices.SortStableFunc(s.Fragments, func(a, b *Fragment) int { return a.compare(&b.Origin) })
	slices.SortStableFunc(s.Batches, (*Batch).compare)
	slices.SortStableFunc(s.Statuses, func(a, b *Status) int { return a.compare(&b.Origin) })
}

func (o *Origin) compare(p *Origin) int {
	return cmp.Or(cmp.Compare(o.From, p.From), cmp.Compare(o.Switch, p.Switch), cmp.Compare(o.Instance, p.Instance))
}

// Name is the name of a switch, or its number.
func (s *Store) Name(sw uint32) string {
	if name := s.names[sw]; name != "" {
		return name
	}
	return fmt.Sprint(sw)
}

// Switch finds a switch by its name or its number.
func (s *Store) Switch(name string) (uint32, bool) {
	if s.memo == nil {
		return s.find(name)
	}
	found, _ := s.Remember(numbersKey{}, func() (any, int64, error) { // which never fails
		numbers := make(map[string]uint32, 2*len(s.names))
		for id, n := range s.names {
			numbers[fmt.Sprint(id)] = id
			if n != "" {
				numbers[n] = id
			}
		}
		return numbers, int64(len(numbers)) * 64, nil
	})
	id, known := found.(map[string]uint32)[name]
	return id, known
}

type numbersKey struct{}

// find is Switch of a store that may still change.
func (s *Store) find(name string) (uint32, bool) {
	for id, n := range s.names {
		if n == name && n != "" {
			return id, true
		}
	}
	number, err := strconv.ParseUint(name, 10, 32)
	if _, known := s.names[uint32(number)]; known && err == nil && fmt.Sprint(number) == name {
		return uint32(number), true
	}
	return 0, false
}

// Numbers lists the numbers of all switches of which a record came, sorted.
func (s *Store) Numbers() []uint32 { return slices.Sorted(maps.Keys(s.names)) }

// Switches lists the names of all switches of which a record came, sorted.
func (s *Store) Switches() []string {
	names := make([]string, 0, len(s.names))
	for id := range s.names {
		names = append(names, s.Name(id))
	}
	slices.Sort(names)
	return names
}
