package config

import (
	"strings"
	"testing"
)

// TestRoutedInterfaceElsewhere: a stage that would wait for packets of a routed interface is refused with what to name instead.
func TestRoutedInterfaceElsewhere(t *testing.T) {
	const base = `
[switch]
name = "edge"
graph = ["parse", "policer", "l2", "l3", "irb", "mirror"]
[[port]]
interface = "eth0"
[[port]]
interface = "eth1"
[[port]]
name = "irb-blue"
driver = "irb"
[[stages.l2.domain]]
name = "blue"
ports = ["eth0", "irb-blue"]
`
	for _, more := range []string{
		"[[stages.policer.port]]\nport = \"irb-blue\"\nrate_bits = 1_000_000\n",
		"[[stages.mirror.session]]\nports = [\"irb-blue\"]\nto = \"eth1\"\n",
		"[[stages.mirror.session]]\nports = [\"eth0\"]\nto = \"irb-blue\"\n",
	} {
		_, err := Parse([]byte(base + more))
		if err == nil || strings.Count(err.Error(), "\n") != 0 ||
			!strings.Contains(err.Error(), `"irb-blue" is a routed interface, which has no packets of its own: name the ports of its domain`) {
			t.Errorf("%s: %v", more, err)
		}
	}
}

// TestTunnelArrival: packets that come out of a tunnel have the arrival time of the outer ones, so a switch with tunnels can ask for those of the XDP program.
func TestTunnelArrival(t *testing.T) {
	const text = `
[switch]
name = "hv"
graph = ["parse", "tunnel", "l2", "encap"]
[dataplane]
timestamps = "xdp"
[[port]]
interface = "up"
[[port]]
interface = "vm"
DRIVER
[[port]]
name = "vx"
driver = "tunnel"
[[stages.tunnel.underlay]]
port = "up"
addresses = ["192.0.2.1/24"]
[[stages.tunnel.tunnel]]
port = "vx"
kind = "vxlan"
vni = 1
remotes = ["192.0.2.2"]
`
	if _, err := Parse([]byte(strings.Replace(text, "DRIVER", "", 1))); err != nil {
		t.Error(err)
	}
	if _, err := Parse([]byte(strings.Replace(text, "DRIVER", `driver = "tap"`, 1))); err == nil || !strings.Contains(err.Error(), "tap knows no arrival times") {
		t.Errorf("a driver without arrival times: %v", err)
	}
}
