package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/archive"
	"github.com/weirswitch/weir/telemetry/collect/set"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// past answers for what memory has not: from the archive.
type past struct {
	archive *archive.Archive // nil: there is none
	since   func() time.Time // when the first message came that memory was read from
	names   func() map[uint32]string
	bytes   int64 // of memory for a question
}

// history has the asker know the archive.
func (a *asker) history(s *Collector) {
	a.past = past{
		archive: s.archive, bytes: max(s.config.Limits.Bytes, store.MinBytes), since: s.reader.Since,
		names: func() map[uint32]string {
			names := map[uint32]string{}
			for _, h := range s.switches.List() {
				names[h.Switch] = h.Name
			}
			return names
		},
	}
}

// recordKinds are the kinds of records that answer a kind of question. Statuses name the switches among which paths are
// found, and digests the paths of flows.
var recordKinds = map[query.Kind][]record.Kind{
	query.KindPath:         {record.PINT, record.Status},
	query.KindLatency:      {record.PINT, record.Status},
	query.KindCongestion:   {record.PINT, record.Status},
	query.KindLoops:        {record.PINT, record.Status},
	query.KindFrequency:    {record.PINT, record.DiSketch, record.Oblivious, record.Status},
	query.KindHeavyHitters: {record.PINT, record.DiSketch, record.Oblivious, record.Status},
	query.KindVolume:       {record.Oblivious, record.Status},
	query.KindCardinality:  {record.Oblivious, record.Status},
	query.KindEntropy:      {record.PINT, record.DiSketch, record.Oblivious, record.Status},
	query.KindTarget:       {record.PINT, record.DiSketch, record.Oblivious, record.Status},
	query.KindDelay:        {record.PINT, record.LDS, record.Status},
	query.KindLoss:         {record.PINT, record.LDS, record.Status},
	query.KindNetwork:      {record.LDS, record.Status},
}

// measurements are what the store calls the records of a kind.
var measurements = map[record.Kind][]string{
	record.PINT: {store.OfDigests}, record.DiSketch: {store.OfFragments}, record.Oblivious: {store.OfSamples, store.OfFlowSamples},
	record.LDS: {store.OfPoints}, record.Status: {store.OfStatuses},
}

// margin is loaded on both sides of a window: what is missing between two records is known from both.
const margin = int64(15 * time.Second)

// windowOf is the window of a question; false: it is about what is in memory.
func windowOf(memory *store.Store, now int64, q *query.Question) (w store.Window, ok bool) {
	switch {
	case q.Validate() != nil: // the engine says what is wrong
		return w, false
	case q.Last > 0:
		w.To = now
		if all := memory.All(); all != (store.Window{}) {
			w.To = memory.LastBefore(q.Last, now).To
		}
		w.From = w.To - int64(q.Last)
	case q.Start != 0:
		if w = (store.Window{From: q.Start, To: q.End}); q.End == 0 {
			w.To = max(now, memory.All().To, q.Start)
		}
	default:
		return w, false
	}
	return w, true
}

// keptFrom is from when on memory has all records, in ns of CLOCK_TAI; 0: there is no archive that could have others.
func (p *past) keptFrom(live *store.Live) int64 {
	if p.archive == nil {
		return 0
	}
	covered := clock.Kernel.TAI()
	if at := p.since(); !at.IsZero() {
		covered = at.UnixNano() + clock.UTCOffset()
	}
	return max(covered, live.KeptFrom())
}

// of is what a question about a window needs of the archive, and of the digests that others have. named says that a file names switches, which are known by their
// records of any kind; all, that digests of all flows are needed.
func (p *past) of(q *query.Question, w store.Window, named, all bool) (archive.Wanted, query.Needs) {
	want := archive.Wanted{From: w.From - margin, To: w.To + margin, Kinds: recordKinds[q.Kind], Partition: -1}
	if named {
		want.Kinds = collect.Kinds
	}
	needs := query.Needs{Batches: true, Window: store.Window{From: want.From, To: want.To}, Partitions: collect.AllPartitions.List()}
	if key, err := query.ParseKey(q.Flow); err == nil && q.Flow != "" && !all {
		flow := pint.FlowKey(key)
		want.Partition = int(flow.Partition(record.Partitions))
		needs.Partitions = []int{want.Partition}
	}
	return want, needs
}

// view is a store for a question whose window begins before what memory has: of the archive, and of what memory has of the window, the own one and those of the other
// collectors of a set, whole records, so that it is what one collector would have. held is which partitions' digests are in the own memory.
func (p *past) view(ctx context.Context, live *store.Live, want archive.Wanted, needs query.Needs, held collect.Mask, others *set.Member) (*store.Store, error) {
	archived := map[string]int64{}
	for _, k := range want.Kinds {
		for _, of := range measurements[k] {
			archived[of] = p.archive.Archived(k)
		}
	}
	covers := func(partition int) int64 { return p.archive.Covers(partition) - margin }
	var parts []store.Elsewhere
	if others != nil {
		var err error
		if slices.Contains(want.Kinds, record.PINT) {
			if parts, err = others.Fetch(ctx, held, needs, p.bytes); err != nil {
				return nil, err
			}
		}
		// What left another collector's memory before it was asked is in files that are there now.
		if err := p.archive.Refresh(ctx); err != nil {
			return nil, fmt.Errorf("the archive does not answer: %w", err)
		}
		for i, partition := range held.List() {
			if to := p.archive.Covers(partition); i == 0 || to < archived[store.OfDigests] {
				archived[store.OfDigests] = to
			}
		}
	}
	own, err := live.Within(store.Window{From: want.From, To: want.To}, p.bytes, archived)
	if err != nil {
		return nil, err
	}
	own.Join(parts, p.archive.Covers)
	full := func() error {
		if own.Counts().Evicted == 0 {
			return nil
		}
		return fmt.Errorf("%w: there are more records of the window than the %d bytes of limits.bytes hold: ask about a shorter one", query.ErrTooCostly, p.bytes)
	}
	err = p.archive.Load(ctx, want, func(h record.Header, body []byte, arrived int64) error {
		own.AddAt(h, body, arrived)
		return full()
	})
	if err == nil {
		err = full()
	}
	if err != nil {
		return nil, err
	}
	return own.View(store.Window{}).Without(parts, func(partition int) bool { return want.To <= covers(partition) }), nil
}
