package pint

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// threeQueries is the plan of section 6.4: 16 bits per packet for three queries
// of 8 bits; the path on all packets, beside it the latency on 15/16 and the
// congestion on 1/16.
func threeQueries(t testing.TB) *Plan {
	t.Helper()
	p, err := NewPlan(PlanConfig{ID: 7, Seed: 1, Bits: 16, Queries: []Query{
		{Name: "path", Value: SwitchID, Aggregation: Path, Bits: 8, Frequency: 1,
			Static: &StaticQuery{Code: Hashed, Layers: Hybrid(10)}},
		{Name: "latency", Value: HopLatency, Aggregation: Quantiles, Bits: 8, Frequency: 15. / 16, SpaceBytes: 500,
			Numeric: &NumericQuery{Multiplicative: true, Min: 1000, Max: 100_000_000}},
		{Name: "congestion", Value: EgressUtilisation, Aggregation: Maximum, Bits: 8, Frequency: 1. / 16,
			Numeric: &NumericQuery{Multiplicative: true, Min: UtilisationOne >> 10, Max: UtilisationOne << 4, Epsilon: 0.025}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// everyQuery has all aggregations, each on a share of the packets.
func everyQuery(t testing.TB) *Plan {
	t.Helper()
	latency := func() *NumericQuery { return &NumericQuery{Multiplicative: true, Min: 100, Max: 10_000_000} }
	p, err := NewPlan(PlanConfig{ID: 8, Seed: 2, Bits: 32, Queries: []Query{
		{Name: "path", Value: SwitchID, Aggregation: Path, Bits: 16, Frequency: 0.5,
			Static: &StaticQuery{Code: Hashed, Instances: 2, Vector: true, Layers: MultiLayer(10)}},
		{Name: "linear", Value: IngressPort, Aggregation: Path, Bits: 8, Frequency: 0.25,
			Static: &StaticQuery{Code: Linear, ValueBits: 10, Layers: XOR(1)}},
		{Name: "out", Value: EgressPort, Aggregation: Path, Bits: 4, Frequency: 0.3,
			Static: &StaticQuery{Code: Fragmented, ValueBits: 10, Layers: Baseline()}},
		{Name: "latency", Value: HopLatency, Aggregation: Quantiles, Bits: 8, Frequency: 0.8, Numeric: latency()},
		{Name: "queues", Value: QueueOccupancy, Aggregation: Frequent, Bits: 6, Frequency: 0.3, Numeric: &NumericQuery{Delta: 4, Max: 500}},
		{Name: "time", Value: IngressTime, Aggregation: Quantiles, Bits: 12, Frequency: 0.2, Numeric: &NumericQuery{Delta: 1 << 19}},
		{Name: "fullest", Value: QueueCongestion, Aggregation: Maximum, Bits: 7, Frequency: 0.3, Numeric: &NumericQuery{Max: 100}},
		{Name: "fastest", Value: HopLatency, Aggregation: Minimum, Bits: 8, Frequency: 0.3, Numeric: latency()},
		{Name: "total", Value: HopLatency, Aggregation: Sum, Bits: 8, Frequency: 0.2, Numeric: &NumericQuery{Min: 100, Max: 100_000_000}},
		{Name: "slow", Value: HopLatency, Aggregation: SlowHops, Bits: 3, Frequency: 0.7, Numeric: &NumericQuery{Slow: 50_000, Max: 60}},
		{Name: "loops", Value: SwitchID, Aggregation: Loop, Bits: 16, Frequency: 0.1, Threshold: 1},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func observedAt(r *rand.Rand) *Observed {
	return &Observed{
		SwitchID: r.Uint64N(1000), IngressPort: r.Uint64N(64), EgressPort: r.Uint64N(64), IngressTime: r.Uint64(),
		HopLatency: uint64(math.Exp(r.Float64() * 18)), EgressUtilisation: r.Uint64N(2 * UtilisationOne),
		QueueOccupancy: r.Uint64N(500), QueueCongestion: r.Uint64N(101),
	}
}

// inFamilies are the plans in each family of hashes.
func inFamilies(plans ...*Plan) (all []*Plan) {
	for _, f := range families {
		for _, p := range plans {
			q := *p
			q.Hash = f
			all = append(all, &q)
		}
	}
	return all
}

// families are those that the tests of the package go through.
var families = []hash.Family{hash.XX, hash.CRC}

// The whole digest is what the plan says of the parts, each made by the slow
// means that the parts' own tests check.
func TestEncoderAgainstParts(t *testing.T) {
	const packets = 12000
	for _, p := range inFamilies(threeQueries(t), everyQuery(t)) {
		t.Run(fmt.Sprint(p.ID, " ", p.Hash), func(t *testing.T) {
			e, err := Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 1))
			ran := map[string]int{}
			for range packets {
				id := r.Uint64()
				path := make([]*Observed, 1+r.IntN(12))
				var digest uint64
				for i := range path {
					path[i] = observedAt(r)
					digest = e.Encode(id, i+1, digest, path[i])
				}
				checkDigest(t, p, e, id, digest, path, ran)
			}
			for _, q := range p.Queries {
				if got := float64(ran[q.Name]) / packets; math.Abs(got-q.Frequency) > 5*math.Sqrt(0.25/packets) {
					t.Errorf("query %s ran on %v of the packets, want %v", q.Name, got, q.Frequency)
				}
			}
		})
	}
}

func checkDigest(t *testing.T, p *Plan, e *Encoder, id, digest uint64, path []*Observed, ran map[string]int) {
	t.Helper()
	n, h := e.chooses(id)
	if n == len(p.Sets) {
		if digest != 0 {
			t.Fatalf("a packet of no set carries %#x", digest)
		}
		return
	}
	shift := 0
	for _, name := range p.Sets[n].Queries {
		q, _ := p.Query(name)
		ran[name]++
		s, err := q.compile(p.Hash, p.querySeed(name), p.shared())
		if err != nil {
			t.Fatal(err)
		}
		part := digest >> shift & lowBits(q.Bits)
		shift += q.Bits
		if want := s.digestOf(q, id, h, path); part != want {
			t.Fatalf("query %s of packet %#x over %d hops: digest %#x, want %#x", name, id, len(path), part, want)
		}
	}
	if digest>>shift != 0 {
		t.Fatalf("bits above the queries' are %#x", digest>>shift)
	}
}

// digestOf is what the sink should see of a query: by its definition, over the
// whole path at once where the aggregation allows.
func (s *step) digestOf(q *Query, id, h uint64, path []*Observed) uint64 {
	var values []uint64
	for _, v := range path {
		values = append(values, v[q.Value])
	}
	switch q.Aggregation {
	case Path:
		return s.static.Digest(id, values)
	case Quantiles:
		hop := s.sampler().Hop(id, len(path))
		return s.codec.Encode(values[hop-1], h%RoundOne)
	case Frequent:
		hop := s.sampler().Hop(id, len(path))
		return s.codec.Encode(values[hop-1], RoundNearest)
	case Maximum, Minimum:
		best := s.codec.Encode(values[0], h%RoundOne)
		for _, v := range values[1:] {
			if c := s.codec.Encode(v, h%RoundOne); (c > best) == (q.Aggregation == Maximum) {
				best = c
			}
		}
		return best ^ s.flip
	}
	var d uint64
	for i, v := range values {
		random := s.family.Uint64x2(s.seed, id, uint64(i+1))
		switch {
		case q.Aggregation == Loop:
			d, _ = s.loop.Process(id, i+1, d, v)
		case q.Aggregation == Sum:
			d = s.counter.Add(d, v, random)
		case v >= q.Numeric.Slow:
			d = s.counter.Add(d, 1, random)
		}
	}
	return d
}

// The encodings of paths inside Encode are Static's.
func TestEncodePathIsStatic(t *testing.T) {
	for i, c := range []struct {
		static StaticQuery
		bits   int
		kind   stepKind
	}{
		{StaticQuery{Layers: Hybrid(10), Code: Hashed}, 8, stepHashed},
		{StaticQuery{Layers: Baseline(), Code: Hashed}, 1, stepHashed},
		{StaticQuery{Layers: XOR(0.1), Code: Hashed}, 8, stepHashed},
		{StaticQuery{Layers: XOR(1), Code: Hashed}, 8, stepHashed},
		{StaticQuery{Layers: Hybrid(30), Code: Hashed}, 64, stepHashed},
		{StaticQuery{Layers: XOR(1), Code: Linear, ValueBits: 10}, 8, stepLinear},
		{StaticQuery{Layers: Interleaved(0.7, 1), Code: Linear, ValueBits: 32}, 16, stepStatic},
		{StaticQuery{Layers: MultiLayer(1000), Code: Hashed}, 8, stepStatic},
		{StaticQuery{Layers: Hybrid(10), Code: Hashed, Instances: 2}, 8, stepStatic},
		{StaticQuery{Layers: Hybrid(10), Code: Hashed, Vector: true}, 8, stepStatic},
		{StaticQuery{Layers: Hybrid(10), Code: Fragmented, ValueBits: 10}, 8, stepStatic},
	} {
		p, err := NewPlan(PlanConfig{Seed: uint64(i), Bits: c.bits, Queries: []Query{
			{Name: "path", Aggregation: Path, Bits: c.bits, Frequency: 1, Static: &c.static},
		}})
		if err != nil {
			t.Fatal(err)
		}
		e, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		s := e.sets[0][0]
		if s.kind != c.kind {
			t.Fatalf("%d: kind %d", i, s.kind)
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		for range 20000 {
			id, digest, value, hop := r.Uint64(), r.Uint64()&lowBits(c.bits), r.Uint64(), 1+r.IntN(MaxHops)
			if got, want := e.Encode(id, hop, digest, &Observed{SwitchID: value}), s.static.Encode(id, hop, digest, value); got != want {
				t.Fatalf("%d: hop %d of %#x: %#x, want %#x", i, hop, id, got, want)
			}
		}
	}
}

func TestEncoderBounds(t *testing.T) {
	e, err := Compile(threeQueries(t))
	if err != nil {
		t.Fatal(err)
	}
	v := observedAt(rand.New(rand.NewPCG(8, 1)))
	for _, hop := range []int{-1, 0, MaxHops + 1, math.MaxInt} {
		if got := e.Encode(1, hop, 0x1234, v); got != 0x1234 {
			t.Errorf("hop %d changed the digest to %#x", hop, got)
		}
	}
	for i := range uint64(1000) {
		e.Encode(i, MaxHops, math.MaxUint64, v)
	}
	if !e.Needs(HopLatency) || e.Needs(IngressPort) || e.Needs(numValues) || e.Loops() {
		t.Error("needs are wrong")
	}
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	for _, p := range []*Plan{threeQueries(t), everyQuery(t)} {
		e, err := Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		v := observedAt(rand.New(rand.NewPCG(9, 1)))
		id := uint64(0)
		if n := testing.AllocsPerRun(2000, func() {
			id++
			digest := e.Encode(id*0x9e3779b97f4a7c15, 3, id, v)
			e.Loop(id, 3, digest, 5)
		}); n != 0 {
			t.Errorf("plan %d: %v allocations per packet", p.ID, n)
		}
	}
}

// A loop is seen, and only on packets that the loop query is for.
func TestEncoderLoop(t *testing.T) {
	e, err := Compile(everyQuery(t))
	if err != nil {
		t.Fatal(err)
	}
	if !e.Loops() {
		t.Fatal("the plan has a loop query")
	}
	r := rand.New(rand.NewPCG(10, 1))
	found, n := 0, 20000
	for range n {
		id, digest := r.Uint64(), uint64(0)
		for hop := 1; hop <= 60; hop++ {
			v := observedAt(r)
			v[SwitchID] = uint64(hop % 4)
			if e.Loop(id, hop, digest, v[SwitchID]) {
				found++
				break
			}
			digest = e.Encode(id, hop, digest, v)
		}
	}
	if got := float64(found) / float64(n); math.Abs(got-0.1) > 5*math.Sqrt(0.09/float64(n)) {
		t.Errorf("%v of the looping packets reported, want 0.1, the query's share", got)
	}
}

func BenchmarkEncoder(b *testing.B) {
	dense := threeQueries(b)
	dense.Queries[0].Static = &StaticQuery{Code: Linear, ValueBits: 10, Layers: XOR(1)}
	for _, c := range []struct {
		name string
		plan *Plan
	}{{"three", threeQueries(b)}, {"three,linear", dense}, {"every", everyQuery(b)}} {
		b.Run(c.name, func(b *testing.B) {
			e, err := Compile(c.plan)
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(11, 1))
			var ids [4096]uint64
			var seen [64]Observed
			for i := range ids {
				ids[i], seen[i&63] = r.Uint64(), *observedAt(r)
				seen[i&63][SwitchID] = 437 // a switch keeps its id
			}
			b.ReportAllocs()
			var sum, i uint64
			for b.Loop() {
				sum += e.Encode(ids[i&4095], 3, i, &seen[i&63])
				i++
			}
			_ = sum
		})
	}
}

func TestEncodersOfTwoPlans(t *testing.T) {
	var s Encoders
	if s.Newest() != nil || s.Of(0) != nil {
		t.Error("the zero value knows a plan")
	}
	a, b, c := &Encoder{id: 1}, &Encoder{id: 2}, &Encoder{id: 3}
	s = s.With(a).With(b)
	if s.Newest() != b || s.Of(1) != a || s.Of(2) != b || s.Of(3) != nil {
		t.Errorf("%+v", s)
	}
	again := &Encoder{id: 2}
	s = s.With(again)
	if s.Newest() != again || s.Of(1) != a {
		t.Errorf("%+v", s)
	}
	s = s.With(c)
	if s.Newest() != c || s.Of(2) != again || s.Of(1) != nil {
		t.Errorf("%+v", s)
	}
}
