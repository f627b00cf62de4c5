package sink

import (
	"github.com/weirswitch/weir/telemetry/pint"
)

// recordBlock is how many records are looked ahead at: their memory is fetched at the
// same time.
const recordBlock = 32

// feeding is a record's digest for a query.
type feeding struct {
	query  *recordedQuery
	record *pint.Record
	digest uint64
	// rounding is that of the packet's codes.
	rounding uint64
	flow     pint.FlowKey
	hash     uint64 // of flow
	hop      int    // whose value it is, of a sampling query

	path    *flowEntry[Flow] // by guess, before anything is fed
	samples *flowEntry[hopStreams]
	stream  *stream
}

// RecordBatch takes in many packets' digests: the same as Record of one after the
// other. With many flows a record waits for memory about ten times, for the index, the flow's
// state, and what that points to; here the records of a block wait together.
func (r *Recorder) RecordBatch(records []pint.Record) {
	for len(records) > 0 {
		n := min(len(records), recordBlock)
		r.due = r.due[:0]
		for i := range records[:n] {
			r.prepare(&records[i])
		}
		r.fetch()
		for i := range r.due {
			r.feed(&r.due[i])
		}
		records = records[n:]
	}
}

// fetch reads what feed will, one pointer after the other. It changes nothing, and what
// it reads may be another flow's.
func (r *Recorder) fetch() {
	var read uint64 // Reads whose results are unused could be optimised away.
	for i := range r.due {
		d := &r.due[i]
		switch q := d.query; {
		case q.paths != nil:
			read += q.paths.slot(d.hash)
		case q.samples != nil:
			read += q.samples.slot(d.hash)
		default:
			read += q.packets.slot(d.hash)
		}
	}
	for i := range r.due {
		d := &r.due[i]
		switch q := d.query; {
		case q.paths != nil:
			if d.path = q.paths.guess(d.hash); d.path != nil {
				read += uint64(d.path.tag) + d.path.state.Packets
			}
		case q.samples != nil:
			if d.samples = q.samples.guess(d.hash); d.samples != nil {
				read += uint64(d.samples.tag) + uint64(d.samples.state.hops)
			}
		default:
			if f := q.packets.guess(d.hash); f != nil {
				read += uint64(f.tag) + f.state.n
			}
		}
	}
	for i := range r.due {
		d := &r.due[i]
		if d.path != nil && len(d.path.state.path) > 0 {
			read += d.path.state.path[0]
		}
		if d.samples != nil {
			if d.stream = d.samples.state.guess(d.hop); d.stream != nil {
				read += d.stream.n
			}
		}
	}
	for i := range r.due {
		if s := r.due[i].stream; s != nil && s.sketch != nil {
			read += uint64(s.sketch.size())
		}
	}
	r.read = read
}
