package event

// Time is simulated time in picoseconds: a byte at 400 Gbit/s takes 20 of them. The type
// holds 106 days.
type Time int64

// Units of time.
const (
	Picosecond  Time = 1
	Nanosecond       = 1000 * Picosecond
	Microsecond      = 1000 * Nanosecond
	Millisecond      = 1000 * Microsecond
	Second           = 1000 * Millisecond
)

// Never is later than any event.
const Never Time = 1<<63 - 1

// Seconds is the time in seconds.
func (t Time) Seconds() float64 { return float64(t) / float64(Second) }

// idBits is the size of an event's number; the other bits of a key count pushes.
const idBits = 24

// MaxID is the largest number of an event.
const MaxID = 1<<idBits - 1

// Queue orders events by time, and those of one time by the order in which they were
// pushed. It is a heap with four children per node, whose entries are values of 16 bytes, so
// that the children of a node share a line of the cache. The zero value is empty. It belongs to one
// goroutine.
type Queue struct {
	heap   []entry
	pushed uint64
	// hole: heap[0] was removed and not replaced yet. Most events push
	// another one, which then sinks from the root: one walk instead of two.
	hole bool
}

type entry struct {
	at  Time
	key uint64 // pushes before it, and the event's number in the low bits
}

func (a entry) before(b entry) bool { return a.at < b.at || a.at == b.at && a.key < b.key }

// Push adds an event. Its number is at most MaxID; an event may be in the queue
// more than once.
func (q *Queue) Push(at Time, id uint32) {
	e := entry{at, q.pushed<<idBits | uint64(id)&MaxID}
	q.pushed++
	if q.hole {
		q.hole = false
		q.sink(e)
		return
	}
	q.heap = append(q.heap, e)
	q.rise(len(q.heap) - 1)
}

// Next is the time of the first event; Never if there is none.
func (q *Queue) Next() Time {
	if q.hole {
		q.fill()
	}
	if len(q.heap) == 0 {
		return Never
	}
	return q.heap[0].at
}

// Pop takes the first event out of a queue that is not empty.
func (q *Queue) Pop() (at Time, id uint32) {
	if q.hole {
		q.fill()
	}
	e := q.heap[0]
	q.hole = true
	return e.at, uint32(e.key & MaxID)
}

// fill closes the hole with the last entry.
func (q *Queue) fill() {
	q.hole = false
	last := len(q.heap) - 1
	e := q.heap[last]
	q.heap = q.heap[:last]
	if last > 0 {
		q.sink(e)
	}
}

// sink puts an entry where it belongs below the root, whose slot is free.
func (q *Queue) sink(e entry) {
	h, i := q.heap, 0
	for {
		first := 4*i + 1
		if first >= len(h) {
			break
		}
		least := first
		for c := first + 1; c < min(first+4, len(h)); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if !h[least].before(e) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = e
}

// rise moves the entry at index i up to where it belongs.
func (q *Queue) rise(i int) {
	h, e := q.heap, q.heap[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
}
