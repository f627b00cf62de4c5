package store

import (
	"cmp"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
)

// dividedRecord is a fragment's record of a subepoch, of four in an epoch of 2^32 ns, which are in different seconds.
func dividedRecord(t testing.TB, sw, epoch uint64, subepoch int) []byte {
	f, err := disketch.NewFragment(disketch.Config{ID: disketch.ID{Switch: sw, Sketch: 2}, Kind: disketch.CountMin, Memory: 1024, Epochs: 32})
	if err != nil {
		t.Fatal(err)
	}
	f.Assign(disketch.Assignment{Log: 2, From: 0, Until: 1 << 40})
	c, err := f.NewCounter()
	if err != nil {
		t.Fatal(err)
	}
	c.Begin(f.Begin(epoch), uint64(subepoch))
	c.Add(sw, 1, false)
	return envelope(t, record.Header{Kind: record.DiSketch, Switch: uint32(sw), Instance: 2, Start: int64(epoch)<<32 + int64(subepoch)<<30, Span: 1 << 30}, c.Record().AppendBinary)
}

// TestViewTwin: a view that takes over seconds of the one before is that of all records anew, while records of all times come, make
// room, are of clocks that are ahead, and differ in shape.
func TestViewTwin(t *testing.T) {
	for seed := range uint64(4) {
		r, now := rand.New(rand.NewPCG(seed, 77)), int64(142<<30)
		l := newLive(t, LiveConfig{Bytes: MinBytes, Now: func() int64 { return now }})
		taken, extended, left, several, within, gaps := 0, 0, 0, 0, 0, 0
		for round := range 1500 {
			b := anyRecord(t, r)
			switch sw, epoch := uint64(1+r.IntN(4)), uint64(100+r.IntN(40)); r.IntN(8) {
			case 0:
				b = dividedRecord(t, sw, epoch/4, r.IntN(4))
			case 1:
				if round%500 > 300 {
					b = shapedRecord(t, 4, epoch, disketch.Bytes, 30)
				}
			case 2:
				if seed > 1 && round%400 > 200 {
					b = statusRecord(t, 3, 145)
				}
			}
			h, body, _, err := record.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			l.Add(h, body)
			if round%7 != 0 {
				continue
			}
			before, removed := map[*secondBuckets]*secondView{}, map[*secondBuckets]uint64{}
			for _, of := range l.seconds {
				before[of], removed[of] = of.made, of.removed
			}
			got, want := l.View(Window{}), l.View(Window{-1 << 60, 1 << 60})
			for of, made := range before {
				switch {
				case made == nil:
				case of.made == made:
					taken++
				case made.removed == removed[of] && of.made.rules == made.rules:
					extended++
				}
			}
			left += len(want.left)
			for _, id := range want.Sketches.Fragments(2) {
				for _, e := range want.Sketches.Epochs() {
					error, some := want.Sketches.Error(id, e)
					if x, y := got.Sketches.Error(id, e); x != error || y != some || got.Sketches.N(id, e) != want.Sketches.N(id, e) {
						t.Fatalf("fragment %v, epoch %d: %v, %v, want %v, %v", id, e, x, y, error, some)
					}
					if some {
						several++
					}
				}
			}
			for _, sketch := range []uint16{1, 2} {
				if a, b := got.Sketches.Fragments(sketch), want.Sketches.Fragments(sketch); !reflect.DeepEqual(a, b) {
					t.Fatalf("fragments %v, want %v", a, b)
				}
			}
			for _, x := range [][2]any{
				{got.Samples, want.Samples}, {got.Points, want.Points}, {got.Fragments, want.Fragments}, {got.Batches, want.Batches}, {got.Statuses, want.Statuses},
				{got.names, want.names}, {got.own, want.own}, {got.evicted, want.evicted}, {got.counts, want.counts}, {got.ahead, want.ahead}, {got.keptFrom, want.keptFrom},
				{got.Sketches.Epochs(), want.Sketches.Epochs()},
			} {
				if a, b := reflect.ValueOf(x[0]), reflect.ValueOf(x[1]); a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 {
					continue
				}
				if !reflect.DeepEqual(x[0], x[1]) {
					t.Fatalf("seed %d, round %d: %+v, want %+v", seed, round, x[0], x[1])
				}
			}
			for _, of := range []string{OfSamples, OfPoints, OfFragments, OfDigests, OfStatuses} {
				w := Window{int64(100+r.IntN(40)) << 30, 145 << 30}
				if a, b := got.Missing(of, w), want.Missing(of, w); !reflect.DeepEqual(a, b) {
					t.Fatalf("missing of %s: %+v, want %+v", of, a, b)
				}
				if a, b := got.Of(of), want.Of(of); a != b {
					t.Fatalf("%s of %v, want %v", of, a, b)
				}
			}
			w := Window{int64(100+r.IntN(40)) << 30, int64(120+r.IntN(25)) << 30}
			for p := range record.Partitions {
				overlap := func(list []*Batch) []*Batch {
					return slices.DeleteFunc(slices.Clone(list), func(b *Batch) bool { return !b.Overlaps(w) })
				}
				a, b := overlap(got.DigestsWithin(p, w)), overlap(want.DigestsWithin(p, w))
				if !slices.Equal(a, b) {
					t.Fatalf("partition %d: %d batches, want %d", p, len(a), len(b))
				}
				within += len(a)
			}
			if a, b := sortedGaps(got.gaps()), sortedGaps(gapsAnew(l, want)); !slices.Equal(a, b) {
				t.Fatalf("gaps %+v, want %+v", a, b)
			} else {
				gaps += len(a)
			}
		}
		if taken < 1000 || extended < 100 || left == 0 || several == 0 || within == 0 || gaps == 0 || l.Counts().Evicted == 0 {
			t.Errorf("seed %d: %d seconds were taken over, %d extended, %d records left out, %d epochs divided, %d batches, %d gaps, %+v: it tests little",
				seed, taken, extended, left, several, within, gaps, l.Counts())
		}
	}
}

// gapsAnew finds the gaps of all digests that are held, also those that a view leaves out, at the edges of a view.
func gapsAnew(l *Live, v *Store) []gap {
	all := &Store{evicted: v.evicted, own: v.own, keptFrom: v.keptFrom}
	for _, of := range l.switches {
		for _, b := range of.buckets {
			for _, e := range b.entries {
				if e.batch != nil {
					all.Batches = append(all.Batches, e.batch)
				}
			}
		}
	}
	return all.findGaps()
}

func sortedGaps(all []gap) []gap {
	return slices.SortedFunc(slices.Values(all), func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.sw, b.sw), cmp.Compare(a.partition, b.partition), cmp.Compare(a.boot, b.boot), cmp.Compare(a.From, b.From), cmp.Compare(a.records, b.records), cmp.Compare(a.To, b.To), cmp.Compare(a.digests, b.digests))
	})
}

// TestViewOfDisputedSeconds: where fragments of two seconds disagree, which no switch that follows its schedule makes, the view is made of all records.
func TestViewOfDisputedSeconds(t *testing.T) {
	var a, b Store
	for i, s := range []*Store{&a, &b} {
		h, body, _, err := record.Decode(fragmentRecord(t, 1, 100))
		if err != nil {
			t.Fatal(err)
		}
		if o := s.Add(h, body); o != Taken {
			t.Fatal(i, o)
		}
	}
	s := &Store{}
	if s.join([]*secondView{{lists: a}, {lists: b}}) {
		t.Error("a subepoch is in two seconds")
	}
}

// TestViewOfContradiction: a second to which a fragment comes that contradicts one of it, which no Live takes, is made anew.
func TestViewOfContradiction(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	add := func(b []byte) *bucket {
		h, body, _, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if o := l.Add(h, body); o != Taken {
			t.Fatal(o)
		}
		return l.switches[h.Switch].buckets[h.Start>>bucketBits]
	}
	b := add(dividedRecord(t, 1, 100, 0))
	l.View(Window{})
	b.entries = append(b.entries, b.entries[0])
	second := l.seconds[b.number]
	second.changes++
	_, parts, r := l.beginView(false)
	if _, ok := l.arrange(parts, r); ok || second.made != nil {
		t.Error("a second was extended by what contradicts it")
	}
	if v := l.View(Window{}); len(v.Fragments) != 1 || len(v.left) != 1 {
		t.Errorf("%d fragments, %d left out", len(v.Fragments), len(v.left))
	}
}

// TestOlderViewIsNotKept: what a slower view made of a second is not kept once a newer one was, also where that is forgotten: how far buckets were read
// is of the newer one.
func TestOlderViewIsNotKept(t *testing.T) {
	var s secondBuckets
	r := new(rules)
	newer, older := &secondView{changes: 12, rules: r}, &secondView{changes: 11, rules: r}
	s.keep(newer, nil, r)
	s.made = nil
	if s.keep(older, nil, r); s.made != nil {
		t.Error("an older view is kept")
	}
	if s.keep(newer, nil, r); s.made != newer {
		t.Error("a view of the same changes is not kept")
	}
}

// BenchmarkView is a view of the last minute of a thousand switches, of which a status per second has just come.
func BenchmarkView(b *testing.B) {
	now := int64(100 << 30)
	l := newLive(b, LiveConfig{Bytes: 1 << 30, Now: func() int64 { return now }})
	second := func(s int64) {
		now = (s + 1) << 30
		for sw := range uint32(1000) {
			records := [][]byte{statusRecord(b, sw, s)}
			if s%8 == 0 {
				records = append(records, sampleRecord(b, sw, s<<30, 3, false), pointRecord(b, sw, 1, s), pointRecord(b, sw, 2, s), fragmentRecord(b, uint64(sw), uint64(s)),
					digestsRecord(b, sw, s, 1, uint64(s), uint64(s)*10, 10))
			}
			for _, x := range records {
				h, body, _, err := record.Decode(x)
				if err != nil {
					b.Fatal(err)
				}
				l.Add(h, body)
			}
		}
	}
	for s := range int64(60) {
		second(100 + s)
	}
	for name, w := range map[string]Window{"last": {}, "anew": {-1 << 60, 1 << 60}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := int64(0); b.Loop(); i++ {
				b.StopTimer()
				h, body, _, _ := record.Decode(statusRecord(b, uint32(5000+i), now>>30-1))
				l.Add(h, body)
				b.StartTimer()
				l.View(w)
			}
		})
	}
}

// TestAnyOrderOfNumbers: gaps are those of what is held, in whichever order the numbers of batches come, which a hostile sender chooses, and
// whichever batches make room.
func TestAnyOrderOfNumbers(t *testing.T) {
	for seed := range uint64(3) {
		r, now := rand.New(rand.NewPCG(seed, 78)), int64(400<<30)
		l := newLive(t, LiveConfig{Bytes: MinBytes, Now: func() int64 { return now }})
		numbers := []func(slice int64) uint64{
			func(slice int64) uint64 { return uint64(slice) * 2 },              // each second one is missing
			func(slice int64) uint64 { return math.MaxUint64 - uint64(slice) }, // downwards
			func(int64) uint64 { return []uint64{0, 1, math.MaxUint64 - 1, math.MaxUint64}[r.IntN(4)] },
			func(int64) uint64 { return 7 },
			func(slice int64) uint64 { return uint64(slice) + uint64(r.IntN(3)) },
		}
		gaps := 0
		for round := range 6000 {
			slice := int64(100 + round/40 + r.IntN(20))
			way := r.IntN(len(numbers))
			h, body, _, err := record.Decode(digestsRecord(t, uint32(1+r.IntN(2)), slice, uint64(1+way), numbers[way](slice), uint64(slice)*10, 10))
			if err != nil {
				t.Fatal(err)
			}
			l.Add(h, body)
			if round%97 != 0 {
				continue
			}
			l.check(t)
			v := l.View(Window{})
			l.check(t)
			a, b := sortedGaps(v.gaps()), sortedGaps(gapsAnew(l, v))
			if !slices.Equal(a, b) {
				t.Fatalf("seed %d, round %d: gaps %+v, want %+v", seed, round, a, b)
			}
			gaps += len(a)
		}
		if gaps < 1000 || l.Counts().Evicted < 1000 {
			t.Errorf("seed %d: %d gaps, %+v: it tests little", seed, gaps, l.Counts())
		}
	}
}

// TestWithTwin: a view with partitions of another store knows of times and digests what a store of all records does.
func TestWithTwin(t *testing.T) {
	r, now := rand.New(rand.NewPCG(5, 79)), int64(170<<30)
	replaced, both := 0, 0
	for range 30 {
		mine := partitionSet{}
		for p := range mine {
			mine[p] = r.IntN(2) == 0
		}
		stores := [3]*Live{} // all, mine, theirs
		for i := range stores {
			stores[i] = newLive(t, LiveConfig{Bytes: 64 << 20, Now: func() int64 { return now }})
		}
		for i := range 300 {
			h, body, _, err := record.Decode(anyRecord(t, r))
			if r.IntN(2) == 0 {
				h, body, _, err = record.Decode(flowRecord(t, uint32(1+r.IntN(4)), uint16(r.IntN(100)), int64(100+r.IntN(40)), 1<<(30+3*r.IntN(2)), uint64(i)))
			}
			if err != nil {
				t.Fatal(err)
			}
			if stores[0].Add(h, body) != Taken {
				continue
			}
			if h.Kind != record.PINT || mine[h.Instance] {
				stores[1].Add(h, body)
			} else {
				stores[2].Add(h, body)
			}
		}
		// What it had of theirs is not in the answer.
		for p := range uint16(100) {
			h, body, _, err := record.Decode(flowRecord(t, 4, p, int64(100+r.IntN(40)), 1<<30, 1000))
			if err != nil {
				t.Fatal(err)
			}
			if !mine[h.Instance] {
				stores[1].Add(h, body)
				replaced++
			}
		}
		w := Window{int64(100+r.IntN(40)) << 30, int64(120+r.IntN(25)) << 30}
		all, own, other := stores[0].View(Window{}), stores[1].View(Window{}), stores[2].View(Window{})
		var parts []Elsewhere
		for p := range mine {
			if mine[p] {
				continue
			}
			part := Elsewhere{Part: *other.Part(p, w, true), Holder: "other"}
			b, _, _ := other.AppendPart(nil, PartQuery{Partition: p, Window: w, Most: 1 << 20})
			if _, err := part.Add(b); err != nil {
				t.Fatal(err)
			}
			parts = append(parts, part)
		}
		u := own.With(parts)
		for _, now := range []int64{0, now - 20<<30, all.All().To + 16e9, all.All().To + 20e9, all.All().To + 30e9, now, now + 60<<30} {
			if a, b := u.LastBefore(10<<30, now), all.LastBefore(10<<30, now); a != b {
				t.Fatalf("the last 10 s before %d: %v, want %v", now, a, b)
			}
		}
		if a, b := u.All(), all.All(); a != b {
			t.Fatalf("all of %v, want %v", a, b)
		}
		same := func(a, b *Batch) bool { return a.compare(b) == 0 }
		overlap := func(list []*Batch) []*Batch {
			return slices.DeleteFunc(slices.Clone(list), func(b *Batch) bool { return !b.Overlaps(w) })
		}
		for p := range record.Partitions + 1 {
			p-- // from AllPartitions on
			a, b := overlap(u.DigestsWithin(p, w)), overlap(all.DigestsWithin(p, w))
			if !slices.EqualFunc(a, b, same) {
				t.Fatalf("partition %d: %d batches, want %d", p, len(a), len(b))
			}
			if p == AllPartitions {
				continue
			}
			unnamed := func(list []Missing) []Missing { // the records of a switch have several names here
				for i := range list {
					list[i].Switch = ""
				}
				slices.SortFunc(list, func(a, b Missing) int { return cmp.Or(cmp.Compare(a.Packets, b.Packets), cmp.Compare(a.Lost, b.Lost)) })
				return list
			}
			if x, y := unnamed(u.MissingDigests(p, w)), unnamed(all.MissingDigests(p, w)); !slices.Equal(x, y) {
				t.Fatalf("partition %d lacks %+v, want %+v", p, x, y)
			}
			if len(a) > 0 && !mine[p] {
				both++
			}
		}
		if !slices.EqualFunc(overlap(u.Batches), overlap(all.Batches), same) || !slices.IsSortedFunc(u.Batches, (*Batch).compare) {
			t.Fatal("other batches")
		}
	}
	if replaced < 100 || both < 100 {
		t.Errorf("%d batches were replaced, %d partitions fetched: it tests little", replaced, both)
	}
}

// flowRecord is of a digest of a flow by its source port, which says its partition.
func flowRecord(t testing.TB, sw uint32, port uint16, slice, span int64, sequence uint64) []byte {
	k := pint.FlowKey{Version: 4, Proto: 6, SrcPort: port}
	b := &pint.DigestBatch{Boot: 9, Sequence: sequence, Sent: sequence, Plan: 5}
	b.Records = append(b.Records, pint.Record{Flow: k, ID: sequence, Digest: uint64(sw), TimeNs: uint64(slice << 30), Plan: 5, Hops: 2})
	h := record.Header{Kind: record.PINT, Switch: sw, Name: "d", Instance: uint16(k.Partition(record.Partitions)), Plan: 5, Start: slice << 30, Span: span}
	return envelope(t, h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
}

// TestStaleListIsBounded: what had to make room of a sender whose numbers come in no order is forgotten, though no view and no other batch comes.
func TestStaleListIsBounded(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	add := func(b []byte) {
		h, body, _, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if o := l.Add(h, body); o != Taken {
			t.Fatal(o)
		}
	}
	add(flowRecord(t, 9, 1, 500, 1<<30, 5000))
	for i := range int64(400) {
		add(flowRecord(t, 9, 1, 100+i/4, 1<<30+i, uint64(4000-i)))
	}
	of := l.senders[sender{9, uint16((&pint.FlowKey{Version: 4, Proto: 6, SrcPort: 1}).Partition(record.Partitions)), 9}]
	if !of.stale || of.held != 401 {
		t.Fatalf("%d batches, stale %t", of.held, of.stale)
	}
	for i := range int64(3000) { // of another sender of the switch, for which these make room
		add(flowRecord(t, 9, 2, 300+i/20, 1<<30+i, uint64(i)))
	}
	l.check(t)
	if of.held > 1 || len(of.list) > 2+spare {
		t.Errorf("%d of %d batches are held", of.held, len(of.list))
	}
}

// TestOrderBesideRecords: a view finds the gaps of its time while records come and make room, and what it put in order is of use only if none did.
func TestOrderBesideRecords(t *testing.T) {
	key := sender{1, uint16((&pint.FlowKey{Version: 4, Proto: 6, SrcPort: 1}).Partition(record.Partitions)), 9}
	begin := func() (*Live, func(slice int64, sequence uint64)) {
		l := newLive(t, LiveConfig{Bytes: MinBytes})
		add := func(slice int64, sequence uint64) {
			h, body, _, err := record.Decode(flowRecord(t, 1, 1, slice, 1<<30, sequence))
			if err != nil {
				t.Fatal(err)
			}
			if o := l.Add(h, body); o != Taken {
				t.Fatal(o)
			}
		}
		for i, n := range []uint64{1, 9, 5, 3, 20, 18} {
			add(int64(100+i), n)
		}
		return l, add
	}
	evict := func(l *Live) {
		of := l.switches[1]
		number := of.oldest[0].number
		l.floor, l.evicts = number, true
		gone := eviction{of: map[string]uint64{}}
		l.evict(of, &gone)
	}
	for name, between := range map[string]func(l *Live, add func(int64, uint64)){
		"nothing":                func(*Live, func(int64, uint64)) {},
		"one came":               func(_ *Live, add func(int64, uint64)) { add(110, 7) },
		"one went":               func(l *Live, _ func(int64, uint64)) { evict(l) },
		"one went, and one came": func(l *Live, add func(int64, uint64)) { evict(l); add(110, 7) },
		"all went, and as many came": func(l *Live, add func(int64, uint64)) {
			for range 6 {
				evict(l)
			}
			for i, n := range []uint64{1, 9, 5, 3, 20, 18} {
				add(int64(120+i), n)
			}
		},
		"another view, and disorder": func(l *Live, add func(int64, uint64)) {
			l.View(Window{})
			add(110, 7)
		},
	} {
		l, add := begin()
		s, _, _ := l.beginView(false)
		want := sortedGaps(gapsAnew(l, s))
		between(l, add)
		l.order(&s.sent)
		if got := sortedGaps(s.findGaps()); !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: gaps %+v, want %+v", name, got, want)
		}
		l.mu.Lock()
		of := l.senders[key]
		l.mu.Unlock()
		if of.stale != (name != "nothing") {
			t.Errorf("%s: stale %t", name, of.stale)
		}
		v := l.View(Window{})
		if got, want := sortedGaps(v.gaps()), sortedGaps(gapsAnew(l, v)); !slices.Equal(got, want) {
			t.Errorf("%s, later: gaps %+v, want %+v", name, got, want)
		}
		if of := l.senders[key]; !slices.IsSortedFunc(of.list, sent.compare) || of.held != len(of.list) || !slices.Equal(of.jumps, jumpsOf(key, of.list)) {
			t.Errorf("%s, later: %+v", name, of)
		}
	}
}

// TestFloodOfASecondIsNamed: a switch that held more than its share, all of it of one second, is remembered as having made room.
func TestFloodOfASecondIsNamed(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	add := func(sw uint32, slice int64, i uint64) Outcome {
		h, body, _, err := record.Decode(flowRecord(t, sw, uint16(i), slice, 1<<30, i))
		if err != nil {
			t.Fatal(err)
		}
		return l.Add(h, body)
	}
	for sw := range uint32(12) {
		add(1+sw, 100, 1)
	}
	for i := uint64(0); l.Counts().Evicted == 0; i++ {
		add(99, 100, i)
	}
	missing := slices.ContainsFunc(l.View(Window{}).Missing(OfDigests, Window{100 << 30, 101 << 30}), func(m Missing) bool { return m.Switch == "99" && m.Evicted > 100 })
	if o := add(99, 100, 1<<40); !missing || o != Late {
		t.Errorf("named %t, the next record is %v", missing, o)
	}
}
