package paper

import (
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// heavyShare is theta in figures 7 and 8.
const heavyShare = 0.001

// obliviousFig7 measures how well the flows of at least a thousandth of all
// packets, and obliviousFig8 of all bytes, are found: F1, the harmonic mean of precision (the share of the
// reported flows that are heavy) and recall (the share of the heavy flows that
// are reported). Flows are reported by their estimates alone; the epsilon of
// these sizes would be above theta.
var (
	obliviousFig7 = heavyFigure("fig7", oblivious.Packets, "routing-oblivious Fig. 7: near 1")
	obliviousFig8 = heavyFigure("fig8", oblivious.Bytes, "routing-oblivious Fig. 8: near 1")
)

func heavyFigure(name string, unit oblivious.Unit, source string) netFigure {
	return netFigure{
		name: name,
		unit: unit,
		measure: func(r *netRun) (out []outcome, err error) {
			for _, merged := range r.merged() {
				f1, err := r.trace.heavyF1(merged.sample, unit)
				if err != nil {
					return nil, err
				}
				out = append(out, outcome{merged.name + ".f1", f1})
			}
			return out, nil
		},
		rows: func(m measures, t *table, traces []*obliviousTrace) {
			m.rows(t, traces, []string{"uwra_simple.f1", "nwps_simple.f1", "uwra.f1", "nwps.f1", "uwra_union.f1", "nwps_union.f1"}, "F1", source, "higher")
		},
	}
}

// heavyF1 compares the heavy hitters of a sample with the true ones.
func (t *obliviousTrace) heavyF1(s *oblivious.Sample, unit oblivious.Unit) (float64, error) {
	reported, err := s.HeavyHitters(unit, heavyShare, 0, 0.05)
	if err != nil {
		return 0, err
	}
	cut, heavy, right := heavyShare*t.volume(unit), 0, 0
	for f := range t.Flows {
		if t.size(f, unit) >= cut {
			heavy++
		}
	}
	for _, f := range reported {
		if t.size(t.flow[f.Key], unit) >= cut {
			right++
		}
	}
	if heavy+len(reported) == 0 {
		return 1, nil
	}
	return 2 * float64(right) / float64(heavy+len(reported)), nil
}
