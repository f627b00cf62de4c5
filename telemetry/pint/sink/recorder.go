package sink

import (
	"fmt"
	"iter"
	"slices"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// RecorderConfig bounds a recorder's memory.
type RecorderConfig struct {
	// MaxFlows is how many flows each query keeps; beyond, flows that were not
	// heard of for a while are evicted. 0 means 65536.
	MaxFlows int
	// Decoders completes path queries, by name. MaxDigests is 1024 unless given.
	Decoders map[string]DecoderConfig
	// PathEvent, if set, is called for paths that became certain or changed.
	PathEvent func(query string, flow pint.FlowKey, e Event)
	// ByOrder has each sample of a hop stand for the flow's packets that are nearest to it in order of arrival, in quantiles of
	// flows, but not in those of a window, nor where all codes are counted within a space. Values that change slowly, as those of queues, have smaller errors so; independent ones have
	// larger ones, by up to a quarter. Else samples count alike. Answers of telemetry/query decide by the samples.
	ByOrder bool
}

// RecorderCounts say what became of the records: Records is the sum of
// UnknownPlan, BadHops, NoQuery, and of those that fed a query.
type RecorderCounts struct {
	Records     uint64
	UnknownPlan uint64
	BadHops     uint64 // 0 hops
	NoQuery     uint64 // the plan has no query for the packet
	Evicted     uint64 // flows, of all queries
}

// livePlans is how many plans can be live at once.
const livePlans = 2

// Recorder takes in the digests of all flows and answers the plan's queries
// (section 3.4: the recording and the inference module). While a plan
// replaces another, it knows both. It belongs to one goroutine at a time.
type Recorder struct {
	config RecorderConfig
	plans  []*recordedPlan // the newest last
	counts RecorderCounts
	due    []feeding // of the records in work
	read   uint64    // by fetch, and of no use
}

// recordedPlan is a plan with the state of its queries.
type recordedPlan struct {
	encoder *encode.Encoder
	sets    [][]recordedStep
	queries []*recordedQuery
	seed    uint64 // of the flow tables
}

// recordedStep is a query on the packets of a set.
type recordedStep struct {
	query *recordedQuery
	step  *encode.Step
}

// recordedQuery has one of the three tables.
type recordedQuery struct {
	*pint.Query
	step    encode.Step
	decoder *Decoder
	streams *streamsPlan

	paths   *flowTable[Flow]
	samples *flowTable[hopStreams]
	packets *flowTable[packetState]
}

// NewRecorder makes a recorder that knows one plan.
func NewRecorder(p *plan.Plan, c RecorderConfig) (*Recorder, error) {
	if c.MaxFlows < 0 || c.MaxFlows > 1<<30 {
		return nil, fmt.Errorf("recorder: %d flows are not in 1..2^30", c.MaxFlows)
	}
	if c.MaxFlows == 0 {
		c.MaxFlows = 1 << 16
	}
	r := &Recorder{config: c}
	if err := r.AddPlan(p); err != nil {
		return nil, err
	}
	return r, nil
}

// AddPlan makes a second plan known. Packets of both are recorded until
// RemovePlan.
func (r *Recorder) AddPlan(p *plan.Plan) error {
	if len(r.plans) == livePlans {
		return fmt.Errorf("recorder: plans %d and %d are live: remove one before plan %d is added", r.plans[0].encoder.Plan(), r.plans[1].encoder.Plan(), p.ID)
	}
	if r.plan(p.ID) != nil {
		return fmt.Errorf("recorder: a plan with id %d is live: give the new one another", p.ID)
	}
	e, err := p.Compile()
	if err != nil {
		return err
	}
	n := &recordedPlan{encoder: e, seed: hash.Uint64(p.Seed, 't')}
	byQuery := map[*pint.Query]*recordedQuery{}
	for i := range p.Queries {
		q, err := r.newQuery(p, &p.Queries[i], n.seed)
		if err != nil {
			return fmt.Errorf("plan %d: query %q: %w", p.ID, p.Queries[i].Name, err)
		}
		n.queries = append(n.queries, q)
		byQuery[q.Query] = q
	}
	for _, set := range e.Sets() {
		var steps []recordedStep
		for i := range set.Steps {
			steps = append(steps, recordedStep{byQuery[set.Steps[i].Query], &set.Steps[i]})
		}
		n.sets = append(n.sets, steps)
	}
	n.sets = append(n.sets, nil)
	r.plans = append(r.plans, n)
	return nil
}

// RemovePlan forgets a plan and all that was recorded for it. It reports
// whether the plan was known.
func (r *Recorder) RemovePlan(id uint16) bool {
	n := len(r.plans)
	r.plans = slices.DeleteFunc(r.plans, func(p *recordedPlan) bool { return p.encoder.Plan() == id })
	return len(r.plans) < n
}

func (r *Recorder) newQuery(p *plan.Plan, query *pint.Query, seed uint64) (*recordedQuery, error) {
	q := &recordedQuery{Query: query}
	var err error
	if q.step, err = p.Step(query); err != nil {
		return nil, err
	}
	switch query.Aggregation {
	case pint.Path:
		c := r.config.Decoders[query.Name]
		if c.MaxDigests == 0 {
			c.MaxDigests = 1024
		}
		if q.decoder, err = NewDecoder(q.step.Static, c); err != nil {
			return nil, err
		}
		q.paths = newFlowTable[Flow](r.config.MaxFlows, seed)
	case pint.Quantiles, pint.Frequent:
		q.streams = newStreamsPlan(q.step.Codec, query.Aggregation == pint.Frequent, query.SpaceBytes, query.Numeric.WindowNs)
		q.streams.byOrder = r.config.ByOrder
		q.samples = newFlowTable[hopStreams](r.config.MaxFlows, seed)
	default:
		q.packets = newFlowTable[packetState](r.config.MaxFlows, seed)
	}
	return q, nil
}

func (r *Recorder) plan(id uint16) *recordedPlan {
	for _, p := range r.plans {
		if p.encoder.Plan() == id {
			return p
		}
	}
	return nil
}

// Record takes in a packet's digest.
func (r *Recorder) Record(o *pint.Record) {
	r.due = r.due[:0]
	r.prepare(o)
	for i := range r.due {
		r.feed(&r.due[i])
	}
}

// prepare counts a record, and notes its digests for the queries.
func (r *Recorder) prepare(o *pint.Record) {
	r.counts.Records++
	p := r.plan(o.Plan)
	if p == nil {
		r.counts.UnknownPlan++
		return
	}
	if o.Hops == 0 {
		r.counts.BadHops++
		return
	}
	set := p.encoder.SetOf(o.ID)
	if len(p.sets[set]) == 0 {
		r.counts.NoQuery++
		return
	}
	fiveTuple := o.Flow.Hash(p.seed)
	for i := range p.sets[set] {
		s := &p.sets[set][i]
		q := s.query
		own, hop := s.step.Read(o.ID, o.Digest, int(o.Hops))
		r.due = append(r.due, feeding{query: q, record: o, digest: own, rounding: p.encoder.Rounding(o.ID), hop: hop, flow: o.Flow, hash: fiveTuple})
		d := &r.due[len(r.due)-1]
		if q.Flow != (pint.FlowDefinition{}) {
			d.flow = q.Flow.Of(o.Flow)
			d.hash = d.flow.Hash(p.seed)
		}
	}
}

// feed gives a query its digest.
func (r *Recorder) feed(d *feeding) {
	q, o, hops := d.query, d.record, int(d.record.Hops)
	switch {
	case q.paths != nil:
		e := q.decoder.Add(q.paths.at(&d.flow, d.hash, &r.counts.Evicted), o.ID, d.digest, hops)
		if (e == Certain || e == Changed) && r.config.PathEvent != nil {
			r.config.PathEvent(q.Name, d.flow, e)
		}
	case q.samples != nil:
		q.samples.at(&d.flow, d.hash, &r.counts.Evicted).add(q.streams, d.hop, hops, d.digest, d.rounding, o.TimeNs)
	default:
		q.packets.at(&d.flow, d.hash, &r.counts.Evicted).add(d.digest, q.step.Value(d.digest), o.TimeNs, hops)
	}
}

// Counts returns what became of the records so far.
func (r *Recorder) Counts() RecorderCounts { return r.counts }

// Flows iterates over the flows that a query has heard of, in no order.
func (r *Recorder) Flows(query string) iter.Seq[pint.FlowKey] {
	return func(yield func(pint.FlowKey) bool) {
		for i := len(r.plans) - 1; i >= 0; i-- {
			for _, q := range r.plans[i].queries {
				if q.Name != query {
					continue
				}
				for k := range q.keys() {
					if !yield(k) {
						return
					}
				}
				return
			}
		}
	}
}

func (q *recordedQuery) keys() iter.Seq[pint.FlowKey] {
	switch {
	case q.paths != nil:
		return q.paths.keys()
	case q.samples != nil:
		return q.samples.keys()
	}
	return q.packets.keys()
}
