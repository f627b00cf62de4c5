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
	reader   *sink.Reader
	query    int
	checksum int // number of the query that tells the paths of a flow apart; -1: the plan has none
	decoder  *sink.Decoder
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
	return &tracer{r, query, r.Plan().Checksum(query), d}, err
}

// tracedWay is a path that holds from a time on; nil: the path changed then, and was not certain
// again.
type tracedWay struct {
	from int64
	path []uint64
}

// note is what a sink condensed of a flow in a slice.
type note struct {
	from, to         int64
	packets, changes uint64
	path             []uint64 // at the end of the slice; nil: none was certain
}

// traced is what digests in the order of time say of a flow's path.
type traced struct {
	sink.Flow
	first, last int64
	stray       int64       // when the last digest contradicted the path
	ways        []tracedWay // certain ones; the first one from the first digest on
	noted       []uint64    // the path by a sink's notes, which read all digests; nil: by those that there are here

	// parallel are the paths that the packets took at once, those of most packets first, if there were several. Then this one is
	// the first of them, but with the packets of all and without ways: there is no one path of a time.
	parallel []*traced
	mark     uint64 // what its packets have in common, by tracer.mark
}

// Path is the flow's path, hop 1 first, or nil while it is not known.
func (f *traced) Path() []uint64 {
	if f.noted != nil {
		return f.noted
	}
	return f.Flow.Path()
}

// Certain reports whether the path is.
func (f *traced) Certain() bool { return f.noted != nil || f.Flow.Certain() }

// Hops is the length of the path, 0 without a digest.
func (f *traced) Hops() int {
	if f.noted != nil {
		return len(f.noted)
	}
	return f.Flow.Hops()
}

// Left is how many candidates a hop has; 0: not narrowed down.
func (f *traced) Left(hop int) int {
	if f.noted != nil {
		return 1
	}
	return f.Flow.Left(hop)
}

// Doubt bounds the probability that the path is wrong.
func (f *traced) Doubt() float64 {
	if f.noted != nil {
		return decoderDoubt
	}
	return f.Flow.Doubt()
}

// Kept is how many digests the path is to be decoded from.
func (f *traced) Kept() int {
	if f.noted != nil {
		return 0
	}
	return f.Flow.Kept()
}

// note adds what sinks condensed, in the order of time. If they know a path, theirs is taken: they read all digests.
func (f *traced) note(notes []note) {
	if len(notes) == 0 {
		return
	}
	raw := f.Packets
	f.Packets = 0
	var ways []tracedWay
	for _, n := range notes {
		f.Packets += n.packets
		f.Changes += n.changes
		if raw == 0 && f.first == 0 {
			f.first = n.from
		}
		f.first, f.last = min(f.first, n.from), max(f.last, n.to-1)
		if n.path == nil && n.changes == 0 {
			continue
		}
		switch last := len(ways) - 1; {
		case last >= 0 && ways[last].path == nil:
			ways[last].path = n.path // it had changed in a slice before
		case last < 0 || !slices.Equal(ways[last].path, n.path):
			ways = append(ways, tracedWay{n.from, n.path})
		}
		f.noted = n.path
	}
	f.Packets = max(f.Packets, raw)
	if f.noted != nil {
		f.ways = ways
		f.bound()
	}
}

// trace decodes the digests of one flow, of which sinks have notes; every says to read one of so many.
func (t *tracer) trace(records []pint.Record, notes []note, every int) *traced {
	f := &traced{}
	if t.checksum >= 0 {
		f = t.byChecksum(records, every)
	} else {
		for i := 0; i < len(records); i += every {
			t.add(f, &records[i])
		}
	}
	if f.parallel == nil { // else no note is of one path
		f.note(notes)
	}
	return f
}

// add takes in a digest.
func (t *tracer) add(f *traced, o *pint.Record) {
	r, ok := t.reader.Read(t.query, o)
	if !ok {
		return
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
		f.stray = now
	case sink.Changed:
		if f.Hops() != length {
			f.stray = now // the length alone shows it
		}
		f.forget(f.stray)
	}
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
