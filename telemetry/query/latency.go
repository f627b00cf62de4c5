package query

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// askLatency tells the latency of hops.
func askLatency(_ context.Context, e *Engine, q *Question) (any, error) {
	return answer(e.latency(q))
}

// suitsLatency prefers hop latencies, and what tells hops apart; nothing else suits a question about one hop.
func (q *Question) suitsLatency(p *pint.Query) int {
	value := slices.Index([]pint.Value{pint.IngressTime, pint.HopLatency}, p.Value)
	aggregation := slices.Index([]pint.Aggregation{pint.Minimum, pint.Product, pint.SlowHops, pint.Maximum, pint.Sum, pint.Frequent, pint.Quantiles}, p.Aggregation)
	if value < 0 || aggregation < 0 || q.Hop != 0 && !ofHops(p) {
		return 0
	}
	return 1 + 7*value + aggregation
}

func (e *Engine) latency(q *Question) (*LatencyAnswer, error) {
	d, err := e.digests(q, "latencies", q.suitsLatency)
	if err != nil {
		return nil, err
	}
	c := codingOf(d)
	a := &LatencyAnswer{
		Value: c.Value.String(), Aggregation: c.Aggregation.String(), Unit: c.unit,
		Hops: []HopStats{}, Packets: ValueStats{Quantiles: []QuantileValue{}}, Flows: []FlowValues{},
	}
	a.Epsilon, a.Delta = c.steps()
	if ofHops(c.Query) {
		p, err := d.pool(c, q.Hop)
		if err != nil {
			return nil, err
		}
		a.Unlocated = p.unlocated
		a.Hops, a.More = p.stats(q)
	} else if a.Packets, a.Flows, a.More, err = d.packets(q, c, nil); err != nil {
		return nil, err
	}
	a.Basis, a.DigestBasis = d.Basis, d.DigestBasis
	return a, nil
}

// hopPlace is where samples are of. Of one flow: a hop, of a path with so many hops, and the
// switch that stood there then; of many: the switch alone.
type hopPlace struct {
	hops, hop int
	known     bool
	sw        uint64
}

// hopPool are samples by place.
type hopPool struct {
	d         *digests
	c         *coding
	by        map[hopPlace]*hopTally
	unlocated int
	packets   uint32 // of the flow that was asked for, that had a digest of any hop
	// all: digests are of slices that have them all, and not only those of the sample are read.
	all bool
}

type hopTally struct {
	tally
	flows int
	last  int // number of the flow that was counted last
	// packets of the flow that was asked for are known to have passed here.
	packets float64
	// order are the samples of one flow as they came.
	order []ordered
}

// pool reads the samples of a query that tells hops apart. hop other than 0 restricts it to that hop of
// a flow.
func (d *digests) pool(c *coding, hop int) (*hopPool, error) {
	p := &hopPool{d: d, c: c, by: map[hopPlace]*hopTally{}}
	t, err := d.tracer()
	if err != nil {
		return nil, err
	}
	if d.everything && d.batches.share > 0 {
		// What sinks condensed is of all digests: those of the sample are among them.
		p.ofSwitches()
		whole := *d.batches // which other questions have too
		whole.whole = true
		d.batches = &whole
	}
	for i := range d.flows {
		if err := d.e.stopped(); err != nil {
			return nil, err
		}
		records := d.records(&d.flows[i])
		var f *traced
		if t != nil {
			f = t.trace(records, d.notesOf(&d.flows[i], t.query), 1)
		}
		if d.batches.whole && f != nil {
			p.passes(i, f)
		}
		if !d.one && (f == nil || len(f.ways) == 0 && f.parallel == nil) {
			p.unlocated++
			continue
		}
		p.add(i, records, t, f, hop)
		if d.one && d.batches.share > 0 {
			p = p.orCounted(&d.flows[i], t, f, hop)
		}
	}
	return p, d.e.affordable(p.bytes())
}

// orCounted is the pool of what sinks counted of the flow that was asked for, and of its digests in slices that have them all, or p, that of the sample,
// if that says more. Packets of other slices are not in it: bounds hold whatever they met. Sinks that neither list the flow nor have a digest of it in the window
// are taken not to have had it.
func (p *hopPool) orCounted(flow *digestFlow, paths *tracer, f *traced, hop int) *hopPool {
	if p.d.reader.Plan().Queries[p.d.query].Flow.Of(flow.members[0]) != flow.members[0] {
		return p // flows are of several 5-tuples, of which some may be nowhere
	}
	c := &hopPool{d: p.d, c: p.c, by: map[hopPlace]*hopTally{}, all: true}
	sampled := p.d.Used
	p.d.Used = 0
	known, unknown := uint64(0), uint64(0)
	key := flow.members[0]
	batches := p.d.batches.by[batchPlace{planOf(p.d.reader.Plan()), uint16(key.Partition(record.Partitions))}]
	had := map[uint32]bool{}
	for _, x := range batches {
		if _, ok := x.Find(&key); ok || x.Condensed != nil && x.Condensed.Find(&key) != nil {
			had[x.Switch] = true
		}
	}
	for _, x := range batches {
		if x.Condensed == nil {
			if at, ok := x.Find(&key); ok {
				records := p.d.batches.appendRun(nil, x, at)
				c.add(0, records, paths, f, hop)
				c.pass(records, paths, f)
				known += uint64(len(records))
			}
			continue
		}
		if !had[x.Switch] || x.Condensed.Packets == 0 { // without packets it is digests of a slice that another record is of
			continue
		}
		note := x.Condensed.Find(&key)
		unknown += x.Condensed.Beyond(note != nil)
		switch {
		case note == nil:
		case x.From < p.d.batches.From || x.To > p.d.batches.To || !c.values(x, note, hop):
			unknown += note.Packets
		default:
			known += note.Packets
		}
	}
	wider := 0.0
	for at, t := range c.by {
		t.unknown = float64(unknown) / (float64(unknown) + t.packets)
		other := 1.0
		if s := p.by[at]; s != nil {
			other = s.width(p.d.Confidence)
		}
		wider += t.width(p.d.Confidence) - other
	}
	if wider >= 0 {
		p.d.Used = sampled
		return p
	}
	for at, t := range p.by {
		if c.by[at] == nil {
			c.by[at] = t // of a path that was not counted, by the sample
		}
	}
	p.d.Counted = float64(known) / float64(known+unknown)
	return c
}

// pass counts packets at the hops that they passed.
func (p *hopPool) pass(records []pint.Record, paths *tracer, f *traced) {
	for i := range records {
		o := &records[i]
		var path []uint64
		if f != nil {
			if path = paths.at(f, o); len(path) != int(o.Hops) {
				path = nil
			}
		}
		for hop := 1; hop <= int(o.Hops); hop++ {
			at := hopPlace{hops: int(o.Hops), hop: hop}
			if path != nil {
				at.known, at.sw = true, path[hop-1]
			}
			if t := p.by[at]; t != nil {
				t.packets++
			}
		}
	}
}

// values adds what a sink counted of a flow in a slice, and reports whether it did count.
func (p *hopPool) values(x *store.Batch, f *pint.CondensedFlow, hop int) bool {
	path, values := x.Condensed.PathOf(f), f.ValuesOf(p.d.query)
	read := uint8(0)
	if len(path) == 1 && path[0] == uint64(x.Switch) { // from edge to edge
		read = x.Condensed.Read
	}
	for _, v := range values {
		if hop != 0 && int(v.Hop) != hop {
			continue
		}
		t := p.at(hopPlace{hops: len(path), hop: int(v.Hop), known: true, sw: path[v.Hop-1]})
		t.count(0)
		t.weight = max(t.weight, read)
		t.packets += float64(f.Packets)
		step := x.Condensed.Step
		if p.c.Aggregation == pint.Frequent {
			step = 0
		}
		for _, n := range v.Counts {
			t.addStep(uint64(n.Code), n.Count, step)
			p.d.Used += max(1, n.Count>>read)
		}
	}
	return len(values) > 0
}

// width is the difference of the ranks that bound the median.
func (t *hopTally) width(confidence float64) float64 {
	low, high := t.rankBounds(0.5, (1-confidence)/2)
	return high - low
}

// add reads a flow's samples; f is its path, nil: not known.
func (p *hopPool) add(number int, records []pint.Record, paths *tracer, f *traced, hop int) {
	for i := range records {
		o := &records[i]
		r, ok := p.d.reader.Read(p.d.query, o)
		if !ok || !p.all && !p.d.batches.whole && !p.d.batches.uniform(o) {
			continue
		}
		p.packets++
		if hop != 0 && r.Hop != hop {
			continue
		}
		at := hopPlace{hops: int(o.Hops), hop: r.Hop}
		if f != nil {
			if path := paths.at(f, o); len(path) == int(o.Hops) && r.Hop <= len(path) {
				at.known, at.sw = true, path[r.Hop-1]
			}
		}
		if !p.d.one {
			if !at.known {
				continue // of a time at which the path is not known
			}
			at.hops, at.hop = 0, 0
		}
		t := p.at(at)
		t.count(number)
		t.add(r.Digest)
		if p.d.one {
			t.order = append(t.order, ordered{p.packets, uint32(p.d.reader.Rounding(o.ID)), r.Digest})
		}
		p.d.Used++
	}
}

// at is the tally of a place.
func (p *hopPool) at(at hopPlace) *hopTally {
	t := p.by[at]
	if t == nil {
		t = &hopTally{tally: *newTally(p.c), last: -1}
		p.by[at] = t
	}
	return t
}

// count counts a flow by its number, once.
func (t *hopTally) count(number int) {
	if t.last != number {
		t.last = number
		t.flows++
	}
}

// ofSwitches adds what sinks read of all flows, by switch.
func (p *hopPool) ofSwitches() {
	plan := planOf(p.d.reader.Plan())
	for at, list := range p.d.batches.by {
		for _, x := range list {
			if at.plan != plan || x.Condensed == nil {
				continue
			}
			for i := range x.Condensed.Values {
				v := &x.Condensed.Values[i]
				if int(v.Query) != p.d.query {
					continue
				}
				t := p.at(hopPlace{known: true, sw: v.Switch})
				read := uint8(0)
				if v.Switch == uint64(x.Switch) { // packets from edge to edge have no other
					read = x.Condensed.Read
				}
				t.weight = max(t.weight, read)
				for _, n := range v.Counts {
					t.addMany(uint64(n.Code), n.Count)
					p.d.Used += max(1, n.Count>>read)
				}
			}
		}
	}
}

// passes counts a flow at the switches of its paths.
func (p *hopPool) passes(number int, f *traced) {
	for _, w := range f.ways {
		for _, sw := range w.path {
			if t := p.by[hopPlace{known: true, sw: sw}]; t != nil {
				t.count(number)
			}
		}
	}
}

func (p *hopPool) bytes() (n int64) {
	for _, t := range p.by {
		n += t.bytes() + 16*int64(cap(t.order))
	}
	return n
}

// stats lists the places: of one flow in the order of hops, of many by switch.
func (p *hopPool) stats(q *Question) (list []HopStats, more int) {
	places := slices.SortedFunc(maps.Keys(p.by), func(a, b hopPlace) int {
		return cmp.Or(cmp.Compare(a.hops, b.hops), cmp.Compare(a.hop, b.hop), cmp.Compare(a.sw, b.sw))
	})
	if limit := q.limit(); len(places) > limit {
		more = len(places) - limit
		places = places[:limit]
	}
	list = []HopStats{}
	onePath := p.onePath()
	for _, at := range places {
		t := p.by[at]
		h := HopStats{Hop: at.hop, Flows: t.flows, ValueStats: t.stats(p.c, q.quantiles(), 1-p.d.Confidence), Frequent: []FrequentValue{}}
		if p.c.Aggregation == pint.Frequent {
			h.Frequent = t.frequent(p.c, 1-p.d.Confidence)
		} else if !p.d.one || p.all {
			t.interpolate(p.c, &h.ValueStats)
		} else {
			t.refine(p.c, &h.ValueStats, p.packets, onePath)
		}
		if at.known {
			h.Switch = p.d.e.hopName(at.sw, pint.SwitchID)
		}
		list = append(list, h)
	}
	return list, more
}

// affordable refuses answers that take too much memory.
func (e *Engine) affordable(bytes int64) error {
	if limit := e.Limits.orDefaults().Bytes; bytes > limit {
		return fmt.Errorf("%w: it takes %d MiB of memory, and %d are allowed: ask about fewer flows or a shorter window", ErrTooCostly, bytes>>20, limit>>20)
	}
	return nil
}

// median is the one of a list of quantiles that is nearest to the middle.
func (v *ValueStats) median() (q QuantileValue, ok bool) {
	least := math.Inf(1)
	for _, x := range v.Quantiles {
		if d := math.Abs(x.Rank - 0.5); d < least {
			least, q, ok = d, x, true
		}
	}
	return q, ok
}
