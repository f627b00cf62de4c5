package lab

import (
	"fmt"

	"github.com/weirswitch/weir/internal/tomlfile"
)

// setLines notes where the file has its nodes, links and loads, for what the report says of them.
func (c *Config) setLines(f *tomlfile.Faults) {
	at := func(table string, i int) int { return f.Line(fmt.Sprintf("%s[%d]", table, i)) }
	for i := range c.Hosts {
		c.Hosts[i].line = at("host", i)
	}
	for i := range c.Switches {
		c.Switches[i].line = at("switch", i)
	}
	for i := range c.Bridges {
		c.Bridges[i].line = at("bridge", i)
	}
	for i := range c.Relays {
		c.Relays[i].line = at("relay", i)
	}
	for i := range c.Links {
		c.Links[i].line = at("link", i)
	}
	for i := range c.Traffic {
		c.Traffic[i].line = at("traffic", i)
	}
}

// Line is the line of the file that has a node, and of a relay that stands for a link that of the link; 0: there is none.
func (c *Config) Line(node string) int {
	if h := c.host(node); h != nil {
		return h.line
	}
	for i := range c.Switches {
		if c.Switches[i].Name == node {
			return c.Switches[i].line
		}
	}
	for i := range c.Bridges {
		if c.Bridges[i].Name == node {
			return c.Bridges[i].line
		}
	}
	for i := range c.Relays {
		if c.Relays[i].Name == node {
			return c.Relays[i].line
		}
	}
	return 0
}

// FlowsLine is the line of the first load of generated flows; 0: there is none.
func (c *Config) FlowsLine() int {
	for i := range c.Traffic {
		if c.Traffic[i].Kind == KindFlows {
			return c.Traffic[i].line
		}
	}
	return 0
}

// InFile is how a report names a line of the file; empty without one.
func InFile(line int) string {
	if line == 0 {
		return ""
	}
	return fmt.Sprintf(" (line %d of the lab file)", line)
}
