package event

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// twin keeps all events sorted.
type twin struct {
	events []twinEvent
	pushed int
}

type twinEvent struct {
	at    Time
	order int
	id    uint32
}

func (w *twin) push(at Time, id uint32) {
	w.pushed++
	w.events = append(w.events, twinEvent{at, w.pushed, id})
	slices.SortFunc(w.events, func(a, b twinEvent) int { return cmp.Or(cmp.Compare(a.at, b.at), a.order-b.order) })
}

func TestQueueAgainstSorting(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var q Queue
		var w twin
		most := 1 + r.IntN(60)
		for range 3000 {
			want := Never
			if len(w.events) > 0 {
				want = w.events[0].at
			}
			if r.IntN(4) == 0 && q.Next() != want {
				t.Fatalf("the next is at %d, want %d", q.Next(), want)
			}
			if len(w.events) == 0 || len(w.events) < most && r.IntN(2) == 0 {
				at, id := Time(r.IntN(50)), uint32(r.IntN(MaxID+1)) // ties are common
				q.Push(at, id)
				w.push(at, id)
				continue
			}
			at, id := q.Pop()
			if e := w.events[0]; at != e.at || id != e.id {
				t.Fatalf("event %d at %d, want %d at %d", id, at, e.id, e.at)
			}
			w.events = w.events[1:]
		}
	}
}

func TestQueueDoesNotAllocate(t *testing.T) {
	var q Queue
	for i := range uint32(1000) {
		q.Push(Time(i), i)
	}
	if n := testing.AllocsPerRun(1000, func() {
		at, id := q.Pop()
		q.Push(at+500, id)
	}); n != 0 {
		t.Errorf("%v allocations per event", n)
	}
}

func BenchmarkQueue(b *testing.B) {
	var q Queue
	r := rand.New(rand.NewPCG(1, 1))
	for i := range uint32(2000) {
		q.Push(Time(r.IntN(1_000_000)), i)
	}
	for b.Loop() {
		at, id := q.Pop()
		q.Push(at+Time(1_000_000+id&0xffff), id)
	}
}
