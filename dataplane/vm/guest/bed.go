package main

import (
	"fmt"
	"strings"

	"github.com/weirswitch/weir/dataplane/vm"
)

// bed is a network of one or two switches, for the tests that can share it.
type bed struct {
	tests    []vm.Test
	switches []switchFile
	mtu      int // of hosts
	core     int // of the cable between switches
	jumbo    bool
}

// switchFile is what differs between the configurations of switches.
type switchFile struct {
	name   string
	id     int
	ports  []string
	graph  string // stages, quoted
	stages string // their sections
}

const (
	mtu      = 1500
	jumboMTU = 9000
	shim     = 8 // bytes, of the built-in plan
	spool    = "/run/records"
)

// beds are in the order in which they are made.
var beds = []bed{
	{
		tests: []vm.Test{vm.Ping, vm.VLAN, vm.TCP, vm.Tunnels, vm.Flows}, mtu: mtu, core: mtu,
		switches: []switchFile{patch},
	},
	{tests: []vm.Test{vm.Jumbo}, mtu: jumboMTU, core: jumboMTU, jumbo: true, switches: []switchFile{patch}},
	{tests: []vm.Test{vm.L2}, mtu: mtu, core: mtu, switches: []switchFile{{"s1", 1, []string{"a", "b"}, `"parse", "l2"`, `
[[stages.l2.port]]
port = "a"
trunk = [10, 20]
native = 20

[[stages.l2.port]]
port = "b"
trunk = [10, 20]
`}}},
	{tests: []vm.Test{vm.L3}, mtu: mtu, core: mtu, switches: []switchFile{{"s1", 1, []string{"a", "b"}, `"parse", "l3"`, `
[[stages.l3.interface]]
port = "a"
addresses = ["10.1.1.1/24", "fd00:1::1/64"]

[[stages.l3.interface]]
port = "b"
addresses = ["10.1.2.1/24", "fd00:2::1/64"]
`}}},
	{tests: []vm.Test{vm.Overlay}, mtu: mtu, core: mtu, switches: []switchFile{overlaySwitch}},
	{tests: []vm.Test{vm.IRB}, mtu: mtu, core: mtu, switches: []switchFile{routedSwitch}},
	{tests: []vm.Test{vm.Bond}, mtu: mtu, core: mtu, switches: []switchFile{bondSwitch}},
	{tests: []vm.Test{vm.PINT}, mtu: mtu, core: mtu + shim, switches: []switchFile{
		{"s1", 1, []string{"a", "c"}, `"parse", "patch", "pint"`, pairs("a", "c") + "[stages.pint]\nedge = [\"a\"]\n"},
		{"s2", 2, []string{"d", "b"}, `"parse", "patch", "pint"`, pairs("d", "b") + "[stages.pint]\nedge = [\"b\"]\n"},
	}},
	{tests: []vm.Test{vm.LDS}, mtu: mtu, core: mtu, switches: []switchFile{
		{"s1", 1, []string{"a", "c"}, `"parse", "lds_ingress", "patch", "lds_egress"`, pairs("a", "c") + points("c")},
		{"s2", 2, []string{"d", "b"}, `"parse", "lds_ingress", "patch", "lds_egress"`, pairs("d", "b") + points("d")},
	}},
	{tests: []vm.Test{vm.Faults}, mtu: mtu, core: mtu, switches: []switchFile{patch}},
	{tests: []vm.Test{vm.Restart}, mtu: mtu, core: mtu, switches: []switchFile{patch}},
}

var patch = switchFile{"s1", 1, []string{"a", "b"}, `"parse", "patch"`, pairs("a", "b")}

func pairs(a, b string) string { return fmt.Sprintf("[stages.patch]\npairs = [[%q, %q]]\n", a, b) }

// points measure what leaves by a port and what arrives there.
func points(port string) string {
	text := fmt.Sprintf("[telemetry]\nspool = %q\n", spool)
	for _, stage := range []string{"lds_ingress", "lds_egress"} {
		text += fmt.Sprintf("[stages.%s]\nports = [%q]\nrows = 2\ncolumns = 16_384\nvirtual = 32\n", stage, port)
	}
	return text
}

// text is the configuration of a switch in a row.
func (f *switchFile) text(row *vm.Row, jumbo bool) string {
	var t strings.Builder
	fmt.Fprintf(&t, "[switch]\nname = %q\nid = %d\ngraph = [%s]\n", f.name, f.id, f.graph)
	fmt.Fprintf(&t, "[control]\nsocket = %q\n[dataplane]\naudit = true\n", f.socket())
	if row.Copy != "" {
		fmt.Fprintf(&t, "copy = %q\n", row.Copy)
	}
	if row.FrameSize != 0 {
		fmt.Fprintf(&t, "frame_size = %d\n", row.FrameSize)
	}
	if row.Workers != 0 {
		fmt.Fprintf(&t, "[workers]\ncount = %d\n", row.Workers)
	}
	for _, port := range f.ports {
		fmt.Fprintf(&t, "[[port]]\ninterface = %q\njumbo = %t\nqueues = %d\n", port, jumbo, row.Queues)
		if row.Mode != "" {
			fmt.Fprintf(&t, "mode = %q\n", row.Mode)
		}
	}
	return t.String() + f.stages
}

func (f *switchFile) socket() string { return "/run/" + f.name + ".sock" }
