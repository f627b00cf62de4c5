package sink

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/pinttest"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// threeQueries is the plan of section 6.4.
func threeQueries(t testing.TB) *plan.Plan {
	return mustPlan(t, plan.Config{ID: 7, Seed: 1, Bits: 16, Queries: pinttest.Three()})
}

// everyQuery has all aggregations.
func everyQuery(t testing.TB) *plan.Plan {
	return mustPlan(t, plan.Config{ID: 8, Seed: 2, Bits: 32, Queries: pinttest.Every()})
}

func mustPlan(t testing.TB, c plan.Config) *plan.Plan {
	t.Helper()
	p, err := plan.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func flowKey(i int) pint.FlowKey {
	return pint.FlowKey{Src: [16]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}, Dst: [16]byte{10, 255}, SrcPort: uint16(i), DstPort: 80, Proto: 6, Version: 4}
}

func pathOf(flow int) []uint64 {
	path := make([]uint64, 3+flow%4)
	for i := range path {
		path[i] = uint64((flow*7 + i*13) % 100)
	}
	return path
}

func switchIDs() []uint64 {
	ids := make([]uint64, 100)
	for i := range ids {
		ids[i] = uint64(i)
	}
	return ids
}

// network sends a packet of the flow through its path and returns what the
// sink records.
func network(e *encode.Encoder, r *rand.Rand, flow int, path []uint64, observe func(hop int) pint.Observed) pint.Record {
	id := r.Uint64()
	var digest uint64
	for i, sw := range path {
		v := observe(i + 1)
		v[pint.SwitchID] = sw
		digest = e.Encode(id, i+1, digest, &v)
	}
	return pint.Record{Flow: flowKey(flow), ID: id, Digest: digest, Plan: e.Plan(), Hops: uint8(len(path)), TimeNs: uint64(flow)}
}

// From the switches' encoders to the answers: the three-query plan.
func TestRecorderThreeQueries(t *testing.T) {
	p := threeQueries(t)
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	certain := 0
	rec, err := NewRecorder(p, RecorderConfig{
		Decoders:  map[string]DecoderConfig{"path": {Values: switchIDs()}},
		PathEvent: func(_ string, _ pint.FlowKey, e Event) { certain++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(17, 1))
	const flows, packets = 20, 3000
	for range packets {
		for flow := range flows {
			o := network(e, r, flow, pathOf(flow), func(hop int) pint.Observed {
				return pint.Observed{
					pint.HopLatency:        uint64(2000 * float64(hop) * (1 + r.ExpFloat64())),
					pint.EgressUtilisation: pint.UtilisationOne * uint64(hop) / 10,
				}
			})
			rec.Record(&o)
		}
	}
	for flow := range flows {
		path := pathOf(flow)
		a, known := rec.Path("path", flowKey(flow))
		if !known || !a.Certain || !slices.Equal(a.Path, path) || a.Packets != packets || a.Changes != 0 {
			t.Errorf("flow %d: %+v, want %v", flow, a, path)
		}
		for hop := 1; hop <= len(path); hop++ {
			exact := 2000 * float64(hop) * (1 + math.Ln2)
			q, known := rec.Quantile("latency", flowKey(flow), hop, 0.5)
			if !known || q.Low > exact || q.High < exact || math.Abs(q.Value/exact-1) > 0.25 {
				t.Errorf("flow %d, hop %d: %+v, want %v", flow, hop, q, exact)
			}
		}
		c, known := rec.Packets("congestion", flowKey(flow))
		want := float64(pint.UtilisationOne) * float64(len(path)) / 10
		if !known || c.Low > want || c.High < want || math.Abs(c.Mean/want-1) > 0.025 || c.Packets < packets/16/2 {
			t.Errorf("flow %d: %+v, want %v", flow, c, want)
		}
	}
	if certain != flows {
		t.Errorf("%d paths became certain", certain)
	}
	if c := rec.Counts(); c.Records != flows*packets || c.NoQuery+c.BadHops+c.UnknownPlan+c.Evicted != 0 {
		t.Errorf("%+v", c)
	}
	if got := len(slices.Collect(rec.Flows("latency"))); got != flows {
		t.Errorf("%d flows", got)
	}
	if _, known := rec.Quantile("path", flowKey(1), 1, 0.5); known {
		t.Error("a path has a quantile")
	}
	if _, known := rec.Path("path", flowKey(flows)); known {
		t.Error("an unknown flow has a path")
	}
}

// All aggregations against the exact values.
func TestRecorderEveryQuery(t *testing.T) {
	p := everyQuery(t)
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := NewRecorder(p, RecorderConfig{Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(18, 1))
	const packets = 20000
	path := []uint64{3, 14, 15, 92, 65}
	var total, slow float64
	for range packets {
		o := network(e, r, 1, path, func(hop int) pint.Observed {
			latency := uint64(20_000 * r.ExpFloat64())
			total += float64(latency)
			if latency >= 50_000 {
				slow++
			}
			return pint.Observed{
				pint.IngressPort: uint64(hop * 100), pint.EgressPort: uint64(hop*100 + 1), pint.HopLatency: 1000 + latency,
				pint.QueueOccupancy: uint64(hop * 40), pint.QueueCongestion: uint64(10 * hop), pint.IngressTime: 1 << 50,
			}
		})
		rec.Record(&o)
	}
	k := flowKey(1)
	for name, want := range map[string][]uint64{"path": path, "linear": {100, 200, 300, 400, 500}, "out": {101, 201, 301, 401, 501}} {
		if a, _ := rec.Path(name, k); !slices.Equal(a.Path, want) || !a.Certain {
			t.Errorf("%s: %+v, want %v", name, a, want)
		}
	}
	for hop := 1; hop <= 5; hop++ {
		f, _ := rec.Frequent("queues", k, hop, 0.5)
		if len(f) != 1 || math.Abs(f[0].Value-float64(hop*40)) > 4 || f[0].Share != 1 {
			t.Errorf("hop %d: queues %+v", hop, f)
		}
	}
	if a, _ := rec.Packets("fullest", k); a.Min != 50 || a.Max != 50 || a.Last != 50 {
		t.Errorf("fullest: %+v", a)
	}
	if a, _ := rec.Packets("fastest", k); a.Min < 900 || a.Min > 1100 || a.Mean < 1000+20_000/5*0.9 || a.Mean > 1000+20_000/5*1.1 {
		t.Errorf("fastest: %+v", a)
	}
	if a, _ := rec.Packets("total", k); math.Abs(a.Mean/(total/packets+5000)-1) > 0.05 {
		t.Errorf("total: %+v, want a mean of %v", a, total/packets+5000)
	}
	if a, _ := rec.Packets("slow", k); math.Abs(a.Mean-slow/packets) > 0.06 {
		t.Errorf("slow: %+v, want a mean of %v", a, slow/packets)
	}
	// A match by chance is not a loop: of 2000 packets over 5 hops, 0.3 have one.
	if a, _ := rec.Packets("loops", k); a.Max > 1 || a.Mean > 0.005 || a.Packets == 0 {
		t.Errorf("loops: %+v", a)
	}
}

// Two plans are live while one replaces the other.
func TestRecorderTwoPlans(t *testing.T) {
	old := threeQueries(t)
	next := threeQueries(t)
	next.ID, next.Seed = 8, 99
	third := threeQueries(t)
	third.ID = 9
	oldEncoder, _ := old.Compile()
	newEncoder, _ := next.Compile()
	rec, err := NewRecorder(old, RecorderConfig{Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.AddPlan(old); err == nil {
		t.Error("the same id was added twice")
	}
	if err := rec.AddPlan(next); err != nil {
		t.Fatal(err)
	}
	if err := rec.AddPlan(third); err == nil {
		t.Error("three plans are live")
	}
	r := rand.New(rand.NewPCG(19, 1))
	send := func(e *encode.Encoder, flow int) {
		for range 200 {
			o := network(e, r, flow, pathOf(flow), func(int) pint.Observed { return pint.Observed{} })
			rec.Record(&o)
		}
	}
	send(oldEncoder, 1)
	send(newEncoder, 1)
	send(oldEncoder, 2)
	for _, flow := range []int{1, 2} {
		if a, _ := rec.Path("path", flowKey(flow)); !a.Certain || !slices.Equal(a.Path, pathOf(flow)) || a.Packets != 200 {
			t.Errorf("flow %d: %+v", flow, a)
		}
	}
	if !rec.RemovePlan(old.ID) || rec.RemovePlan(old.ID) {
		t.Error("remove does not tell")
	}
	send(oldEncoder, 1)
	rec.Record(&pint.Record{Plan: next.ID})
	if c := rec.Counts(); c.UnknownPlan != 200 || c.BadHops != 1 || c.Records != 801 {
		t.Errorf("%+v", c)
	}
}

// Memory is bounded: the flows that are heard of stay.
func TestRecorderEvicts(t *testing.T) {
	p := threeQueries(t)
	e, _ := p.Compile()
	rec, err := NewRecorder(p, RecorderConfig{MaxFlows: 100, Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(20, 1))
	for i := range 20000 {
		for _, flow := range []int{i % 10, 1000 + i} {
			o := network(e, r, flow, pathOf(flow), func(int) pint.Observed { return pint.Observed{} })
			rec.Record(&o)
		}
	}
	for flow := range 10 {
		if a, _ := rec.Path("path", flowKey(flow)); !a.Certain || a.Packets != 2000 {
			t.Errorf("flow %d was evicted: %+v", flow, a)
		}
	}
	if got := len(slices.Collect(rec.Flows("path"))); got != 100 {
		t.Errorf("%d flows are kept", got)
	}
	if c := rec.Counts(); c.Evicted < 20000-100 {
		t.Errorf("%d evicted", c.Evicted)
	}
}

func TestRecorderRefuses(t *testing.T) {
	if _, err := NewRecorder(threeQueries(t), RecorderConfig{MaxFlows: -1}); err == nil {
		t.Error("a negative number of flows was accepted")
	}
	if _, err := NewRecorder(threeQueries(t), RecorderConfig{}); err == nil {
		t.Error("hashed values without the set of values were accepted")
	}
	if _, err := NewRecorder(&plan.Plan{}, RecorderConfig{}); err == nil {
		t.Error("an empty plan was accepted")
	}
}

func BenchmarkRecorder(b *testing.B) {
	p := threeQueries(b)
	e, _ := p.Compile()
	for _, flows := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("%d flows", flows), func(b *testing.B) {
			rec, err := NewRecorder(p, RecorderConfig{Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}})
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(21, 1))
			records := make([]pint.Record, 1<<20) // 100 packets of each of 10,000 flows
			for i := range records {
				flow := r.IntN(flows)
				records[i] = network(e, r, flow, pathOf(flow), func(hop int) pint.Observed {
					return pint.Observed{pint.HopLatency: uint64(2000 * float64(hop) * (1 + r.ExpFloat64()))}
				})
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				rec.Record(&records[i&(len(records)-1)])
				i++
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mdigests/s")
		})
	}
}

// TestRecorderOfMuchSpace: the largest space that a plan may grant to a flow is no reason to allocate it.
func TestRecorderOfMuchSpace(t *testing.T) {
	p := mustPlan(t, plan.Config{ID: 1, Bits: 16, Queries: []pint.Query{
		{Name: "ids", Value: pint.SwitchID, Aggregation: pint.Frequent, Bits: 16, Frequency: 1, SpaceBytes: 1 << 24, Numeric: &pint.NumericQuery{}},
	}})
	r, err := NewRecorder(p, RecorderConfig{MaxFlows: 4})
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(1000) {
		r.Record(&pint.Record{ID: i, Digest: i, Plan: 1, Hops: 3})
	}
	if _, ok := r.Frequent("ids", pint.FlowKey{}, 1, 0.1); !ok {
		t.Error("no answer")
	}
}
