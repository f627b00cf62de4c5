package labpath_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirswitch/weir/dataplane/lab"
	"github.com/weirswitch/weir/dataplane/lab/labpath"
	"github.com/weirswitch/weir/telemetry/query"
)

// line has a relay and a bridge between two switches.
const line = `
[[host]]
name = "h1"
addresses = ["10.0.0.1/24", "fd00::1/64"]
[[host]]
name = "h2"
addresses = ["10.0.0.2/24", "fd00::2/64"]
[[switch]]
name = "s1"
graph = ["parse", "patch"]
[[switch]]
name = "s2"
graph = ["parse", "patch"]
[[relay]]
name = "slow"
[[bridge]]
name = "b1"
[[link]]
endpoints = ["h1", "s1:p0"]
[[link]]
endpoints = ["s1:p1", "slow:left"]
[[link]]
endpoints = ["s2:p0", "slow:right"]
[[link]]
endpoints = ["s2:p1", "b1:p0"]
[[link]]
endpoints = ["b1:p1", "h2"]
`

func pathOf(t *testing.T, p *labpath.Paths, flow string) []uint32 {
	t.Helper()
	k, err := query.ParseKey(flow)
	if err != nil {
		t.Fatal(err)
	}
	return p.Of(k)
}

func TestPathByLinks(t *testing.T) {
	c, err := lab.Parse(line, "line")
	if err != nil {
		t.Fatal(err)
	}
	for _, second := range []bool{false, true} {
		c.Links = append(c.Links, lab.Link{Endpoints: []string{"s1:p9", "s2:p9"}}) // of a bond: the switches are the same
		if second {                                                                // a way by a third switch leaves a choice
			c.Switches = append(c.Switches, lab.Switch{Name: "s3"})
			c.Links = append(c.Links, lab.Link{Endpoints: []string{"s1:p8", "s3:p0"}}, lab.Link{Endpoints: []string{"s3:p1", "s2:p8"}})
		}
		for i := range c.Switches {
			c.Switches[i].Graph = []string{"parse", "l2"}
		}
		p, err := labpath.New(c)
		if err != nil {
			t.Fatal(err)
		}
		for flow, want := range map[string][]uint32{
			"10.0.0.1:7 > 10.0.0.2:8 udp":          {1, 2},
			"10.0.0.2:7 > 10.0.0.1:8 tcp":          {2, 1},
			"[fd00::1]:7 > [fd00::2]:8 udp":        {1, 2},
			"198.18.0.5:49152 > 198.19.1.1:9 udp":  {1, 2},
			"198.18.4.0:49152 > 198.19.0.1:9 udp":  {2, 1},
			"10.0.0.1:7 > 10.0.0.1:8 udp":          nil,
			"10.0.0.9:7 > 10.0.0.2:8 udp":          nil,
			"10.0.0.1:7 > 10.0.0.9:8 udp":          nil,
			"198.18.4.0:49152 > 198.19.99.1:9 udp": nil,
		} {
			if second {
				want = nil
			}
			if got := pathOf(t, p, flow); !slices.Equal(got, want) {
				t.Errorf("two paths: %t, %s: %v, want %v", second, flow, got, want)
			}
		}
	}
}

// overlay is two hypervisors, each with a bridge and a router of a tenant, joined by a bond and by a router outside. The first has blue's router, the second red's.
const overlay = `
[[host]]
name = "blue1"
addresses = ["10.1.0.1/24"]
gateway = "10.1.0.254"
[[host]]
name = "blue2"
addresses = ["10.1.0.2/24"]
gateway = "10.1.0.254"
[[host]]
name = "blue3"
addresses = ["10.1.1.3/24"]
gateway = "10.1.1.254"
[[switch]]
name = "hv1"
graph = ["parse", "l2", "l3", "irb"]
[[switch.config.port]]
name = "irb0"
driver = "irb"
[[switch.config.port]]
name = "irb1"
driver = "irb"
[[switch.config.stages.l2.domain]]
name = "0"
ports = ["b1", "up1", "irb0"]
[[switch.config.stages.l2.domain]]
name = "1"
ports = ["up2", "irb1"]
[[switch.config.stages.l3.vrf]]
name = "blue"
[[switch.config.stages.l3.interface]]
port = "irb0"
vrf = "blue"
addresses = ["10.1.0.254/24"]
[[switch.config.stages.l3.interface]]
port = "irb1"
vrf = "blue"
addresses = ["10.1.1.254/24"]
[[switch.config.stages.l3.interface]]
port = "ext"
addresses = ["10.1.1.1/24"]
[[switch.config.stages.l3.route]]
prefix = "10.1.1.0/25"
via = ["10.1.1.77"]
[[switch]]
name = "hv2"
graph = ["parse", "l2"]
[[switch]]
name = "edge"
graph = ["parse", "l3"]
[[switch.config.stages.l3.interface]]
port = "hv1"
addresses = ["192.0.2.1/24"]
[[switch.config.stages.l3.interface]]
port = "hv2"
addresses = ["198.51.100.1/24"]
[[link]]
endpoints = ["blue1", "hv1:b1"]
[[link]]
endpoints = ["blue2", "hv2:b2"]
[[link]]
endpoints = ["blue3", "hv2:b3"]
[[link]]
endpoints = ["hv1:up1", "hv2:up1"]
[[link]]
endpoints = ["hv1:up2", "hv2:up2"]
delay = "1ms"
[[link]]
endpoints = ["hv1:ext", "edge:hv1"]
[[link]]
endpoints = ["hv2:ext", "edge:hv2"]
`

// TestPathOfOverlay: hosts of one network reach each other without their router, over a bond's cables and around a switch that does not bridge; those of
// two networks by the router, wherever it is, and by its VRF's routes alone.
func TestPathOfOverlay(t *testing.T) {
	c, err := lab.Parse(overlay, "overlay")
	if err != nil {
		t.Fatal(err)
	}
	p, err := labpath.New(c)
	if err != nil {
		t.Fatal(err)
	}
	for flow, want := range map[string][]uint32{
		"10.1.0.1:7 > 10.1.0.2:8 udp":   {1, 2},
		"10.1.0.2:7 > 10.1.0.1:8 udp":   {2, 1},
		"10.1.0.1:7 > 10.1.1.3:8 udp":   {1, 2},
		"10.1.0.2:7 > 10.1.1.3:8 udp":   {2, 1, 2},
		"10.1.1.3:7 > 10.1.0.1:8 udp":   {2, 1},
		"10.1.0.2:7 > 10.1.0.254:8 udp": {2, 1},
		"10.1.0.1:7 > 10.9.0.1:8 udp":   nil, // no route
	} {
		if got := pathOf(t, p, flow); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", flow, got, want)
		}
	}
}

// Flows between leaves take both spines; those of one leaf none.
func TestPathByRoutes(t *testing.T) {
	c, err := lab.Load("../../../config/spineleaf.toml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := labpath.New(c)
	if err != nil {
		t.Fatal(err)
	}
	id := func(name string) uint32 {
		return uint32(1 + slices.IndexFunc(c.Switches, func(s lab.Switch) bool { return s.Name == name }))
	}
	passed := map[uint32]int{}
	for port := range 200 {
		path := pathOf(t, p, fmt.Sprintf("198.18.0.0:%d > 198.19.2.1:9 udp", 49152+port))
		if len(path) != 3 || path[0] != id("leaf1") || path[2] != id("leaf3") {
			t.Fatalf("port %d: %v", port, path)
		}
		passed[path[1]]++
	}
	if len(passed) != 2 || passed[id("spine1")] < 50 || passed[id("spine2")] < 50 {
		t.Errorf("flows by spine: %v", passed)
	}
	if path := pathOf(t, p, "10.0.1.2:1 > 10.0.1.1:2 udp"); !slices.Equal(path, []uint32{id("leaf1")}) {
		t.Errorf("to the own leaf: %v", path)
	}
}

// TestFaultsOfAllSwitches: what is wrong with the configurations of several switches is reported at once, each fault with its switch and
// the line of the lab's file that has it, or the table, or the link that made the port.
func TestFaultsOfAllSwitches(t *testing.T) {
	const text = `[[host]]
name = "h1"
[[switch]]
name = "s1"
graph = ["parse", "no-such", "l2"]
[switch.config.workers]
count = 100000
[[switch]]
name = "s2"
[switch.config.switch]
graph = ["parse", "l2",
 "no-such"]
hash = "none"
[switch.config.stages.l2]
aging = "1s"
[[switch.config.port]]
name = "p1"
driver = "none"
[[link]]
endpoints = ["h1", "s1:p0"]
queues = 64
[[link]]
endpoints = ["s1:p1", "s2:p1"]
[[link]]
endpoints = ["s1:p2", "s2:p2"]
delay = "1ms"
[[link]]
endpoints = ["s1:p3", "s2:p3"]
`
	file := filepath.Join(t.TempDir(), "two.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := lab.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	_, err = labpath.New(c)
	if err == nil {
		t.Fatal("stages that do not exist were taken")
	}
	var got []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		rest, ok := strings.CutPrefix(line, file+":")
		if !ok {
			t.Errorf("%q names no line", line)
		}
		at, what, _ := strings.Cut(rest, ": ")
		key := strings.SplitN(what, ": ", 3)
		got = append(got, at+" "+key[0]+": "+key[1])
	}
	for _, want := range []string{
		"5 switch s1: switch.graph[1]", "7 switch s1: workers.count", "12 switch s2: switch.graph[2]", "13 switch s2: switch.hash", "15 switch s2: stages.l2.aging", "18 switch s2: port[0].driver",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no fault %q among %q", want, got)
		}
	}
	at := c
	for i, c := range []struct {
		sw   int
		key  string
		line int
	}{
		{0, "port[0].queues", 19}, {0, "port[1]", 22}, {0, "port[2].interface", 24}, {0, "port[3]", 27}, {1, "port[0].interface", 16}, {1, "port[1].queues", 27}, {1, "port[2]", 24}, // the far half of a link with a delay comes last
		{0, "switch.name", 4}, {1, "switch.name", 9}, {0, "stages.l2", 6}, {1, "stages.l3.route[2]", 14}, {1, "", 8},
	} {
		if line := at.SwitchLine(c.sw, c.key); line != c.line {
			t.Errorf("%d: %s of switch %d is in line %d, want %d", i, c.key, c.sw, line, c.line)
		}
	}
}
