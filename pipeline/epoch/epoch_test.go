package epoch

import (
	"math/rand/v2"
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
		// A worker whose copies are both out at its end cannot hand over what it missed.
		m.Collect(now+10*grace, emit)
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
	unsaid := uint64(0) // by workers that had no cells at their end
	for _, w := range ws {
		unsaid += w.Missed()
	}
	if counted+unsaid != workers*packets || missed > unsaid {
		t.Errorf("%d counted, %d missed, %d in records, of %d", counted, unsaid, missed, workers*packets)
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
