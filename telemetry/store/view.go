package store

import (
	"cmp"
	"maps"
	"slices"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// secondBuckets has the buckets of all switches of one number. What views have of it is kept until one of them changes, so a view
// costs what came since the last one, and a copy of the rest.
type secondBuckets struct {
	buckets []*bucket   // by switch
	changes uint64      // of the buckets
	made    *secondView // nil: no view had it yet
}

// add adds a bucket, of a switch that has none, and remove removes it.
func (s *secondBuckets) add(b *bucket) {
	i, _ := s.find(b.sw)
	s.buckets = slices.Insert(s.buckets, i, b)
}

func (s *secondBuckets) remove(b *bucket) {
	if i, ok := s.find(b.sw); ok {
		s.buckets = slices.Delete(s.buckets, i, i+1)
	}
}

func (s *secondBuckets) find(sw uint32) (int, bool) {
	return slices.BinarySearchFunc(s.buckets, sw, func(b *bucket, sw uint32) int { return cmp.Compare(b.sw, sw) })
}

// secondView is what views have of a second. It does not change.
type secondView struct {
	changes  uint64   // of the second, when it was made
	rules    *rules   // by which it was made
	entries  []*entry // in order, those that are taken
	sizes    sizes    // of their collections
	sketches disketch.Records
	left     []left
	sent     []*entry
}

// sizes are those of the collections of a store.
type sizes struct{ samples, points, fragments, batches, statuses int }

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
// ([Skewed]), and fragments of another shape than that of most switches ([Disputed]).
func (l *Live) View(w Window) *Store {
	s, parts, r := l.beginView(w != (Window{}))
	called := maps.Clone(s.names) // not what records call them: that may be the name of another switch
	if w != (Window{}) {
		s.entries = [][]*entry{s.collect(parts, w, r)}
	} else if !s.join(l.arrange(parts, r)) {
		s, parts, r = l.beginView(true)
		called = maps.Clone(s.names)
		s.entries = [][]*entry{s.collect(parts, w, r)}
	}
	s.names = called
	s.Freeze()
	return s
}

// secondPart is a second as it was when a view began.
type secondPart struct {
	of      *secondBuckets
	changes uint64
	made    *secondView  // nil: it has changed since
	buckets []bucketPart // by switch; none, if made is there
}

// bucketPart is the beginning of a bucket's lists.
type bucketPart struct{ entries, digests []*entry }

// beginView begins a view, of the seconds in their order; whole has the buckets of all of them.
func (l *Live) beginView(whole bool) (*Store, []secondPart, *rules) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &Store{
		counts: l.counts, evicted: l.evicted[:len(l.evicted):len(l.evicted)], keptFrom: (l.floor + 1) << bucketBits,
		own: map[uint32]ownEvictions{}, names: make(map[uint32]string, len(l.switches)),
	}
	r := l.judge()
	s.ahead = r.reference
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
		p := secondPart{of: of, changes: of.changes}
		if m := of.made; !whole && m != nil && m.changes == of.changes && m.rules == r {
			p.made = m
			parts = append(parts, p)
			continue
		}
		for _, b := range of.buckets {
			p.buckets = append(p.buckets, bucketPart{b.entries, b.digests})
		}
		parts = append(parts, p)
	}
	return s, parts, r
}

// arrange makes what views have of each second, where it has changed since the last view.
func (l *Live) arrange(parts []secondPart, r *rules) []*secondView {
	all := make([]*secondView, len(parts))
	for i := range parts {
		p := &parts[i]
		if all[i] = p.made; p.made != nil {
			continue
		}
		v := &secondView{changes: p.changes, rules: r}
		var own Store
		v.entries = own.collect(parts[i:i+1], Window{}, r)
		v.sketches, v.left = own.Sketches, own.left
		v.sizes = sizes{len(own.Samples), len(own.Points), len(own.Fragments), len(own.Batches), len(own.Statuses)}
		for _, list := range own.sent {
			v.sent = append(v.sent, list...)
		}
		all[i] = v
		l.mu.Lock()
		p.of.made = v // which says of when it is
		l.mu.Unlock()
	}
	return all
}

// collect adds the records of a window, in their order; the zero window is all. It returns those that were taken.
func (s *Store) collect(parts []secondPart, w Window, r *rules) (list []*entry) {
	for i := range parts {
		for _, b := range parts[i].buckets {
			if len(b.digests) > 0 {
				s.sent = append(s.sent, b.digests)
			}
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
	}
	slices.SortStableFunc(list, func(a, b *entry) int {
		return cmp.Or(a.origin.compare(&b.origin), cmp.Compare(a.boot, b.boot), cmp.Compare(a.sequence, b.sequence)) // as batches are ordered
	})
	return slices.DeleteFunc(list, func(e *entry) bool {
		taken := s.put(e)
		if !taken {
			s.leave(e, leftDisputed)
		}
		return !taken
	})
}

// join adds the seconds, in their order: a second has all records whose slices begin in it. false: fragments of two seconds
// disagree, and the store is of no use.
func (s *Store) join(all []*secondView) bool {
	var n sizes
	for _, v := range all {
		n.samples, n.points, n.fragments = n.samples+v.sizes.samples, n.points+v.sizes.points, n.fragments+v.sizes.fragments
		n.batches, n.statuses = n.batches+v.sizes.batches, n.statuses+v.sizes.statuses
	}
	s.Samples, s.Points, s.Fragments = make([]Sample, 0, n.samples), make([]Point, 0, n.points), make([]Fragment, 0, n.fragments)
	s.Batches, s.Statuses = make([]Batch, 0, n.batches), make([]Status, 0, n.statuses)
	for _, v := range all {
		if !s.Sketches.Join(&v.sketches) {
			return false
		}
		for _, e := range v.entries {
			s.list(e)
		}
		s.left = append(s.left, v.left...)
		if len(v.entries) > 0 {
			s.entries = append(s.entries, v.entries)
		}
		if len(v.sent) > 0 {
			s.sent = append(s.sent, v.sent)
		}
	}
	return true
}
