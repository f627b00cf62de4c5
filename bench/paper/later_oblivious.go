package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// laterUnits are the units in which samples are drawn.
var laterUnits = []oblivious.Unit{oblivious.Packets, oblivious.Bytes, oblivious.Both}

// laterLargest is how many of the largest flows laterOblivious asks for.
const laterLargest = 20

// laterOblivious compares samples by packets, by bytes, and by both (after Cohen's multi-objective samples), of as many entries, in the fat tree by the union of
// samples: how far packets and bytes of the whole network are off, and of the largest flows the root of the mean of squared relative
// errors. over_own is an error over that of the sample in the unit that is asked for, both means of all runs; of a user who asks in both units the worse of the
// two counts, worst_over_own.
func laterOblivious(ctx context.Context, o Options) ([]Row, error) {
	if o.Packets == 0 {
		o.Packets = 400_000
	}
	all, err := obliviousTraces(o)
	if err != nil {
		return nil, err
	}
	traces := all[:2] // the third has the first's packets
	tree, err := newFatTree()
	if err != nil {
		return nil, err
	}
	const size = 1000
	runs := o.runs(60)
	largest := map[*obliviousTrace][]int{}
	for _, t := range traces {
		largest[t] = t.largest(laterLargest)
	}
	var mu sync.Mutex
	m, done := measures{}, 0
	jobs := len(traces) * len(laterUnits)
	err = parallel(ctx, runs*jobs, func(i int) error {
		run, t, unit := i/jobs, traces[i%jobs/len(laterUnits)], laterUnits[i%len(laterUnits)]
		c := oblivious.Config{Kind: oblivious.NWPS, Unit: unit, Size: size, Seed: hash.Uint64x2(o.Seed, 'W', uint64(run))}
		r, err := tree.run(ctx, t, c, c.Seed)
		if err != nil {
			return err
		}
		bytes, err := r.recordBytes()
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		m.add(fmt.Sprintf("%srecord_bytes_per_entry.%v", t.prefix, unit), run, runs, bytes)
		for _, of := range []oblivious.Unit{oblivious.Packets, oblivious.Bytes} {
			volume, err := r.union.Volume(of, 0.05)
			if err != nil {
				return err
			}
			m.add(fmt.Sprintf("%svolume.%v.by_%v", t.prefix, of, unit), run, runs, math.Abs(volume.Value/t.volume(of)-1))
			squares := 0.0
			for _, f := range largest[t] {
				e, err := r.union.Frequency(of, 0.05, t.keys[f])
				if err != nil {
					return err
				}
				square := e.Value/t.size(f, of) - 1
				squares += square * square
			}
			m.add(fmt.Sprintf("%sflows.%v.by_%v", t.prefix, of, unit), run, runs, math.Sqrt(squares/laterLargest))
		}
		done++
		o.progress(done, runs*jobs, fmt.Sprintf("%s%v", t.prefix, unit))
		return nil
	})
	if err != nil {
		return nil, err
	}
	var t table
	source := fmt.Sprintf("fat tree, %d entries, union, %d runs", size, runs)
	for _, trace := range traces {
		for _, what := range []string{"volume", "flows"} {
			for _, unit := range laterUnits {
				worst := 0.0
				for _, of := range laterUnits[:2] {
					row := fmt.Sprintf("%s%s.%v", trace.prefix, what, of)
					mean, half := interval(m[fmt.Sprintf("%s.by_%v", row, unit)])
					own, _ := interval(m[fmt.Sprintf("%s.by_%v", row, of)])
					worst = max(worst, mean/own)
					t.add(fmt.Sprintf("%s.by_%v", row, unit), "relative", mean, source, "lower")
					t.add(fmt.Sprintf("%s.by_%v.ci95", row, unit), "relative", half, "half the 95 % confidence interval of the mean", "neither")
					t.add(fmt.Sprintf("%s.by_%v.over_own", row, unit), "ratio", mean/own, source, "lower")
				}
				t.add(fmt.Sprintf("%s%s.by_%v.worst_over_own", trace.prefix, what, unit), "ratio", worst, source, "lower")
			}
		}
		for _, unit := range laterUnits {
			row := fmt.Sprintf("%srecord_bytes_per_entry.%v", trace.prefix, unit)
			mean, _ := interval(m[row])
			t.add(row, "bytes", mean, source, "lower")
		}
	}
	return t, nil
}

// largest are the n flows of the most packets.
func (t *obliviousTrace) largest(n int) []int {
	order := make([]int, len(t.Flows))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(t.packets[b], t.packets[a]) })
	return order[:min(n, len(order))]
}
