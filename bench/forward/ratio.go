package forward

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/weirswitch/weir/bench"
)

// ours are the devices that are compared with all others.
var ours = []string{"patch", "l2", "l2_all", "patch2"}

// ratioFigures are compared; the names are those of the ratios.
var ratioFigures = []struct {
	name string
	figure
}{
	{"mrr", mrr}, {"pdr", pdr}, {"ndr", ndr}, {"latency_p50", halfNDR},
}

// addRatios compares our devices with each other one, and with the best rival that forwards
// through AF_XDP. A ratio of rates is "higher is better", of latencies at half of each one's
// own NDR "lower is better". The metrics for 64 B leave the size out: patch.mrr_over_bridge.
func addRatios(r *bench.Result, group map[string][]Sample) {
	for _, own := range ours {
		if len(group[own]) == 0 {
			continue
		}
		for _, d := range devices {
			if d.name == own || len(group[d.name]) == 0 {
				continue
			}
			for _, f := range ratioFigures {
				addRatio(r, f.name, f.figure, group[own], group[d.name], d.name)
			}
		}
		if best := bestAFXDP(group); best != "" {
			addRatio(r, "mrr", mrr, group[own], group[best], "best_afxdp")
		}
	}
}

// addRatio adds the median over the rounds of the ratios within a round: both devices of a
// round shared the machine with the same neighbours. A figure that is zero in a round gives
// no ratio there, and neither do rounds that are no result (see Invalid): where a device has no others, the ratio is marked.
func addRatio(r *bench.Result, name string, f figure, own, other []Sample, otherName string) {
	own, ownInvalid := validOf(own)
	other, otherInvalid := validOf(other)
	var ratios []float64
	for i := range own {
		for j := range other {
			a, b := f.of(&own[i]), f.of(&other[j])
			if own[i].Round == other[j].Round && a > 0 && b > 0 {
				ratios = append(ratios, a/b)
			}
		}
	}
	if len(ratios) == 0 {
		return
	}
	base := own[0].Device
	if own[0].Size != "64B" {
		base += "." + own[0].Size
	}
	metric := fmt.Sprintf("%s.%s_over_%s", base, name, otherName)
	source := fmt.Sprintf("%s: %.4g %s, %s: %.4g %s", own[0].Device, median(valuesOf(f, own)), f.unit,
		other[0].Device, median(valuesOf(f, other)), f.unit)
	var notes []string
	for _, s := range [][]Sample{own, other} {
		if limited(f, s) {
			notes = append(notes, "; "+s[0].Device+" is source-limited")
		}
	}
	r.Add(metric, "ratio", median(ratios), source+strings.Join(notes, ""), f.better)
	r.Rows[len(r.Rows)-1].Invalid = cmp.Or(ownInvalid, otherInvalid)
	if len(ratios) > 1 {
		r.Add(metric+"_spread", "ratio", spread(ratios), fmt.Sprintf("(largest - smallest) / median of %d rounds", len(ratios)), bench.Lower)
	}
}

// bestAFXDP is the rival with the highest median MRR, or empty.
func bestAFXDP(group map[string][]Sample) (best string) {
	highest := 0.0
	for _, d := range devices {
		if s := group[d.name]; d.afxdp && len(s) > 0 && median(valuesOf(mrr, s)) > highest {
			best, highest = d.name, median(valuesOf(mrr, s))
		}
	}
	return best
}
