package paper

import (
	"context"
	"fmt"
	"math"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
)

// dsUneven is a synthetic trace in which a share of the flows send all their packets of a period in one burst: the rest are
// spread evenly at random.
func dsUneven(o Options, share float64) (*workload.Trace, error) {
	return workload.Synthetic{Packets: 2_000_000 / dsAblationShrink, Flows: 200_000 / dsAblationShrink, Seconds: 5, Seed: o.Seed, Bursts: share}.Trace()
}

// disketchMap shows where subepochs pay: by memory and burstiness, the best fixed n, its error over that of n = 1, and what the
// chosen numbers of subepochs have. It is of the Count Sketch in the fat tree with unequal memories.
func disketchMap(ctx context.Context, o Options) ([]Row, error) {
	net, err := dsFatTree()
	if err != nil {
		return nil, err
	}
	var t table
	shares, sizes, placements := []float64{0, 0.01, 0.1, 1}, []int{1, 2, 4, 8, 16, 32, 64}, 5
	if o.Quick {
		shares, sizes, placements = []float64{0, 1}, []int{2, 8, 64}, 2
	}
	paying, chosen, autonomous := sample{}, sample{}, sample{}
	for i, share := range shares {
		trace, err := dsUneven(o, share)
		if err != nil {
			return nil, err
		}
		tr, err := newDSTraffic(net, trace, o.Seed)
		if err != nil {
			return nil, err
		}
		wanted := tr.some(net.full)
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(shares)*len(sizes), fmt.Sprintf("%g of the flows in bursts, %d KB", share, kb))
			e, subepochs := dsErrors{}, map[string]sample{}
			for p := range placements {
				seed := o.Seed + uint64(p)
				memory := dsMemories(len(net.graph.Nodes), kb<<10/dsAblationShrink, true, seed)
				run := dsRun{kind: disketch.CountSketch, memory: memory, seed: seed, trials: 1000, wanted: wanted, ways: []disketch.Composition{disketch.Checked}}
				try := func(name string, how dsHow, log uint8) error {
					run.how, run.log = how, log
					out, err := tr.run(ctx, run)
					if err == nil {
						subepochs[name] = append(subepochs[name], out.subepochs)
						e[name] = append(e[name], tr.squaresOf(out.estimate[0], wanted))
					}
					return err
				}
				for log := range uint8(disketch.SliceLog + 1) {
					if err := try(fmt.Sprintf("n%d", 1<<log), dsFixed, log); err != nil {
						return nil, err
					}
				}
				if err := try("autonomous", dsAutonomous, 0); err != nil {
					return nil, err
				}
				if err := try("coordinated", dsCoordinated, 0); err != nil {
					return nil, err
				}
			}
			best, least := 1, 1.0
			for log := 1; log <= disketch.SliceLog; log++ {
				if r := e.over(fmt.Sprintf("n%d", 1<<log), "n1"); r < least {
					best, least = 1<<log, r
				}
			}
			name := fmt.Sprintf("bursts%03d.%dKB.", int(share*100), kb)
			t.add(name+"best_n", "subepochs", float64(best), "of all fragments and epochs", "neither")
			t.add(name+"best_over_n1", "ratio", least, fmt.Sprintf("RMSE; n = 1 has %.4g packets", e.rmse("n1")), "lower")
			t.add(name+"autonomous_over_n1", "ratio", e.over("autonomous", "n1"), "RMSE", "lower")
			t.add(name+"coordinated_over_n1", "ratio", e.over("coordinated", "n1"), "RMSE", "lower")
			t.add(name+"subepochs.autonomous", "subepochs", subepochs["autonomous"].mean(), "mean n of the last epoch", "neither")
			t.add(name+"subepochs.coordinated", "subepochs", subepochs["coordinated"].mean(), "mean n of the last epoch", "neither")
			if least <= dsPays {
				paying = append(paying, math.Log(least))
				chosen = append(chosen, math.Log(e.over("coordinated", "n1")))
				autonomous = append(autonomous, math.Log(e.over("autonomous", "n1")))
			}
		}
	}
	if len(paying) > 0 {
		source := fmt.Sprintf("geometric mean over the %d cells of the map in which the best n has at most %g of the error of n = 1", len(paying), dsPays)
		t.add("best_over_n1", "ratio", math.Exp(paying.mean()), source, "lower")
		t.add("coordinated_over_n1", "ratio", math.Exp(chosen.mean()), source, "lower")
		t.add("autonomous_over_n1", "ratio", math.Exp(autonomous.mean()), source, "lower")
	}
	return t, nil
}

// dsPays is the ratio of errors below which subepochs pay.
const dsPays = 0.8
