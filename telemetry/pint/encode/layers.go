package encode

import (
	"fmt"
	"math"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// Baseline returns the scheme in which each packet carries one hop, uniformly
// chosen by reservoir sampling.
func Baseline() []pint.Layer { return []pint.Layer{{Share: 1}} }

// XOR returns the scheme in which each hop xors its value with probability p.
func XOR(p float64) []pint.Layer { return []pint.Layer{{Share: 1, P: p}} }

// Dense returns the scheme of linear network coding: each packet's digest is
// a combination of all hops. With coefficients of its own for each packet and
// hop (ValueCode Linear) every hop takes part in every packet; with values as
// they are, or fragments of them, each hop takes part in half of them.
func Dense(c pint.ValueCode) []pint.Layer {
	if c == pint.Linear {
		return XOR(1)
	}
	return XOR(0.5)
}

// Interleaved returns a fraction tau of Baseline and one XOR layer of
// probability p.
func Interleaved(tau, p float64) []pint.Layer {
	return []pint.Layer{{Share: tau}, {Share: 1 - tau, P: p}}
}

// Hybrid returns the paper's interleaved scheme for a typical path length of d
// hops: a fraction 3/4 of Baseline and p = ln ln d / ln d (1 / ln d up to 15
// hops, footnote 8). The paper writes "log" for the natural and the binary
// logarithm in turn. Its figures for k = d = 25, a median of 41 packets and a
// 99th percentile of 68, are those of the natural one (p = 0.363, measured 43
// and 67); the binary one (p = 0.477) takes 47 and 73.
func Hybrid(d int) []pint.Layer { return Interleaved(0.75, hybridP(d, math.Log)) }

// HybridBinary is Hybrid with binary logarithms, kept to show which reading of
// the paper meets its figures.
func HybridBinary(d int) []pint.Layer { return Interleaved(0.75, hybridP(d, math.Log2)) }

func hybridP(d int, log func(float64) float64) float64 {
	if d <= 15 {
		return min(1, 1/log(float64(max(d, 2))))
	}
	return log(log(float64(d))) / log(float64(d))
}

// MultiLayer returns the layers of Algorithm 1 for a typical length of d hops:
// Baseline with share tau = ln log* d' / (1 + ln log* d'), where d' = d / log* d,
// and ceil(log* d') XOR layers that share the rest, the l-th with probability
// (e tetrated l-1 times) / d'.
func MultiLayer(d int) []pint.Layer {
	l := math.Log(float64(iteratedLog(reducedHops(d))))
	return multiLayer(d, l/(1+l))
}

// MultiLayerRevised is MultiLayer with the share of appendix A.3, tau =
// (1 + ln log* d) / (2 + ln log* d), which leaves fewer hops to the XOR layers.
func MultiLayerRevised(d int) []pint.Layer {
	l := math.Log(float64(iteratedLog(float64(d))))
	return multiLayer(d, (1+l)/(2+l))
}

func multiLayer(d int, tau float64) []pint.Layer {
	reduced := reducedHops(d)
	n := iteratedLog(reduced)
	var layers []pint.Layer
	if tau > 0 {
		layers = append(layers, pint.Layer{Share: tau})
	}
	for l, p := 0, 1/reduced; l < n; l, p = l+1, math.Exp(p*reduced)/reduced {
		layers = append(layers, pint.Layer{Share: (1 - tau) / float64(n), P: min(1, p)})
	}
	return layers
}

// reducedHops is the paper's d / log* d, the hops that XOR layers decode.
func reducedHops(d int) float64 { return max(1, float64(d)/float64(iteratedLog(float64(d)))) }

// iteratedLog is log* x to the base e, at least 1: how often the natural
// logarithm is taken until the result is at most 1.
func iteratedLog(x float64) int {
	n := 0
	for ; x > 1; x = math.Log(x) {
		n++
	}
	return max(1, n)
}

// maxLayers bounds what a packet's layer is searched in; no scheme has more than
// a few.
const maxLayers = 64

// validateLayers refuses shares that are not a distribution.
func validateLayers(layers []pint.Layer) error {
	if len(layers) == 0 {
		return fmt.Errorf("no layer: use Baseline, Hybrid or another scheme")
	}
	if len(layers) > maxLayers {
		return fmt.Errorf("%d layers: use at most %d", len(layers), maxLayers)
	}
	sum := 0.0
	for i, l := range layers {
		if !(l.Share > 0 && l.Share <= 1) {
			return fmt.Errorf("layer %d: share %v is not in (0, 1]", i, l.Share)
		}
		if !(l.P >= 0 && l.P <= 1) {
			return fmt.Errorf("layer %d: XOR probability %v is not in [0, 1]", i, l.P)
		}
		sum += l.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		return fmt.Errorf("the shares of the layers add up to %v, not to 1", sum)
	}
	return nil
}

// accept turns a probability into the largest 64-bit hash that is accepted.
// Probabilities below 2^-64 are not told from 2^-64.
func accept(p float64) uint64 {
	if p >= 1 {
		return math.MaxUint64
	}
	return uint64(max(p*(1<<64), 1)) - 1
}

// acceptReservoir is accept(1/i) in integers: floor(2^64 / i) - 1.
func acceptReservoir(i int) uint64 {
	if i <= 1 {
		return math.MaxUint64
	}
	// 2^64 / i is not an integer unless i divides 2^64; both cases are covered
	// by dividing 2^64 - i, which is congruent to 2^64 modulo i.
	return -uint64(i) / uint64(i)
}

// limit is the largest hash that a family's decisions accept. Those of crc compare the upper
// 32 bits alone, as the P4 programs for Tofino do, so the lower ones are ones: that accepts at most
// 2^-32 more.
func limit(f hash.Family, accept uint64) uint64 {
	if f == hash.CRC {
		return accept | math.MaxUint32
	}
	return accept
}

// reservoirAccept holds the thresholds of reservoir sampling by family: hop i overwrites
// if its hash is at most reservoirAccept[f.Kind()][i], with probability 1/i (section 4.1).
var reservoirAccept = [...][pint.MaxHops + 1]uint64{
	hash.XX: newReservoir(hash.XX), hash.CRC: newReservoir(hash.CRC), hash.AES: newReservoir(hash.AES),
}

func newReservoir(f hash.Family) (t [pint.MaxHops + 1]uint64) {
	for i := range t {
		t[i] = limit(f, acceptReservoir(i))
	}
	return t
}
