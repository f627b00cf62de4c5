package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/telemetry/pint"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// pintViews are the views of weir ctl show that a sink answers.
func pintViews() []view {
	ask := func(name string, print func(io.Writer, *api.PintResponse) error) func(context.Context, *control.Client, *ctlOptions) (json.RawMessage, func(io.Writer) error, error) {
		return func(ctx context.Context, c *control.Client, o *ctlOptions) (json.RawMessage, func(io.Writer) error, error) {
			if o.limit < 0 {
				return nil, nil, usageError(fmt.Errorf("--limit %d: choose a number of flows, or 0 for all", o.limit))
			}
			r, err := c.Pint(ctx, &api.PintRequest{View: name, Flow: o.flow, Limit: int64(o.limit)})
			if err != nil {
				return nil, nil, err
			}
			return control.JSON(r), func(w io.Writer) error {
				if o.flow != "" && r.Sink && len(r.Paths)+len(r.Hops)+len(r.Values)+len(r.Loops) == 0 {
					_, err := fmt.Fprintf(w, "of no flow with %q in it is anything known here\n", o.flow)
					return err
				}
				return print(w, r)
			}, nil
		}
	}
	return []view{
		{name: "paths", short: "The paths of flows that end here, decoded from PINT's digests", askFlows: ask("paths", printPaths)},
		{name: "latency", short: "The latency of each hop of flows that end here, beside what this switch measured itself", askFlows: ask("latency", printLatency)},
		{name: "congestion", short: "The use of links and queues that flows met, beside what this switch measured itself", askFlows: ask("congestion", printCongestion)},
		{name: "loops", short: "Flows whose packets were found to loop", askFlows: ask("loops", printLoops)},
	}
}

func printPaths(w io.Writer, r *api.PintResponse) error {
	t := text.NewTable("FLOW", "QUERY", "PATH", "STATE", ">CONFIDENCE", ">PACKETS", ">CHANGES", ">STRAYS")
	for _, p := range r.Paths {
		state, path := "unknown", candidates(p.Left)
		if len(p.Path) != 0 {
			state, path = "decoded", joinPath(p.Path)
		}
		if p.Certain {
			state = "certain"
		}
		t.Row(p.Flow, p.Query, path, state, confidenceText(p.Confidence), p.Packets, p.Changes, p.Strays)
	}
	return orNothing(w, t, r, "no flow with a digest has ended here yet")
}

func joinPath(path []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(path), " ", " > "), "[]")
}

// candidates says of a path that is not known how many values each hop may have.
func candidates(left []int64) string {
	if len(left) == 0 {
		return "-"
	}
	text := make([]string, len(left))
	for i, n := range left {
		if text[i] = fmt.Sprintf("1 of %d", n); n == 0 {
			text[i] = "?"
		}
	}
	return strings.Join(text, " > ")
}

func printLatency(w io.Writer, r *api.PintResponse) error {
	t := text.NewTable("FLOW", "QUERY", ">HOP", ">SWITCH", ">MEDIAN", "WITHIN", ">90 %", ">99 %", ">SAMPLES")
	for _, h := range r.Hops {
		t.Row(h.Flow, h.Query, h.Hop, switchText(h.SwitchId), quantity(h.Value, h.Median),
			quantity(h.Value, h.MedianLow)+" .. "+quantity(h.Value, h.MedianHigh), quantity(h.Value, h.P90), quantity(h.Value, h.P99), h.Samples)
	}
	if err := orNothing(w, t, r, "no hop has a sample yet"); err != nil {
		return err
	}
	return printPools(w, r)
}

// printPools prints what the flows of each path have met together, and then what
// packets said and the switch measured.
func printPools(w io.Writer, r *api.PintResponse) error {
	t := text.NewTable("ALL FLOWS OF THE PATH", "QUERY", ">HOP", ">SWITCH", ">MEDIAN", "WITHIN", ">90 %", ">99 %", ">SAMPLES", ">FLOWS")
	for _, h := range r.Pools {
		t.Row(joinPath(h.Path), h.Query, h.Hop, switchText(h.SwitchId), quantity(h.Value, h.Median),
			quantity(h.Value, h.MedianLow)+" .. "+quantity(h.Value, h.MedianHigh), quantity(h.Value, h.P90), quantity(h.Value, h.P99), h.Samples, h.Flows)
	}
	if !t.Empty() {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return printValues(w, r)
}

func printCongestion(w io.Writer, r *api.PintResponse) error {
	if len(r.Hops) != 0 {
		return printLatency(w, r)
	}
	if len(r.Values) == 0 {
		if err := orNothing(w, text.NewTable("FLOW"), r, "no packet with a digest of a link or queue has ended here yet"); err != nil {
			return err
		}
	}
	return printValues(w, r)
}

// printValues prints what packets said of their whole path, and what the
// switch measured itself.
func printValues(w io.Writer, r *api.PintResponse) error {
	v := text.NewTable("FLOW", "QUERY", "OF", ">LAST", "WITHIN", ">LEAST", ">MEAN", ">MOST", ">PACKETS")
	for _, p := range r.Values {
		kind := p.Value
		if p.Aggregation == "slow_hops" {
			kind = "slow_hops"
		}
		v.Row(p.Flow, p.Query, p.Aggregation+" "+p.Value, quantity(kind, p.Last), quantity(kind, p.Low)+" .. "+quantity(kind, p.High),
			quantity(kind, p.Min), quantity(kind, p.Mean), quantity(kind, p.Max), p.Packets)
	}
	m := text.NewTable("MEASURED HERE", "OF", ">MEDIAN", ">90 %", ">99 %", ">MOST", ">PACKETS")
	for _, x := range r.Measured {
		m.Row(x.Port, x.Value, quantity(x.Value, x.Median), quantity(x.Value, x.P90), quantity(x.Value, x.P99), quantity(x.Value, x.Highest), x.Packets)
	}
	for _, t := range []*text.Table{v, m} {
		if t.Empty() {
			continue
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
		if err := t.Write(w); err != nil {
			return err
		}
	}
	return nil
}

func printLoops(w io.Writer, r *api.PintResponse) error {
	t := text.NewTable("FLOW", ">PACKETS", ">HOPS", "LAST")
	for _, l := range r.Loops {
		t.Row(l.Flow, l.Packets, l.Hops, time.Unix(0, int64(l.LastNs)).UTC().Format(time.RFC3339Nano))
	}
	if t.Empty() {
		_, err := fmt.Fprintln(w, "no packet was found to loop")
		return err
	}
	return t.Write(w)
}

// orNothing prints a table, or why it is empty.
func orNothing(w io.Writer, t *text.Table, r *api.PintResponse, why string) error {
	if !t.Empty() {
		return t.Write(w)
	}
	if !r.Sink {
		why = "nothing ends here: the switch has no edge port (stages.pint.edge)"
	}
	_, err := fmt.Fprintln(w, why)
	return err
}

func switchText(id uint64) string {
	if id == 0 {
		return "?"
	}
	return fmt.Sprint(id)
}

// quantity is a value with its unit.
func quantity(value string, x float64) string {
	if x < 0 {
		return "any" // no upper bound
	}
	switch value {
	case pint.HopLatency.String():
		return fmt.Sprint(time.Duration(x).Round(10 * time.Nanosecond))
	case pint.EgressUtilisation.String():
		return fmt.Sprintf("%.2f %%", 100*x)
	case pint.QueueCongestion.String():
		return fmt.Sprintf("%.0f %%", x)
	}
	return fmt.Sprintf("%.4g", x)
}

// confidenceText writes confidences near 1 by what is missing.
func confidenceText(c float64) string {
	if c < 0.9 {
		return fmt.Sprintf("%.2g", c)
	}
	return fmt.Sprintf("1-%.0e", 1-c)
}
