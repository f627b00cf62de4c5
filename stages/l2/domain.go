package l2

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
)

// A bridge domain is a VLAN of the bridge whose number is not shown: its ports carry it untagged, and all others do not. So the table, floods
// and guards know nothing of domains.

// planDomains gives the domains numbers, and the ports their domains.
func (c *Config) planDomains(p *plan, ports []string, known map[string]uint16, f *faults) {
	if len(c.Ports) != 0 {
		f.add("domain: excludes port: make a subinterface for each VLAN (driver = \"vlan\"), and name it in a domain")
	}
	if len(c.Domains) > maxVID {
		f.add("domain: %d domains: a switch has %d at most", len(c.Domains), maxVID)
	}
	p.ports = make([]portVLANs, len(ports))
	for i := range p.ports {
		p.ports[i] = portVLANs{pvid: noVLAN, outside: true}
	}
	p.domains = map[string]uint16{}
	used := map[uint16]bool{}
	for i := range c.Domains {
		if n, ok := known[c.Domains[i].Name]; ok {
			used[n] = true
		}
	}
	first, next := map[string]string{}, uint16(1)
	for i := range c.Domains {
		d, key := &c.Domains[i], fmt.Sprintf("domain[%d]", i)
		if d.Name == "" {
			f.add("%s.name: is missing: name the domain", key)
		} else if _, twice := p.domains[d.Name]; twice {
			f.add("%s.name: %q is another domain already: choose another name", key, d.Name)
		}
		number, ok := known[d.Name]
		for !ok && used[next] {
			next++
		}
		if !ok {
			number = next
			next++
		}
		p.domains[d.Name] = number
		for j, name := range d.Ports {
			key := fmt.Sprintf("%s.ports[%d]", key, j)
			port := slices.Index(ports, name)
			if port < 0 {
				f.add("%s: %w", key, pipeline.UndefinedPort(name))
				continue
			}
			if other, ok := first[name]; ok {
				f.add("%s: port %q is of domain %q already: remove one", key, name, other)
				continue
			}
			first[name] = d.Name
			v := access(number, d.Tagged)
			v.opaque = d.Tagged
			p.ports[port] = v
		}
	}
}

// names returns the names of domains by number.
func (p *plan) names() []string {
	if p.domains == nil {
		return nil
	}
	all := make([]string, 1+slices.Max(slices.Collect(maps.Values(p.domains))))
	for name, number := range p.domains {
		all[number] = name
	}
	return all
}

// join finds what ports that are not on a device are to the bridge, which their names alone do not say.
func (p *plan) join(c *Config, ports []pipeline.Port) error {
	var f faults
	set := map[string]bool{}
	for i := range c.Ports {
		set[c.Ports[i].Port] = true
	}
	routed := map[uint16]string{}
	for i := range ports {
		port := &ports[i]
		if port.Name == "" {
			continue
		}
		in := &p.ports[i]
		if port.Routed {
			if in.transparent || !in.outside && in.count() != 1 {
				f.add("port: %q is a routed interface, of one VLAN: give it access = ... here, or name it in a [[stages.l2.domain]]", port.Name)
			} else if other, ok := routed[in.pvid]; ok && !in.outside {
				f.add("port: %q and %q are routed interfaces of the same domain: keep one, and give it the addresses of both", other, port.Name)
			}
			routed[in.pvid] = port.Name
			in.routed = true
		}
		if port.VLAN == 0 || p.domains != nil {
			continue
		}
		switch parent := &p.ports[port.Parent]; {
		case !set[ports[port.Parent].Name]: // what is not a subinterface's is in no domain
			*parent = portVLANs{pvid: noVLAN, outside: true}
		case parent.has(port.VLAN):
			f.add("port: %q carries VLAN %d, whose packets are those of %q: take it out of trunk", ports[port.Parent].Name, port.VLAN, port.Name)
		}
	}
	p.share(c, ports)
	return f.join()
}

// share gives subinterfaces the limits and the guards of the port beneath.
func (p *plan) share(c *Config, ports []pipeline.Port) {
	p.parents = make([]uint16, len(ports))
	for i := range ports {
		p.parents[i] = packet.NoPort
		port := &ports[i]
		if port.VLAN == 0 || int(port.Parent) >= len(p.storms) {
			continue
		}
		p.parents[i] = port.Parent
		if !slices.ContainsFunc(c.Storms, func(s Storm) bool { return s.Port == port.Name }) {
			p.storms[i] = p.storms[port.Parent]
		}
		if p.bpdus[i] == nil {
			p.bpdus[i] = p.bpdus[port.Parent]
		}
		p.snoop.guard[i] = p.snoop.guard[i] || p.snoop.guard[port.Parent]
	}
}

// Members returns the ports of the domain, or the VLAN, of a routed interface, this one not among them.
func (c *Config) Members(routed string) (all []string) {
	for i := range c.Domains {
		if slices.Contains(c.Domains[i].Ports, routed) {
			return slices.DeleteFunc(slices.Clone(c.Domains[i].Ports), func(name string) bool { return name == routed })
		}
	}
	vlan := 0
	for i := range c.Ports {
		if c.Ports[i].Port == routed {
			vlan = c.Ports[i].Access
		}
	}
	for i := range c.Ports {
		p := &c.Ports[i]
		if vlan != 0 && p.Port != routed && (p.Access == vlan || p.Native == vlan || slices.Contains(p.Trunk, vlan)) {
			all = append(all, p.Port)
		}
	}
	return all
}
