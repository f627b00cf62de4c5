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

	// out: the collector's turn. The worker writes the fields above before it
	// sets it, and the collector clears the cells before it unsets it.
	out atomic.Bool
}

// Worker is one worker's cells in two copies. Tick, Current, Miss and Finish
// belong to the worker; Handed and Return to one collecting goroutine. It is made by
// NewWorker, and must not be copied.
type Worker[T any] struct {
	// The worker's.
	copies  [2]*Handed[T]
	cur     int // index of the copy in use, or to be used once it is back
	holding bool
	begun   bool
	slice   Slice
	missed  uint64 // to be reported with the next cells handed over
	fresh   uint64 // of these, not in total yet
	partial bool

	_ [64]byte // the collector writes below while the worker counts above
	// turn is the index of the copy to be handed over next: the collector's.
	turn int
	// overruns counts slices of which packets were missed, or might have been;
	// total the missed packets, as of the last edge.
	overruns atomic.Uint64
	total    atomic.Uint64
	// unreported is what the worker missed last, if it had no cells at its end to report
	// it with; written by Finish, before the collector's last call.
	unreported atomic.Uint64
}

// NewWorker returns a worker with two copies of cells, both empty.
func NewWorker[T any](cells func() *T) *Worker[T] {
	w := &Worker[T]{}
	for i := range w.copies {
		w.copies[i] = &Handed[T]{Cells: cells()}
	}
	return w
}

// Current returns the cells to update, or nil while both copies are with the
// collector: then the stage passes Miss what it did not measure.
func (w *Worker[T]) Current() *T {
	if !w.holding {
		return nil
	}
	return w.copies[w.cur].Cells
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
	if !w.holding && !w.copies[w.cur].out.Load() {
		w.holding = true
	}
	if !w.holding {
		return min(now+retry, w.slice.End())
	}
	return w.slice.End()
}

// flip hands the current copy over, if there is one, and begins a slice with
// the other.
func (w *Worker[T]) flip(next Slice, stepped bool) {
	w.total.Add(w.fresh)
	w.fresh = 0
	if w.holding {
		h := w.copies[w.cur]
		h.Slice, h.Missed, h.Partial = w.slice, w.missed, w.partial || stepped
		if w.missed != 0 {
			w.overruns.Add(1)
		}
		h.out.Store(true)
		w.cur ^= 1
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
	if h := w.copies[w.turn]; h.out.Load() {
		return h
	}
	return nil
}

// Return gives the cells of Handed back, which the collector has cleared.
func (w *Worker[T]) Return() {
	w.copies[w.turn].out.Store(false)
	w.turn ^= 1
}
