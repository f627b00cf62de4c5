package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/store"
)

// askLoops lists flows whose packets pass a switch twice.
func askLoops(_ context.Context, e *Engine, q *Question) (any, error) {
	return answer(e.loops(q))
}

// suitsLoops prefers a query for loops; a path shows them too.
func suitsLoops(q *pint.Query) int {
	if q.Aggregation == pint.Loop {
		return 2
	}
	return suitsSwitches(q)
}

func (e *Engine) loops(q *Question) (*LoopsAnswer, error) {
	reports, err := e.loopReports(q)
	if err != nil {
		return nil, err
	}
	a := &LoopsAnswer{Flows: []FlowLoop{}}
	d, err := e.digests(q, "loops", suitsLoops)
	switch {
	case err == nil:
		if err := d.looped(a, reports.by); err != nil {
			return nil, err
		}
		a.Basis, a.DigestBasis = d.Basis, d.DigestBasis
		maps.Copy(reports.switches, d.batches.sinks)
	case len(reports.by) > 0 && (errors.Is(err, ErrNoRecords) || errors.Is(err, ErrUnknownFlow)):
		// What loops need never arrive, so that there is no digest but those of reports.
		if a.Basis, _, err = e.basisOfDigests(q); err != nil {
			return nil, err
		}
		a.Of, a.FlowCount = reports.of, len(reports.by)
	default:
		return nil, err
	}
	for _, f := range reports.by {
		a.Reported += f.Reported
		a.Flows = append(a.Flows, *f)
	}
	a.Records += reports.records
	a.Switches = len(reports.switches)
	slices.SortFunc(a.Flows, func(x, y FlowLoop) int {
		return cmp.Or(cmp.Compare(y.Reported, x.Reported), cmp.Compare(y.Marked, x.Marked), cmp.Compare(x.Doubt, y.Doubt), cmp.Compare(x.Flow, y.Flow))
	})
	if limit := q.limit(); len(a.Flows) > limit {
		a.More = len(a.Flows) - limit
		a.Flows = slices.Clone(a.Flows[:limit])
	}
	return a, nil
}

// loopReports are the packets that switches found to loop, by flow.
type loopReports struct {
	of       string
	by       map[pint.FlowKey]*FlowLoop
	records  int
	switches map[uint32]bool
}

func (e *Engine) loopReports(q *Question) (*loopReports, error) {
	flow, err := q.key()
	if err != nil {
		return nil, err
	}
	selection, err := q.selection()
	if err != nil {
		return nil, err
	}
	r := &loopReports{of: e.population(selection), by: map[pint.FlowKey]*FlowLoop{}, switches: map[uint32]bool{}}
	if q.Flow != "" {
		r.of = FormatKey(flow)
	}
	window, limit := e.window(), e.Limits.orDefaults().Candidates
	partition, _ := e.partition(q)
	for _, b := range e.Store.DigestsWithin(partition, window) {
		if !b.Loop || !b.Overlaps(window) {
			continue
		}
		if err := e.stopped(); err != nil {
			return nil, err
		}
		r.records++
		r.switches[b.Switch] = true
		for k, run := range b.All() {
			if key := Key(k); q.Flow != "" && key != flow || !selection.Has(&key) {
				continue
			}
			r.add(e, k, run, b.Switch, window)
		}
		if len(r.by) > limit {
			return nil, fmt.Errorf("%w: more than %d flows loop: ask about fewer (prefix, src, dst, port) or a shorter window", ErrTooCostly, limit)
		}
	}
	return r, nil
}

// add counts what one switch reported of a flow.
func (r *loopReports) add(e *Engine, k pint.FlowKey, run []pint.Record, sw uint32, w store.Window) {
	for i := range run {
		now := int64(run[i].TimeNs)
		if now < w.From || now >= w.To {
			continue
		}
		f := r.by[k]
		if f == nil {
			f = &FlowLoop{Flow: FormatKey(Key(k)), By: []string{}, Doubt: 1, Path: []string{}, Repeated: []string{}, FirstNs: now, LastNs: now}
			r.by[k] = f
		}
		f.Reported++
		f.FirstNs, f.LastNs = min(f.FirstNs, now), max(f.LastNs, now)
		if name := e.Store.Name(sw); !slices.Contains(f.By, name) {
			f.By = append(f.By, name)
			slices.Sort(f.By)
		}
	}
}

// looped looks for loops in the digests that arrived, and adds what they say to the
// flows that switches reported. Flows that only the sinks report are added to a.
func (d *digests) looped(a *LoopsAnswer, reported map[pint.FlowKey]*FlowLoop) error {
	t, err := d.tracer()
	if err != nil {
		return err
	}
	hasQuery := d.reader.Plan().Queries[d.query].Aggregation == pint.Loop
	for i := range d.flows {
		if err := d.e.stopped(); err != nil {
			return err
		}
		records := d.records(&d.flows[i])
		f := FlowLoop{By: []string{}, Doubt: 1, Path: []string{}, Repeated: []string{}}
		if hasQuery {
			a.ByChance += d.marks(&f, records)
		}
		if t != nil {
			d.repeats(&f, t.trace(records, d.notesOf(&d.flows[i], t.query), 1))
		}
		a.Packets += f.Packets
		a.Marked += f.Marked
		d.Used += f.Packets
		// All reported flows shall be right together.
		doubt := min(1, f.Doubt*float64(len(d.flows)))
		if known := reported[d.flows[i].key]; known != nil {
			known.Packets, known.Marked, known.Doubt, known.Path, known.Repeated = f.Packets, f.Marked, doubt, f.Path, f.Repeated
		} else if doubt <= 1-d.Confidence {
			f.Flow, f.Doubt = FormatKey(Key(d.flows[i].key)), doubt
			a.Flows = append(a.Flows, f)
		}
	}
	return nil
}

// marks counts the packets with a match, and returns how many are expected by chance.
func (d *digests) marks(f *FlowLoop, records []pint.Record) (expected float64) {
	for i := range records {
		o := &records[i]
		r, ok := d.reader.Read(d.query, o)
		if !ok {
			continue
		}
		f.Packets++
		expected += d.reader.ByChance(d.query, int(o.Hops))
		if d.reader.Value(d.query, r.Digest) == 0 {
			continue
		}
		if f.Marked++; f.Marked == 1 {
			f.FirstNs = int64(o.TimeNs)
		}
		f.LastNs = int64(o.TimeNs)
	}
	if n := float64(f.Packets); float64(f.Marked) > expected {
		f.Doubt = math.Exp(-n * divergence(float64(f.Marked)/n, expected/n))
	}
	return expected
}

func passesTwice(path []uint64) bool {
	for i, sw := range path {
		if slices.Contains(path[:i], sw) {
			return true
		}
	}
	return false
}

// repeats looks for switches that the path passes twice.
func (d *digests) repeats(f *FlowLoop, t *traced) {
	packets := t.Packets
	if i := slices.IndexFunc(t.parallel, func(x *traced) bool { return passesTwice(x.Path()) }); i >= 0 {
		t = t.parallel[i]
	}
	path := t.Path()
	for i, sw := range path {
		name := d.e.hopName(sw, pint.SwitchID)
		f.Path = append(f.Path, name)
		if slices.Contains(path[:i], sw) && !slices.Contains(f.Repeated, name) {
			f.Repeated = append(f.Repeated, name)
		}
	}
	f.Packets = max(f.Packets, packets)
	if len(f.Repeated) == 0 {
		return
	}
	if doubt := t.Doubt(); f.Marked == 0 || doubt < f.Doubt {
		f.Doubt = min(f.Doubt, doubt)
		if f.Marked == 0 {
			f.FirstNs, f.LastNs = t.first, t.last
		}
	}
}
