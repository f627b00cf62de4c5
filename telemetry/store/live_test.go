package store

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/status"
)

func newLive(t testing.TB, c LiveConfig) *Live {
	t.Helper()
	l, err := NewLive(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// digestsRecord is of one flow, whose digests are numbered.
func digestsRecord(t testing.TB, sw uint32, slice int64, boot, sequence, sent uint64, n int) []byte {
	k := pint.FlowKey{Version: 4, Proto: 6, SrcPort: 7}
	b := &pint.DigestBatch{Boot: boot, Sequence: sequence, Sent: sent, Plan: 5}
	for i := range n {
		b.Records = append(b.Records, pint.Record{Flow: k, ID: sent + uint64(i), Digest: uint64(sw), TimeNs: uint64(slice<<30) + uint64(i), Plan: 5, Hops: 2})
	}
	h := record.Header{Kind: record.PINT, Switch: sw, Name: fmt.Sprintf("d%d", sw), Instance: uint16(k.Partition(record.Partitions)), Plan: 5, Start: slice << 30, Span: 1 << 30, Missed: sequence % 2}
	return envelope(t, h, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, b), nil })
}

func statusRecord(t testing.TB, sw uint32, slice int64) []byte {
	s := &status.Status{Time: slice<<30 + 5, Program: "test"}
	return envelope(t, record.Header{Kind: record.Status, Switch: sw, Name: "s", Start: slice << 30, Span: 1 << 30, Partial: true}, s.AppendBinary)
}

// anyRecord is of some kind, switch and second: few, so that they come again.
func anyRecord(t testing.TB, r *rand.Rand) []byte {
	sw, slice := uint32(1+r.IntN(4)), int64(100+r.IntN(40))
	switch r.IntN(5) {
	case 0:
		return sampleRecord(t, sw, slice<<30, 1+r.IntN(3), r.IntN(4) == 0)
	case 1:
		return pointRecord(t, sw, uint16(r.IntN(3)), slice)
	case 2:
		return fragmentRecord(t, uint64(sw), uint64(slice))
	case 3:
		n := uint64(r.IntN(4))
		return digestsRecord(t, sw, slice, 1+uint64(r.IntN(2)), uint64(slice)*4+n, uint64(slice)*40+n*10, 10)
	}
	return statusRecord(t, sw, slice)
}

// check fails unless all that is counted adds up.
func (l *Live) check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes, held := int64(0), map[record.Kind]*Tally{}
	batches := map[sender]map[sent]int{}
	for _, holding := range l.switches {
		ofSwitch := int64(0)
		for _, s := range holding.buckets {
			of := int64(bucketBytes)
			known := 0
			for _, list := range s.known {
				known += len(list)
			}
			if known != len(s.entries) || s.number <= l.floor && l.evicts || s.number <= holding.floor && holding.evicts {
				t.Fatalf("bucket %d: %d of %d entries are known, floor %d", s.number, known, len(s.entries), l.floor)
			}
			for _, e := range s.entries {
				of += e.bytes
				k := held[e.kind]
				if k == nil {
					k = new(Tally)
					held[e.kind] = k
				}
				k.Held++
				k.Bytes += e.bytes
				if e.batch != nil {
					k.Digests += uint64(e.batch.Len())
					if batches[senderOf(e.batch)] == nil {
						batches[senderOf(e.batch)] = map[sent]int{}
					}
					batches[senderOf(e.batch)][sentOf(e.batch)]++
				}
			}
			if of != s.bytes {
				t.Fatalf("bucket %d: %d bytes, counted %d", s.number, of, s.bytes)
			}
			ofSwitch += of
		}
		if ofSwitch != holding.bytes || len(holding.oldest) != len(holding.buckets) {
			t.Fatalf("%d bytes of a switch, counted %d; %d of %d buckets", ofSwitch, holding.bytes, len(holding.oldest), len(holding.buckets))
		}
		bytes += ofSwitch
	}
	if bytes != l.bytes || bytes > l.config.Bytes {
		t.Fatalf("%d bytes, counted %d of %d", bytes, l.bytes, l.config.Bytes)
	}
	l.checkSent(t, batches)
	var sum Counts
	for kind, tally := range l.tallies {
		c := &tally.Counts
		sum.Records, sum.Duplicates, sum.Conflicts, sum.Unreadable = sum.Records+c.Records, sum.Duplicates+c.Duplicates, sum.Conflicts+c.Conflicts, sum.Unreadable+c.Unreadable
		sum.Unknown, sum.Future, sum.Late, sum.Evicted = sum.Unknown+c.Unknown, sum.Future+c.Future, sum.Late+c.Late, sum.Evicted+c.Evicted
		want := held[kind]
		if want == nil {
			want = new(Tally)
		}
		if tally.Held != want.Held || tally.Bytes != want.Bytes || tally.Digests != want.Digests || uint64(tally.Held) != c.Records-c.Evicted {
			t.Fatalf("%v: %+v, held %+v", kind, tally, want)
		}
	}
	sum.CutOff, sum.Unreadable, sum.Unkeyed = l.counts.CutOff, l.counts.Unreadable, l.counts.Unkeyed
	if sum != l.counts {
		t.Fatalf("%+v by kind, %+v in all", sum, l.counts)
	}
}

// checkSent fails unless the lists of senders have what is held.
func (l *Live) checkSent(t testing.TB, batches map[sender]map[sent]int) {
	t.Helper()
	if len(batches) != len(l.senders) {
		t.Fatalf("%d senders, %d with batches", len(l.senders), len(batches))
	}
	stale, jumping := 0, 0
	for key, of := range l.senders {
		have := map[sent]int{}
		held := heldOf(of.list, l.floorOf(key.sw))
		for _, x := range held {
			have[x]++
		}
		if !maps.Equal(have, batches[key]) || len(held) != of.held || !of.stale && len(held) != len(of.list) || len(of.list) > 2*of.held+spare+1 {
			t.Fatalf("%+v: %d of %d batches, counted %d, held %d", key, len(held), len(of.list), of.held, len(batches[key]))
		}
		if of.stale {
			stale++
			if l.stale[key] != of || l.jumping[key] != nil || of.jumps != nil {
				t.Fatalf("%+v is stale, and its jumps are known", key)
			}
			continue
		}
		if !slices.IsSortedFunc(of.list, sent.compare) || !slices.Equal(of.jumps, jumpsOf(key, of.list)) {
			t.Fatalf("%+v: jumps %+v, want %+v", key, of.jumps, jumpsOf(key, of.list))
		}
		if len(of.jumps) > 0 {
			jumping++
		}
		if (l.jumping[key] == of) != (len(of.jumps) > 0) {
			t.Fatalf("%+v has %d jumps", key, len(of.jumps))
		}
	}
	if stale != len(l.stale) || jumping != len(l.jumping) {
		t.Fatalf("%d stale lists of %d, %d with jumps of %d", len(l.stale), stale, len(l.jumping), jumping)
	}
}

// kept counts the records of a store.
func kept(s *Store) int {
	return len(s.Samples) + len(s.Points) + len(s.Fragments) + len(s.Batches) + len(s.Statuses)
}

// TestLiveTwin: what is taken, in whatever order, is what a Store of the same records has
// that nothing is evicted from, but for what had to make room.
func TestLiveTwin(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 5))
		bytes := int64(MinBytes)
		if seed%2 == 0 {
			bytes = 100 << 20
		}
		l := newLive(t, LiveConfig{Bytes: bytes})
		var taken [][]byte
		for round := range 4000 {
			b := anyRecord(t, r)
			h, body, _, err := record.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			if l.Add(h, body) == Taken {
				taken = append(taken, b)
			}
			if round%50 == 0 {
				l.check(t)
			}
		}
		l.check(t)
		want := &Store{}
		for _, b := range taken {
			if h, body, _, _ := record.Decode(b); !l.evicts || h.Start>>bucketBits > l.floor {
				want.Add(h, body)
			}
		}
		want.Sort()
		if c := want.Counts(); c.Records != uint64(kept(want)) || c.Conflicts+c.Duplicates+c.Unreadable != 0 {
			t.Fatalf("what was taken is refused by a store: %+v", c)
		}
		got := l.View(Window{})
		compareStores(t, got, want)
		w := Window{110 << 30, 120<<30 + 1}
		part := l.View(w)
		n := 0
		want.each(func(_ string, o *Origin) {
			if o.Overlaps(w) {
				n++
			}
		})
		if kept(part) != n || n == 0 && !l.evicts {
			t.Errorf("a window has %d records, want %d", kept(part), n)
		}
		if (l.Counts().Evicted > 0) != (seed%2 == 1) {
			t.Errorf("seed %d: %+v", seed, l.Counts())
		}
	}
}

func compareStores(t *testing.T, got, want *Store) {
	t.Helper()
	origins := func(s *Store) (list []string) {
		s.each(func(of string, o *Origin) { list = append(list, fmt.Sprintf("%s %+v", of, *o)) })
		return list
	}
	if diff := cmp.Diff(origins(want), origins(got)); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	if !slices.Equal(got.Sketches.Epochs(), want.Sketches.Epochs()) || !slices.Equal(got.Sketches.Fragments(1), want.Sketches.Fragments(1)) {
		t.Error("sketches differ")
	}
	k := pint.FlowKey{Version: 4, Proto: 6, SrcPort: 7}
	if a, b := got.Digests(k, 5), want.Digests(k, 5); !slices.Equal(a, b) || len(a) == 0 {
		t.Errorf("%d and %d digests", len(a), len(b))
	}
	if !slices.Equal(got.plans(), want.plans()) || !slices.Equal(got.Flows(5), want.Flows(5)) {
		t.Errorf("plans %v and %v", got.plans(), want.plans())
	}
}

// TestOnce: of every kind, what comes again is a duplicate, and what is otherwise the same
// and says something else a conflict; a switch that restarts tells of a slice in pieces.
func TestOnce(t *testing.T) {
	for name, b := range map[string][][2][]byte{
		"sample":   {{sampleRecord(t, 1, 5<<30, 3, false), sampleRecord(t, 1, 5<<30, 4, false)}, {nil, sampleRecord(t, 1, 5<<30, 4, true)}},
		"point":    {{pointRecord(t, 1, 0, 3), envelope(t, record.Header{Kind: record.LDS, Switch: 1, Start: 3 * second, Span: second, Missed: 1}, mustPoint(t, 3))}},
		"fragment": {{fragmentRecord(t, 1, 3), fragmentOfOther(t, 1, 3)}},
		"digests":  {{digestsRecord(t, 1, 3, 9, 4, 0, 3), digestsRecord(t, 1, 3, 9, 4, 0, 4)}},
	} {
		l := newLive(t, LiveConfig{Bytes: MinBytes})
		s := &Store{}
		add := func(b []byte) (Outcome, Outcome) {
			h, body, _, err := record.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			return l.Add(h, body), s.Add(h, body)
		}
		for _, pair := range b {
			for i, want := range []Outcome{Taken, Duplicate} {
				if pair[0] == nil {
					break
				}
				if a, b := add(pair[0]); a != want || b != want {
					t.Errorf("%s, for the %d. time: %v, %v", name, i+1, a, b)
				}
			}
			for range 2 {
				if a, b := add(pair[1]); a != Conflict || b != Conflict {
					t.Errorf("%s, with other content: %v, %v", name, a, b)
				}
			}
		}
		l.check(t)
	}
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	for i := range 40 {
		h, body, _, _ := record.Decode(sampleRecord(t, 1, 5<<30, 1+i, true))
		want := Taken
		if i >= maxPieces {
			want = Conflict
		}
		if got := l.Add(h, body); got != want {
			t.Errorf("piece %d: %v", i, got)
		}
	}
	// Digests of another run, and the next number, are others.
	for _, b := range [][]byte{digestsRecord(t, 1, 3, 9, 4, 0, 3), digestsRecord(t, 1, 3, 10, 4, 0, 3), digestsRecord(t, 1, 3, 9, 5, 3, 3), digestsRecord(t, 2, 3, 9, 4, 0, 3)} {
		if h, body, _, _ := record.Decode(b); l.Add(h, body) != Taken {
			t.Errorf("digests of %+v are refused", h)
		}
	}
}

func mustPoint(t testing.TB, interval int64) func([]byte) ([]byte, error) {
	_, body, _, err := record.Decode(pointRecord(t, 1, 0, interval))
	if err != nil {
		t.Fatal(err)
	}
	return func(b []byte) ([]byte, error) { return append(b, body...), nil }
}

func fragmentOfOther(t testing.TB, sw, epoch uint64) []byte {
	r := fragment(t, sw, epoch)
	r.Seen++
	return envelope(t, record.Header{Kind: record.DiSketch, Switch: uint32(sw), Instance: 1, Start: int64(epoch) << 30, Span: 1 << 30}, r.AppendBinary)
}

// TestOldestGo: memory is bounded, the oldest slices make room whatever the order, and
// answers over their time are told.
func TestOldestGo(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	r := rand.New(rand.NewPCG(1, 2))
	order := r.Perm(600)
	slices.SortStableFunc(order, func(a, b int) int { return a/20 - b/20 }) // of about the same time
	for _, slice := range order {
		l.AddBytes(join(digestsRecord(t, 1, int64(slice), 1, uint64(slice), uint64(slice)*200, 200), sampleRecord(t, 1, int64(slice)<<30, 4, false)))
	}
	l.check(t)
	c := l.Counts()
	if c.Evicted == 0 || c.Evicted+uint64(kept(l.View(Window{}))) != c.Records || c.Records+c.Late != 1200 {
		t.Fatalf("%+v", c)
	}
	if held, bound := l.Bytes(); held > bound || held < bound/2 {
		t.Errorf("%d bytes of %d", held, bound)
	}
	v := l.View(Window{})
	first := v.Batches[0].From >> 30
	if last := v.Batches[len(v.Batches)-1].From >> 30; last != 599 || int(last-first) > len(v.Batches) {
		t.Errorf("slices %d to %d are here, %d of them", first, last, len(v.Batches))
	}
	if got := v.Missing(OfDigests, v.All()); len(got) != 1 || got[0].Evicted != 0 || got[0].Lost != 0 {
		t.Errorf("%+v", got)
	}
	// Digests in the records of odd numbers were missed.
	w := Window{0, v.All().To}
	got := v.Missing(OfDigests, w)
	if len(got) != 2 || got[0].Evicted != l.Tally(record.PINT).Evicted || got[1].Packets == 0 {
		t.Errorf("%+v, %+v", got, l.Tally(record.PINT))
	}
	if got := v.Missing(OfSamples, w); len(got) != 2 || got[0].Evicted != l.Tally(record.Oblivious).Evicted {
		t.Errorf("%+v", got)
	}
	h, body, _, _ := record.Decode(digestsRecord(t, 1, 0, 1, 0, 0, 200))
	if o := l.Add(h, body); o != Late {
		t.Errorf("what had to make room comes back: %v", o)
	}
}

// TestGaps: numbers that are missing tell which digests are.
func TestGaps(t *testing.T) {
	var all [][]byte
	for i := range uint64(10) {
		all = append(all, digestsRecord(t, 1, 10+int64(i), 7, 2*i, 20*i, 10)) // odd numbers are lost
	}
	all = append(all, digestsRecord(t, 1, 30, 8, 0, 0, 5), digestsRecord(t, 2, 12, 7, 1<<63, 1<<63, 5), digestsRecord(t, 2, 13, 7, 3, 3, 5))
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	l, s := newLive(t, LiveConfig{Bytes: MinBytes}), &Store{}
	l.AddBytes(join(all...))
	s.AddBytes(join(all...))
	s.Sort()
	instance := l.View(Window{}).Batches[0].Instance
	for name, s := range map[string]*Store{"folder": s, "live": l.View(Window{})} {
		got := s.Missing(OfDigests, s.All())
		want := []Missing{
			{Switch: "d1", Of: OfDigests, Instance: instance, Lost: 9, Packets: 90},
			{Switch: "d2", Of: OfDigests, Instance: instance, Lost: 1<<63 - 4, Packets: 1<<63 - 8 + 1}, // one by the header of number 3
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, -want +got:\n%s", name, diff)
		}
	}
	// A gap between what a window has and what is before it belongs to the window.
	w := Window{15 << 30, 16 << 30}
	if got := l.View(w).Missing(OfDigests, w); len(got) != 1 || got[0].Lost != 2 || got[0].Packets != 20 {
		t.Errorf("%+v", got)
	}
}

// TestFuture: what claims to be of a time to come, or of ages, moves nobody out.
func TestFuture(t *testing.T) {
	const now = 1000 << 30
	l := newLive(t, LiveConfig{Bytes: MinBytes, Now: func() int64 { return now }})
	for i := range int64(50) {
		l.AddBytes(digestsRecord(t, 1, 900+i, 1, uint64(i), 0, 10))
	}
	for i := range int64(20_000) {
		l.AddBytes(digestsRecord(t, 2, 1200+i*i, 1, uint64(i), 0, 10))
	}
	h, body, _, _ := record.Decode(sampleRecord(t, 3, 0, 5, false))
	for _, span := range []int64{now + int64(time.Hour), maxSpan + 1, math.MaxInt64} {
		h.Span = span
		if o := l.Add(h, body); o != Future && o != Unreadable {
			t.Errorf("a slice of %d ns: %v", span, o)
		}
	}
	l.check(t)
	if c := l.Counts(); c.Records != 50 || c.Evicted != 0 || c.Future != 20_001 || len(l.View(Window{}).Batches) != 50 {
		t.Errorf("%+v", c)
	}
	// A clock that is a little ahead is none.
	h, body, _, _ = record.Decode(digestsRecord(t, 2, 1036, 1, 0, 0, 10))
	if o := l.Add(h, body); o != Taken {
		t.Errorf("37 s ahead: %v", o)
	}
}

// TestFlood: whatever is sent, and of whatever size, memory stays within its bound, and
// is what is counted.
func TestFlood(t *testing.T) {
	bound := int64(16 << 20)
	if testing.Short() {
		bound = 4 << 20
	}
	for name, next := range map[string]func(i int) []byte{
		"samples in one second": func(i int) []byte { return sampleRecord(t, uint32(i), 5<<30, 1, false) },
		"samples of all times":  func(i int) []byte { return sampleRecord(t, 1, int64(i%7919)<<30+int64(i), 3, false) },
		"points":                func(i int) []byte { return pointRecord(t, uint32(i), uint16(i), int64(i)) },
		"fragments":             func(i int) []byte { return fragmentRecord(t, uint64(i), uint64(i/20)) },
		"single digests":        func(i int) []byte { return digestsRecord(t, uint32(i), int64(i/100), 1, 1, 1, 1) },
		"digests":               func(i int) []byte { return digestsRecord(t, 1, int64(i/10), 1, uint64(i), 1, 500) },
		"statuses":              func(i int) []byte { return statusRecord(t, uint32(i), 3) },
	} {
		// What is made once for all stores, as memory to unpack records in, is none of this one's.
		once := newLive(t, LiveConfig{Bytes: bound})
		for i := range 100 {
			once.AddBytes(next(i))
		}
		l := newLive(t, LiveConfig{Bytes: bound})
		before := heapInUse()
		for i := range 60_000 {
			l.AddBytes(next(i))
			if l.Counts().Evicted > 2000 || l.Counts().Late > 2000 {
				break
			}
		}
		l.check(t)
		held, _ := l.Bytes()
		used := heapInUse() - before
		c := l.Counts()
		if c.Unreadable+c.Unknown+c.Conflicts != 0 || c.Records == 0 {
			t.Errorf("%s: %+v", name, c)
		}
		if used > held+held/8+2<<20 || used < held/3 {
			t.Errorf("%s: %d bytes are used, %d were counted, of %d records", name, used, held, c.Records-c.Evicted)
		}
		runtime.KeepAlive(l)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestViewStays: a view does not change, while others add and evict.
func TestViewStays(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	var adding sync.WaitGroup
	for g := range uint64(3) {
		adding.Go(func() {
			for i := range int64(300) {
				l.AddBytes(join(digestsRecord(t, uint32(g), i, 1, uint64(i), uint64(i)*100, 100), sampleRecord(t, uint32(g), i<<30, 2, false), fragmentRecord(t, g+1, uint64(i))))
			}
		})
	}
	for range 3 {
		adding.Go(func() {
			k := pint.FlowKey{Version: 4, Proto: 6, SrcPort: 7}
			for range 15 {
				v := l.View(Window{})
				before, all := len(v.Digests(k, 5)), v.All()
				runtime.Gosched()
				if n := len(v.Digests(k, 5)); n != before || n != 100*len(v.Batches) || v.All() != all {
					t.Errorf("%d digests, before %d", n, before)
				}
				if m := v.Missing(OfDigests, all); slices.ContainsFunc(m, func(m Missing) bool { return m.Lost > 600 }) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
	adding.Wait()
	l.check(t)
	if c := l.Counts(); c.Evicted == 0 || c.Records+c.Late != 2700 {
		t.Errorf("%+v", c)
	}
}

// TestForgedDigests: a body that is not what its envelope says is refused.
func TestForgedDigests(t *testing.T) {
	good, body, _, err := record.Decode(digestsRecord(t, 1, 9, 1, 1, 1, 5))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(h *record.Header){
		"plan":      func(h *record.Header) { h.Plan++ },
		"partition": func(h *record.Header) { h.Instance = (h.Instance + 1) % record.Partitions },
		"none":      func(h *record.Header) { h.Instance += record.Partitions },
		"later":     func(h *record.Header) { h.Start++ },
		"earlier":   func(h *record.Header) { h.Start -= h.Span },
		"short":     func(h *record.Header) { h.Span = 4 },
		"no time":   func(h *record.Header) { h.Span = 0 },
		"old":       func(h *record.Header) { h.Start = math.MinInt64 },
	} {
		h := good
		change(&h)
		l := newLive(t, LiveConfig{Bytes: MinBytes})
		if o := l.Add(h, body); o != Unreadable {
			t.Errorf("%s: %v", name, o)
		}
	}
	if o := newLive(t, LiveConfig{Bytes: MinBytes}).Add(good, body); o != Taken {
		t.Errorf("%v", o)
	}
}

func TestLiveConfig(t *testing.T) {
	if _, err := NewLive(LiveConfig{Bytes: 5, Ahead: -1}); err == nil {
		t.Error("no error")
	}
	if got := outcomes.String() + Taken.String() + Late.String(); got != "unknowntakenlate" {
		t.Error(got)
	}
}

// FuzzLive: whatever bytes come, all is counted, and queries over it do not fail.
func FuzzLive(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 8 {
		f.Add(join(anyRecord(f, r), anyRecord(f, r)), uint8(0), int64(0))
		_, body, _, _ := record.Decode(anyRecord(f, r))
		f.Add(body, uint8(1+r.IntN(5)), int64(100+r.IntN(40))<<30)
	}
	f.Fuzz(func(t *testing.T, b []byte, kind uint8, start int64) {
		l := newLive(t, LiveConfig{Bytes: MinBytes})
		if kind == 0 {
			l.AddBytes(b)
			l.AddBytes(b)
		} else {
			h := record.Header{Kind: record.Kind(kind), Start: start, Span: 1 << 30}
			for h.Instance = range uint16(record.Partitions + 1) {
				l.Add(h, b)
			}
		}
		l.check(t)
		v := l.View(Window{})
		if uint64(kept(v)) != l.Counts().Records-l.Counts().Evicted {
			t.Errorf("%d records, %+v", kept(v), l.Counts())
		}
		for _, of := range []string{OfSamples, OfFlowSamples, OfPoints, OfFragments, OfDigests, OfStatuses} {
			v.Missing(of, v.All())
		}
		for _, plan := range v.plans() {
			for _, x := range v.Flows(plan) {
				if len(v.Digests(x.Key, plan)) != x.Digests {
					t.Errorf("%+v", x)
				}
			}
		}
	})
}

// plans lists the plans of which there are digests.
func (s *Store) plans() (list []uint16) {
	for i := range s.Batches {
		if p := s.Batches[i].Plan; !slices.Contains(list, p) {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}

// TestWithin: what memory has of a window, together with what was kept elsewhere of the records that had to make room, is what a larger memory
// has; what was not kept is named as evicted.
func TestWithin(t *testing.T) {
	small, large := newLive(t, LiveConfig{Bytes: MinBytes}), newLive(t, LiveConfig{Bytes: 64 * MinBytes})
	var all [][]byte
	for slice := range int64(600) {
		all = append(all, digestsRecord(t, 1, slice, 1, uint64(slice), uint64(slice)*200, 200), sampleRecord(t, 1, slice<<30, 4, false))
	}
	for _, b := range all {
		small.AddBytes(b)
		large.AddBytes(b)
	}
	from := small.KeptFrom()
	if from <= 0 || large.KeptFrom() != 0 || from != small.View(Window{}).All().From {
		t.Fatalf("kept from %d, of a larger one from %d", from, large.KeptFrom())
	}
	w := Window{from - 50<<30, from + 50<<30}
	archived := map[string]int64{OfDigests: from, OfSamples: from - 20<<30}
	own, err := small.Within(w, 64*MinBytes, archived)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if h, body, _, _ := record.Decode(b); (Window{h.Start, h.Start + h.Span}).Overlaps(w) {
			own.Add(h, body) // also what memory has
		}
	}
	own.check(t)
	if c := own.Counts(); c.Records != 200 || c.Duplicates != 100 {
		t.Errorf("%+v", c)
	}
	got, want := own.View(Window{}), large.View(w)
	compareStores(t, got, want)
	if m := got.Missing(OfDigests, w); len(m) != 1 || m[0].Evicted != 0 {
		t.Errorf("digests, which are all there: %+v", m)
	}
	if m := got.Missing(OfSamples, w); len(m) == 0 || m[0].Evicted != 20 {
		t.Errorf("samples, of which 20 may not be there: %+v", m)
	}
}

// TestWithinLate: what came late of a switch that is behind, and is not kept elsewhere yet, is named as evicted, whether it had to make room or was refused, also where records
// of its time are kept elsewhere; once it is kept there, it is not named.
func TestWithinLate(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	add := func(b []byte, arrived int64) Outcome {
		h, body, _, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		return l.AddAt(h, body, arrived<<bucketBits)
	}
	if o := add(sampleRecord(t, 2, 900<<bucketBits, 4, false), 1001); o != Taken {
		t.Fatal(o)
	}
	for now := int64(1000); l.KeptFrom() < 1001<<bucketBits; now++ {
		for _, sw := range []uint32{1, 3, 4} {
			add(digestsRecord(t, sw, now, 1, uint64(now), uint64(now)*200, 200), now+1)
		}
	}
	for range 2 { // as one
		if o := add(sampleRecord(t, 2, 901<<bucketBits, 4, false), 5000); o != Late {
			t.Fatal(o)
		}
	}
	w := Window{900 << bucketBits, 903 << bucketBits}
	for _, x := range []struct {
		archived int64
		want     uint64
	}{{1000, 3}, {1001, 2}, {4999, 2}, {5000, 0}} {
		own, err := l.Within(w, 64*MinBytes, map[string]int64{OfSamples: x.archived << bucketBits, OfDigests: math.MaxInt64})
		if err != nil {
			t.Fatal(err)
		}
		var evicted uint64
		for _, m := range own.View(Window{}).Missing(OfSamples, w) {
			evicted += m.Evicted
		}
		if evicted != x.want {
			t.Errorf("what came until %d is kept: %d are named, want %d", x.archived, evicted, x.want)
		}
	}
	if len(l.refused) != 0 {
		t.Errorf("remembered although it is kept: %v", l.refused)
	}
}

// TestJoinLate: what had to make room in another store is named until it is archived, by when it came.
func TestJoinLate(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	var last record.Header
	for now := int64(1000); l.KeptFrom() < 1002<<bucketBits; now++ {
		for _, sw := range []uint32{1, 3, 4} {
			h, body, _, err := record.Decode(digestsRecord(t, sw, now, 1, uint64(now), uint64(now)*200, 200))
			if err != nil {
				t.Fatal(err)
			}
			l.AddAt(h, body, (now+100)<<bucketBits)
			last = h
		}
	}
	w := Window{1000 << bucketBits, 1002 << bucketBits}
	v := l.View(Window{})
	v.Freeze()
	p := v.Part(int(last.Instance), w, false)
	for _, x := range []struct {
		archived int64
		want     uint64
	}{{1099, 6}, {1100, 3}, {1101, 0}} {
		own := newLive(t, LiveConfig{Bytes: MinBytes})
		own.Join([]Elsewhere{{Part: *p, Holder: "c2"}}, func(int) int64 { return x.archived << bucketBits })
		var evicted uint64
		for _, m := range own.View(Window{}).Missing(OfDigests, w) {
			evicted += m.Evicted
		}
		if evicted != x.want {
			t.Errorf("what came until %d is archived: %d are named, want %d, of %+v", x.archived, evicted, x.want, p.Evicted)
		}
	}
}

// TestPlanOfOtherKinds: the number of a plan makes no other record of a kind that has no plans.
func TestPlanOfOtherKinds(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	for i, b := range [][]byte{fragmentRecord(t, 1, 100), sampleRecord(t, 1, 100<<bucketBits, 3, false)} {
		h, body, _, err := record.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if o := l.Add(h, body); o != Taken {
			t.Fatal(o)
		}
		h.Plan = 7
		if o := l.Add(h, body); o != Duplicate {
			t.Errorf("record %d with a plan is %v", i, o)
		}
	}
}
