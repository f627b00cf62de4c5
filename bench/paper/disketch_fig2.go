package paper

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/weirswitch/weir/bench/workload"
	"github.com/weirswitch/weir/telemetry/disketch"
	"github.com/weirswitch/weir/telemetry/hash"
)

// fig2SRAM is the memory of the programmable switch that figure 2 has in mind: 12 stages
// of 80 blocks of 16 KB.
const fig2SRAM = 12 * 80 * 16 << 10

// fig2Wanted is the F1 score to reach.
const fig2Wanted = 0.99

// disketchFig2 measures figure 2: the memory that a whole sketch on one switch
// takes to find the heavy hitters of 30 s with an F1 score of 99 %. The trace is
// the synthetic one at the same rate; heavy is a ten-thousandth of the packets; each
// sketch has 5 rows.
func disketchFig2(ctx context.Context, o Options) ([]Row, error) {
	trace, err := workload.Synthetic{Packets: 12_000_000 / o.dsShrink(), Flows: 1_200_000 / o.dsShrink(), Seconds: 30, Seed: o.Seed}.Trace()
	if err != nil {
		return nil, err
	}
	var t table
	t.add("packets", "packets", float64(trace.Len()), trace.Name, "neither")
	sketches := []struct {
		name string
		kind disketch.Kind // 0: SuMax
	}{{"cs", disketch.CountSketch}, {"cms", disketch.CountMin}, {"um", disketch.UnivMon}, {"sumax", 0}}
	for i, s := range sketches {
		o.progress(i, len(sketches), s.name)
		// Halving in steps of 2^(1/4) between 4 KB and 256 MB.
		low, high := 0, 64
		for low < high {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			mid := (low + high) / 2
			score, err := fig2Score(trace, s.kind, fig2Bytes(mid), o.Seed)
			if err != nil {
				return nil, err
			}
			if score >= fig2Wanted {
				high = mid
			} else {
				low = mid + 1
			}
		}
		bytes := fig2Bytes(high)
		t.add(s.name+".memory", "bytes", float64(bytes), "for an F1 score of 99 %", "lower")
		t.add(s.name+".share_of_sram", "ratio", float64(bytes)/fig2SRAM, fmt.Sprintf("of %d bytes; Fig. 2 shows bars of 0.2 to 0.9 for another trace", fig2SRAM), "neither")
	}
	return t, nil
}

func fig2Bytes(step int) int { return int(4096 * math.Pow(2, float64(step)/4)) }

// fig2Score is the F1 score of a sketch of five rows.
func fig2Score(trace *workload.Trace, kind disketch.Kind, bytes int, seed uint64) (float64, error) {
	estimate, err := fig2Sketch(trace, kind, bytes, seed)
	if err != nil {
		return 0, err
	}
	var s f1Score
	threshold := dsHeavyShare * float64(trace.Len())
	for i := range trace.Flows {
		s.count(float64(trace.Flows[i].Packets) >= threshold, estimate(trace.Flows[i].Hash) >= threshold)
	}
	return s.value(), nil
}

// fig2Sketch fills a sketch; the returned function reads it.
func fig2Sketch(trace *workload.Trace, kind disketch.Kind, bytes int, seed uint64) (func(uint64) float64, error) {
	if kind == 0 {
		s := newSuMax(aggregatedRows, bytes, seed)
		for i := range trace.Len() {
			s.add(trace.Flows[trace.At(i).Flow].Hash)
		}
		return s.estimate, nil
	}
	var rows []dsRow
	for i := range uint64(aggregatedRows) {
		r, err := newDSRow(kind, bytes/aggregatedRows, seed, i)
		if err != nil {
			return nil, err
		}
		for f := range trace.Flows {
			r.Add(trace.Flows[f].Hash, int64(trace.Flows[f].Packets))
		}
		rows = append(rows, r)
	}
	x := make([]float64, len(rows))
	return func(flow uint64) float64 {
		for i, r := range rows {
			x[i] = float64(r.Estimate(flow))
		}
		return joinRows(kind, x)
	}, nil
}

// suMax is the sketch of LightGuardian (Zhao et al., NSDI 2021) for sums: a
// Count-Min whose update goes through the rows once and raises a cell no
// further than the least of those before it.
type suMax struct {
	cells [][]uint32
	seed  uint64
}

func newSuMax(rows, bytes int, seed uint64) *suMax {
	s := &suMax{seed: seed}
	for range rows {
		s.cells = append(s.cells, make([]uint32, bytes/rows/4))
	}
	return s
}

func (s *suMax) cell(row int, flow uint64) *uint32 {
	c := s.cells[row]
	return &c[hash.Reduce(hash.Uint64x2(s.seed, uint64(row), flow), uint64(len(c)))]
}

func (s *suMax) add(flow uint64) {
	least := uint32(math.MaxUint32)
	for row := range s.cells {
		c := s.cell(row, flow)
		if *c < least {
			if *c+1 <= least {
				*c++
			}
			least = *c
		}
	}
}

func (s *suMax) estimate(flow uint64) float64 {
	all := make([]uint32, len(s.cells))
	for row := range s.cells {
		all[row] = *s.cell(row, flow)
	}
	return float64(slices.Min(all))
}
