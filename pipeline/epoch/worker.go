package epoch

import "sync/atomic"

// Handed is what a worker hands over: its cells of one slice.
type Handed[T any] struct {
	Slice Slice
	// Missed packets of the slice are not in the cells, because no copy was
	// free.
	Missed uint64
	// Partial: the worker began or ended inside the slice, its clock stepped, or
	// the slice overlaps the one before it, which was of another length.
	Partial bool
	Cells   *T

	// next is the copy that is handed over behind this one. The worker alone changes it, while it holds the copy.
	next *Handed[T]

	// out: the collector's turn. The worker writes the fields above before it
	// sets it, and the collector clears the cells before it unsets it.
	out atomic.Bool
}

// The copies of a worker's cells: at first, and at most where the collector is late.
const (
	leastCopies = 2
	mostCopies  = 4
)

// Worker is one worker's cells in two copies, or up to mostCopies where the collector was late. Tick, Current, Miss and Finish
// belong to the worker; Handed, Return and provide to one collecting goroutine. It is made by
// NewWorker, and must not be copied.
//
// The copies are a ring, in the order in which they are handed over. Where the next one is still with the collector, the worker puts the
// spare in front of it, if there is one:
//
//	... ──> held ──> (spare) ──> with the collector ──> ...
type Worker[T any] struct {
	// The worker's.
	copy    *Handed[T] // in use, or to be used once it is back
	holding bool
	begun   bool
	slice   Slice
	missed  uint64 // to be reported with the next cells handed over
	fresh   uint64 // of these, not in total yet
	partial bool

	_ [64]byte // the collector writes below while the worker counts above
	// The collector's: the copy to be handed over next, how many there are, and what makes one.
	turn   *Handed[T]
	copies int
	cells  func() *T
	// spare is a copy that the collector made and the worker did not take yet.
	spare atomic.Pointer[Handed[T]]
	// overruns counts slices of which packets were missed, or might have been;
	// total the missed packets, as of the last edge.
	overruns atomic.Uint64
	total    atomic.Uint64
	// unreported is what the worker missed last, if it had no cells at its end to report
	// it with; written by Finish, before the collector's last call.
	unreported atomic.Uint64
}

// NewWorker returns a worker with two copies of cells, both empty. More of them are made by the collecting goroutine.
func NewWorker[T any](cells func() *T) *Worker[T] {
	first, second := &Handed[T]{Cells: cells()}, &Handed[T]{Cells: cells()}
	first.next, second.next = second, first
	return &Worker[T]{copy: first, turn: first, copies: leastCopies, cells: cells}
}

// Current returns the cells to update, or nil while all copies are with the
// collector: then the stage passes Miss what it did not measure.
func (w *Worker[T]) Current() *T {
	if !w.holding {
		return nil
	}
	return w.copy.Cells
}

// Slice is the slice that the current cells belong to.
func (w *Worker[T]) Slice() Slice { return w.slice }

// Miss counts packets that were not measured.
func (w *Worker[T]) Miss(packets int) {
	w.missed += uint64(packets)
	w.fresh += uint64(packets)
}

// retry is how soon a worker without cells looks again, in ns.
const retry = 1 << 20

// Tick is the worker's part of pipeline.Ticker for slices of 2^shift ns; shift
// may change from one slice to the next, and then takes effect at the edge. The
// stage asks for Current anew behind it.
func (w *Worker[T]) Tick(now int64, shift uint8) (next int64) {
	switch {
	case !w.begun:
		w.begun = true
		w.slice = At(now, shift)
		w.partial = now != w.slice.Start
		w.holding = true
	case now >= w.slice.End():
		w.flip(At(now, shift), false)
	case now < w.slice.Start:
		// The clock stepped back: what was measured stays with its slice, which
		// may come a second time.
		w.flip(At(now, shift), true)
	}
	if !w.holding && !w.copy.out.Load() {
		w.holding = true
	}
	if !w.holding {
		return min(now+retry, w.slice.End())
	}
	return w.slice.End()
}

// flip hands the current copy over, if there is one, and begins a slice with
// the next.
func (w *Worker[T]) flip(next Slice, stepped bool) {
	w.total.Add(w.fresh)
	w.fresh = 0
	if w.holding {
		h := w.copy
		h.Slice, h.Missed, h.Partial = w.slice, w.missed, w.partial || stepped
		if w.missed != 0 {
			w.overruns.Add(1)
		}
		if h.next.out.Load() {
			if s := w.spare.Swap(nil); s != nil {
				s.next, h.next = h.next, s
			}
		}
		w.copy = h.next
		h.out.Store(true)
		w.holding = false
		w.missed = 0
	} else {
		// The whole slice passed without cells. What it missed goes on with the
		// next that has any, so that no count is lost.
		w.overruns.Add(1)
	}
	// A slice of another length may have begun before this one ended.
	w.partial = stepped || next.Start < w.slice.End()
	w.slice = next
}

// Finish hands the current cells over, at the worker's end.
func (w *Worker[T]) Finish(now int64) {
	if !w.begun {
		return
	}
	w.Tick(now, w.slice.Shift) // a copy may have come back
	w.partial = true
	if !w.holding {
		w.unreported.Store(w.missed)
	}
	w.flip(w.slice, true)
}

// Overruns counts the slices in which the worker lacked cells. From anywhere.
func (w *Worker[T]) Overruns() uint64 { return w.overruns.Load() }

// Missed counts the packets passed to Miss, as of the last edge. From
// anywhere.
func (w *Worker[T]) Missed() uint64 { return w.total.Load() }

// Handed returns the oldest cells that the worker handed over and that were
// not returned yet; nil if there are none. Collector only.
func (w *Worker[T]) Handed() *Handed[T] {
	if w.turn.out.Load() {
		return w.turn
	}
	return nil
}

// Return gives the cells of Handed back, which the collector has cleared.
func (w *Worker[T]) Return() {
	h := w.turn
	w.turn = h.next
	h.out.Store(false)
}

// leastLate is how late a collector is at least for another copy to be made, in ns: it sleeps between two calls.
const leastLate = 1 << 25

// late reports whether the collector comes so late to what the worker handed over that the worker soon lacks cells, or does already: less than
// three quarters of a slice are left.
func (w *Worker[T]) late(now int64) bool {
	h := w.Handed()
	if h == nil || w.copies == mostCopies {
		return false
	}
	length := h.Slice.Length()
	return now-h.Slice.End() > max(int64(w.copies-leastCopies)*length+length/4, leastLate)
}

// provide makes another copy of the cells, which the worker takes when it finds the next one with the collector.
func (w *Worker[T]) provide() {
	if w.spare.Load() != nil {
		return
	}
	w.copies++
	w.spare.Store(&Handed[T]{Cells: w.cells()})
}
