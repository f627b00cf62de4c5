package paper

import (
	"context"
	"math/rand/v2"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/pint/encode"
)

// pintLoops gives the false reports of loop detection on a path of 32 hops
// (appendix A.4): computed, and for T = 1 counted in a simulation of packets
// that meet no loop. The second rate is too small to be counted.
func pintLoops(ctx context.Context, o Options) ([]Row, error) {
	const hops, chunk = 32, 1 << 18
	var t table
	for _, c := range []struct {
		name            string
		bits, threshold int
		paper           float64
	}{{"t1_b15", 15, 1, 5e-7}, {"t3_b14", 14, 3, 5e-13}} {
		l, err := encode.NewLoops(hash.XX, c.bits, c.threshold, o.Seed)
		if err != nil {
			return nil, err
		}
		t.against(c.name+".rate", "reports per packet", l.FalseRate(hops), c.paper, "PINT appendix A.4; computed", "lower")
	}
	l, err := encode.NewLoops(hash.XX, 15, 1, o.Seed)
	if err != nil {
		return nil, err
	}
	chunks := o.runs(2000)
	o.progress(0, 1, "simulated reports")
	reports, err := trials(ctx, o, "loops", chunks, func() (trial, error) {
		return func(r *rand.Rand) (float64, error) {
			id, found := r.Uint64(), 0.0
			for range chunk {
				id++
				var digest uint64
				loop := false
				for hop := 1; hop <= hops && !loop; hop++ {
					digest, loop = l.Process(id, hop, digest, uint64(hop))
				}
				if loop {
					found++
				}
			}
			return found, nil
		}, nil
	})
	if err != nil {
		return nil, err
	}
	sum := reports.mean() * float64(len(reports))
	t.against("t1_b15.simulated", "reports per packet", sum/(float64(chunks)*chunk), l.FalseRate(hops), "the computed rate", "neither")
	t.add("t1_b15.simulated_reports", "reports", sum, "counted: their square root is the standard error", "neither")
	return t, nil
}
