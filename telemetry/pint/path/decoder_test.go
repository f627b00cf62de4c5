package path_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	"github.com/weirswitch/weir/telemetry/pint/path"
	"github.com/weirswitch/weir/telemetry/pint/sink"
)

// TestDecoderAgainstSlow follows random flows, half of which change their path, with
// decoders and their twins that have the slow solvers: events, candidates left, path and certainty are the
// same after every digest.
func TestDecoderAgainstSlow(t *testing.T) {
	top := path.RingWithChords(t, 60, rand.New(rand.NewPCG(31, 4)))
	for _, c := range []struct {
		name    string
		static  encode.StaticConfig
		decoder sink.DecoderConfig
		slow    func(*encode.Static) path.Solver
	}{
		{"paper", encode.StaticConfig{Bits: 8, Instances: 2, Layers: encode.Hybrid(10), Values: pint.Hashed, Seed: 3}, sink.DecoderConfig{Values: top.Values()},
			func(s *encode.Static) path.Solver { return path.NewSlowCandidates(s, top.Values()) }},
		{"links", encode.StaticConfig{Bits: 8, Instances: 2, ValueBits: 6, Layers: encode.Interleaved(0.6, 1), Values: pint.Linear, Vector: true, Seed: 5}, sink.DecoderConfig{Topology: top},
			func(s *encode.Static) path.Solver { return path.NewSlowWalks(s, top) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := path.MustStatic(t, c.static)
			fast, err := sink.NewDecoder(s, c.decoder)
			if err != nil {
				t.Fatal(err)
			}
			c.decoder.Solver = c.slow(s)
			slow, err := sink.NewDecoder(s, c.decoder)
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(31, 5))
			decoded, restarted := 0, 0
			paths := 150
			if testing.Short() {
				paths = 60
			}
			for range paths {
				hops := 1 + r.IntN(14)
				values := path.RandomPath(top, hops, r)
				change := r.IntN(16)
				var a, b sink.Flow
				for i := range 60 {
					if i == change && r.IntN(2) == 0 {
						values = path.RandomPath(top, hops, r)
					}
					id := r.Uint64()
					digest := s.Digest(new(encode.Scratch), id, values)
					e := fast.Add(&a, id, digest, hops)
					if want := slow.Add(&b, id, digest, hops); e != want {
						t.Fatalf("digest %d of %v: %v, the slow decoder %v", i, values, e, want)
					}
					switch e {
					case sink.Decoded, sink.Certain:
						decoded++
					case sink.Restarted:
						restarted++
					}
					same := slices.Equal(a.Path(), b.Path()) && a.Doubt() == b.Doubt()
					for hop := 1; hop <= hops; hop++ {
						same = same && a.Left(hop) == b.Left(hop)
					}
					if !same {
						t.Fatalf("digest %d of %v:\n%+v, the slow decoder\n%+v", i, values, a, b)
					}
				}
			}
			if decoded < paths/5 || restarted < paths/30 {
				t.Errorf("%d paths and %d restarts test little", decoded, restarted)
			}
		})
	}
}
