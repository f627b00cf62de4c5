package sink

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// TestWeights: of packets that meet a queue which changes slowly, samples that stand for the packets next to
// them give medians with less than 0.6 of the error of samples that count alike. Where packets have nothing to do
// with each other, the error is at most a quarter larger: a weight has a variance of a half, so that 100 samples are
// as good as 67, whose error is 1.22 times as large. Seeds are fixed, so that no run fails by luck.
func TestWeights(t *testing.T) {
	const hops, packets, flows = 5, 500, 400
	codec := streamCodec(t, encode.CodecConfig{Bits: 8, Multiplicative: true, Min: 1000, Max: 1 << 16})
	for _, c := range []struct {
		name string
		// keeps is how much of a value the next packet has of this one's.
		keeps, least, most float64
	}{{"a slow queue", 0.99, 0, 0.6}, {"no queue", 0, 0.9, 1.25}} {
		r := rand.New(rand.NewPCG(22, 7))
		p := newStreamsPlan(codec, false, 0, 0)
		p.byOrder = true
		var weighed, alike float64
		for range flows {
			var h hopStreams
			x := r.NormFloat64()
			all, sampled := []float64{}, []float64{}
			for range packets {
				x = c.keeps*x + math.Sqrt(1-c.keeps*c.keeps)*r.NormFloat64()
				value := 5000 * math.Exp(x/2)
				all = append(all, value)
				hop := 1 + r.IntN(hops)
				round := r.Uint64N(encode.RoundOne)
				code := codec.Encode(uint64(value), round)
				if h.add(p, hop, hops, code, round, 0); hop == 1 {
					sampled = append(sampled, codec.Decode(code))
				}
			}
			slices.Sort(all)
			slices.Sort(sampled)
			got, known := h.stream(p, 1).estimate(p.of(hops), 0.5)
			want := all[packets/2-1]
			if !known || got.Samples != uint64(len(sampled)) || got.Low > got.Value || got.High < got.Value {
				t.Fatalf("%s: %+v, %v", c.name, got, known)
			}
			weighed += math.Abs(got.Value/want - 1)
			alike += math.Abs(sampled[len(sampled)/2]/want - 1)
		}
		t.Logf("%s: %.4f by weights, %.4f alike", c.name, weighed/flows, alike/flows)
		if ratio := weighed / alike; ratio < c.least || ratio > c.most {
			t.Errorf("%s: the error by weights is %.3f of that of samples that count alike, want %g to %g", c.name, ratio, c.least, c.most)
		}
	}
}

// TestWeightsAreThePackets: after each sample all weights together are the flow's packets, and those of a hop with one sample all its own.
func TestWeightsAreThePackets(t *testing.T) {
	codec := streamCodec(t, encode.CodecConfig{Bits: 4})
	p := newStreamsPlan(codec, false, 0, 0)
	p.byOrder = true
	var h hopStreams
	sum := func(hop int) (n float64) {
		s := h.stream(p, hop)
		for code := range s.counts {
			n += s.weight(uint64(code))
		}
		return n / 2
	}
	for i, hop := range []int{2, 1, 1, 2, 1, 2, 2, 2, 1} {
		h.add(p, hop, 2, uint64(i), 0, 0)
		for hop := 1; hop <= 2; hop++ {
			if h.stream(p, hop).n > 0 && sum(hop) != float64(i+1) {
				t.Errorf("after %d packets the weights of hop %d are %g", i+1, hop, sum(hop))
			}
		}
	}
	// Samples of hop 1 were packets 2, 3, 5 and 9.
	s := h.stream(p, 1)
	for code, want := range map[uint64]float64{1: 2.5, 2: 1.5, 4: 3, 8: 2} {
		if got := s.weight(code) / 2; got != want {
			t.Errorf("code %d stands for %g packets, want %g", code, got, want)
		}
	}
}
