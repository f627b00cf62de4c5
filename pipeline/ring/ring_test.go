package ring

import (
	"math/rand/v2"
	"sync"
	"testing"
)

// TestTwin compares the ring with a slice, also where its indexes wrap at 2^32.
func TestTwin(t *testing.T) {
	for _, begin := range []uint32{0, 1<<32 - 5} {
		r := New[int](5)
		r.tail.Store(begin)
		r.head.Store(begin)
		r.seen = begin
		testTwin(t, r)
	}
}

func testTwin(t *testing.T, r *Ring[int]) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	var twin []int
	for i := range 100_000 {
		if rng.IntN(10) < 8 {
			if ok := r.Push(i); ok != (len(twin) < 8) {
				t.Fatalf("step %d: push with %d waiting says %v", i, len(twin), ok)
			} else if ok {
				twin = append(twin, i)
			}
			continue
		}
		if r.Len() != len(twin) {
			t.Fatalf("step %d: %d wait, not %d", i, r.Len(), len(twin))
		}
		var got []int
		n := r.Drain(func(v *int) { got = append(got, *v) })
		if n != len(twin) || len(got) != n {
			t.Fatalf("step %d: drained %d of %d", i, n, len(twin))
		}
		for k := range got {
			if got[k] != twin[k] {
				t.Fatalf("step %d: value %d is %d, not %d", i, k, got[k], twin[k])
			}
		}
		twin = twin[:0]
	}
}

// TestConcurrent: all values arrive once and in order.
func TestConcurrent(t *testing.T) {
	const values = 200_000
	r := New[uint64](64)
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := uint64(0); i < values; {
			if r.Push(i) {
				i++
			}
		}
	})
	next := uint64(0)
	for next < values {
		r.Drain(func(v *uint64) {
			if *v != next {
				t.Errorf("got %d, not %d", *v, next)
			}
			next++
		})
	}
	wait.Wait()
}

// TestLen: an observer never sees more values than the ring holds, nor fewer
// than none, whatever both sides do meanwhile.
func TestLen(t *testing.T) {
	r := New[int](4)
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.Push(1)
			}
		}
	})
	wait.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				r.Drain(func(*int) {})
			}
		}
	})
	for range 50_000 {
		if n := r.Len(); n < 0 || n > 4 {
			t.Errorf("%d values in a ring of 4", n)
			break
		}
	}
	close(stop)
	wait.Wait()
}

func TestDoesNotAllocate(t *testing.T) {
	r := New[[4]uint64](256)
	sum := uint64(0)
	if n := testing.AllocsPerRun(100, func() {
		for range 300 {
			r.Push([4]uint64{1})
		}
		r.Drain(func(v *[4]uint64) { sum += v[0] })
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPush(b *testing.B) {
	r := New[[6]uint64](4096)
	for i := 0; b.Loop(); i++ {
		if !r.Push([6]uint64{uint64(i)}) {
			r.Drain(func(*[6]uint64) {})
		}
	}
}

// TestAhead: values that are prepared together arrive in order, once they are committed and not before, as far as the ring has room.
func TestAhead(t *testing.T) {
	r := New[int](8)
	next, want := 0, 0
	for round := range 100 {
		n := 0
		for ; n < 5; n++ {
			at := r.Ahead(n)
			if at == nil {
				break
			}
			*at = next + n
		}
		if free := 8 - (next - want); n != min(5, free) {
			t.Fatalf("round %d: room for %d of 5, and %d places are free", round, n, free)
		}
		if r.Len() != next-want {
			t.Fatalf("round %d: %d values wait before they are committed, want %d", round, r.Len(), next-want)
		}
		r.Commit(n)
		next += n
		if round%3 == 0 {
			r.Drain(func(v *int) {
				if *v != want {
					t.Fatalf("round %d: %d, want %d", round, *v, want)
				}
				want++
			})
		}
	}
	if want < 100 {
		t.Errorf("%d values came", want)
	}
}
