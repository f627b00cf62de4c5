package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/workload"
	ldsstage "github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/telemetry/lds"
)

// ldsRecordFlows are the flows in an interval of which records do not have all cells by default.
var ldsRecordFlows = []int{17_000, 100_000}

const ldsPacketsPerFlow = ldsPackets / ldsFlows

// What a rival's record has of a flow, in bytes, if its numbers are as short as those of LDS: its key, 13, a sum of times, 5, and a count, 1; or the key,
// first and last time, 4 each, and a count.
const (
	meanRecordBytes = 19
	mpeRecordBytes  = 22
)

// ldsRecords measures what records cost that are short: errors of all flows, and of those of over 1,000 packets, in one interval of the default length, as users
// get them. whole has all cells that the point had without a bound, and lds what record_bytes leaves. lds_over_best_rival is next to rivals whose records are as
// long, whole_over_best_rival next to those with as much memory, of which nothing is left out of records.
func ldsRecords(ctx context.Context, o Options, t *table) error {
	stage, runs := ldsstage.DefaultConfig(), 5
	if o.Quick {
		runs = 1
	}
	for _, flows := range ldsRecordFlows {
		prefix := fmt.Sprintf("records_%d.", flows)
		if o.Quick {
			flows /= 10 // the cells, too
			stage.RecordBytes = ldsstage.DefaultConfig().RecordBytes / 10
		}
		trace, err := workload.Synthetic{Packets: flows * ldsPacketsPerFlow, Flows: flows, Shape: ldsSmallShape, Largest: ldsLargest, Seconds: 1, Seed: o.Seed}.Trace()
		if err != nil {
			return err
		}
		small := &crossings{trace: trace}
		delays := newQueueing(o.Seed, trace.DurationNs)
		c := lds.Config{Rows: 4, Columns: stage.Columns, Virtual: 1}
		if o.Quick {
			c.Columns /= 10
		}
		memory := c.Bytes()
		schemes := []ldsRival{
			{"lds", func(x *crossing) ([]flowError, error) {
				return x.recordErrors(c.WithRows(c.BestRows(float64(flows), stage.RecordBytes)), stage.RecordBytes)
			}},
			{"whole", func(x *crossing) ([]flowError, error) {
				return x.recordErrors(c.WithRows(c.BestRows(float64(flows), 0)), math.MaxInt32)
			}},
		}
		const rivals = 2 // the first of them
		for _, of := range []struct {
			name      string
			mean, mpe int
		}{{"record", stage.RecordBytes / meanRecordBytes, stage.RecordBytes / mpeRecordBytes}, {"memory", memory / meanEntryBytes, memory / mpeEntryBytes}} {
			schemes = append(schemes,
				ldsRival{of.name + "_sampled", func(x *crossing) ([]flowError, error) { return x.sampledErrors(of.mean), nil }},
				ldsRival{of.name + "_mpe", func(x *crossing) ([]flowError, error) {
					return x.mpeErrors(x.samplingRate(float64(of.mpe))), nil
				}},
				ldsRival{of.name + "_rli", func(x *crossing) ([]flowError, error) { return x.rliErrors(1000, of.mean), nil }})
		}
		schemes = append(schemes, ldsRival{"average", func(x *crossing) ([]flowError, error) { return x.averageErrors(), nil }})
		var jobs []ldsJob
		for _, s := range schemes {
			jobs = append(jobs, ldsJob{fmt.Sprintf("records, %d flows, %s", flows, s.name), func(seed uint64) ([]flowError, error) { return s.run(small.of(delays, 0, seed)) }})
		}
		results, err := ldsMeasure(ctx, o, runs, jobs)
		if err != nil {
			return err
		}
		source := fmt.Sprintf("median errors of all flows in 1.07 s; memory: %d bytes each, record: %d bytes each; %s; %s", memory, stage.RecordBytes, delays, trace.Name)
		var medians []float64
		for _, r := range results {
			medians = append(medians, pick(r, 1, math.MaxUint64).quantile(0.5))
		}
		if medians[1] > 0 { // else more than half of the flows are exact
			t.add(prefix+"lds_over_whole", "ratio", medians[0]/medians[1], source, "lower")
		}
		t.add(prefix+"lds_over_best_rival", "ratio", medians[0]/slices.Min(append(medians[rivals:rivals+3:rivals+3], medians[len(medians)-1])), source, "lower")
		if best := slices.Min(medians[rivals+3:]); best > 0 { // else the memory has room for all flows of a rival
			t.add(prefix+"whole_over_best_rival", "ratio", medians[1]/best, source, "lower")
		}
		for i, s := range schemes {
			all, large := pick(results[i], 1, math.MaxUint64), pick(results[i], 1001, math.MaxUint64)
			t.add(prefix+s.name+".median_error", "ratio", all.quantile(0.5), source, "lower")
			t.add(prefix+s.name+".within10", "ratio", all.within(0.1), source, "higher")
			if len(large) == 0 {
				continue // a quick run has few flows, and by some seeds none that is so long
			}
			t.add(prefix+s.name+".median_error.over_1000", "ratio", large.quantile(0.5), source, "lower")
			t.add(prefix+s.name+".within10.over_1000", "ratio", large.within(0.1), source, "higher")
		}
	}
	return nil
}

// recordErrors is ldsErrors by records of so many bytes at the most, of one interval of the default length.
func (x *crossing) recordErrors(c lds.Config, bytes int) ([]flowError, error) {
	c.IntervalNs = 1 << ldsstage.DefaultConfig().IntervalBits
	sender, receiver, err := x.points(c, nil)
	if err != nil {
		return nil, err
	}
	points := []*lds.Point{sender, receiver}
	for i, p := range points {
		form, _, _ := p.AppendWithin(nil, bytes)
		if len(form) > bytes {
			return nil, fmt.Errorf("a record of %d bytes, want at most %d", len(form), bytes)
		}
		if points[i], err = lds.Decode(form, c.Hash); err != nil {
			return nil, err
		}
	}
	d, err := lds.Subtract(points[0], points[1], lds.AnyDelay())
	if err != nil {
		return nil, err
	}
	return x.errors(func(f int) (float64, bool) {
		e := d.Flow(x.trace.Flows[f].Hash, 1, lds.Balanced)
		return e.MeanNs, e.HasDelay
	}), nil
}
