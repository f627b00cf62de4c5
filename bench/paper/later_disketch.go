package paper

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// laterEpochs are the epochs whose records laterDiSketch measures.
const laterEpochs = 2

// laterDiSketch compares fragments of TowerSketch (SketchINT, ICNP 2021), which DiSketch has beside Count Sketch, at equal memory and at equal bytes of records: these are what an
// epoch's records of all switches take as they are sent, compressed. A fragment of a tower has as much memory then as makes its records no longer. Errors are of frequencies along
// full-length paths in the fat tree, with n = 1 and the default decoder.
func laterDiSketch(ctx context.Context, o Options) ([]Row, error) {
	all, err := dsScenarios(o)
	if err != nil {
		return nil, err
	}
	var t table
	sizes, placements := []int{8, 64}, 10
	if o.Quick {
		placements = 2
	}
	for i := range all {
		s := &all[i]
		wanted := s.traffic.some(s.traffic.net.full)
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(all)*len(sizes), fmt.Sprintf("%s, %d KB", s.name, kb))
			e := dsErrors{}
			bytes, memories := map[string]float64{}, map[string]float64{}
			for p := range placements {
				run := dsRun{kind: disketch.CountSketch, how: dsFixed, seed: o.Seed + uint64(p), wanted: wanted, ways: []disketch.Composition{disketch.Checked}}
				run.memory = dsMemories(len(s.traffic.net.graph.Nodes), kb<<10/s.shrink, true, run.seed)
				tower, short := run, run
				tower.kind, short.kind = disketch.Tower, disketch.Tower
				most, err := s.traffic.recordBytes(&run)
				if err != nil {
					return nil, err
				}
				if err := s.traffic.shorten(&short, most); err != nil {
					return nil, err
				}
				for _, x := range []struct {
					name string
					run  dsRun
				}{{"countsketch", run}, {"tower", tower}, {"tower_same_record", short}} {
					out, err := s.traffic.run(ctx, x.run)
					if err != nil {
						return nil, err
					}
					n, err := s.traffic.recordBytes(&x.run)
					if err != nil {
						return nil, err
					}
					e[x.name] = append(e[x.name], s.traffic.squaresOf(out.estimate[0], wanted))
					bytes[x.name] += n / float64(placements)
					for _, m := range x.run.memory {
						memories[x.name] += float64(m) / float64(placements)
					}
				}
			}
			name := fmt.Sprintf("%s.%dKB.", s.name, kb)
			for _, system := range []string{"countsketch", "tower", "tower_same_record"} {
				low, high := e.interval(system)
				t.within(name+"rmse."+system, "packets", e.rmse(system), (high-low)/2, fmt.Sprintf("n = 1, the default decoder; 95 %% of %d placements: %.4g to %.4g", placements, low, high), "lower")
				t.add(name+"record."+system, "bytes", bytes[system], "an epoch's, of all 80 switches", "lower")
				t.add(name+"memory."+system, "bytes", memories[system], "of all 80 switches", "neither")
			}
			t.addRatio(name+"tower_over_countsketch", e, "tower", "countsketch", "RMSE at equal memory", "lower")
			t.addRatio(name+"tower_over_countsketch_same_record", e, "tower_same_record", "countsketch", "RMSE at equal bytes of records", "lower")
			t.add(name+"record.tower_over_countsketch", "ratio", bytes["tower"]/bytes["countsketch"], "bytes of records at equal memory", "lower")
		}
	}
	return t, nil
}

// shorten makes the records of a run at most so long, by its memory, but for what is less than a hundredth.
func (t *dsTraffic) shorten(run *dsRun, most float64) error {
	full := run.memory
	low, high := 0.05, 4.
	for high-low > 0.01*low {
		share := (low + high) / 2
		run.memory = scaled(full, share)
		n, err := t.recordBytes(run)
		if err != nil {
			return err
		}
		if n > most {
			high = share
		} else {
			low = share
		}
	}
	run.memory = scaled(full, low)
	return nil
}

func scaled(memory []int, by float64) []int {
	out := make([]int, len(memory))
	for i, m := range memory {
		out[i] = max(int(float64(m)*by)&^63, 64)
	}
	return out
}

// recordBytes is what the records of all switches take in an epoch, as they are sent, of a run with n = 1.
func (t *dsTraffic) recordBytes(run *dsRun) (float64, error) {
	sizes := make([]int, len(run.memory))
	err := dsEach(len(run.memory), func(i int) error {
		f, err := disketch.NewFragment(run.config(i))
		if err != nil {
			return err
		}
		counter, err := f.NewCounter()
		if err != nil {
			return err
		}
		for e := range uint64(laterEpochs) {
			counter.Begin(f.Schedule(e, 0), 0)
			for _, p := range t.at[e][i] {
				flow := &t.flows[p.flow]
				counter.Add(flow.hash, 1, len(flow.path) == 1)
			}
			form, err := counter.Record().AppendBinary(nil)
			if err != nil {
				return err
			}
			sizes[i] += len(form)
		}
		return nil
	})
	sum := 0
	for _, n := range sizes {
		sum += n
	}
	return float64(sum) / laterEpochs, err
}
