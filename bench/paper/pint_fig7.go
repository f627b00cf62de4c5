package paper

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/bench/netsim/fabric"
	"github.com/weirswitch/weir/bench/netsim/transport"
)

// pintFig7 compares HPCC on PINT, 8 bits, with HPCC on INT, 42 bytes, in the paper's fat tree (section 6.1).
//
// goodput_gain.loadL is how much higher the mean goodput of flows over 10 MB is with PINT, web search, at L % of
// load (7a). slowdown95.V.decileD is the 95th percentile of the slowdown of the D-th tenth of flows by size, web
// search, at 50 % (7b), and hadoop.slowdown95... the same for Hadoop (7c). pint_over_int is their ratio.
//
// Quick runs have 64 hosts, and a quarter of the time.
func pintFig7(ctx context.Context, o Options) ([]Row, error) {
	n, err := newHPCCNetwork(o)
	if err != nil {
		return nil, err
	}
	digest, err := congestionFeedback(o, 8, 1)
	if err != nil {
		return nil, err
	}
	studies := []struct {
		workload, prefix string
		load             int
	}{
		{transport.WebSearch, "", 50}, {transport.WebSearch, "", 70}, {transport.WebSearch, "", 30}, {transport.Hadoop, "hadoop.", 50},
	}
	var all []scenario
	for _, w := range studies {
		for _, feedback := range []*fabric.Reader{nil, digest} {
			s, err := n.scenario(o, fmt.Sprintf("%sload%d", w.prefix, w.load), w.workload, float64(w.load)/100, feedback)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
	}
	out, err := simulate(ctx, o, all)
	if err != nil {
		return nil, err
	}
	var t table
	for i, w := range studies {
		if w.workload == transport.WebSearch {
			addGoodputGain(&t, w.load, &out[2*i], &out[2*i+1])
		}
	}
	for i, w := range studies {
		if w.load != 50 {
			continue
		}
		withINT, withPINT := out[2*i].deciles(), out[2*i+1].deciles()
		const source = "95th percentile of the decile by size, 50 % load"
		for d := range withINT {
			t.add(fmt.Sprintf("%sslowdown95.int.decile%d", w.prefix, d+1), "slowdown", withINT[d], source, "lower")
			t.add(fmt.Sprintf("%sslowdown95.pint.decile%d", w.prefix, d+1), "slowdown", withPINT[d], source, "lower")
		}
		for d := range withINT {
			t.add(fmt.Sprintf("%sslowdown95.pint_over_int.decile%d", w.prefix, d+1), "ratio", withPINT[d]/withINT[d], "PINT Fig. 7: below 1 for long flows, near 1 for short ones", "lower")
		}
	}
	addSpeed(&t, out)
	return t, nil
}

// addGoodputGain adds the rows of a load of figure 7a. Both runs have the same flows, by which the interval of the gain is made.
func addGoodputGain(t *table, load int, withINT, withPINT *simulated) {
	a, b := withINT.longGoodputs(), withPINT.longGoodputs()
	if len(a) == 0 {
		return
	}
	meanA, meanB := sample(a).mean(), sample(b).mean()
	more := make([]float64, len(a)) // than the mean gain, of each flow
	for i := range a {
		more[i] = b[i]/meanA - a[i]/meanA*meanB/meanA
	}
	metric, source := fmt.Sprintf("goodput_gain.load%d", load), fmt.Sprintf("%d flows over 10 MB, web search", len(a))
	if load == 70 {
		t.against(metric, "ratio", meanB/meanA-1, 0.71, "PINT Fig. 7(a); "+source, "higher")
	} else {
		t.add(metric, "ratio", meanB/meanA-1, source, "higher")
	}
	_, half := interval(more)
	t.add(metric+".ci95", "ratio", half, "half the 95 % confidence interval, by the flows' gains as if they were independent", "neither")
	t.add(fmt.Sprintf("goodput.int.load%d", load), "Gbit/s", meanA/1e9, source, "higher")
	t.add(fmt.Sprintf("goodput.pint.load%d", load), "Gbit/s", meanB/1e9, source, "higher")
}
