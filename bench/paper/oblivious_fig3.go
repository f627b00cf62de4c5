package paper

import (
	"context"
	"fmt"
	"math"
	"sync"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// obliviousFig3 measures the relative error of the number of packets in the
// network, beside HyperLogLog with as many registers as a sample has entries, and
// obliviousFig4 of the bytes, beside CKY.
// An entry takes 64 bytes or so and a register one: rows named hll_same_memory
// are of a sketch of 64 times as many registers. It counts well, and counts one
// thing only.
var (
	obliviousFig3 = volumeFigure("fig3", oblivious.Packets, "hll", "routing-oblivious Fig. 3: below HyperLogLog")
	obliviousFig4 = volumeFigure("fig4", oblivious.Bytes, "cky", "routing-oblivious Fig. 4: below CKY")
)

func volumeFigure(name string, unit oblivious.Unit, rival, source string) netFigure {
	return netFigure{
		name: name,
		unit: unit,
		measure: func(r *netRun) (out []outcome, err error) {
			truth := r.trace.volume(unit)
			for _, merged := range r.merged() {
				e, err := merged.sample.Volume(unit, 0.05)
				if err != nil {
					return nil, err
				}
				out = append(out, outcome{merged.name + ".error", math.Abs(e.Value-truth) / truth})
			}
			return out, nil
		},
		rival: func(ctx context.Context, o Options, m measures, traces []*obliviousTrace) error {
			return rivalVolume(ctx, o, m, traces, unit, rival)
		},
		rows: func(m measures, t *table, traces []*obliviousTrace) {
			m.rows(t, traces, []string{"uwra.error", "nwps.error", rival + ".error", "uwra_simple.error", "nwps_simple.error",
				"uwra_union.error", "nwps_union.error", rival + "_same_memory.error"}, "relative", source, "lower")
		},
	}
}

// registersPerEntry is how many registers fit into the memory of an entry.
const registersPerEntry = 64

// rivalVolume adds the rows of the rival. Each packet is counted once: merging
// the sketches of all switches gives the same.
func rivalVolume(ctx context.Context, o Options, m measures, traces []*obliviousTrace, unit oblivious.Unit, rival string) error {
	runs := obliviousRuns(o, 0)
	var mu sync.Mutex
	done := 0
	return parallel(ctx, runs*len(traces), func(i int) error {
		t, run := traces[i/runs], i%runs
		mu.Lock()
		o.progress(done, runs*len(traces), fmt.Sprintf("%s%s", t.prefix, rival))
		mu.Unlock()
		sketches := map[string]*hyperLogLog{}
		for _, size := range sampleSizes {
			seed := hash.Uint64x2(o.Seed, 'H', uint64(run))
			sketches[rival+".error."+size.name] = newHyperLogLog(size.size, seed)
			sketches[rival+"_same_memory.error."+size.name] = newHyperLogLog(size.size*registersPerEntry, seed)
		}
		all := make([]*hyperLogLog, 0, len(sketches))
		for _, s := range sketches {
			all = append(all, s)
		}
		if err := t.sketch(ctx, all, unit); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		truth := t.volume(unit)
		for row, s := range sketches {
			m.add(t.prefix+row, run, runs, math.Abs(s.estimate()-truth)/truth)
		}
		done++
		return nil
	})
}

// sketch passes the trace through sketches of one seed.
func (t *obliviousTrace) sketch(ctx context.Context, sketches []*hyperLogLog, unit oblivious.Unit) error {
	for i := range t.Len() {
		if i%windowSize == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p := t.At(i)
		h, rank := sketches[0].draw(p.ID)
		if unit == oblivious.Bytes {
			h, rank = sketches[0].drawWeight(p.ID, p.Bytes)
		}
		for _, s := range sketches {
			s.raise(h, rank)
		}
	}
	return nil
}
