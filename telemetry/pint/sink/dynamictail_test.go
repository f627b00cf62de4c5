package sink

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// aboveOf counts the codes above and from one on.
func aboveOf(sorted []uint8, code uint8) (above, from int) {
	at, _ := slices.BinarySearch(sorted, code)
	end, _ := slices.BinarySearch(sorted, code+1)
	if code == math.MaxUint8 {
		end = len(sorted)
	}
	return len(sorted) - end, len(sorted) - at
}

// TestTailIsExactAtFirst: while a stream is short its tail is that of a sorted list, whatever
// the order and the ties; below it is a bound from above.
func TestTailIsExactAtFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	for _, room := range []int{1, 2, 25, 100} {
		for _, values := range []int{1, 3, 256} {
			s := newTail[uint8](room)
			var all []uint8
			for n := 1; n <= tailSpan*room; n++ {
				code := uint8(r.IntN(values))
				switch r.IntN(3) {
				case 0:
					code = uint8(n * values / (tailSpan*room + 1)) // slowly up
				case 1:
					code = uint8(values - 1 - n*values/(tailSpan*room+1))
				}
				s.add(code, uint64(n))
				all = append(all, code)
				slices.Sort(all)
				above := r.IntN(n)
				want := all[n-1-above]
				got, inTail, ok := s.fromTop(uint64(above))
				if !ok || inTail != (above < len(s.codes)) || inTail && got != want || got < want {
					t.Fatalf("room %d, %d values: of %d codes, %d are above %d: got %d, %v, %v", room, values, n, above, want, got, inTail, ok)
				}
			}
			if len(s.codes) != room {
				t.Errorf("room %d: %d codes", room, len(s.codes))
			}
		}
	}
}

// TestTailOfLongStreams: the code that a tail gives for the 99th percentile has a rank that
// differs by less than the sample's deviation, also of streams that were merged. With
// 64 codes, at least 20 of the sample are above the percentile: 6 deviations are 1.3 times
// as many, and 200 looks fail by luck with a probability below 1e-6.
func TestTailOfLongStreams(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	const room = 64
	for run := range 200 {
		parts := 1 + run%4
		var all []uint8
		sum := newTail[uint8](room)
		for range parts {
			part := newTail[uint8](room)
			n := 1 + r.IntN(100_000)
			for k := 1; k <= n; k++ {
				code := uint8(min(255, 25*r.ExpFloat64()))
				part.add(code, uint64(k))
				all = append(all, code)
			}
			sum.merge(&part, uint64(len(all)))
		}
		slices.Sort(all)
		want := len(all) / 100
		code, inTail, ok := sum.fromTop(uint64(want))
		if !ok || len(sum.codes) > room {
			t.Fatalf("%d parts, %d codes: %d are kept, %v", parts, len(all), len(sum.codes), ok)
		}
		above, from := aboveOf(all, code)
		sampled := math.Max(1, float64(want)/math.Pow(2, float64(sum.shift)))
		slack := 6*float64(want)/math.Sqrt(sampled) + 2
		if float64(from) < float64(want)-slack || inTail && float64(above) > float64(want)+slack {
			t.Errorf("%d parts, %d codes, 1 of %d: code %d has %d above and %d with it, want %d within %.0f", parts, len(all), 1<<sum.shift, code, above, from, want, slack)
		}
	}
}

// TestSketchTailQuantiles: in 100 bytes the 99th percentile of a heavy tail is within a tenth of
// the exact one on average, and higher ranks have no lower codes.
func TestSketchTailQuantiles(t *testing.T) {
	codec, err := encode.NewCodec(encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	p := planStream(codec, false, 100)
	r := rand.New(rand.NewPCG(8, 3))
	for _, n := range []int{100, 2000, 50_000} {
		off, runs := 0.0, 100
		for range runs {
			var s stream
			exact := make([]float64, n)
			for i := range exact {
				exact[i] = 1000 + 5000*r.ExpFloat64()
				s.add(&p, codec.Encode(uint64(exact[i]), r.Uint64N(encode.RoundOne)), uint64(i)+1)
			}
			slices.Sort(exact)
			q, _ := s.estimate(&p, 0.99)
			off += math.Abs(q.Value/exact[n*99/100-1]-1) / float64(runs)
			last := uint64(0)
			for rank := 0.0; rank <= 1; rank += 0.005 {
				code := s.quantile(rank)
				if code < last {
					t.Fatalf("rank %.3f has code %d, a lower one %d", rank, code, last)
				}
				last = code
			}
		}
		t.Logf("%d samples: the 99th percentile is off by %.1f %%", n, 100*off)
		if off > 0.1 {
			t.Errorf("%d samples: the 99th percentile is off by %.1f %%", n, 100*off)
		}
	}
}
