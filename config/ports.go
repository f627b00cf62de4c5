package config

import (
	"fmt"
	"slices"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
)

// tagLength and linkLength are those of a VLAN tag and of an Ethernet header, in bytes.
const tagLength, linkLength = 4, 14

// CompletePorts tells ports without a device what they are, as stages see them: what they have of the ports beneath, or of those of their domain.
func (c *Config) CompletePorts(ports []pipeline.Port) {
	byName := map[string]*port.Config{}
	for i := range c.Ports {
		byName[c.Ports[i].Name] = &c.Ports[i]
	}
	numbers := map[string]int{}
	for i := range ports {
		numbers[ports[i].Name] = i
	}
	for i := range ports {
		p := &ports[i]
		pc := byName[p.Name]
		if p.Name == "" || pc == nil || pc.Driver != port.DriverVLAN {
			continue
		}
		number, ok := numbers[pc.Parent]
		if !ok {
			continue // it goes, and this one with it
		}
		parent := &ports[number]
		p.Parent, p.VLAN, p.Inner, p.TPID = uint16(number), uint16(pc.VLAN), uint16(pc.InnerVLAN), pc.TPID()
		p.MTU, p.BitsPerSecond, p.TxRing, p.Down = parent.MTU, parent.BitsPerSecond, parent.TxRing, parent.Down
		tags := 1
		if p.Inner != 0 {
			tags = 2
		}
		if p.MaxFrame = 0; parent.MaxFrame > 0 {
			p.MaxFrame = parent.MaxFrame - tags*tagLength
		}
	}
	bridge, _ := c.Stages["l2"].(*l2.Config)
	for i := range ports {
		p := &ports[i]
		if pc := byName[p.Name]; p.Name == "" || pc == nil || pc.Driver != port.DriverIRB {
			continue
		}
		p.Routed, p.MTU = true, 0
		if bridge == nil {
			continue
		}
		for _, name := range bridge.Members(p.Name) {
			if number, ok := numbers[name]; ok {
				p.MTU = least(p.MTU, ports[number].MTU, ports[number].MaxFrame-linkLength)
			}
		}
	}
}

// least is the smallest of those numbers that are known, which are positive.
func least(numbers ...int) (all int) {
	for _, n := range numbers {
		if n > 0 && (all == 0 || n < all) {
			all = n
		}
	}
	return all
}

// validateVirtual checks ports without a device against the others.
func (c *Config) validateVirtual(f *tomlfile.Faults) {
	type tags struct {
		parent      string
		vlan, inner int
	}
	first := map[tags]int{}
	for i := range c.Ports {
		p, key := &c.Ports[i], fmt.Sprintf("port[%d]", i)
		if !port.Deviceless(p.Driver) || f.Under(key) {
			continue
		}
		needs := []string{"vlan", "tag"}
		if p.Driver == port.DriverIRB {
			needs = []string{"l2", "l3", "irb"}
		}
		for _, stage := range needs {
			if len(c.Switch.Graph) != 0 && !slices.Contains(c.Switch.Graph, stage) {
				f.Add(key+".driver", "%q needs the stage %q, which the graph has not: add it to switch.graph", p.Driver, stage)
			}
		}
		if p.Driver != port.DriverVLAN {
			continue
		}
		switch parent := c.PortNamed(p.Parent); {
		case parent == nil:
			f.Add(key+".parent", "%v", pipeline.UndefinedPort(p.Parent))
		case port.Deviceless(parent.Driver) || parent.Driver == port.DriverTunnel:
			f.Add(key+".parent", "port %q is no device: name one that is, and write a second tag as inner_vlan", p.Parent)
		}
		t := tags{p.Parent, p.VLAN, p.InnerVLAN}
		if j, twice := first[t]; twice {
			f.Add(key+".vlan", "port[%d] has the same tags of %q: choose another VLAN", j, p.Parent)
		}
		first[t] = i
	}
}

// validateRouted checks the bridge against the router, where a graph has both: a port is of one of them, but for routed interfaces.
func (c *Config) validateRouted(f *tomlfile.Faults) {
	bridge, ok := c.Stages["l2"].(*l2.Config)
	router, both := c.Stages["l3"].(*l3.Config)
	if !ok || !both {
		return
	}
	bridged := map[string]bool{}
	for i := range bridge.Ports {
		bridged[bridge.Ports[i].Port] = true
	}
	for i := range bridge.Domains {
		for _, name := range bridge.Domains[i].Ports {
			bridged[name] = true
		}
	}
	for i := range router.Interfaces {
		for _, name := range []string{router.Interfaces[i].Port, router.Interfaces[i].Host} {
			if p := c.PortNamed(name); p != nil && p.Driver != port.DriverIRB && bridged[name] {
				f.Add(fmt.Sprintf("stages.l3.interface[%d].port", i), "port %q is of the bridge: give its domain a routed interface (driver = \"irb\") instead, or take it out there", name)
			}
		}
	}
}
