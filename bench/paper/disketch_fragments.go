package paper

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// dsFragmentKinds are the kinds of fragments that estimate frequencies.
var dsFragmentKinds = []struct {
	name string
	kind disketch.Kind
}{{"countsketch", disketch.CountSketch}, {"countmin", disketch.CountMin}, {"tower", disketch.Tower}}

// disketchFragments measures kinds of fragments at equal memory: the error of frequencies along full-length paths in the fat
// tree with unequal memories, with n = 1 and the default decoder, and what a packet costs.
func disketchFragments(ctx context.Context, o Options) ([]Row, error) {
	all, err := dsScenarios(o)
	if err != nil {
		return nil, err
	}
	var t table
	sizes, placements := []int{8, 64, 512}, 5
	if o.Quick {
		sizes, placements = []int{8, 64}, 2
	}
	worst := map[string]float64{}
	for i := range all {
		s := &all[i]
		wanted := s.traffic.some(s.traffic.net.full)
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(all)*len(sizes), fmt.Sprintf("%s, %d KB", s.name, kb))
			e := dsErrors{}
			for p := range placements {
				seed := o.Seed + uint64(p)
				memory := dsMemories(len(s.traffic.net.graph.Nodes), kb<<10/s.shrink, true, seed)
				for _, k := range dsFragmentKinds {
					out, err := s.traffic.run(ctx, dsRun{kind: k.kind, how: dsFixed, memory: memory, seed: seed, wanted: wanted, ways: []disketch.Composition{disketch.Checked, disketch.Rows}})
					if err != nil {
						return nil, err
					}
					e[k.name] = append(e[k.name], s.traffic.squaresOf(out.estimate[0], wanted))
					e[k.name+".rows"] = append(e[k.name+".rows"], s.traffic.squaresOf(out.estimate[1], wanted))
				}
			}
			for _, k := range dsFragmentKinds {
				name := fmt.Sprintf("%s.%dKB.", s.name, kb)
				t.add(name+"rmse."+k.name, "packets", e.rmse(k.name), "n = 1, the default decoder", "lower")
				t.add(name+"rmse_rows."+k.name, "packets", e.rmse(k.name+".rows"), "n = 1, the median or the minimum", "lower")
				if k.kind == disketch.CountSketch {
					continue
				}
				t.add(name+k.name+"_over_countsketch", "ratio", e.over(k.name, "countsketch"), "RMSE of the default decoder", "lower")
				t.add(name+k.name+"_over_countsketch_rows", "ratio", e.over(k.name+".rows", "countsketch.rows"), "RMSE by the minimum, over that by the median", "lower")
				worst[k.name] = max(worst[k.name], e.over(k.name, "countsketch"))
			}
		}
	}
	least, which := math.Inf(1), ""
	for _, k := range dsFragmentKinds[1:] {
		x := worst[k.name]
		t.add(k.name+"_over_countsketch", "ratio", x, "the worst of all traces and memories", "lower")
		if x < least {
			least, which = x, k.name
		}
	}
	t.add("best_over_countsketch", "ratio", least, which, "lower")
	return t, t.fragmentCosts()
}

// fragmentCosts adds ns per packet, the least of interleaved rounds.
func (t *table) fragmentCosts() error {
	const rounds, packets = 9, 1 << 18
	flows, values := make([]uint64, 64), make([]int64, 64)
	counters := make([]*disketch.Counter, len(dsFragmentKinds))
	least := make([]float64, len(dsFragmentKinds))
	for i, k := range dsFragmentKinds {
		f, err := disketch.NewFragment(disketch.Config{Kind: k.kind, Memory: 128 << 10, Epochs: dsEpochs, Candidates: 256})
		if err != nil {
			return err
		}
		if counters[i], err = f.NewCounter(); err != nil {
			return err
		}
		counters[i].Begin(f.Schedule(0, 0), 0)
		least[i] = math.Inf(1)
	}
	for range rounds {
		for i, c := range counters {
			began := time.Now()
			for p := range packets / 64 {
				for j := range flows {
					flows[j], values[j] = uint64(p*64+j)*0x9e3779b97f4a7c15>>44, 1
				}
				c.AddBatch(flows, values, false)
			}
			least[i] = min(least[i], float64(time.Since(began).Nanoseconds())/packets)
		}
	}
	for i, k := range dsFragmentKinds {
		t.add("cost."+k.name, "ns", least[i], fmt.Sprintf("a packet, of 128 KB; the least of %d interleaved rounds", rounds), "lower")
		t.add("cost."+k.name+"_over_countsketch", "ratio", least[i]/least[0], "of the same rounds", "lower")
	}
	return nil
}
