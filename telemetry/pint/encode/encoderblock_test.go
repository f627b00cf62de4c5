package encode_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/pinttest"
	"github.com/weirswitch/weir/telemetry/pint/plan"
)

// manyPaths has many sets of static queries, hashed and linear.
func manyPaths(t testing.TB) *plan.Plan {
	t.Helper()
	c := plan.Config{ID: 9, Seed: 3, Bits: 32}
	for i := range 6 {
		q := pint.Query{Name: fmt.Sprint("path", i), Value: pint.Value(i % 3), Aggregation: pint.Path, Bits: 8, Frequency: 0.5,
			Static: &pint.StaticQuery{Code: pint.Hashed, Layers: encode.Hybrid(5 + i)}}
		if i%2 == 1 {
			q.Static = &pint.StaticQuery{Code: pint.Linear, ValueBits: 10, Layers: encode.XOR(1)}
		}
		c.Queries = append(c.Queries, q)
	}
	p, err := plan.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// otherLayers has paths in hashed values whose layers are not reservoir sampling and one more.
func otherLayers(t testing.TB) *plan.Plan {
	t.Helper()
	c := plan.Config{ID: 10, Seed: 4, Bits: 32}
	for i, layers := range [][]pint.Layer{encode.XOR(0.3), encode.XOR(1), encode.Baseline(), {{Share: 0.5, P: 0.2}, {Share: 0.5}}} {
		c.Queries = append(c.Queries, pint.Query{Name: fmt.Sprint("path", i), Value: pint.SwitchID, Aggregation: pint.Path, Bits: 8, Frequency: 1,
			Static: &pint.StaticQuery{Code: pint.Hashed, Layers: layers}})
	}
	p, err := plan.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBlockAgainstEncode: a block's digests are those that Encode returns, one
// by one, for blocks of every size, where all packets have the same values and where
// they have not.
func TestBlockAgainstEncode(t *testing.T) { encode.BothWays(t, testBlockAgainstEncode) }

func testBlockAgainstEncode(t *testing.T) {
	for _, p := range inFamilies(threeQueries(t), everyQuery(t), manyPaths(t), otherLayers(t), plan.Default()) {
		t.Run(fmt.Sprint(p.ID, " ", p.Hash), func(t *testing.T) {
			e, err := p.Compile()
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 2))
			var b encode.Block
			for round := range 20 * (encode.BlockSize + 1) {
				b.N, b.Same = round%(encode.BlockSize+1), 0
				var want [encode.BlockSize]uint64
				v := pinttest.Observed(r)
				hops := []uint64{pint.MaxHops, 20, 4}[round/3%3]
				for i := range b.N {
					if round%3 != 0 {
						v = pinttest.Observed(r)
					}
					b.ID[i], b.Hop[i], b.Digest[i] = r.Uint64(), 1+r.Uint64N(hops), r.Uint64()&(1<<p.Bits-1)
					for j := range v {
						if b.Values[j][i] = v[j]; round%6 == 0 { // the first entries are enough
							b.Values[j][i] ^= uint64(i)
							b.Same |= 1 << j
						}
					}
					want[i] = e.Encode(b.ID[i], int(b.Hop[i]), b.Digest[i], v)
				}
				e.EncodeBlock(&b)
				for i, w := range want[:b.N] {
					if b.Digest[i] != w {
						t.Fatalf("packet %d of %d, hop %d: digest %x, want %x", i, b.N, b.Hop[i], b.Digest[i], w)
					}
				}
			}
			b.N = encode.BlockSize
			if n := testing.AllocsPerRun(10, func() { e.EncodeBlock(&b) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// BenchmarkEncodeBlock is Encode's cost per packet in blocks: of packets that all have the same values, as those
// that arrived together and leave by one port, and of others.
func BenchmarkEncodeBlock(b *testing.B) {
	for _, p := range inFamilies(threeQueries(b), plan.Default()) {
		e, err := p.Compile()
		if err != nil {
			b.Fatal(err)
		}
		for _, values := range []string{"same", "others"} {
			b.Run(fmt.Sprint(p.ID, "/", p.Hash, "/", values), func(b *testing.B) {
				r := rand.New(rand.NewPCG(6, 3))
				block := encode.Block{N: encode.BlockSize}
				v := pinttest.Observed(r)
				for i := range encode.BlockSize {
					for j := range v {
						block.Values[j][i] = v[j]
					}
					if values == "others" {
						v = pinttest.Observed(r)
					}
					block.Hop[i] = 3
				}
				for b.Loop() {
					for i := range encode.BlockSize {
						block.ID[i] += 0x9e3779b97f4a7c15 * uint64(i+1)
					}
					e.EncodeBlock(&block)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/encode.BlockSize, "ns/packet")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
