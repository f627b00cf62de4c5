package text

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirswitch/weir/telemetry/query"
)

// TestNegativeLoss: an answer that more packets arrived than had left says how that can be, and what prevents it.
func TestNegativeLoss(t *testing.T) {
	for lost, explained := range map[float64]bool{-699: true, 0: false, 12: false} {
		var b strings.Builder
		if err := printLoss(&b, &query.Between{HasLoss: true, Lost: lost, Intervals: 17, Whole: 15}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "interval_bit") != explained || !strings.Contains(b.String(), "in 15 of the 17 intervals with packets") {
			t.Errorf("%g: %s", lost, &b)
		}
	}
}

// TestWays: several ways are listed with their parts, and one that says nothing is named as left out; one alone is not.
func TestWays(t *testing.T) {
	b := &query.Between{
		From: "w out", To: "e in", HasLoss: true, Lost: 197, HasDelay: true,
		Ways: []query.Way{
			{From: "w:0 out", To: "e:1 in", Packets: 5000, HasLoss: true, HasDelay: true, Delay: query.Bounded{Value: 2e6}},
			{From: "w:1 out", To: "e:0 in", Packets: 4000, HasLoss: true, Lost: 197},
			{From: "w:2 out", To: "e:2 in", Why: "the points do not see the same packets"},
		},
	}
	var loss, delay strings.Builder
	if err := errors.Join(printLoss(&loss, b), printDelay(&delay, b)); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"packets lost: 197\n", "  by w:0 out to e:1 in: 0 lost of 5000\n", "  by w:1 out to e:0 in: 197 lost of 4000\n",
		"  by w:2 out to e:2 in: not known, and not in the sum: the points do not see the same packets\n",
	} {
		if !strings.Contains(loss.String(), line) {
			t.Errorf("no %q in\n%s", line, &loss)
		}
	}
	if !strings.Contains(delay.String(), "  by w:0 out to e:1 in: mean 2ms\n  by w:1 out to e:0 in: no cell") {
		t.Errorf("%s", &delay)
	}
	loss.Reset()
	b = &query.Between{From: "w:0 out", To: "e:1 in", Why: "other packets", Ways: b.Ways[:1]}
	if err := printLoss(&loss, b); err != nil || strings.Contains(loss.String(), " by ") || !strings.Contains(loss.String(), "loss: not known, other packets\n") {
		t.Errorf("%v\n%s", err, &loss)
	}
}

// TestUnnamed: losses of flows that are not named are in the text, whether other flows are named or not.
func TestUnnamed(t *testing.T) {
	for _, c := range []struct {
		between query.Between
		want    string
	}{
		{query.Between{HasLoss: true, Lost: 9, HasPackets: true, Packets: 400}, "packets lost: 9 of 400\n"},
		{query.Between{HasLoss: true, Lost: 9, Flow: "f", HasPackets: true, Packets: 400, HasBytes: true, Bytes: 4e4, CountTrust: 1}, "packets lost: 9 of 400 with 40000 bytes; trust 1.00\n"},
		{query.Between{HasLoss: true, Lost: 9, MoreUnnamed: true}, "more flows lost packets than lost_flows of the stages has room for"},
		{query.Between{HasLoss: true, Lost: 9, MoreUnnamed: true, LosingOf: 16, Losing: &query.Bounded{Value: 800, Low: 601, High: 1040}}, "\n  about 800 flows lost packets (601 to 1040): of one flow of 16, by a hash, all that did are named\n"},
		{query.Between{HasLoss: true, Lost: 9, AllNamed: true, LostFlows: []query.LostFlow{{Flow: "f", Lost: 4}}}, "\n  5 of flows without a name here: of IPv6, or fragments"},
	} {
		var b strings.Builder
		if err := printLoss(&b, &c.between); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), c.want) {
			t.Errorf("no %q in:\n%s", c.want, b.String())
		}
	}
}

// TestTogether: pieces of a path that are all known are added up beside the delay from end to end, and those that are not are not.
func TestTogether(t *testing.T) {
	piece := func(from, to, by string, ns float64) query.Segment {
		return query.Segment{From: from, To: to, By: by, Delay: query.Bounded{Value: ns, Low: ns, High: ns}}
	}
	b := query.Between{HasDelay: true, Delay: query.Bounded{Value: 100e6}, Segments: []query.Segment{piece("a", "b", "lds", 60e6), piece("b", "b", "pint", 1e6), piece("b", "c", "lds", 40e6)}}
	if got := segments(&b, false); len(got) != 4 || !strings.Contains(got[1], "inside b: mean 1ms") || !strings.Contains(got[3], "together: 101") || !strings.Contains(got[3], "+1.0 %") {
		t.Errorf("%q", got)
	}
	b.Segments[1].By = ""
	if got := segments(&b, false); len(got) != 3 {
		t.Errorf("%q", got)
	}
}

// TestNamedFlows: of flows that a question names each is a line, with the reason where nothing of it is known; idle intervals are named as such.
func TestNamedFlows(t *testing.T) {
	b := query.Between{HasDelay: true, HasLoss: true, Intervals: 3, Whole: 3, Idle: 2, Flows: []query.FlowBetween{
		{Flow: "f1", HasDelay: true, Delay: query.Bounded{Value: 2e6, Low: 1e6, High: 3e6}, HasLoss: true, Packets: 70, Lost: 4}, {Flow: "f2", Why: "it never came"}, {Flow: "f3"},
	}}
	var delays, losses strings.Builder
	if err := errors.Join(printDelay(&delays, &b), printLoss(&losses, &b)); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[*strings.Builder][]string{
		&delays: {"\n  f1: mean 2ms (1ms to 3ms)\n", "\n  f2: not known: it never came\n", "\n  f3: not known: no cell of it survived\n", "in 3 intervals (3 whole; nothing passed in 2 more)"},
		&losses: {"\n  f1: 4 lost of 70\n", "\n  f2: not known: it never came\n", "\n  f3: not known: no interval was counted whole by both points\n"},
	} {
		for _, w := range want {
			if !strings.Contains(text.String(), w) {
				t.Errorf("no %q in %s", w, text)
			}
		}
	}
}
