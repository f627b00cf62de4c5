package paper

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// obliviousFig9 measures how often a packet at a switch updates its sample of
// chi = 10^4, as the trace goes on: entries that entered over packets that
// passed, in the part of the trace up to the position in the row's name, from
// the position before.
func obliviousFig9(ctx context.Context, o Options) ([]Row, error) {
	return obliviousUpdates(ctx, o, oblivious.Packets, "routing-oblivious Fig. 9: falls with the trace's length")
}

// obliviousFig10 is the same for bytes, where UWRA enters several bytes of a
// packet.
func obliviousFig10(ctx context.Context, o Options) ([]Row, error) {
	return obliviousUpdates(ctx, o, oblivious.Bytes, "routing-oblivious Fig. 10: falls with the trace's length")
}

// updateSteps are positions in a trace.
var updateSteps = []struct {
	name string
	at   int
}{
	{"at1e5", 1e5}, {"at3e5", 3e5}, {"at1e6", 1e6}, {"at3e6", 3e6}, {"at1e7", 1e7}, {"at2e7", 2e7}, {"at1e8", 1e8}, {"at2e8", 2e8},
}

func obliviousUpdates(ctx context.Context, o Options, unit oblivious.Unit, source string) ([]Row, error) {
	trace, err := obliviousSynthetic(o)
	if err != nil {
		return nil, err
	}
	tree, err := newFatTree()
	if err != nil {
		return nil, err
	}
	runs := obliviousRuns(o, 0)
	m := measures{}
	var mu sync.Mutex
	done := 0
	err = parallel(ctx, runs*len(byKinds), func(i int) error {
		kind, run := byKinds[i/runs], i%runs
		mu.Lock()
		o.progress(done, runs*len(byKinds), kind.String())
		mu.Unlock()
		c := oblivious.Config{Kind: kind, Unit: unit, Size: 10_000, Seed: hash.Uint64x2(o.Seed, uint64(kind), uint64(run))}
		probabilities, err := tree.updates(ctx, trace, c, hash.Uint64x2(o.Seed, 'P', uint64(run)))
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for step, p := range probabilities {
			m.add(fmt.Sprintf("%v.update_probability.%s", kind, step), run, runs, p)
		}
		done++
		return nil
	})
	if err != nil {
		return nil, err
	}
	var t table
	for _, kind := range byKinds {
		for _, step := range updateSteps {
			row := fmt.Sprintf("%v.update_probability.%s", kind, step.name)
			if runs, ok := m[row]; ok {
				mean, half := interval(runs)
				t.add(row, "updates per packet", mean, source, "lower")
				t.add(row+".ci95", "updates per packet", half, fmt.Sprintf("half the 95 %% confidence interval of the mean, %d runs", len(runs)), "neither")
			}
		}
	}
	return t, nil
}

// updates returns the share of updates between the steps that the trace has.
func (f *fatTree) updates(ctx context.Context, t *obliviousTrace, c oblivious.Config, pathSeed uint64) (map[string]float64, error) {
	paths, err := t.paths(f, pathSeed)
	if err != nil {
		return nil, err
	}
	samplers, err := f.newSamplers(c)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	var step, first int
	var before uint64
	note := func(at int) {
		if step >= len(updateSteps) || at < updateSteps[step].at {
			return
		}
		updates, passed := uint64(0), uint64(0)
		for _, s := range samplers {
			updates += s.Updates()
		}
		for i := first; i < at; i++ {
			passed += uint64(paths[t.At(i).Flow].n)
		}
		out[updateSteps[step].name] = float64(updates-before) / float64(passed)
		before, first = updates, at
		step++
	}
	if err := t.observe(ctx, paths, samplers, note); err != nil {
		return nil, err
	}
	note(t.Len())
	return out, nil
}
