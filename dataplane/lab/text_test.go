package lab

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestFailuresNameTheirLines: below FAILED each load that failed is repeated, with its line of the lab file, and none that did not.
func TestFailuresNameTheirLines(t *testing.T) {
	c, err := Parse(`name = "l"
[[host]]
name = "h1"
addresses = ["10.0.0.1/24"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[link]]
endpoints = ["h1", "h2"]
[[traffic]]
kind = "ping"
from = "h1"
to = "h2"

[[traffic]]
kind = "udp"
from = "h2"
to = "h1"
[[traffic]]
kind = "ping"
from = "h2"
to = "h1"
`, "l")
	if err != nil {
		t.Fatal(err)
	}
	o := &Outcome{Name: "l", config: c}
	for i, lost := range []uint64{0, 3, 1} {
		l := c.Traffic[i]
		o.Traffic = append(o.Traffic, Result{Kind: l.Kind, From: l.From, To: l.To, Sent: 10, Received: 10 - lost, Lost: lost})
	}
	var text strings.Builder
	if err := o.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	_, below, found := strings.Cut(text.String(), "FAILED, for these reasons:\n")
	if !found || strings.Contains(below, "line 10") {
		t.Errorf("the report: %s", &text)
	}
	for _, want := range []string{"FAIL  udp   h2 -> h1", "(line 15 of the lab file)", "FAIL  ping  h2 -> h1", "(line 19 of the lab file)"} {
		if strings.Count(below, want) != 1 {
			t.Errorf("%q is not below FAILED: %s", want, below)
		}
	}
}

// TestFailed: the last line of a run says what failed, and nothing else.
func TestFailed(t *testing.T) {
	lost := Result{Kind: KindUDP, Sent: 10, Received: 9, Lost: 1}
	for want, o := range map[string]*Outcome{
		"packets were lost or wrong":                                           {Traffic: []Result{lost}},
		"counters do not add up":                                               {Account: Account{Checks: []Check{{Left: 1}}}},
		"switches did not work as they should":                                 {Account: Account{Faults: []string{"switch s1 died"}}},
		"answers differ from the truth, or failed":                             {Answers: someAnswers{}},
		"packets were lost or wrong; answers differ from the truth, or failed": {Account: Account{Lost: map[string]uint64{"s1: no_route": 1}}, Answers: someAnswers{}},
	} {
		if got := o.failed(); got != want+"; the lines with FAIL say which" {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestInterruptedLoad: a load that the context ended is no failure of the network, and no success.
func TestInterruptedLoad(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := Result{Kind: KindUDP, Sent: 10, Received: 9, Lost: 1}
	r.ended(ctx, fmt.Errorf("send: %w", ctx.Err()))
	o := &Outcome{Name: "l", Traffic: []Result{r}, Interrupted: true}
	var text strings.Builder
	if err := o.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if r.OK() || strings.Contains(text.String(), "FAIL") || strings.Contains(text.String(), "canceled") || !strings.Contains(text.String(), "  -     udp ") || !strings.Contains(text.String(), "; interrupted\n") {
		t.Errorf("%s", &text)
	}
	r = Result{}
	if r.ended(t.Context(), errors.New("no room")); r.Interrupted || r.Fault != "no room" {
		t.Errorf("%+v", r)
	}
}

// TestEndedSwitches: switches that were ended with their run are not dead.
func TestEndedSwitches(t *testing.T) {
	s := &Status{Name: "l", Up: true, Ended: true, Healthy: true, Nodes: []NodeStatus{
		{Name: "s1", Exists: true, PID: 7, Ended: true, Log: "/run/s1.log"}, {Name: "collector", Exists: true, PID: 8, Log: "/run/collector.log"},
	}}
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Count(text.String(), "DEAD") != 1 || !strings.Contains(text.String(), "ended, see /run/s1.log") || !strings.Contains(text.String(), "its run is over") {
		t.Errorf("%s", &text)
	}
}
