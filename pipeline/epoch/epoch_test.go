package epoch

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// counts are cells for tests: how many packets of each slice number were
// counted.
type counts map[int64]uint64

func newCounts() *counts { c := counts{}; return &c }

func addCounts(dst, src *counts) {
	for k, v := range *src {
		(*dst)[k] += v
	}
}

func clearCounts(c *counts) { clear(*c) }

// packet counts a packet that arrives at now, as a stage does.
func packet(w *Worker[counts], now int64) {
	if c := w.Current(); c != nil {
		(*c)[w.Slice().Number()]++
		return
	}
	w.Miss(1)
}

func newSwitch(workers int) ([]*Worker[counts], *Merger[counts]) {
	ws := make([]*Worker[counts], workers)
	for i := range ws {
		ws[i] = NewWorker(newCounts)
	}
	return ws, NewMerger(ws, newCounts, addCounts, clearCounts)
}

func TestSlice(t *testing.T) {
	s := At(1_000_003, 10)
	if s.Start != 999_424 || s.End() != 1_000_448 || s.Number() != 976 || s.Length() != 1024 {
		t.Errorf("%+v: end %d, number %d", s, s.End(), s.Number())
	}
	if At(s.Start, 10) != s || At(s.End()-1, 10) != s || At(s.End(), 10) == s {
		t.Error("a slice does not contain its edges as it should")
	}
}

// TestOneWorker: every packet is in the cells of its own slice.
func TestOneWorker(t *testing.T) {
	ws, m := newSwitch(1)
	w := ws[0]
	const shift = 4
	sent, got := counts{}, counts{}
	emit := func(e *Merged[counts]) {
		for k, v := range *e.Cells {
			if k != e.Slice.Number() {
				t.Fatalf("slice %d has cells of %d", e.Slice.Number(), k)
			}
			got[k] += v
		}
		if first := e.Slice.Number() == 0; e.Partial != first || e.Missed != 0 {
			t.Fatalf("slice %d: partial %v, %d missed", e.Slice.Number(), e.Partial, e.Missed)
		}
	}
	next := int64(0)
	for now := int64(3); now < 500; now++ {
		if now >= next {
			next = w.Tick(now, shift)
			m.Collect(now, emit)
		}
		packet(w, now)
		sent[now>>shift]++
	}
	m.Flush(emit)
	last := int64(499 >> shift)
	for k := range last {
		if got[k] != sent[k] {
			t.Errorf("slice %d: %d of %d packets", k, got[k], sent[k])
		}
	}
	w.Finish(499)
	m.Flush(func(e *Merged[counts]) {
		if !e.Partial || (*e.Cells)[last] != sent[last] {
			t.Errorf("last slice %+v with %v, want %d packets, partial", e.Slice, *e.Cells, sent[last])
		}
	})
}

// TestNothingIsLost drives several workers and a lazy collector at random, with
// clocks that step: each packet is either in the cells of its slice, or missed.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 7))
		const shift = 6
		ws, m := newSwitch(1 + int(seed%3))
		sent, counted, missed := uint64(0), uint64(0), uint64(0)
		emit := func(e *Merged[counts]) {
			for k, v := range *e.Cells {
				if k != e.Slice.Number() {
					t.Fatalf("seed %d: slice %d has cells of %d", seed, e.Slice.Number(), k)
				}
				counted += v
			}
			missed += e.Missed
		}
		now, next := int64(1000), make([]int64, len(ws))
		for range 3000 {
			now += rng.Int64N(20)
			if rng.IntN(300) == 0 {
				now = max(0, now-rng.Int64N(500))
				clear(next)
			}
			i := rng.IntN(len(ws))
			if now >= next[i] {
				next[i] = ws[i].Tick(now, shift)
			}
			packet(ws[i], now)
			sent++
			if rng.IntN(20) == 0 {
				m.Collect(now, emit)
			}
		}
		for _, w := range ws {
			w.Finish(now)
		}
		m.Flush(emit)
		if counted+missed != sent {
			t.Fatalf("seed %d: %d counted + %d missed of %d", seed, counted, missed, sent)
		}
		total := uint64(0)
		for _, w := range ws {
			total += w.Missed()
			if w.Missed() != 0 && w.Overruns() == 0 {
				t.Fatalf("seed %d: packets missed without an overrun", seed)
			}
		}
		if total != missed {
			t.Fatalf("seed %d: counters say %d missed, records %d", seed, total, missed)
		}
	}
}

// TestOverrun: without a collector a worker measures one slice and a second,
// then nothing, and says so.
func TestOverrun(t *testing.T) {
	ws, m := newSwitch(1)
	w := ws[0]
	for now := int64(0); now < 10*16; now++ {
		w.Tick(now, 4)
		packet(w, now)
	}
	var slices []int64
	m.Collect(160, func(e *Merged[counts]) {
		slices = append(slices, e.Slice.Number())
		if e.Missed != 0 || (*e.Cells)[e.Slice.Number()] != 16 {
			t.Errorf("slice %d: %v, %d missed", e.Slice.Number(), *e.Cells, e.Missed)
		}
	})
	if len(slices) != 2 || slices[0] != 0 || slices[1] != 1 {
		t.Fatalf("slices %v, want 0 and 1", slices)
	}
	w.Tick(160, 4)
	packet(w, 160)
	w.Finish(161)
	m.Flush(func(e *Merged[counts]) {
		if e.Missed != 8*16 {
			t.Errorf("%d missed, want %d", e.Missed, 8*16)
		}
	})
}

// TestLateWorker: a worker that does not come leaves its slice partial, after
// the grace.
func TestLateWorker(t *testing.T) {
	ws, m := newSwitch(2)
	for _, w := range ws {
		w.Tick(0, 10)
	}
	ws[0].Tick(1024, 10)
	never := func(*Merged[counts]) { t.Fatal("emitted without the second worker") }
	m.Collect(2000, never)
	n := 0
	m.Collect(2000+grace, func(e *Merged[counts]) {
		n++
		if !e.Partial {
			t.Error("not partial")
		}
	})
	if n != 1 {
		t.Errorf("%d slices", n)
	}
}

// TestLateOnce: a worker that was late once, by more than the grace, is waited for again in the following slices, in either order of the workers.
func TestLateOnce(t *testing.T) {
	const shift = 30
	edge := func(n int64) int64 { return n << shift }
	for i := range 4 {
		late, order := i%2, i/2
		ws, m := newSwitch(2)
		for i := range ws {
			ws[i].Tick(0, shift)
			packet(ws[i], 0)
		}
		got := map[int64][]bool{} // whether its records are partial
		packets := uint64(0)
		collect := func(now int64) {
			m.Collect(now, func(e *Merged[counts]) {
				got[e.Slice.Number()] = append(got[e.Slice.Number()], e.Partial)
				packets += (*e.Cells)[e.Slice.Number()]
			})
		}
		first := 1 - late
		ws[first].Tick(edge(1), shift)
		packet(ws[first], edge(1))
		collect(edge(1) + grace + 1)
		ws[late].Tick(edge(1)+grace+2, shift)
		packet(ws[late], edge(1)+grace+2)
		collect(edge(1) + grace + 3)
		for n := int64(2); n < 8; n++ {
			for i, w := range []*Worker[counts]{ws[(first+order)%2], ws[(late+order)%2]} {
				w.Tick(edge(n)+2*int64(i), shift)
				packet(w, edge(n)+2*int64(i))
				collect(edge(n) + 2*int64(i) + 1)
			}
		}
		want := map[int64][]bool{0: {true, true}, 1: {false}, 2: {false}, 3: {false}, 4: {false}, 5: {false}, 6: {false}}
		if !maps.EqualFunc(got, want, slices.Equal) || packets != 14 {
			t.Errorf("worker %d was late, order %d: slices %v, %d packets", late, order, got, packets)
		}
	}
}

// TestHandedMeanwhile: cells that come while the merger looks, between the two steps of Collect, are waited for.
func TestHandedMeanwhile(t *testing.T) {
	ws, m := newSwitch(2)
	for i := range ws {
		ws[i].Tick(0, 10)
		packet(ws[i], 0)
	}
	ws[0].Tick(1024, 10)
	m.take()
	ws[1].Tick(1025, 10)
	if m.complete(1025) {
		t.Error("complete, though the second worker's cells wait")
	}
	n := 0
	m.Collect(1025, func(e *Merged[counts]) {
		if n++; e.Partial || (*e.Cells)[0] != 2 {
			t.Errorf("slice %d: %d packets, partial %v", e.Slice.Number(), (*e.Cells)[0], e.Partial)
		}
	})
	if n != 1 {
		t.Errorf("%d slices", n)
	}
}

// TestOtherLength: slices of two workers that begin together and have other lengths do not wait for each other.
func TestOtherLength(t *testing.T) {
	ws, m := newSwitch(2)
	got := uint64(0)
	add := func(e *Merged[counts]) {
		for _, n := range *e.Cells {
			got += n
		}
	}
	for i := range ws {
		ws[i].Tick(0, 10)
	}
	for i, shift := range []uint8{9, 10} {
		ws[i].Tick(1024, shift)
		packet(ws[i], 1024)
	}
	m.Collect(1024, add)
	for i := range ws {
		ws[i].Tick(4096, 10)
	}
	m.Collect(4096, add)
	m.Collect(4096+2*grace, add)
	if got != 2 {
		t.Errorf("%d of 2 packets", got)
	}
}

// TestDeadWorker: a worker that hands nothing over costs one grace, and not one
// per slice: the others' copies would not come back in time.
func TestDeadWorker(t *testing.T) {
	ws, m := newSwitch(2)
	slices, counted := int64(0), uint64(0)
	emit := func(e *Merged[counts]) {
		slices++
		counted += (*e.Cells)[e.Slice.Number()]
		if !e.Partial {
			t.Errorf("slice %d is not partial", e.Slice.Number())
		}
	}
	const shift = 27 // eight slices in a grace
	ws[1].Tick(0, shift)
	sent := uint64(0)
	for now := int64(0); now < 5*grace; now += 1 << (shift - 2) {
		ws[0].Tick(now, shift)
		packet(ws[0], now)
		sent++
		m.Collect(now, emit)
	}
	if n := ws[0].Overruns(); n > 9 || slices < 20 {
		t.Errorf("%d overruns, %d slices, %d of %d packets", n, slices, counted, sent)
	}
	// It comes back, and its slices are whole again.
	for i := range ws {
		ws[i].Tick(6*grace, shift)
	}
	m.Collect(6*grace, func(*Merged[counts]) {})
	for slice := At(6*grace, shift); slice.Start < 7*grace; slice.Start = slice.End() {
		for i := range ws {
			ws[i].Tick(slice.End(), shift)
		}
		m.Collect(slice.End(), func(e *Merged[counts]) {
			if e.Slice.End() > 6*grace && e.Partial {
				t.Errorf("slice %+v is partial", e.Slice)
			}
		})
	}
}

// TestStraggler: what a worker measured before the others began does not hide
// that it is about to give the open slice as well.
func TestStraggler(t *testing.T) {
	ws, m := newSwitch(2)
	ws[0].Tick(16, 4)
	packet(ws[0], 16)
	ws[1].Tick(0, 4)
	packet(ws[1], 0)
	ws[0].Tick(32, 4)
	m.Collect(32, func(e *Merged[counts]) { t.Errorf("slice %d without its second worker", e.Slice.Number()) })
	ws[1].Tick(30, 4) // late: the slice of 0 ends
	packet(ws[1], 30)
	ws[1].Tick(33, 4)
	var got []int64
	m.Collect(34, func(e *Merged[counts]) {
		got = append(got, e.Slice.Number())
		if n, first := (*e.Cells)[e.Slice.Number()], e.Slice.Number() == 0; first != e.Partial || n != 2 && !first || n != 1 && first {
			t.Errorf("slice %d: %d packets, partial %v", e.Slice.Number(), n, e.Partial)
		}
	})
	if len(got) != 2 || got[0] != 0 || got[1] != 1 {
		t.Errorf("slices %v, want 0 by itself, then 1", got)
	}
}

// TestClockSetBack: an open slice that now lies ahead is not waited for until
// the clock is there again.
func TestClockSetBack(t *testing.T) {
	const hour = 3600e9
	ws, m := newSwitch(2)
	for _, w := range ws {
		w.Tick(hour, 20)
	}
	ws[0].Tick(10, 20) // the second worker is dead
	n := 0
	m.Collect(10, func(*Merged[counts]) { n++ })
	m.Collect(10+grace, func(*Merged[counts]) { n++ })
	if n != 0 {
		t.Error("emitted within the grace")
	}
	m.Collect(11+grace, func(e *Merged[counts]) { n++ })
	if n != 1 {
		t.Errorf("%d slices behind the grace", n)
	}
}

// TestChangingShift: slices of changing lengths contain what they should, and
// those that overlap the one before are partial.
func TestChangingShift(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 9))
		ws, m := newSwitch(1)
		w := ws[0]
		got, end, sent := uint64(0), int64(0), uint64(0)
		emit := func(e *Merged[counts]) {
			if e.Partial != (e.Slice.Start < end) && e.Slice.Start != 0 {
				t.Fatalf("seed %d: slice %+v behind %d is partial: %v", seed, e.Slice, end, e.Partial)
			}
			for k, v := range *e.Cells {
				if k != e.Slice.Number() {
					t.Fatalf("seed %d: slice %+v has cells of %d", seed, e.Slice, k)
				}
				got += v
			}
			if !e.Partial && (*e.Cells)[e.Slice.Number()] != uint64(e.Slice.Length()) {
				t.Fatalf("seed %d: whole slice %+v has %v", seed, e.Slice, *e.Cells)
			}
			end = e.Slice.End()
		}
		now, next := int64(0), int64(0)
		for ; now < 5000; now++ {
			if now >= next {
				next = w.Tick(now, uint8(2+rng.IntN(5)))
				m.Collect(now, emit)
			}
			packet(w, now)
			sent++
		}
		m.Collect(now, emit)
		w.Finish(now)
		m.Flush(func(e *Merged[counts]) { got += (*e.Cells)[e.Slice.Number()] })
		if got != sent {
			t.Fatalf("seed %d: %d of %d packets", seed, got, sent)
		}
	}
}

func TestConcurrent(t *testing.T) {
	const workers, packets, shift = 3, 100_000, 8
	ws, m := newSwitch(workers)
	var wait sync.WaitGroup
	for _, w := range ws {
		wait.Go(func() {
			next := int64(0)
			for now := range int64(packets) {
				if now >= next {
					next = w.Tick(now, shift)
				}
				packet(w, now)
			}
			w.Finish(packets)
		})
	}
	ended := make(chan struct{})
	go func() { wait.Wait(); close(ended) }()
	counted, missed := uint64(0), uint64(0)
	emit := func(e *Merged[counts]) {
		for _, v := range *e.Cells {
			counted += v
		}
		missed += e.Missed
	}
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
		}
		m.Collect(0, emit)
	}
	m.Flush(emit)
	if counted+missed != workers*packets {
		t.Errorf("%d counted, %d missed, of %d", counted, missed, workers*packets)
	}
}

func TestTickDoesNotAllocate(t *testing.T) {
	w := NewWorker(func() *[64]uint64 { return new([64]uint64) })
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() {
		w.Tick(now, 4)
		if h := w.Handed(); h != nil {
			w.Return()
		}
		now += 10
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
