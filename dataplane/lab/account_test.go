package lab

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab/netns"
)

// balanced is a line of one switch in which 10 packets went to and 7 came back.
func balanced() (*Config, kernelCounters, []SwitchEnd) {
	c, err := Parse(line, "x")
	if err != nil {
		panic(err)
	}
	kernel := kernelCounters{
		"h1": netns.Counters{TxPackets: 10, RxPackets: 7},
		"h2": netns.Counters{TxPackets: 7, RxPackets: 10},
	}
	text := `{"name": "s1", "received": 17, "forwarded": 17, "consumed": 0, "dropped": {"ttl": 0}, "balanced": true,
	"ports": [{"name": "p0", "received": 10, "transmitted": 7}, {"name": "p1", "received": 7, "transmitted": 10}]}`
	r := &SwitchReport{Raw: json.RawMessage(text)}
	if err := json.Unmarshal(r.Raw, r); err != nil {
		panic(err)
	}
	return c, kernel, []SwitchEnd{{Name: "s1", Exit: Exit{Status: "exit status 0", Clean: true}, Report: r}}
}

// TestAccountSeesEachFault takes a lab in balance and spoils one thing at a time.
func TestAccountSeesEachFault(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*Config, kernelCounters, *SwitchEnd)
		want  string // in the text
	}{
		{"nothing", func(*Config, kernelCounters, *SwitchEnd) {}, ""},
		{"a packet vanished in the switch", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Report.Forwarded-- }, "s1 received = forwarded + consumed + dropped"},
		{"a packet vanished on the first cable", func(_ *Config, k kernelCounters, _ *SwitchEnd) {
			h := k["h1"]
			h.TxPackets++
			k["h1"] = h
		}, "h1 sent = s1:p0 received"},
		{"a packet vanished on the last cable", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Report.Ports[1].Transmitted++ }, "s1:p1 sent = h2 received"},
		{"a drop that is accounted for", func(_ *Config, _ kernelCounters, e *SwitchEnd) {
			e.Report.Forwarded--
			e.Report.Dropped["ttl"] = 1
		}, "lost at s1: ttl: 1"},
		{"an expected drop", func(c *Config, _ kernelCounters, e *SwitchEnd) {
			c.ExpectedDrops = []string{"ttl"}
			e.Report.Forwarded--
			e.Report.Dropped["ttl"] = 1
		}, ""},
		{"a copy vanished", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Report.Copies.Received = 1 }, "s1 copied = forwarded + consumed + dropped"},
		{"a copy that could not be made", func(_ *Config, _ kernelCounters, e *SwitchEnd) {
			e.Report.Copies = CopiesReport{Received: 1, Dropped: map[string]uint64{"no_frame": 1}}
		}, "lost at s1: no_frame: 1"},
		{"missed by the port", func(_ *Config, k kernelCounters, e *SwitchEnd) {
			h := k["h1"]
			h.TxPackets++
			k["h1"] = h
			e.Report.Ports[0].RxRingFull = 1
		}, "lost at s1 p0: RX ring full: 1"},
		{"kept", func(_ *Config, k kernelCounters, e *SwitchEnd) {
			h := k["h1"]
			h.TxPackets++
			k["h1"] = h
			e.Report.Ports[0].Kept = 1
		}, ""},
		{"not balanced by its own word", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Report.Balanced = false }, "says itself"},
		{"a lost frame", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Report.Frames = FrameReport{Total: 9, Lost: 1} }, "lost 1 of 9 frames"},
		{"a bad end", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Exit = Exit{Status: "signal: killed"} }, "signal: killed"},
		{"no report", func(_ *Config, _ kernelCounters, e *SwitchEnd) { e.Report, e.Fault = nil, "it printed no report" }, "it printed no report"},
	} {
		c, kernel, ends := balanced()
		test.spoil(c, kernel, &ends[0])
		a := account(c, kernel, nil, ends)
		o := Outcome{Name: "line", OK: a.OK(), Switches: ends, Account: a}
		var text strings.Builder
		if err := o.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if a.OK() != (test.want == "") {
			t.Errorf("%s: OK = %t:\n%s", test.name, a.OK(), &text)
		}
		found := test.want == ""
		for _, l := range strings.Split(text.String(), "\n") {
			found = found || strings.Contains(l, "FAIL") && strings.Contains(l, test.want)
			if strings.Contains(l, "FAIL ") && !regexp.MustCompile(`\(line (9|12|14) of the lab file\)`).MatchString(l) {
				t.Errorf("%s: this names no line of the switch or a link: %s", test.name, l)
			}
		}
		if !found {
			t.Errorf("%s: no FAIL line has %q:\n%s", test.name, test.want, &text)
		}
	}
}

func TestSwitchEndKeepsTheWholeReport(t *testing.T) {
	_, _, ends := balanced()
	ends[0].Report.Raw = json.RawMessage(`{"name":"s1","unknown_to_the_lab":[1]}`)
	text, err := json.Marshal(ends[0])
	if err != nil || !strings.Contains(string(text), `"unknown_to_the_lab":[1]`) || !strings.Contains(string(text), `"clean":true`) {
		t.Errorf("json = %s, %v", text, err)
	}
}

// Switches whose plans differ under one id are named.
func TestPlanFaults(t *testing.T) {
	var ends []SwitchEnd
	for name, text := range map[string]string{
		"s1": `{"pint": {"plans": [{"id": 1, "digest": "aa"}]}}`,
		"s2": `{"pint": {"plans": [{"id": 2, "digest": "cc"}, {"id": 1, "digest": "bb"}]}}`,
		"s3": `{}`,
		"s4": `{"pint": {"plans": [{"id": 1, "digest": "aa"}]}}`,
	} {
		r := new(SwitchReport)
		if err := json.Unmarshal([]byte(text), r); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, SwitchEnd{Name: name, Report: r})
	}
	slices.SortFunc(ends, func(a, b SwitchEnd) int { return strings.Compare(a.Name, b.Name) })
	plansOf := func(ends []SwitchEnd) []string {
		var a Account
		a.checkPlans(ends)
		return a.Faults
	}
	got := plansOf(ends)
	if len(got) != 1 || !strings.HasPrefix(got[0], "plan 1 of s2 (bb) is not that of s1 (aa)") {
		t.Errorf("%q", got)
	}
	if got := plansOf(ends[2:]); got != nil {
		t.Errorf("%q", got)
	}
}

// TestCountedLate: what a host had not counted when the lab seemed at rest counts once the switches have ended; what is
// missing then is missing.
func TestCountedLate(t *testing.T) {
	for missing, ok := range map[uint64]bool{0: true, 1: false} {
		c, kernel, ends := balanced()
		late := kernelCounters{"h2": kernel["h2"]}
		h := kernel["h2"]
		h.RxPackets--
		kernel["h2"] = h
		l := late["h2"]
		l.RxPackets -= missing
		late["h2"] = l
		if a := account(c, kernel, late, ends); a.OK() != ok {
			t.Errorf("%d missing: %+v", missing, a.Checks)
		}
	}
}

// TestSentLate: what a kernel sent after its counters were read may have reached the switch, or not; more than it sent can not.
func TestSentLate(t *testing.T) {
	for _, test := range []struct {
		read, late uint64 // of the 10 that the switch received
		ok         bool
	}{{9, 10, true}, {9, 11, true}, {9, 9, false}, {10, 11, true}, {11, 12, false}} {
		c, kernel, ends := balanced()
		at := func(sent uint64) netns.Counters {
			h := kernel["h1"]
			h.TxPackets = sent
			return h
		}
		late := kernelCounters{"h1": at(test.late)}
		kernel["h1"] = at(test.read)
		if a := account(c, kernel, late, ends); a.OK() != test.ok {
			t.Errorf("%+v: %+v", test, a.Checks)
		}
	}
}
