package l3

import (
	"strings"
	"testing"
	"time"

	"github.com/weirswitch/weir/pipeline"
)

// TestFaults: every fault has its key and a remedy, and all come at once.
func TestFaults(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Config)
		want   string
	}{
		{"reachable", func(c *Config) { c.Reachable = time.Millisecond }, "reachable: 1ms is out of range: choose 1s to 24h"},
		{"ECMP", func(c *Config) { c.ECMP = "port" }, `ecmp: "port": choose "flow" or "packet"`},
		{"table", func(c *Config) { c.NeighbourTable = 0 }, "neighbour_table: 0 is out of range"},
		{"table too small", func(c *Config) { c.NeighbourTable = 2 }, "neighbour_table: 6 gateways and static neighbours exceed 2: raise it"},
		{"hold", func(c *Config) { c.Hold = 65 }, "hold: 65 is out of range: choose 0 to 64"},
		{"rate", func(c *Config) { c.ICMPRate = -1 }, "icmp_rate: -1 is out of range"},
		{"no port", func(c *Config) { c.Interfaces[0].Port = "" }, "interface[0].port: is missing"},
		{"unknown port", func(c *Config) { c.Interfaces[0].Port = "q" }, `interface[0].port: port "q" is not defined: define [[port]] name = "q"`},
		{"port twice", func(c *Config) { c.Interfaces[1].Port = "p0" }, `interface[1].port: port "p0" is already set by interface[0]: join the two`},
		{"no addresses", func(c *Config) { c.Interfaces[0].Addresses = nil }, "interface[0].addresses: is missing"},
		{"address", func(c *Config) { c.Interfaces[0].Addresses[0] = "10.0.1.1" }, `interface[0].addresses[0]: "10.0.1.1": write an address with its prefix length`},
		{"network", func(c *Config) { c.Interfaces[0].Addresses[0] = "10.0.1.0/24" }, "interface[0].addresses[0]: 10.0.1.0 is the network's or its broadcast address"},
		{"broadcast", func(c *Config) { c.Interfaces[0].Addresses[0] = "10.0.1.255/24" }, "is the network's or its broadcast address"},
		{"multicast", func(c *Config) { c.Interfaces[0].Addresses[0] = "224.0.0.1/24" }, "224.0.0.1 is not an address that a router can have"},
		{"link-local", func(c *Config) { c.Interfaces[0].Addresses[1] = "fe80::1/64" }, "fe80::1 is not an address that a router can have"},
		{"address twice", func(c *Config) { c.Interfaces[1].Addresses[0] = "10.0.1.1/25" }, "interface[1].addresses[0]: 10.0.1.1 belongs to port p0 already"},
		{"network twice", func(c *Config) { c.Interfaces[1].Addresses[0] = "10.0.1.9/24" }, "interface[1].addresses[0]: the network 10.0.1.0/24 is on port p0 already"},
		{"mac", func(c *Config) { c.Interfaces[0].MAC = "xx" }, `interface[0].mac: "xx" is not a MAC address`},
		{"group", func(c *Config) { c.Interfaces[0].MAC = "01:00:00:00:00:01" }, "interface[0].mac: 01:00:00:00:00:01 is not the address of a station"},
		{"mtu 6", func(c *Config) { c.Interfaces[0].MTU = 1279 }, "interface[0].mtu: 1279 is out of range: choose 1280 to 65535"},
		{"mtu 4", func(c *Config) { c.Interfaces[0].MTU, c.Interfaces[0].Addresses = 67, []string{"10.0.1.1/24"} }, "interface[0].mtu: 67 is out of range: choose 68 to 65535"},
		{"prefix", func(c *Config) { c.Routes[0].Prefix = "10.9" }, `route[0].prefix: "10.9": write a network`},
		{"host bits", func(c *Config) { c.Routes[0].Prefix = "10.9.1.1/16" }, "route[0].prefix: 10.9.1.1/16 has bits behind its length: write 10.9.0.0/16"},
		{"never routed", func(c *Config) { c.Routes[0].Prefix = "224.0.0.0/8" }, "route[0].prefix: packets to 224.0.0.0/8 are never routed: remove the route"},
		{"route twice", func(c *Config) { c.Routes = append(c.Routes, c.Routes[0]) }, "route[2].prefix: 10.9.0.0/16 is already in route[0]: join the two"},
		{"neither", func(c *Config) { c.Routes[0].Via = nil }, "route[0]: has neither via nor port"},
		{"both", func(c *Config) { c.Routes[0].Port = "p0" }, "route[0]: via and port exclude each other"},
		{"route's port", func(c *Config) { c.Routes[0].Via, c.Routes[0].Port = nil, "q" }, `route[0].port: port "q" is not defined`},
		{"unrouted port", func(c *Config) { c.Routes[0].Via, c.Routes[0].Port = nil, "p3" }, "route[0].port: p3 has no address of that IP version"},
		{"gateway", func(c *Config) { c.Routes[0].Via[0] = "x" }, `route[0].via[0]: "x" is not an IP address`},
		{"version", func(c *Config) { c.Routes[0].Via[0] = "fd00:2::2" }, "route[0].via[0]: fd00:2::2 is not of the IP version of 10.9.0.0/16"},
		{"off link", func(c *Config) { c.Routes[0].Via[0] = "10.7.0.1" }, "route[0].via[0]: 10.7.0.1 is in no network of an interface"},
		{"own", func(c *Config) { c.Routes[0].Via[0] = "10.0.2.1" }, "route[0].via[0]: 10.0.2.1 is the switch's own address"},
		{"zone", func(c *Config) { c.Routes[1].Via[0] = "fe80::1" }, `route[1].via[0]: a link-local address is not unique: name its port, as in "fe80::1%p0"`},
		{"hop twice", func(c *Config) { c.Routes[0].Via = []string{"10.0.2.2", "10.0.2.2"} }, "route[0].via[1]: 10.0.2.2 appears twice: remove one, or use weights"},
		{"weights", func(c *Config) { c.Routes[0].Weights = []int{1, 2} }, "route[0].weights: 2 weights for 1 gateways: write one each"},
		{"weight", func(c *Config) { c.Routes[0].Weights = []int{0} }, "route[0].weights[0]: 0 is out of range: choose 1 to 64"},
		{"neighbour", func(c *Config) { c.Neighbours[0].Address = "x" }, `neighbour[0].address: "x" is not an IP address`},
		{"neighbour's mac", func(c *Config) { c.Neighbours[0].MAC = "" }, `neighbour[0].mac: "" is not a MAC address`},
		{"neighbour's port", func(c *Config) { c.Neighbours[0].Port = "p3" }, "neighbour[0].port: p3 has no address of that IP version"},
		{"neighbour twice", func(c *Config) { c.Neighbours[1] = c.Neighbours[0] }, "neighbour[1].address: 10.0.1.2 on port p0 is already in neighbour[0]: remove one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := testConfig()
			tc.change(&c)
			if err := c.Validate([]string{"p0", "p1", "p2", "p3"}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v does not say %q", err, tc.want)
			}
		})
	}
	c := Config{Interfaces: []Interface{{Port: "q"}}, Routes: []Route{{Prefix: "x"}}, Neighbours: []Neighbour{{}}}
	err := c.Validate([]string{"p0"})
	if n := strings.Count(err.Error(), "\n") + 1; n < 8 {
		t.Errorf("%d faults at once: %v", n, err)
	}
}

func TestDefaultsAndLinkLocalGateway(t *testing.T) {
	c := testConfig()
	c.Routes = append(c.Routes, Route{Prefix: "2001:db8::/32", Via: []string{"fe80::1%p2"}}, Route{Prefix: "0.0.0.0/0", Via: []string{"10.0.2.2"}}, Route{Prefix: "::/0", Port: "p1"})
	m, err := New(c, testEnv(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Routes() {
		if r.Prefix.String() == "2001:db8::/32" && (len(r.Hops) != 1 || r.Hops[0].Port != 2 || r.Hops[0].Address.String() != "fe80::1") {
			t.Errorf("%+v", r)
		}
	}
	if got := m.tables.Load().ports[1].hardware(); got != [6]byte{2, 0, 0, testID, 0, 1} {
		t.Errorf("MAC %x", got)
	}
	if a := m.tables.Load().ports[1].local6.String(); a != "fe80::ff:fe07:1" {
		t.Errorf("link-local address %s", a)
	}
	env := testEnv(1)
	env.Ports[0] = pipeline.Port{Name: "p0", MaxFrame: 1014}
	if m, err := New(testConfig(), env); err != nil || m.tables.Load().ports[0].mtu != 1000 {
		t.Errorf("%v", err)
	}
	env.Ports[2].MaxFrame = 1414 - 1
	if _, err := New(testConfig(), env); err == nil || !strings.Contains(err.Error(), "mtu 1400 of port p2 exceeds what it can send, 1399") {
		t.Errorf("%v", err)
	}
}
