package query

import (
	"math"
	"slices"
	"sort"

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
	begun       bool // something is known of the flow
	first, last int64
	stray       int64       // when the last digest contradicted the path
	ways        []tracedWay // certain ones; the first one from the first digest on

	// parallel are the paths that the packets took at once, those of most packets first, if there were several. Then this one is
	// the first of them, but with the packets of all and without ways: there is no one path of a time.
	parallel []*traced
	mark     uint64 // what its packets have in common, by tracer.mark
}

// trace decodes the digests of one flow, of which sinks have notes; every says to read one of so many. In slices of which a sink knows
// the path, that is taken, since it read all digests, or, of packets from edge to edge, knows it. What is before, between and behind these is decoded: of it all digests are here.
func (t *tracer) trace(records []pint.Record, notes []note, every int) *traced {
	f := &traced{}
	if !slices.ContainsFunc(notes, func(n note) bool { return n.path != nil }) {
		if t.checksum >= 0 {
			f = t.byChecksum(records, every)
		} else {
			t.decode(f, records, every)
		}
		f.count(notes)
		return f
	}
	noted, until := uint64(0), int64(math.MinInt64) // packets of notes, and the end of those so far
	for _, n := range notes {
		noted += n.packets
		if n.path == nil && n.changes == 0 {
			continue // the digests of its share may know more
		}
		alone := n.from > until
		if alone {
			before := firstFrom(records, n.from)
			t.decode(f, records[:before], every)
			records = records[before:]
		}
		until = max(until, n.to)
		records = records[firstFrom(records, until):]
		f.note(&n, alone)
	}
	t.decode(f, records, every)
	f.Packets += noted
	return f
}

// firstFrom is how many records are from before a time.
func firstFrom(records []pint.Record, ns int64) int {
	return sort.Search(len(records), func(i int) bool { return int64(records[i].TimeNs) >= ns })
}

// count adds what sinks condensed, where they know no path.
func (f *traced) count(notes []note) {
	raw, packets := f.Packets, uint64(0)
	for _, n := range notes {
		packets += n.packets
		f.Changes += n.changes
		f.during(n.from, n.to-1)
	}
	f.Packets = max(packets, raw)
}

// during notes that the flow had packets at these times.
func (f *traced) during(first, last int64) {
	if !f.begun {
		f.begun, f.first, f.last = true, first, last
	}
	f.first, f.last = min(f.first, first), max(f.last, last)
}

// note goes on with what a sink condensed in a slice. alone: the sink did not condense just before, so it does not know of a change since.
func (f *traced) note(n *note, alone bool) {
	f.during(n.from, n.to-1)
	changes := n.changes
	switch last := len(f.ways) - 1; {
	case last >= 0 && f.ways[last].path == nil:
		f.ways[last].path = n.path // it had changed before
	case last < 0 || !slices.Equal(f.ways[last].path, n.path):
		f.ways = append(f.ways, tracedWay{n.from, n.path})
		f.bound()
		if alone && last >= 0 {
			changes = max(changes, 1)
		}
	}
	was := f.Flow
	f.Flow = sink.Known(n.path, decoderDoubt)
	f.Packets, f.Changes, f.Strays = was.Packets, was.Changes+changes, was.Strays
}

// decode goes on with digests.
func (t *tracer) decode(f *traced, records []pint.Record, every int) {
	for i := 0; i < len(records); i += every {
		t.add(f, &records[i])
	}
}

// add takes in a digest.
func (t *tracer) add(f *traced, o *pint.Record) {
	r, ok := t.reader.Read(t.query, o)
	if !ok {
		return
	}
	now := int64(o.TimeNs)
	f.during(now, now)
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
