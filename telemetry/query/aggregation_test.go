package query

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
	"github.com/weirswitch/weir/telemetry/pint/sink"
	"github.com/weirswitch/weir/telemetry/store"
)

// planOfPath is a plan with a query for paths and another one, both on all packets.
func planOfPath(t *testing.T, q pint.Query) *pintplan.Plan {
	t.Helper()
	path := pintplan.Default().Queries[0]
	q.Name, q.Frequency = "other", 1
	p, err := pintplan.New(pintplan.Config{ID: 3, Seed: 3, Bits: path.Bits + q.Bits, Queries: []pint.Query{path, q}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sure is an engine whose bounds fail by luck with a probability of 1e-6.
func (n *sinks) sure() *Engine {
	e := n.engine()
	e.Confidence = 1 - 1e-6
	return e
}

// What packets tell of all their hops is that of the Recorder, and its bounds hold the exact values of the packets.
func TestAggregationsOverHops(t *testing.T) {
	latency := &pint.NumericQuery{Multiplicative: true, Min: 100, Max: 1_000_000}
	use := &pint.NumericQuery{Multiplicative: true, Min: 64, Max: pint.UtilisationOne, Epsilon: 0.025}
	const one = pint.UtilisationOne
	sum := func(values []uint64) (n uint64) {
		for _, v := range values {
			n += v
		}
		return n
	}
	slow := func(from uint64) func([]uint64) uint64 {
		return func(values []uint64) (n uint64) {
			for _, v := range values {
				if v >= from {
					n++
				}
			}
			return n
		}
	}
	product := func(values []uint64) uint64 { // of three hops, in units of 1000 each
		return values[0] * values[1] * values[2] / 1_000_000_000
	}
	for _, c := range []struct {
		pint.Query
		unit  string
		scale float64
		truth func([]uint64) uint64
	}{
		{pint.Query{Value: pint.EgressUtilisation, Aggregation: pint.Maximum, Bits: 8, Numeric: use}, "share of the link", one, slices.Max[[]uint64]},
		{pint.Query{Value: pint.EgressUtilisation, Aggregation: pint.Minimum, Bits: 8, Numeric: use}, "share of the link", one, slices.Min[[]uint64]},
		{pint.Query{Value: pint.EgressUtilisation, Aggregation: pint.Sum, Bits: 10, Numeric: &pint.NumericQuery{Min: 64, Max: 4 * one}}, "share of the link", one, sum},
		{pint.Query{Value: pint.EgressUtilisation, Aggregation: pint.SlowHops, Bits: 3, Numeric: &pint.NumericQuery{Slow: one / 4, Max: 7}}, "hops", 1, slow(one / 4)},
		{pint.Query{Value: pint.HopLatency, Aggregation: pint.Maximum, Bits: 8, Numeric: latency}, "ns", 1, slices.Max[[]uint64]},
		{pint.Query{Value: pint.HopLatency, Aggregation: pint.Minimum, Bits: 8, Numeric: latency}, "ns", 1, slices.Min[[]uint64]},
		{pint.Query{Value: pint.HopLatency, Aggregation: pint.Sum, Bits: 10, Numeric: &pint.NumericQuery{Min: 100, Max: 1_000_000}}, "ns", 1, sum},
		{pint.Query{Value: pint.HopLatency, Aggregation: pint.Product, Bits: 10, Numeric: &pint.NumericQuery{Min: 1000, Max: 1_000_000}}, "product", 1, product},
		{pint.Query{Value: pint.HopLatency, Aggregation: pint.SlowHops, Bits: 3, Numeric: &pint.NumericQuery{Slow: 12_000, Max: 7}}, "hops", 1, slow(12_000)},
	} {
		t.Run(fmt.Sprint(c.Aggregation, " of ", c.Value), func(t *testing.T) {
			n := newSinks(t, planOfPath(t, c.Query))
			var met []uint64
			watch := func(of func() uint64) func(uint32, Key) uint64 {
				return func(uint32, Key) uint64 {
					v := of()
					met = append(met, v)
					return v
				}
			}
			if c.Value == pint.HopLatency {
				n.latency = watch(func() uint64 { return 1000 + n.rng.Uint64N(20_000) })
			} else {
				n.utilisation = watch(func() uint64 { return one/50 + n.rng.Uint64N(one/2) })
			}
			const flows, packets = 6, 500
			exact := make([][]float64, flows)
			var all []float64
			for i := range flows * packets {
				met = met[:0]
				n.send(key(i%flows), int64(i)<<15, route3(i%flows)...)
				value := float64(c.truth(met)) / c.scale
				exact[i%flows], all = append(exact[i%flows], value), append(all, value)
			}
			n.flush(t, nil)

			q := &Question{Kind: KindLatency, Quantiles: []float64{0, 0.5, 1}, Limit: flows - 1}
			var a CongestionAnswer
			if c.Value == pint.HopLatency {
				l := ask[*LatencyAnswer](t, n.sure(), q)
				a = CongestionAnswer{Value: l.Value, Aggregation: l.Aggregation, Unit: l.Unit, Packets: l.Packets, Flows: l.Flows, More: l.More, Hops: l.Hops}
				if numbers := Numbers(l); len(numbers) != 3 || numbers[1].Bounded != l.Packets.Quantiles[1].Bounded {
					t.Errorf("a series shows %+v", numbers)
				}
				q.Flow, q.Hop = FormatKey(key(1)), 1
				if _, err := n.sure().Ask(t.Context(), q); err == nil {
					t.Error("a hop has an answer")
				}
			} else {
				q.Kind = KindCongestion
				a = *ask[*CongestionAnswer](t, n.sure(), q)
				if (len(a.Links) > 0) != (c.Aggregation == pint.Maximum) {
					t.Errorf("links: %+v", a.Links)
				}
			}
			if a.Value != c.Value.String() || a.Aggregation != c.Aggregation.String() || a.Unit != c.unit || len(a.Hops) != 0 || len(a.Flows) != flows-1 || a.More != 1 {
				t.Errorf("%+v", a)
			}
			check := func(what string, got *ValueStats, truth []float64) {
				slices.Sort(truth)
				middle, m := truth[len(truth)/2], got.Quantiles[1]
				if got.Samples != uint64(len(truth)) || !m.Holds(middle) || math.Abs(m.Value/middle-1) > 0.1 || m.Open {
					t.Errorf("%s: %d samples, median %+v, truth %g", what, got.Samples, m, middle)
				}
			}
			check("all", &a.Packets, all)
			reader, err := sink.NewReader(n.plan)
			if err != nil {
				t.Fatal(err)
			}
			most, number := uint64(0), slices.IndexFunc(n.plan.Queries, func(q pint.Query) bool { return q.Name == "other" })
			for i := range n.all {
				r, _ := reader.Read(number, &n.all[i])
				most = max(most, r.Digest)
			}
			if _, high := reader.Interval(number, most, 3); a.Packets.Quantiles[2].High != high/c.scale {
				t.Errorf("bounded by %g, want %g", a.Packets.Quantiles[2].High, high/c.scale)
			}
			recorder := n.recorder(t, store.Window{})
			for _, f := range a.Flows {
				k, err := ParseKey(f.Flow)
				if err != nil {
					t.Fatal(err)
				}
				number := slices.IndexFunc([]int{0, 1, 2, 3, 4, 5}, func(i int) bool { return key(i) == k })
				check(f.Flow, &f.ValueStats, exact[number])
				want, _ := recorder.Packets("other", pint.FlowKey(k))
				if f.Quantiles[0].Value != want.Min/c.scale || f.Quantiles[2].Value != want.Max/c.scale || f.Samples != want.Packets {
					t.Errorf("%s: %+v, recorded %+v", f.Flow, f.Quantiles, want)
				}
			}
		})
	}
}

// Frequent values are those of the Recorder, of a flow's hops and of switches, and the bounds of their shares hold the truth.
func TestFrequent(t *testing.T) {
	for _, c := range []struct {
		pint.Query
		scale float64
	}{
		{pint.Query{Value: pint.EgressUtilisation, Aggregation: pint.Frequent, Bits: 8, Numeric: &pint.NumericQuery{Max: pint.UtilisationOne - 1}}, pint.UtilisationOne},
		{pint.Query{Value: pint.HopLatency, Aggregation: pint.Frequent, Bits: 14, Numeric: &pint.NumericQuery{}}, 1}, // counted sparsely
	} {
		n := newSinks(t, planOfPath(t, c.Query))
		// A step of 256 is one of both codes. A half has one value, 3 of 10 another one, the others are spread.
		shares := map[uint64]float64{256: 0.5, 512: 0.3}
		value := func(sw uint32, _ Key) uint64 {
			switch x := n.rng.Float64(); {
			case x < 0.5:
				return 256 * uint64(sw)
			case x < 0.8:
				return 512 * uint64(sw)
			}
			return 256 * (40 + n.rng.Uint64N(20))
		}
		n.latency, n.utilisation = value, value
		const flows, packets = 4, 3000
		for i := range flows * packets {
			n.send(key(i%flows), int64(i)<<15, route3(i%flows)...)
		}
		n.flush(t, nil)
		hops := func(q Question) []HopStats {
			if c.Value == pint.HopLatency {
				q.Kind = KindLatency
				a := ask[*LatencyAnswer](t, n.sure(), &q)
				if a.Aggregation != "frequent" || a.Packets.Samples != 0 || len(a.Flows) != 0 {
					t.Errorf("%+v", a)
				}
				return a.Hops
			}
			q.Kind = KindCongestion
			a := ask[*CongestionAnswer](t, n.sure(), &q)
			if a.Aggregation != "frequent" || a.Packets.Samples != flows*packets && q.Flow == "" || len(a.Links) != 0 {
				t.Errorf("%+v", a)
			}
			return a.Hops
		}
		check := func(h *HopStats, sw uint32) {
			if n.store.Name(sw) != h.Switch || len(h.Frequent) < 2 || len(h.Frequent) > frequentMost {
				t.Fatalf("switch %d: %+v", sw, h)
			}
			for i, step := range []uint64{256, 512} {
				f := h.Frequent[i]
				if f.Value != float64(step*uint64(sw))/c.scale || !f.Share.Holds(shares[step]) || f.Share.High-f.Share.Low > 0.25 {
					t.Errorf("switch %d: value %d is %+v, truth %d of share %g", sw, i, f, step*uint64(sw), shares[step])
				}
			}
		}
		recorder := n.recorder(t, store.Window{})
		for flow := range flows {
			list := hops(Question{Flow: FormatKey(key(flow))})
			if len(list) != 3 {
				t.Fatalf("flow %d: %+v", flow, list)
			}
			for i := range list {
				check(&list[i], route3(flow)[i])
				want, _ := recorder.Frequent("other", pint.FlowKey(key(flow)), i+1, frequentShare)
				for k := range 2 {
					if got := list[i].Frequent[k]; got.Value != want[k].Value/c.scale || got.Share.Value != want[k].Share {
						t.Errorf("flow %d, hop %d: %+v, recorded %+v", flow, i+1, got, want[k])
					}
				}
			}
		}
		pooled := hops(Question{})
		if len(pooled) != 11 { // 4 leaves, 3 spines, 4 leaves
			t.Fatalf("%d switches", len(pooled))
		}
		for i := range pooled {
			for sw := range n.met {
				if n.store.Name(sw) == pooled[i].Switch {
					check(&pooled[i], sw)
				}
			}
		}
	}
}

// TestFrequentBounds: the bounds of a share fail as rarely as they say, and few samples bound nothing.
func TestFrequentBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 9))
	reader, err := sink.NewReader(pintplan.Default())
	if err != nil {
		t.Fatal(err)
	}
	c := codingOf(&digests{reader: reader, query: 1})
	const runs, delta = 1000, 0.05
	for _, n := range []int{20, 300} {
		missed := 0
		for range runs {
			counts := newTally(c)
			for range n {
				if r.Float64() < 0.3 {
					counts.add(5)
				} else {
					counts.add(uint64(r.IntN(5)))
				}
			}
			list := counts.frequent(c, delta)
			i := slices.IndexFunc(list, func(f FrequentValue) bool { return f.Value == c.value(5) })
			if i < 0 || !list[i].Share.Holds(0.3) {
				missed++
			}
		}
		// A binomial of 1000 and 0.05 is above 90 with a probability below 1e-6.
		if missed > 90 {
			t.Errorf("%d samples: %d of %d bounds missed the share", n, missed, runs)
		}
	}
	single := newTally(c)
	single.add(5)
	if list := single.frequent(c, 1e-6); len(list) != 1 || list[0].Share.Value != 1 || list[0].Share.High != 1 || list[0].Share.Low > 1e-5 {
		t.Errorf("of one sample: %+v", list)
	}
}

// Arrival times answer a question about latency where a plan has no other query for it.
func TestIngressTime(t *testing.T) {
	n := newSinks(t, planOfPath(t, pint.Query{Value: pint.IngressTime, Aggregation: pint.Quantiles, Bits: 12, Numeric: &pint.NumericQuery{Delta: 1 << 19}}))
	const packets = 3000
	for i := range int64(packets) {
		n.send(key(1), i<<20, route3(1)...)
	}
	n.flush(t, nil)
	a := ask[*LatencyAnswer](t, n.sure(), &Question{Kind: KindLatency, Flow: FormatKey(key(1))})
	if a.Value != "ingress_time" || a.Unit != "ns" || len(a.Hops) != 3 || a.Delta != 1<<19 {
		t.Fatalf("%+v", a)
	}
	for _, h := range a.Hops {
		if m, _ := h.median(); !m.Holds(packets<<19) || m.High-m.Low > packets<<18 {
			t.Errorf("hop %d: %+v", h.Hop, m)
		}
	}
}

// TestChoiceOfQueries: plans of max and quantiles answer by the queries that they always did; the others come after.
func TestChoiceOfQueries(t *testing.T) {
	var all []pint.Query
	for value := pint.SwitchID; value <= pint.QueueCongestion; value++ {
		for aggregation := pint.Path; aggregation <= pint.Loop; aggregation++ {
			all = append(all, pint.Query{Value: value, Aggregation: aggregation})
		}
	}
	choose := func(of []pint.Query, suits func(*pint.Query) int) string {
		i, ok := bestQuery(&pintplan.Plan{Queries: of}, suits)
		if !ok {
			return "none"
		}
		return of[i].Aggregation.String() + " of " + of[i].Value.String()
	}
	order := func(suits func(*pint.Query) int) (list []string) {
		rest := slices.Clone(all)
		for {
			best := choose(rest, suits)
			if best == "none" {
				return list
			}
			list = append(list, best)
			rest = slices.DeleteFunc(rest, func(q pint.Query) bool { return q.Aggregation.String()+" of "+q.Value.String() == best })
		}
	}
	if got := order(suitsCongestion); len(got) != 18 || !slices.Equal(got[:7], []string{
		"max of egress_utilisation", "max of queue_congestion", "max of queue_occupancy",
		"quantiles of egress_utilisation", "quantiles of queue_congestion", "quantiles of queue_occupancy", "frequent of egress_utilisation",
	}) {
		t.Errorf("congestion: %q", got)
	}
	if got := order(new(Question).suitsLatency); len(got) != 12 || got[0] != "quantiles of hop_latency" || got[1] != "frequent of hop_latency" || got[6] != "quantiles of ingress_time" {
		t.Errorf("latency: %q", got)
	}
	if got := order((&Question{Hop: 2}).suitsLatency); len(got) != 4 {
		t.Errorf("latency of a hop: %q", got)
	}
}
