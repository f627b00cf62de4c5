package query

import (
	"math"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// decoderDoubt is the doubt below which a path is certain, unless a question's
// confidence asks for less: wrong paths would make joins with other systems wrong.
const decoderDoubt = 1e-6

// traceDigests bounds the digests that a decoder keeps of a flow, as a Recorder's do.
const traceDigests = 1024

// tracer decodes paths, flow by flow. It is for one goroutine.
type tracer struct {
	reader  *sink.Reader
	query   int
	decoder *sink.Decoder
}

// portNumbers are what hops of a path of ports are chosen among, if they are hashed.
var portNumbers = func() (all []uint64) {
	for port := range uint64(256) {
		all = append(all, port)
	}
	return all
}()

// newTracer makes a tracer of a path query.
func (e *Engine) newTracer(r *sink.Reader, query int, confidence float64) (*tracer, error) {
	c := sink.DecoderConfig{Values: portNumbers, MaxDigests: traceDigests, Confidence: max(confidence, 1-decoderDoubt)}
	if r.Plan().Queries[query].Value == pint.SwitchID {
		c.Values, c.Topology = e.switchNumbers(), e.Topology
	}
	d, err := r.Decoder(query, c)
	return &tracer{r, query, d}, err
}

// tracedWay is a path that holds from a time on; nil: the path changed then, and was not certain
// again.
type tracedWay struct {
	from int64
	path []uint64
}

// traced is what digests in the order of time say of a flow's path.
type traced struct {
	sink.Flow
	first, last int64
	ways        []tracedWay // certain ones; the first one from the first digest on
}

// trace decodes the digests of one flow; every says to read one of so many.
func (t *tracer) trace(records []pint.Record, every int) *traced {
	f := &traced{}
	stray := int64(0)
	for i := 0; i < len(records); i += every {
		o := &records[i]
		r, ok := t.reader.Read(t.query, o)
		if !ok {
			continue
		}
		now := int64(o.TimeNs)
		if f.Packets == 0 {
			f.first = now
		}
		f.last = now
		length := f.Hops()
		switch t.decoder.Add(&f.Flow, o.ID, r.Digest, int(o.Hops)) {
		case sink.Certain:
			f.know(now)
		case sink.Stray:
			stray = now
		case sink.Changed:
			if f.Hops() != length {
				stray = now // the length alone shows it
			}
			f.forget(stray)
		}
	}
	return f
}

// know notes the path, which is certain now.
func (f *traced) know(now int64) {
	path := slices.Clone(f.Path())
	switch n := len(f.ways); {
	case n == 0:
		f.ways = append(f.ways, tracedWay{f.first, path})
	case f.ways[n-1].path != nil:
		if !slices.Equal(f.ways[n-1].path, path) {
			f.ways = append(f.ways, tracedWay{now, path})
		}
	case n > 1 && slices.Equal(f.ways[n-2].path, path):
		f.ways = f.ways[:n-1] // it had not changed after all
	default:
		f.ways[n-1].path = path
	}
	f.bound()
}

// forget notes that the path changed, of which the digest of that time is the first sign.
func (f *traced) forget(since int64) {
	if n := len(f.ways); n > 0 && f.ways[n-1].path != nil {
		f.ways = append(f.ways, tracedWay{from: since})
		f.bound()
	}
}

// maxPassages bounds the passages of a flow: the oldest goes.
const maxPassages = 64

// bound drops the oldest of too many ways.
func (f *traced) bound() { f.ways = f.ways[max(0, len(f.ways)-maxPassages):] }

// at is the path at a time, nil if it is not known. The first path holds from the beginning.
func (f *traced) at(ns int64) []uint64 {
	for i := len(f.ways) - 1; i >= 0; i-- {
		if ns >= f.ways[i].from || i == 0 {
			return f.ways[i].path
		}
	}
	return nil
}

// passages are the ways as the fragments' query has them, nil if none is known.
func (f *traced) passages() (all []Passage) {
	known := false
	for i, w := range f.ways {
		p := Passage{From: w.from, Switches: make([]uint32, 0, len(w.path))}
		if i == 0 {
			p.From = Always
		}
		for _, sw := range w.path {
			if sw > math.MaxUint32 {
				p.Switches = nil // no switch's number: this way is not known
				break
			}
			p.Switches = append(p.Switches, uint32(sw))
		}
		if len(p.Switches) == 0 {
			p.Switches = nil
		}
		known = known || p.Switches != nil
		all = append(all, p)
	}
	if !known {
		return nil
	}
	return all
}
