package store

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// secondBuckets has the buckets of all switches of one number. What views have of it is kept, and extended by what came since, so a view
// costs what came since the last one, and a copy of the rest.
type secondBuckets struct {
	buckets []*bucket   // by switch
	changes uint64      // of the buckets
	removed uint64      // of changes, those that took a bucket away
	made    *secondView // nil: no view had it yet, or it could not be extended
	kept    uint64      // changes of the newest one that was made: viewed of buckets is of that
}

// add adds a bucket, of a switch that has none, and remove removes it.
func (s *secondBuckets) add(b *bucket) {
	i, _ := s.find(b.sw)
	s.buckets = slices.Insert(s.buckets, i, b)
}

func (s *secondBuckets) remove(b *bucket) {
	if i, ok := s.find(b.sw); ok {
		s.buckets = slices.Delete(s.buckets, i, i+1)
		s.removed++
	}
}

func (s *secondBuckets) find(sw uint32) (int, bool) {
	return slices.BinarySearchFunc(s.buckets, sw, func(b *bucket, sw uint32) int { return cmp.Compare(b.sw, sw) })
}

// keep keeps what a view had, of the buckets as parts has them, unless there is a newer one. The caller has the lock.
func (s *secondBuckets) keep(v *secondView, parts []bucketPart, now *rules) {
	if v.changes < s.kept || s.made != nil && v.changes == s.kept && v.rules != now {
		return
	}
	s.made, s.kept = v, v.changes
	for i := range parts {
		p := &parts[i]
		p.of.viewed = p.begin + len(p.entries)
	}
}

// secondView is what views have of a second. It does not change.
type secondView struct {
	changes uint64   // of the second, when it was made
	removed uint64   // of these
	rules   *rules   // by which it was made
	entries []*entry // in order, those that are taken
	lists   Store    // of the entries, and what was left out: a view copies these and need not read each entry
	extents []extent // but of digests
	digests []partitionDigests
}

// rules say which records views leave out.
type rules struct {
	judgment
	ahead  map[uint32]bool // switches whose clocks are ahead now
	shapes *verdict
}

// judge finds the rules as they are now: those of the last view, if they are equal.
func (l *Live) judge() *rules {
	r := &rules{judgment: l.judgeClocks(), ahead: map[uint32]bool{}, shapes: l.agreed.verdict()}
	for sw, of := range l.switches {
		if ahead, known := of.clock.estimate(); known && ahead > r.limit() {
			r.ahead[sw] = true
		}
	}
	if l.rules == nil || l.rules.judgment != r.judgment || !maps.Equal(l.rules.ahead, r.ahead) || !l.rules.shapes.equal(r.shapes) {
		l.rules = r
	}
	return l.rules
}

// leaves reports whether a record is left out, and why.
func (r *rules) leaves(e *entry) (why, bool) {
	switch {
	case e.ahead > r.limit(), e.ahead != noOffset && r.ahead[e.sw]:
		return leftSkewed, true
	case e.sketch != nil && !e.origin.Partial && r.shapes.refuses(e.sw, e.sketch):
		return leftDisputed, true
	}
	return 0, false
}

// View is what is there for a window, and does not change: of whatever comes
// meanwhile it knows nothing. The zero window is all there is. Bodies are not
// copied; those that have to make room stay in memory for as long as a view has them, beyond
// the bound.
//
// What a view has not, and [Store.Missing] names with its switch: records of a switch whose clock is ahead
// ([Skewed]), and fragments of another shape than that of most switches ([Disputed]). Nothing may be added to a view.
func (l *Live) View(w Window) *Store {
	s, parts, r := l.beginView(w != (Window{}))
	called := maps.Clone(s.names) // not what records call them: that may be the name of another switch
	if w != (Window{}) {
		s.entries = [][]*entry{s.collect(parts, w, r)}
	} else {
		all, ok := l.arrange(parts, r)
		for !ok { // a second that could not be extended is made anew
			s, parts, r = l.beginView(false)
			called = maps.Clone(s.names)
			all, ok = l.arrange(parts, r)
		}
		if !s.join(all) {
			s, parts, r = l.beginView(true)
			called = maps.Clone(s.names)
			s.entries = [][]*entry{s.collect(parts, w, r)}
		}
	}
	s.names = called
	l.order(&s.sent)
	s.Freeze()
	return s
}

// secondPart is a second as it was when a view began.
type secondPart struct {
	of      *secondBuckets
	changes uint64
	removed uint64
	made    *secondView  // nil: there is none that is of use
	buckets []bucketPart // by switch; what made has not
}

// bucketPart is a piece of a bucket's lists, and where it begins.
type bucketPart struct {
	of      *bucket
	begin   int
	entries []*entry
}

// beginView begins a view, of the seconds in their order; whole has the buckets of all of them.
func (l *Live) beginView(whole bool) (*Store, []secondPart, *rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Store{
		counts: l.counts, evicted: l.evicted[:len(l.evicted):len(l.evicted)], keptFrom: (l.floor + 1) << bucketBits,
		own: map[uint32]ownEvictions{}, names: make(map[uint32]string, len(l.switches)),
	}
	r := l.judge()
	s.view, s.ahead, s.sent = true, r.reference, l.allSent()
	for sw, of := range l.switches {
		if of.evicts {
			s.own[sw] = ownEvictions{of.evicted[:len(of.evicted):len(of.evicted)], (of.floor + 1) << bucketBits}
		}
		if len(of.buckets) != 0 {
			s.names[sw] = of.name
		}
	}
	parts := make([]secondPart, 0, len(l.seconds))
	for _, number := range slices.Sorted(maps.Keys(l.seconds)) {
		of := l.seconds[number]
		p := secondPart{of: of, changes: of.changes, removed: of.removed}
		if m := of.made; !whole && m != nil && m.removed == of.removed && m.rules == r {
			if p.made = m; m.changes == of.changes {
				parts = append(parts, p)
				continue
			}
		}
		for _, b := range of.buckets {
			q := bucketPart{of: b}
			if p.made != nil {
				q.begin = b.viewed
			}
			if q.entries = b.entries[q.begin:]; len(q.entries) > 0 {
				p.buckets = append(p.buckets, q)
			}
		}
		parts = append(parts, p)
	}
	return s, parts, r
}

// arrange makes what views have of each second, where it has changed since the last view. false: one that was made before could not be extended, and is
// forgotten.
func (l *Live) arrange(parts []secondPart, r *rules) ([]*secondView, bool) {
	all := make([]*secondView, len(parts))
	for i := range parts {
		p := &parts[i]
		if p.made != nil && p.made.changes == p.changes {
			all[i] = p.made
			continue
		}
		v := p.extend(r)
		l.mu.Lock()
		if v == nil {
			if p.of.made == p.made {
				p.of.made = nil
			}
			l.mu.Unlock()
			return nil, false
		}
		p.of.keep(v, p.buckets, l.rules)
		l.mu.Unlock()
		all[i] = v
	}
	return all, true
}

// extend is what was made of a second with what came since; nil: a fragment contradicts one that was there before, and which of them counts
// is a matter of their order.
func (p *secondPart) extend(r *rules) *secondView {
	v := &secondView{changes: p.changes, removed: p.removed, rules: r}
	fresh := &v.lists
	if p.made == nil {
		v.entries = fresh.collect([]secondPart{*p}, Window{}, r)
		v.index()
		return v
	}
	old := &p.made.lists
	list := fresh.pick(p.buckets, Window{}, r)
	slices.SortStableFunc(list, (*entry).compare)
	fresh.Sketches = old.Sketches
	if slices.ContainsFunc(list, func(e *entry) bool { return e.sketch != nil }) {
		fresh.Sketches = disketch.Records{}
		fresh.Sketches.Join(&old.Sketches) // of nothing, which cannot fail
	}
	for _, e := range list {
		if e.sketch != nil {
			if err := fresh.Sketches.AddPrepared(e.sketch); err != nil && !errors.Is(err, disketch.ErrPartial) {
				return nil
			}
		}
		fresh.list(e)
	}
	v.entries = merge(p.made.entries, list, (*entry).compare)
	fresh.left = slices.Concat(old.left, fresh.left)
	fresh.Samples = merge(old.Samples, fresh.Samples, func(a, b *Sample) int { return a.compare(&b.Origin) })
	fresh.Points = merge(old.Points, fresh.Points, func(a, b *Point) int { return a.compare(&b.Origin) })
	fresh.Fragments = merge(old.Fragments, fresh.Fragments, func(a, b *Fragment) int { return a.compare(&b.Origin) })
	fresh.Batches = merge(old.Batches, fresh.Batches, (*Batch).compare)
	fresh.Statuses = merge(old.Statuses, fresh.Statuses, func(a, b *Status) int { return a.compare(&b.Origin) })
	v.index()
	return v
}

// merge merges two sorted lists; of equal elements those of a are first. It changes neither.
func merge[E any](a, b []E, compare func(a, b E) int) []E {
	if len(b) == 0 {
		return a
	}
	all := make([]E, 0, len(a)+len(b))
	for _, x := range b {
		n, _ := slices.BinarySearchFunc(a, x, func(y, x E) int {
			if compare(y, x) <= 0 {
				return -1
			}
			return 1
		})
		all = append(append(all, a[:n]...), x)
		a = a[n:]
	}
	return append(all, a...)
}

// collect adds the records of a window, in their order; the zero window is all. It returns those that were taken.
func (s *Store) collect(parts []secondPart, w Window, r *rules) (list []*entry) {
	for i := range parts {
		list = append(list, s.pick(parts[i].buckets, w, r)...)
	}
	slices.SortStableFunc(list, (*entry).compare)
	return slices.DeleteFunc(list, func(e *entry) bool {
		taken := s.put(e)
		if !taken {
			s.leave(e, leftDisputed)
		}
		return !taken
	})
}

// pick notes what is left out of the window. It returns the rest.
func (s *Store) pick(parts []bucketPart, w Window, r *rules) (list []*entry) {
	for i := range parts {
		b := &parts[i]
		for _, e := range b.entries {
			if w != (Window{}) && !e.origin.Overlaps(w) {
				continue
			}
			if why, leaves := r.leaves(e); leaves {
				s.leave(e, why)
			} else {
				list = append(list, e)
			}
		}
	}
	return list
}

// compare orders entries as batches are ordered.
func (e *entry) compare(o *entry) int {
	return cmp.Or(e.origin.compare(&o.origin), cmp.Compare(e.boot, o.boot), cmp.Compare(e.sequence, o.sequence))
}

// join adds the seconds, in their order: a second has all records whose slices begin in it. false: fragments of two seconds
// disagree, and the store is of no use.
func (s *Store) join(all []*secondView) bool {
	samples, points, fragments, batches, statuses := 0, 0, 0, 0, 0
	for _, v := range all {
		o := &v.lists
		samples, points, fragments = samples+len(o.Samples), points+len(o.Points), fragments+len(o.Fragments)
		batches, statuses = batches+len(o.Batches), statuses+len(o.Statuses)
	}
	s.Samples, s.Points, s.Fragments = make([]*Sample, 0, samples), make([]*Point, 0, points), make([]*Fragment, 0, fragments)
	s.Batches, s.Statuses = make([]*Batch, 0, batches), make([]*Status, 0, statuses)
	s.seconds = all
	for _, v := range all {
		o := &v.lists
		if !s.Sketches.Join(&o.Sketches) {
			return false
		}
		s.Samples, s.Points, s.Fragments = append(s.Samples, o.Samples...), append(s.Points, o.Points...), append(s.Fragments, o.Fragments...)
		s.Batches, s.Statuses = append(s.Batches, o.Batches...), append(s.Statuses, o.Statuses...)
		s.left = append(s.left, o.left...)
		if len(v.entries) > 0 {
			s.entries = append(s.entries, v.entries)
		}
	}
	return true
}
