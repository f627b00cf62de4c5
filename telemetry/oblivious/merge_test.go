package oblivious

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirswitch/weir/telemetry/hash"
)

// TestSeenManyTimesCountsOnce: each packet goes through 1 to 5 of 12 switches,
// each of which has up to 3 workers and 3 epochs, some of which see nothing.
// The merged sample is exactly the one of an observer who saw all, in whatever
// order and nesting the parts are merged.
func TestSeenManyTimesCountsOnce(t *testing.T) {
	t.Parallel()
	for _, c := range kinds {
		for seed := range uint64(8) {
			if testing.Short() && seed%3 != 0 {
				continue // the smallest size, the largest and one between
			}
			c.Size, c.Seed = []int{5, 40, 300, 4000}[seed%4], seed
			t.Run(fmt.Sprintf("%s/%d", c.name(), seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 9))
				ps := packets(seed, 700+r.IntN(700), 40)
				const switches, workers, epochs = 12, 3, 3
				parts := make([]*Sampler, switches*workers*epochs)
				for i := range parts {
					parts[i] = sampler(t, c)
				}
				all, tw := sampler(t, c), &twin{c, map[Rank]Entry{}}
				for i, p := range ps {
					all.Add(p.id, p.bytes, &p.key)
					tw.add(&p)
					for _, sw := range r.Perm(switches)[:1+r.IntN(5)] {
						// Now and then a packet takes two workers, or lies across an edge of epochs.
						for range 1 + r.IntN(5)/4 {
							epoch := min(i*epochs/len(ps)+r.IntN(10)/9, epochs-1)
							parts[(sw*workers+r.IntN(workers))*epochs+epoch].Add(p.id, p.bytes, &p.key)
						}
					}
				}
				samples := make([]*Sample, len(parts))
				for i, p := range parts {
					samples[i] = p.Sample()
				}
				checkMerge(t, "simple", Simple, samples, r, func(*Sample) *Sample { return all.Sample() })
				checkMerge(t, "improved", Improved, samples, r, func(got *Sample) *Sample {
					least := maxRank
					for _, s := range samples {
						if s.Threshold.Compare(least) < 0 {
							least = s.Threshold
						}
					}
					return tw.upTo(least, 0)
				})
			})
		}
	}
}

// checkMerge merges all samples at once, and in random trees with parts taken
// twice, and compares with what is wanted.
func checkMerge(t *testing.T, name string, merge func(...*Sample) (*Sample, error), samples []*Sample, r *rand.Rand, want func(*Sample) *Sample) {
	t.Helper()
	before := make([]*Sample, len(samples))
	for i, s := range samples {
		before[i] = s.Clone()
	}
	got, err := merge(samples...)
	if err != nil {
		t.Fatal(err)
	}
	wanted := want(got)
	if !sameEntries(got, wanted) {
		t.Fatalf("%s: %d entries up to %v, want %d up to %v", name, len(got.Entries), got.Threshold, len(wanted.Entries), wanted.Threshold)
	}
	if err := got.check(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	var packets uint64
	for _, s := range samples {
		packets += s.Packets
	}
	if got.Packets != packets {
		t.Errorf("%s: %d packets in all, want %d", name, got.Packets, packets)
	}
	for range 3 {
		rest := slices.Clone(samples)
		r.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		for len(rest) > 1 {
			n := 2 + r.IntN(len(rest)-1)
			some := append(slices.Clone(rest[:n]), rest[r.IntN(n)])
			part, err := merge(some...)
			if err != nil {
				t.Fatal(err)
			}
			rest = append(rest[n:], part)
		}
		if !sameEntries(rest[0], got) {
			t.Errorf("%s: a tree of merges has %d entries up to %v, merging at once %d up to %v", name, len(rest[0].Entries), rest[0].Threshold, len(got.Entries), got.Threshold)
		}
	}
	for i := range samples {
		if !sameEntries(samples[i], before[i]) {
			t.Errorf("%s: merging changed sample %d", name, i)
		}
	}
}

// TestImprovedThenSimple: an improved merge has what a simple one needs.
func TestImprovedThenSimple(t *testing.T) {
	for _, c := range kinds {
		c.Size = 30
		ps := packets(2, 900, 20)
		var halves [2]*Sample
		for i := range halves {
			a := sampler(t, c).addAll(ps[i*450:][:300]).Sample()
			b := sampler(t, c).addAll(ps[i*450+150:][:300]).Sample()
			halves[i], _ = Improved(a, b)
			if len(halves[i].Entries) < c.Size {
				t.Errorf("%s: %d entries", c.name(), len(halves[i].Entries))
			}
		}
		got, err := Simple(halves[0], halves[1])
		if err != nil {
			t.Fatal(err)
		}
		if !sameEntries(got, sampler(t, c).addAll(ps).Sample()) {
			t.Errorf("%s: differs from the sample of all", c.name())
		}
	}
}

func TestMergeOfSizes(t *testing.T) {
	ps := packets(3, 500, 10)
	large := Config{Kind: NWPS, Unit: Bytes, Size: 100}
	small := large
	small.Size = 20
	a, b := sampler(t, large).addAll(ps[:300]).Sample(), sampler(t, small).addAll(ps[200:]).Sample()
	got, err := Simple(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if !sameEntries(got, sampler(t, small).addAll(ps).Sample()) {
		t.Error("a simple merge of sizes 100 and 20 is not the sample of size 20")
	}
}

func TestMergeRefuses(t *testing.T) {
	a := sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 4, Seed: 1}).Sample()
	union, err := Union(a)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*Sample{
		"kind":  sampler(t, Config{Kind: UWRA, Unit: Bytes, Size: 4, Seed: 1}).Sample(),
		"unit":  sampler(t, Config{Kind: NWPS, Unit: Packets, Size: 4, Seed: 1}).Sample(),
		"seed":  sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 4, Seed: 2}).Sample(),
		"hash":  sampler(t, Config{Kind: NWPS, Unit: Bytes, Size: 4, Seed: 1, Hash: hash.CRC}).Sample(),
		"union": union,
	} {
		for i, merge := range []func(...*Sample) (*Sample, error){Simple, Improved, Union} {
			if _, err := merge(a, b); !errors.Is(err, ErrUnlike) {
				t.Errorf("merge %d of another %s: %v", i, name, err)
			}
		}
	}
	if _, err := Simple(); !errors.Is(err, ErrUnlike) {
		t.Errorf("nothing merged: %v", err)
	}
}

// TestUnionLimits compares the union with its definition: an entry's limit is
// the largest threshold above its rank among the switches that its packet
// passed, known here from the packets and not from the samples.
func TestUnionLimits(t *testing.T) {
	c := Config{Kind: NWPS, Unit: Bytes, Size: 20}
	r := rand.New(rand.NewPCG(6, 6))
	ps := packets(6, 800, 10)
	parts := make([]*Sampler, 6)
	for i := range parts {
		parts[i] = sampler(t, c)
	}
	passed := map[uint64][]int{}
	for _, p := range ps {
		passed[p.id] = r.Perm(len(parts))[:1+r.IntN(3)]
		for _, i := range passed[p.id] {
			parts[i].Add(p.id, p.bytes, &p.key)
		}
	}
	samples := make([]*Sample, len(parts))
	for i := range parts {
		samples[i] = parts[i].Sample()
	}
	u, err := Union(samples...)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	tw := &twin{c, map[Rank]Entry{}}
	for _, p := range ps {
		tw.add(&p)
	}
	for _, e := range tw.upTo(maxRank, 0).Entries {
		limit := Rank{}
		for _, sw := range passed[e.Rank.ID] {
			if samples[sw].Threshold.Compare(limit) > 0 {
				limit = samples[sw].Threshold
			}
		}
		if e.Rank.Compare(limit) >= 0 {
			continue
		}
		if i >= len(u.Entries) || u.Entries[i] != e || u.Limits[i] != limit.Value {
			t.Fatalf("entry %d differs from %v, limit %v", i, e, limit)
		}
		i++
	}
	if i != len(u.Entries) || i < 2*c.Size {
		t.Errorf("%d entries, want %d, many more than %d", len(u.Entries), i, c.Size)
	}
}

// TestWorkersKeepCounts: samples of workers merge into one that says how often its packets were seen, at all workers together,
// and so may a smaller one of it; not if one of them does not know.
func TestWorkersKeepCounts(t *testing.T) {
	for _, c := range kinds {
		if c.Size = 40; c.Unit == Flows {
			continue
		}
		ps := packets(6, 500, 20)
		ps = append(ps, ps[:200]...)
		ps = append(ps, ps[:50]...)
		one := sampler(t, c).addAll(ps).Sample()
		workers := []*Sampler{sampler(t, c), sampler(t, c), sampler(t, c)}
		for i, p := range ps {
			workers[i%2].Add(p.id, p.bytes, &p.key) // the third has nothing
		}
		parts := []*Sample{workers[0].Sample(), workers[1].Sample(), workers[2].Sample()}
		got, err := Simple(parts...)
		if err != nil {
			t.Fatal(err)
		}
		if !got.counted() || !slices.Equal(got.Seen, one.Seen) || got.Classes != one.Classes || slices.Max(got.Seen) < 2 {
			t.Errorf("%s: seen %v of %v, want %v of %v", c.name(), got.Seen, got.Classes, one.Seen, one.Classes)
		}
		if got.Shrink(10); !got.counted() || !slices.Equal(got.Seen, one.Seen[:10]) {
			t.Errorf("%s: of the smaller sample %v", c.name(), got.Seen)
		}
		parts[1].Seen = nil
		if got, err = Simple(parts...); err != nil || got.counted() || got.Seen != nil || got.Classes != [classes]Totals{} {
			t.Errorf("%s: a worker does not know, and %v of %v, %v", c.name(), got.Seen, got.Classes, err)
		}
	}
}

// BenchmarkUnion joins the samples of three epochs of 1,000 switches, of which each packet passes five, and has their totals count.
func BenchmarkUnion(b *testing.B) {
	const switches, epochs, hops = 1000, 3, 5
	var all []*Sample
	by := make([][]*Sample, switches)
	r := rand.New(rand.NewPCG(1, 5))
	for range epochs {
		samplers := make([]*Sampler, switches)
		for sw := range samplers {
			samplers[sw] = sampler(b, Config{Kind: UWRA, Unit: Packets, Size: 2000, Seed: 3})
		}
		for p := range 14_000 {
			key := Key{Version: 4, Proto: 6, SrcPort: uint16(p)}
			id, row := r.Uint64(), r.IntN(switches/hops)
			for h := range hops {
				s := samplers[row*hops+h]
				s.Add(id, 1000, &key)
				s.CountOf(6, 1, 1000)
			}
		}
		for sw, s := range samplers {
			x := s.Sample()
			all, by[sw] = append(all, x), append(by[sw], x)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		u, err := Union(all...)
		if err != nil {
			b.Fatal(err)
		}
		u.Calibrate(by)
	}
}
