package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// slowMissing looks behind each batch for the next one of its sender: lost records, and
// digests with those that headers tell.
func slowMissing(s *Store, w Window) (records, digests uint64) {
	for i := range s.Batches {
		a := s.Batches[i]
		if a.Overlaps(w) {
			digests += a.Missed
		}
		var next *Batch
		for j := range s.Batches {
			b := s.Batches[j]
			same := a.Switch == b.Switch && a.Instance == b.Instance && a.Boot == b.Boot
			if same && b.Sequence > a.Sequence && (next == nil || b.Sequence < next.Sequence) {
				next = b
			}
		}
		if next == nil || next.Sequence == a.Sequence+1 || w.From >= max(a.To, next.To) || min(a.From, next.From) >= w.To {
			continue
		}
		records += next.Sequence - a.Sequence - 1
		digests += next.Sent - a.Sent - uint64(a.Len())
	}
	return records, digests
}

// TestGapsTwin: a store that is asked about many windows says of each what looking for
// each batch's successor finds, in whatever order records came.
func TestGapsTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	var all [][]byte
	for sw := range uint32(3) {
		for i := range uint64(60) {
			if r.IntN(3) > 0 {
				all = append(all, digestsRecord(t, 1+sw, 5+int64(i), 7+i/30, i, 4*i, 4))
			}
		}
	}
	for round := range 5 {
		l, s := newLive(t, LiveConfig{Bytes: 1 << 24}), &Store{}
		l.AddBytes(join(all...))
		s.AddBytes(join(all...))
		s.Sort()
		view, lost := l.View(Window{}), uint64(0)
		for range 60 {
			from := r.Int64N(70)
			w := Window{from << 30, (from + 1 + r.Int64N(20)) << 30}
			records, digests := slowMissing(s, w)
			for name, s := range map[string]*Store{"folder": s, "view": view, "view of the window": l.View(w), "view again": view} {
				gotRecords, gotDigests := uint64(0), uint64(0)
				for _, m := range s.Missing(OfDigests, w) {
					gotRecords, gotDigests = gotRecords+m.Lost, gotDigests+m.Packets
				}
				if gotRecords != records || gotDigests != digests {
					t.Fatalf("round %d, %s, %+v: %d records with %d digests are missing, not %d with %d", round, name, w, gotRecords, gotDigests, records, digests)
				}
				lost += records
			}
		}
		if lost == 0 {
			t.Error("nothing was missing anywhere")
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	}
}

// TestMissingIsOwn: who changes a list of what is missing changes that of nobody else.
func TestMissingIsOwn(t *testing.T) {
	l := newLive(t, LiveConfig{Bytes: MinBytes})
	l.AddBytes(join(digestsRecord(t, 1, 10, 7, 0, 0, 4), digestsRecord(t, 1, 11, 7, 5, 20, 4)))
	s := l.View(Window{})
	first := s.Missing(OfDigests, s.All())
	if len(first) != 1 {
		t.Fatalf("%+v", first)
	}
	first[0].Lost = 0
	if again := s.Missing(OfDigests, s.All()); again[0].Lost != 4 {
		t.Errorf("%+v", again)
	}
}

// TestRemember: a frozen store makes a value once, keeps to its bound, what was asked for
// last longest, and forgets all when a record comes.
func TestRemember(t *testing.T) {
	type key int
	made, fault := map[key]int{}, errors.New("a fault")
	s := &Store{}
	ask := func(k key, bytes int64, err error) {
		t.Helper()
		value, got := s.Remember(k, func() (any, int64, error) {
			made[k]++
			return fmt.Sprint(int(k)), bytes, err
		})
		if value != fmt.Sprint(int(k)) || !errors.Is(got, err) {
			t.Fatalf("%v, %v", value, got)
		}
	}
	times := func(k key, n int) {
		t.Helper()
		if made[k] != n {
			t.Errorf("%d was made %d times, not %d", k, made[k], n)
		}
	}
	ask(1, 10, nil)
	ask(1, 10, nil)
	times(1, 2) // not frozen
	s.Freeze()
	for range 3 {
		ask(1, 10, nil)
		ask(2, 10, fault)
		ask(3, memoBytes, nil)
	}
	times(1, 3)
	times(2, 3)
	times(3, 3)
	const large = memoBytes / 4
	for k := key(10); k < 13; k++ {
		ask(k, large, nil)
		ask(1, 10, nil) // and stays
	}
	ask(13, large, nil) // 10 goes
	ask(1, 10, nil)
	ask(11, large, nil)
	times(1, 3)
	times(11, 1)
	ask(10, large, nil) // 12 goes, which was not asked for longest
	times(10, 2)
	ask(11, large, nil)
	times(11, 1)
	if s.memo.bytes > memoBytes {
		t.Errorf("%d bytes", s.memo.bytes)
	}
	s.AddBytes(digestsRecord(t, 1, 10, 7, 0, 0, 4))
	ask(11, large, nil)
	times(11, 2)
}

// TestRememberTogether: several may ask at a time.
func TestRememberTogether(t *testing.T) {
	type key int
	s := &Store{}
	s.Freeze()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(g)))
			for range 2000 {
				k := key(r.IntN(20))
				if v, err := s.Remember(k, func() (any, int64, error) { return k, memoBytes / 10, nil }); v != k || err != nil {
					t.Errorf("%v, %v, asked for %v", v, err, k)
				}
				s.Missing(OfDigests, Window{0, r.Int64N(5)})
			}
		})
	}
	all.Wait()
	sum := int64(0)
	for _, r := range s.memo.known {
		sum += r.bytes
	}
	if sum != s.memo.bytes || sum > memoBytes {
		t.Errorf("%d bytes are noted, it is %d", s.memo.bytes, sum)
	}
}
