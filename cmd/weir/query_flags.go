package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirswitch/weir/telemetry/query"
)

// queryFlags are the flags that make a question.
type queryFlags struct {
	query.Question
	delta      float64 // 1 - confidence, if given
	flowsFile  string
	start, end string
}

// flagOf names the flags of a question's fields, by the fields' JSON names.
var flagOf = map[string]string{
	"flow": "flow", "prefix": "prefix", "src": "src", "dst": "dst", "proto": "proto", "port": "port",
	"from": "from", "to": "to", "at": "at", "flows": "flows", "unit": "unit", "theta": "theta", "epsilon": "epsilon",
	"at_least": "at-least", "by": "by", "sketch": "sketch", "weight": "weight", "segments": "segments", "hop": "hop", "quantiles": "quantiles",
	"limit": "limit", "last_ns": "last", "start_ns": "start", "end_ns": "end", "confidence": "confidence", "step_ns": "step",
}

// add adds the flags of the fields that the question's kind uses.
func (q *queryFlags) add(cmd *cobra.Command) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	q.flows(all)
	q.numbers(all)
	q.window(all)
	for _, field := range q.Kind.Uses() {
		cmd.Flags().AddFlag(all.Lookup(flagOf[field]))
	}
	cmd.Flags().Float64Var(&q.delta, "delta", 0, "probability with which bounds may fail, instead of --confidence 1-delta")
	cmd.MarkFlagsMutuallyExclusive("confidence", "delta")
}

// flows are the flags that say which flows, and where.
func (q *queryFlags) flows(f *pflag.FlagSet) {
	f.StringVar(&q.Flow, "flow", "", "the flow, as \"10.0.0.1:1234 > 10.0.0.2:80 udp\"")
	f.StringVar(&q.Prefix, "prefix", "", "only flows from or to addresses of this `PREFIX`")
	f.StringVar(&q.Src, "src", "", "only flows from addresses of this `PREFIX`")
	f.StringVar(&q.Dst, "dst", "", "only flows to addresses of this `PREFIX`")
	f.StringVar(&q.Proto, "proto", "", "only flows of this `PROTOCOL`, as udp or 17")
	f.StringVar(&q.Port, "port", "", "only flows from or to this port `NUMBER`")
	f.StringVar(&q.From, "from", "", "switch, switch:port by the port's name or number, or switch/class by the class's name or prefixes, that packets leave")
	f.StringVar(&q.To, "to", "", "switch, switch:port, or switch/class, at which they arrive")
	f.StringVar(&q.At, "at", "", "switch, or switch:port by the port's name or number; of heavy-hitters the measurement point whose sketch answers in place of the network-wide sample, with \"in\" or \"out\" after it")
	f.StringVar(&q.flowsFile, "flows", "", "`FILE` of flows, one in a line: with --at those to look for, by default those that samples name; of delay and loss those to be listed, in one question")
}

// numbers are the flags that say how much and how many.
func (q *queryFlags) numbers(f *pflag.FlagSet) {
	f.StringVar(&q.Unit, "unit", "packets", "packets or bytes")
	f.Float64Var(&q.Theta, "theta", query.DefaultTheta, "share of the volume from which on a flow is heavy")
	f.Float64Var(&q.Epsilon, "epsilon", 0, "error of that share, up to theta: report from theta - epsilon/2 on; 0: by the estimates alone")
	f.StringVar(&q.By, "by", "", "sample or sketch; default: the sample if there is one")
	f.Float64Var(&q.AtLeast, "at-least", 0, "with the sketch: size from which on a flow is heavy, instead of --theta")
	f.Uint16Var(&q.Sketch, "sketch", 0, "number of the sketch: the position of its fragments in the switches' files, from 0")
	f.Uint32Var(&q.Weight, "weight", 1, "what the points count a packet of the flow as: its weight in [[stages.lds_ingress.weight]]")
	f.BoolVar(&q.Segments, "segments", false, "delay and loss between each two switches of the flow's path, too; default: with --flow, without --step")
	f.IntVar(&q.Hop, "hop", 0, "only this hop, from 1; 0: all")
	f.Float64SliceVar(&q.Quantiles, "quantiles", query.DefaultQuantiles(), "`RANKS` of the values to show, 0 to 1")
	f.IntVar(&q.Limit, "limit", query.DefaultLimit, fmt.Sprintf("list at most `N` flows, hops, switches or links; up to %d", query.MaxLimit))
	f.Float64Var(&q.Confidence, "confidence", 0.95, "probability with which bounds hold")
}

// window are the flags that say when.
func (q *queryFlags) window(f *pflag.FlagSet) {
	f.DurationVar(&q.Last, "last", 0, "only so long before the newest record, or before the collector's clock where that record is late; 0: all")
	f.StringVar(&q.start, "start", "", "only from this `TIME` on: RFC 3339, or ns of the switches' clock as answers have it")
	f.StringVar(&q.end, "end", "", "only before this `TIME`")
	f.DurationVar(&q.Step, "step", 0, "answer for each `STEP` of this time; 0: once for all")
}

// finish makes the question whole. A flag of zero is a fault where a question's zero means
// the default.
func (q *queryFlags) finish(cmd *cobra.Command) (err error) {
	var faults []error
	given := cmd.Flags().Changed
	for _, f := range []struct {
		name, want string
		wrong      bool
	}{
		{"theta", "choose a share above 0, up to 1", q.Theta == 0},
		{"weight", "choose 1 to 10000", q.Weight == 0},
		{"confidence", "choose a probability above 0 and below 1", q.Confidence == 0},
		{"delta", "choose a probability above 0 and below 1", !(q.delta > 0 && q.delta < 1)},
		{"limit", fmt.Sprintf("choose 1 to %d", query.MaxLimit), q.Limit == 0},
	} {
		if given(f.name) && f.wrong {
			faults = append(faults, fmt.Errorf("--%s %s: %s", f.name, cmd.Flags().Lookup(f.name).Value, f.want))
		}
	}
	if given("delta") {
		q.Confidence = 1 - q.delta
	}
	q.leaveOut(given)
	if q.flowsFile != "" {
		q.Flows, err = readFlows(q.flowsFile)
		faults = append(faults, err)
	}
	q.Start, err = query.ParseTime("--start", q.start)
	faults = append(faults, err)
	q.End, err = query.ParseTime("--end", q.end)
	return errors.Join(append(faults, err)...)
}

// leaveOut takes the flags' defaults out of the question: the engine has its own, and a kind
// must get nothing that it does not use.
func (q *queryFlags) leaveOut(given func(string) bool) {
	for flag, clear := range map[string]func(){
		"unit": func() { q.Unit = "" }, "theta": func() { q.Theta = 0 }, "weight": func() { q.Weight = 0 },
		"quantiles": func() { q.Quantiles = nil }, "limit": func() { q.Limit = 0 },
	} {
		if !given(flag) {
			clear()
		}
	}
	if !given("segments") {
		q.Segments = slices.Contains(q.Kind.Uses(), "segments") && q.Flow != "" && q.Step == 0
	}
	if !given("confidence") && !given("delta") {
		q.Confidence = 0
	}
}

// readFlows reads a file of flows.
func readFlows(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--flows: %w", err)
	}
	keys, err := query.ReadFlows(string(text))
	if err != nil {
		return nil, fmt.Errorf("--flows: %s: %w", file, err)
	}
	flows := make([]string, len(keys))
	for i, k := range keys {
		flows[i] = query.FormatKey(k)
	}
	return flows, nil
}
