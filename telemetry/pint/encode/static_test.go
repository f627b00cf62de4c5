package encode

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// codings are the encodings that the tests of the package go through.
var codings = map[string]StaticConfig{
	"baseline":    {Bits: 32, ValueBits: 32, Layers: Baseline(), Seed: 1},
	"xor":         {Bits: 32, ValueBits: 32, Layers: XOR(0.04), Seed: 2},
	"hybrid":      {Bits: 32, ValueBits: 32, Layers: Hybrid(25), Seed: 3},
	"multilayer":  {Bits: 32, ValueBits: 32, Layers: MultiLayer(25), Seed: 4},
	"revised":     {Bits: 32, ValueBits: 32, Layers: MultiLayerRevised(25), Seed: 5, Vector: true},
	"network":     {Bits: 32, ValueBits: 32, Layers: Dense(pint.Whole), Seed: 6},
	"fragments":   {Bits: 3, ValueBits: 8, Layers: Hybrid(5), Values: pint.Fragmented, Seed: 7},
	"hashed2x8":   {Bits: 8, Instances: 2, Layers: Hybrid(10), Values: pint.Hashed, Seed: 8},
	"hashed1":     {Bits: 1, Layers: Hybrid(5), Values: pint.Hashed, Seed: 9, Vector: true},
	"linear2x8":   {Bits: 8, Instances: 2, ValueBits: 10, Layers: Dense(pint.Linear), Values: pint.Linear, Seed: 10},
	"linear7x4":   {Bits: 4, Instances: 7, ValueBits: 20, Layers: Dense(pint.Linear), Values: pint.Linear, Seed: 11},
	"linear1":     {Bits: 1, ValueBits: 10, Layers: Dense(pint.Linear), Values: pint.Linear, Seed: 12},
	"linearlinks": {Bits: 8, Instances: 2, ValueBits: 10, Layers: Interleaved(0.6, 1), Values: pint.Linear, Seed: 13, Vector: true},
}

// init adds each encoding in crc.
func init() {
	for name, c := range maps.Clone(codings) {
		c.Hash = hash.CRC
		codings[name+" crc"] = c
	}
}

func mustStatic(t testing.TB, c StaticConfig) *Static {
	t.Helper()
	s, err := NewStatic(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEncodeAlongPath compares hop by hop encoding with what the decoder
// expects at the sink, for every coding, path length and bit of the digest.
func TestEncodeAlongPath(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		t.Run(name, func(t *testing.T) {
			s := mustStatic(t, c)
			r := rand.New(rand.NewPCG(1, 1))
			for range 300 {
				path := make([]uint64, 1+r.IntN(pint.MaxHops))
				for i := range path {
					path[i] = r.Uint64()
				}
				id, digest := r.Uint64(), uint64(0)
				for i, v := range path {
					digest = s.Encode(id, i+1, digest, v)
				}
				if want := s.Digest(new(Scratch), id, path); digest != want {
					t.Fatalf("%d hops give digest %x, the decoder expects %x", len(path), digest, want)
				}
				if digest != digest&lowBits(s.DigestBits()) {
					t.Fatalf("digest %x has more than %d bits", digest, s.DigestBits())
				}
			}
		})
	}
}

func TestEncodeIgnoresImpossibleHops(t *testing.T) {
	s := mustStatic(t, codings["hybrid"])
	for _, hop := range []int{math.MinInt, -1, 0, pint.MaxHops + 1, math.MaxInt} {
		for id := range uint64(100) {
			if d := s.Encode(id, hop, 77, 5); d != 77 {
				t.Fatalf("hop %d changed the digest to %d", hop, d)
			}
		}
	}
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(codings)) {
		c := codings[name]
		s := mustStatic(t, c)
		id := uint64(0)
		if n := testing.AllocsPerRun(100, func() { id++; s.Encode(id, 5, 0, 3) }); n != 0 {
			t.Errorf("%s: %v allocations per packet and hop", name, n)
		}
	}
}

// TestBaselineUniform: each hop is the last writer equally often, decided
// singly or as vectors. 8 times the standard deviation has a chance of 1e-15.
func TestBaselineUniform(t *testing.T) {
	const packets, hops = 200000, 25
	for _, vector := range []bool{false, true} {
		c := codings["baseline"]
		c.Vector = vector
		s := mustStatic(t, c)
		var seen [hops + 1]int
		for id := range uint64(packets) {
			w, baseline := s.Writers(new(Scratch), id, 0, hops)
			if !baseline || w.Len() != 1 {
				t.Fatalf("packet %d: writers %v", id, w)
			}
			seen[w.Last()]++
		}
		for hop, n := range seen[1:] {
			if d := math.Abs(float64(n) - packets/hops); d > 8*math.Sqrt(packets/hops) {
				t.Errorf("vector %v: hop %d wrote %d of %d packets", vector, hop+1, n, packets)
			}
		}
	}
}

// TestLayerShares checks the shares and probabilities that packets see.
func TestLayerShares(t *testing.T) {
	const packets, hops = 200000, 40
	for _, vector := range []bool{false, true} {
		s := mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: Interleaved(0.3, 0.2), Vector: vector, Seed: 5})
		baseline, writers := 0, 0
		for id := range uint64(packets) {
			w, b := s.Writers(new(Scratch), id, 0, hops)
			if b {
				baseline++
			} else {
				writers += w.Len()
			}
		}
		if d := math.Abs(float64(baseline) - 0.3*packets); d > 8*math.Sqrt(0.21*packets) {
			t.Errorf("vector %v: %d Baseline packets of %d", vector, baseline, packets)
		}
		n := float64(packets-baseline) * hops
		if d := math.Abs(float64(writers) - 0.2*n); d > 8*math.Sqrt(0.16*n) {
			t.Errorf("vector %v: %d writers in %v chances", vector, writers, n)
		}
	}
}

// TestVectorTwin compares the decision for one hop with that for all hops.
func TestVectorTwin(t *testing.T) {
	for _, layers := range [][]pint.Layer{Baseline(), XOR(0.3), XOR(1e-3)} {
		s := mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: layers, Vector: true, Seed: 9})
		for id := range uint64(500) {
			for block := range 4 {
				set := s.layers[0].planes.writers(s.Hash, s.seeds[0].writer, id, block, math.MaxUint64)
				for hop := 64*block + 1; hop <= min(64*block+64, pint.MaxHops); hop++ {
					if one := s.layers[0].planes.writes(s.Hash, s.seeds[0].writer, id, hop); one != (set>>(hop-1-64*block)&1 != 0) {
						t.Fatalf("packet %d, hop %d: alone %v", id, hop, one)
					}
				}
			}
		}
	}
}

// TestLinearTwin multiplies bit by bit, and checks what makes the hash linear.
func TestLinearTwin(t *testing.T) {
	for _, name := range []string{"linear2x8", "linear7x4", "linear1"} {
		c := codings[name]
		s := mustStatic(t, c)
		r := rand.New(rand.NewPCG(2, 2))
		for range 500 {
			id, hop := r.Uint64(), 1+r.IntN(60)
			a, b := r.Uint64()&s.valueMask, r.Uint64()&s.valueMask
			var want uint64
			for j := range s.Instances {
				key := s.Keys(new(Scratch), id, j, hop, 1)[0]
				for row := range c.Bits {
					bit := uint64(0)
					for col := range c.ValueBits {
						bit ^= key >> (row + col) & (a >> col) & 1
					}
					want |= bit << (j*c.Bits + row)
				}
			}
			if got := s.Encode(id, hop, 0, a); got != want {
				t.Fatalf("%s: %x, bit by bit %x", name, got, want)
			}
			if s.Encode(id, hop, 0, a^b) != s.Encode(id, hop, s.Encode(id, hop, 0, a), b) {
				t.Fatalf("%s is not linear", name)
			}
		}
	}
}

func TestAccept(t *testing.T) {
	two64 := new(big.Int).Lsh(big.NewInt(1), 64)
	for i := 1; i <= pint.MaxHops; i++ {
		want := new(big.Int).Div(two64, big.NewInt(int64(i)))
		if got := new(big.Int).SetUint64(acceptReservoir(i)); got.Cmp(want.Sub(want, big.NewInt(1))) != 0 {
			t.Errorf("hop %d accepts up to %v, want %v", i, got, want)
		}
	}
	for _, p := range []float64{1e-30, 1e-6, 0.25, 0.9999999999999999, 1} {
		if got := (float64(accept(p)) + 1) / (1 << 64); math.Abs(got-max(p, 1.0/(1<<63)/2)) > 1e-15 {
			t.Errorf("accept(%v) is %v", p, got)
		}
	}
}

// TestPaperLayers checks the parameters against the paper's formulas worked out
// by hand.
func TestPaperLayers(t *testing.T) {
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-4 }
	if p := Hybrid(25)[1].P; !near(p, 0.36318) {
		t.Errorf("hybrid p for d=25 is %v", p)
	}
	if p := Hybrid(10)[1].P; !near(p, 1/math.Log(10)) {
		t.Errorf("hybrid p for d=10 is %v", p)
	}
	// d = 25: log* d = 3, d' = 8.33, log* d' = 2, tau = ln 2 / (1 + ln 2).
	m := MultiLayer(25)
	if len(m) != 3 || !near(m[0].Share, 0.40938) || !near(m[1].P, 0.12) || !near(m[2].P, math.E*0.12) || !near(m[1].Share, m[2].Share) {
		t.Errorf("multi-layer for d=25 is %v", m)
	}
	// (1 + ln 3) / (2 + ln 3)
	if m := MultiLayerRevised(25); !near(m[0].Share, 0.67729) {
		t.Errorf("revised multi-layer for d=25 is %v", m)
	}
	for d := 1; d <= pint.MaxHops; d++ {
		for _, layers := range [][]pint.Layer{Hybrid(d), HybridBinary(d), MultiLayer(d), MultiLayerRevised(d)} {
			if err := validateLayers(layers); err != nil {
				t.Errorf("d=%d: %v: %v", d, layers, err)
			}
		}
	}
}

func TestStaticConfigFaults(t *testing.T) {
	for _, c := range []struct {
		config StaticConfig
		faults []string
	}{
		{StaticConfig{}, []string{"bits is 0", "no layer", "value bits is 0"}},
		{StaticConfig{Bits: 33, Instances: 2, ValueBits: 8, Layers: Baseline()}, []string{"2 instances of 33 bits"}},
		{StaticConfig{Bits: 8, ValueBits: 9, Layers: Baseline()}, []string{"do not fit into 8"}},
		{StaticConfig{Bits: 40, ValueBits: 32, Layers: XOR(1), Values: pint.Linear}, []string{"more than 64 bits"}},
		{StaticConfig{Bits: 8, ValueBits: 8, Layers: XOR(1.5)}, []string{"probability 1.5"}},
		{StaticConfig{Bits: 8, ValueBits: 8, Layers: []pint.Layer{{Share: 0.5}}}, []string{"add up to 0.5"}},
		{StaticConfig{Bits: 8, ValueBits: 8, Layers: []pint.Layer{{Share: math.NaN(), P: math.NaN()}}}, []string{"share NaN"}},
		{StaticConfig{Bits: 8, Layers: Baseline(), Values: 9}, []string{"ValueCode(9)"}},
	} {
		_, err := NewStatic(c.config)
		for _, f := range c.faults {
			if err == nil || !strings.Contains(err.Error(), f) {
				t.Errorf("%+v: error %v does not say %q", c.config, err, f)
			}
		}
	}
}

func TestHopSet(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		var set HopSet
		twin := map[int]bool{}
		for range r.IntN(20) {
			hop := 1 + r.IntN(pint.MaxHops)
			set.Add(hop)
			twin[hop] = true
		}
		last := 0
		for hop := 1; hop <= pint.MaxHops; hop++ {
			if set.Has(hop) != twin[hop] {
				t.Fatalf("Has(%d) is %v", hop, set.Has(hop))
			}
			if twin[hop] {
				last = hop
			}
		}
		var listed []int
		for hop := range set.All {
			listed = append(listed, hop)
		}
		if set.Len() != len(twin) || len(listed) != len(twin) || set.Last() != last {
			t.Fatalf("set of %v: Len %d, last %d, listed %v", twin, set.Len(), set.Last(), listed)
		}
		if n := r.IntN(pint.MaxHops + 1); true {
			first := FirstHops(n)
			if first.Len() != n || first.Last() != n {
				t.Fatalf("the first %d hops are %v", n, first)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, name := range []string{"baseline", "hybrid", "revised", "hashed2x8", "linear2x8", "linear1", "linearlinks"} {
		s := mustStatic(b, codings[name])
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			id, d := uint64(0), uint64(0)
			for b.Loop() {
				id++
				d = s.Encode(id, int(id&7)+1, d, id&1023)
			}
			if d == 1<<63 {
				fmt.Println(d)
			}
		})
	}
}
