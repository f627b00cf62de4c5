package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// Part is what another store has of a partition's digests, but for the digests: what an answer needs to know of them so that it is
// that of a store which has all. It travels as JSON.
type Part struct {
	Partition int `json:"partition"`
	// First and Last are the windows of the first and the last record of any time; the empty one: there is none.
	First Window `json:"first"`
	Last  Window `json:"last"`
	// Sinks are the switches of these records, where a question is about the switches.
	Sinks []PartSink `json:"sinks,omitempty"`
	// Gaps, Evicted and Skewed records of the window that was asked for.
	Gaps    []PartGap  `json:"gaps,omitempty"`
	Evicted []PartGone `json:"evicted,omitempty"`
	Skewed  []PartGone `json:"skewed,omitempty"`
}

// PartSink is a switch, and the window of its last record.
type PartSink struct {
	Switch uint32 `json:"switch"`
	Name   string `json:"name,omitempty"` // empty: it has none that is its own
	Last   Window `json:"last"`
}

// PartGap are records that a sink numbered and that did not come.
type PartGap struct {
	Window
	Switch  uint32 `json:"switch"`
	Boot    uint64 `json:"boot"`
	Records uint64 `json:"records"`
	Digests uint64 `json:"digests"`
}

// PartGone are records that had to make room, or were left out: of a switch, 0: of all.
type PartGone struct {
	Window
	Switch  uint32 `json:"switch,omitempty"`
	Records uint64 `json:"records"`
	// Arrived is when the last of those came that had to make room, ns of CLOCK_TAI; 0: that is not known.
	Arrived int64 `json:"arrived_ns,omitempty"`
}

// The bounds of a Part, which comes from elsewhere.
const (
	maxPartSinks = 1 << 14
	maxPartRows  = 1 << 12
	maxGone      = 1 << 48 // so that sums stay in 63 bits
)

// Validate refuses what no store says.
func (p *Part) Validate() error {
	if p.Partition < 0 || p.Partition >= record.Partitions {
		return fmt.Errorf("partition %d of %d", p.Partition, record.Partitions)
	}
	if len(p.Sinks) > maxPartSinks || len(p.Gaps) > maxPartRows || len(p.Evicted) > maxPartRows || len(p.Skewed) > maxPartRows {
		return fmt.Errorf("%d switches, %d gaps, %d and %d records that are gone", len(p.Sinks), len(p.Gaps), len(p.Evicted), len(p.Skewed))
	}
	if !p.First.valid() || !p.Last.valid() {
		return fmt.Errorf("records of %v to %v", p.First, p.Last)
	}
	for i := range p.Sinks {
		if s := &p.Sinks[i]; !s.Last.valid() || s.Name != "" && !printable.IsName(s.Name) {
			return fmt.Errorf("switch %d, %q, has records of %v", s.Switch, s.Name, s.Last)
		}
	}
	for i := range p.Gaps {
		if !p.Gaps[i].valid() {
			return fmt.Errorf("a gap of %v", p.Gaps[i].Window)
		}
	}
	for _, g := range slices.Concat(p.Evicted, p.Skewed) {
		if !g.valid() {
			return fmt.Errorf("records of %v are gone", g.Window)
		}
	}
	return nil
}

// valid reports whether records can be of the window.
func (w Window) valid() bool { return w.From <= w.To && w.From >= -maxTime && w.To <= 2*maxTime }

// partKey is a partition of which the first and the last records are remembered.
type partKey struct{ partition int }

// Part is what the store has of a partition's digests, for a window that a question elsewhere is about, with the switches if they are
// asked for.
func (s *Store) Part(partition int, w Window, sinks bool) *Part {
	found, _ := s.Remember(partKey{partition}, func() (any, int64, error) { // which never fails
		p := s.newPart(partition)
		return p, int64(len(p.Sinks)) * 96, nil
	})
	p := *found.(*Part)
	if !sinks {
		p.Sinks = nil
	}
	s.rows(&p, w)
	return &p
}

// rows adds what is missing of the window.
func (s *Store) rows(p *Part, w Window) {
	all := s.gaps()
	for i := range all {
		if g := &all[i]; int(g.partition) == p.Partition && g.Overlaps(w) {
			p.Gaps = append(p.Gaps, PartGap{g.Window, g.sw, g.boot, g.records, g.digests})
		}
	}
	p.Gaps = joinRows(p.Gaps, func(a, b PartGap) PartGap {
		a.Window, a.Records, a.Digests = a.Join(b.Window), sum(a.Records, b.Records), sum(a.Digests, b.Digests)
		return a
	})
	evicted := func(list []eviction, sw uint32) {
		for i := range list {
			if e := &list[i]; e.of[OfDigests] != 0 && e.Overlaps(w) {
				p.Evicted = append(p.Evicted, PartGone{e.Window, sw, e.of[OfDigests], e.arrived})
			}
		}
	}
	evicted(s.evicted, 0)
	for _, sw := range slices.Sorted(maps.Keys(s.own)) {
		evicted(s.own[sw].evicted, sw)
	}
	for i := range s.left {
		if l := &s.left[i]; l.of == OfDigests && int(l.origin.Instance) == p.Partition && l.why == leftSkewed {
			p.Skewed = append(p.Skewed, PartGone{Window: l.origin.Window, Switch: l.origin.Switch, Records: l.records})
		}
	}
	same := func(a, b PartGone) PartGone {
		a.Window, a.Records, a.Arrived = a.Join(b.Window), sum(a.Records, b.Records), max(a.Arrived, b.Arrived)
		return a
	}
	p.Evicted, p.Skewed = joinRows(p.Evicted, same), joinRows(p.Skewed, same)
}

func (s *Store) newPart(partition int) *Part {
	p, at := &Part{Partition: partition}, map[uint32]int{}
	for _, b := range s.partition(partition) {
		if p.First == (Window{}) {
			p.First = b.Window
		}
		if b.To > p.Last.To || p.Last == (Window{}) {
			p.Last = b.Window
		}
		i, known := at[b.Switch]
		if !known {
			i = len(p.Sinks)
			if i == maxPartSinks {
				continue
			}
			at[b.Switch] = i
			p.Sinks = append(p.Sinks, PartSink{Switch: b.Switch, Name: s.names[b.Switch], Last: b.Window})
		}
		if x := &p.Sinks[i]; b.To > x.Last.To {
			x.Last = b.Window
		}
	}
	return p
}

// joinRows joins the last of too many rows with one another.
func joinRows[R any](rows []R, join func(a, b R) R) []R {
	if len(rows) <= maxPartRows {
		return rows
	}
	last := rows[maxPartRows-1]
	for _, r := range rows[maxPartRows:] {
		last = join(last, r)
	}
	return append(slices.Clone(rows[:maxPartRows-1]), last)
}

// Mark is a place in the order of a partition's batches: behind one of them. The zero Mark is the beginning.
type Mark struct {
	Set      bool   `json:"set"`
	From     int64  `json:"from"`
	Switch   uint32 `json:"switch"`
	Boot     uint64 `json:"boot"`
	Sequence uint64 `json:"sequence"`
}

// before reports whether a batch is behind the mark.
func (m *Mark) before(b *Batch) bool {
	if !m.Set {
		return true
	}
	return cmp.Or(cmp.Compare(m.From, b.From), cmp.Compare(m.Switch, b.Switch), cmp.Compare(m.Boot, b.Boot), cmp.Compare(m.Sequence, b.Sequence)) < 0
}

// PartQuery is which batches of a partition are asked for.
type PartQuery struct {
	Partition int
	Window    Window
	After     Mark
	// Most bytes are appended, but for one record.
	Most int
	// Has are the flows that the question is about; nil: all. With Only, batches with nothing of them are left out.
	Has  func(*pint.FlowKey) bool
	Only bool
}

// AppendPart appends the records of batches to dst, as they travel. The mark is behind the last one; false: it is the last one of
// all. Marks hold for later views of the same records.
func (s *Store) AppendPart(dst []byte, q PartQuery) (_ []byte, after Mark, more bool) {
	list, begin := s.partition(q.Partition), len(dst)
	first, _ := slices.BinarySearchFunc(list, &q.After, func(b *Batch, m *Mark) int {
		if m.before(b) {
			return 1
		}
		return -1
	})
	after = q.After
	for _, b := range list[first:] {
		if b.From >= q.Window.To { // as all behind it
			break
		}
		if !b.Overlaps(q.Window) {
			continue
		}
		if len(dst)-begin >= q.Most {
			return dst, after, true
		}
		after = Mark{true, b.From, b.Switch, b.Boot, b.Sequence}
		some := true
		whole, err := record.Append(dst, &record.Header{
			Kind: record.PINT, Switch: b.Switch, Name: s.names[b.Switch], Instance: b.Instance, Plan: b.Plan,
			Start: b.From, Span: b.To - b.From, Missed: b.Missed, Partial: b.Partial, Hash: b.Hash,
		}, func(dst []byte) ([]byte, error) {
			if q.Has == nil {
				return b.Digests.Append(dst), nil
			}
			dst, some = b.Digests.AppendOf(dst, q.Has)
			return dst, nil
		})
		if err == nil && (some || !q.Only) { // all of it was a record before
			dst = whole
		}
	}
	return dst, after, false
}

// Elsewhere is a partition of another store: its Part and its batches, or why there are none.
type Elsewhere struct {
	Part
	// Holder is which store has it: what of a Part is of all partitions of a holder counts once.
	Holder string
	// Unreached is why it could not be had; empty: here it is.
	Unreached string
	// KeptFrom is from when on the other store has all records; 0: it has all that there are.
	KeptFrom int64
	batches  []*Batch
	entries  []*entry // of batches
}

// errPart says that bytes are not of the partition.
var errPart = errors.New("no records of the partition")

// Add takes records that AppendPart made, and returns the memory that they take.
func (e *Elsewhere) Add(b []byte) (bytes int64, err error) {
	for len(b) > 0 {
		h, body, rest, err := record.Decode(b)
		if err != nil {
			return bytes, fmt.Errorf("%w: %w", errPart, err)
		}
		if h.Kind != record.PINT || int(h.Instance) != e.Partition || h.Span > maxSpan {
			return bytes, fmt.Errorf("%w: kind %v, partition %d", errPart, h.Kind, h.Instance)
		}
		x, outcome := readEntry(&h, body)
		if outcome != Taken {
			return bytes, fmt.Errorf("%w: a record is %v", errPart, outcome)
		}
		e.batches = append(e.batches, x.batch)
		e.entries = append(e.entries, x)
		bytes += x.bytes
		b = rest
	}
	return bytes, nil
}

// Join adds what other stores have of partitions, whole records, to what l has of them itself. Of what had to make room elsewhere it reports what came behind the
// time up to which the partition is archived, by the arrival of records.
func (l *Live) Join(parts []Elsewhere, archived func(partition int) int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	holders := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		for _, e := range p.entries {
			t := l.tally(e.kind)
			outcome := l.put(e, t)
			t.count(outcome)
			l.counts.count(outcome)
			l.makeRoom()
		}
		if p.Unreached != "" || holders[p.Holder] {
			continue
		}
		holders[p.Holder] = true
		for _, g := range p.Evicted {
			gone := eviction{g.Window, map[string]uint64{OfDigests: min(g.Records, maxGone)}, g.Arrived}
			l.evicted = append(l.evicted, unarchived([]eviction{gone}, map[string]int64{OfDigests: archived(p.Partition)})...)
		}
	}
}

// Without is the store without partitions that could not be had; it must be frozen. Of those that the archive has for all of a window, by the arrival of
// records, it names only what may have come late.
func (s *Store) Without(parts []Elsewhere, archived func(partition int) bool) *Store {
	var gone []Elsewhere
	var late []Missing
	for i := range parts {
		switch p := &parts[i]; {
		case p.Unreached == "":
		case archived(p.Partition):
			late = append(late, Missing{Of: OfDigests, Instance: uint16(p.Partition), Unreached: "what came late and is not archived yet: " + p.Unreached})
		default:
			gone = append(gone, *p)
		}
	}
	if len(gone)+len(late) == 0 {
		return s
	}
	u := s.With(gone)
	u.late = late
	return u
}

// With is the store with partitions of others in the place of what it has of them itself. The store must be frozen and in order, and so is what
// is returned; it must not come from With itself.
func (s *Store) With(parts []Elsewhere) *Store {
	own := *s
	u := &own
	u.theirs = partitionSet{}
	for i := range parts {
		u.theirs[parts[i].Partition] = true
	}
	u.joined = nil
	gaps := slices.DeleteFunc(slices.Clone(s.gaps()), func(g gap) bool { return u.theirs[g.partition] })
	u.left = slices.DeleteFunc(slices.Clone(s.left), func(l left) bool { return l.of == OfDigests && u.theirs[l.origin.Instance] })
	u.names, u.own = maps.Clone(s.names), maps.Clone(s.own)
	if u.names == nil {
		u.names = map[uint32]string{}
	}
	if u.own == nil {
		u.own = map[uint32]ownEvictions{}
	}
	u.evicted, u.elsewhere, u.heard, u.unreached = slices.Clone(s.evicted), nil, nil, nil
	holders := map[string]bool{}
	var batches []*Batch
	for i := range parts {
		p := &parts[i]
		if p.Unreached != "" {
			u.unreached = append(u.unreached, Missing{Of: OfDigests, Instance: uint16(p.Partition), Unreached: p.Unreached})
			continue
		}
		batches = append(batches, p.batches...)
		if len(p.entries) > 0 {
			u.joined = append(u.joined, p.entries)
		}
		gaps = append(gaps, p.gaps()...)
		u.take(p, holders)
	}
	slices.SortStableFunc(batches, (*Batch).compare)
	// A page may come twice where a collector left in between.
	batches = slices.CompactFunc(batches, func(a, b *Batch) bool { return a.compare(b) == 0 && a.Plan == b.Plan && a.Loop == b.Loop })
	u.base, u.seconds = s, fetchedSeconds(batches)
	if slices.ContainsFunc(parts, func(p Elsewhere) bool { return len(s.partition(p.Partition)) > 0 }) {
		u.Batches = slices.DeleteFunc(slices.Clone(s.Batches), func(b *Batch) bool { return u.theirs[b.Instance] })
	}
	if s.indexed() || slices.IsSortedFunc(u.Batches, (*Batch).compare) {
		u.Batches = merge(u.Batches, batches, (*Batch).compare)
	} else {
		u.Batches = slices.Concat(u.Batches, batches)
		slices.SortStableFunc(u.Batches, (*Batch).compare)
	}
	slices.SortFunc(u.unreached, func(a, b Missing) int { return cmp.Compare(a.Instance, b.Instance) })
	u.memo = &memo{gaps: func() []gap { return gaps }}
	return u
}

func (p *Elsewhere) gaps() (list []gap) {
	for _, g := range p.Gaps {
		list = append(list, gap{sender{g.Switch, uint16(p.Partition), g.Boot}, g.Window, g.Records, g.Digests})
	}
	return list
}

// take adds what is known of the partition beside its batches.
func (s *Store) take(p *Elsewhere, holders map[string]bool) {
	for _, w := range []Window{p.First, p.Last} {
		if w != (Window{}) {
			s.elsewhere = append(s.elsewhere, span{OfDigests, w})
		}
	}
	for i := range p.Sinks {
		x := &p.Sinks[i]
		s.call(x.Switch, x.Name)
		s.heard = append(s.heard, Origin{Switch: x.Switch, Instance: uint16(p.Partition), Window: x.Last})
	}
	for i := range p.batches {
		s.call(p.batches[i].Switch, p.batches[i].Name)
	}
	for _, g := range p.Skewed {
		at := &Origin{Switch: g.Switch, Instance: uint16(p.Partition), Window: g.Window}
		s.left = append(s.left, left{OfDigests, at, leftSkewed, g.Records})
	}
	if holders[p.Holder] {
		return
	}
	holders[p.Holder] = true
	for _, g := range p.Evicted {
		gone := eviction{Window: g.Window, of: map[string]uint64{OfDigests: min(g.Records, maxGone)}}
		if g.Switch == 0 {
			s.evicted = append(s.evicted, gone)
			continue
		}
		own := s.own[g.Switch]
		own.evicted = append(slices.Clone(own.evicted), gone)
		s.own[g.Switch] = own
	}
}

// call names a switch that only others know, by a name that no other one has.
func (s *Store) call(sw uint32, name string) {
	if _, known := s.names[sw]; known {
		return
	}
	s.names[sw] = ""
	if _, taken := s.find(name); !taken && printable.IsName(name) {
		s.names[sw] = name
	}
}

// Unreached are the partitions of which the store has nothing, although a question may be about them.
func (s *Store) Unreached() []Missing { return s.unreached }

// HeardElsewhere are the origins of the last digests of each switch and partition that others have.
func (s *Store) HeardElsewhere() []Origin { return s.heard }
