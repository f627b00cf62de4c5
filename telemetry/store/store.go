package store

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/lds"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/record"
)

// Origin is where and when a record was made.
type Origin struct {
	Switch   uint32
	Name     string // of the switch
	Instance uint16
	Window          // the slice
	Missed   uint64 // packets of the slice that are not in the record
	Partial  bool   // the switch was not there for all of it
}

// Sample is the record of an epoch by the stage oblivious.
type Sample struct {
	Origin
	*oblivious.Sample
}

// Point is the record of an interval by a measurement point, as it came: its cells
// can take 256 times as much memory.
type Point struct {
	Origin
	lds.Summary
	body []byte // was checked
}

// Decode makes the point with its cells.
func (p *Point) Decode() (*lds.Point, error) { return lds.Decode(p.body) }

// Port is the number of the point's port on its switch, from 0.
func (p *Point) Port() int { return int(p.Instance / 2) }

// Egress says that the point counts what leaves, not what arrives.
func (p *Point) Egress() bool { return p.Instance&1 != 0 }

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

// Store is a network's records. The zero value is empty and ready.
type Store struct {
	// Samples, Points and Fragments are in the order of their slices, then of
	// switches and instances, once Sort was called.
	Samples   []Sample
	Points    []Point
	Fragments []Fragment
	// Sketches has the bodies of the fragments' records.
	Sketches disketch.Records

	counts Counts
	known  map[identity][]uint32 // checksums of the bodies
	names  map[uint32]string
}

// Counts say what became of what came.
type Counts struct {
	Records    uint64 `json:"records"`    // taken
	Duplicates uint64 `json:"duplicates"` // came again, and were left out
	Unreadable uint64 `json:"unreadable"` // pieces of files, or bodies, that are no records
	Conflicts  uint64 `json:"conflicts"`  // contradict others, and were left out
	Unknown    uint64 `json:"unknown"`    // of kinds that no query here reads
	CutOff     uint64 `json:"cut_off"`    // files that end inside a record, as one being written does
}

// identity tells records apart.
type identity struct {
	kind     record.Kind
	sw       uint32
	instance uint16
	plan     uint16
	start    int64
}

// Counts returns what became of what came so far.
func (s *Store) Counts() Counts { return s.counts }

// Add takes a record. body is not kept.
func (s *Store) Add(h record.Header, body []byte) {
	if h.Span <= 0 || h.Start > maxTime || h.Start < -maxTime || h.Span > maxTime || h.Missed > maxTime {
		s.counts.Unreadable++
		return
	}
	h.Name = printable(h.Name)
	id := identity{h.Kind, h.Switch, h.Instance, h.Plan, h.Start}
	sum := crc32.ChecksumIEEE(body)
	old := s.known[id]
	if slices.Contains(old, sum) {
		s.counts.Duplicates++
		return
	}
	// A switch that restarted within a slice says two things about it, both of
	// them in part. If neither is, one is wrong, and which one cannot be known.
	if len(old) != 0 && !h.Partial && h.Kind != record.DiSketch {
		s.counts.Conflicts++
		return
	}
	if !s.take(h, body) {
		return
	}
	if s.known == nil {
		s.known, s.names = map[identity][]uint32{}, map[uint32]string{}
	}
	s.known[id] = append(old, sum)
	s.names[h.Switch] = h.Name
	s.counts.Records++
}

// maxTime keeps sums of times in 64 bits, and those of packets: no switch meets one
// in each nanosecond.
const maxTime = 1 << 61

// printable is a name as it may go to a terminal: who sends records chooses it.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, name)
}

// take decodes a body into its collection; false: it was counted as something
// else.
func (s *Store) take(h record.Header, body []byte) bool {
	from := Origin{
		Switch: h.Switch, Name: h.Name, Instance: h.Instance,
		Window: Window{h.Start, h.Start + h.Span}, Missed: h.Missed, Partial: h.Partial,
	}
	switch h.Kind {
	case record.Oblivious:
		sample := new(oblivious.Sample)
		if sample.UnmarshalBinary(body) != nil {
			s.counts.Unreadable++
			return false
		}
		s.Samples = append(s.Samples, Sample{from, sample})
	case record.LDS:
		summary, err := lds.Check(body)
		if err != nil || summary.Config.IntervalNs != h.Span || summary.Interval*h.Span != h.Start {
			s.counts.Unreadable++
			return false
		}
		s.Points = append(s.Points, Point{from, summary, slices.Clone(body)})
	case record.DiSketch:
		return s.takeFragment(from, body)
	default:
		s.counts.Unknown++
		return false
	}
	return true
}

func (s *Store) takeFragment(from Origin, body []byte) bool {
	r := new(disketch.Record)
	if r.UnmarshalBinary(body) != nil || r.Fragment != (disketch.ID{Switch: uint64(from.Switch), Sketch: from.Instance}) {
		s.counts.Unreadable++
		return false
	}
	// A record of a part of its subepoch is of no use to a sketch, but its fragment
	// is known to be there, and missing.
	if err := s.Sketches.Add(r); err != nil && !errors.Is(err, disketch.ErrPartial) {
		s.counts.Conflicts++
		return false
	}
	s.Fragments = append(s.Fragments, Fragment{
		Origin: from, ID: r.Fragment, Kind: r.Kind(), Unit: r.Unit, Epoch: r.Epoch, Epochs: r.Epochs, Packets: r.Packets, Seen: r.Seen,
	})
	return true
}

// Sort puts the collections in order. Read does it.
func (s *Store) Sort() {
	slices.SortStableFunc(s.Samples, func(a, b Sample) int { return a.compare(&b.Origin) })
	slices.SortStableFunc(s.Points, func(a, b Point) int { return a.compare(&b.Origin) })
	slices.SortStableFunc(s.Fragments, func(a, b Fragment) int { return a.compare(&b.Origin) })
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
	for id, n := range s.names {
		if n == name || fmt.Sprint(id) == name {
			return id, true
		}
	}
	return 0, false
}

// Switches lists the names of all switches of which a record came, sorted.
func (s *Store) Switches() []string {
	names := make([]string, 0, len(s.names))
	for id := range s.names {
		names = append(names, s.Name(id))
	}
	slices.Sort(names)
	return names
}
