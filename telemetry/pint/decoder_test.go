package pint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func mustDecoder(t testing.TB, s *Static, c DecoderConfig) *Decoder {
	t.Helper()
	d, err := NewDecoder(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// plans are the encodings and decoders that are put to the same trials. The
// values are below 64.
func plans(t testing.TB, top *Topology) map[string]*Decoder {
	return map[string]*Decoder{
		"dense": mustDecoder(t, mustStatic(t, StaticConfig{Bits: 8, Instances: 2, ValueBits: 6, Layers: Dense(Linear), Values: Linear, Seed: 1}), DecoderConfig{}),
		"bit":   mustDecoder(t, mustStatic(t, StaticConfig{Bits: 1, ValueBits: 6, Layers: Dense(Linear), Values: Linear, Seed: 2}), DecoderConfig{}),
		"paper": mustDecoder(t, mustStatic(t, StaticConfig{Bits: 8, Instances: 2, Layers: Hybrid(10), Values: Hashed, Seed: 3}), DecoderConfig{Values: top.Values()}),
		"peel":  mustDecoder(t, mustStatic(t, StaticConfig{Bits: 8, ValueBits: 8, Layers: MultiLayer(10), Seed: 4}), DecoderConfig{Peel: true}),
		"links": mustDecoder(t, mustStatic(t, StaticConfig{Bits: 8, Instances: 2, ValueBits: 6, Layers: Interleaved(0.6, 1), Values: Linear, Vector: true, Seed: 5}), DecoderConfig{Topology: top}),
	}
}

// TestDecoderLife follows flows through a whole life: decoded, certain, a
// damaged digest, a change of path, a change of length.
func TestDecoderLife(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	top := ringWithChords(t, 60, r)
	for name, d := range plans(t, top) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, 2))
			for range 20 {
				var f Flow
				path := randomPath(top, 8, r)
				send := func(n int, want Event) {
					t.Helper()
					for range n {
						id := r.Uint64()
						e := d.Add(&f, id, d.s.Digest(id, path), len(path))
						if f.Certain() && !slices.Equal(f.Path(), path) && e == Certain {
							t.Fatalf("%v is called %v, for certain", path, f.Path())
						}
						if e == want {
							return
						}
						if e == Restarted && want == Certain && f.Changes == 0 {
							t.Fatalf("%v after %d packets of one path", e, f.Packets)
						}
					}
					t.Fatalf("no event %v in %d packets", want, n)
				}
				send(3000, Certain)
				if f.Doubt() > 1e-6 || f.Left(3) != 1 || f.obs != nil {
					t.Fatalf("certain with doubt %v, %d left, %d digests", f.Doubt(), f.Left(3), len(f.obs))
				}
				before := slices.Clone(path)
				id := r.Uint64()
				for d.s.Digest(id, path) == 1 || d.Add(&f, id, d.s.Digest(id, path)^1, len(path)) != Stray {
					id++
				}
				if f.Certain() || !slices.Equal(f.Path(), path) {
					t.Fatalf("after a stray digest: certain %v, path %v", f.Certain(), f.Path())
				}
				send(3000, Certain)
				if f.Strays != 1 || f.Changes != 0 {
					t.Fatalf("%d strays and %d changes after one damaged digest", f.Strays, f.Changes)
				}
				for slices.Equal(path, before) {
					path = randomPath(top, 8, r)
				}
				send(3000, Changed)
				send(3000, Certain)
				if !slices.Equal(f.Path(), path) {
					t.Fatalf("%v is called %v", path, f.Path())
				}
				path = randomPath(top, 5, r)
				send(1, Changed)
				send(3000, Certain)
				if !slices.Equal(f.Path(), path) || f.Changes != 2 || f.Hops() != 5 {
					t.Fatalf("%v is called %v after %d changes", path, f.Path(), f.Changes)
				}
			}
		})
	}
}

// TestDecoderRetransmissions: the digest of one packet, seen often, makes
// nothing certain.
func TestDecoderRetransmissions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	top := ringWithChords(t, 60, r)
	for name, d := range plans(t, top) {
		var f Flow
		path := randomPath(top, 3, r)
		for i := range uint64(2000) {
			if d.Add(&f, i%2, d.s.Digest(i%2, path), 3); f.Certain() {
				t.Fatalf("%s: two packets make the path certain after %d copies", name, i)
			}
		}
	}
}

// TestDecoderBoundsMemory feeds noise.
func TestDecoderBoundsMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	top := ringWithChords(t, 60, r)
	for name, d := range plans(t, top) {
		d.max = 64
		var f Flow
		for range 5000 {
			if d.Add(&f, r.Uint64(), r.Uint64()&lowBits(d.s.Bits()), 9); f.Certain() {
				t.Fatalf("%s: noise is a path: %v", name, f.Path())
			}
			if len(f.obs) > 64 {
				t.Fatalf("%s: %d digests kept", name, len(f.obs))
			}
		}
	}
}

func TestDecoderIgnoresImpossibleHops(t *testing.T) {
	d := mustDecoder(t, mustStatic(t, codings["linear2x8"]), DecoderConfig{})
	var f Flow
	for _, hops := range []int{-1, 0, MaxHops + 1} {
		if e := d.Add(&f, 1, 2, hops); e != Quiet || f.Packets != 0 {
			t.Errorf("%d hops: %v", hops, e)
		}
	}
}

func TestNewDecoderRefuses(t *testing.T) {
	if _, err := NewDecoder(mustStatic(t, codings["hashed2x8"]), DecoderConfig{}); err == nil {
		t.Error("hashes without a set of values are taken")
	}
	if _, err := NewDecoder(mustStatic(t, codings["hybrid"]), DecoderConfig{Confidence: 1.5}); err == nil {
		t.Error("a confidence of 1.5 is taken")
	}
}

// TestEstablishedDoesNotAllocate: verification is the common case.
func TestEstablishedDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	top := ringWithChords(t, 60, r)
	for name, d := range plans(t, top) {
		var f Flow
		path := randomPath(top, 8, r)
		for id := uint64(0); !f.Certain(); id++ {
			d.Add(&f, id, d.s.Digest(id, path), len(path))
		}
		id := uint64(1 << 40)
		if n := testing.AllocsPerRun(100, func() { id++; d.Add(&f, id, d.s.Digest(id, path), len(path)) }); n != 0 {
			t.Errorf("%s: %v allocations per digest", name, n)
		}
	}
}

// FuzzDecoder: whatever arrives, the decoder neither panics nor keeps too much.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 2, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, in []byte) {
		top := ringWithChords(t, 20, rand.New(rand.NewPCG(6, 6)))
		for _, d := range plans(t, top) {
			d.max = 32
			var flow Flow
			for b := in; len(b) >= 4; b = b[4:] {
				d.Add(&flow, uint64(b[1]), uint64(b[2])|uint64(b[3])<<8, int(b[0]%40))
				if len(flow.obs) > 32 || flow.Hops() != len(flow.Path()) && flow.Path() != nil {
					t.Fatalf("%d digests, %d hops, path %v", len(flow.obs), flow.Hops(), flow.Path())
				}
			}
		}
	})
}

// BenchmarkDecode measures digests per second: established flows alone, and
// whole flows of 1000 packets, the decoding of their paths included.
func BenchmarkDecode(b *testing.B) {
	for _, c := range []struct {
		name   string
		hops   int
		config StaticConfig
	}{
		{"dense2x8/5", 5, StaticConfig{Bits: 8, Instances: 2, ValueBits: 7, Layers: Dense(Linear), Values: Linear}},
		{"dense2x8/25", 25, StaticConfig{Bits: 8, Instances: 2, ValueBits: 10, Layers: Dense(Linear), Values: Linear}},
		{"dense2x8/59", 59, StaticConfig{Bits: 8, Instances: 2, ValueBits: 10, Layers: Dense(Linear), Values: Linear}},
		{"hybrid2x8/5", 5, StaticConfig{Bits: 8, Instances: 2, Layers: Hybrid(5), Values: Hashed, Vector: true}},
		{"hybrid2x8/25", 25, StaticConfig{Bits: 8, Instances: 2, Layers: Hybrid(10), Values: Hashed, Vector: true}},
	} {
		s := mustStatic(b, c.config)
		values := upTo(128)
		path := make([]uint64, c.hops)
		r := rand.New(rand.NewPCG(7, 7))
		for i := range path {
			path[i] = values[r.IntN(len(values))]
		}
		const packets = 1000
		obs := observe(s, r, path, packets)
		d := mustDecoder(b, s, DecoderConfig{Values: values})
		b.Run("established/"+c.name, func(b *testing.B) {
			var f Flow
			for _, o := range obs {
				d.Add(&f, o.ID, o.Digest, c.hops)
			}
			i := 0
			for b.Loop() {
				o := &obs[i%packets]
				i++
				if d.Add(&f, o.ID, o.Digest, c.hops) != Quiet {
					b.Fatal("not established")
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mdigests/s")
		})
		b.Run("flow1000/"+c.name, func(b *testing.B) {
			for b.Loop() {
				var f Flow
				for _, o := range obs {
					d.Add(&f, o.ID, o.Digest, c.hops)
				}
				if !f.Certain() {
					b.Fatal("not decoded")
				}
			}
			b.ReportMetric(packets*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mdigests/s")
		})
	}
}
