package lab

import (
	"strings"
	"testing"
)

const bonded = hosts + `
[[switch]]
name = "s1"
graph = ["parse", "l2"]
[[switch]]
name = "s2"
graph = ["parse", "l2"]
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:up1", "s2:up1"]
delay = "1ms"
[[link]]
endpoints = ["s1:up2", "s2:up2"]
[[link]]
endpoints = ["s2:p0", "h2"]
[[traffic]]
kind = "udp"
from = "h1"
to = "h2"
window = 100
cut = "s2:CUT"
`

// TestCutBounds: what is lost at a cable that is cut, wherever it is counted, may be what was on its way and no more; elsewhere, and of another load, nothing.
func TestCutBounds(t *testing.T) {
	for _, port := range []string{"up1", "up2"} { // up1 has a relay
		c, err := Parse(strings.Replace(bonded, "CUT", port, 1), "x")
		if err != nil {
			t.Fatal(err)
		}
		if c.Traffic[0].CutAt != defaultCutAt {
			t.Errorf("cut_at = %g", c.Traffic[0].CutAt)
		}
		cuts := map[string]bool{"s1:" + port: true, "s2:" + port: true, "wire2:a": port == "up1", "wire2:b": port == "up1"}
		for _, end := range []string{"s1:up1", "s2:up1", "s1:up2", "s2:up2", "wire2:a", "wire2:b", "s1:p0", "h1"} {
			if c.isCut(end) != cuts[end] {
				t.Errorf("cut %s: isCut(%s) = %t", port, end, c.isCut(end))
			}
		}
		if c.mostCut() != 100 {
			t.Errorf("mostCut = %d", c.mostCut())
		}
		for _, test := range []struct {
			sent, received, down, other uint64
			ok                          bool
		}{
			{1000, 1000, 0, 0, true}, {1000, 950, 50, 0, true}, {1000, 950, 51, 0, false}, {1000, 899, 0, 0, false}, {1000, 1000, 0, 1, false}, {999, 1000, 0, 0, false},
		} {
			reports := map[string]*SwitchReport{
				"s1": {Balanced: true, Received: test.down + test.other, Dropped: map[string]uint64{portDown: test.down, "no_route": test.other}, Ports: []PortReport{{Name: port, Transmitted: test.sent}}},
				"s2": {Balanced: true, Dropped: map[string]uint64{}, Ports: []PortReport{{Name: port, Received: test.received}}},
			}
			a := Account{Lost: map[string]uint64{}}
			a.checkSwitch(c, "s1", reports["s1"])
			a.checkCable(nil, nil, reports, 0, "s1:"+port, "s2:"+port, true)
			a.checkCuts(c, reports)
			if a.OK() != test.ok {
				t.Errorf("%+v: %+v", test, a)
			}
		}
		for _, r := range []struct {
			lost, reordered, inFlight uint64
			cut                       string
			ok                        bool
		}{{100, 0, 100, "s1:up1", true}, {101, 0, 100, "s1:up1", false}, {1, 0, 0, "", false}, {1, 1, 100, "s1:up1", false}} {
			result := Result{Kind: KindUDP, Sent: 1000, Received: 1000 - r.lost, Lost: r.lost, Reordered: r.reordered, InFlight: r.inFlight, Cut: r.cut}
			if result.okIn(c) != r.ok {
				t.Errorf("%+v is ok: %t", r, !r.ok)
			}
		}
	}
}
