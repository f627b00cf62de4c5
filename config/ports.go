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
		numbers[ports[i].Device()] = i
	}
	c.completeBonds(ports, numbers)
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

// completeBonds tells bonds what they have of their members, and hides these.
func (c *Config) completeBonds(ports []pipeline.Port, numbers map[string]int) {
	for i := range ports { // a bond may have gone
		ports[i].Name, ports[i].Member, ports[i].Of = ports[i].Device(), "", 0
	}
	for i := range c.Ports {
		pc := &c.Ports[i]
		number, there := numbers[pc.Name]
		if pc.Driver != port.DriverBond || !there {
			continue
		}
		primary, ok := numbers[pc.Primary]
		if !ok {
			primary = -1
		}
		b := &ports[number]
		b.Bond = bondOf(pc, primary)
		b.MTU, b.MaxFrame, b.TxRing, b.BitsPerSecond = 0, 0, 0, 0
		for _, name := range pc.Members {
			number, ok := numbers[name]
			if !ok {
				continue
			}
			m := &ports[number]
			m.Name, m.Member, m.Of = "", name, uint16(numbers[pc.Name])
			b.MTU, b.MaxFrame, b.TxRing = least(b.MTU, m.MTU), least(b.MaxFrame, m.MaxFrame), least(b.TxRing, m.TxRing)
			switch {
			case m.Down:
			case b.Bond.Mode == pipeline.ActiveBackup:
				b.BitsPerSecond = uint64(least(int(b.BitsPerSecond), int(m.BitsPerSecond)))
			default:
				b.BitsPerSecond += m.BitsPerSecond
			}
			if b.MAC == [6]byte{} {
				b.MAC = m.MAC
			}
		}
	}
}

// bondOf is a bond as stages see it; primary is a port number, negative for none.
func bondOf(c *port.Config, primary int) pipeline.Bond {
	b := pipeline.Bond{
		Mode: pipeline.LACP, Fast: c.LACPRate == port.LACPFast, MinLinks: uint8(max(c.MinLinks, 1)),
		Primary: uint16(primary + 1), SystemPriority: uint16(c.SystemPriority),
	}
	switch c.Mode {
	case port.BondActiveBackup:
		b.Mode = pipeline.ActiveBackup
	case port.BondBalanceXOR:
		b.Mode = pipeline.BalanceXOR
	}
	switch c.Hash {
	case port.BondLayer23:
		b.Hash = pipeline.HashLayer23
	case port.BondLayer2:
		b.Hash = pipeline.HashLayer2
	}
	if b.SystemPriority == 0 {
		b.SystemPriority = port.MaxSystemPriority
	}
	return b
}

// bondsOf returns by member the names of the bonds.
func (c *Config) bondsOf() map[string]string {
	bonds := map[string]string{}
	for i := range c.Ports {
		if p := &c.Ports[i]; p.Driver == port.DriverBond {
			for _, name := range p.Members {
				bonds[name] = p.Name
			}
		}
	}
	return bonds
}

// validateBonds checks bonds against their members.
func (c *Config) validateBonds(f *tomlfile.Faults) {
	first := map[string]string{}
	for i := range c.Ports {
		p, key := &c.Ports[i], fmt.Sprintf("port[%d]", i)
		if p.Driver != port.DriverBond {
			continue
		}
		for _, stage := range []string{"bond", "distribute"} {
			if len(c.Switch.Graph) != 0 && !slices.Contains(c.Switch.Graph, stage) {
				f.Add(key+".driver", "%q needs the stage %q, which the graph has not: add it to switch.graph", p.Driver, stage)
			}
		}
		for j, name := range p.Members {
			key := fmt.Sprintf("%s.members[%d]", key, j)
			m := c.PortNamed(name)
			switch bond, twice := first[name]; {
			case m == nil:
				f.Add(key, "%v", pipeline.UndefinedPort(name))
			case m.Driver == port.DriverBond:
				f.Add(key, "port %q is a bond, which cannot be a member: name its members here", name)
			case port.Deviceless(m.Driver):
				f.Add(key, "port %q is no device: name one that is", name)
			case twice && bond == p.Name:
				f.Add(key, "port %q is named already: remove one", name)
			case twice:
				f.Add(key, "port %q is a member of %q: a port is of one bond at most", name, bond)
			}
			first[name] = p.Name
		}
	}
}

// validateVirtual checks ports without a device against the others.
func (c *Config) validateVirtual(f *tomlfile.Faults) {
	type tags struct {
		parent      string
		vlan, inner int
	}
	first, bonds := map[tags]int{}, c.bondsOf()
	for i := range c.Ports {
		p, key := &c.Ports[i], fmt.Sprintf("port[%d]", i)
		if !port.Deviceless(p.Driver) || p.Driver == port.DriverBond || f.Under(key) {
			continue
		}
		needs := []string{"vlan", "tag"}
		switch p.Driver {
		case port.DriverIRB:
			needs = []string{"l2", "l3", "irb"}
		case port.DriverTunnel:
			needs = []string{"tunnel", "encap"}
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
		case bonds[p.Parent] != "":
			f.Add(key+".parent", "port %q is a member of %q: name the bond", p.Parent, bonds[p.Parent])
		case port.Deviceless(parent.Driver) && parent.Driver != port.DriverBond:
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
