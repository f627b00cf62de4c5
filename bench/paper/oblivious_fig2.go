package paper

import (
	"github.com/weirswitch/weir/telemetry/oblivious"
)

// byKinds are the kinds that figures 2 to 10 compare.
var byKinds = []oblivious.Kind{oblivious.UWRA, oblivious.NWPS}

// obliviousFig2 measures the size of the merged sample by each merge. Rows
// named union are a merge beyond the paper, which leaves nothing out; its
// entries weigh differently, so that its size does not compare with the others.
var obliviousFig2 = netFigure{
	name: "fig2",
	unit: oblivious.Packets,
	measure: func(r *netRun) (out []outcome, err error) {
		for _, merged := range r.merged() {
			out = append(out, outcome{merged.name + ".size", float64(len(merged.sample.Entries))})
		}
		return out, nil
	},
	rows: func(m measures, t *table, traces []*obliviousTrace) {
		m.ratio(t, traces, "merged.improved_over_simple", []string{"uwra.size", "nwps.size"}, []string{"uwra_simple.size", "nwps_simple.size"},
			10, "routing-oblivious Fig. 2: about 10 to 20", "higher")
		m.rows(t, traces, []string{"uwra_simple.size", "nwps_simple.size", "uwra.size", "nwps.size", "uwra_union.size", "nwps_union.size"},
			"entries", "routing-oblivious Fig. 2", "higher")
	},
}
