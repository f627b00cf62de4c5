package encode

import (
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
)

// The encodings of paths inside Encode are Static's.
func TestEncodePathIsStatic(t *testing.T) {
	for i, c := range []struct {
		static pint.StaticQuery
		bits   int
		kind   stepKind
	}{
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Hashed}, 8, stepHashed},
		{pint.StaticQuery{Layers: Baseline(), Code: pint.Hashed}, 1, stepHashed},
		{pint.StaticQuery{Layers: XOR(0.1), Code: pint.Hashed}, 8, stepHashed},
		{pint.StaticQuery{Layers: XOR(1), Code: pint.Hashed}, 8, stepHashed},
		{pint.StaticQuery{Layers: Hybrid(30), Code: pint.Hashed}, 64, stepHashed},
		{pint.StaticQuery{Layers: XOR(1), Code: pint.Linear, ValueBits: 10}, 8, stepLinear},
		{pint.StaticQuery{Layers: Interleaved(0.7, 1), Code: pint.Linear, ValueBits: 32}, 16, stepStatic},
		{pint.StaticQuery{Layers: MultiLayer(1000), Code: pint.Hashed}, 8, stepStatic},
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Hashed, Instances: 2}, 8, stepStatic},
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Hashed, Vector: true}, 8, stepStatic},
		{pint.StaticQuery{Layers: Hybrid(10), Code: pint.Fragmented, ValueBits: 10}, 8, stepStatic},
	} {
		q := &pint.Query{Name: "path", Aggregation: pint.Path, Bits: c.bits, Frequency: 1, Static: &c.static}
		seeds := SharedSeeds{uint64(2 * i), uint64(2*i + 1)}
		s, err := NewStep(q, hash.XX, uint64(i), seeds)
		if err != nil {
			t.Fatal(err)
		}
		e := New(1, c.bits, hash.XX, seeds, []Set{{Below: 1 << 32, Steps: []Step{s}}})
		if s.kind != c.kind {
			t.Fatalf("%d: kind %d", i, s.kind)
		}
		r := rand.New(rand.NewPCG(7, uint64(i)))
		for range 20000 {
			id, digest, value, hop := r.Uint64(), r.Uint64()&lowBits(c.bits), r.Uint64(), 1+r.IntN(pint.MaxHops)
			if got, want := e.Encode(id, hop, digest, &pint.Observed{pint.SwitchID: value}), s.Static.Encode(id, hop, digest, value); got != want {
				t.Fatalf("%d: hop %d of %#x: %#x, want %#x", i, hop, id, got, want)
			}
		}
	}
}

// families are those that the tests of the package go through.
var families = []hash.Family{hash.XX, hash.CRC}

func TestEncodersOfTwoPlans(t *testing.T) {
	var s Encoders
	if s.Newest() != nil || s.Of(0) != nil {
		t.Error("the zero value knows a plan")
	}
	a, b, c := &Encoder{id: 1}, &Encoder{id: 2}, &Encoder{id: 3}
	s = s.With(a).With(b)
	if s.Newest() != b || s.Of(1) != a || s.Of(2) != b || s.Of(3) != nil {
		t.Errorf("%+v", s)
	}
	again := &Encoder{id: 2}
	s = s.With(again)
	if s.Newest() != again || s.Of(1) != a {
		t.Errorf("%+v", s)
	}
	s = s.With(c)
	if s.Newest() != c || s.Of(2) != again || s.Of(1) != nil {
		t.Errorf("%+v", s)
	}
}
