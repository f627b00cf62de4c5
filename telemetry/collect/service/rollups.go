package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/archive"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// rollUp makes the tables of a roll-up (archive.RollUp): answers to the questions that anybody may ask, about the fine intervals and about the coarse one. A window of the
// archive answers them, with what other collectors of a set have.
func (s *Collector) rollUp(ctx context.Context, r archive.Rollup, metadata map[string]string, put archive.Put) error {
	c := &s.config.Archive.Rollups
	offset := clock.UTCOffset()
	for _, every := range slices.Compact([]time.Duration{c.Fine, c.Coarse}) {
		tables, records := &parquet.Rollups{}, 0
		for from := r.From + offset; from < r.To+offset; from += int64(every) {
			n, err := s.rollUpInterval(ctx, tables, store.Window{From: from, To: from + int64(every)})
			if err != nil {
				return err
			}
			records += n
		}
		if records == 0 && every == c.Fine {
			return archive.ErrNoRecords
		}
		for _, kind := range parquet.RollupKinds() {
			if tables.Rows(kind) == 0 {
				continue
			}
			if err := put(kind, every, func(w io.Writer) error { return tables.Write(w, kind, metadata) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofRecords is what all kinds of records are called in what a roll-up lacks.
const ofRecords = "records"

// rollUpInterval adds what is to be said of an interval, and returns how many records it has.
func (s *Collector) rollUpInterval(ctx context.Context, to *parquet.Rollups, w store.Window) (records int, err error) {
	held := collect.Mask(0)
	if s.set != nil {
		held = s.set.Holds()
	}
	want, needs := s.asker.past.of(&query.Question{}, w, true, true)
	e, err := s.asker.pastEngine(ctx, want, needs, held, clock.Kernel.TAI())
	to.Begin(w)
	if errors.Is(err, query.ErrTooCostly) {
		return 1, to.End(&query.Basis{Window: w, Missing: []store.Missing{}}, []string{err.Error()})
	}
	var unanswered []string
	if errors.Is(err, query.ErrSentNothing) { // it may have at other times: this interval has the paths of digests alone
		unanswered, err = append(unanswered, err.Error()), nil
	}
	if err != nil {
		return 0, err
	}
	if lacks := e.Store.Unreached(); len(lacks) != 0 {
		return 0, fmt.Errorf("partition %d of the digests: %s", lacks[0].Instance, lacks[0].Unreached)
	}
	basis := basisOf(e.Store, w)
	if s.archive.Deleted(w.From, w.To) {
		basis.Missing = append(basis.Missing, store.Missing{Of: ofRecords, Unreached: "files of the archive were deleted before the roll-up was made"})
	}
	if basis.Records == 0 {
		return 0, to.End(&basis, nil)
	}
	ask := func(q query.Question, prefix string) (any, error) {
		q.Start, q.End = w.From, w.To
		answer, err := e.Ask(ctx, &q)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			unanswered = append(unanswered, fmt.Sprintf("%s: %v", q.Kind, err))
			return nil, nil
		}
		return answer, to.Add(answer, prefix)
	}
	for _, q := range s.rollupQuestions() {
		answer, err := ask(q, q.Prefix)
		if err != nil {
			return 0, err
		}
		network, ok := answer.(*query.Network)
		if !ok {
			continue
		}
		for _, q := range linkQuestions(e.Store, w, network) {
			if _, err := ask(q, ""); err != nil {
				return 0, err
			}
		}
	}
	return basis.Records, to.End(&basis, unanswered)
}

// rollupQuestions are those that an interval answers, without those about links.
func (s *Collector) rollupQuestions() []query.Question {
	c := &s.config.Archive.Rollups
	list := []query.Question{
		{Kind: query.KindNetwork},
		{Kind: query.KindVolume}, {Kind: query.KindCardinality}, {Kind: query.KindEntropy},
		{Kind: query.KindHeavyHitters, Limit: c.Flows},
		{Kind: query.KindLatency, Quantiles: parquet.RollupRanks()}, {Kind: query.KindCongestion, Quantiles: parquet.RollupRanks()},
		{Kind: query.KindPath, Limit: query.MaxLimit},
	}
	for _, prefix := range c.Prefixes {
		list = append(list, query.Question{Kind: query.KindVolume, Prefix: prefix})
	}
	return list
}

// linkQuestions are about both directions of the links between switches that measured delays.
func linkQuestions(s *store.Store, w store.Window, n *query.Network) (list []query.Question) {
	measured := map[uint32]bool{}
	for i := range s.Points {
		if s.Points[i].Overlaps(w) {
			measured[s.Points[i].Switch] = true
		}
	}
	for i := range n.Links {
		a, b := n.Links[i].Ends[0], n.Links[i].Ends[1]
		if !a.HasSwitch || !b.HasSwitch || !measured[a.Switch] || !measured[b.Switch] {
			continue
		}
		from, to := a.Name+":"+a.Port, b.Name+":"+b.Port
		list = append(list, query.Question{Kind: query.KindDelay, From: from, To: to, Limit: 1}, query.Question{Kind: query.KindDelay, From: to, To: from, Limit: 1})
	}
	return list
}

// basisOf is what the answers about a window rest on together.
func basisOf(s *store.Store, w store.Window) query.Basis {
	b := query.Basis{Window: w, Confidence: 0.95, Missing: []store.Missing{}}
	switches := map[uint32]bool{}
	note := func(o *store.Origin) {
		if o.Overlaps(w) {
			b.Records++
			switches[o.Switch] = true
		}
	}
	for i := range s.Statuses {
		note(&s.Statuses[i].Origin)
	}
	for i := range s.Samples {
		note(&s.Samples[i].Origin)
	}
	for i := range s.Points {
		note(&s.Points[i].Origin)
	}
	for i := range s.Fragments {
		note(&s.Fragments[i].Origin)
	}
	for i := range s.Batches {
		note(&s.Batches[i].Origin)
	}
	b.Switches = len(switches)
	for _, k := range collect.Kinds {
		for _, of := range measurements[k] {
			b.Missing = append(b.Missing, s.Missing(of, w)...)
		}
	}
	return b
}
