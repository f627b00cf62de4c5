package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
)

// askCongestion tells how congested the paths of flows were.
func askCongestion(_ context.Context, e *Engine, q *Question) (any, error) {
	return answer(e.congestion(q))
}

// suitsCongestion prefers what packets carry of their whole path, and utilisation.
func suitsCongestion(q *pint.Query) int {
	value := slices.Index([]pint.Value{pint.QueueOccupancy, pint.QueueCongestion, pint.EgressUtilisation}, q.Value)
	aggregation := slices.Index([]pint.Aggregation{pint.Minimum, pint.Product, pint.SlowHops, pint.Sum, pint.Frequent, pint.Quantiles, pint.Maximum}, q.Aggregation)
	if value < 0 || aggregation < 0 {
		return 0
	}
	return 1 + 3*aggregation + value
}

func (e *Engine) congestion(q *Question) (*CongestionAnswer, error) {
	d, err := e.digests(q, "congestion", suitsCongestion)
	if err != nil {
		return nil, err
	}
	c := codingOf(d)
	a := &CongestionAnswer{
		Value: c.Value.String(), Aggregation: c.Aggregation.String(), Unit: c.unit, Hops: []HopStats{}, Links: []LinkCongestion{},
	}
	a.Epsilon, a.Delta = c.steps()
	var links *links
	if c.Aggregation == pint.Maximum {
		links = newLinks()
	}
	if a.Packets, a.Flows, a.More, err = d.packets(q, c, links); err != nil {
		return nil, err
	}
	if links != nil {
		a.Links = links.list(e, q.limit())
	}
	if ofHops(c.Query) {
		digests, used := d.Digests, d.Used
		p, err := d.pool(c, 0)
		if err != nil {
			return nil, err
		}
		a.Hops, _ = p.stats(q)
		d.Digests, d.Used = digests, used // they are read twice
	}
	a.Basis, a.DigestBasis = d.Basis, d.DigestBasis
	return a, nil
}

// packets reads all flows' digests, and sums them up by packet and flow, and by link unless links is nil. more flows
// are beyond the question's limit.
func (d *digests) packets(q *Question, c *coding, links *links) (packets ValueStats, flows []FlowValues, more int, err error) {
	var t *tracer
	if links != nil {
		if t, err = d.tracer(); err != nil {
			return packets, nil, 0, err
		}
	}
	flows = []FlowValues{}
	all, own := newTally(c), newTally(c)
	for i := range d.flows {
		if err := d.e.stopped(); err != nil {
			return packets, nil, 0, err
		}
		records := d.records(&d.flows[i])
		own.reset()
		for k := range records {
			if r, ok := d.reader.Read(d.query, &records[k]); ok && d.batches.uniform(&records[k]) {
				own.add(r.Digest)
				all.add(r.Digest)
				c.hops = max(c.hops, int(records[k].Hops))
			}
		}
		if own.n == 0 {
			continue
		}
		d.Used += own.n
		// All flows' medians are to hold together, as the least of them bounds a link.
		delta := (1 - d.Confidence) / float64(len(d.flows))
		f := FlowValues{
			Flow:       FormatKey(Key(d.flows[i].key)),
			Median:     own.stats(c, []float64{0.5}, delta).Quantiles[0],
			ValueStats: own.stats(c, q.quantiles(), 1-d.Confidence),
		}
		flows = append(flows, f)
		if t != nil {
			links.add(t.trace(records, d.notesOf(&d.flows[i], t.query), 1), &f)
		}
	}
	slices.SortStableFunc(flows, func(x, y FlowValues) int { return cmp.Compare(y.Median.Value, x.Median.Value) })
	if limit := q.limit(); len(flows) > limit {
		more = len(flows) - limit
		flows = slices.Clone(flows[:limit])
	}
	return all.stats(c, q.quantiles(), 1-d.Confidence), flows, more, nil
}

// links are bounded by the flows over them.
type links struct {
	at  map[link]int
	all []boundedLink
}

// link is from a switch to the next one of a path, or to the outside.
type link struct {
	from, to uint64
	leaves   bool
}

type boundedLink struct {
	link
	LinkCongestion
}

func newLinks() *links { return &links{at: map[link]int{}} }

// add bounds the links of a flow's path, if it had one path all the time.
func (l *links) add(f *traced, c *FlowValues) {
	if len(f.ways) != 1 || f.ways[0].path == nil {
		return
	}
	path := f.ways[0].path
	for i, sw := range path {
		at := link{from: sw, leaves: i == len(path)-1}
		if !at.leaves {
			at.to = path[i+1]
		}
		n, known := l.at[at]
		if !known {
			n = len(l.all)
			l.at[at] = n
			l.all = append(l.all, boundedLink{link: at, LinkCongestion: LinkCongestion{AtMost: math.Inf(1), Open: true}})
		}
		b := &l.all[n]
		b.Flows++
		closer := c.Median.High < b.AtMost
		if b.Open == c.Median.Open && closer || b.Open && !c.Median.Open {
			b.AtMost, b.Open, b.Flow = c.Median.High, c.Median.Open, c.Flow
		}
	}
}

// list names the links, the suspects first: those that nothing bounds come last.
func (l *links) list(e *Engine, limit int) []LinkCongestion {
	list := []LinkCongestion{}
	for _, b := range l.all {
		c := b.LinkCongestion
		c.From = e.hopName(b.from, pint.SwitchID)
		if !b.leaves {
			c.To = e.hopName(b.to, pint.SwitchID)
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y LinkCongestion) int {
		order := cmp.Compare(y.AtMost, x.AtMost)
		if x.Open != y.Open {
			if order = -1; x.Open {
				order = 1
			}
		}
		return cmp.Or(order, cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	return list[:min(limit, len(list))]
}
