package query

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/oblivious"
	"github.com/weirswitch/weir/telemetry/store"
)

// located are the candidates of a sketch whose paths are known.
type located struct {
	keys      map[uint64]Key // by flow
	paths     map[uint64]*timeline
	flows     []uint64
	named     int // candidates, of all sources
	unlocated int // of these, without a known path
	k         int // how many of the heaviest flows of each level a summary may rest on
	// counts are the most that one record counted for the flows that it names.
	counts map[uint64]int64

	engine *Engine
	turn   uint8 // of asking whether the question is given up
	over   error
}

// Path implements disketch.Paths. It knows none once the question is given up, so that a
// question about the paths of many flows ends.
func (l *located) Path(buf []disketch.Segment, flow, epoch uint64) []disketch.Segment {
	if l.turn++; l.turn == 0 && l.over == nil {
		l.over = l.engine.stopped()
	}
	if l.over != nil {
		return buf
	}
	if p := l.paths[flow]; p != nil {
		return p.Path(buf, flow, epoch)
	}
	return buf
}

// How many of the heaviest flows of each level count: at most, and at least. The
// least is for records that name few flows, or none: a sum over all flows is too low then.
const (
	summaryFlows = 4096
	leastFlows   = 32
)

// named joins the flows that the sketch's records name with those that the samples name.
// Their paths are not looked for yet.
func (e *Engine) named(s *sketch) (*located, error) {
	l := &located{keys: map[uint64]Key{}, paths: map[uint64]*timeline{}, k: summaryFlows, engine: e, counts: map[uint64]int64{}}
	limit := e.Limits.orDefaults().Candidates
	add := func(flow uint64, k Key) {
		if _, known := l.keys[flow]; known || k.Version == 0 || l.over != nil {
			return
		}
		if len(l.flows) == limit {
			l.over = fmt.Errorf("%w: records name more than the %d flows that one question may ask for: ask about a shorter window", ErrTooCostly, limit)
			return
		}
		l.keys[flow] = k
		l.flows = append(l.flows, flow)
	}
	for _, c := range e.Store.Sketches.Candidates(s.query) {
		l.counts[c.Flow] = c.Count
		add(c.Flow, Key(c.Key))
	}
	// The samples' keys are 5-tuples: of a sketch with another key they say nothing.
	keys, err := e.Candidates()
	if err == nil {
		for _, k := range keys {
			add(e.FlowID(s.query.Hash, k), k)
		}
	}
	slices.Sort(l.flows)
	// What samples name besides is no help, unless it is every flow.
	if c, err := e.Cardinality(); err != nil || c.Flows.Low != c.Flows.High {
		l.k = min(l.k, max(e.Store.Sketches.Known(s.query), leastFlows))
	}
	if err := e.stopped(); err != nil {
		return nil, err // rather than that nothing is known
	}
	if l.named = len(l.flows); l.named == 0 && l.over == nil {
		return nil, fmt.Errorf("%w that name flows: give the fragments candidates, or add the stage oblivious to the switches' graphs", ErrNoRecords)
	}
	return l, l.over
}

// locate looks for the paths of the flows, and leaves those out that have none: not all of them
// may.
func (l *located) locate(s *sketch) error {
	flows := l.flows[:0]
	for _, flow := range l.flows {
		if err := l.engine.stopped(); err != nil {
			return err
		}
		path := l.engine.path(s, l.keys[flow])
		if path == nil {
			l.unlocated++
			continue
		}
		l.paths[flow] = path
		flows = append(flows, flow)
	}
	if l.flows = flows; len(flows) == 0 && l.unlocated > 0 {
		return fmt.Errorf("%w of paths: the path of none of %d candidates is known, and fragments count flows on their paths only: add the stage pint to the switches' graphs, or name the paths", ErrNoRecords, l.unlocated)
	}
	return nil
}

// candidates are the flows that records name, with their paths.
func (e *Engine) candidates(s *sketch) (*located, error) {
	l, err := e.named(s)
	if err != nil {
		return nil, err
	}
	return l, l.locate(s)
}

// SketchHeavyHitters asks the fragments alone for the flows of at least the share
// theta of the network's volume, in the sketch's unit, the largest first: their
// records name the candidates, and count them along their paths. The volume is that of
// the network-wide sample if there is one, else what the levels of UnivMon
// tell. least other than 0 is the size itself.
func (e *Engine) SketchHeavyHitters(theta, least float64) (*HeavyHitters, error) {
	s, err := e.sketch(countsFlows)
	if err != nil {
		return nil, err
	}
	h := &HeavyHitters{Basis: s.Basis, By: BySketch, Unit: unitName(s.unit), Theta: theta}
	l, err := e.named(s)
	if err != nil {
		return nil, err
	}
	var sum *disketch.Summary
	if least == 0 {
		if h.Volume, sum, err = e.volume(s, l); err != nil {
			return nil, err
		}
		least = theta * h.Volume.Value
	}
	if len(l.paths) == 0 {
		l.flows = l.likely(s, least)
		if err := l.locate(s); err != nil {
			return nil, err
		}
	}
	h.Unlocated = l.unlocated
	if sum != nil && least > 0 { // all were asked already; one without a record has the value 0
		l.flows = sum.AtLeast(least)
	}
	heavy := e.Store.Sketches.HeavyHitters(s.query, l.flows, least, l)
	if l.over != nil {
		return nil, l.over
	}
	seen := map[Absent]bool{}
	for _, f := range heavy {
		k := l.keys[f.Flow]
		share := 0.0
		if h.Volume.Value > 0 {
			share = f.Value / h.Volume.Value
		}
		h.Flows = append(h.Flows, HeavyFlow{Key: k, Flow: FormatKey(k), Share: share, Bounded: Bounded{f.Value, f.Low, f.High}})
		for _, a := range e.absent(f.Missing) {
			if !seen[a] {
				seen[a] = true
				h.Absent = append(h.Absent, a)
			}
		}
	}
	return h, nil
}

// summarise asks for all candidates along their paths.
func (l *located) summarise(s *sketch) (*disketch.Summary, error) {
	sum, err := l.engine.Store.Sketches.Summarise(s.query, l.k, l.flows, l)
	if l.over != nil {
		return nil, l.over
	}
	return sum, err
}

// likely leaves out flows that can hardly have the size, by who names them: what one record
// counted of it, were it the same in all; or the sample's upper bound. Asking the
// fragments about a flow takes long, and samples name very many that are small.
func (l *located) likely(s *sketch, least float64) []uint64 {
	subepochs := 1
	for _, epoch := range l.engine.Store.Sketches.Epochs() {
		for _, id := range l.engine.Store.Sketches.Fragments(s.query.Sketch) {
			if epoch >= s.query.From && epoch < s.query.To {
				subepochs = max(subepochs, l.engine.Store.Sketches.N(id, epoch))
			}
		}
	}
	scale := countSlack * float64(s.query.To-s.query.From) * float64(subepochs)
	highs, unseen, known := l.engine.sampleHighs(s.unit)
	return slices.DeleteFunc(l.flows, func(flow uint64) bool {
		if float64(l.counts[flow])*scale >= least {
			return false
		}
		if !known {
			return l.counts[flow] > 0
		}
		high, sampled := highs[l.keys[flow]]
		if !sampled {
			high = unseen
		}
		return high < least
	})
}

// What makes flows unlikely: the counts of records have no bounds, and are taken for up to four times
// too low; the sample's bounds may fail with a small probability.
const (
	countSlack = 4
	highDoubt  = 1e-6
)

// sampleHighs are the upper bounds of the flows that the sample names, and that of others;
// false: there is no sample of this unit.
func (e *Engine) sampleHighs(unit disketch.Unit) (highs map[Key]float64, unseen float64, known bool) {
	n, err := e.samples(store.OfSamples)
	if err != nil {
		return nil, 0, false
	}
	of := oblivious.Packets
	if unit == disketch.Bytes {
		of = oblivious.Bytes
	}
	flows, err := n.union.Flows(of, highDoubt)
	none, err2 := n.union.Subset(of, highDoubt, func(*Key) bool { return false })
	if err != nil || err2 != nil {
		return nil, 0, false
	}
	highs = make(map[Key]float64, len(flows))
	for _, f := range flows {
		highs[f.Key] = f.High
	}
	return highs, none.High, true
}

// volume of the network in a sketch's unit, each packet counted once; and the summary
// of all candidates, if it took one.
func (e *Engine) volume(s *sketch, l *located) (Bounded, *disketch.Summary, error) {
	if v, err := e.Volume(nil); err == nil {
		if s.unit == disketch.Bytes {
			return v.Bytes, nil, nil
		}
		return v.Packets, nil, nil
	}
	if err := l.locate(s); err != nil {
		return Bounded{}, nil, err
	}
	sum, err := l.summarise(s)
	if errors.Is(err, disketch.ErrNotUnivMon) {
		return Bounded{}, nil, fmt.Errorf("the network's volume is not known, since there are neither samples nor fragments of kind univmon: ask for a number of %s instead of a share", unitName(s.unit))
	}
	if err != nil {
		return Bounded{}, nil, err
	}
	return e.around(sum.Total(), s.Confidence), sum, nil
}

// Entropy is the entropy of the flows' shares of all packets, and what else the
// levels of UnivMon cover all flows.
type Entropy struct {
	Basis
	Unit        string   `json:"unit"`
	Bits        Bounded  `json:"bits"`
	Flows       Bounded  `json:"flows"`
	F2          Bounded  `json:"f2"`
	Candidates  int      `json:"candidates"`      // flows that records name
	Unlocated   int      `json:"unlocated"`       // of these, without a known path
	TotalSample *Bounded `json:"total,omitempty"` // the volume that was used, of the sample
	Absent      []Absent `json:"absent"`
	// Uncounted is what is in no estimate, in Unit: records of it did not come or are of a part of their subepoch, a switch did not count it, or the path of its flow is
	// not known. The bounds hold whatever flows it is of. Without samples it does not include what was in records that did not come: Absent names these.
	Uncounted *Bounded `json:"uncounted,omitempty"`
}

// Entropy asks the fragments of a UnivMon sketch.
func (e *Engine) Entropy() (*Entropy, error) {
	s, err := e.sketch(func(f *store.Fragment) bool { return f.Kind == disketch.UnivMon })
	if err != nil {
		return nil, fmt.Errorf("%w; entropy needs fragments of kind univmon", err)
	}
	l, err := e.candidates(s)
	if err != nil {
		return nil, err
	}
	a := &Entropy{Basis: s.Basis, Unit: unitName(s.unit), Candidates: l.named, Unlocated: l.unlocated}
	sum, err := l.summarise(s)
	if err != nil {
		return nil, err
	}
	total := 0.0
	if v, err := e.Volume(nil); err == nil {
		a.TotalSample = &v.Packets
		if s.unit == disketch.Bytes {
			a.TotalSample = &v.Bytes
		}
		total = a.TotalSample.Value
	}
	a.Bits = e.around(sum.Entropy(total), s.Confidence)
	a.Flows = e.around(sum.Cardinality(), s.Confidence)
	a.F2 = e.around(sum.SecondMoment(), s.Confidence)
	a.Absent = e.absent(sum.Missing)
	e.allow(s, a, sum)
	return a, nil
}

// allow makes the bounds hold although something of the packets is in no estimate, if so: all records of a flow's path lack an epoch, as they did not come or are of a part
// of their subepoch; a switch had no room to count; or the paths of flows are not known. The packets may be of any flows: of as many new ones as there are packets,
// or all of the largest one.
func (e *Engine) allow(s *sketch, a *Entropy, sum *disketch.Summary) {
	if a.Uncounted = e.uncounted(s, a, sum); a.Uncounted == nil {
		return
	}
	counted, out := e.around(sum.Total(), s.Confidence), a.Uncounted.High
	most := counted.High + out
	if a.TotalSample != nil {
		most = a.TotalSample.High
	}
	most = max(most, 1)
	// The entropy grows with a total that other flows add to, and falls with one that the largest flow does.
	bits, slack := max(math.Log2(most)-sum.LogSum()/most, 0), a.Bits.High-a.Bits.Value
	with, largest := sum.Largest+out, sum.Largest
	a.Bits.Value = sum.Entropy(0).Value
	a.Bits.Low = min(a.Bits.Low, max(bits-slack-(surprise(with)-surprise(largest))/most, 0), a.Bits.Value)
	a.Bits.High = max(a.Bits.High, bits+slack, a.Bits.Value)
	a.Flows.High += out
	a.F2.High += with*with - largest*largest
}

// surprise is v log2 v, of a value of at least 1.
func surprise(v float64) float64 { return v * math.Log2(max(v, 1)) }

// uncounted is what is in no estimate; nil: everything is.
func (e *Engine) uncounted(s *sketch, a *Entropy, sum *disketch.Summary) *Bounded {
	counted := e.around(sum.Total(), s.Confidence)
	missed, passed, all := e.passedUnseen(s, sum.Gaps)
	known := missed + passed
	if a.TotalSample == nil {
		switch {
		case a.Unlocated > 0:
			out := max(all-counted.Low, 0)
			return &Bounded{min(max(all-counted.High, 0), out), 0, out}
		case known > 0:
			return &Bounded{known, 0, known}
		}
		return nil
	}
	short := Bounded{max(a.TotalSample.Value-counted.Value, 0), max(a.TotalSample.Low-counted.High, 0), max(a.TotalSample.High-counted.Low, 0)}
	switch {
	case a.Unlocated > 0 || short.Low > 0 || sum.Skipped:
		return &short
	case known > 0:
		return &Bounded{min(short.Value, known), 0, min(short.High, known)}
	}
	return nil
}

// passedUnseen is what fragments missed in records that estimates take, what at most passed in gaps, and all that passed the fragments;
// in the sketch's unit, each packet once for each switch that it passed. In gaps that is what samples count exactly, or where there are none what the records say that estimates do not take.
func (e *Engine) passedUnseen(s *sketch, gaps []uint64) (missed, passed, all float64) {
	packet, sampled := 1.0, false
	if s.unit == disketch.Bytes {
		packet = mostBytes
	}
	length := int64(s.epochs.Nanoseconds())
	within := func(o *store.Origin) bool {
		i, found := slices.BinarySearch(gaps, uint64(max(o.From, 0)/length))
		return found || i < len(gaps) && int64(gaps[i])*length < o.To
	}
	for _, x := range e.Store.Samples {
		if x.Unit == oblivious.Flows || !x.Overlaps(s.Window) {
			continue
		}
		if sampled = true; within(&x.Origin) {
			passed += packet * float64(x.Missed)
			if s.unit == disketch.Bytes {
				passed += float64(x.Bytes)
			} else {
				passed += float64(x.Packets)
			}
		}
	}
	for _, f := range e.Store.Fragments {
		if f.ID.Sketch != s.query.Sketch || !f.Overlaps(s.Window) {
			continue
		}
		here := packet * (float64(f.Missed) + float64(max(f.Packets, f.Seen)))
		switch all += here; {
		case !f.Partial:
			missed += packet * float64(f.Missed)
		case !sampled && within(&f.Origin):
			passed += here
		}
	}
	return missed, passed, all
}

// mostBytes is what a packet may have.
const mostBytes = 1 << 16
