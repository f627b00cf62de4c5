package lab

import (
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
