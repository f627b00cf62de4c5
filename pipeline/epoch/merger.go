package epoch

// Merged is what all workers of a switch measured in a slice.
type Merged[T any] struct {
	Slice   Slice
	Missed  uint64 // packets that no worker measured
	Partial bool   // of a worker, or a worker is missing
	Absent  bool   // a worker is missing
	Cells   *T
}

// Merger joins the cells that the workers of a switch hand over. It belongs to
// one goroutine.
type Merger[T any] struct {
	workers []*Worker[T]
	merge   func(dst, src *T)
	clear   func(*T)

	open   bool
	merged Merged[T]
	gave   []bool // by worker: its cells of the open slice are in
	absent []bool // by worker: it let a slice pass, and is not waited for until it gives again
	last   Slice  // that was emitted
	lacked []bool // by worker: it did not give for last, and what it still has of that time comes by itself
	since  int64  // when Collect first found the open slice waiting; never later than now
}

// NewMerger returns a merger of the workers' cells. merge adds src to dst, clear
// empties cells for their next use, and cells makes empty ones.
func NewMerger[T any](workers []*Worker[T], cells func() *T, merge func(dst, src *T), clear func(*T)) *Merger[T] {
	return &Merger[T]{
		workers: workers, merge: merge, clear: clear,
		merged: Merged[T]{Cells: cells()}, gave: make([]bool, len(workers)), absent: make([]bool, len(workers)), lacked: make([]bool, len(workers)),
	}
}

// grace is how long after the end of a slice a worker may hand it over, in
// ns, and how long behind the first one. It covers a worker's sleep and a busy
// machine; one that is later, or that has ended, is missing in the slice, which
// is then partial.
const grace = 1e9

// Collect takes what the workers handed over, and calls emit for each slice
// that is complete. The cells are valid until emit returns. It returns how many
// slices it emitted. Slices come in order, but for one that a worker hands over
// after the others' next: it comes by itself, partial.
func (m *Merger[T]) Collect(now int64, emit func(*Merged[T])) (emitted int) {
	for {
		waited := m.open
		progress := m.take()
		if now < m.since { // the clock was set back: a slice that starts earlier may be newer
			clear(m.lacked)
			m.since = now
		}
		if !waited {
			m.since = now
		}
		if n := m.stragglers(emit); n != 0 {
			emitted += n
			continue // what waited behind them may be of the open slice
		}
		if m.open && m.complete(now) {
			m.emit(emit)
			emitted++
			progress = true
		}
		if !progress {
			return emitted
		}
	}
}

// Flush emits what is open, once all workers have ended.
func (m *Merger[T]) Flush(emit func(*Merged[T])) {
	for more := true; more; {
		more = m.take()
		more = m.stragglers(emit) != 0 || m.open || more
		if m.open && !m.waiting() {
			m.emit(emit)
		}
	}
	for _, w := range m.workers {
		if missed := w.unreported.Swap(0); missed != 0 {
			emit(&Merged[T]{Slice: w.Slice(), Missed: missed, Partial: true, Absent: true, Cells: m.merged.Cells})
		}
	}
}

// behind reports whether a worker's cells are of a slice that was emitted without them.
func (m *Merger[T]) behind(worker int, h *Handed[T]) bool {
	return m.lacked[worker] && h.Slice.Start <= m.last.Start
}

// stragglers emits, by themselves, cells of slices before the open one, or that were emitted, so that
// they do not keep back what their worker has of the open one.
func (m *Merger[T]) stragglers(emit func(*Merged[T])) (emitted int) {
	for i, w := range m.workers {
		for h := w.Handed(); h != nil && (m.open && h.Slice.Start < m.merged.Slice.Start || m.behind(i, h)); h = w.Handed() {
			emit(&Merged[T]{Slice: h.Slice, Missed: h.Missed, Partial: true, Absent: true, Cells: h.Cells})
			m.clear(h.Cells)
			w.Return()
			m.absent[i] = false // it was late, and is waited for again
			emitted++
		}
	}
	return emitted
}

// waiting reports whether cells of the open slice wait to be taken.
func (m *Merger[T]) waiting() bool {
	for i, w := range m.workers {
		if h := w.Handed(); h != nil && !m.gave[i] && h.Slice == m.merged.Slice {
			return true
		}
	}
	return false
}

// take merges the cells of the open slice; without one, it opens the earliest.
func (m *Merger[T]) take() (progress bool) {
	if !m.open {
		for i, w := range m.workers {
			h := w.Handed()
			if h != nil && !m.behind(i, h) && (!m.open || h.Slice.Start < m.merged.Slice.Start) {
				m.open = true
				m.merged.Slice = h.Slice
			}
		}
	}
	if !m.open {
		return false
	}
	for i, w := range m.workers {
		h := w.Handed()
		if h == nil || m.gave[i] || h.Slice != m.merged.Slice {
			continue
		}
		m.merge(m.merged.Cells, h.Cells)
		m.merged.Missed += h.Missed
		m.merged.Partial = m.merged.Partial || h.Partial
		m.clear(h.Cells)
		w.Return()
		m.gave[i], m.lacked[i] = true, false
		progress = true
	}
	return progress
}

// complete reports whether no worker can add to the open slice any more.
func (m *Merger[T]) complete(now int64) bool {
	// The second matters once the clock was set back: the slice lies ahead then.
	late := now-m.merged.Slice.End() > grace || now-m.since > grace
	for i, w := range m.workers {
		if m.gave[i] {
			continue
		}
		switch h := w.Handed(); {
		case h == nil:
			if !late && !m.absent[i] {
				return false
			}
		case h.Slice == m.merged.Slice, h.Slice.Start < m.merged.Slice.Start:
			return false // handed over since take looked
		}
		// Cells of a later slice, or of one of another length, wait: the worker has left the open one behind.
	}
	return true
}

func (m *Merger[T]) emit(emit func(*Merged[T])) {
	for i, gave := range m.gave {
		m.merged.Absent = m.merged.Absent || !gave
		m.absent[i] = !gave && m.workers[i].Handed() == nil
		m.lacked[i] = !gave
	}
	m.last = m.merged.Slice
	m.merged.Partial = m.merged.Partial || m.merged.Absent
	emit(&m.merged)
	m.clear(m.merged.Cells)
	m.merged = Merged[T]{Cells: m.merged.Cells}
	clear(m.gave)
	m.open = false
}
