package xsk

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// memoryRing is a ring in ordinary memory, whose indexes begin at start.
func memoryRing[T Desc | uint64](size int, start uint32) shared[T] {
	s := shared[T]{produced: new(atomic.Uint32), consumed: new(atomic.Uint32), flags: new(atomic.Uint32), slots: make([]T, size)}
	s.produced.Store(start)
	s.consumed.Store(start)
	return s
}

func memoryTX(size int, start uint32) *TX {
	return &TX{producer: producer[Desc]{shared: memoryRing[Desc](size, start), head: start, tail: start}, fd: -1}
}

func memoryFill(size int, start uint32) *Fill {
	return &Fill{producer[uint64]{shared: memoryRing[uint64](size, start), head: start, tail: start}}
}

func memoryRX(size int, start uint32) *RX {
	return &RX{consumer[Desc]{shared: memoryRing[Desc](size, start), tail: start}}
}

func memoryCompletion(size int, start uint32) *Completion {
	return &Completion{consumer[uint64]{shared: memoryRing[uint64](size, start), tail: start}}
}

// kernel is the far end of a ring, one item at a time and obviously right.
type kernel[T Desc | uint64] struct{ ring *shared[T] }

func (k kernel[T]) take() (item T, ok bool) {
	c := k.ring.consumed.Load()
	if c == k.ring.produced.Load() {
		return item, false
	}
	item = k.ring.slots[c%uint32(len(k.ring.slots))]
	k.ring.consumed.Store(c + 1)
	return item, true
}

func (k kernel[T]) give(item T) bool {
	p := k.ring.produced.Load()
	if p-k.ring.consumed.Load() == uint32(len(k.ring.slots)) {
		return false
	}
	k.ring.slots[p%uint32(len(k.ring.slots))] = item
	k.ring.produced.Store(p + 1)
	return true
}

// starts has the wrap of the indexes at 2^32 within the first few operations.
var starts = []uint32{0, 1, 5, ^uint32(0), ^uint32(0) - 6}

func forEachRing(t *testing.T, test func(t *testing.T, size int, start uint32, random *rand.Rand)) {
	for _, size := range []int{1, 2, 8, 64} {
		for _, start := range starts {
			t.Run(fmt.Sprintf("size=%d,start=%d", size, start), func(t *testing.T) {
				test(t, size, start, rand.New(rand.NewPCG(uint64(size), uint64(start))))
			})
		}
	}
}

// packets makes n descriptors numbered from *next on, of packets of one to four buffers; the
// last packet may lack its end.
func packets(random *rand.Rand, n int, next *uint64) []Desc {
	descs := make([]Desc, n)
	for i := range descs {
		descs[i] = Desc{Addr: *next, Len: uint32(*next), Options: uint32(random.IntN(4) / 3 * Continued)}
		*next++
	}
	return descs
}

func TestTXAgainstQueue(t *testing.T) {
	forEachRing(t, func(t *testing.T, size int, start uint32, random *rand.Rand) {
		tx := memoryTX(size, start)
		far := kernel[Desc]{&tx.shared}
		var queue []Desc // the twin: what is in the ring
		next := uint64(0)
		for range 5000 {
			if random.IntN(2) == 0 {
				descs := packets(random, random.IntN(size+3), &next)
				want := min(len(descs), size-len(queue))
				for want > 0 && descs[want-1].Options == Continued {
					want--
				}
				if got := tx.Push(descs); got != want {
					t.Fatalf("Push of %d with %d of %d slots used took %d, want %d", len(descs), len(queue), size, got, want)
				}
				queue = append(queue, descs[:want]...)
			}
			for range random.IntN(size + 1) {
				got, ok := far.take()
				if ok != (len(queue) > 0) || ok && got != queue[0] {
					t.Fatalf("kernel took %v, %v; queue %v", got, ok, queue)
				}
				if ok {
					queue = queue[1:]
				}
			}
			if tx.Free() != size-len(queue) || tx.Unsent() != len(queue) {
				t.Fatalf("Free %d and Unsent %d, with %d of %d used", tx.Free(), tx.Unsent(), len(queue), size)
			}
		}
	})
}

func TestRXAgainstQueue(t *testing.T) {
	forEachRing(t, func(t *testing.T, size int, start uint32, random *rand.Rand) {
		rx := memoryRX(size, start)
		far := kernel[Desc]{&rx.shared}
		var queue []Desc
		next := uint64(0)
		into := make([]Desc, size+3)
		for range 5000 {
			// Like the kernel, show whole packets only: several descriptors, one last of its packet.
			descs := packets(random, random.IntN(size+1), &next)
			descs = descs[:wholePackets(descs)]
			if len(descs) <= size-len(queue) {
				for _, d := range descs {
					far.give(d)
				}
				queue = append(queue, descs...)
			}
			room := into[:random.IntN(len(into))]
			want := min(len(queue), len(room))
			whole := want
			for whole > 0 && queue[whole-1].Options == Continued {
				whole--
			}
			if whole > 0 {
				want = whole
			}
			if rx.Available() != len(queue) {
				t.Fatalf("Available %d, want %d", rx.Available(), len(queue))
			}
			got := rx.Pop(room)
			if got != want || !slices.Equal(room[:got], queue[:want]) {
				t.Fatalf("Pop into %d gave %d %v, want %v", len(room), got, room[:got], queue[:want])
			}
			queue = queue[want:]
		}
	})
}

func TestFillAndCompletionAgainstQueue(t *testing.T) {
	forEachRing(t, func(t *testing.T, size int, start uint32, random *rand.Rand) {
		fill, completion := memoryFill(size, start), memoryCompletion(size, start)
		takes, gives := kernel[uint64]{&fill.shared}, kernel[uint64]{&completion.shared}
		var filled, completed []uint64
		next := uint64(0)
		into := make([]uint64, size+3)
		for range 5000 {
			addrs := make([]uint64, random.IntN(size+3))
			for i := range addrs {
				addrs[i] = next
				next++
			}
			want := min(len(addrs), size-len(filled))
			if got := fill.Push(addrs); got != want {
				t.Fatalf("Push of %d took %d, want %d", len(addrs), got, want)
			}
			filled = append(filled, addrs[:want]...)
			for range random.IntN(size + 1) {
				addr, ok := takes.take()
				if !ok {
					break
				}
				if addr != filled[0] {
					t.Fatalf("kernel took %d, want %d", addr, filled[0])
				}
				filled = filled[1:]
				if gives.give(addr) {
					completed = append(completed, addr)
				}
			}
			room := into[:random.IntN(len(into))]
			got := completion.Pop(room)
			if want := min(len(completed), len(room)); got != want || !slices.Equal(room[:got], completed[:want]) {
				t.Fatalf("Pop gave %v, want %v", room[:got], completed[:want])
			}
			completed = completed[got:]
		}
	})
}

// TestRingBetweenGoroutines gives the race detector both ends at once.
func TestRingBetweenGoroutines(t *testing.T) {
	const total = 100_000
	ring := memoryRing[Desc](64, ^uint32(0)-100)
	start := ring.produced.Load()
	tx := &TX{producer: producer[Desc]{shared: ring, head: start, tail: start}}
	rx := &RX{consumer[Desc]{shared: ring, tail: start}}
	var group sync.WaitGroup
	group.Go(func() {
		batch := make([]Desc, 32)
		for sent := 0; sent < total; {
			n := min(len(batch), total-sent)
			for i := range batch[:n] {
				batch[i] = Desc{Addr: uint64(sent + i), Len: uint32(sent + i)}
			}
			pushed := tx.Push(batch[:n])
			if pushed == 0 {
				runtime.Gosched()
			}
			sent += pushed
		}
	})
	batch := make([]Desc, 48)
	for received := 0; received < total; {
		n := rx.Pop(batch)
		if n == 0 {
			runtime.Gosched()
		}
		for _, d := range batch[:n] {
			if d.Addr != uint64(received) || d.Len != uint32(received) {
				t.Fatalf("item %d is %+v", received, d)
			}
			received++
		}
	}
	group.Wait()
}

func TestPopOfPacketLongerThanSlice(t *testing.T) {
	rx := memoryRX(8, 0)
	far := kernel[Desc]{&rx.shared}
	for i := range 5 {
		options := uint32(Continued)
		if i == 4 {
			options = 0
		}
		far.give(Desc{Addr: uint64(i), Options: options})
	}
	into := make([]Desc, 2)
	var parts []int
	for n := rx.Pop(into); n > 0; n = rx.Pop(into) {
		parts = append(parts, n)
	}
	if !slices.Equal(parts, []int{2, 2, 1}) {
		t.Errorf("parts %v, want 2, 2, 1", parts)
	}
}

func TestNeedsWakeup(t *testing.T) {
	tx := memoryTX(2, 0)
	if tx.NeedsWakeup() {
		t.Error("needs a wakeup without the flag")
	}
	tx.flags.Store(needWakeup)
	if !tx.NeedsWakeup() {
		t.Error("needs no wakeup with the flag")
	}
}

func TestRingsDoNotAllocate(t *testing.T) {
	fill, completion, rx, tx := memoryFill(64, 0), memoryCompletion(64, 0), memoryRX(64, 0), memoryTX(64, 0)
	addrs, descs := make([]uint64, 16), make([]Desc, 16)
	allocs := testing.AllocsPerRun(1000, func() {
		fill.consumed.Store(fill.produced.Load())
		fill.Push(addrs)
		completion.produced.Add(16)
		completion.Pop(addrs)
		rx.produced.Add(16)
		rx.Pop(descs)
		tx.consumed.Store(tx.produced.Load())
		tx.Push(descs)
		tx.Free()
		tx.NeedsWakeup()
		if tx.Kick() != KickGone { // the descriptor is -1
			t.Error("kick on no socket")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations per round", allocs)
	}
}

// BenchmarkRing moves batches through an RX and a TX ring, as a forwarder does.
func BenchmarkRing(b *testing.B) {
	for _, batch := range []int{1, 8, 32, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			rx, tx := memoryRX(2048, 0), memoryTX(2048, 0)
			descs := make([]Desc, batch)
			b.ReportAllocs()
			for b.Loop() {
				rx.produced.Add(uint32(batch))
				n := rx.Pop(descs)
				tx.Push(descs[:n])
				tx.consumed.Store(tx.head)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(batch), "ns/packet")
		})
	}
}
