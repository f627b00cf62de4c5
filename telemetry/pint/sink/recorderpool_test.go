package sink

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// A pool's quantiles are those of all flows' packets, which the median of flows'
// medians is not, however the flows' samples are kept.
func TestPoolJoinsFlows(t *testing.T) {
	for _, c := range []struct {
		space, bits int
		exact       bool
	}{{0, 8, true}, {300, 8, false}, {0, 16, false}} {
		t.Run(fmt.Sprintf("%d bytes, %d bits", c.space, c.bits), func(t *testing.T) {
			codec := streamCodec(t, encode.CodecConfig{Bits: c.bits, Multiplicative: true, Min: 100, Max: 100_000_000})
			p := newStreamsPlan(codec, false, c.space, 0)
			r := rand.New(rand.NewPCG(31, uint64(c.bits+c.space)))
			pool := &Pool{codec: codec, weights: map[uint64]float64{}}
			var all []float64
			for flow := range 30 {
				// A third of the flows have most of the packets, and are slow.
				n, scale := 200, 1000.
				if flow%3 == 0 {
					n, scale = 4000, 3000.
				}
				var h hopStreams
				for range n {
					v := scale * math.Exp(r.NormFloat64())
					all = append(all, v)
					round := r.Uint64N(encode.RoundOne)
					h.add(p, 1, 1, codec.Encode(uint64(v), round), round, 0)
				}
				if got := h.stream(p, 1).counts != nil; got != c.exact {
					t.Fatalf("exact: %v", got)
				}
				pool.add(p.of(1), h.stream(p, 1))
			}
			slices.Sort(all)
			if pool.Samples() != uint64(len(all)) || pool.Flows() != 30 {
				t.Fatalf("%d samples of %d flows, want %d", pool.Samples(), pool.Flows(), len(all))
			}
			for i, q := range pool.Quantiles(0.1, 0.5, 0.9) {
				exact := all[int([]float64{0.1, 0.5, 0.9}[i]*float64(len(all)))]
				if exact < q.Low || exact > q.High {
					t.Errorf("quantile %d: %v is not in %v .. %v", i, exact, q.Low, q.High)
				}
				if low, high := pool.Sampling([]float64{0.1, 0.5, 0.9}[i]); low < q.Low || high > q.High || q.Value < low || q.Value > high {
					t.Errorf("quantile %d: sampling leaves %v .. %v of %+v", i, low, high, q)
				}
				// Ten sketches of rank error 2.7 % (99 %) make one of 0.85 %, a third of which is the
				// deviation; at the median 1 % of rank is 2.5 % of the value, at the tails 5.7 %. Six deviations of
				// 1.6 % are 9.7 %; exact counts err by interpolation alone, a tenth of a step of 5.6 %.
				tolerance := 0.1
				if c.exact {
					tolerance = 0.02
				}
				if math.Abs(q.Value/exact-1) > tolerance {
					t.Errorf("quantile %d is %v, exactly %v", i, q.Value, exact)
				}
			}
		})
	}
}

// Values between two codes are told by the share of either: what random rounding
// does, interpolation undoes.
func TestPoolInterpolatesRounding(t *testing.T) {
	for _, config := range []encode.CodecConfig{
		{Bits: 8, Multiplicative: true, Min: 100, Max: 100_000_000},
		{Bits: 8, Max: 1 << 20},
		{Bits: 8},
	} {
		codec := streamCodec(t, config)
		r := rand.New(rand.NewPCG(32, 1))
		for v := uint64(2000); v < 2<<20; v = v*5/3 + 7 {
			if !config.Multiplicative && config.Max == 0 {
				v = v%200 + 1
			}
			pool := &Pool{codec: codec, weights: map[uint64]float64{}}
			var s stream
			p := planStream(codec, false, 0)
			for range 5000 {
				round := r.Uint64N(encode.RoundOne)
				s.add(&p, codec.Encode(v, round), round, s.n+1)
			}
			pool.add(&p, &s)
			q := pool.Quantiles(0.5)[0]
			// Within half a step at worst, near two codes of equal share; a tenth of it
			// usually: here at most a fifth.
			off, step := math.Abs(q.Value-float64(v)), codec.Decode(1)
			if config.Multiplicative {
				off, step = math.Abs(math.Log(q.Value/float64(v))), math.Log(codec.Decode(3)/codec.Decode(2))
			} else if config.Max == 0 {
				step = 0
			}
			if off > 0.2*step || float64(v) < q.Low || float64(v) > q.High {
				t.Errorf("%+v: %d is told as %v, %v steps off, within %v .. %v", config, v, q.Value, off/step, q.Low, q.High)
			}
			if step == 0 {
				break
			}
		}
	}
}

// The recorder's pool has the samples of the flows and hops it was asked for.
func TestRecorderPool(t *testing.T) {
	p := threeQueries(t)
	e, err := p.Compile()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := NewRecorder(p, RecorderConfig{Decoders: map[string]DecoderConfig{"path": {Values: switchIDs()}}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(33, 1))
	path := []uint64{1, 2, 3}
	for i := range 6000 {
		o := network(e, r, i%3, path, func(hop int) pint.Observed { return pint.Observed{pint.HopLatency: uint64(5000 * hop)} })
		rec.Record(&o)
	}
	for hop := 1; hop <= 3; hop++ {
		var pool *Pool
		samples := uint64(0)
		for flow := range 3 {
			pool = rec.Pool("latency", flowKey(flow), hop, pool)
			samples += rec.Samples("latency", flowKey(flow), hop)
		}
		if pool == nil || pool.Flows() != 3 || pool.Samples() != samples || samples < 1000 {
			t.Fatalf("hop %d: %+v of %d samples", hop, pool, samples)
		}
		if q := pool.Quantiles(0.5)[0]; math.Abs(q.Value/float64(5000*hop)-1) > 0.02 || q.Low > float64(5000*hop) || q.High < float64(5000*hop) {
			t.Errorf("hop %d: %+v", hop, q)
		}
	}
	if rec.Pool("latency", flowKey(9), 1, nil) != nil || rec.Pool("latency", flowKey(1), 4, nil) != nil || rec.Pool("path", flowKey(1), 1, nil) != nil {
		t.Error("a pool of nothing")
	}
}
