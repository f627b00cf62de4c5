// Package sink answers the queries of a plan from digests: a Reader reads one digest at a time, a Decoder decodes the path
// of a flow, and a Recorder keeps what the digests of many flows say.
package sink

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// Reader returns what the digests of a plan say to its queries, one digest at a time, and
// keeps nothing of them. A Recorder keeps what all flows say; a Reader answers about
// digests that lie somewhere else already. It is immutable, and safe for concurrent use.
type Reader struct {
	plan    *plan.Plan
	encoder *encode.Encoder
	steps   []encode.Step    // by query
	inSet   [][]*encode.Step // by set and query, nil where the set has not the query
}

// Reading is what a digest says to one query.
type Reading struct {
	// Hop whose value it is, from 1, of quantiles and frequent; 0: of all.
	Hop int
	// Digest is the query's own: a code, a count, or a part of a path.
	Digest uint64
}

// NewReader makes a plan's reader.
func NewReader(p *plan.Plan) (*Reader, error) {
	e, err := p.Compile()
	if err != nil {
		return nil, err
	}
	r := &Reader{plan: p, encoder: e, steps: make([]encode.Step, len(p.Queries))}
	for i := range p.Queries {
		if r.steps[i], err = p.Step(&p.Queries[i]); err != nil {
			return nil, fmt.Errorf("plan %d: query %q: %w", p.ID, p.Queries[i].Name, err)
		}
	}
	for _, s := range append(slices.Clone(e.Sets()), encode.Set{}) { // the last set is of packets without a query
		steps := make([]*encode.Step, len(p.Queries))
		for i := range s.Steps {
			number := slices.IndexFunc(p.Queries, func(q pint.Query) bool { return q.Name == s.Steps[i].Query.Name })
			steps[number] = &s.Steps[i]
		}
		r.inSet = append(r.inSet, steps)
	}
	return r, nil
}

// Plan is the reader's plan, which must not be changed.
func (r *Reader) Plan() *plan.Plan { return r.plan }

// Read returns what a record says to the query with the number that it has in the
// plan; false: nothing, as its packet is not among those of the query, or the record is of
// another plan, or of no hop.
func (r *Reader) Read(query int, o *pint.Record) (Reading, bool) {
	if o.Plan != r.plan.ID || o.Hops == 0 {
		return Reading{}, false
	}
	s := r.inSet[r.encoder.SetOf(o.ID)][query]
	if s == nil {
		return Reading{}, false
	}
	digest, hop := s.Read(o.ID, o.Digest, int(o.Hops))
	return Reading{hop, digest}, true
}

// Rounding is the randomness, below encode.RoundOne, by which a packet's codes of quantiles were rounded (encode.Codec.Encode).
func (r *Reader) Rounding(id uint64) uint64 { return r.encoder.Rounding(id) }

// Decoder makes a decoder of a path query. A flow whose readings it gets decodes as in
// a Recorder with the same config.
func (r *Reader) Decoder(query int, c DecoderConfig) (*Decoder, error) {
	s := r.steps[query].Static
	if s == nil {
		return nil, fmt.Errorf("query %q of plan %d is not for a path", r.plan.Queries[query].Name, r.plan.ID)
	}
	return NewDecoder(s, c)
}

// Codec is how a query's values are coded; nil for paths, counts and loops.
func (r *Reader) Codec(query int) *encode.Codec { return r.steps[query].Codec }

// Value is what a reading's digest stands for: a value, a sum, a count, or of a loop query
// how often switches found their own hash. Of a path's digest it means nothing.
func (r *Reader) Value(query int, digest uint64) float64 { return r.steps[query].Value(digest) }

// Interval is what the exact value may have been: of codes, all that can have been
// rounded to it; of sums and counts over the hops, two standard deviations.
func (r *Reader) Interval(query int, digest uint64, hops int) (low, high float64) {
	return r.steps[query].Interval(digest, hops)
}

// ByChance is how often a packet over the hops, without a loop, has a match of a
// switch's own hash in a loop query's digest, at most; 0 for other queries.
func (r *Reader) ByChance(query, hops int) float64 { return r.steps[query].ByChance(hops) }
