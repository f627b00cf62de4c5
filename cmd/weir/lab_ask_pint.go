package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// labPath counts for which generated flows PINT knows the path.
func (x *labAsker) path() error {
	if !x.measures("pint") {
		return nil
	}
	q := x.ofFlows(query.KindPath)
	q.Dst = generated.String()
	a, err := ask[*query.PathAnswer](x, q)
	if err != nil {
		return err
	}
	right, wrong, hops := 0, 0, map[int]int{}
	for _, f := range a.Flows {
		k, err := query.ParseKey(f.Flow)
		if err != nil {
			return err
		}
		truth := x.way(k)
		if !f.Certain || truth == nil {
			continue
		}
		var names []string
		for _, h := range f.Hops {
			names = append(names, h.Switch)
		}
		if slices.Equal(names, truth) {
			right++
			hops[len(names)]++
		} else {
			wrong++
		}
	}
	x.row(query.KindPath, wrong == 0 && right > 0, fmt.Sprintf("%d flows, of most packets", len(a.Flows)), "by the links and routes",
		"%d certain and right, of %s switches; %d wrong", right, lengths(hops), wrong)
	return nil
}

// lengths lists the lengths of paths.
func lengths(hops map[int]int) string {
	var list []string
	for n := range 256 {
		if hops[n] > 0 {
			list = append(list, fmt.Sprint(n))
		}
	}
	return strings.Join(list, " or ")
}

// latencyFactor is how far a switch's median latency may be from between the medians that it measured at its ports:
// flows that are too short for their path to be known are left out of the answer.
const latencyFactor = 1.5

// latency holds the digests' medians against those of the switches' own histograms.
func (x *labAsker) latency() error {
	if !x.measures("pint") {
		return nil
	}
	// Of all packets, as the switches' own histograms are.
	a, err := ask[*query.LatencyAnswer](x, &query.Question{Kind: query.KindLatency, Confidence: labConfidence, Quantiles: []float64{0.5, 0.99}})
	if err != nil {
		return err
	}
	for _, h := range a.Hops {
		low, high := x.measuredLatency(h.Switch)
		median := h.Quantiles[0]
		x.row(query.KindLatency, median.High*latencyFactor >= low && median.Low <= high*latencyFactor && low > 0,
			fmt.Sprintf("median at %s, %d digests of %d flows", h.Switch, h.Samples, h.Flows),
			fmt.Sprintf("%s to %s at its ports", text.Nanoseconds(low), text.Nanoseconds(high)), "%s (%s to %s); 99 %%: %s",
			text.Nanoseconds(median.Value), text.Nanoseconds(median.Low), text.Nanoseconds(median.High), text.Nanoseconds(h.Quantiles[1].Value))
	}
	if len(a.Hops) == 0 {
		x.row(query.KindLatency, false, "all", "a median for each switch", "none")
	}
	return nil
}

// measuredLatency is the range of a switch's own medians, over its ports.
func (x *labAsker) measuredLatency(name string) (low, high float64) {
	low = math.Inf(1)
	for _, e := range x.lab.Switches {
		if e.Name != name || e.Report == nil || e.Report.Pint == nil {
			continue
		}
		for _, m := range e.Report.Pint.Measured {
			if m.Value == "hop_latency" && m.Packets > 0 {
				low, high = min(low, m.Median), max(high, m.Median)
			}
		}
	}
	if high == 0 {
		return 0, 0
	}
	return low, high
}

// congestion holds what packets met against the rates of the links, as the switches counted them.
func (x *labAsker) congestion() error {
	if !x.measures("pint") {
		return nil
	}
	q := x.ofFlows(query.KindCongestion)
	q.Dst, q.Quantiles = generated.String(), []float64{0.5, 0.99}
	a, err := ask[*query.CongestionAnswer](x, q)
	if err != nil {
		return err
	}
	mean, err := x.hostLinks()
	if err != nil {
		return err
	}
	median, top := a.Packets.Quantiles[0], a.Packets.Quantiles[1]
	x.row(query.KindCongestion, a.Packets.Samples > 0 && mean > 0 && median.High >= mean/2 && median.Low <= mean*congestionFactor,
		fmt.Sprintf("most used link that %d packets met", a.Packets.Samples), fmt.Sprintf("%.3f %% used on the average", 100*mean),
		"median %.3f %% (%.3f to %.3f); 99 %%: %.3f %%", 100*median.Value, 100*median.Low, 100*median.High, 100*top.Value)
	if seconds, planned := x.lab.FlowsEnded.Sub(x.lab.FlowsBegan).Seconds(), x.planned(); seconds > mostSlower*planned {
		excuse(x.latest(1), fmt.Sprintf("the machine held the loads up, which took %.1f s in place of %.1f", seconds, planned))
	}
	return nil
}

// mostSlower is how many times as long as planned generated flows may take for their mean to say something about what
// packets met in their bursts.
const mostSlower = 2

// planned is how long the generated flows take at their rates, in seconds: groups go one behind the other.
func (x *labAsker) planned() (seconds float64) {
	longest := map[string]float64{}
	for i, l := range x.lab.Config.Traffic {
		if l.Kind == lab.KindFlows {
			group := cmp.Or(l.Group, fmt.Sprint(i))
			longest[group] = max(longest[group], float64(l.Count)/float64(l.Rate))
		}
	}
	for _, s := range longest {
		seconds += s
	}
	return seconds
}

// congestionFactor is how far above the mean over time the median of what packets met may be: they come in bursts, and a
// sender that was held up catches up at once.
const congestionFactor = 100

// hostLinks is the use of the links to hosts by generated flows while these were sent, of the least used one: all packets
// that go there pass it.
func (x *labAsker) hostLinks() (least float64, err error) {
	n, err := ask[*query.Network](x, &query.Question{Kind: query.KindNetwork})
	if err != nil {
		return 0, err
	}
	seconds := x.lab.FlowsEnded.Sub(x.lab.FlowsBegan).Seconds()
	for _, l := range n.Links {
		for _, end := range l.Ends {
			bits := 0.0
			for _, load := range x.lab.Truth {
				for _, f := range load.Flows {
					if load.To == end.Name && !end.HasSwitch {
						bits += 8 * float64(f.ReceivedBytes+wireOverhead*f.Received)
					}
				}
			}
			if use := bits / seconds / float64(l.Speed); bits > 0 && l.Speed > 0 && (least == 0 || use < least) {
				least = use
			}
		}
	}
	return least, nil
}

// wireOverhead is what a frame takes on the wire beside its bytes.
const wireOverhead = 24

// loops is a question that labs without a loop answer by none.
func (x *labAsker) loops() error {
	if !x.measures("pint") {
		return nil
	}
	a, err := ask[*query.LoopsAnswer](x, x.ofFlows(query.KindLoops))
	if err != nil {
		return err
	}
	x.row(query.KindLoops, len(a.Flows) == 0 && a.Reported == 0, fmt.Sprintf("%d flows", a.FlowCount), "none", "%d flows that pass a switch twice", len(a.Flows))
	return nil
}
