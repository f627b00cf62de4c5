package encode_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
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

// inFamilies are the plans in each family of hashes.
func inFamilies(plans ...*plan.Plan) (all []*plan.Plan) {
	for _, f := range []hash.Family{hash.XX, hash.CRC} {
		for _, p := range plans {
			q := *p
			q.Hash = f
			all = append(all, &q)
		}
	}
	return all
}

// The whole digest is what the plan says of the parts, each made by the slow
// means that the parts' own tests check.
func TestEncoderAgainstParts(t *testing.T) {
	packets := 12000
	if testing.Short() {
		packets = 2000
	}
	for _, p := range inFamilies(threeQueries(t), everyQuery(t)) {
		t.Run(fmt.Sprint(p.ID, " ", p.Hash), func(t *testing.T) {
			e, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 1))
			ran := map[string]int{}
			for range packets {
				id := r.Uint64()
				path := make([]*pint.Observed, 1+r.IntN(12))
				var digest uint64
				for i := range path {
					path[i] = pinttest.Observed(r)
					digest = e.Encode(id, i+1, digest, path[i])
				}
				checkDigest(t, p, e, id, digest, path, ran)
			}
			for _, q := range p.Queries {
				if got := float64(ran[q.Name]) / float64(packets); math.Abs(got-q.Frequency) > 5*math.Sqrt(0.25/float64(packets)) {
					t.Errorf("query %s ran on %v of the packets, want %v", q.Name, got, q.Frequency)
				}
			}
		})
	}
}

func checkDigest(t *testing.T, p *plan.Plan, e *encode.Encoder, id, digest uint64, path []*pint.Observed, ran map[string]int) {
	t.Helper()
	h, n := p.Hash.Uint64(e.Seeds().Set, id), e.SetOf(id)
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
		s, err := p.Step(q)
		if err != nil {
			t.Fatal(err)
		}
		part := digest >> shift & (1<<q.Bits - 1)
		shift += q.Bits
		if want := digestOf(p, &s, id, h, path); part != want {
			t.Fatalf("query %s of packet %#x over %d hops: digest %#x, want %#x", name, id, len(path), part, want)
		}
	}
	if digest>>shift != 0 {
		t.Fatalf("bits above the queries' are %#x", digest>>shift)
	}
}

// digestOf is what the sink should see of a query: by its definition, over the
// whole path at once where the aggregation allows.
func digestOf(p *plan.Plan, s *encode.Step, id, h uint64, path []*pint.Observed) uint64 {
	var values []uint64
	q := s.Query
	for _, v := range path {
		values = append(values, v[q.Value])
	}
	switch q.Aggregation {
	case pint.Path:
		return s.Static.Digest(new(encode.Scratch), id, values)
	case pint.Quantiles:
		_, hop := s.Read(id, 0, len(path))
		return s.Codec.Encode(values[hop-1], h%encode.RoundOne)
	case pint.Frequent:
		_, hop := s.Read(id, 0, len(path))
		return s.Codec.Encode(values[hop-1], encode.RoundNearest)
	case pint.Maximum, pint.Minimum:
		best := s.Codec.Encode(values[0], h%encode.RoundOne)
		for _, v := range values[1:] {
			if c := s.Codec.Encode(v, h%encode.RoundOne); (c > best) == (q.Aggregation == pint.Maximum) {
				best = c
			}
		}
		if q.Aggregation == pint.Minimum {
			best ^= 1<<q.Bits - 1
		}
		return best
	}
	var d uint64
	for i, v := range values {
		random := p.Hash.Uint64x2(s.Seed(), id, uint64(i+1))
		switch {
		case q.Aggregation == pint.Loop:
			d, _ = s.LoopsOf().Process(id, i+1, d, v)
		case q.Aggregation == pint.Sum:
			d = s.CounterOf().Add(d, v, random)
		case v >= q.Numeric.Slow:
			d = s.CounterOf().Add(d, 1, random)
		}
	}
	return d
}

func TestEncoderBounds(t *testing.T) {
	e, err := threeQueries(t).Compile()
	if err != nil {
		t.Fatal(err)
	}
	v := pinttest.Observed(rand.New(rand.NewPCG(8, 1)))
	for _, hop := range []int{-1, 0, pint.MaxHops + 1, math.MaxInt} {
		if got := e.Encode(1, hop, 0x1234, v); got != 0x1234 {
			t.Errorf("hop %d changed the digest to %#x", hop, got)
		}
	}
	for i := range uint64(1000) {
		e.Encode(i, pint.MaxHops, math.MaxUint64, v)
	}
	if !slices.Equal(e.Values(), []pint.Value{pint.SwitchID, pint.HopLatency, pint.EgressUtilisation}) || e.Loops() {
		t.Error("the values are wrong")
	}
}

func TestEncoderDoesNotAllocate(t *testing.T) {
	for _, p := range []*plan.Plan{threeQueries(t), everyQuery(t)} {
		e, err := p.Compile()
		if err != nil {
			t.Fatal(err)
		}
		v := pinttest.Observed(rand.New(rand.NewPCG(9, 1)))
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
	e, err := everyQuery(t).Compile()
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
			v := pinttest.Observed(r)
			v[pint.SwitchID] = uint64(hop % 4)
			if e.Loop(id, hop, digest, v[pint.SwitchID]) {
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
	dense.Queries[0].Static = &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.XOR(1)}
	for _, c := range []struct {
		name string
		plan *plan.Plan
	}{{"three", threeQueries(b)}, {"three,linear", dense}, {"every", everyQuery(b)}} {
		b.Run(c.name, func(b *testing.B) {
			e, err := c.plan.Compile()
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(11, 1))
			var ids [4096]uint64
			var seen [64]pint.Observed
			for i := range ids {
				ids[i], seen[i&63] = r.Uint64(), *pinttest.Observed(r)
				seen[i&63][pint.SwitchID] = 437 // a switch keeps its id
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
