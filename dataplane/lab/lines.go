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
		c.Links[i].key = fmt.Sprintf("link[%d]", i)
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
		slices.SortStableFunc(faults, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
		return faults
	}
	var fault tomlfile.Fault
	if !errors.As(err, &fault) {
		fault.Text = err.Error()
	}
	if c.said(i, fault.Key) {
		return nil
	}
	return []error{c.SwitchFault(i, fault.Key, "%s", fault.Text)}
}

// said reports whether the faults of the lab's file itself have one of what a key of the i-th switch's configuration is made of.
func (c *Config) said(i int, key string) bool {
	if c.lines == nil || c.lines.Empty() {
		return false
	}
	own := fmt.Sprintf("switch[%d]", i)
	if c.lines.Has(own+".config."+key) || strings.HasPrefix(key, "switch.graph") && c.lines.Under(own+".graph") || key == "switch.name" && c.lines.Has(own+".name") {
		return true
	}
	line := c.SwitchLine(i, key)
	return strings.HasPrefix(key, "port[") && slices.ContainsFunc(c.Links, func(l Link) bool { return l.line == line && c.lines.Under(l.key) })
}

// InOrder joins the faults of a lab's file in the order of its lines, each once.
func InOrder(errs ...error) error {
	var faults []error
	var flatten func(error)
	flatten = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, e := range joined.Unwrap() {
				flatten(e)
			}
		} else if err != nil && !slices.ContainsFunc(faults, func(e error) bool { return e.Error() == err.Error() }) {
			faults = append(faults, err)
		}
	}
	flatten(errors.Join(errs...))
	slices.SortStableFunc(faults, func(a, b error) int { return cmp.Compare(lineOf(a), lineOf(b)) })
	return errors.Join(faults...)
}

// lineOf is the line that a fault names; 0: it names none.
func lineOf(err error) int {
	var fault tomlfile.Fault
	_ = errors.As(err, &fault)
	return fault.Line
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

// FaultyKeys are keys of switches' configurations of which the value is not what the user meant, each as a fault of the lab's file names it.
type FaultyKeys []string

// KeysOf are those of joined faults.
func KeysOf(err error) (keys FaultyKeys) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			keys = append(keys, KeysOf(e)...)
		}
		return keys
	}
	if fault := (tomlfile.Fault{}); errors.As(err, &fault) {
		keys = append(keys, fault.Key)
	}
	return keys
}

// Has reports whether a key, or one inside it, is faulty.
func (f FaultyKeys) Has(key string) bool {
	return slices.ContainsFunc(f, func(k string) bool {
		rest, inside := strings.CutPrefix(k, key)
		return inside && (rest == "" || rest[0] == '.' || rest[0] == '[')
	})
}

// Without leaves out the faults of keys that are faulty already.
func (f FaultyKeys) Without(err error) error {
	var left []error
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			left = append(left, f.Without(e))
		}
		return errors.Join(left...)
	}
	if fault := (tomlfile.Fault{}); errors.As(err, &fault) && f.Has(fault.Key) {
		return nil
	}
	return err
}
