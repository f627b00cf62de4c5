package paper

import (
	"context"
	"fmt"

	"github.com/weirswitch/weir/bench/netsim/transport"
)

// pintFig8 runs HPCC on PINT where only a share p of the packets carries the query, chosen by the plan (section
// 6.1). slowdown95.pN.decileD is the 95th percentile of the slowdown of the D-th tenth of flows by size with p = 1/N,
// web search, at 50 % of load (8a), hadoop.slowdown95... the same for Hadoop (8b); pN_over_p1 is the ratio to p = 1.
//
// Quick runs have 64 hosts, and a quarter of the time.
func pintFig8(ctx context.Context, o Options) ([]Row, error) {
	n, err := newHPCCNetwork(o)
	if err != nil {
		return nil, err
	}
	shares := []int{1, 16, 256}
	workloads := []struct{ name, prefix string }{{transport.WebSearch, ""}, {transport.Hadoop, "hadoop."}}
	var all []scenario
	for _, w := range workloads {
		for _, share := range shares {
			feedback, err := congestionFeedback(o, 8, 1/float64(share))
			if err != nil {
				return nil, err
			}
			s, err := n.scenario(o, fmt.Sprintf("%sp%d", w.prefix, share), w.name, 0.5, feedback)
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
	for i, w := range workloads {
		var p95 [3][10]float64
		for k, share := range shares {
			p95[k] = out[3*i+k].deciles()
			for d, v := range p95[k] {
				t.add(fmt.Sprintf("%sslowdown95.p%d.decile%d", w.prefix, share, d+1), "slowdown", v, fmt.Sprintf("95th percentile of the decile by size, 50 %% load, 1 of %d packets", share), "lower")
			}
		}
		for k, share := range shares[1:] {
			for d := range p95[0] {
				t.add(fmt.Sprintf("%sslowdown95.p%d_over_p1.decile%d", w.prefix, share, d+1), "ratio", p95[k+1][d]/p95[0][d], "PINT Fig. 8: near 1 for 1/16, above for 1/256", "lower")
			}
		}
	}
	addSpeed(&t, out)
	return t, nil
}
