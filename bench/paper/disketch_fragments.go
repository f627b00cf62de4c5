package paper

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// dsFragmentKind is a kind of fragments, and its name in rows.
type dsFragmentKind struct {
	name string
	kind disketch.Kind
}

// dsFragmentKinds are those that estimate frequencies.
var dsFragmentKinds = []dsFragmentKind{
	{"countsketch", disketch.CountSketch}, {"countmin", disketch.CountMin}, {"conservative", disketch.Conservative},
	{"sumax", disketch.SuMax}, {"tower", disketch.Tower},
}

// dsCarried is a row of Count-Min on each switch, where a packet carries the least of what its flow's cells so far hold: SuMax over the
// switches of a path. It would be a field of PINT's shim.
const dsCarried = "sumax_carried"

// carried measures that, with n = 1.
func (t *dsTraffic) carried(memory []int, seed uint64, wanted func(*dsFlow) bool) []float64 {
	estimate := make([]float64, len(t.flows))
	cells := make([][]uint32, len(memory))
	for i, m := range memory {
		cells[i] = make([]uint32, m/4)
	}
	var packets []dsPacket
	for e := range t.at {
		cell := func(node, flow uint64) *uint32 {
			c := cells[node]
			return &c[hash.Reduce(hash.Uint64x4(seed, uint64(e), node, flow, 'c'), uint64(len(c)))]
		}
		packets = packets[:0]
		for node := range t.at[e] {
			clear(cells[node])
			for _, p := range t.at[e][node] {
				if t.flows[p.flow].path[0] == uint64(node) {
					packets = append(packets, p)
				}
			}
		}
		slices.SortStableFunc(packets, func(a, b dsPacket) int { return cmp.Compare(a.tick, b.tick) })
		for _, p := range packets {
			least := uint32(math.MaxUint32 - 1)
			for _, node := range t.flows[p.flow].path {
				c := cell(node, t.flows[p.flow].hash)
				*c = max(*c, min(*c+1, least))
				least = min(least, *c)
			}
		}
		for i := range t.flows {
			if !wanted(&t.flows[i]) {
				continue
			}
			least := uint32(math.MaxUint32)
			for _, node := range t.flows[i].path {
				least = min(least, *cell(node, t.flows[i].hash))
			}
			estimate[i] += float64(least)
		}
	}
	return estimate
}

// disketchFragments measures kinds of fragments at equal memory: the error of frequencies along full-length paths in the fat
// tree with unequal memories, with n = 1 and the default decoder, and what a packet costs.
func disketchFragments(ctx context.Context, o Options) ([]Row, error) {
	all, err := dsScenarios(o)
	if err != nil {
		return nil, err
	}
	var t table
	sizes, placements := []int{8, 64, 512}, 10
	if o.Quick {
		sizes, placements = []int{8, 64}, 2
	}
	worst := map[string]float64{}
	kinds := dsFragmentKinds[1:]
	for i := range all {
		s := &all[i]
		wanted := s.traffic.some(s.traffic.net.full)
		for j, kb := range sizes {
			o.progress(i*len(sizes)+j, len(all)*len(sizes), fmt.Sprintf("%s, %d KB", s.name, kb))
			e, other := dsErrors{}, dsOthers{}
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
				e[dsCarried] = append(e[dsCarried], s.traffic.squaresOf(s.traffic.carried(memory, seed, wanted), wanted))
				if err := s.traffic.others(ctx, &other, memory, seed, wanted); err != nil {
					return nil, err
				}
			}
			name := fmt.Sprintf("%s.%dKB.", s.name, kb)
			for _, k := range dsFragmentKinds {
				low, high := e.interval(k.name)
				t.within(name+"rmse."+k.name, "packets", e.rmse(k.name), (high-low)/2, fmt.Sprintf("n = 1, the default decoder; 95 %% of %d placements: %.4g to %.4g", placements, low, high), "lower")
				t.add(name+"rmse_rows."+k.name, "packets", e.rmse(k.name+".rows"), "n = 1, the median or the minimum", "lower")
				if k.kind == disketch.CountSketch {
					continue
				}
				t.add(name+k.name+"_over_countsketch", "ratio", e.over(k.name, "countsketch"), "RMSE of the default decoder", "lower")
				t.add(name+k.name+"_over_countsketch_rows", "ratio", e.over(k.name+".rows", "countsketch.rows"), "RMSE by the minimum, over that by the median", "lower")
				if e.rmse("countsketch") > dsNoError {
					worst[k.name] = max(worst[k.name], e.over(k.name, "countsketch"))
				}
			}
			t.add(name+"rmse_rows."+dsCarried, "packets", e.rmse(dsCarried), "rows of Count-Min that a packet raises no further than the least so far, which it carries; the minimum", "lower")
			t.add(name+dsCarried+"_over_tower_rows", "ratio", e.over(dsCarried, "tower.rows"), "what a field of the shim would gain over what one switch knows", "lower")
			t.add(name+"false_positives.bloom", "ratio", other.positives.mean(), "epochs in which a flow that was not there is said to have been", "lower")
			t.add(name+"error.hyperloglog", "ratio", other.flows.mean(), "relative error of the number of flows in the window", "lower")
		}
	}
	least, which := math.Inf(1), ""
	for _, k := range kinds {
		x := worst[k.name]
		t.add(k.name+"_over_countsketch", "ratio", x, fmt.Sprintf("the worst of the traces and memories at which Count Sketch errs by more than %g packets", dsNoError), "lower")
		if x < least {
			least, which = x, k.name
		}
	}
	t.add("best_over_countsketch", "ratio", least, which, "lower")
	return t, t.fragmentCosts()
}

// dsOthers are the errors of the kinds that count nothing of a flow, one of each placement.
type dsOthers struct{ positives, flows sample }

// others runs rows of bits and of registers, which have n = 1.
func (t *dsTraffic) others(ctx context.Context, o *dsOthers, memory []int, seed uint64, wanted func(*dsFlow) bool) error {
	out, err := t.run(ctx, dsRun{kind: disketch.Bloom, how: dsFixed, memory: memory, seed: seed, wanted: wanted, ways: []disketch.Composition{disketch.Rows}})
	if err != nil {
		return err
	}
	present := make([]float64, len(t.flows))
	distinct := 0
	for e := range t.at {
		seen := map[uint32]bool{}
		for node := range t.at[e] {
			for _, p := range t.at[e][node] {
				if !seen[p.flow] {
					seen[p.flow] = true
					present[p.flow]++
				}
			}
		}
	}
	wrong, absent := 0.0, 0.0
	for i := range t.flows {
		if present[i] > 0 {
			distinct++
		}
		if wanted(&t.flows[i]) {
			wrong += out.estimate[0][i] - present[i]
			absent += dsWindow - present[i]
		}
	}
	o.positives = append(o.positives, wrong/max(absent, 1))
	var all disketch.Records
	run := dsRun{kind: disketch.HyperLogLog, how: dsFixed, memory: memory, seed: seed}
	for i := range memory {
		f, err := disketch.NewFragment(run.config(i))
		if err != nil {
			return err
		}
		c, err := f.NewCounter()
		if err != nil {
			return err
		}
		for e := range t.at {
			c.Begin(f.Begin(uint64(e)), 0)
			for _, p := range t.at[e][i] {
				c.Add(t.flows[p.flow].hash, 1, false)
			}
			if err := all.Add(c.Record().Clone()); err != nil {
				return err
			}
		}
	}
	a, err := all.Flows(disketch.Query{To: dsWindow})
	o.flows = append(o.flows, math.Abs(a.Value/float64(distinct)-1))
	return err
}

// fragmentCosts adds ns per packet, the least of interleaved rounds.
func (t *table) fragmentCosts() error {
	const rounds, packets = 9, 1 << 18
	flows, values := make([]uint64, 64), make([]int64, 64)
	kinds := append(slices.Clone(dsFragmentKinds), dsFragmentKind{"bloom", disketch.Bloom}, dsFragmentKind{"hyperloglog", disketch.HyperLogLog})
	counters := make([]*disketch.Counter, len(kinds))
	least := make([]float64, len(kinds))
	for i, k := range kinds {
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
	for i, k := range kinds {
		t.add("cost."+k.name, "ns", least[i], fmt.Sprintf("a packet, of 128 KB; the least of %d interleaved rounds", rounds), "lower")
		t.add("cost."+k.name+"_over_countsketch", "ratio", least[i]/least[0], "of the same rounds", "lower")
	}
	return nil
}
