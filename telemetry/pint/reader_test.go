package pint

import (
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// readerPlan has a query of each way to read.
func readerPlan(t *testing.T) *Plan {
	t.Helper()
	p, err := NewPlan(PlanConfig{ID: 7, Seed: 3, Bits: 24, Queries: []Query{
		{Name: "path", Value: SwitchID, Aggregation: Path, Bits: 8, Frequency: 1,
			Static: &StaticQuery{Code: Linear, ValueBits: 10, Layers: Dense(Linear)}},
		{Name: "latency", Value: HopLatency, Aggregation: Quantiles, Bits: 8, Frequency: 0.6,
			Numeric: &NumericQuery{Multiplicative: true, Min: 100, Max: 100_000_000}},
		{Name: "most", Value: QueueOccupancy, Aggregation: Maximum, Bits: 8, Frequency: 0.5, Numeric: &NumericQuery{Max: 255}},
		{Name: "least", Value: QueueOccupancy, Aggregation: Minimum, Bits: 8, Frequency: 0.3, Numeric: &NumericQuery{Max: 255}},
		{Name: "slow", Value: HopLatency, Aggregation: SlowHops, Bits: 4, Frequency: 0.3, Numeric: &NumericQuery{Slow: 1000}},
		{Name: "loop", Value: SwitchID, Aggregation: Loop, Bits: 8, Frequency: 0.2, Threshold: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readerRecords are digests of a flow, encoded hop by hop.
func readerRecords(t *testing.T, p *Plan, n int, path []uint64) []Record {
	t.Helper()
	e, err := Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	records := make([]Record, n)
	for i := range records {
		id, digest := hash.Uint64(11, uint64(i)), uint64(0)
		for hop, sw := range path {
			latency := 100 + hash.Uint64x2(5, uint64(i), sw)%5000
			v := Observed{SwitchID: sw, HopLatency: latency, QueueOccupancy: latency % 200}
			digest = e.Encode(id, hop+1, digest, &v)
		}
		records[i] = Record{Flow: FlowKey{SrcPort: 1, Version: 4}, ID: id, Digest: digest, TimeNs: uint64(i), Plan: p.ID, Hops: uint8(len(path))}
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
			case Path:
				if a, known := r.Path(q.Name, o.Flow); known != ok || a.Packets != 1 {
					t.Fatalf("%s: read %v, recorded %v", q.Name, ok, known)
				}
			case Quantiles:
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
	for _, o := range []*Record{&other, &none} {
		if got, ok := reader.Read(0, o); ok {
			t.Errorf("%+v says %+v", o, got)
		}
	}
	if _, err := NewReader(&Plan{}); err == nil {
		t.Error("an empty plan has a reader")
	}
}
