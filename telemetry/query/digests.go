package query

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
)

// defaultReaders read the digests of networks without a plan of their own, whose switches
// follow the default one with their hash family.
func defaultReaders() (list []*sink.Reader, err error) {
	for _, family := range hash.Families() {
		made, ok := madeReaders.Load(family)
		if !ok {
			p := pintplan.Default()
			p.Hash = family
			r, err := sink.NewReader(p)
			if err != nil {
				return nil, err
			}
			made, _ = madeReaders.LoadOrStore(family, r)
		}
		list = append(list, made.(*sink.Reader))
	}
	return list, nil
}

// madeReaders are those of the default plan, by hash family.
var madeReaders sync.Map

// readers are those of the engine's plans.
func (e *Engine) readers() (list []*sink.Reader, err error) {
	if len(e.Plans) == 0 {
		return defaultReaders()
	}
	for _, p := range e.Plans {
		r, err := sink.NewReader(p)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// batches are the records of digests in a window: by plan and partition, in the order of
// time. Several questions about a view may have them.
type batches struct {
	store.Window
	by    map[batchPlace][]*store.Batch
	notes map[batchPlace][]*store.Batch // those of by with flows that were condensed
	whole bool                          // only batches with all digests are read
	share uint8                         // the largest of what was condensed: digests of 1 of 2^share packets are in all records
	read  uint8                         // the largest of what was condensed: of packets from edge to edge
	all   int                           // records
	sinks map[uint32]bool               // the switches that they are of
}

type batchPlace struct {
	plan      planID
	partition uint16
}

// planID distinguishes plans, and the hash families of the switches that follow them: digests
// of one family mean nothing to a plan of the other.
type planID struct {
	id   uint16
	hash hash.Family
}

func planOf(p *pintplan.Plan) planID { return planID{p.ID, p.Hash} }

func (p planID) String() string {
	if p.hash == hash.XX {
		return fmt.Sprint(p.id)
	}
	return fmt.Sprintf("%d (hash %v)", p.id, p.hash)
}

// batchesKey is the window of batches that a view remembers, and their partition.
type batchesKey struct {
	w         store.Window
	partition int
}

// batches sorts the store's batches of a window.
func (e *Engine) batches(w store.Window, partition int) *batches {
	found, _ := e.Store.Remember(batchesKey{w, partition}, func() (any, int64, error) { // which never fails
		b := sortBatches(e.Store, w, partition)
		return b, 16 * int64(b.all), nil
	})
	return found.(*batches)
}

func sortBatches(s *store.Store, w store.Window, partition int) *batches {
	b := &batches{Window: w, by: map[batchPlace][]*store.Batch{}, notes: map[batchPlace][]*store.Batch{}, sinks: map[uint32]bool{}}
	for _, x := range s.DigestsWithin(partition, w) {
		if x.Overlaps(w) && !x.Loop {
			at := batchPlace{planID{x.Plan, x.Hash}, x.Instance}
			b.by[at] = append(b.by[at], x)
			if c := x.Condensed; c != nil {
				b.share, b.read = max(b.share, c.Share), max(b.read, c.Read)
				if len(c.Flows) > 0 {
					b.notes[at] = append(b.notes[at], x)
				}
			}
			b.sinks[x.Switch] = true
			b.all++
		}
	}
	return b
}

// appendFlow appends a flow's digests in the window, in the order of time.
func (b *batches) appendFlow(dst []pint.Record, flow pint.FlowKey, plan planID) []pint.Record {
	begin := len(dst)
	for _, x := range b.by[batchPlace{plan, uint16(flow.Partition(record.Partitions))}] {
		if at, ok := x.Find(&flow); ok {
			dst = b.appendRun(dst, x, at)
		}
	}
	sortByTime(dst[begin:])
	return dst
}

// appendRuns is appendFlow where it is known where the digests are.
func (b *batches) appendRuns(dst []pint.Record, runs []run) []pint.Record {
	begin := len(dst)
	for _, r := range runs {
		dst = b.appendRun(dst, r.batch, r.flow)
	}
	sortByTime(dst[begin:])
	return dst
}

// appendRun appends what a batch has of a flow, by its number there.
func (b *batches) appendRun(dst []pint.Record, x *store.Batch, flow int) []pint.Record {
	if b.whole && x.Condensed != nil {
		return dst
	}
	begin := len(dst)
	dst = x.AppendFlow(dst, flow)
	if x.From >= b.From && x.To <= b.To {
		return dst
	}
	kept := slices.DeleteFunc(dst[begin:], func(o pint.Record) bool {
		return int64(o.TimeNs) < b.From || int64(o.TimeNs) >= b.To
	})
	return dst[:begin+len(kept)]
}

func sortByTime(all []pint.Record) {
	byTime := func(a, b pint.Record) int { return cmp.Compare(a.TimeNs, b.TimeNs) }
	if !slices.IsSortedFunc(all, byTime) { // as they are, of one sink
		slices.SortStableFunc(all, byTime)
	}
}

// digestFlow is a flow with digests, as a query of the plan defines flows.
type digestFlow struct {
	key     pint.FlowKey
	members []pint.FlowKey // the 5-tuples that are it
	packets uint64         // with a digest, as sinks report where they condensed these, else those of the window
	runs    []run          // where its digests are; nil: they are to be looked for
}

// run is where a batch has the digests of a flow.
type run struct {
	batch *store.Batch
	flow  int // its number there
}

// digests is a question to the digests of one plan, for one of its queries.
type digests struct {
	Basis
	DigestBasis
	e       *Engine
	reader  *sink.Reader
	query   int // of the plan
	batches *batches
	flows   []digestFlow // those of most digests first
	one     bool         // flow was asked for by its name
	// everything: all flows were asked for.
	everything bool
	buf        []pint.Record
}

// digests begins an answer from the digests of the flows that a question selects: of the
// plan, of those with a query that suits, that has most of them. suits ranks queries,
// higher ones first; 0: not that one.
func (e *Engine) digests(q *Question, what string, suits func(*pint.Query) int) (*digests, error) {
	basis, partition, err := e.basisOfDigests(q)
	if err != nil {
		return nil, err
	}
	readers, err := e.readers()
	if err != nil {
		return nil, err
	}
	d := &digests{Basis: basis, e: e, one: q.Flow != ""}
	one := partition != store.AllPartitions
	if one {
		if err := e.unreached(partition); err != nil {
			return nil, err
		}
	}
	d.batches = e.batches(basis.Window, partition)
	d.Records, d.Switches = d.batches.all, len(d.batches.sinks)
	if d.Records == 0 && (!one || e.batches(basis.Window, store.AllPartitions).all == 0) {
		return nil, e.none("digests", "no packet with a digest arrived where digests are read: if there is none, add the stage pint to the switches' graphs, and name the ports to hosts in its edge (stages.pint.edge): packets get digests where they come in there, and these are read where they leave", e.Store.Of(store.OfDigests))
	}
	if err := d.choose(q, readers, suits); err != nil {
		return nil, err
	}
	if d.reader == nil {
		return nil, fmt.Errorf("%w of %s: none of the plans that are known here, %v, has a query for it; digests are of %v", ErrNoRecords, what, planIDs(readers), d.batches.plansSeen())
	}
	of := d.Of
	if !d.one && of != "all flows" {
		of = "flows " + of // "from 10.0.0.0/8"
	}
	switch {
	case len(d.flows) == 0 && d.OtherPlans > 0:
		return nil, fmt.Errorf("%w: digests of %s are in the window, but those are of the plans %v, and known here are %v: name the plan's file", ErrUnknownFlow, of, d.batches.plansSeen(), planIDs(readers))
	case len(d.flows) == 0:
		return nil, fmt.Errorf("%w: no digest of %s is in the window", ErrUnknownFlow, of)
	}
	d.FlowCount = len(d.flows)
	d.Share, d.Read = 1/float64(uint64(1)<<d.batches.share), 1/float64(uint64(1)<<d.batches.read)
	for at, list := range d.batches.by {
		for _, x := range list {
			if x.Condensed != nil && at.plan == planOf(d.reader.Plan()) {
				d.LeftOut += x.Condensed.Packets - x.Condensed.Listed()
			}
		}
	}
	d.Query = d.reader.Plan().Queries[d.query].Name
	d.Plan = d.reader.Plan().ID
	return d, nil
}

// choose finds the plan to answer from, and its flows.
func (d *digests) choose(q *Question, readers []*sink.Reader, suits func(*pint.Query) int) error {
	flow, err := q.key()
	if err != nil {
		return err
	}
	selection, err := q.selection()
	if err != nil {
		return err
	}
	if d.Of = d.e.population(selection); d.one {
		d.Of = FormatKey(flow)
	}
	d.everything = !d.one && selection.All()
	most, all := -1, 0
	for _, r := range readers {
		query, ok := bestQuery(r.Plan(), suits)
		if !ok {
			continue
		}
		want := func(k *pint.FlowKey) bool { return selection.Has((*Key)(k)) }
		if d.one {
			of := r.Plan().Queries[query].Flow
			asked := of.Of(pint.FlowKey(flow))
			want = func(k *pint.FlowKey) bool { return of.Of(*k) == asked }
		}
		flows, digests, err := d.list(r, query, flow, want)
		if err != nil {
			return err
		}
		if all += digests; digests > most {
			most, d.reader, d.query, d.flows = digests, r, query, flows
		}
	}
	if d.reader != nil {
		known := func(id planID) bool {
			return slices.ContainsFunc(readers, func(r *sink.Reader) bool { return planOf(r.Plan()) == id })
		}
		d.OtherPlans = uint64(all-most) + d.unknownPlans(pint.FlowKey(flow), known, selection)
	}
	return nil
}

// bestQuery is the number of the plan's query that suits best.
func bestQuery(p *pintplan.Plan, suits func(*pint.Query) int) (query int, ok bool) {
	best := 0
	for i := range p.Queries {
		if s := suits(&p.Queries[i]); s > best {
			best, query = s, i
		}
	}
	return query, best > 0
}

// list finds the flows that are wanted, and counts their digests.
func (d *digests) list(r *sink.Reader, query int, flow Key, want func(*pint.FlowKey) bool) ([]digestFlow, int, error) {
	limits := d.e.Limits.orDefaults()
	of := r.Plan().Queries[query].Flow
	if d.one && of == (pint.FlowDefinition{}) {
		runs, n := d.batches.find(pint.FlowKey(flow), planOf(r.Plan()))
		switch {
		case n.packets == 0:
			return nil, 0, nil
		case n.digests > limits.Records:
			return nil, 0, limits.tooManyDigests()
		}
		return []digestFlow{{pint.FlowKey(flow), []pint.FlowKey{pint.FlowKey(flow)}, n.packets, runs}}, int(n.packets), nil
	}
	at, flows, all, read := map[pint.FlowKey]int{}, []digestFlow(nil), 0, 0
	for partition := range uint16(record.Partitions) {
		// All digests of a 5-tuple are in one partition, so its count is whole after it.
		counts := map[pint.FlowKey]flowCount{}
		for _, b := range d.batches.by[batchPlace{planOf(r.Plan()), partition}] {
			if err := d.e.stopped(); err != nil {
				return nil, 0, err
			}
			for i := range b.Digests.Flows() {
				if k := b.Flow(i); want(&k) {
					counts[k] = counts[k].add(b, i)
				}
			}
			if b.Condensed == nil {
				continue
			}
			for i := range b.Condensed.Flows {
				if f := &b.Condensed.Flows[i]; want(&f.Flow) {
					n := counts[f.Flow]
					n.packets += f.Packets
					counts[f.Flow] = n
				}
			}
		}
		for k, n := range counts {
			n = n.orSampled()
			key := of.Of(k)
			i, known := at[key]
			if !known {
				i = len(flows)
				at[key] = i
				flows = append(flows, digestFlow{key: key})
			}
			flows[i].members = append(flows[i].members, k)
			flows[i].packets += n.packets
			all += int(n.packets)
			read += n.digests
		}
		if len(flows) > limits.Candidates || read > limits.Records {
			return nil, 0, limits.tooManyDigests()
		}
	}
	slices.SortFunc(flows, func(a, b digestFlow) int {
		return cmp.Or(cmp.Compare(b.packets, a.packets), compareKeys(&a.key, &b.key))
	})
	return flows, all, nil
}

func (l Limits) tooManyDigests() error {
	return fmt.Errorf("%w: it is about more than %d flows, or %d digests, which may be read for one question: ask about fewer flows (prefix, src, dst, port) or a shorter window", ErrTooCostly, l.Candidates, l.Records)
}

// compareKeys orders flows, for answers that are always the same.
func compareKeys(a, b *pint.FlowKey) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), slices.Compare(a.Src[:], b.Src[:]), slices.Compare(a.Dst[:], b.Dst[:]),
		cmp.Compare(a.SrcPort, b.SrcPort), cmp.Compare(a.DstPort, b.DstPort), cmp.Compare(a.Proto, b.Proto))
}

// flowCount counts a flow's digests, and its packets.
type flowCount struct {
	digests int
	packets uint64 // of batches with all digests, and of flows that were condensed
	sampled uint64 // of batches with a sample
}

// add counts what a batch has of a flow, by its number there.
func (n flowCount) add(b *store.Batch, flow int) flowCount {
	count := b.Count(flow)
	n.digests += count
	if b.Condensed == nil {
		n.packets += uint64(count)
	} else {
		n.sampled += uint64(count) << b.Condensed.Share
	}
	return n
}

// orSampled takes the packets of a flow that no record lists from its sample.
func (n flowCount) orSampled() flowCount {
	if n.packets == 0 {
		n.packets = n.sampled
	}
	return n
}

// find looks for the digests of a 5-tuple in the batches of the window, and counts them.
func (b *batches) find(flow pint.FlowKey, plan planID) (runs []run, n flowCount) {
	for _, x := range b.by[batchPlace{plan, uint16(flow.Partition(record.Partitions))}] {
		if i, ok := x.Find(&flow); ok {
			runs = append(runs, run{x, i})
			n = n.add(x, i)
		}
		if x.Condensed != nil {
			if f := x.Condensed.Find(&flow); f != nil {
				n.packets += f.Packets
			}
		}
	}
	return runs, n.orSampled()
}

// appendNotes appends what sinks condensed of a 5-tuple in the window, by a path query with a number.
func (b *batches) appendNotes(dst []note, flow pint.FlowKey, plan planID, query int) []note {
	for _, x := range b.notes[batchPlace{plan, uint16(flow.Partition(record.Partitions))}] {
		if int(x.Condensed.Query) != query {
			continue
		}
		if f := x.Condensed.Find(&flow); f != nil {
			dst = append(dst, note{x.From, x.To, f.Packets, uint64(f.Changes), x.Condensed.PathOf(f)})
		}
	}
	slices.SortStableFunc(dst, func(a, b note) int { return cmp.Compare(a.from, b.from) })
	return dst
}

// notesOf are those of a flow.
func (d *digests) notesOf(f *digestFlow, query int) (all []note) {
	if len(d.batches.notes) == 0 {
		return nil
	}
	for _, k := range f.members {
		all = d.batches.appendNotes(all, k, planOf(d.reader.Plan()), query)
	}
	return all
}

// uniform reports whether a digest is among those that all records of the window have of its flow's packets: what sinks condensed they
// sampled, and so a pool of packets is of the sample alone.
func (b *batches) uniform(o *pint.Record) bool { return b.share == 0 || pint.Sampled(o.ID, b.share) }

// unknownPlans counts the digests of the flows that are of unknown plans.
func (d *digests) unknownPlans(flow pint.FlowKey, known func(planID) bool, s *Selection) (n uint64) {
	for at, list := range d.batches.by {
		if known(at.plan) {
			continue
		}
		for _, b := range list {
			if d.one {
				if i, ok := b.Find(&flow); ok {
					n += uint64(b.Count(i))
				}
				continue
			}
			if s.All() {
				n += uint64(b.Len())
				continue
			}
			for i := range b.Digests.Flows() {
				if k := Key(b.Flow(i)); s.Has(&k) {
					n += uint64(b.Count(i))
				}
			}
		}
	}
	return n
}

// records are a flow's digests in the window, in the order of time; valid until the
// next call.
func (d *digests) records(f *digestFlow) []pint.Record {
	d.buf = d.buf[:0]
	if f.runs != nil {
		d.buf = d.batches.appendRuns(d.buf, f.runs)
		d.Digests += uint64(len(d.buf))
		return d.buf
	}
	for _, k := range f.members {
		d.buf = d.batches.appendFlow(d.buf, k, planOf(d.reader.Plan()))
	}
	if len(f.members) > 1 {
		sortByTime(d.buf)
	}
	d.Digests += uint64(len(d.buf))
	return d.buf
}

// tracer makes one for the question's plan, nil if it has no query for paths of
// switches.
func (d *digests) tracer() (*tracer, error) { return d.e.tracer(d.reader, d.Confidence) }

func (e *Engine) tracer(r *sink.Reader, confidence float64) (*tracer, error) {
	query, ok := bestQuery(r.Plan(), suitsSwitches)
	if !ok {
		return nil, nil
	}
	return e.newTracer(r, query, confidence)
}

// suitsSwitches ranks queries for the path of switches.
func suitsSwitches(q *pint.Query) int {
	if q.Aggregation == pint.Path && q.Value == pint.SwitchID {
		return 1
	}
	return 0
}

// switchNumbers are those of all switches of which a record came, and of Switches and Names.
func (e *Engine) switchNumbers() (all []uint64) {
	seen := map[uint64]bool{}
	add := func(id uint64) {
		if !seen[id] {
			seen[id] = true
			all = append(all, id)
		}
	}
	for _, id := range e.Switches {
		add(id)
	}
	for _, id := range slices.Sorted(maps.Keys(e.Names)) {
		add(uint64(id))
	}
	for _, id := range e.Store.Numbers() {
		add(uint64(id))
	}
	return all
}

// plansSeen are the plans of which there are digests.
func (b *batches) plansSeen() (ids []planID) {
	for at := range b.by {
		if !slices.Contains(ids, at.plan) {
			ids = append(ids, at.plan)
		}
	}
	slices.SortFunc(ids, func(a, b planID) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.hash, b.hash)) })
	return ids
}

func planIDs(readers []*sink.Reader) (ids []planID) {
	for _, r := range readers {
		ids = append(ids, planOf(r.Plan()))
	}
	return ids
}
