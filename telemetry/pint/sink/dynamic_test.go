package sink

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// streamCodecs are an exact code, an 8-bit and a 16-bit one.
func streamCodec(t testing.TB, c encode.CodecConfig) *encode.Codec {
	t.Helper()
	k, err := encode.NewCodec(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Quantiles stay within their bounds, for all ways to keep samples, with and
// without a window.
func TestHopStreamQuantiles(t *testing.T) {
	for _, c := range []struct {
		name     string
		codec    encode.CodecConfig
		space    int
		windowNs uint64
		exact    bool
	}{
		{"counts", encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 10_000_000}, 0, 0, true},
		{"sketch of 100 bytes a hop", encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 10_000_000}, 300, 0, false},
		{"sketch of 4 bits, with how they were rounded", encode.CodecConfig{Bits: 4, Multiplicative: true, Min: 1000, Max: 10_000_000}, 300, 0, false},
		{"counts within a space", encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 10_000_000}, 3 << 10, 0, true},
		{"sketch of 16-bit codes", encode.CodecConfig{Bits: 16, Multiplicative: true, Min: 1000, Max: 10_000_000}, 3000, 0, false},
		{"unbounded sketch of 16-bit codes", encode.CodecConfig{Bits: 16, Multiplicative: true, Min: 1000, Max: 10_000_000}, 0, 0, false},
		{"window of counts", encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 10_000_000}, 0, 40_000, true},
		{"window of sketches", encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 10_000_000}, 1600, 40_000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			codec := streamCodec(t, c.codec)
			p := newStreamsPlan(codec, false, c.space, c.windowNs)
			if got := p.of(3).exact; got != c.exact {
				t.Fatalf("exact: %v", got)
			}
			const hops, n = 3, 120_000
			r := rand.New(rand.NewPCG(15, 1))
			var h hopStreams
			values := make([][]float64, hops)
			for i := range n {
				hop := i % hops
				scale := math.Pow(4, float64(hop))
				if c.windowNs > 0 && i < n/2 {
					scale *= 10 // what must be forgotten
				}
				v := 2000 * scale * (1 + r.ExpFloat64())
				if i >= n-n/4 || c.windowNs == 0 {
					values[hop] = append(values[hop], v)
				}
				round := r.Uint64N(encode.RoundOne)
				h.add(p, hop+1, hops, codec.Encode(uint64(v), round), round, uint64(i))
			}
			for hop := range hops {
				slices.Sort(values[hop])
				s := h.stream(p, hop+1)
				if c.windowNs > 0 && (s.n < 30_000/hops-1 || s.n > 40_000/hops+1) {
					t.Errorf("window has %d samples", s.n)
				}
				if c.space > 0 && !c.exact && s.sketch.size()*p.of(hops).keys.bytes*hops > c.space {
					t.Errorf("sketch keeps %d keys of %d bytes", s.sketch.size(), c.space)
				}
				for _, rank := range []float64{0.01, 0.5, 0.9, 0.99} {
					q, ok := s.estimate(p.of(hops), rank)
					exact := values[hop][int(rank*float64(len(values[hop])))]
					if !ok || q.Low > exact || q.High < exact || q.Value < q.Low || q.Value > q.High {
						t.Errorf("hop %d, rank %v: %+v, exact %v", hop+1, rank, q, exact)
					}
					if c.exact && rank > 0.1 && rank < 0.95 && q.High > q.Low*2 && codec.Bits() > 4 {
						t.Errorf("hop %d, rank %v: bounds %v..%v say nothing", hop+1, rank, q.Low, q.High)
					}
				}
			}
		})
	}
}

func TestHopStreamFrequent(t *testing.T) {
	for _, space := range []int{0, 2 * 18 << 6} {
		codec := streamCodec(t, encode.CodecConfig{Bits: 10})
		p := newStreamsPlan(codec, true, space, 0)
		if p.of(2).exact != (space == 0) {
			t.Fatal("the wrong way was chosen")
		}
		r := rand.New(rand.NewPCG(16, 1))
		var h hopStreams
		for i := range 40000 {
			code := 100 + r.Uint64N(900)
			switch u := r.Float64(); {
			case u < 0.3:
				code = 7
			case u < 0.5:
				code = 8
			}
			h.add(p, 1+i%2, 2, code, 0, 0)
		}
		for hop := 1; hop <= 2; hop++ {
			got := h.stream(p, hop).frequent(p.of(2), 0.1)
			if len(got) != 2 || got[0].Value != 7 || got[1].Value != 8 ||
				got[0].Low > 0.3 || got[0].High < 0.3 || got[1].Low > 0.2 || got[1].High < 0.2 || got[1].Low < 0.15 {
				t.Errorf("space %d, hop %d: %+v", space, hop, got)
			}
		}
	}
}

func TestHopStreamsEdges(t *testing.T) {
	codec := streamCodec(t, encode.CodecConfig{Bits: 8})
	p := newStreamsPlan(codec, false, 1, 100)
	var h hopStreams
	if s := h.stream(p, 1); s.n != 0 {
		t.Error("an empty flow has samples")
	}
	h.add(p, 1, 2, 5, 0, 1000)
	h.add(p, 2, 2, 6, 0, 10) // older than the window
	if a, b := h.stream(p, 1), h.stream(p, 2); a.n != 1 || b.n != 0 || keyOf(a.list(p.of(2)), 0.5) != 5 {
		t.Errorf("%d and %d samples", a.n, b.n)
	}
	h.add(p, 3, 3, 9, 0, 1001) // another path length
	if a, b := h.stream(p, 1), h.stream(p, 3); a.n != 0 || b.n != 1 {
		t.Errorf("%d and %d samples after the change", a.n, b.n)
	}
	for _, hop := range []int{-1, 0, 4} {
		if h.stream(p, hop).n != 0 {
			t.Errorf("hop %d has samples", hop)
		}
	}
	newStreamsPlan(codec, false, 3, 0).of(pint.MaxHops)
}
