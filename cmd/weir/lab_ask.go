package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/text"
)

// labAsked are a collector's answers to one question of each kind or more, beside the truth.
type labAsked struct {
	Good   bool       `json:"ok"`
	Rows   []askedRow `json:"answers"`
	Delays []labDelay `json:"delays,omitempty"`
}

// askedRow is an answer beside the truth, in words.
type askedRow struct {
	Kind   query.Kind `json:"kind"`
	What   string     `json:"what"`
	Truth  string     `json:"truth"`
	Answer string     `json:"answer"`
	OK     bool       `json:"ok"`
	// NotJudged is why OK says nothing; empty: it does.
	NotJudged string `json:"not_judged,omitempty"`
}

// verdict is how the report marks the row.
func (r *askedRow) verdict() string {
	if r.NotJudged != "" {
		return "-"
	}
	return verdict(r.OK)
}

// OK implements lab.Answers.
func (a *labAsked) OK() bool { return a.Good }

// WriteText implements lab.Answers.
func (a *labAsked) WriteText(w io.Writer) error {
	t := text.NewTable("", "kind", "of", "truth", "answer")
	for _, r := range a.Rows {
		answer := r.Answer
		if r.NotJudged != "" {
			answer += "; not judged: " + r.NotJudged
		}
		t.Row("  "+r.verdict(), string(r.Kind), r.What, r.Truth, answer)
	}
	return t.Write(w)
}

// labAsker asks a lab's collector, as any client of its API does.
type labAsker struct {
	ctx    context.Context
	client *api.Client
	lab    *lab.Evidence
	truth  *labTruth
	paths  *labpath.Paths
	answer *labAsked
	// flows is the window of the loads of kind "flows", in ns of CLOCK_TAI, with the quiet around them.
	flows query.Question
}

// askLab asks the collector of a lab whose switches have ended.
func askLab(ctx context.Context, e *lab.Evidence) (lab.Answers, error) {
	client, err := api.NewClient("unix://"+e.Collector, api.ClientTLS{})
	if err != nil {
		return nil, err
	}
	truth, err := newLabTruth(e.Truth)
	if err != nil {
		return nil, err
	}
	paths, err := labpath.New(e.Config)
	if err != nil {
		return nil, err
	}
	x := &labAsker{ctx: ctx, client: client, lab: e, truth: truth, paths: paths, answer: &labAsked{}}
	if err := x.settle(); err != nil {
		return nil, err
	}
	x.window()
	for _, ask := range []func() error{
		x.network, x.path, x.latency, x.congestion, x.loops, x.frequency, x.heavyHitters, x.volume, x.entropy, x.cardinality, x.between,
	} {
		if err := ask(); err != nil {
			return nil, fmt.Errorf("ask the collector: %w", err)
		}
	}
	a := x.answer
	a.Good = !slices.ContainsFunc(a.Rows, func(r askedRow) bool { return !r.OK && r.NotJudged == "" })
	return a, nil
}

// window is that of the generated flows. Half of the quiet around them belongs to it.
func (x *labAsker) window() {
	if x.lab.FlowsBegan.IsZero() {
		return
	}
	tai := taiNow() - time.Now().UnixNano()
	half := int64(x.lab.Config.Quiet / 2)
	x.flows = query.Question{Start: x.lab.FlowsBegan.UnixNano() + tai - half, End: x.lab.FlowsEnded.UnixNano() + tai + half}
}

// How long a collector may take to have all records of switches that have ended, and how long
// nothing new comes by then.
const (
	askSettle = 30 * time.Second
	askQuiet  = 400 * time.Millisecond
)

// settle waits until the collector has heard the last of all switches.
func (x *labAsker) settle() error {
	before, since := "", time.Now()
	for deadline := time.Now().Add(askSettle); time.Now().Before(deadline); {
		now := ""
		if n, err := ask[*query.Network](x, &query.Question{Kind: query.KindNetwork}); err == nil {
			for _, s := range n.Switches {
				now += fmt.Sprintln(s.Name, s.LastHeardNs, s.Statuses)
			}
		} else if !errors.Is(err, query.ErrNoRecords) {
			return fmt.Errorf("ask the collector: %w", err)
		}
		if now != before {
			before, since = now, time.Now()
		} else if now != "" && time.Since(since) > askQuiet {
			return nil
		}
		select {
		case <-x.ctx.Done():
			return x.ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return errors.New("the collector does not come to rest: look at its log with weir lab up")
}

// ask puts a question whose answer is of a known type.
func ask[A any](x *labAsker, q *query.Question) (a A, err error) {
	got, err := x.client.Ask(x.ctx, q)
	if err != nil {
		return a, err
	}
	a, ok := got.(A)
	if !ok {
		return a, fmt.Errorf("the answer to %s is a %T", q.Kind, got)
	}
	return a, nil
}

// ofFlows is a question about the window of the generated flows.
func (x *labAsker) ofFlows(kind query.Kind) *query.Question {
	q := x.flows
	q.Kind, q.Confidence = kind, labConfidence
	return &q
}

// row notes an answer.
func (x *labAsker) row(kind query.Kind, ok bool, what, truth, format string, a ...any) {
	x.answer.Rows = append(x.answer.Rows, askedRow{Kind: kind, What: what, Truth: truth, Answer: fmt.Sprintf(format, a...), OK: ok})
}

// measures reports whether a switch of the lab has a stage.
func (x *labAsker) measures(stages ...string) bool {
	return slices.ContainsFunc(x.lab.Config.Switches, func(s lab.Switch) bool {
		return slices.ContainsFunc(s.Graph, func(g string) bool { return slices.Contains(stages, g) })
	})
}

// way is the path of a flow, by the links or by the routes; nil: these leave a choice.
func (x *labAsker) way(k query.Key) (names []string) {
	for _, id := range x.paths.Of(k) {
		names = append(names, x.name(id))
	}
	return names
}

// name is that of a switch by its number.
func (x *labAsker) name(id uint32) string {
	for _, e := range x.lab.Switches {
		if e.Report != nil && e.Report.ID == uint64(id) {
			return e.Name
		}
	}
	return fmt.Sprint(id)
}

// network holds what the switches say of themselves against the lab.
func (x *labAsker) network() error {
	n, err := ask[*query.Network](x, &query.Question{Kind: query.KindNetwork})
	if err != nil {
		return err
	}
	heard, ports, exact, overruns := 0, 0, 0, uint64(0)
	for _, s := range n.Switches {
		if s.HasStatus {
			heard++
		}
		overruns += s.Overruns
		ports += len(s.Ports)
		for i := range s.Ports {
			if x.sameRates(&s, &s.Ports[i]) {
				exact++
			}
		}
	}
	cables := -2 * (len(x.lab.Config.Relays))
	for _, l := range x.lab.Config.Links {
		cables += strings.Count(strings.Join(l.Endpoints, " "), ":")
	}
	want := len(x.lab.Config.Switches)
	x.row(query.KindNetwork, heard == want && ports == cables && exact == ports, "all",
		fmt.Sprintf("%d switches, %d ports", want, cables), "%d heard of, %d ports, %d of these with the packets that the switch counted; %d overruns", heard, ports, exact, overruns)
	return nil
}

// sameRates reports whether a port's rates add up to what its switch reported at its end, but for what was before its
// first status.
func (x *labAsker) sameRates(s *query.NetworkSwitch, p *query.NetworkPort) bool {
	for _, e := range x.lab.Switches {
		if e.Name != s.Name || e.Report == nil {
			continue
		}
		for _, at := range e.Report.Ports {
			if at.Name == p.Name {
				seconds := float64(s.SpanNs) / 1e9
				return p.HasRates && near(p.Received.PacketsPS*seconds, at.Received) && near(p.Sent.PacketsPS*seconds, at.Transmitted)
			}
		}
	}
	return false
}

// near compares a count with one that may have begun a little earlier.
func near(rate float64, count uint64) bool {
	return rate >= 0.99*float64(count)-20 && rate <= float64(count)+0.5
}
