package pint

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	envelope "github.com/weirswitch/weir/telemetry/record"
)

// collected is what came of a module: batches in the order in which they were
// emitted.
type collected struct {
	t       testing.TB
	headers []envelope.Header
	batches []pint.DigestBatch
}

func (c *collected) emit(h *envelope.Header, body func([]byte) ([]byte, error)) {
	c.t.Helper()
	encoded, err := envelope.Append(nil, h, body)
	if err != nil {
		c.t.Fatal(err)
	}
	head, b, _, err := envelope.Decode(encoded)
	if err != nil {
		c.t.Fatal(err)
	}
	var d pint.DigestBatch
	if err := pint.DecodeDigests(b, &d); err != nil {
		c.t.Fatal(err)
	}
	c.headers, c.batches = append(c.headers, head), append(c.batches, d)
}

// check fails unless batches are numbered without gaps, each of one partition, plan and
// slice, and returns how many digests there are and how many were missed.
func (c *collected) check() (digests, missed uint64) {
	c.t.Helper()
	var next, sent [envelope.Partitions]uint64
	for i := range c.batches {
		h, b := &c.headers[i], &c.batches[i]
		if b.Boot != c.batches[0].Boot || b.Sequence != next[h.Instance] || b.Sent != sent[h.Instance] {
			c.t.Fatalf("batch %d of partition %d: boot %x, number %d behind %d digests; want %d, %d", i, h.Instance, b.Boot, b.Sequence, b.Sent, next[h.Instance], sent[h.Instance])
		}
		next[h.Instance]++
		sent[h.Instance] += uint64(len(b.Records))
		digests += uint64(len(b.Records))
		missed += h.Missed
		if h.Kind != envelope.PINT || h.Plan != b.Plan || h.Span != 1<<30 || h.Start%h.Span != 0 || len(b.Records) > batchSize {
			c.t.Fatalf("batch %d: %+v, plan %d, %d digests", i, h, b.Plan, len(b.Records))
		}
		for _, r := range b.Records {
			if at := int64(r.TimeNs); at < h.Start || at >= h.Start+h.Span || r.Plan != h.Plan || r.Flow.Partition(envelope.Partitions) != int(h.Instance) {
				c.t.Fatalf("batch %d: %+v is not of %+v", i, r, h)
			}
		}
	}
	return digests, missed
}

// digestModule is a sink that somebody listens to.
func digestModule(t testing.TB, inline bool, workers int) *Module {
	t.Helper()
	c := DefaultConfig()
	c.Edge, c.Records = []string{"p0"}, 1024
	m, err := New(c, pipeline.Env{ID: 1, Workers: workers, Ports: []pipeline.Port{{Name: "p0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if inline {
		m.Inline()
	}
	m.Listen()
	return m
}

// someRecord is of one of a few flows, that came at about a time. It has no hop number.
func someRecord(r *rand.Rand, now int64) record {
	k := pint.FlowKey{Version: 4, Proto: 17, SrcPort: uint16(r.IntN(500))}
	return record{
		Record: pint.Record{Flow: k, ID: r.Uint64(), Digest: r.Uint64() & 0xffff, TimeNs: uint64(now - r.Int64N(3_000_000)), Plan: plan},
		loop:   r.IntN(50) == 0,
	}
}

var plan = pintplan.Default().ID

// TestExportTwin: what is exported is what was recorded, each once, loops apart from
// digests, and those of a flow in their order.
func TestExportTwin(t *testing.T) {
	m := digestModule(t, true, 1)
	r := rand.New(rand.NewPCG(1, 2))
	c := &collected{t: t}
	var want []record
	now := int64(5<<30 - 40_000_000)
	for range 20_000 {
		rec := someRecord(r, now)
		want = append(want, rec)
		m.take(&rec)
		now += r.Int64N(200_000)
		if r.IntN(20) == 0 {
			m.Collect(now, false, c.emit)
		}
	}
	m.Collect(math.MaxInt64, true, c.emit)
	n, missed := c.check()
	if n != uint64(len(want)) || missed != 0 {
		t.Fatalf("%d of %d, %d missed", n, len(want), missed)
	}
	var got []record
	for i := range c.batches {
		for _, d := range c.batches[i].Records {
			got = append(got, record{Record: d, loop: c.batches[i].Loop})
		}
	}
	// Slices apart, the order is that of a flow's packets.
	key := func(x *record) (int, int64) { return int(x.Flow.SrcPort), int64(x.TimeNs >> 30) }
	order := func(a, b record) int {
		ka, sa := key(&a)
		kb, sb := key(&b)
		loop := 0
		if a.loop != b.loop {
			loop = 1
			if b.loop {
				loop = -1
			}
		}
		return cmp.Or(cmp.Compare(ka, kb), loop, cmp.Compare(sa, sb))
	}
	slices.SortStableFunc(got, order)
	slices.SortStableFunc(want, order)
	if !slices.Equal(got, want) {
		t.Error("other digests are exported than were recorded, or in another order")
	}
	if x := counts(m); x["exported_digests_total"] != n || x["exported_batches_total"] != uint64(len(c.batches)) || x["unexported_digests_total"] != 0 {
		t.Errorf("%v", x)
	}
}

// put reports a record that is written already.
func (s *stage) put(r *record) {
	if to := s.ahead(0); to != nil {
		*to = *r
		s.commit(1)
	} else {
		s.lose(r.weight)
	}
}

// TestExportSum: while workers push and the exporter collects, each digest is exported or
// counted as missed.
func TestExportSum(t *testing.T) {
	const workers, pushes = 2, 60_000
	m := digestModule(t, false, workers)
	m.outbox.room = 2000
	stop, ended := make(chan struct{}), make(chan struct{})
	var recording, pushing sync.WaitGroup
	recording.Go(func() { m.Run(stop) })
	c := &collected{t: t}
	for w, s := range m.stages {
		pushing.Go(func() {
			r := rand.New(rand.NewPCG(3, uint64(w)))
			for i := range pushes {
				rec := someRecord(r, 1<<40+int64(i)*50_000)
				s.put(&rec)
				if i%64 == 0 {
					s.counters.publish()
				}
			}
			s.counters.publish()
		})
	}
	go func() {
		pushing.Wait()
		close(stop)
		recording.Wait()
		close(ended)
	}()
	for now := int64(1 << 40); ; now += 10_000_000 {
		select {
		case <-ended:
			m.Collect(math.MaxInt64, true, c.emit)
			n, missed := c.check()
			x := counts(m)
			if n+missed != workers*pushes || n != x["exported_digests_total"] || missed != x["lost_records_total"]+x["unexported_digests_total"] ||
				x["records_total"] != n+x["unexported_digests_total"] || n == 0 {
				t.Errorf("%d exported, %d missed of %d: %v", n, missed, workers*pushes, x)
			}
			return
		default:
			m.Collect(now, false, c.emit)
		}
	}
}

// TestExportMissed: packets whose digests are beyond the room are in the next batch's count, and in the end
// in that of an empty one; a digest that is for several packets counts as many.
func TestExportMissed(t *testing.T) {
	m := digestModule(t, true, 1)
	m.outbox.room = 10
	c := &collected{t: t}
	r := rand.New(rand.NewPCG(5, 6))
	for i := range 25 {
		rec := someRecord(r, 9<<30)
		if i >= 20 {
			rec.weight = 3
		}
		m.take(&rec)
	}
	m.Collect(11<<30, false, c.emit)
	if n, missed := c.check(); n != 10 || missed != 10+5*8 {
		t.Errorf("%d exported, %d missed", n, missed)
	}
	m.stages[0].lose(0)
	m.stages[0].lose(1)
	m.stages[0].counters.publish()
	m.Collect(12<<30, false, c.emit)
	m.Collect(math.MaxInt64, true, c.emit)
	if n, missed := c.check(); n != 10 || missed != 50+3 {
		t.Errorf("%d exported, %d missed", n, missed)
	}
}

// TestExportClocks: times from anywhere, as captures have them, keep few batches open.
func TestExportClocks(t *testing.T) {
	m := digestModule(t, true, 1)
	c := &collected{t: t}
	r := rand.New(rand.NewPCG(7, 8))
	for range 2000 {
		rec := someRecord(r, r.Int64N(1<<61))
		m.take(&rec)
		m.Collect(0, false, c.emit)
		if len(m.batches.open) > maxOpen {
			t.Fatalf("%d batches are open", len(m.batches.open))
		}
	}
	m.Collect(math.MaxInt64, true, c.emit)
	if n, missed := c.check(); n != 2000 || missed != 0 {
		t.Errorf("%d exported, %d missed", n, missed)
	}
}

// TestNobodyListens: nothing is kept then.
func TestNobodyListens(t *testing.T) {
	m := digestModule(t, true, 1)
	m.outbox, m.batches = nil, nil
	rec := someRecord(rand.New(rand.NewPCG(1, 1)), 9<<30)
	m.take(&rec)
	m.Collect(math.MaxInt64, true, (&collected{t: t}).emit)
	if x := counts(m); x["records_total"] != 0 && x["exported_digests_total"] != 0 {
		t.Errorf("%v", x)
	}
}

// TestExportAllocates nothing on the packet path, nor behind it once it runs.
func TestExportAllocates(t *testing.T) {
	m := digestModule(t, false, 1)
	rec := someRecord(rand.New(rand.NewPCG(1, 1)), 9<<30)
	if n := testing.AllocsPerRun(500, func() { m.stages[0].put(&rec) }); n != 0 {
		t.Errorf("%g allocations for a digest", n)
	}
	m.outbox.waiting = make([]record, 0, 4096)
	if n := testing.AllocsPerRun(500, func() { m.outbox.put(&rec) }); n != 0 {
		t.Errorf("%g allocations for a digest that waits", n)
	}
}
