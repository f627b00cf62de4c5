package query

import (
	"context"
	"math"
	"strconv"

	"github.com/weirswitch/weir/telemetry/pint"
)

// askPath decodes the paths of flows from their digests in the window.
func askPath(_ context.Context, e *Engine, q *Question) (any, error) {
	return answer(e.tracePaths(q))
}

// suitsPath prefers paths of switches to those of ports.
func suitsPath(q *pint.Query) int {
	if q.Aggregation != pint.Path {
		return 0
	}
	return 1 + suitsSwitches(q)
}

func (e *Engine) tracePaths(q *Question) (*PathAnswer, error) {
	d, err := e.digests(q, "paths", suitsPath)
	if err != nil {
		return nil, err
	}
	query := &d.reader.Plan().Queries[d.query]
	t, err := e.newTracer(d.reader, d.query, d.Confidence)
	if err != nil {
		return nil, err
	}
	a := &PathAnswer{Value: query.Value.String(), Flows: []FlowPath{}}
	for i := range d.flows {
		if err := e.stopped(); err != nil {
			return nil, err
		}
		if len(a.Flows) == q.limit() {
			a.More = len(d.flows) - i
			break
		}
		notes := d.notesOf(&d.flows[i], t.query)
		f := t.trace(d.records(&d.flows[i]), notes, 1)
		if len(notes) > 0 {
			f.Packets = d.flows[i].packets // of slices whose digests are all here, and of those that were condensed
		}
		if f.Packets == 0 {
			continue
		}
		d.Used += f.Packets
		a.Flows = append(a.Flows, e.flowPath(Key(d.flows[i].key), f, query.Value))
	}
	a.Basis, a.DigestBasis = d.Basis, d.DigestBasis
	return a, nil
}

// flowPath is the answer about one flow.
func (e *Engine) flowPath(k Key, f *traced, of pint.Value) FlowPath {
	p := FlowPath{
		Key: k, Flow: FormatKey(k), Packets: f.Packets, FirstNs: f.first, LastNs: f.last,
		Known: f.Path() != nil, Certain: f.Certain(), Doubt: f.Doubt(), Changes: f.Changes, Strays: f.Strays,
		Undecoded: f.Kept(),
		Hops:      []PathHop{}, Passages: []PathPassage{}, Parallel: []ParallelPath{},
	}
	for hop := 1; hop <= f.Hops(); hop++ {
		h := PathHop{Hop: hop, Candidates: f.Left(hop)}
		if p.Known {
			h.Number = f.Path()[hop-1]
			h.Switch = e.hopName(h.Number, of)
		}
		p.Hops = append(p.Hops, h)
	}
	for i, w := range f.ways {
		to := f.last
		if i+1 < len(f.ways) {
			to = f.ways[i+1].from
		}
		p.Passages = append(p.Passages, PathPassage{FromNs: w.from, ToNs: to, Switches: e.hopNames(w.path, of)})
	}
	for _, x := range f.parallel {
		p.Parallel = append(p.Parallel, ParallelPath{
			Packets: x.Packets, FirstNs: x.first, LastNs: x.last, Known: x.Path() != nil, Certain: x.Certain(), Doubt: x.Doubt(),
			Switches: e.hopNames(x.Path(), of),
		})
	}
	return p
}

// hopNames are the names of a path's hops.
func (e *Engine) hopNames(path []uint64, of pint.Value) []string {
	names := []string{}
	for _, v := range path {
		names = append(names, e.hopName(v, of))
	}
	return names
}

// hopName is the name of a switch, or the number of what else identifies hops.
func (e *Engine) hopName(v uint64, of pint.Value) string {
	if of == pint.SwitchID && v <= math.MaxUint32 {
		if name := e.Names[uint32(v)]; name != "" {
			return name
		}
		return e.Store.Name(uint32(v))
	}
	return strconv.FormatUint(v, 10)
}
