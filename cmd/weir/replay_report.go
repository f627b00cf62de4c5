package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/weirswitch/weir/dataplane/pcapfile"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/parse"
)

// replayReport is the JSON object of weir replay. Packets that arrived have
// one fate each: Received = Forwarded + Consumed + the sum of Dropped. Copies
// that stages made are counted apart: Copied = CopiesForwarded +
// CopiesConsumed + the sum of CopiesDropped.
type replayReport struct {
	worker.Fate
	Copied          uint64               `json:"copied"`
	CopiesForwarded uint64               `json:"copies_forwarded"`
	CopiesConsumed  uint64               `json:"copies_consumed"`
	CopiesDropped   map[string]uint64    `json:"copies_dropped"`
	Bytes           uint64               `json:"bytes"` // received, on the wire
	Balanced        bool                 `json:"balanced"`
	Malformed       map[string]uint64    `json:"malformed"` // by kind
	Stages          []worker.StageReport `json:"stages"`
	Ports           []replayPort         `json:"ports"`
	Seconds         float64              `json:"seconds"`
	Mpps            float64              `json:"mpps"` // received
	Traces          []replayTrace        `json:"traces,omitempty"`
	Decoded         []*replayDecoded     `json:"decoded,omitempty"` // by sinks of PINT
	// Truncated: a capture ended inside a packet. Error says what else, or
	// where, in words.
	Truncated bool   `json:"truncated,omitempty"`
	Error     string `json:"error,omitempty"`

	lost   int    // frames
	faults uint64 // of the audit
}

type replayPort struct {
	worker.PortReport
	Out string `json:"out,omitempty"` // the file that its packets left to
}

type replayTrace struct {
	Length uint32       `json:"length"` // on the wire
	InPort string       `json:"in_port"`
	Steps  []replayStep `json:"steps"`
}

type replayStep struct {
	Stage string `json:"stage"`
	Text  string `json:"text"`
}

func newReplayReport(s worker.Report, p *replayPlan, seconds float64) *replayReport {
	r := &replayReport{
		Fate: s.Fate, Balanced: s.Balanced,
		Copied: s.Copies.Received, CopiesForwarded: s.Copies.Forwarded,
		CopiesConsumed: s.Copies.Consumed, CopiesDropped: s.Copies.Dropped,
		Stages: s.Stages, Seconds: seconds,
		lost: s.Frames.Lost, faults: s.Frames.Faults,
	}
	r.Balanced = r.Balanced && r.Received == r.Forwarded+r.Consumed+r.DroppedTotal()
	for _, sp := range s.Ports {
		r.Bytes += sp.ReceivedBytes
		out, ok := p.out[sp.Name]
		if !ok {
			out = p.out[""]
		}
		r.Ports = append(r.Ports, replayPort{sp, out})
	}
	if seconds > 0 {
		r.Mpps = float64(r.Received) / seconds / 1e6
	}
	for _, n := range p.chain {
		if m, ok := n.Module.(*parse.Module); ok {
			r.Malformed = m.Counters().Malformed
			maps.DeleteFunc(r.Malformed, func(_ string, n uint64) bool { return n == 0 })
		}
	}
	return r
}

func (r *replayReport) addTraces(t *pipeline.Tracer, p *replayPlan) {
	if t == nil {
		return
	}
	for _, tr := range t.Traces() {
		out := replayTrace{Length: tr.Length, InPort: p.ports[tr.InPort]}
		for _, s := range tr.Steps {
			out.Steps = append(out.Steps, replayStep{s.Stage, s.Text})
		}
		r.Traces = append(r.Traces, out)
	}
}

// judge decides the exit status: what we did wrong, or could not write,
// weighs more than a bad capture.
func (r *replayReport) judge(run, read, interrupted error) error {
	err := run
	switch {
	case err != nil:
	case r.lost != 0 || r.faults != 0:
		err = fmt.Errorf("%d frames were lost and %d were in the wrong hands: this is a fault of weir, please report it", r.lost, r.faults)
	case !r.Balanced:
		err = errors.New("the counters do not add up: this is a fault of weir, please report it")
	case interrupted != nil:
		err = errors.New("interrupted: the rest of the capture was not read")
	case read != nil:
		r.Truncated = errors.Is(read, pcapfile.ErrTruncated)
		err = usageError(read)
	}
	if err != nil {
		r.Error = err.Error()
	}
	return err
}

func (r *replayReport) print(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
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
	r.printReasons(w)
	if err := r.printDecoded(w); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nreceived %d = forwarded %d + consumed %d + dropped %d", r.Received, r.Forwarded, r.Consumed, r.DroppedTotal())
	if r.Copied != 0 {
		fmt.Fprintf(w, "; %d copies", r.Copied)
	}
	_, err := fmt.Fprintf(w, "\n%d bytes in %.2f s, %.2f Mpps\n", r.Bytes, r.Seconds, r.Mpps)
	return err
}

// printReasons lists why packets were dropped, and what was malformed.
func (r *replayReport) printReasons(w io.Writer) {
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
