package lab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// SwitchFaults are the faults that an error of config.Parse joins, of the i-th switch's configuration as SwitchConfigs writes it: each names the
// switch, and the line of the lab's file that has its key, or the table or the link from which the lab made it.
func (c *Config) SwitchFaults(i int, err error) (faults []error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range all.Unwrap() {
			faults = append(faults, c.SwitchFaults(i, e)...)
		}
		line := func(err error) int {
			var fault tomlfile.Fault
			_ = errors.As(err, &fault) // each is one
			return fault.Line
		}
		slices.SortStableFunc(faults, func(a, b error) int { return cmp.Compare(line(a), line(b)) })
		return faults
	}
	var fault tomlfile.Fault
	if !errors.As(err, &fault) {
		fault.Text = err.Error()
	}
	return []error{c.SwitchFault(i, fault.Key, "%s", fault.Text)}
}

// SwitchFault is a fault of a key in the i-th switch's configuration.
func (c *Config) SwitchFault(i int, key, format string, args ...any) error {
	fault := tomlfile.Fault{File: c.path, Line: c.SwitchLine(i, key), Key: "switch " + c.Switches[i].Name, Text: fmt.Sprintf(format, args...)}
	if key != "" {
		fault.Key += ": " + key
	}
	return fault
}

// SwitchLine is the line of the file that has a key of the i-th switch's configuration, else that of the innermost table around it, or of the link
// that made the port; 0: there is no file.
func (c *Config) SwitchLine(i int, key string) int {
	if c.lines == nil {
		return 0
	}
	s, own := &c.Switches[i], fmt.Sprintf("switch[%d]", i)
	if rest, ok := strings.CutPrefix(key, "switch.graph"); ok && s.Graph != nil {
		return c.lines.Line(own + ".graph" + rest)
	}
	switch key {
	case "":
		return s.line
	case "switch.name":
		return c.lines.Line(own + ".name")
	}
	var port int
	if n, err := fmt.Sscanf(key, "port[%d]", &port); n == 1 && err == nil {
		given, _ := configPorts(s.Config) // Validate has said what is wrong with them
		if line := c.linkOfPort(s.Name, given, port); line != 0 {
			return line
		}
	}
	return c.lines.Line(own + ".config." + key)
}

// linkOfPort is the line of the link for which addPorts made the port with a number; 0: the file gives that port itself.
func (c *Config) linkOfPort(node string, given []map[string]any, number int) int {
	at := len(given)
	for i := range c.Links {
		for _, e := range c.Links[i].Endpoints {
			n, name := splitEndpoint(e)
			if n != node || slices.ContainsFunc(given, func(p map[string]any) bool { return p["name"] == name }) {
				continue
			}
			if at == number {
				return c.Links[i].line
			}
			at++
		}
	}
	return 0
}
