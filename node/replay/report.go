package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/weirswitch/weir/control"
	"github.com/weirswitch/weir/control/api"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/telemetry/query"
	queries "github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// Report is what a replay counted, also as JSON. Packets that arrived have
// one fate each: Received = Forwarded + Consumed + the sum of Dropped. Copies
// that stages made are counted apart: Copied = CopiesForwarded +
// CopiesConsumed + the sum of CopiesDropped.
type Report struct {
	worker.Fate
	Copied          uint64               `json:"copied"`
	CopiesForwarded uint64               `json:"copies_forwarded"`
	CopiesConsumed  uint64               `json:"copies_consumed"`
	CopiesDropped   map[string]uint64    `json:"copies_dropped"`
	Bytes           uint64               `json:"bytes"` // received, on the wire
	Balanced        bool                 `json:"balanced"`
	Malformed       map[string]uint64    `json:"malformed"` // by kind
	Stages          []worker.StageReport `json:"stages"`
	Metrics         []Metric             `json:"metrics,omitempty"` // that the stages count beside packets
	Ports           []PortReport         `json:"ports"`
	Seconds         float64              `json:"seconds"`
	Mpps            float64              `json:"mpps"` // received
	Traces          []Trace              `json:"traces,omitempty"`
	Decoded         []*Decoded           `json:"decoded,omitempty"` // by sinks of PINT
	// Carriers compare PINT with INT-MD, at each end of a chain.
	Carriers []*Carriers `json:"carriers,omitempty"`
	// Truncated: a capture ended inside a packet. Error says what else, or
	// where, in words.
	Truncated bool   `json:"truncated,omitempty"`
	Error     string `json:"error,omitempty"`
}

// Metric is one value that a stage defines, as "weir ctl show telemetry" has it.
type Metric struct {
	Stage  string            `json:"stage"`
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
	Help   string            `json:"help"`
}

// PortReport is a port, and the file that its packets left to.
type PortReport struct {
	worker.PortReport
	Out string `json:"out,omitempty"`
}

// Trace is what the stages did with a packet.
type Trace struct {
	Length uint32 `json:"length"` // on the wire
	InPort string `json:"in_port"`
	Steps  []Step `json:"steps"`
}

// Step is what one stage did, in words.
type Step struct {
	Stage string `json:"stage"`
	Text  string `json:"text"`
}

// report takes the report of a run that has ended.
func (r *Replay) report(s *worker.Report, seconds float64) *Report {
	report := &Report{
		Fate: s.Fate, Balanced: s.Balanced && s.Received == s.Forwarded+s.Consumed+s.DroppedTotal(),
		Copied: s.Copies.Received, CopiesForwarded: s.Copies.Forwarded,
		CopiesConsumed: s.Copies.Consumed, CopiesDropped: s.Copies.Dropped,
		Stages: s.Stages, Seconds: seconds,
	}
	for _, p := range s.Ports {
		report.Bytes += p.ReceivedBytes
		out, ok := r.config.Out[p.Name]
		if !ok {
			out = r.config.Out[""]
		}
		report.Ports = append(report.Ports, PortReport{p, out})
	}
	if seconds > 0 {
		report.Mpps = float64(report.Received) / seconds / 1e6
	}
	for _, m := range node.StageMetrics(r.chain) {
		report.Metrics = append(report.Metrics, Metric{m.Stage, m.Name, m.Labels, m.Value, m.Help})
	}
	for _, n := range r.chain {
		if m, ok := n.Module.(*parse.Module); ok {
			report.Malformed = m.Counters().Malformed
			maps.DeleteFunc(report.Malformed, func(_ string, n uint64) bool { return n == 0 })
		}
	}
	if r.tracer != nil {
		for _, traced := range r.tracer.Traces() {
			trace := Trace{Length: traced.Length, InPort: r.names[traced.InPort]}
			for _, s := range traced.Steps {
				trace.Steps = append(trace.Steps, Step{s.Stage, s.Text})
			}
			report.Traces = append(report.Traces, trace)
		}
	}
	return report
}

// Decoded is what the digests that ended at one switch say, and whether it is true, where that is known: in a
// chain each flow's path is.
type Decoded struct {
	Switch int             `json:"switch"`
	Pint   *api.PintReport `json:"-"`
	Flows  int             `json:"flows"`   // with a path query's digest
	Long   int             `json:"long"`    // of these, with at least 60 packets
	Found  int             `json:"decoded"` // of these, certain and right
	Wrong  int             `json:"wrong"`   // of all flows, certain and not right
	Hops   int             `json:"hops"`    // of the chain, 0 if there is none

	answers []any // of the query engine, as in Pint
}

// longFlow is how many packets a flow needs for its path to count as decodable:
// packets with distinct ids: a repeated packet adds no information.
const longFlow = 60

// addDecoded adds what the digests say that ended at the switch, or at each end of the row.
func (r *Replay) addDecoded(to *Report) error {
	if r.row == nil {
		return to.decodedAt(r.chain, r.records[0], int(r.config.Switch.Switch.ID), nil)
	}
	var errs []error
	last := r.config.Chain - 1
	for i := range last + 1 {
		if i != 0 && i != last {
			continue
		}
		truth := make([]uint64, last+1)
		for hop := range truth {
			truth[hop] = uint64(hop + 1)
		}
		if i == 0 {
			slices.Reverse(truth)
		}
		errs = append(errs, to.decodedAt(r.row.network.Chain(i), r.records[i], i+1, truth))
	}
	return errors.Join(errs...)
}

// decodedAt adds one switch, if it has the stage pint; truth is the path of all flows, nil: it is not known.
func (r *Report) decodedAt(chain []pipeline.Named, records *recordPath, id int, truth []uint64) error {
	answers, err := records.digests.Answers(query.MaxLimit)
	report, reportErr := node.PintReport(chain, answers)
	if err := errors.Join(err, reportErr); err != nil || report == nil {
		return err
	}
	d := &Decoded{Switch: id, Pint: report, Flows: int(report.Paths.GetMore()), Hops: len(truth), answers: answers}
	for _, f := range report.Paths.GetFlows() {
		right := truth == nil || slices.EqualFunc(f.Hops, truth, func(h *queries.PathHop, id uint64) bool { return h.Number == id })
		d.Flows++
		if f.Packets >= longFlow && (f.Certain || f.Undecoded >= longFlow) {
			d.Long++
			if f.Certain && right {
				d.Found++
			}
		}
		if f.Certain && !right {
			d.Wrong++
		}
	}
	r.Decoded = append(r.Decoded, d)
	return nil
}

// shownFlows is how many flows of an answer the text report shows.
const shownFlows = 10

func (r *Report) printDecoded(w io.Writer) error {
	for _, d := range r.Decoded {
		if d.Flows == 0 && len(d.Pint.Loops.GetFlows()) == 0 {
			continue
		}
		_, err := fmt.Fprintf(w, "\nswitch %d decoded: %d flows, %d of at least %d packets, of these %d paths certain", d.Switch, d.Flows, d.Long, longFlow, d.Found)
		if d.Hops != 0 {
			_, err = fmt.Fprintf(w, " and right, %d wrong", d.Wrong)
		}
		fmt.Fprintln(w)
		if err != nil {
			return err
		}
		for _, answer := range d.answers {
			kind := query.KindLatency
			switch a := answer.(type) {
			case *query.PathAnswer:
				kind, a.Flows, a.More = query.KindPath, a.Flows[:min(len(a.Flows), shownFlows)], 0
			case *query.LoopsAnswer:
				if len(a.Flows) == 0 {
					continue
				}
				kind, a.Flows, a.More = query.KindLoops, a.Flows[:min(len(a.Flows), shownFlows)], 0
			case *query.CongestionAnswer:
				continue
			}
			if err := text.Write(w, kind, answer); err != nil {
				return err
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}

// MarshalJSON adds what was decoded as weir ctl show --json writes it.
func (d *Decoded) MarshalJSON() ([]byte, error) {
	type plain Decoded
	return json.Marshal(struct {
		plain
		Pint json.RawMessage `json:"pint"`
	}{plain(*d), control.JSON(d.Pint)})
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for i, tr := range r.Traces {
		fmt.Fprintf(w, "packet %d: %d bytes from %s\n", i+1, tr.Length, tr.InPort)
		for _, s := range tr.Steps {
			fmt.Fprintf(w, "  %-8s %s\n", s.Stage, s.Text)
		}
	}
	if len(r.Traces) != 0 {
		fmt.Fprintln(w)
	}
	fmt.Fprintln(t, "port\treceived\tforwarded\tconsumed\tdropped\tcopied\ttransmitted\t")
	for i := range r.Ports {
		p := &r.Ports[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", p.Name, p.Received, p.Forwarded, p.Consumed, p.DroppedTotal(), p.Copies.Received, p.Transmitted)
	}
	t.Flush()
	fmt.Fprintln(w)
	fmt.Fprintln(t, "stage\tpackets\tdropped\tcopied\tns/packet\t")
	for _, s := range r.Stages {
		cost := "-" // no batch was timed
		if s.SampledPackets != 0 {
			cost = fmt.Sprintf("%.1f", s.NsPerPacket)
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t\n", s.Name, s.Packets, s.Dropped, s.Copied, cost)
	}
	t.Flush()
	r.printMetrics(w)
	r.printReasons(w)
	if err := r.printDecoded(w); err != nil {
		return err
	}
	for _, c := range r.Carriers {
		c.write(w)
	}
	fmt.Fprintf(w, "\nreceived %d = forwarded %d + consumed %d + dropped %d", r.Received, r.Forwarded, r.Consumed, r.DroppedTotal())
	if r.Copied != 0 {
		fmt.Fprintf(w, "; %d copies", r.Copied)
	}
	_, err := fmt.Fprintf(w, "\n%d bytes in %.2f s, %.2f Mpps\n", r.Bytes, r.Seconds, r.Mpps)
	return err
}

// printMetrics lists what the stages counted beside packets, but for what is zero.
func (r *Report) printMetrics(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	first := true
	for _, m := range r.Metrics {
		if m.Value == 0 {
			continue
		}
		if first {
			fmt.Fprintln(t, "\nmetrics of the stages")
			first = false
		}
		name := m.Name
		for _, label := range slices.Sorted(maps.Keys(m.Labels)) {
			name += fmt.Sprintf(" %s=%s", label, m.Labels[label])
		}
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\n", m.Stage, name, strconv.FormatFloat(m.Value, 'f', -1, 64), m.Help)
	}
	t.Flush()
}

// printReasons lists why packets were dropped, and what was malformed.
func (r *Report) printReasons(w io.Writer) {
	help := map[string]string{}
	for _, reason := range packet.Reasons() {
		help[reason.String()] = reason.Help()
	}
	for f := parse.NoFault + 1; f.Help() != ""; f++ {
		help[f.String()] = f.Help()
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, list := range []struct {
		title  string
		counts map[string]uint64
	}{{"dropped", r.Dropped}, {"copies dropped", r.CopiesDropped}, {"malformed", r.Malformed}} {
		if len(list.counts) != 0 {
			fmt.Fprintf(t, "\n%s\n", list.title)
		}
		for _, name := range slices.Sorted(maps.Keys(list.counts)) {
			fmt.Fprintf(t, "  %s\t%d\t%s\n", name, list.counts[name], help[name])
		}
	}
	t.Flush()
}
