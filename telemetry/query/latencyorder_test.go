package query

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	pintplan "github.com/weirswitch/weir/telemetry/pint/plan"
)

// TestLatencyByOrder: of packets that meet queues which change slowly, medians of a flow's hops have less than 0.7 of the error of those whose samples count
// alike; where packets have nothing to do with each other, and where an attacker would have each second one wait, at
// most a twentieth more. Of codes of 4 bits, whose steps are 30 %, less than half, as it is known by what codes were rounded; of 12 bits that makes no
// difference. Seeds are fixed, so that no run fails by luck.
func TestLatencyByOrder(t *testing.T) {
	const hops, packets = 5, 500
	flows := 60
	if testing.Short() {
		flows = 30
	}
	for _, bits := range []int{4, 8, 12} {
		for _, c := range []struct {
			name string
			// keeps is how much of a value the next packet has of this one's.
			keeps, least, most float64
		}{{"a slow queue", 0.99, 0, 0.7}, {"no queue", 0, 0.95, 1.05}, {"turns", -0.9, 0.95, 1.05}} {
			if bits == 4 {
				c.least, c.most = 0, 0.5
			}
			q := pint.Query{Name: "latency", Value: pint.HopLatency, Aggregation: pint.Quantiles, Bits: bits, Frequency: 1,
				Numeric: &pint.NumericQuery{Multiplicative: true, Min: 1000, Max: 1 << 16}}
			p, err := pintplan.New(pintplan.Config{Seed: 3, Bits: bits, Queries: []pint.Query{q}})
			if err != nil {
				t.Fatal(err)
			}
			n, r := newSinks(t, p), rand.New(rand.NewPCG(9, uint64(bits)))
			met := make([][hops][]float64, flows)
			for flow := range flows {
				var x [hops]float64
				for i := range x {
					x[i] = r.NormFloat64()
				}
				n.latency = func(sw uint32, _ Key) uint64 {
					v := &x[sw-1]
					*v = c.keeps**v + math.Sqrt(1-c.keeps*c.keeps)*r.NormFloat64()
					ns := uint64(5000 * math.Exp(*v/2))
					met[flow][sw-1] = append(met[flow][sw-1], float64(ns))
					return ns
				}
				for i := range packets {
					n.send(key(flow), 5<<sliceBits+int64(i)*1000, 1, 2, 3, 4, 5)
				}
			}
			n.flush(t, nil)
			recorder := n.recorder(t, n.store.All())
			var asked, alike float64
			for flow := range flows {
				a := ask[*LatencyAnswer](t, n.engine(), &Question{Kind: KindLatency, Flow: FormatKey(key(flow)), Quantiles: []float64{0.5}})
				if len(a.Hops) != hops {
					t.Fatalf("%+v", a)
				}
				for i, h := range a.Hops {
					slices.Sort(met[flow][i])
					want := met[flow][i][packets/2-1]
					counted, known := recorder.Quantile("latency", pint.FlowKey(key(flow)), i+1, 0.5)
					got := h.Quantiles[0]
					if !known || got.Value < got.Low || got.Value > got.High || h.Samples != counted.Samples {
						t.Fatalf("%+v, %+v", h, counted)
					}
					asked += math.Abs(got.Value/want - 1)
					alike += math.Abs(counted.Value/want - 1)
				}
			}
			t.Logf("%s, %d bits: %.4f by the answers, %.4f alike", c.name, bits, asked/float64(flows*hops), alike/float64(flows*hops))
			if ratio := asked / alike; ratio < c.least || ratio > c.most {
				t.Errorf("%s, %d bits: the error of answers is %.3f of that of samples that count alike, want %g to %g", c.name, bits, ratio, c.least, c.most)
			}
		}
	}
}

// TestOrderOfPaths: a flow that changed its path has no order of its samples at a hop, and they count alike.
func TestOrderOfPaths(t *testing.T) {
	p := &hopPool{d: &digests{one: true}, by: map[hopPlace]*hopTally{{hops: 2, hop: 1}: {}, {hops: 2, hop: 2}: {}}}
	if !p.onePath() {
		t.Error("two hops of one path are two paths")
	}
	for _, more := range []hopPlace{{hops: 3, hop: 3}, {hops: 2, hop: 2, known: true, sw: 7}} {
		q := &hopPool{d: p.d, by: map[hopPlace]*hopTally{more: {}}}
		for at, x := range p.by {
			q.by[at] = x
		}
		if q.onePath() {
			t.Errorf("with %+v it is one path", more)
		}
	}
}
