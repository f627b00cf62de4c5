package paper

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/weirswitch/weir/bench"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/pint/encode"
	pintpath "github.com/weirswitch/weir/telemetry/pint/path"
)

// pintCRC compares the family of hashes that P4 targets have with XXH64, by what PINT needs of
// one. Rows are
//
//	crc_over_xxhash[.<scheme>].mean_packets.k<hops>     packets until a path is known, of crc over
//	crc_over_xxhash[.<scheme>].median_packets.k<hops>   those of xxhash; 1 is what it should be
//	<family>[.<scheme>].mean_packets.k<hops>            the same, by itself
//	<family>.pair_correlation.max_deviate               of g, over all pairs of 59 hops and ten seeds
//	<family>.reservoir_share.max_deviate                of the last writers of 2 to 59 hops from 1/k each
//
// Without a scheme it is the paper's of figure 5 for that length; linear is the built-in plan's, and
// hashed the paper's hashes of two times 8 bits, with 754 switches. Each run has a seed of its
// own, and both families the same paths and packets. The medians of ratios are grouped ones
// (sample.groupedMedian): whole packets are steps of 3 % at 32. A quick run has so many paths that
// luck alone takes none of the 30 ratios 3 % from 1, nor a full run 1 %, with a chance of
// 1e-6 (see crcRuns). Deviates are in standard deviations; of the largest
// of so many, 4 to 5 and about 3 are what chance gives.
func pintCRC(ctx context.Context, o Options) ([]Row, error) {
	var t table
	steps := len(crcSchemes)*len(crcLengths) + 2
	for i, s := range crcSchemes {
		for j, k := range crcLengths {
			o.progress(i*len(crcLengths)+j, steps, fmt.Sprintf("%s%d hops", s.prefix(), k))
			if err := s.compare(ctx, o, k, s.runs.of(o, j), &t); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range hashFamilies {
		o.progress(steps-2, steps, "independence of hops")
		pairs, shares, err := hopDeviates(ctx, o, f)
		if err != nil {
			return nil, err
		}
		t.add(f.String()+".pair_correlation.max_deviate", "standard deviations", pairs, "measured", bench.Lower)
		t.add(f.String()+".reservoir_share.max_deviate", "standard deviations", shares, "measured", bench.Lower)
	}
	return t, nil
}

var hashFamilies = []hash.Family{hash.XX, hash.CRC}

// crcScheme is an encoding of paths.
type crcScheme struct {
	name   string
	config func(hops int) encode.StaticConfig
	solver func(*encode.Static) pintpath.Solver
	values uint64 // how many there are
	runs   crcRuns
}

// crcLengths are those of paths, in hops.
var crcLengths = [...]int{5, 12, 25, 36, 59}

// crcRuns is how many paths a quick run decodes, by length; a full one decodes ten times as many. They
// keep the standard error of each ratio at 0.52 % or below (TestCRCRunsSuffice), at 0.165 % in a full run. For
// means it is sqrt(2/n) times the runs' standard deviation over their mean, which is 0.35 at 5 hops, 0.13
// at 59, and below 0.03 where values are linear; for medians m it is sqrt(2/n) / (2 f m), where a share
// f of the runs takes m packets. 3 % is 5.7 of the largest: luck alone exceeds that with 1.2e-8, so in
// one of 30 ratios with less than 4e-7. 1 % is 6 of a full run's.
type crcRuns [len(crcLengths)]int

func (n crcRuns) of(o Options, length int) int {
	if o.Quick {
		return n[length]
	}
	return 10 * n[length]
}

// crcSwitches is how many switches there are where values are hashed: as in the Kentucky network.
const crcSwitches = 754

var crcSchemes = []crcScheme{
	{"", func(k int) encode.StaticConfig {
		return encode.StaticConfig{Bits: wholeBits, ValueBits: wholeBits, Layers: encode.Hybrid(k)}
	}, pintpath.NewPeeling, 1 << wholeBits, crcRuns{13_000, 9_000, 3_800, 3_100, 2_400}},
	{"linear", func(int) encode.StaticConfig {
		return encode.StaticConfig{Bits: 8, ValueBits: 10, Layers: encode.Dense(pint.Linear), Values: pint.Linear}
	}, pintpath.NewElimination, 1 << 10, crcRuns{1_000, 1_000, 400, 400, 400}},
	{"hashed", func(int) encode.StaticConfig {
		return encode.StaticConfig{Bits: 8, Instances: 2, Layers: encode.Hybrid(10), Values: pint.Hashed}
	}, func(s *encode.Static) pintpath.Solver {
		all := make([]uint64, crcSwitches)
		for i := range all {
			all[i] = uint64(i)
		}
		return pintpath.NewCandidates(s, all)
	}, crcSwitches, crcRuns{12_000, 5_400, 3_100, 2_400, 1_700}},
}

func (s *crcScheme) prefix() string {
	if s.name == "" {
		return ""
	}
	return s.name + "."
}

// compare adds the rows of a length, of so many runs.
func (s *crcScheme) compare(ctx context.Context, o Options, k, runs int, t *table) error {
	var packets [2]sample
	for i, f := range hashFamilies {
		var err error
		if packets[i], err = s.packets(ctx, o, f, k, runs); err != nil {
			return err
		}
		t.add(fmt.Sprintf("%v.%smean_packets.k%d", f, s.prefix(), k), "packets", packets[i].mean(), "measured", bench.Lower)
	}
	over := func(what string, of func(sample) float64) {
		t.against(fmt.Sprintf("crc_over_xxhash.%s%s_packets.k%d", s.prefix(), what, k), "ratio", of(packets[1])/of(packets[0]), 1, "xxhash in the same run", bench.Neither)
	}
	over("mean", sample.mean)
	over("median", sample.groupedMedian)
	return nil
}

// packets decodes so many paths of k hops.
func (s *crcScheme) packets(ctx context.Context, o Options, f hash.Family, k, runs int) (sample, error) {
	c := s.config(k)
	c.Hash = f
	// The name does not depend on the family, so that runs have the same randomness.
	return trials(ctx, o, fmt.Sprint("crc.", s.prefix(), k), runs, func() (trial, error) { return s.trial(c, k), nil })
}

// trial decodes one path, under its own seed.
func (s *crcScheme) trial(c encode.StaticConfig, k int) trial {
	values := make([]uint64, k)
	path := func(r *rand.Rand) []uint64 {
		for i := range values {
			values[i] = r.Uint64N(s.values)
		}
		return values
	}
	return func(r *rand.Rand) (float64, error) {
		c.Seed = r.Uint64()
		static, err := encode.NewStatic(c)
		if err != nil {
			return 0, err
		}
		return decodeTrial(static, s.solver(static), path, 100*k+1000)(r)
	}
}

// hopDeviates are the largest deviates of pairs of hops, and of shares of the last writer.
func hopDeviates(ctx context.Context, o Options, f hash.Family) (pairs, shares float64, err error) {
	const seeds = 10
	n := 64 * o.runs(1<<12)
	r := rand.New(rand.NewPCG(hash.Bytes(o.Seed, []byte("hops")), 1))
	ids := make([]uint64, n)
	for range seeds {
		if ctx.Err() != nil {
			return 0, 0, ctx.Err()
		}
		for i := range ids {
			ids[i] = r.Uint64()
		}
		seed := r.Uint64()
		xor, err := encode.NewStatic(encode.StaticConfig{Bits: 8, ValueBits: 8, Layers: encode.XOR(0.5), Hash: f, Seed: seed})
		if err != nil {
			return 0, 0, err
		}
		reservoir, err := encode.NewStatic(encode.StaticConfig{Bits: 8, ValueBits: 8, Layers: encode.Baseline(), Hash: f, Seed: seed})
		if err != nil {
			return 0, 0, err
		}
		pairs, shares = max(pairs, pairDeviate(xor, ids)), max(shares, shareDeviate(reservoir, ids))
	}
	return pairs, shares, nil
}

// deviateHops is the longest path of the paper.
const deviateHops = 59

// pairDeviate is the largest deviate of how often two hops decide the same, which each do with
// probability 1/2.
func pairDeviate(s *encode.Static, ids []uint64) (most float64) {
	var scratch encode.Scratch
	words := len(ids) / 64
	by := make([]uint64, deviateHops*words) // by hop and packet
	for i, id := range ids {
		writers, _ := s.Writers(&scratch, id, 0, deviateHops)
		for w := writers[0]; w != 0; w &= w - 1 {
			by[bits.TrailingZeros64(w)*words+i/64] |= 1 << (i % 64)
		}
	}
	for a := range deviateHops {
		for b := range a {
			alike := 0
			for i := range words {
				alike += bits.OnesCount64(^(by[a*words+i] ^ by[b*words+i]))
			}
			n := float64(64 * words)
			most = max(most, math.Abs(float64(alike)-n/2)/math.Sqrt(n/4))
		}
	}
	return most
}

// shareDeviate is the largest deviate of the last writers of 2 to 59 hops from equal shares: of Pearson's
// statistic, by Wilson and Hilferty.
func shareDeviate(s *encode.Static, ids []uint64) (most float64) {
	var last [deviateHops + 1][deviateHops + 1]float64 // by length and hop
	for _, id := range ids {
		digest := uint64(0)
		for k := 1; k <= deviateHops; k++ {
			digest = s.Encode(id, k, digest, uint64(k))
			last[k][digest]++
		}
	}
	for k := 2; k <= deviateHops; k++ {
		want, x := float64(len(ids))/float64(k), 0.0
		for _, got := range last[k][1 : k+1] {
			x += (got - want) * (got - want) / want
		}
		dof := float64(k - 1)
		most = max(most, (math.Cbrt(x/dof)-(1-2/(9*dof)))/math.Sqrt(2/(9*dof)))
	}
	return most
}
