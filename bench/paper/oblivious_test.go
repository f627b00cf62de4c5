package paper

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

func shortTrace(t *testing.T, packets int) *obliviousTrace {
	t.Helper()
	w, err := workload.Synthetic{Packets: packets, Flows: packets / packetsPerFlow, Seed: 3}.Trace()
	if err != nil {
		t.Fatal(err)
	}
	return newObliviousTrace(w, "")
}

// TestObserveIsExact: the shortcut of the simulation gives each switch the
// sample that it would have from all packets that pass it.
func TestObserveIsExact(t *testing.T) {
	trace := shortTrace(t, 40_000)
	tree, err := newFatTree()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []oblivious.Config{
		{Kind: oblivious.DUS, Unit: oblivious.Packets, Size: 100},
		{Kind: oblivious.UWRA, Unit: oblivious.Bytes, Size: 100},
		{Kind: oblivious.NWPS, Unit: oblivious.Bytes, Size: 3000},
	} {
		r, err := tree.run(context.Background(), trace, c, 7)
		if err != nil {
			t.Fatal(err)
		}
		paths, err := trace.paths(tree, 7)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := tree.newSamplers(c)
		if err != nil {
			t.Fatal(err)
		}
		for i := range trace.Len() {
			p := trace.At(i)
			for _, at := range paths[p.Flow].at[:paths[p.Flow].n] {
				plain[at].Add(p.ID, p.Bytes, &trace.keys[p.Flow])
			}
		}
		for at := range plain {
			want, got := plain[at].Sample(), r.samples[at]
			if got.Threshold != want.Threshold || got.Packets != want.Packets || got.Bytes != want.Bytes || !slices.Equal(got.Entries, want.Entries) {
				t.Fatalf("%v, switch %d: %d entries of %d packets, want %d of %d", c.Kind, at, len(got.Entries), got.Packets, len(want.Entries), want.Packets)
			}
		}
	}
}

// TestPaths: five switches between pods, three inside one, edge switches at
// both ends; three of the paper's routes, from an edge switch to a core switch.
func TestPaths(t *testing.T) {
	tree, err := newFatTree()
	if err != nil {
		t.Fatal(err)
	}
	paths, err := tree.paths(5000, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[uint8]int{}
	for _, p := range paths {
		seen[p.n]++
		if from, to := p.at[0], p.at[p.n-1]; from == to || !tree.graph.Nodes[from].Edge || !tree.graph.Nodes[to].Edge {
			t.Fatalf("path %v", p)
		}
	}
	// 3 of the 31 other edge switches are in the pod.
	if share := float64(seen[3]) / 5000; len(seen) != 2 || seen[5] == 0 || math.Abs(share-3.0/31) > 0.03 {
		t.Errorf("paths by length: %v", seen)
	}
	if paths, err = tree.paths(5000, 1, true); err != nil {
		t.Fatal(err)
	}
	used := map[uint8]int{}
	for _, p := range paths {
		used[p.at[2]]++
		if p.n != 3 || !tree.graph.Nodes[p.at[0]].Edge || !slices.Contains(tree.core, int(p.at[2])) {
			t.Fatalf("path %v to the core", p)
		}
	}
	if len(used) != 16 {
		t.Errorf("%d core switches of 16 are used", len(used))
	}
}

// TestVolumeSketches: sketches of parts merge into the sketch of all, a packet that comes again
// changes nothing, and counts and sums are within five standard errors, 1.04/sqrt(registers)
// of HyperLogLog and CKY, 1/sqrt(registers-2) of Lemiesz' sketch. Seeds are fixed; drawn anew, a comparison would
// fail with a chance of 6e-7.
func TestVolumeSketches(t *testing.T) {
	const registers = 4096
	for _, n := range []int{100, 3000, 50_000, 400_000} {
		count, sum, exp := newHyperLogLog(registers, 1, false), newHyperLogLog(registers, 1, true), newExpSketch(registers, 1)
		parts := []*hyperLogLog{newHyperLogLog(registers, 1, false), newHyperLogLog(registers, 1, false)}
		halves := []*expSketch{newExpSketch(registers, 1), newExpSketch(registers, 1)}
		bytes := 0.0
		for i := range n {
			id := hash.Uint64(4, uint64(i))
			w := uint32(60 + id%1400)
			bytes += float64(w)
			for _, s := range []volumeSketch{count, count, sum, exp, exp, parts[i%2], halves[i%2]} {
				s.add(id, w)
			}
			if i%3 == 0 {
				parts[1-i%2].add(id, w)
				halves[1-i%2].add(id, w)
			}
		}
		for i, r := range parts[1].registers {
			parts[0].registers[i] = max(parts[0].registers[i], r)
		}
		for i, r := range halves[1].registers {
			halves[0].registers[i] = min(halves[0].registers[i], r)
		}
		if !slices.Equal(parts[0].registers, count.registers) || !slices.Equal(halves[0].registers, exp.registers) {
			t.Errorf("%d packets: the merged sketch is not the one of all", n)
		}
		tolerance := 5 * 1.04 / math.Sqrt(registers)
		if e := count.estimate()/float64(n) - 1; math.Abs(e) > tolerance {
			t.Errorf("%d packets: error %.3f", n, e)
		}
		// A weight of CKY is in one register only, so a sum needs many more packets than
		// registers: the harmonic mean of uneven registers is too low.
		if e := sum.estimate()/bytes - 1; n > 50*registers && math.Abs(e) > tolerance {
			t.Errorf("%d packets: error of the sum %.3f", n, e)
		}
		if e := exp.estimate()/bytes - 1; math.Abs(e) > 5/math.Sqrt(registers-2) {
			t.Errorf("%d packets: error of Lemiesz' sum %.3f", n, e)
		}
	}
}

// TestObliviousFloors runs the figures on a short trace, where the sample is of
// the same share as in the long one. Seeds are fixed.
func TestObliviousFloors(t *testing.T) {
	if testing.Short() {
		t.Skip("TestObserveIsExact has the same sweep of fewer packets")
	}
	trace := shortTrace(t, 200_000)
	traces := []*obliviousTrace{trace}
	m, err := sweep(context.Background(), Options{Seed: 1, Quick: true}, traces, oblivious.Packets,
		[]netFigure{obliviousFig2, obliviousFig3, obliviousFig5, obliviousFig7})
	if err != nil {
		t.Fatal(err)
	}
	var rows table
	for _, f := range []netFigure{obliviousFig2, obliviousFig3, obliviousFig5, obliviousFig7} {
		f.rows(m, &rows, traces)
	}
	got := map[string]float64{}
	for _, r := range rows {
		got[r.Metric] = r.Value
	}
	for metric, bound := range map[string][2]float64{
		"merged.improved_over_simple.chi1e3": {7, 20},
		"rmse.simple_over_improved.chi1e3":   {2.2, 5},
		"rmse.simple_over_union.chi1e3":      {2.8, 8},
		"nwps.f1.chi1e4":                     {0.95, 1},
		"uwra.error.chi1e3":                  {0, 0.04},
		"hll.error.chi1e3":                   {0, 0.15},
	} {
		if v, ok := got[metric]; !ok || v < bound[0] || v > bound[1] {
			t.Errorf("%s is %v, not in %v", metric, v, bound)
		}
	}
}
