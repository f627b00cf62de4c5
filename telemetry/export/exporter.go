package export

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/record"
)

// Source is what measures: a stage's module. Collect is called by one goroutine
// at a time, while packets flow; it merges what the workers handed over since the
// last call and emits what is complete. now is nanoseconds of CLOCK_TAI. last
// is set in the call behind the workers' end, which emits everything.
type Source interface {
	Collect(now int64, last bool, emit record.Emit)
}

// Listener is a source that has work only where its records are kept: Listen is
// called then, before packets flow.
type Listener interface{ Listen() }

// Sink is where records go. Write takes one whole record; an error means that
// it is lost.
type Sink interface {
	Write(h *record.Header, encoded []byte) error
}

// Local is a store on the switch itself. Add takes a record of kind PINT; it keeps nothing of body.
type Local interface {
	Add(h *record.Header, body []byte)
}

// Counters count the records of one kind. Made are Records, Lost and OverBudget.
type Counters struct {
	Records    uint64 // written
	Bytes      uint64 // of these
	Lost       uint64 // that could not be encoded or written
	OverBudget uint64 // that were beyond the budget
}

type counters struct{ records, bytes, lost, over atomic.Uint64 }

// Exporter drains sources into a sink. Poll and Finish belong to one goroutine;
// Counters, Add and Remove may be called from anywhere.
type Exporter struct {
	id     uint32
	name   string
	hash   hash.Family
	sink   Sink          // nil: records are not kept
	counts [256]counters // by kind
	rate   atomic.Int64  // of the budget, as it is to be

	collecting sync.Mutex // guards what follows, and is had while sources are collected from
	sources    []Source
	local      Local  // nil: none
	buffer     []byte // of the latest record
	body       []byte // of the latest record of digests
	budget     budget
	shaper     bool // the source that is collected from is one

	mu         sync.Mutex // guards lost and overBudget
	lost       tallies
	overBudget tallies
}

// New returns the exporter of the switch with the given number, name and hash family. All records go to
// the sink, and those of PINT's digests to the local store. Without either, sources are drained all the same.
func New(id uint32, name string, family hash.Family, sources []Source, sink Sink, local Local) *Exporter {
	e := &Exporter{id: id, name: name, hash: family, sink: sink}
	e.Add(local, sources...)
	return e
}

// Add joins sources that come to the others, before they measure anything. From now on the local store takes PINT's digests; nil: the one that there is.
func (e *Exporter) Add(local Local, sources ...Source) {
	e.collecting.Lock()
	defer e.collecting.Unlock()
	if local != nil {
		e.local = local
	}
	for _, s := range sources {
		if l, ok := s.(Listener); ok && (e.sink != nil || e.local != nil) {
			l.Listen()
		}
		e.sources = append(slices.Clip(e.sources), s)
		if shaper, ok := s.(Shaper); ok {
			e.budget.join(shaper)
		}
	}
}

// Remove collects all that is left in sources that measure nothing more, and forgets them. now is nanoseconds of CLOCK_TAI.
func (e *Exporter) Remove(now int64, sources ...Source) {
	e.collecting.Lock()
	defer e.collecting.Unlock()
	for _, s := range sources {
		at := slices.Index(e.sources, s)
		if at < 0 {
			continue
		}
		e.collectFrom(s, now, true, func(h *record.Header, body func([]byte) ([]byte, error)) { e.emit(h, body) })
		e.sources = slices.Delete(slices.Clone(e.sources), at, at+1)
		if shaper, ok := s.(Shaper); ok {
			e.budget.leave(shaper)
		}
	}
}

// listen has sources work that do so only where their records are kept. Once is enough, and twice is no harm.
func (e *Exporter) listen() {
	for _, s := range e.sources {
		if l, ok := s.(Listener); ok {
			l.Listen()
		}
	}
}

// spoolTo gives an exporter without a sink one, before its first poll.
func (e *Exporter) spoolTo(sink Sink) { e.sink = sink }

// SetBudget bounds what the sink gets per second, from the next poll on; 0: no bound, which is the default. The sources
// that are Shapers leave out what does not fit, and what others emit beyond it is dropped and counted.
func (e *Exporter) SetBudget(rate ByteRate) { e.rate.Store(int64(rate)) }

// Poll collects from all sources once, and returns how many records came.
func (e *Exporter) Poll(now int64) int { return e.collect(now, false) }

// Finish collects what is left, once the workers have ended.
func (e *Exporter) Finish(now int64) { e.collect(now, true) }

func (e *Exporter) collect(now int64, last bool) (records int) {
	emit := func(h *record.Header, body func([]byte) ([]byte, error)) {
		records++
		e.emit(h, body)
	}
	e.collecting.Lock()
	defer e.collecting.Unlock()
	if e.sink != nil {
		e.budget.set(ByteRate(e.rate.Load()))
		e.budget.tick(now)
	}
	for _, s := range e.sources {
		e.collectFrom(s, now, last, emit)
	}
	return records
}

func (e *Exporter) collectFrom(s Source, now int64, last bool, emit record.Emit) {
	_, e.shaper = s.(Shaper)
	s.Collect(now, last, emit)
}

func (e *Exporter) emit(h *record.Header, body func([]byte) ([]byte, error)) {
	h.Switch, h.Name, h.Hash = e.id, e.name, e.hash
	if e.local != nil && h.Kind == record.PINT {
		text, err := body(e.body[:0])
		if err == nil {
			e.body = text
			e.local.Add(h, text)
		}
		body = func(dst []byte) ([]byte, error) { return append(dst, text...), err }
	}
	if e.sink == nil {
		return
	}
	c := &e.counts[h.Kind]
	encoded, err := record.Append(e.buffer[:0], h, body)
	e.buffer = encoded[:0]
	if err == nil && !e.budget.take(h.Kind, len(encoded), e.shaper) {
		c.over.Add(1)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.overBudget.add(tallyOf(h, len(encoded)))
		return
	}
	if err == nil {
		err = e.sink.Write(h, encoded)
	}
	if err != nil {
		c.lost.Add(1)
		e.lose(tallyOf(h, len(encoded)))
		return
	}
	c.records.Add(1)
	c.bytes.Add(uint64(len(encoded)))
}

func (e *Exporter) lose(t Tally) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost.add(t)
}

// Lost lists of which epochs the lost records of a kind are.
func (e *Exporter) Lost(k record.Kind) Tally {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost.of(k)
}

// OverBudget lists of which epochs the records of a kind are that were beyond the budget.
func (e *Exporter) OverBudget(k record.Kind) Tally {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.overBudget.of(k)
}

// Counters returns the counts of a kind so far.
func (e *Exporter) Counters(k record.Kind) Counters {
	c := &e.counts[k]
	return Counters{c.records.Load(), c.bytes.Load(), c.lost.Load(), c.over.Load()}
}

// The exporter sleeps between two polls: shortly behind one that found
// something, longer when all is quiet, and always well below the shortest
// subepoch that a switch would use.
const (
	busyPause = time.Millisecond
	idlePause = 8 * time.Millisecond
)

// Run polls until stop is closed; the caller then calls Finish once the workers
// have ended. clock reads CLOCK_TAI in ns.
func (e *Exporter) Run(stop <-chan struct{}, clock func() int64) {
	pause := busyPause
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-stop:
			return
		case <-timer.C:
		}
		if e.Poll(clock()) > 0 {
			pause = busyPause
		} else {
			pause = min(2*pause, idlePause)
		}
		timer.Reset(pause)
	}
}
