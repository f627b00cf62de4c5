package encode

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// What PINT needs of a family of hashes: decisions of different hops are independent, each hop of
// a path is as likely as the others to be the last writer, and paths take as many packets.
// Statistics are turned into standard normal deviates, of which the tests look at fewer
// than 30,000. A truly random family exceeds maxDeviate with a chance of 1e-11, so luck
// alone fails the tests with less than 1e-6; ids and seeds are fixed, so a pass is one for ever.
const maxDeviate = 6.8

// longest is the longest path of the paper, in hops.
const longest = 59

// idKinds are packet ids: numbers in a row, as structured as can be, and those that a parser
// has for the segments of a TCP connection.
var idKinds = map[string]func(f hash.Family, i uint64) uint64{
	"row": func(_ hash.Family, i uint64) uint64 { return i },
	"segments": func(f hash.Family, i uint64) uint64 {
		return f.Uint64x5(0, 0x0a0000010a000002, 6<<56|i&0xffff<<16|1500, 1448*i<<32|443<<16|1024, 7, 11)
	},
}

// hopDecisions asks g of hops 1..59 about n packets, and gives their answers hop by hop, a bit
// for each packet, behind them those of the hash that chooses the set.
func hopDecisions(t *testing.T, f hash.Family, seed uint64, p float64, id func(i uint64) uint64, n int) (by [longest + 1][]uint64, writers []int) {
	s := mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: XOR(p), Hash: f, Seed: seed, Shared: &SharedSeeds{seed + 1, seed + 2}})
	for hop := range by {
		by[hop] = make([]uint64, n/64)
	}
	var w Scratch
	for i := range n {
		set, _ := s.Writers(&w, id(uint64(i)), 0, longest)
		for hop := range set.All {
			by[hop-1][i/64] |= 1 << (i % 64)
		}
		if f.Uint64(seed+1, id(uint64(i))) <= limit(f, accept(p)) {
			by[longest][i/64] |= 1 << (i % 64)
		}
		writers = append(writers, set.Len())
	}
	return by, writers
}

// TestHopsDecideIndependently: g of each pair of hops, for all pairs up to 59 hops, is as good as
// uncorrelated, also with the hash that chooses a packet's set; and the number of hops that
// write is binomial.
func TestHopsDecideIndependently(t *testing.T) {
	n := 1 << 17
	if testing.Short() {
		n = 1 << 14
	}
	for _, f := range families {
		for kind, id := range idKinds {
			for seed, p := range map[uint64]float64{1: 0.5, 99: 0.25, 0xfeedface00000000: 1. / 59} {
				by, writers := hopDecisions(t, f, seed, p, func(i uint64) uint64 { return id(f, i) }, n)
				where := fmt.Sprintf("%v, ids in a %s, seed %x, p %.3f", f, kind, seed, p)
				for a := range by {
					for b := range a {
						if z := correlation(by[a], by[b]); math.Abs(z) > maxDeviate {
							t.Errorf("%s: hops %d and %d: deviate %.1f", where, a+1, b+1, z)
						}
					}
					if z := (ones(by[a]) - float64(n)*p) / math.Sqrt(float64(n)*p*(1-p)); math.Abs(z) > maxDeviate {
						t.Errorf("%s: hop %d writes %v of %d: deviate %.1f", where, a+1, ones(by[a]), n, z)
					}
				}
				if z := binomialDeviate(writers, longest, p); z > maxDeviate {
					t.Errorf("%s: the number of writers is not binomial: deviate %.1f", where, z)
				}
			}
		}
	}
}

// TestHopsTestSeesACRC puts a bare CRC to the test of pairs: of g(packet, hop) = CRC of both,
// two hops differ by a constant.
func TestHopsTestSeesACRC(t *testing.T) {
	const n = 1 << 14
	var by [2][]uint64
	for hop := range by {
		by[hop] = make([]uint64, n/64)
		for i := range uint64(n) {
			message := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, i), uint64(hop+1))
			by[hop][i/64] |= uint64(crc32.ChecksumIEEE(message)>>31) << (i % 64)
		}
	}
	if z := correlation(by[0], by[1]); math.Abs(z) < 10*maxDeviate {
		t.Errorf("decisions that differ by a constant have a deviate of %.1f only", z)
	}
}

func ones(a []uint64) (n float64) {
	for _, w := range a {
		n += float64(bits.OnesCount64(w))
	}
	return n
}

// correlation of two rows of bits, times the root of their length: a standard normal deviate if
// they are independent.
func correlation(a, b []uint64) float64 {
	n, both := float64(64*len(a)), 0
	for i := range a {
		both += bits.OnesCount64(a[i] & b[i])
	}
	p, q := ones(a)/n, ones(b)/n
	return (float64(both)/n - p*q) / math.Sqrt(p*(1-p)*q*(1-q)) * math.Sqrt(n)
}

// binomialDeviate compares counts of trials of probability p with their distribution.
// Counts that are expected less than 20 times share a cell with the next one.
func binomialDeviate(counts []int, trials int, p float64) float64 {
	seen := make([]float64, trials+1)
	for _, c := range counts {
		seen[c]++
	}
	var got, want []float64
	g, w := 0.0, 0.0
	for k := range seen {
		g += seen[k]
		w += float64(len(counts)) * choose(trials, k) * math.Pow(p, float64(k)) * math.Pow(1-p, float64(trials-k))
		if w >= 20 {
			got, want = append(got, g), append(want, w)
			g, w = 0, 0
		}
	}
	got[len(got)-1] += g
	want[len(want)-1] += w
	return chiDeviate(got, want)
}

// chiDeviate turns Pearson's statistic into a standard normal deviate (Wilson and
// Hilferty, 1931).
func chiDeviate(got, want []float64) float64 {
	x := 0.0
	for i := range got {
		x += (got[i] - want[i]) * (got[i] - want[i]) / want[i]
	}
	dof := float64(len(got) - 1)
	return (math.Cbrt(x/dof) - (1 - 2/(9*dof))) / math.Sqrt(2/(9*dof))
}

// TestReservoirShares: over k hops, each is the last writer of 1/k of the packets, for all k up to
// 59: by the hash's upper bits, as paths decide, and turned, as samples do.
func TestReservoirShares(t *testing.T) {
	n := 1 << 16
	if testing.Short() {
		n = 1 << 13
	}
	for _, f := range families {
		for kind, id := range idKinds {
			for _, seed := range []uint64{1, 0xfeedface00000000} {
				s := mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: Baseline(), Hash: f, Seed: seed})
				g := s.seeds[0].writer
				step := Step{family: f, seed: g}
				for half, turn := range map[string]int{"upper": 0, "turned": sharedTurn} {
					var last [longest + 1][longest + 1]float64 // by length and hop
					for i := range uint64(n) {
						for k, hop := 1, 1; k <= longest; k++ {
							if bits.RotateLeft64(f.Uint64x2(g, id(f, i), uint64(k)), turn) <= reservoirAccept[f.Kind()][k] {
								hop = k
							}
							last[k][hop]++
							if i >= 200 {
								continue
							}
							// What is counted is what both decoders find.
							found := step.lastWriter(id(f, i), k)
							if turn == 0 {
								set, _ := s.Writers(new(Scratch), id(f, i), 0, k)
								found = set.Last()
							}
							if found != hop {
								t.Fatalf("%v, %s bits: the last writer of %d hops is %d, or %d", f, half, k, hop, found)
							}
						}
					}
					for k := 2; k <= longest; k++ {
						want := make([]float64, k)
						for i := range want {
							want[i] = float64(n) / float64(k)
						}
						if z := chiDeviate(last[k][1:k+1], want); z > maxDeviate {
							t.Errorf("%v, %s bits, ids in a %s, seed %x: the last writers of %d hops: deviate %.1f", f, half, kind, seed, k, z)
						}
					}
				}
			}
		}
	}
}

// TestThresholdsOfCRC: decisions of crc compare 32 bits, as a P4 target does, and accept what
// those of 64 bits accept but for a share of 2^-32.
func TestThresholdsOfCRC(t *testing.T) {
	for hop := 1; hop <= pint.MaxHops; hop++ {
		x, c := reservoirAccept[hash.XX][hop], reservoirAccept[hash.CRC][hop]
		if c|math.MaxUint32 != c || c < x || c-x > math.MaxUint32 {
			t.Errorf("hop %d accepts up to %016x, in xxhash %016x", hop, c, x)
		}
	}
	for _, layers := range [][]pint.Layer{Hybrid(25), MultiLayer(25), XOR(0.3), XOR(1e-12), Interleaved(1./3, 0.2)} {
		x := mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: layers})
		c := mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: layers, Hash: hash.CRC})
		for i := range x.layers {
			for what, pair := range map[string][2]uint64{
				"share": {x.layers[i].upTo, c.layers[i].upTo}, "hop 7": {x.layers[i].accept[7], c.layers[i].accept[7]},
			} {
				if got := pair[1]; got != pair[0]|math.MaxUint32 {
					t.Errorf("layer %d, %s: %016x, want that of xxhash, %016x, rounded up", i, what, got, pair[0])
				}
			}
		}
	}
	// What does not count are the bits that a target does not look at.
	var steps []Step
	for _, q := range []pint.Query{
		{Bits: 8, Aggregation: pint.Path, Static: &pint.StaticQuery{Code: pint.Hashed, Layers: Hybrid(10)}},
		{Bits: 8, Value: pint.HopLatency, Aggregation: pint.Quantiles, Numeric: &pint.NumericQuery{Multiplicative: true, Max: 1 << 20}},
		{Bits: 8, Value: pint.HopLatency, Aggregation: pint.Maximum, Numeric: &pint.NumericQuery{Multiplicative: true, Max: 1 << 20}},
	} {
		s, err := NewStep(&q, hash.CRC, 1, SharedSeeds{})
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, s)
	}
	e := New(1, hash.CRC, SharedSeeds{}, []Set{{15 << 28, steps[:2]}, {1 << 32, []Step{steps[0], steps[2]}}})
	for i := range e.columns {
		if c := &e.columns[i]; uint32(c.low) != 0 || uint32(c.width) != math.MaxUint32 {
			t.Errorf("query %d is on packets from %016x on, %016x more", i, c.low, c.width)
		}
	}
}
