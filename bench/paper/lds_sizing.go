package paper

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/lds"
)

// ldsSizing measures the numbers of Section 3: the share of flows that collide
// with at most 50 packets, in half as many cells as flows, of one row and of
// four. Computed rows are the paper's formula; simulated ones count collisions
// of all flows of the trace, under fresh hashes in each run.
func ldsSizing(ctx context.Context, o Options) ([]Row, error) {
	const small, cells = 50, ldsFlows / 2
	trace, err := ldsTrace(o, ldsSeconds)
	if err != nil {
		return nil, err
	}
	sizes := lds.Pareto{Scale: ldsScale, Shape: ldsShape}
	var t table
	for i, c := range []struct {
		name  string
		rows  int
		paper float64
	}{{"one_row", 1, 0.91}, {"four_rows", 4, 0.985}} {
		o.progress(i, 3, c.name)
		computed := lds.SmallCollisions(ldsFlows, cells, c.rows, 1, sizes.Tail(small))
		t.against(c.name+".computed", "ratio", computed, c.paper, "LDS Section 3.1; n/C = 2, Pareto of scale 0.4057 and shape 0.65", "higher")
		s, err := trials(ctx, o, "lds-sizing."+c.name, o.runs(200), func() (trial, error) {
			return collisionTrial(trace, c.rows, cells/c.rows, small), nil
		})
		if err != nil {
			return nil, err
		}
		t.against(c.name+".simulated", "ratio", s.mean(), c.paper, "LDS Section 3.1; the same over "+trace.Name, "higher")
	}
	o.progress(2, 3, "size")
	for _, losses := range []float64{0, 500} {
		s, err := lds.Size(lds.Target{Flows: ldsFlows, Sizes: sizes, Packets: 1000, Interference: 0.05, Failures: 0.015, Losses: losses})
		if err != nil {
			return nil, err
		}
		name, source := fmt.Sprintf("size.losses%.0f.", losses), "lds.Size: flows of 1,000 packets, 5 % interference, 1.5 % failures"
		t.add(name+"rows", "rows", float64(s.Config.Rows), source, "lower")
		t.add(name+"columns", "cells", float64(s.Config.Columns), source, "lower")
		t.add(name+"virtual", "cells", float64(s.Config.Virtual), source, "lower")
		t.add(name+"bytes", "bytes", float64(s.Bytes), source, "lower")
		t.add(name+"small_collisions", "ratio", s.SmallCollisions, source, "higher")
	}
	config := lds.DefaultConfig()
	t.against("cell_bytes", "bytes", float64(config.Bytes())/float64(config.Rows*config.Columns), 1e6/70_000,
		"a point's memory by its cells, with the table of full ones; LDS Section 5.1: 70,000 counters take about 1 MB", "lower")
	for _, rows := range []int{4, 1} {
		config.Rows, config.Columns = rows, 70_000/rows
		length, packets, err := recordLength(trace, config)
		if err != nil {
			return nil, err
		}
		t.add(fmt.Sprintf("record_bytes.%d_rows", rows), "bytes", float64(length), fmt.Sprintf("of a point and a second, 70,000 cells, the first %d packets of %s", packets, trace.Name), "lower")
	}
	return t, nil
}

// recordLength is the length of a point's record of the trace's first interval.
func recordLength(trace *workload.Trace, c lds.Config) (bytes, packets int, err error) {
	p, err := lds.NewPoint(c)
	if err != nil {
		return 0, 0, err
	}
	for ; packets < trace.Len() && trace.At(packets).TimeNs < c.IntervalNs; packets++ {
		k := trace.At(packets)
		p.Add(trace.Flows[k.Flow].Hash, k.ID, k.TimeNs, k.Bytes)
	}
	b, err := p.AppendBinary(nil)
	return len(b), packets, err
}

// collisionTrial puts all flows into rows of columns and returns the share of
// them that have a row where others bring at most small packets.
func collisionTrial(trace *workload.Trace, rows, columns int, small uint64) trial {
	cells := make([]uint64, rows*columns)
	return func(r *rand.Rand) (float64, error) {
		seeds := make([]uint64, rows)
		for i := range seeds {
			seeds[i] = r.Uint64()
		}
		clear(cells)
		at := func(row int, flow *workload.Flow) *uint64 {
			return &cells[row*columns+int(hash.Reduce(hash.Uint64(seeds[row], flow.Hash), uint64(columns)))]
		}
		for f := range trace.Flows {
			for row := range rows {
				*at(row, &trace.Flows[f]) += trace.Flows[f].Packets
			}
		}
		spared := 0
		for f := range trace.Flows {
			for row := range rows {
				if *at(row, &trace.Flows[f])-trace.Flows[f].Packets <= small {
					spared++
					break
				}
			}
		}
		return float64(spared) / float64(len(trace.Flows)), nil
	}
}
