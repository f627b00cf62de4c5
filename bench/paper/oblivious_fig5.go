package paper

import (
	"math"

	"github.com/weirswitch/weir/telemetry/oblivious"
)

// obliviousFig5 measures the root mean square error of the packets of all
// flows, those without an entry included, and obliviousFig6 of the bytes; and as rows msre the
// mean of the squares of the relative errors, which small flows without an entry dominate, of
// 1 each. DUS is what its simple merge makes of either kind.
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
				rmse, msre, err := r.trace.flowErrors(merged.sample, unit)
				if err != nil {
					return nil, err
				}
				out = append(out, outcome{merged.name + ".rmse", rmse}, outcome{merged.name + ".msre", msre})
			}
			return out, nil
		},
		rows: func(m measures, t *table, traces []*obliviousTrace) {
			simple := []string{"uwra_simple.rmse", "nwps_simple.rmse"}
			m.ratio(t, traces, "rmse.simple_over_improved", simple, []string{"uwra.rmse", "nwps.rmse"}, 3, source+": about 3 to 10", "higher")
			m.ratio(t, traces, "rmse.simple_over_union", simple, []string{"uwra_union.rmse", "nwps_union.rmse"}, 3,
				source+": about 3 to 10 by the improved merge; this one goes beyond it", "higher")
			m.rows(t, traces, append(simple, "uwra.rmse", "nwps.rmse", "uwra_union.rmse", "nwps_union.rmse"), unit.String(), source, "lower")
			m.rows(t, traces, []string{"uwra_simple.msre", "nwps_simple.msre", "uwra.msre", "nwps.msre", "uwra_union.msre", "nwps_union.msre"},
				"MSRE", "routing-oblivious Section V defines it, and prints no figure of it", "lower")
		},
	}
}

// flowErrors are the root mean square error and the mean square relative error, over all
// flows.
func (t *obliviousTrace) flowErrors(s *oblivious.Sample, unit oblivious.Unit) (rmse, msre float64, err error) {
	flows, err := s.Flows(unit, 0.05)
	if err != nil {
		return 0, 0, err
	}
	absolute, n := 0.0, float64(len(t.Flows))
	for f := range t.Flows {
		absolute += t.size(f, unit) * t.size(f, unit)
	}
	relative := n
	for _, f := range flows {
		size := t.size(t.flow[f.Key], unit)
		square := (f.Value - size) * (f.Value - size)
		absolute += square - size*size
		relative += square/(size*size) - 1
	}
	return math.Sqrt(max(absolute, 0) / n), max(relative, 0) / n, nil
}
