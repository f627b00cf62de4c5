package paper

import (
	"math"

	"github.com/weirswitch/weir/telemetry/oblivious"
)

// obliviousFig5 measures the root mean square error of the packets of all
// flows, those without an entry included, and obliviousFig6 of the bytes. DUS is what its
// simple merge makes of either kind.
var (
	obliviousFig5 = frequencyFigure("fig5", oblivious.Packets, "routing-oblivious Fig. 5")
	obliviousFig6 = frequencyFigure("fig6", oblivious.Bytes, "routing-oblivious Fig. 6")
)

func frequencyFigure(name string, unit oblivious.Unit, source string) netFigure {
	return netFigure{
		name: name,
		unit: unit,
		measure: func(r *netRun) (out []outcome, err error) {
			for _, merged := range r.merged() {
				e, err := r.trace.rmse(merged.sample, unit)
				if err != nil {
					return nil, err
				}
				out = append(out, outcome{merged.name + ".rmse", e})
			}
			return out, nil
		},
		rows: func(m measures, t *table, traces []*obliviousTrace) {
			simple := []string{"uwra_simple.rmse", "nwps_simple.rmse"}
			m.ratio(t, traces, "rmse.simple_over_improved", simple, []string{"uwra.rmse", "nwps.rmse"}, 3, source+": about 3 to 10")
			m.ratio(t, traces, "rmse.simple_over_union", simple, []string{"uwra_union.rmse", "nwps_union.rmse"}, 3,
				source+": about 3 to 10 by the improved merge; this one goes beyond it")
			m.rows(t, traces, append(simple, "uwra.rmse", "nwps.rmse", "uwra_union.rmse", "nwps_union.rmse"), unit.String(), source, "lower")
		},
	}
}

// rmse is the root mean square error over all flows.
func (t *obliviousTrace) rmse(s *oblivious.Sample, unit oblivious.Unit) (float64, error) {
	flows, err := s.Flows(unit, 0.05)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for f := range t.Flows {
		sum += t.size(f, unit) * t.size(f, unit)
	}
	for _, f := range flows {
		size := t.size(t.flow[f.Key], unit)
		sum += (f.Value-size)*(f.Value-size) - size*size
	}
	return math.Sqrt(max(sum, 0) / float64(len(t.Flows))), nil
}
