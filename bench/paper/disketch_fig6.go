package paper

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/telemetry/disketch"
)

// dsHeavyShare of all packets makes a flow a heavy hitter.
const dsHeavyShare = 1e-4

// disketchFig6 measures figure 6: how well DISCO's rows of a Count Sketch, on the switches
// of a fat tree with unequal memories, find heavy hitters, by the number of
// switches on their path; and DiSketch's, which the paper's figure has not.
func disketchFig6(ctx context.Context, o Options) ([]Row, error) {
	tr, err := dsTreeTraffic(o)
	if err != nil {
		return nil, err
	}
	var t table
	t.describe("synthetic", tr)
	sizes := []int{8, 32, 128, 512}
	threshold := dsHeavyShare * float64(tr.packets)
	t.add("threshold", "packets", threshold, "one ten-thousandth of all packets", "neither")
	for i, kb := range sizes {
		o.progress(i, len(sizes), fmt.Sprintf("%d KB", kb))
		memory := dsMemories(len(tr.net.graph.Nodes), kb<<10/o.dsShrink(), true, o.Seed)
		d, err := tr.disco(disketch.CountSketch, memory, o.Seed)
		if err != nil {
			return nil, err
		}
		s, err := tr.run(ctx, dsRun{kind: disketch.CountSketch, memory: memory, seed: o.Seed, trials: o.runs(4000), singleHop: true, ways: []disketch.Composition{disketch.Likeliest}})
		if err != nil {
			return nil, err
		}
		for _, hops := range []int{1, 3, 5} {
			name := fmt.Sprintf("%dKB.hops%d.f1.", kb, hops)
			t.add(name+"disco", "ratio", tr.f1(d, hops, threshold), "Fig. 6 shows bars", "neither")
			t.add(name+"disketch", "ratio", tr.f1(s.estimate[0], hops, threshold), "with two subepochs for flows of one hop", "higher")
		}
	}
	return t, nil
}

// f1 is the harmonic mean of precision and recall of the heavy hitters among the
// flows with paths of so many switches.
func (t *dsTraffic) f1(estimate []float64, hops int, threshold float64) float64 {
	var s f1Score
	for i := range t.flows {
		if len(t.flows[i].path) == hops {
			s.count(t.flows[i].packets >= threshold, estimate[i] >= threshold)
		}
	}
	return s.value()
}

// f1Score counts decisions.
type f1Score struct{ right, missed, wrong float64 }

func (s *f1Score) count(is, said bool) {
	switch {
	case is && said:
		s.right++
	case is:
		s.missed++
	case said:
		s.wrong++
	}
}

func (s *f1Score) value() float64 {
	if s.right == 0 {
		return 0
	}
	return 2 * s.right / (2*s.right + s.missed + s.wrong)
}
