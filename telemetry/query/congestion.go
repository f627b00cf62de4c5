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
	of := slices.Index([]pint.Value{pint.QueueOccupancy, pint.QueueCongestion, pint.EgressUtilisation}, q.Value) + 1
	switch {
	case of == 0:
	case q.Aggregation == pint.Maximum:
		return of + 3
	case q.Aggregation == pint.Quantiles:
		return of
	}
	return 0
}

// unitOf is the unit of a value of congestion, and what one of the digests' is in it.
func unitOf(v pint.Value) (name string, scale float64) {
	switch v {
	case pint.EgressUtilisation:
		return "share of the link", 1. / pint.UtilisationOne
	case pint.QueueCongestion:
		return "percent", 1
	}
	return "packets", 1
}

func (e *Engine) congestion(q *Question) (*CongestionAnswer, error) {
	d, err := e.digests(q, "congestion", suitsCongestion)
	if err != nil {
		return nil, err
	}
	query := &d.reader.Plan().Queries[d.query]
	codec := d.reader.Codec(d.query)
	unit, scale := unitOf(query.Value)
	a := &CongestionAnswer{
		Value: query.Value.String(), Aggregation: query.Aggregation.String(), Unit: unit,
		Epsilon: codec.Epsilon(), Delta: codec.Delta() * scale,
		Flows: []FlowCongestion{}, Hops: []HopStats{}, Links: []LinkCongestion{},
	}
	if err := d.congested(a, q, scale); err != nil {
		return nil, err
	}
	if query.Aggregation == pint.Quantiles {
		p, err := d.pool(0)
		if err != nil {
			return nil, err
		}
		a.Hops, _ = p.stats(q)
		for i := range a.Hops {
			a.Hops[i].ValueStats = a.Hops[i].scaled(scale)
		}
		d.Digests, d.Used = d.Digests/2, d.Used/2 // they were read twice
	}
	a.Basis, a.DigestBasis = d.Basis, d.DigestBasis
	return a, nil
}

// congested reads all flows' digests, and sums them up by packet, flow and link.
func (d *digests) congested(a *CongestionAnswer, q *Question, scale float64) error {
	t, err := d.tracer()
	if err != nil {
		return err
	}
	codec, links := d.reader.Codec(d.query), newLinks(a.Aggregation)
	all, own := newTally(codec), newTally(codec)
	for i := range d.flows {
		if err := d.e.stopped(); err != nil {
			return err
		}
		records := d.records(&d.flows[i])
		own.reset()
		for k := range records {
			if r, ok := d.reader.Read(d.query, &records[k]); ok {
				own.add(r.Digest)
				all.add(r.Digest)
			}
		}
		if own.n == 0 {
			continue
		}
		d.Used += own.n
		// All flows' medians are to hold together, as the least of them bounds a link.
		delta := (1 - d.Confidence) / float64(len(d.flows))
		f := FlowCongestion{
			Flow:       FormatKey(Key(d.flows[i].key)),
			Median:     own.stats(codec, []float64{0.5}, delta).scaled(scale).Quantiles[0],
			ValueStats: own.stats(codec, q.quantiles(), 1-d.Confidence).scaled(scale),
		}
		a.Flows = append(a.Flows, f)
		if t != nil && links != nil {
			links.add(t.trace(records, 1), &f)
		}
	}
	a.Packets = all.stats(codec, q.quantiles(), 1-d.Confidence).scaled(scale)
	slices.SortStableFunc(a.Flows, func(x, y FlowCongestion) int { return cmp.Compare(y.Median.Value, x.Median.Value) })
	if limit := q.limit(); len(a.Flows) > limit {
		a.More = len(a.Flows) - limit
		a.Flows = slices.Clone(a.Flows[:limit])
	}
	a.Links = links.list(d.e, q.limit())
	return nil
}

// links are bounded by the flows over them; nil: they are not, as packets do not tell of
// their whole path.
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

func newLinks(aggregation string) *links {
	if aggregation != pint.Maximum.String() {
		return nil
	}
	return &links{at: map[link]int{}}
}

// add bounds the links of a flow's path, if it had one path all the time.
func (l *links) add(f *traced, c *FlowCongestion) {
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
	if l == nil {
		return list
	}
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
