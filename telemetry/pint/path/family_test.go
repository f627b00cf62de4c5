package path

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// TestDecodeStatistics: paths take as many packets in crc as in xxhash, within 3 % of the mean.
// The least number that suffices is found one packet after the other. Runs go on until the
// standard error of the means' ratio is below 0.55 %, of which 3 % is more than 5.45: luck alone
// exceeds that with 5.1e-8, and fails the 13 cases with less than 7e-7. Hashed values are those of
// plans for P4 switches: one instance of 8 bits, in the two layers of Hybrid.
func TestDecodeStatistics(t *testing.T) {
	most, all, some := 0.0055, []int{5, 12, 25, 36, 59}, []int{5, 25, 59} // of a deviation, and lengths
	if testing.Short() {
		most, all, some = 0.02, all[:2], some[:2]
	}
	switches := make([]uint64, 754) // as in the Kentucky network
	for i := range switches {
		switches[i] = uint64(i)
	}
	eliminate := func(s *encode.Static) Solver { return NewElimination(s) }
	among := func(s *encode.Static) Solver { return NewCandidates(s, switches) }
	for _, c := range []struct {
		name    string
		config  encode.StaticConfig
		layers  func(hops int) []pint.Layer
		values  uint64 // how many there are
		solver  func(*encode.Static) Solver
		lengths []int
	}{
		{"the paper's layers", encode.StaticConfig{Bits: 32, ValueBits: 32}, encode.Hybrid, 1 << 32, eliminate, all},
		{"linear values", encode.StaticConfig{Bits: 8, ValueBits: 10, Values: pint.Linear}, func(int) []pint.Layer { return encode.Dense(pint.Linear) }, 1 << 10, eliminate, all},
		{"hashed values", encode.StaticConfig{Bits: 8, Values: pint.Hashed}, encode.Hybrid, uint64(len(switches)), among, some},
	} {
		for _, hops := range c.lengths {
			c.config.Layers = c.layers(hops)
			var n [2]decodeCount
			for deviation := 1.0; deviation > most; deviation = math.Hypot(n[0].deviation(), n[1].deviation()) {
				for i, f := range []hash.Family{hash.XX, hash.CRC} {
					n[i].more(t, c.config, f, hops, c.values, c.solver)
				}
			}
			if ratio := n[1].mean() / n[0].mean(); math.Abs(ratio-1) > 0.03/0.0055*most {
				t.Errorf("%s: %d hops take %.2f packets in crc, %.2f in xxhash: ratio %.4f", c.name, hops, n[1].mean(), n[0].mean(), ratio)
			}
		}
	}
}

// decodeCount is of packets until a path was decoded.
type decodeCount struct{ runs, sum, squares float64 }

func (d *decodeCount) mean() float64 { return d.sum / d.runs }

// deviation is the standard error of the mean over the mean.
func (d *decodeCount) deviation() float64 {
	return math.Sqrt((d.squares/d.runs-d.mean()*d.mean())/d.runs) / d.mean()
}

// more decodes 50 paths of random values, each under a seed of its own.
func (d *decodeCount) more(t *testing.T, c encode.StaticConfig, f hash.Family, hops int, values uint64, of func(*encode.Static) Solver) {
	t.Helper()
	for range 50 {
		c.Hash, c.Seed = f, uint64(d.runs)
		s := mustStatic(t, c)
		r := rand.New(rand.NewPCG(c.Seed, uint64(hops)))
		path := make([]uint64, hops)
		for i := range path {
			path[i] = r.Uint64N(values)
		}
		solver := of(s)
		var obs []Observation
		var sol Solution
		for !sol.Unique {
			id := f.Uint64(77, r.Uint64())
			obs = append(obs, Observation{id, s.Digest(new(encode.Scratch), id, path)})
			solver.Solve(obs, hops, &sol)
		}
		if !slices.Equal(sol.Path, path) {
			t.Fatalf("%v: path %x is decoded as %x", f, path, sol.Path)
		}
		n := float64(len(obs))
		d.runs, d.sum, d.squares = d.runs+1, d.sum+n, d.squares+n*n
	}
}
