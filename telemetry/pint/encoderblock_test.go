package pint

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// manyPaths has many sets of static queries, hashed and linear.
func manyPaths(t testing.TB) *Plan {
	t.Helper()
	c := PlanConfig{ID: 9, Seed: 3, Bits: 32}
	for i := range 6 {
		q := Query{Name: fmt.Sprint("path", i), Value: Value(i % 3), Aggregation: Path, Bits: 8, Frequency: 0.5,
			Static: &StaticQuery{Code: Hashed, Layers: Hybrid(5 + i)}}
		if i%2 == 1 {
			q.Static = &StaticQuery{Code: Linear, ValueBits: 10, Layers: XOR(1)}
		}
		c.Queries = append(c.Queries, q)
	}
	p, err := NewPlan(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// otherLayers has paths in hashed values whose layers are not reservoir sampling and one more.
func otherLayers(t testing.TB) *Plan {
	t.Helper()
	c := PlanConfig{ID: 10, Seed: 4, Bits: 32}
	for i, layers := range [][]Layer{XOR(0.3), XOR(1), Baseline(), {{Share: 0.5, P: 0.2}, {Share: 0.5}}} {
		c.Queries = append(c.Queries, Query{Name: fmt.Sprint("path", i), Value: SwitchID, Aggregation: Path, Bits: 8, Frequency: 1,
			Static: &StaticQuery{Code: Hashed, Layers: layers}})
	}
	p, err := NewPlan(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestBlockAgainstEncode: a block's digests are those that Encode returns, one
// by one, for blocks of every size, where all packets have the same values and where
// they have not.
func TestBlockAgainstEncode(t *testing.T) { bothWays(t, testBlockAgainstEncode) }

func testBlockAgainstEncode(t *testing.T) {
	for _, p := range inFamilies(threeQueries(t), everyQuery(t), manyPaths(t), otherLayers(t), DefaultPlan()) {
		t.Run(fmt.Sprint(p.ID, " ", p.Hash), func(t *testing.T) {
			e, err := Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 2))
			var b Block
			for round := range 20 * (BlockSize + 1) {
				b.N = round % (BlockSize + 1)
				var want [BlockSize]uint64
				v := observedAt(r)
				for i := range b.N {
					if round%3 != 0 {
						v = observedAt(r)
					}
					b.ID[i], b.Hop[i], b.Digest[i] = r.Uint64(), 1+r.Uint64N(MaxHops), r.Uint64()&lowBits(p.Bits)
					for j := range v {
						b.Values[j][i] = v[j]
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
			b.N = BlockSize
			if n := testing.AllocsPerRun(10, func() { e.EncodeBlock(&b) }); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

// BenchmarkEncodeBlock is Encode's cost per packet in blocks.
func BenchmarkEncodeBlock(b *testing.B) {
	for _, p := range inFamilies(threeQueries(b), DefaultPlan()) {
		b.Run(fmt.Sprint(p.ID, "/", p.Hash), func(b *testing.B) {
			e, err := Compile(p)
			if err != nil {
				b.Fatal(err)
			}
			r := rand.New(rand.NewPCG(6, 3))
			block := Block{N: BlockSize}
			for i := range BlockSize {
				for j, v := range observedAt(r) {
					block.Values[j][i] = v
				}
				block.Hop[i] = 3
			}
			for b.Loop() {
				for i := range BlockSize {
					block.ID[i] += 0x9e3779b97f4a7c15 * uint64(i+1)
				}
				e.EncodeBlock(&block)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/BlockSize, "ns/packet")
			b.ReportMetric(0, "ns/op")
		})
	}
}
