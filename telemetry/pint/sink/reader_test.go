package sink

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// readerPlan has a query of each way to read.
func readerPlan(t *testing.T) *plan.Plan {
	t.Helper()
	p, err := plan.New(plan.Config{ID: 7, Seed: 3, Bits: 24, Queries: []pint.Query{
		{Name: "path", Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.Dense(pint.Linear)}},
		{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: 8, Frequency: 0.6,
			Numeric: &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}},
		{Name: "most", Value: pint.QueueOccupancy, Aggregation: pint.Maximum, Bits: 8, Frequency: 0.5, Numeric: &pint.NumericQuery{Max: 255}},
		{Name: "least", Value: pint.QueueOccupancy, Aggregation: pint.Minimum, Bits: 8, Frequency: 0.3, Numeric: &pint.NumericQuery{Max: 255}},
		{Name: "slow", Value: pint.HopLatency, Aggregation: pint.SlowHops, Bits: 4, Frequency: 0.3, Numeric: &pint.NumericQuery{Slow: 1000}},
		{Name: "loop", Value: pint.SwitchID, Aggregation: pint.Loop, Bits: 8, Frequency: 0.2, Threshold: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readerRecords are digests of a flow, encoded hop by hop.
func readerRecords(t *testing.T, p *plan.Plan, n int, path []uint64) []pint.Record {
	t.Helper()
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	records := make([]pint.Record, n)
	for i := range records {
		id, digest := hash.Uint64(11, uint64(i)), uint64(0)
		for hop, sw := range path {
			latency := 100 + hash.Uint64x2(5, uint64(i), sw)%5000
			v := pint.Observed{pint.SwitchID: sw, pint.HopLatency: latency, pint.QueueOccupancy: latency % 200}
			digest = e.Encode(id, hop+1, digest, &v)
		}
		records[i] = pint.Record{Flow: pint.FlowKey{SrcPort: 1, Version: 4}, ID: id, Digest: digest, TimeNs: uint64(i), Plan: p.ID, Hops: uint8(len(path))}
	}
	return records
}

// A Reader says of each digest what a Recorder that gets it alone says.
func TestReaderAgreesWithRecorder(t *testing.T) {
	p := readerPlan(t)
	reader, err := NewReader(p)
	if err != nil {
		t.Fatal(err)
	}
	counts := make([]int, len(p.Queries))
	for _, o := range readerRecords(t, p, 2000, []uint64{17, 900, 3, 44}) {
		r, err := NewRecorder(p, RecorderConfig{MaxFlows: 1})
		if err != nil {
			t.Fatal(err)
		}
		r.Record(&o)
		for i := range p.Queries {
			q := &p.Queries[i]
			got, ok := reader.Read(i, &o)
			if ok {
				counts[i]++
			}
			switch q.Aggregation {
			case pint.Path:
				if a, known := r.Path(q.Name, o.Flow); known != ok || a.Packets != 1 {
					t.Fatalf("%s: read %v, recorded %v", q.Name, ok, known)
				}
			case pint.Quantiles:
				for hop := 1; hop <= int(o.Hops); hop++ {
					a, known := r.Quantile(q.Name, o.Flow, hop, 0.5)
					if known != (ok && got.Hop == hop) || known && a.Value != reader.Value(i, got.Digest) {
						t.Fatalf("%s, hop %d: read %+v %v, recorded %+v %v", q.Name, hop, got, ok, a, known)
					}
				}
			default:
				a, known := r.Packets(q.Name, o.Flow)
				if known != ok {
					t.Fatalf("%s: read %v, recorded %v", q.Name, ok, known)
				}
				low, high := reader.Interval(i, got.Digest, int(o.Hops))
				if known && (a.Last != reader.Value(i, got.Digest) || a.Low != low || a.High != high) {
					t.Fatalf("%s: read %v in %v..%v, recorded %+v", q.Name, reader.Value(i, got.Digest), low, high, a)
				}
			}
		}
	}
	for i, n := range counts {
		if n == 0 {
			t.Errorf("query %s was never read", p.Queries[i].Name)
		}
	}
}

// The paths that readings decode to are those of a Recorder, event by event.
func TestReaderDecodesAsRecorder(t *testing.T) {
	p := readerPlan(t)
	reader, err := NewReader(p)
	if err != nil {
		t.Fatal(err)
	}
	d, err := reader.Decoder(0, DecoderConfig{MaxDigests: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Decoder(1, DecoderConfig{}); err == nil {
		t.Error("a query for latency makes a decoder of paths")
	}
	r, err := NewRecorder(p, RecorderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var f Flow
	records := append(readerRecords(t, p, 300, []uint64{17, 900, 3, 44}), readerRecords(t, p, 700, []uint64{17, 21, 3})...)
	for i := range records {
		o := &records[i]
		r.Record(o)
		got, ok := reader.Read(0, o)
		if !ok {
			t.Fatal("path is on all packets, and was not read")
		}
		d.Add(&f, o.ID, got.Digest, int(o.Hops))
		a, _ := r.Path("path", o.Flow)
		if a.Certain != f.Certain() || a.Packets != f.Packets || a.Changes != f.Changes || a.Strays != f.Strays || len(a.Path) != len(f.Path()) {
			t.Fatalf("after %d digests: recorded %+v, read %v %v", i+1, a, f.Path(), f.Certain())
		}
	}
	if !f.Certain() || len(f.Path()) != 3 || f.Changes != 1 {
		t.Errorf("in the end the path is %v, certain %v, changed %d times", f.Path(), f.Certain(), f.Changes)
	}
}

// Digests of other plans, and of packets without a hop, say nothing.
func TestReaderRefuses(t *testing.T) {
	p := readerPlan(t)
	reader, err := NewReader(p)
	if err != nil {
		t.Fatal(err)
	}
	o := readerRecords(t, p, 1, []uint64{1})[0]
	other, none := o, o
	other.Plan++
	none.Hops = 0
	for _, o := range []*pint.Record{&other, &none} {
		if got, ok := reader.Read(0, o); ok {
			t.Errorf("%+v says %+v", o, got)
		}
	}
	if _, err := NewReader(&plan.Plan{}); err == nil {
		t.Error("an empty plan has a reader")
	}
}
