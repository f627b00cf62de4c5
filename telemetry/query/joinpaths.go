package query

import (
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/store"
)

// digestPaths are the paths that the store's own digests give, decoded when they are asked
// for, and those of e.Paths for flows of which digests give none. It belongs to one question.
//
// A path is looked for in the question's window first, and then in all there is: one that
// did not change is the same outside.
type digestPaths struct {
	e         *Engine
	otherwise Paths
	windows   []store.Window
	batches   []*batches // by window; nil until they are needed
	tracers   []*tracer  // by plan
	pairs     map[pint.FlowKey][]pint.FlowKey
	buf       []pint.Record
	known     map[Key][]Passage
}

// joinDigests bounds the digests that are read of a flow to decode its path: of more, some at
// equal distances, since elephants have very many, and a change is noticed by any.
const joinDigests = 512

// joined are the paths for a question about fragments; nil: none are known.
func (e *Engine) joined(w store.Window) (Paths, error) {
	if e.decoded != nil {
		return e.decoded, nil
	}
	if len(e.Store.Batches) == 0 {
		return e.Paths, nil
	}
	readers, err := e.readers()
	if err != nil {
		return nil, err
	}
	p := &digestPaths{e: e, otherwise: e.Paths, windows: []store.Window{w}, known: map[Key][]Passage{}}
	if all := e.Store.All(); w.From > all.From || w.To < all.To {
		p.windows = append(p.windows, all)
	}
	p.batches = make([]*batches, len(p.windows))
	for _, r := range readers {
		t, err := e.tracer(r, 0)
		if err != nil {
			return nil, err
		}
		if t != nil {
			p.tracers = append(p.tracers, t)
		}
	}
	return p, nil
}

// Path implements Paths.
func (p *digestPaths) Path(flow Key) []Passage {
	path, asked := p.known[flow]
	if !asked {
		path = p.decode(flow)
		p.known[flow] = path
	}
	if path == nil && p.otherwise != nil {
		return p.otherwise.Path(flow)
	}
	return path
}

// decode takes the first window, and the first plan, that gives the path.
func (p *digestPaths) decode(flow Key) []Passage {
	for i, w := range p.windows {
		if p.batches[i] == nil {
			p.batches[i] = p.e.batches(w, store.AllPartitions)
		}
		for _, t := range p.tracers {
			records, notes := p.records(p.batches[i], pint.FlowKey(flow), t)
			if len(records) == 0 && len(notes) == 0 {
				continue
			}
			if path := t.trace(records, notes, 1+max(len(records)-1, 0)/joinDigests).passages(); path != nil {
				return path
			}
		}
	}
	return nil
}

// records are a flow's digests, and what sinks noted of it. A flow that is a pair of addresses has those of all
// 5-tuples between them.
func (p *digestPaths) records(b *batches, flow pint.FlowKey, t *tracer) (records []pint.Record, notes []note) {
	plan := planOf(t.reader.Plan())
	p.buf = p.buf[:0]
	if flow.Proto != 0 || flow.SrcPort != 0 || flow.DstPort != 0 {
		p.buf = b.appendFlow(p.buf, flow, plan)
		return p.buf, b.appendNotes(nil, flow, plan, t.query)
	}
	if p.pairs == nil {
		p.pairs = p.e.pairs()
	}
	for _, k := range p.pairs[flow] {
		p.buf = b.appendFlow(p.buf, k, plan)
		notes = b.appendNotes(notes, k, plan, t.query)
	}
	sortByTime(p.buf)
	return p.buf, notes
}

// pairs lists the 5-tuples with digests between each two addresses.
func (e *Engine) pairs() map[pint.FlowKey][]pint.FlowKey {
	of := pint.FlowDefinition{Key: "src-dst"}
	all, seen := map[pint.FlowKey][]pint.FlowKey{}, map[pint.FlowKey]bool{}
	see := func(k pint.FlowKey) {
		if !seen[k] {
			seen[k] = true
			all[of.Of(k)] = append(all[of.Of(k)], k)
		}
	}
	for i := range e.Store.Batches {
		b := e.Store.Batches[i]
		if b.Loop {
			continue
		}
		for n := range b.Digests.Flows() {
			see(b.Flow(n))
		}
		if b.Condensed != nil {
			for n := range b.Condensed.Flows {
				see(b.Condensed.Flows[n].Flow)
			}
		}
	}
	return all
}
