package service

import (
	"context"
	"fmt"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/archive"
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
	query.KindEntropy:      {record.PINT, record.DiSketch, record.Status},
	query.KindTarget:       {record.PINT, record.DiSketch, record.Status},
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

// asked is the window of a question; ok: it begins before what memory has.
func (p *past) asked(live *store.Live, memory *store.Store, now int64, q *query.Question) (w store.Window, ok bool) {
	if p.archive == nil {
		return w, false
	}
	switch {
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
	default: // all that memory has
		return w, false
	}
	covered := now
	if at := p.since(); !at.IsZero() {
		covered = at.UnixNano() + clock.UTCOffset()
	}
	return w, w.From < max(covered, live.KeptFrom())
}

// view is a store for a question whose window begins before what memory has: of the archive, and of what memory has of the window. nil: memory
// has all of it. memory is a view of live, and named says that a file names switches, which are known by their records of any kind.
func (p *past) view(ctx context.Context, live *store.Live, memory *store.Store, now int64, q *query.Question, named bool) (*store.Store, error) {
	if q.Validate() != nil {
		return nil, nil // the engine says what is wrong
	}
	w, ok := p.asked(live, memory, now, q)
	if !ok {
		return nil, nil
	}
	want := archive.Wanted{From: w.From - margin, To: w.To + margin, Kinds: recordKinds[q.Kind], Partition: -1}
	if named {
		want.Kinds = collect.Kinds
	}
	if key, err := query.ParseKey(q.Flow); err == nil && q.Flow != "" {
		flow := pint.FlowKey(key)
		want.Partition = int(flow.Partition(record.Partitions))
	}
	archived := map[string]int64{}
	for _, k := range want.Kinds {
		for _, of := range measurements[k] {
			archived[of] = p.archive.Until([]record.Kind{k})
		}
	}
	own, err := live.Within(store.Window{From: want.From, To: want.To}, p.bytes, archived)
	if err != nil {
		return nil, err
	}
	err = p.archive.Load(ctx, want, func(h record.Header, body []byte, arrived int64) error {
		own.AddAt(h, body, arrived)
		if own.Counts().Evicted != 0 {
			return fmt.Errorf("%w: the archive has more records of the window than the %d bytes of limits.bytes hold: ask about a shorter one", query.ErrTooCostly, p.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return own.View(store.Window{}), nil
}
