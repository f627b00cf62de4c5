package pint

import (
	"slices"
	"sync/atomic"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/pint"
	envelope "github.com/weirswitch/weir/telemetry/record"
)

// outbox is where digests wait to be exported: between the workers' rings and the goroutine that collects. Its fields but the counters are
// guarded by the module's lock.
type outbox struct {
	waiting []record
	room    int
	missed  uint64 // packets whose digests found no room, since they were last reported

	batches, exported, lost atomic.Uint64
}

// outboxRoom is how many digests wait at most: the exporter looks once in 8 ms, so it is
// for 8 million of them in a second. In memory they are 5 MB. A replay looks by the clock of its
// capture, which may be anything.
const (
	outboxRoom       = 1 << 16
	outboxRoomInline = 1 << 22
)

// put adds a digest, or counts it as lost.
func (o *outbox) put(r *record) {
	if len(o.waiting) == o.room {
		o.missed += 1 << (r.weight & 63)
		o.lost.Add(1)
		return
	}
	o.waiting = append(o.waiting, *r)
}

// Listen implements export.Listener: from here on digests are kept for Collect.
func (m *Module) Listen() {
	o := &outbox{room: outboxRoom}
	if m.inline {
		o.room = outboxRoomInline
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outbox, m.batches = o, &batches{}
}

// Collect implements export.Source: it emits the digests that were recorded since the last
// call, in batches by partition and slice.
func (m *Module) Collect(now int64, last bool, emit func(*envelope.Header, func([]byte) ([]byte, error))) {
	m.mu.Lock()
	b, o := m.batches, m.outbox
	if o == nil {
		m.mu.Unlock()
		return
	}
	b.taken, o.waiting = o.waiting, b.taken[:0]
	b.missed, o.missed = b.missed+o.missed, 0
	m.mu.Unlock()
	full := m.ringMissed()
	b.missed, b.ringMissed = b.missed+full-b.ringMissed, full
	for i := range b.taken {
		b.add(&b.taken[i], &m.condensing, o, emit)
	}
	if c := &m.condensing; c.digests > 0 && (last || now >= (c.slice+1)<<sliceBits+grace) {
		c.turn(c.slice+1, b.attach(o, emit))
	} else if c.digests == 0 && now >= (c.slice+2)<<sliceBits {
		c.idle()
	}
	b.edges(now, last, o, emit)
	if last && b.missed != 0 { // and no digest came behind them
		b.emit(&batch{plan: m.plans[0].id, slice: b.slice}, o, emit)
	}
}

// ringMissed is how many packets' digests found a worker's ring full.
func (m *Module) ringMissed() (n uint64) {
	for _, s := range m.stages {
		n += s.counters.published[missed].Load()
	}
	return n
}

// sliceBits: a record has digests of packets that arrived within a slice of 2^30 ns, about a
// second.
const sliceBits = 30

// batchSize is how many digests a record has at most.
const batchSize = 4096

// grace is how long behind a slice's end its last digests may come, in ns: rings are
// drained, and records collected, every few milliseconds.
const grace = 100_000_000

// batches are filled by the goroutine that collects.
type batches struct {
	taken []record
	boot  uint64 // 0: no digest came yet
	parts [envelope.Partitions]part
	open  []*batch
	spare [][]pint.Record
	slice int64 // of the latest digest
	// missed packets are still to be reported; ringMissed is what was reported of the rings.
	missed, ringMissed uint64
}

// part is a partition: what was sent of it, and the batch that its last digest went to.
type part struct {
	batches, digests uint64
	last             *batch
}

// batch is one that is being filled. There are few at a time: one for each partition, and
// two at the edge of a slice.
type batch struct {
	partition int
	plan      uint16
	loop      bool
	slice     int64
	records   []pint.Record
	condensed *pint.Condensed // nil: records are all digests
}

// add puts a digest into its batch, and emits that if it is full.
func (b *batches) add(r *record, k *condensing, o *outbox, emit envelope.Emit) {
	if b.boot == 0 {
		// When the first digest came distinguishes the runs of a switch, and makes a
		// replay's records the same each time.
		b.boot = max(r.TimeNs, 1)
	}
	slice := int64(r.TimeNs >> sliceBits)
	if slice > k.slice {
		k.turn(slice, b.attach(o, emit))
	}
	export, sampled := k.take(r)
	if !export {
		return
	}
	to := b.find(r.Flow.Partition(envelope.Partitions), r.Plan, r.loop, slice, o, emit)
	b.separate(to, sampled, k.share, o, emit)
	if sampled && to.condensed == nil {
		to.condensed = &pint.Condensed{Share: k.share}
	}
	to.records = append(to.records, r.Record)
	if len(to.records) == batchSize {
		b.emit(to, o, emit)
	}
}

// maxOpen bounds the open batches, which clocks that jump would add to.
const maxOpen = 8 * envelope.Partitions

// find returns the batch that is open for a digest: mostly the last one of its partition.
func (b *batches) find(partition int, plan uint16, loop bool, slice int64, o *outbox, emit envelope.Emit) *batch {
	at := &b.parts[partition]
	is := func(c *batch) bool {
		return c.partition == partition && c.slice == slice && c.plan == plan && c.loop == loop
	}
	if at.last != nil && is(at.last) {
		return at.last
	}
	if i := slices.IndexFunc(b.open, is); i >= 0 {
		at.last = b.open[i]
		return at.last
	}
	if len(b.open) == maxOpen {
		b.edges(0, true, o, emit)
	}
	c := &batch{partition: partition, plan: plan, loop: loop, slice: slice}
	if n := len(b.spare); n > 0 {
		c.records, b.spare = b.spare[n-1], b.spare[:n-1]
	}
	b.open, at.last, b.slice = append(b.open, c), c, slice
	return c
}

// separate emits a batch that has all digests if only a share follows, and the other way round: digests of a slice may come late.
func (b *batches) separate(to *batch, sampled bool, share uint8, o *outbox, emit envelope.Emit) {
	if is := to.condensed != nil; is != sampled && (is || len(to.records) > 0) || is && sampled && to.condensed.Share != share {
		b.emit(to, o, emit)
	}
}

// attach gives what was condensed to a batch of its own slice, which may have no digests else.
func (b *batches) attach(o *outbox, emit envelope.Emit) func(uint16, int, int64, *pint.Condensed) {
	return func(plan uint16, partition int, slice int64, of *pint.Condensed) {
		to := b.find(partition, plan, false, slice, o, emit)
		b.separate(to, true, of.Share, o, emit)
		to.condensed = of
	}
}

// edges emits and closes the batches of slices that are over, or all.
func (b *batches) edges(now int64, all bool, o *outbox, emit envelope.Emit) {
	b.open = slices.DeleteFunc(b.open, func(c *batch) bool {
		if over := (c.slice+1)<<sliceBits + grace; !all && now < over {
			return false
		}
		if len(c.records) > 0 || c.condensed != nil {
			b.emit(c, o, emit)
		}
		b.spare = append(b.spare, c.records)
		b.parts[c.partition].last = nil
		return true
	})
}

// emit makes a batch into a record, and empties it.
func (b *batches) emit(c *batch, o *outbox, emit envelope.Emit) {
	to := &b.parts[c.partition]
	d := pint.DigestBatch{Boot: b.boot, Sequence: to.batches, Sent: to.digests, Loop: c.loop, Plan: c.plan, Records: c.records, Condensed: c.condensed}
	emit(&envelope.Header{
		Kind: envelope.PINT, Instance: uint16(c.partition), Plan: c.plan, Start: c.slice << sliceBits, Span: 1 << sliceBits, Missed: b.missed,
	}, func(dst []byte) ([]byte, error) { return pint.AppendDigests(dst, &d), nil })
	to.batches++
	to.digests += uint64(len(c.records))
	o.batches.Add(1)
	o.exported.Add(uint64(len(c.records)))
	b.missed, c.records, c.condensed = 0, c.records[:0], nil
}

// outboxMetrics are what is exported.
func (m *Module) outboxMetrics(emit func(pipeline.Metric)) {
	var batches, exported, lost uint64
	m.mu.Lock()
	o := m.outbox
	m.mu.Unlock()
	if o != nil {
		batches, exported, lost = o.batches.Load(), o.exported.Load(), o.lost.Load()
	}
	for _, v := range []struct {
		name, help string
		n          uint64
	}{
		{"exported_batches_total", "batches of digests given to the exporter", batches},
		{"exported_digests_total", "digests given to the exporter in batches", exported},
		{"condensed_digests_total", "digests that the sink read itself, and did not give to the exporter, to keep within the budget", m.condensing.condensed.Load()},
		{"left_out_packets_total", "of the packets of condensed digests, those of flows that records do not list", m.condensing.left.Load()},
		{"unexported_digests_total", "digests for which there was no room on the way to the exporter", lost},
	} {
		emit(pipeline.Metric{Name: v.name, Help: v.help, Value: float64(v.n)})
	}
}
