package lab

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

const decodedLab = `
[[host]]
name = "h1"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24"]
[[host]]
name = "h3"
addresses = ["10.0.0.3/24"]
[[switch]]
name = "s1"
graph = ["parse", "l2"]
[[switch]]
name = "s2"
graph = ["parse", "l2"]
[[bridge]]
name = "b1"
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "b1:p0"]
[[link]]
endpoints = ["b1:p1", "s2:p0"]
[[link]]
endpoints = ["s2:p1", "h2"]
[[link]]
endpoints = ["s2:p2", "h3"]
`

// What sinks say is compared with the lab's own links, and with what each
// switch measured where the packets left it.
func TestDecoded(t *testing.T) {
	c, err := Parse(decodedLab, "decoded")
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) *SwitchReport {
		r := new(SwitchReport)
		if err := json.Unmarshal([]byte(text), r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	ends := []SwitchEnd{
		{Name: "s1", Report: read(`{"name": "s1", "id": 11, "pint": {"sink": true, "measured": [
			{"port": "p0", "value": "hop_latency", "median": 1}, {"port": "p1", "value": "hop_latency", "median": 1000}]}}`)},
		{Name: "s2", Report: read(`{"name": "s2", "id": 22, "pint": {"sink": true, "paths": [
			{"value": "switch_id", "flow": "10.0.0.1:7 > 10.0.0.2:8 protocol 17", "path": [11, 22], "certain": true, "packets": 100},
			{"value": "switch_id", "flow": "10.0.0.1:9 > 10.0.0.2:8 protocol 6", "path": [11], "certain": true, "packets": 80},
			{"value": "switch_id", "flow": "[fd00::1]:9 > 10.0.0.2:8 protocol 6", "packets": 80, "digests": 3},
			{"value": "switch_id", "flow": "10.0.0.9:9 > 10.0.0.2:8 protocol 6", "path": [1], "certain": true, "packets": 80},
			{"value": "switch_id", "flow": "10.0.0.3:9 > 10.0.0.2:8 protocol 6", "path": [22], "certain": true, "packets": 60},
			{"value": "egress_port", "flow": "10.0.0.3:9 > 10.0.0.2:8 protocol 6", "path": [5], "certain": true, "packets": 60}],
			"pools": [{"value": "hop_latency", "path": [11, 22], "hop": 1, "switch_id": 11, "samples": 40, "median": 990, "median_low": 900, "median_high": 1100},
				{"value": "hop_latency", "path": [11], "hop": 1, "switch_id": 11, "samples": 50, "median": 5},
				{"value": "queue_occupancy", "path": [11, 22], "hop": 1, "switch_id": 11, "samples": 60, "median": 7},
				{"value": "hop_latency", "path": [11, 22], "hop": 3, "switch_id": 33, "samples": 70, "median": 8}],
			"measured": []}}`)},
	}
	got := c.decoded(ends)
	if len(got) != 1 || got[0].Host != "h2" || got[0].Flows != 4 || got[0].Long != 3 || got[0].Right != 2 || got[0].Wrong != 1 ||
		!slices.Equal(got[0].Hops, []DecodedHop{{"s1", 40, 990, 900, 1100, 1000}}) {
		t.Errorf("%+v", got)
	}
	// With a second way nobody knows the truth.
	c.Links = append(c.Links, Link{Endpoints: []string{"s1:p9", "s2:p9"}})
	if got := c.decoded(ends); len(got) != 1 || got[0].Flows != 1 {
		t.Errorf("with two ways: %+v", got)
	}
	ends[0].Report.Pint, ends[1].Report.Pint = nil, nil
	if got := c.decoded(ends); got != nil {
		t.Errorf("without the stage: %+v", got)
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
	got := planFaults(ends)
	if len(got) != 1 || !strings.HasPrefix(got[0], "plan 1 of s2 (bb) is not that of s1 (aa)") {
		t.Errorf("%q", got)
	}
	if got := planFaults(ends[2:]); got != nil {
		t.Errorf("%q", got)
	}
}
