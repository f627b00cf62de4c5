package store

import (
	"container/heap"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/record"
)

// LiveConfig bounds a Live store.
type LiveConfig struct {
	// Bytes is how much memory records may take, at least MinBytes.
	Bytes int64
	// Now is the present in ns of CLOCK_TAI; nil: nothing is known of it, and no record
	// is of the future.
	Now func() int64
	// Ahead is by how much the slice of a record may end behind its arrival; what claims more is not
	// held. 0 means DefaultAhead.
	Ahead time.Duration
	// Names are the names of switches that are known by their credentials, by number: no other switch's
	// records are shown under them.
	Names map[uint32]string
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

	mu       sync.Mutex // guards all below
	switches map[uint32]*holding
	seconds  map[int64]*secondBuckets // the same buckets, by number
	rules    *rules                   // of the last view; nil: there was none
	senders  map[sender]*sentBatches  // of digests that are held
	jumping  map[sender]*sentBatches  // those among them with jumps
	jumped   [][]gap                  // of jumping; nil: to be made
	stale    map[sender]*sentBatches  // those whose list is stale
	bytes    int64
	agreed   agreements
	tallies  map[record.Kind]*Tally
	counts   Counts
	evicted  []eviction // of all switches, in the order of time
	refused  []eviction // records of buckets that were evicted before they came
	floor    int64      // buckets below were evicted
	evicts   bool       // there is a floor
	names    names
	traffic  int64 // end of the newest record that counted a packet; 0: none did
}

// holding is what is held of a switch.
type holding struct {
	buckets map[int64]*bucket
	oldest  bucketHeap
	bytes   int64
	// What had to make room because the switch held more than its share: its slices up to floor.
	evicted []eviction
	floor   int64
	evicts  bool
	clock   offsets
	name    string // the newest that no other switch has
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
	sw      uint32
	known   map[identity][]known
	entries []*entry
	bytes   int64
	viewed  int // entries that are in what views have of the second
}

// bucketBytes is what an empty bucket takes, with what views keep of a second.
const bucketBytes = 1536

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
	return &Live{
		config: c, switches: map[uint32]*holding{}, seconds: map[int64]*secondBuckets{}, tallies: map[record.Kind]*Tally{}, names: newNames(c.Names),
		senders: map[sender]*sentBatches{}, jumping: map[sender]*sentBatches{}, stale: map[sender]*sentBatches{},
	}, nil
}

// Add takes a record that arrives now and says what became of it. body is not kept.
func (l *Live) Add(h record.Header, body []byte) Outcome {
	arrived := int64(unknownArrival)
	if l.config.Now != nil {
		arrived = l.config.Now()
	}
	return l.AddAt(h, body, arrived)
}

// AddAt is Add for a record that arrived at a time, in ns of CLOCK_TAI, where it is kept: by that the
// switch's clock is judged.
func (l *Live) AddAt(h record.Header, body []byte, arrived int64) Outcome {
	e, outcome := l.read(&h, body, arrived)
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally(h.Kind)
	if outcome == Taken {
		if outcome = l.put(e, t); outcome == Late {
			l.refuse(e)
		}
	}
	t.count(outcome)
	l.counts.count(outcome)
	l.makeRoom()
	return outcome
}

// AddBytes takes records that lie one behind the other. Where one is broken, it goes on
// at the next one that is whole.
func (l *Live) AddBytes(b []byte) {
	var c Counts
	eachRecord(b, &c, func(h record.Header, body []byte) { l.Add(h, body) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Unreadable += c.Unreadable
	l.counts.Unkeyed += c.Unkeyed
	l.counts.CutOff += c.CutOff
}

// read reads and checks a record; it needs no lock.
func (l *Live) read(h *record.Header, body []byte, arrived int64) (*entry, Outcome) {
	if h.Span > maxSpan {
		return nil, Unreadable
	}
	e, outcome := readEntry(h, body)
	if outcome != Taken {
		return nil, outcome
	}
	if arrived != unknownArrival {
		if e.ahead = e.origin.To - arrived; e.ahead > int64(l.config.Ahead) {
			return nil, Future
		}
	}
	return e, Taken
}

// put puts an entry on its switch's bucket of its second.
func (l *Live) put(e *entry, t *Tally) Outcome {
	number := e.start >> bucketBits
	if l.evicts && number <= l.floor {
		return Late
	}
	of := l.switches[e.sw]
	if of != nil && of.evicts && number <= of.floor {
		return Late
	}
	var s *bucket
	if of != nil {
		s = of.buckets[number]
	}
	if s != nil {
		if outcome := judge(s.known[e.identity], e); outcome != Taken {
			return outcome
		}
	}
	if e.sketch != nil && !e.origin.Partial && !l.agreed.add(e.sw, e.sketch) {
		return Conflict
	}
	if of == nil {
		l.forgetEmpty()
		of = &holding{buckets: map[int64]*bucket{}}
		l.switches[e.sw] = of
	}
	if s == nil {
		s = &bucket{number: number, sw: e.sw, known: map[identity][]known{}}
		of.buckets[number] = s
		heap.Push(&of.oldest, s)
		l.grow(of, s, bucketBytes)
		if l.seconds[number] == nil {
			l.seconds[number] = new(secondBuckets)
		}
		l.seconds[number].add(s)
	}
	l.seconds[number].changes++
	if name, own := l.names.of(e.sw, e.origin.Name); own || of.name == "" {
		of.name = name
	}
	of.clock.add(e.ahead)
	s.known[e.identity] = append(s.known[e.identity], e.known)
	s.entries = append(s.entries, e)
	if e.batch != nil {
		l.noteSent(e.batch)
		t.Digests += uint64(e.batch.Len())
	}
	if e.counted() {
		l.traffic = max(l.traffic, e.origin.To)
	}
	l.grow(of, s, e.bytes)
	t.Held++
	t.Bytes += e.bytes
	return Taken
}

// Traffic is the end of the newest record that counted a packet, in ns of CLOCK_TAI; 0: none did. It may have had to make room since.
func (l *Live) Traffic() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.traffic
}

// grow adds to what a bucket, its switch and all take; bytes below 0 take it off.
func (l *Live) grow(of *holding, s *bucket, bytes int64) {
	s.bytes += bytes
	of.bytes += bytes
	l.bytes += bytes
}

// maxEmpty bounds the switches that are remembered without a record: their numbers come from outside.
const maxEmpty = 1 << 12

// forgetEmpty forgets switches of which nothing is held, if there are many.
func (l *Live) forgetEmpty() {
	if len(l.switches) < maxEmpty || len(l.switches)&(len(l.switches)-1) != 0 { // now and then
		return
	}
	maps.DeleteFunc(l.switches, func(_ uint32, of *holding) bool { return len(of.buckets) == 0 })
}

// shareFactor is how many times its even share of memory a switch may hold when memory is full.
const shareFactor = 4

// makeRoom evicts until the rest fits. A switch that holds more than its share makes room itself: else one
// that sends very much would move out what all others measured. If there is none, the oldest second of all
// switches goes.
func (l *Live) makeRoom() {
	for l.bytes > l.config.Bytes {
		var largest *holding
		oldest, holders := int64(math.MaxInt64), int64(0)
		for _, of := range l.switches {
			if len(of.oldest) == 0 {
				continue
			}
			holders++
			oldest = min(oldest, of.oldest[0].number)
			if largest == nil || of.bytes > largest.bytes {
				largest = of
			}
		}
		share := min(shareFactor*l.config.Bytes/holders, l.config.Bytes/2)
		if holders > 1 && largest.bytes > share {
			number := largest.oldest[0].number
			gone := eviction{Window: Window{number << bucketBits, (number + 1) << bucketBits}, of: map[string]uint64{}}
			largest.floor, largest.evicts = max(largest.floor, number), true // before it is empty, and forgotten
			l.evict(largest, &gone)
			largest.evicted = remember(largest.evicted, gone, maxOwnEvictions)
			continue
		}
		gone := eviction{Window: Window{oldest << bucketBits, (oldest + 1) << bucketBits}, of: map[string]uint64{}}
		l.floor, l.evicts = max(l.floor, oldest), true
		for _, of := range l.switches {
			if len(of.oldest) != 0 && of.oldest[0].number == oldest {
				l.evict(of, &gone)
			}
		}
		l.evicted = remember(l.evicted, gone, maxEvictions)
	}
}

// evict evicts the oldest bucket of a switch, and adds it to what is gone.
func (l *Live) evict(of *holding, gone *eviction) {
	s := heap.Pop(&of.oldest).(*bucket)
	delete(of.buckets, s.number)
	at := l.seconds[s.number]
	at.changes++
	if at.remove(s); len(at.buckets) == 0 {
		delete(l.seconds, s.number)
	}
	if len(of.buckets) == 0 && !of.evicts {
		delete(l.switches, s.sw)
	}
	of.bytes -= s.bytes
	l.bytes -= s.bytes
	for _, e := range s.entries {
		t := l.tally(e.kind)
		t.Held--
		t.Bytes -= e.bytes
		t.Evicted++
		l.counts.Evicted++
		gone.add(e.of, e.origin.Window, e.arrived())
		if e.sketch != nil && !e.origin.Partial {
			l.agreed.remove(e.sw, e.sketch)
		}
		if e.batch != nil {
			l.forgetSent(e.batch)
			t.Digests -= uint64(e.batch.Len())
		}
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

// KeptFrom is the time before which some slices had to make room; 0: none had.
func (l *Live) KeptFrom() (from int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.evicts {
		from = (l.floor + 1) << bucketBits
	}
	for _, of := range l.switches {
		if of.evicts {
			from = max(from, (of.floor+1)<<bucketBits)
		}
	}
	return from
}

// Within is a store of its own with what l holds of a window, to which records that are kept elsewhere are added. Of what had to make room in l, or came after
// the rest of its time had, it reports what may not be among these: what came behind the time that archived has for the measurement. bytes bounds it, as LiveConfig
// does.
func (l *Live) Within(w Window, bytes int64, archived map[string]int64) (*Live, error) {
	c := l.config
	c.Bytes = bytes
	own, err := NewLive(c)
	if err != nil {
		return nil, err
	}
	var entries []*entry
	l.mu.Lock()
	for _, of := range l.switches {
		own.evicted = append(own.evicted, unarchived(of.evicted, archived)...)
		for _, b := range of.buckets {
			entries = append(entries, b.entries...)
		}
	}
	own.evicted = append(own.evicted, unarchived(l.evicted, archived)...)
	own.evicted = append(own.evicted, unarchived(l.refused, archived)...)
	l.refused = slices.DeleteFunc(l.refused, func(e eviction) bool {
		for of := range e.of {
			if e.arrived > archived[of] {
				return false
			}
		}
		return true
	})
	l.mu.Unlock()
	for _, e := range entries {
		if !e.origin.Overlaps(w) {
			continue
		}
		t := own.tally(e.kind)
		outcome := own.put(e, t)
		t.count(outcome)
		own.counts.count(outcome)
		own.makeRoom()
	}
	return own, nil
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
