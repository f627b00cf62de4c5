package store

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/record"
)

// LiveConfig bounds a Live store.
type LiveConfig struct {
	// Bytes is how much memory records may take, at least MinBytes.
	Bytes int64
	// Now is the present in ns of CLOCK_TAI; nil: nothing is known of it, and no record
	// is of the future.
	Now func() int64
	// Ahead is by how much switches' clocks may be ahead; 0 means
	// DefaultAhead.
	Ahead time.Duration
}

const (
	// MinBytes of memory hold a few seconds of a small network.
	MinBytes = 1 << 20
	// DefaultAhead is well above the 37 s between clocks that know of TAI and those that
	// do not.
	DefaultAhead = 2 * time.Minute
)

// Validate reports all faults, each beginning with its field's name.
func (c *LiveConfig) Validate() error {
	var faults []error
	if c.Bytes < MinBytes {
		faults = append(faults, fmt.Errorf("bytes = %d: choose at least %d", c.Bytes, MinBytes))
	}
	if c.Ahead < 0 {
		faults = append(faults, fmt.Errorf("ahead = %v: choose 0 or more", c.Ahead))
	}
	return errors.Join(faults...)
}

// Live is a network's records while they come: those that were measured last, as many as
// there is memory for. All of its methods are safe for concurrent use.
//
//	Add ── read and check, several at a time ──> bucket of its second ── oldest bucket goes when memory is full
//	View <── the buckets of a window, as a Store that does not change
//
// Whatever comes is taken once or counted. A record that came before, or that
// contradicts one that did, is left out, and so is one of the future: else who sends it
// could make all others go. What memory holds is a view of the records' stream; a
// new Live fills itself by reading that again.
type Live struct {
	config LiveConfig

	mu      sync.Mutex // guards all below
	buckets map[int64]*bucket
	oldest  bucketHeap
	bytes   int64
	agreed  agreements
	tallies map[record.Kind]*Tally
	counts  Counts
	evicted []eviction // in the order of time
	floor   int64      // buckets below were evicted
	evicts  bool       // there is a floor
}

// Tally says what became of the records of a kind, and what is held of it now.
type Tally struct {
	Counts
	Held    int   // records
	Bytes   int64 // of memory
	Digests uint64
}

// bucketBits: a bucket has the records whose slice begins in 2^30 ns.
const bucketBits = 30

// bucket is what is evicted at once. Entries are only appended, so that who holds the
// beginning of the list can read it without a lock.
type bucket struct {
	number  int64
	known   map[identity][]known
	entries []*entry
	digests []*entry // of the entries
	bytes   int64
}

// bucketBytes is what an empty bucket takes.
const bucketBytes = 1024

// maxSpan bounds a slice, to twice the longest epoch: a forged one would be part of every
// window.
const maxSpan = 1 << 43

// NewLive returns an empty store.
func NewLive(c LiveConfig) (*Live, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if c.Ahead == 0 {
		c.Ahead = DefaultAhead
	}
	return &Live{config: c, buckets: map[int64]*bucket{}, tallies: map[record.Kind]*Tally{}}, nil
}

// Add takes a record and says what became of it. body is not kept.
func (l *Live) Add(h record.Header, body []byte) Outcome {
	e, outcome := l.read(&h, body)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally(h.Kind)
	if outcome == Taken {
		outcome = l.put(e, t)
	}
	t.count(outcome)
	l.counts.count(outcome)
	l.makeRoom()
	return outcome
}

// AddBytes takes records that lie one behind the other. Where one is broken, it goes on
// at the next one that is whole.
func (l *Live) AddBytes(b []byte) {
	unreadable, cutOff := eachRecord(b, func(h record.Header, body []byte) { l.Add(h, body) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Unreadable += unreadable
	l.counts.CutOff += cutOff
}

// read reads and checks a record; it needs no lock.
func (l *Live) read(h *record.Header, body []byte) (*entry, Outcome) {
	if h.Span > maxSpan {
		return nil, Unreadable
	}
	e, outcome := readEntry(h, body)
	if outcome == Taken && l.config.Now != nil && e.origin.To > l.config.Now()+int64(l.config.Ahead) {
		return nil, Future
	}
	return e, outcome
}

// put puts an entry on its bucket.
func (l *Live) put(e *entry, t *Tally) Outcome {
	number := e.start >> bucketBits
	if l.evicts && number <= l.floor {
		return Late
	}
	s := l.buckets[number]
	if s != nil {
		if outcome := judge(s.known[e.identity], e); outcome != Taken {
			return outcome
		}
	}
	if e.sketch != nil && !e.origin.Partial && !l.agreed.add(e.sketch) {
		return Conflict
	}
	if s == nil {
		s = &bucket{number: number, known: map[identity][]known{}}
		l.buckets[number] = s
		heap.Push(&l.oldest, s)
		s.bytes, l.bytes = bucketBytes, l.bytes+bucketBytes
	}
	s.known[e.identity] = append(s.known[e.identity], e.known)
	s.entries = append(s.entries, e)
	if e.batch != nil {
		s.digests = append(s.digests, e)
		t.Digests += uint64(e.batch.Len())
	}
	s.bytes += e.bytes
	l.bytes += e.bytes
	t.Held++
	t.Bytes += e.bytes
	return Taken
}

// makeRoom evicts the oldest buckets until the others fit.
func (l *Live) makeRoom() {
	for l.bytes > l.config.Bytes {
		s := heap.Pop(&l.oldest).(*bucket)
		delete(l.buckets, s.number)
		l.bytes -= s.bytes
		l.floor, l.evicts = max(l.floor, s.number), true
		gone := eviction{Window: Window{s.number << bucketBits, (s.number + 1) << bucketBits}, of: map[string]uint64{}}
		for _, e := range s.entries {
			t := l.tally(e.kind)
			t.Held--
			t.Bytes -= e.bytes
			t.Evicted++
			l.counts.Evicted++
			gone.of[e.of]++
			gone.Window = gone.join(e.origin.Window)
			if e.sketch != nil && !e.origin.Partial {
				l.agreed.remove(e.sketch)
			}
			if e.batch != nil {
				t.Digests -= uint64(e.batch.Len())
			}
		}
		l.evicted = remember(l.evicted, gone)
	}
}

// tally is that of a kind; all unknown kinds have one.
func (l *Live) tally(k record.Kind) *Tally {
	if k < record.PINT || k > lastKind {
		k = 0
	}
	if l.tallies[k] == nil {
		l.tallies[k] = new(Tally)
	}
	return l.tallies[k]
}

// lastKind is the highest of the kinds that are read.
const lastKind = record.Status

// Counts returns what became of what came so far, of all kinds.
func (l *Live) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// Tally returns what became of the records of a kind; kind 0 is all unknown kinds.
func (l *Live) Tally(k record.Kind) Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return *l.tally(k)
}

// Bytes is how much memory the records take, of the bound.
func (l *Live) Bytes() (held, bound int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes, l.config.Bytes
}

// View is what is there for a window, and does not change: of whatever comes
// meanwhile it knows nothing. The zero window is all there is. Bodies are not
// copied; those that have to make room stay in memory for as long as a view has them, beyond
// the bound.
func (l *Live) View(w Window) *Store {
	entries, s := l.collect(w)
	slices.SortStableFunc(entries, func(a, b *entry) int { return a.origin.compare(&b.origin) })
	for _, e := range entries {
		s.put(e)
	}
	slices.SortStableFunc(s.Batches, func(a, b Batch) int { return a.compare(&b) })
	s.Freeze()
	return s
}

// collect finds the entries of a window, and begins a view of them.
func (l *Live) collect(w Window) ([]*entry, *Store) {
	l.mu.Lock()
	s := &Store{counts: l.counts, evicted: l.evicted[:len(l.evicted):len(l.evicted)], keptFrom: (l.floor + 1) << bucketBits}
	var parts [][]*entry
	for _, number := range slices.Sorted(maps.Keys(l.buckets)) { // so that little is left to sort
		bucket := l.buckets[number]
		parts = append(parts, bucket.entries)
		if len(bucket.digests) > 0 {
			s.sent = append(s.sent, bucket.digests)
		}
	}
	l.mu.Unlock()
	var list []*entry
	for _, part := range parts {
		for _, e := range part {
			if w == (Window{}) || e.origin.Overlaps(w) {
				list = append(list, e)
			}
		}
	}
	return list, s
}

// bucketHeap has the oldest bucket first.
type bucketHeap []*bucket

func (h bucketHeap) Len() int           { return len(h) }
func (h bucketHeap) Less(i, j int) bool { return h[i].number < h[j].number }
func (h bucketHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *bucketHeap) Push(x any)        { *h = append(*h, x.(*bucket)) }
func (h *bucketHeap) Pop() any {
	last := len(*h) - 1
	s := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	return s
}

// agreements are what the fragments' records of an epoch have in common, and of how
// many records that is known.
type agreements struct {
	shapes    map[sketchEpoch]*agreement[disketch.Shape]
	schedules map[fragmentEpoch]*agreement[disketch.Schedule]
}

type sketchEpoch struct {
	sketch uint16
	epoch  uint64
}

type fragmentEpoch struct {
	id    disketch.ID
	epoch uint64
}

type agreement[T comparable] struct {
	on      T
	records int
}

// add notes a record; false: it contradicts others.
func (a *agreements) add(r *disketch.Prepared) bool {
	if a.shapes == nil {
		a.shapes = map[sketchEpoch]*agreement[disketch.Shape]{}
		a.schedules = map[fragmentEpoch]*agreement[disketch.Schedule]{}
	}
	sketch, fragment := sketchEpoch{r.Fragment.Sketch, r.Epoch}, fragmentEpoch{r.Fragment, r.Epoch}
	shape, schedule := a.shapes[sketch], a.schedules[fragment]
	if shape != nil && shape.on != r.Shape() || schedule != nil && schedule.on != r.Schedule {
		return false
	}
	if shape == nil {
		shape = &agreement[disketch.Shape]{on: r.Shape()}
		a.shapes[sketch] = shape
	}
	if schedule == nil {
		schedule = &agreement[disketch.Schedule]{on: r.Schedule}
		a.schedules[fragment] = schedule
	}
	shape.records++
	schedule.records++
	return true
}

// remove forgets a record that was added.
func (a *agreements) remove(r *disketch.Prepared) {
	sketch, fragment := sketchEpoch{r.Fragment.Sketch, r.Epoch}, fragmentEpoch{r.Fragment, r.Epoch}
	if s := a.shapes[sketch]; s.records > 1 {
		s.records--
	} else {
		delete(a.shapes, sketch)
	}
	if s := a.schedules[fragment]; s.records > 1 {
		s.records--
	} else {
		delete(a.schedules, fragment)
	}
}
