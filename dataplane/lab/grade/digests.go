package grade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/internal/plural"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/text"
)

const (
	// longFlow is how many packets a flow needs for its path to be decodable: the default plan decodes paths of five switches
	// from fewer with high probability.
	longFlow = 60
	// latencyFactor is how far a switch's median latency may be from between the medians that it measured at its ports. The
	// switch measures all packets, and the answer leaves out flows that are too short for their path to be known.
	latencyFactor = 1.5
	// The median use that packets met is at least half of the mean of the least used link: the code of a digest rounds. It is
	// at most congestionFactor times the mean over time: packets arrive in bursts, and a sender that was held up catches up.
	congestionFactor = 100
	// mostSlower is how many times as long as planned generated flows may take: beyond, the mean use says nothing about the
	// use in their bursts.
	mostSlower = 2
)

// network compares what the switches report of themselves with the file and with their last reports.
func (g *grader) network() error {
	n, err := ask[*query.Network](g, &query.Question{Kind: query.KindNetwork})
	if err != nil {
		return g.unanswered(query.KindNetwork, "all", err, true)
	}
	present, ports, exact, overruns, off := 0, 0, 0, uint64(0), ""
	for _, s := range n.Switches {
		before := exact
		if s.HasStatus {
			present++
		}
		overruns += s.Overruns
		ports += len(s.Ports)
		report, seconds := g.switchReport(s.Name), float64(s.SpanNs)/1e9
		for _, p := range s.Ports {
			if report != nil && slices.ContainsFunc(report.Ports, func(at lab.PortReport) bool {
				return at.Name == p.Name && p.HasRates && near(p.Received.PacketsPS*seconds, at.Received) && near(p.Sent.PacketsPS*seconds, at.Transmitted)
			}) {
				exact++
			}
		}
		if exact-before < len(s.Ports) {
			off = cmp.Or(off, s.Name)
		}
	}
	wantSwitches, wantPorts := 0, 0
	for i, s := range g.lab.Config.Switches {
		if s.Kind != lab.KindBMv2 { // which reports no status
			wantSwitches++
			wantPorts += len(g.paths.Switches[i].Ports)
			if !slices.ContainsFunc(n.Switches, func(at query.NetworkSwitch) bool {
				return at.Name == s.Name && at.HasStatus && len(at.Ports) == len(g.paths.Switches[i].Ports)
			}) {
				off = cmp.Or(off, s.Name)
			}
		}
	}
	g.add(Row{
		Kind: query.KindNetwork, What: "all", Line: g.lab.Config.Line(off), OK: present == wantSwitches && ports == wantPorts && exact == ports,
		Truth:  fmt.Sprintf("%d switches, %d ports", wantSwitches, wantPorts),
		Answer: fmt.Sprintf("%d switches, %d ports, %d of these with the packets that the switch counted; %d overruns", present, ports, exact, overruns),
	})
	return nil
}

// near compares the packets between the first and the last status with a count since the start, a little earlier.
func near(packets float64, count uint64) bool {
	return packets >= 0.99*float64(count)-20 && packets <= float64(count)+0.5
}

// path asks for the flows with the most digests. It compares the decoded paths of the flows to each host with the routes and links. A path that is certain must be right,
// and where flows are long enough at least one path must be certain.
func (g *grader) path() error {
	if !g.measures("pint") {
		return nil
	}
	a, err := ask[*query.PathAnswer](g, &query.Question{Kind: query.KindPath, Confidence: confidence})
	if err != nil {
		return g.unanswered(query.KindPath, "all", err, false) // the plan may have no path
	}
	if a.Value != "switch_id" {
		return nil // hops by ports
	}
	type tally struct {
		flows, long, decoded, right, wrong int
		hops                               map[int]bool // lengths of right paths
	}
	tallies := map[string]*tally{}
	for _, f := range a.Flows {
		k, err := query.ParseKey(f.Flow)
		if err != nil {
			continue // not IP
		}
		truth, host := g.passes(k), g.lab.Config.FlowTarget(k.DstAddr())
		if truth == nil || host == nil {
			continue
		}
		t := tallies[host.Name]
		if t == nil {
			t = &tally{hops: map[int]bool{}}
			tallies[host.Name] = t
		}
		right := f.Certain && slices.EqualFunc(f.Hops, truth, func(h query.PathHop, name string) bool { return h.Switch == name })
		t.flows++
		switch {
		case right:
			t.right++
			t.hops[len(truth)] = true
		case f.Certain:
			t.wrong++
		}
		if f.Packets >= longFlow {
			t.long++
			if right {
				t.decoded++
			}
		}
	}
	for i := range g.lab.Config.Hosts {
		name := g.lab.Config.Hosts[i].Name
		t := tallies[name]
		if t == nil {
			continue
		}
		lengths := strings.Trim(strings.ReplaceAll(fmt.Sprint(slices.Sorted(maps.Keys(t.hops))), " ", " or "), "[]")
		g.add(Row{
			Kind: query.KindPath, What: fmt.Sprintf("%s to %s", plural.Counted(t.flows, "flow"), name), Line: g.lab.Config.Line(name), OK: t.wrong == 0 && (t.right > 0 || t.long == 0),
			Truth:   "by the routes and links",
			Answer:  fmt.Sprintf("%d certain and right, of %s switches; %d wrong; %d right of %d with %d packets or more", t.right, lengths, t.wrong, t.decoded, t.long, longFlow),
			Numbers: map[string]float64{"flows": float64(t.flows), "right": float64(t.right), "wrong": float64(t.wrong), "long": float64(t.long), "long_right": float64(t.decoded)},
		})
	}
	return nil
}

// latency compares the medians of the digests of all packets with those of the switches' own histograms.
func (g *grader) latency() error {
	if !g.measures("pint") {
		return nil
	}
	a, err := ask[*query.LatencyAnswer](g, &query.Question{Kind: query.KindLatency, Confidence: confidence, Quantiles: []float64{0.5, 0.99}})
	if err != nil {
		return g.unanswered(query.KindLatency, "all", err, false) // the plan may have no latency
	}
	if a.Value != "hop_latency" || a.Packets.Samples > 0 {
		g.add(Row{Kind: query.KindLatency, What: "all", NotJudged: fmt.Sprintf("the plan asks for %s of %s, which switches do not count", a.Aggregation, a.Value)})
		return nil
	}
	for _, h := range a.Hops {
		low, high := g.measuredLatency(h.Switch)
		median := h.Quantiles[0]
		g.add(Row{
			Kind: query.KindLatency, What: fmt.Sprintf("median at %s, %d digests of %d flows", h.Switch, h.Samples, h.Flows),
			Line:  g.lab.Config.Line(h.Switch),
			OK:    low > 0 && (median.Open || median.High*latencyFactor >= low) && median.Low <= high*latencyFactor,
			Truth: fmt.Sprintf("%s to %s at its ports", text.Nanoseconds(low), text.Nanoseconds(high)),
			Answer: fmt.Sprintf("%s (%s to %s); 99 %%: %s", text.Nanoseconds(median.Value), text.Nanoseconds(median.Low), text.Nanoseconds(median.High),
				text.Nanoseconds(h.Quantiles[1].Value)),
			Numbers: map[string]float64{"truth_low": low, "truth_high": high, "value": median.Value, "low": median.Low, "high": median.High, "samples": float64(h.Samples)},
		})
	}
	if len(a.Hops) == 0 {
		g.add(Row{Kind: query.KindLatency, What: "all", Truth: "a median for each switch", Answer: "none",
			NotJudged: map[bool]string{true: "no flow has enough packets for its path to be known"}[a.Unlocated > 0]})
	}
	return nil
}

// congestion compares what packets met with the use of the links, as the switches counted it.
func (g *grader) congestion() error {
	if !g.measures("pint") || len(g.truth.keys) == 0 {
		return nil
	}
	q := g.ofFlows(query.KindCongestion)
	q.Dst, q.Quantiles = g.truth.generated().String(), []float64{0.5, 0.99}
	a, err := ask[*query.CongestionAnswer](g, q)
	if err != nil {
		return g.unanswered(query.KindCongestion, "generated flows", err, false) // the plan may have no congestion
	}
	if a.Value != "egress_utilisation" || a.Aggregation != "max" {
		g.add(Row{Kind: query.KindCongestion, What: "generated flows", NotJudged: fmt.Sprintf("the plan asks for %s of %s, which switches do not count", a.Aggregation, a.Value)})
		return nil
	}
	n, err := ask[*query.Network](g, &query.Question{Kind: query.KindNetwork})
	if err != nil {
		return err
	}
	mean := g.leastUse(n.Links)
	median, top := a.Packets.Quantiles[0], a.Packets.Quantiles[1]
	r := Row{
		Kind: query.KindCongestion, What: fmt.Sprintf("most used link that %d packets met", a.Packets.Samples),
		OK:     a.Packets.Samples > 0 && mean > 0 && median.High >= mean/2 && median.Low <= mean*congestionFactor,
		Truth:  fmt.Sprintf("%.3f %% used on the average", 100*mean),
		Answer: fmt.Sprintf("median %.3f %% (%.3f to %.3f); 99 %%: %.3f %%", 100*median.Value, 100*median.Low, 100*median.High, 100*top.Value),
	}
	if seconds, planned := g.lab.FlowsEnded.Sub(g.lab.FlowsBegan).Seconds(), g.planned(); seconds > mostSlower*planned {
		r.NotJudged = fmt.Sprintf("the machine held the loads up, which took %.1f s instead of %.1f", seconds, planned)
	}
	g.add(r)
	return nil
}

// loops expects none: the routes and links of a lab have no loop.
func (g *grader) loops() error {
	if !g.measures("pint") {
		return nil
	}
	a, err := ask[*query.LoopsAnswer](g, &query.Question{Kind: query.KindLoops, Confidence: confidence})
	if err != nil {
		return g.unanswered(query.KindLoops, "all", err, false) // the plan may have neither loops nor paths
	}
	g.add(Row{
		Kind: query.KindLoops, What: plural.Counted(a.FlowCount, "flow"), OK: len(a.Flows) == 0 && a.Reported == 0, Truth: "none",
		Answer: fmt.Sprintf("%d flows that pass a switch twice", len(a.Flows)),
	})
	return nil
}
