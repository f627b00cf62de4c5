package encode

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// The encodings of paths inside Encode and EncodeBlock are Static's.
func TestEncodePathIsStatic(t *testing.T) {
	for i, c := range []struct {
		static pint.StaticQuery
		bits   int
		kind   columnKind
	}{
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Hashed}, 8, columnHashed},
		{pint.StaticQuery{Layers: Baseline(), Code: pint.Hashed}, 1, columnHashed},
		{pint.StaticQuery{Layers: XOR(0.1), Code: pint.Hashed}, 8, columnAny},
		{pint.StaticQuery{Layers: XOR(1), Code: pint.Hashed}, 8, columnAny},
		{pint.StaticQuery{Layers: Hybrid(30), Code: pint.Hashed}, 64, columnHashed},
		{pint.StaticQuery{Layers: XOR(1), Code: pint.Linear, ValueBits: 10}, 8, columnLinear},
		{pint.StaticQuery{Layers: Interleaved(0.7, 1), Code: pint.Linear, ValueBits: 32}, 16, columnAny},
		{pint.StaticQuery{Layers: MultiLayer(1000), Code: pint.Hashed}, 8, columnAny},
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Hashed, Instances: 2}, 8, columnAny},
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Hashed, Vector: true}, 8, columnAny},
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Fragmented, ValueBits: 10}, 8, columnAny},
	} {
		q := &pint.Query{Name: "path", Aggregation: pint.Path, Bits: c.bits, Frequency: 1, Static: &c.static}
		seeds := SharedSeeds{uint64(2 * i), uint64(2*i + 1)}
		s, err := NewStep(q, hash.XX, uint64(i), seeds)
		if err != nil {
			t.Fatal(err)
		}
		e := New(1, hash.XX, seeds, []Set{{Below: 1 << 32, Steps: []Step{s}}})
		if e.columns[0].kind != c.kind {
			t.Fatalf("%d: kind %d", i, e.columns[0].kind)
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		block := Block{N: BlockSize}
		for range 300 {
			var want [BlockSize]uint64
			for k := range want {
				id, digest, value, hop := r.Uint64(), r.Uint64()&lowBits(c.bits), r.Uint64(), 1+r.IntN(pint.MaxHops)
				block.ID[k], block.Digest[k], block.Hop[k], block.Values[pint.SwitchID][k] = id, digest, uint64(hop), value
				want[k] = s.Static.Encode(id, hop, digest, value)
				if got := e.Encode(id, hop, digest, &pint.Observed{pint.SwitchID: value}); got != want[k] {
					t.Fatalf("%d: hop %d of %#x: %#x, want %#x", i, hop, id, got, want[k])
				}
			}
			if e.EncodeBlock(&block); block.Digest != want {
				t.Fatalf("%d: digests %#x of a block, want %#x", i, block.Digest, want)
			}
		}
	}
}

// families are those that the tests of the package go through.
var families = []hash.Family{hash.XX, hash.CRC}

// Every hop gets its share of the packets, and the sink knows which one wrote.
func TestSamplerIsUniform(t *testing.T) {
	const hops, packets = 10, 200000
	r := rand.New(rand.NewPCG(14, 1))
	s := Step{family: hash.XX, seed: 5}
	var got [hops + 1]int
	for range packets {
		got[s.lastWriter(r.Uint64(), hops)]++
	}
	chi := 0.0
	for hop := 1; hop <= hops; hop++ {
		d := float64(got[hop]) - packets/hops
		chi += d * d / (packets / hops)
	}
	if chi > 33.7 { // 1e-4 of chi squared with 9 degrees of freedom
		t.Errorf("chi squared %v: %v", chi, got)
	}
}
