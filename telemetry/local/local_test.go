package local

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
)

// feeder makes the records of a sink behind a path of five switches, as the stage pint does: digests of a second, by partition.
type feeder struct {
	t       testing.TB
	encoder *encode.Encoder
	random  *rand.Rand
	batches [record.Partitions][]pint.Record
	sent    [record.Partitions]pint.DigestBatch
}

func newFeeder(t testing.TB) *feeder {
	t.Helper()
	e, err := pintplan.Default().Compile()
	if err != nil {
		t.Fatal(err)
	}
	return &feeder{t: t, encoder: e, random: rand.New(rand.NewPCG(1, 2))}
}

func flowOf(number int) pint.FlowKey {
	return pint.FlowKey{Version: 4, Proto: 17, SrcPort: uint16(number), DstPort: 80, Src: [16]byte{10, 0, byte(number >> 16)}, Dst: [16]byte{10, 1}}
}

// second adds digests of flows from, from+1, ... in one slice of the clock.
func (f *feeder) second(d *Digests, slice int64, from, flows, packets int) {
	for flow := from; flow < from+flows; flow++ {
		key := flowOf(flow)
		partition := key.Partition(record.Partitions)
		for range packets {
			id, digest := f.random.Uint64(), uint64(0)
			for hop := 1; hop <= 5; hop++ {
				seen := pint.Observed{pint.SwitchID: uint64(hop), pint.HopLatency: uint64(1000 * hop)}
				digest = f.encoder.Encode(id, hop, digest, &seen)
			}
			f.batches[partition] = append(f.batches[partition], pint.Record{Flow: key, ID: id, Digest: digest, Hops: 5, Plan: 1, TimeNs: uint64(slice<<30 + f.random.Int64N(1<<30))})
		}
	}
	for partition := range f.batches {
		for batch := range slices.Chunk(f.batches[partition], 4096) {
			slices.SortStableFunc(batch, func(a, b pint.Record) int { return int(int64(a.TimeNs) - int64(b.TimeNs)) })
			b := &f.sent[partition]
			b.Boot, b.Plan, b.Records = 1, 1, batch
			h := record.Header{Kind: record.PINT, Switch: 5, Name: "s5", Instance: uint16(partition), Plan: 1, Start: slice << 30, Span: 1 << 30}
			d.Add(&h, pint.AppendDigests(nil, b))
			b.Sequence++
			b.Sent += uint64(len(batch))
		}
		f.batches[partition] = f.batches[partition][:0]
	}
}

func newDigests(t testing.TB, bytes int64) *Digests {
	t.Helper()
	d, err := New(Config{Bytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAnswers: a switch answers by the numbers of switches, has an answer of each kind for a report, and an answer
// says of which time it is.
func TestAnswers(t *testing.T) {
	d := newDigests(t, 1<<20)
	if answers, err := d.Answers(10); len(answers) != 0 || err != nil {
		t.Errorf("an empty store answers %v, %v", answers, err)
	}
	f := newFeeder(t)
	f.second(d, 5, 0, 20, 100)
	answers, err := d.Answers(10)
	if err != nil || len(answers) != len(Kinds) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	paths := answers[0].(*query.PathAnswer)
	if len(paths.Flows) != 10 || paths.More != 10 {
		t.Fatalf("paths of %d flows, %d more", len(paths.Flows), paths.More)
	}
	for _, p := range paths.Flows {
		if !p.Certain || !slices.Equal(p.Passages[0].Switches, []string{"1", "2", "3", "4", "5"}) {
			t.Errorf("%+v", p)
		}
	}
	if l := answers[1].(*query.LatencyAnswer); len(l.Hops) != 5 || l.Hops[4].Switch != "5" || l.Hops[4].Flows != 20 || l.Confidence != Confidence {
		t.Errorf("latency %+v", l)
	}
	for slice := int64(6); slice < 60; slice++ {
		f.second(d, slice, 100, 200, 20)
	}
	if held, bound := d.Bytes(); held > bound {
		t.Errorf("%d bytes are held, of %d", held, bound)
	}
	ctx := context.Background()
	if _, err := d.Ask(ctx, &query.Question{Kind: query.KindPath, Flow: query.FormatKey(query.Key(flowOf(3)))}); !errors.Is(err, query.ErrUnknownFlow) {
		t.Errorf("a flow that made room: %v", err)
	}
	a, err := d.Ask(ctx, &query.Question{Kind: query.KindPath})
	if err != nil || a.(*query.PathAnswer).From <= 6<<30 || a.(*query.PathAnswer).To != 60<<30 {
		t.Errorf("an answer of another time than memory has: %+v, %v", a, err)
	}
}

// TestNone: without memory for digests an exporter gets no store, questions are refused with the remedy, and reports have no answer.
func TestNone(t *testing.T) {
	var d *Digests
	if d.Local() != nil {
		t.Error("an exporter gets a store")
	}
	if _, err := d.Ask(context.Background(), &query.Question{Kind: query.KindPath}); err == nil {
		t.Error("a question was answered")
	}
	if answers, err := d.Answers(1); answers != nil || err != nil {
		t.Errorf("%v, %v", answers, err)
	}
}

// BenchmarkMemory is the memory of 100,000 flows at a sink, of 40 packets each over ten seconds, within the default bound.
func BenchmarkMemory(b *testing.B) {
	for b.Loop() {
		f := newFeeder(b)
		d := newDigests(b, 32<<20)
		before := heap()
		for slice := range int64(10) {
			f.second(d, slice+1, 0, 100_000, 4)
		}
		f.batches = [record.Partitions][]pint.Record{}
		b.ReportMetric(float64(heap()-before)/1e6, "MB")
		held, _ := d.Bytes()
		b.ReportMetric(float64(held)/1e6, "MB-counted")
		a, err := d.Ask(context.Background(), &query.Question{Kind: query.KindPath, Limit: 20})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(a.(*query.PathAnswer).FlowCount), "flows")
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
