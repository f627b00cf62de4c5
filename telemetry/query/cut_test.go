package query

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirswitch/weir/telemetry/oblivious"
)

// Cut samples have the entries of the smallest ranks, as many as allowed, and their
// estimates remain right: over many seeds their mean is the truth, and bounds hold it.
func TestCut(t *testing.T) {
	for _, c := range []oblivious.Config{
		{Kind: oblivious.DUS, Unit: oblivious.Packets, Size: 500}, {Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 500}, {Kind: oblivious.UWRA, Unit: oblivious.Bytes, Size: 500},
	} {
		const runs, most, packets = 200, 300, 6000
		sum, squares, truth, of := 0.0, 0.0, 0.0, c.Unit
		for seed := range uint64(runs) {
			c.Seed = seed
			r := rand.New(rand.NewPCG(1, 2))
			var samplers [4]*oblivious.Sampler
			for i := range samplers {
				var err error
				if samplers[i], err = oblivious.NewSampler(c); err != nil {
					t.Fatal(err)
				}
			}
			truth = 0
			for i := range packets {
				id, bytes, k := r.Uint64(), 60+uint32(r.IntN(1400)), key(i%50)
				if truth++; of == oblivious.Bytes {
					truth += float64(bytes) - 1
				}
				samplers[i%4].Add(id, bytes, &k)
				samplers[(i/2)%4].Add(id, bytes, &k) // about half of the packets pass two
			}
			var samples []*oblivious.Sample
			for _, s := range samplers {
				samples = append(samples, s.Sample())
			}
			fewer := cut(samples, most)
			entries := 0
			for i, s := range fewer {
				entries += len(s.Entries)
				if n := len(s.Entries); n > 0 && s.Entries[n-1].Rank.Compare(s.Threshold) > 0 || len(samples[i].Entries) < n {
					t.Fatalf("sample %d has entries beyond its threshold", i)
				}
			}
			if entries > most || entries < most-3 {
				t.Fatalf("%d entries are left, %d are allowed", entries, most)
			}
			if same := cut(samples, 1<<20); same[0] != samples[0] {
				t.Fatal("samples that are small enough were cut")
			}
			union, err := oblivious.Union(fewer...)
			if err != nil {
				t.Fatal(err)
			}
			v, err := union.Volume(of, 1e-9)
			if err != nil {
				t.Fatal(err)
			}
			if !bounded(v).Holds(truth) {
				t.Errorf("%v, seed %d: %+v, truth %g", c.Kind, seed, v, truth)
			}
			sum += v.Value / runs
			squares += v.Value * v.Value / runs
		}
		// The mean of the runs is off by more than 5.5 deviations once in 2.6e7.
		deviation := math.Sqrt((squares - sum*sum) / runs)
		if math.Abs(sum-truth) > 5.5*deviation || deviation > 0.02*truth {
			t.Errorf("%v of %v: the mean is %g +- %g, truth %g", c.Kind, c.Unit, sum, deviation, truth)
		}
	}
}
