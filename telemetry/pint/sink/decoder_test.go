package sink

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/path"
)

func mustDecoder(t testing.TB, s *encode.Static, c DecoderConfig) *Decoder {
	t.Helper()
	d, err := NewDecoder(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustStatic(t testing.TB, c encode.StaticConfig) *encode.Static {
	t.Helper()
	s, err := encode.NewStatic(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// plans are the encodings and decoders that are put to the same trials. The
// values are below 64.
func plans(t testing.TB, top *path.Topology) map[string]*Decoder {
	peeled := mustStatic(t, encode.StaticConfig{Bits: 8, ValueBits: 8, Layers: encode.MultiLayer(10), Seed: 4})
	return map[string]*Decoder{
		"dense": mustDecoder(t, mustStatic(t, encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 6, Layers: encode.Dense(pint.Linear), Values: pint.Linear, Seed: 1}), DecoderConfig{}),
		"bit":   mustDecoder(t, mustStatic(t, encode.StaticConfig{Bits: 1, ValueBits: 6, Layers: encode.Dense(pint.Linear), Values: pint.Linear, Seed: 2}), DecoderConfig{}),
		"paper": mustDecoder(t, mustStatic(t, encode.StaticConfig{Bits: 8, Instances: 2, Layers: encode.Hybrid(10), Values: pint.Hashed, Seed: 3}), DecoderConfig{Values: top.Values()}),
		"peel":  mustDecoder(t, peeled, DecoderConfig{Solver: path.NewPeeling(peeled)}),
		"links": mustDecoder(t, mustStatic(t, encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 6, Layers: encode.Interleaved(0.6, 1), Values: pint.Linear, Vector: true, Seed: 5}), DecoderConfig{Topology: top}),
	}
}

// randomNetwork makes a ring of n switches with chords, and a function that draws paths without a loop.
func randomNetwork(t testing.TB, n int, r *rand.Rand) (*path.Topology, func(hops int, r *rand.Rand) []uint64) {
	t.Helper()
	values, next := make([]uint64, n), make([][]uint64, n)
	var links [][2]uint64
	for i := range n {
		values[i] = uint64(i)
		links = append(links, [2]uint64{uint64(i), uint64((i + 1) % n)}, [2]uint64{uint64(r.IntN(n)), uint64(r.IntN(n))})
	}
	top, err := path.NewTopology(values, links)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l[0] != l[1] {
			next[l[0]], next[l[1]] = append(next[l[0]], l[1]), append(next[l[1]], l[0])
		}
	}
	return top, func(hops int, r *rand.Rand) []uint64 {
		for {
			walk := []uint64{r.Uint64N(uint64(n))}
			for len(walk) < hops {
				to := next[walk[len(walk)-1]]
				v := to[r.IntN(len(to))]
				if slices.Contains(walk, v) {
					break
				}
				walk = append(walk, v)
			}
			if len(walk) == hops {
				return walk
			}
		}
	}
}

// TestDecoderLife follows flows through a whole life: decoded, certain, a
// damaged digest, a change of path, a change of length.
func TestDecoderLife(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	top, randomPath := randomNetwork(t, 60, r)
	for name, d := range plans(t, top) {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, 2))
			for range 20 {
				var f Flow
				path := randomPath(8, r)
				send := func(n int, want Event) {
					t.Helper()
					for range n {
						id := r.Uint64()
						e := d.Add(&f, id, d.s.Digest(&d.lanes, id, path), len(path))
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
				for d.s.Digest(&d.lanes, id, path) == 1 || d.Add(&f, id, d.s.Digest(&d.lanes, id, path)^1, len(path)) != Stray {
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
					path = randomPath(8, r)
				}
				send(3000, Changed)
				send(3000, Certain)
				if !slices.Equal(f.Path(), path) {
					t.Fatalf("%v is called %v", path, f.Path())
				}
				path = randomPath(5, r)
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
	top, randomPath := randomNetwork(t, 60, r)
	for name, d := range plans(t, top) {
		var f Flow
		path := randomPath(3, r)
		for i := range uint64(2000) {
			if d.Add(&f, i%2, d.s.Digest(&d.lanes, i%2, path), 3); f.Certain() {
				t.Fatalf("%s: two packets make the path certain after %d copies", name, i)
			}
		}
	}
}

// TestDecoderBoundsMemory feeds noise.
func TestDecoderBoundsMemory(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	top, _ := randomNetwork(t, 60, r)
	for name, d := range plans(t, top) {
		d.max = 64
		var f Flow
		for range 5000 {
			if d.Add(&f, r.Uint64(), r.Uint64()&(1<<d.s.DigestBits()-1), 9); f.Certain() {
				t.Fatalf("%s: noise is a path: %v", name, f.Path())
			}
			if len(f.obs) > 64 {
				t.Fatalf("%s: %d digests kept", name, len(f.obs))
			}
		}
	}
}

func TestDecoderIgnoresImpossibleHops(t *testing.T) {
	d := mustDecoder(t, mustStatic(t, encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 10, Layers: encode.Dense(pint.Linear), Values: pint.Linear, Seed: 10}), DecoderConfig{})
	var f Flow
	for _, hops := range []int{-1, 0, pint.MaxHops + 1} {
		if e := d.Add(&f, 1, 2, hops); e != Quiet || f.Packets != 0 {
			t.Errorf("%d hops: %v", hops, e)
		}
	}
}

func TestNewDecoderRefuses(t *testing.T) {
	if _, err := NewDecoder(mustStatic(t, encode.StaticConfig{Bits: 8, Instances: 2, Layers: encode.Hybrid(10), Values: pint.Hashed, Seed: 8}), DecoderConfig{}); err == nil {
		t.Error("hashes without a set of values are taken")
	}
	if _, err := NewDecoder(mustStatic(t, encode.StaticConfig{Bits: 32, ValueBits: 32, Layers: encode.Hybrid(25), Seed: 3}), DecoderConfig{Confidence: 1.5}); err == nil {
		t.Error("a confidence of 1.5 is taken")
	}
}

// TestEstablishedDoesNotAllocate: verification is the common case.
func TestEstablishedDoesNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	top, randomPath := randomNetwork(t, 60, r)
	for name, d := range plans(t, top) {
		var f Flow
		path := randomPath(8, r)
		for id := uint64(0); !f.Certain(); id++ {
			d.Add(&f, id, d.s.Digest(&d.lanes, id, path), len(path))
		}
		id := uint64(1 << 40)
		if n := testing.AllocsPerRun(100, func() { id++; d.Add(&f, id, d.s.Digest(&d.lanes, id, path), len(path)) }); n != 0 {
			t.Errorf("%s: %v allocations per digest", name, n)
		}
	}
}

// FuzzDecoder: whatever arrives, the decoder neither panics nor keeps too much.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{5, 1, 2, 3, 4, 5, 6, 7, 8, 9, 5, 2, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, in []byte) {
		top, _ := randomNetwork(t, 20, rand.New(rand.NewPCG(6, 6)))
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
		config encode.StaticConfig
	}{
		{"dense2x8/5", 5, encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 7, Layers: encode.Dense(pint.Linear), Values: pint.Linear}},
		{"dense2x8/25", 25, encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 10, Layers: encode.Dense(pint.Linear), Values: pint.Linear}},
		{"dense2x8/59", 59, encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 10, Layers: encode.Dense(pint.Linear), Values: pint.Linear}},
		{"hybrid2x8/5", 5, encode.StaticConfig{Bits: 8, Instances: 2, Layers: encode.Hybrid(5), Values: pint.Hashed, Vector: true}},
		{"hybrid2x8/25", 25, encode.StaticConfig{Bits: 8, Instances: 2, Layers: encode.Hybrid(10), Values: pint.Hashed, Vector: true}},
	} {
		s := mustStatic(b, c.config)
		values, hops := make([]uint64, 128), make([]uint64, c.hops)
		for i := range values {
			values[i] = uint64(i)
		}
		r := rand.New(rand.NewPCG(7, 7))
		for i := range hops {
			hops[i] = values[r.IntN(len(values))]
		}
		const packets = 1000
		var obs [packets]path.Observation
		for i := range obs {
			id := r.Uint64()
			obs[i] = path.Observation{ID: id, Digest: s.Digest(new(encode.Scratch), id, hops)}
		}
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
