package lab

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/BurntSushi/toml"
)

// This file alone knows the form of a switch's configuration.

// socketPath is where the lab's switch listens for control.
func socketPath(runDirectory, name string) string {
	return filepath.Join(runDirectory, name+".sock")
}

// portEnd is a switch's port as a link makes it.
type portEnd struct {
	name   string // of the port, and of its interface
	queues int
}

// switchConfig writes the complete configuration of the i-th switch: what the
// file says, and where it says nothing the name, an id, the control socket and the
// ports that the links make. With the patch stage and two ports, these are the pair. Records, if not
// empty, is the folder that the switch's records go to.
func (c *Config) switchConfig(i int, runDirectory, records string) ([]byte, error) {
	s := &c.Switches[i]
	config := maps.Clone(s.Config)
	if config == nil {
		config = map[string]any{}
	}
	main := subtable(config, "switch")
	main["name"] = s.Name
	setMissing(main, "id", c.switchID(i))
	if c.Key != "" && c.Key != NoKey {
		setMissing(main, "key", c.Key)
	}
	if s.Graph != nil {
		main["graph"] = s.Graph
	}
	setMissing(subtable(config, "control"), "socket", socketPath(runDirectory, s.Name))
	if records != "" {
		setMissing(subtable(config, "telemetry"), "spool", records)
		if c.Collector != nil {
			setMissing(subtable(config, "telemetry"), "collector", []string{"nats://" + collectorNATS})
		}
	}
	ends := c.portEnds(s.Name)
	ports, err := configPorts(config)
	if err != nil {
		return nil, fmt.Errorf("write the configuration of switch %s: %w", s.Name, err)
	}
	config["port"] = addPorts(ports, ends)
	if len(ends) == 2 && usesStage(main, "patch") {
		stages := subtable(config, "stages")
		setMissing(subtable(stages, "patch"), "pairs", [][]string{{ends[0].name, ends[1].name}})
	}
	var text bytes.Buffer
	if err := toml.NewEncoder(&text).Encode(config); err != nil {
		return nil, fmt.Errorf("write the configuration of switch %s: %w", s.Name, err)
	}
	return text.Bytes(), nil
}

// portEnds are the ports of a node, in the order of the links.
func (c *Config) portEnds(node string) (ends []portEnd) {
	for _, l := range c.Links {
		for _, e := range l.Endpoints {
			if n, port := splitEndpoint(e); n == node {
				ends = append(ends, portEnd{port, l.Queues})
			}
		}
	}
	return ends
}

// configPorts reads the port tables that a file gives itself.
func configPorts(config map[string]any) (ports []map[string]any, err error) {
	list, ok := config["port"].([]any)
	for _, port := range list {
		table, isTable := port.(map[string]any)
		ports, ok = append(ports, table), ok && isTable
	}
	if !ok && config["port"] != nil {
		return nil, fmt.Errorf("%v: write tables, [[switch.config.port]]", config["port"])
	}
	return ports, nil
}

// addPorts completes the ports: a table with a link's port name gets what it
// lacks, and a port without a table gets one.
func addPorts(given []map[string]any, ends []portEnd) []map[string]any {
	var ports []map[string]any
	for _, p := range given {
		ports = append(ports, maps.Clone(p))
	}
	for _, end := range ends {
		i := slices.IndexFunc(ports, func(p map[string]any) bool { return p["name"] == end.name })
		if i < 0 {
			i, ports = len(ports), append(ports, map[string]any{"name": end.name})
		}
		setMissing(ports[i], "interface", end.name)
		setMissing(ports[i], "queues", int64(end.queues))
	}
	return ports
}

// subtable returns a copy of the table at key, and replaces the table with the copy. What is no table
// stays, for the switch to complain about.
func subtable(t map[string]any, key string) map[string]any {
	sub, isTable := t[key].(map[string]any)
	if sub = maps.Clone(sub); sub == nil {
		sub = map[string]any{}
	}
	if isTable || t[key] == nil {
		t[key] = sub
	}
	return sub
}

func setMissing(t map[string]any, key string, value any) {
	if _, ok := t[key]; !ok {
		t[key] = value
	}
}

// usesStage reports whether the graph names a stage.
func usesStage(main map[string]any, stage string) bool {
	switch graph := main["graph"].(type) {
	case []string:
		return slices.Contains(graph, stage)
	case []any:
		return slices.Contains(graph, any(stage))
	}
	return false
}

// SwitchConfigs returns what each switch's configuration becomes, as text, in the order of the file, for a
// run directory and a folder of records of the lab's own.
func (c *Config) SwitchConfigs() ([][]byte, error) {
	texts := make([][]byte, len(c.Switches))
	for i := range c.Switches {
		var err error
		if texts[i], err = c.switchConfig(i, directoryOf(c.Name), ""); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// FlowSource finds the host that packets with a source address come from: by its own addresses, or those of
// generated flows; nil: none.
func (c *Config) FlowSource(source netip.Addr) *Host {
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if slices.ContainsFunc(h.prefixes(), func(p netip.Prefix) bool { return p.Addr() == source }) || flowSources(i).Contains(source) {
			return h
		}
	}
	return nil
}

// FlowTarget finds the host that packets to an address go to: its own, or those of generated flows; nil: none.
func (c *Config) FlowTarget(target netip.Addr) *Host {
	for i := range c.Hosts {
		h := &c.Hosts[i]
		if slices.ContainsFunc(h.prefixes(), func(p netip.Prefix) bool { return p.Addr() == target }) || flowTargets(i).Contains(target) {
			return h
		}
	}
	return nil
}

// Path names the switches between two hosts, by the links; nil: these leave a choice, or do not join the hosts.
func (c *Config) Path(from, to *Host) []string {
	if path := c.between(from.Name, to.Name, false); len(path) > 0 {
		return path
	}
	return c.between(from.Name, to.Name, true)
}

// Bridged names the switches between two nodes, these excluded, on a way over bridges alone: what routes and does not bridge is not passed. known: there is
// one such way, which may pass no switch.
func (c *Config) Bridged(from, to string) (path []string, known bool) {
	path = c.between(from, to, false)
	if path == nil {
		return nil, false
	}
	return slices.DeleteFunc(path, func(name string) bool { return name == from || name == to }), true
}

// between names the switches on the way from one node to another, both included if they are switches, over links that pass no node twice; nil: there is none, or the
// links leave a choice. Several cables between the same switches, as of a bond, are one way. all: switches that do not bridge are passed, too.
func (c *Config) between(from, to string, all bool) []string {
	var paths [][]string
	been := map[string]bool{from: true}
	// walk collects the different paths, up to two of them. Bridges and relays are not named.
	var walk func(at string, path []string)
	walk = func(at string, path []string) {
		if i := slices.IndexFunc(c.Switches, func(s Switch) bool { return s.Name == at }); i >= 0 {
			if path = append(path[:len(path):len(path)], at); at != from && at != to && !all && !c.Switches[i].bridges() {
				return
			}
		}
		if at == to {
			if !slices.ContainsFunc(paths, func(p []string) bool { return slices.Equal(p, path) }) {
				paths = append(paths, append([]string{}, path...))
			}
			return
		}
		for _, l := range c.Links {
			for end := range l.Endpoints {
				node, _ := splitEndpoint(l.Endpoints[end])
				next, _ := splitEndpoint(l.Endpoints[1-end])
				if node != at || been[next] || len(paths) > 1 || c.host(next) != nil && next != to {
					continue
				}
				been[next] = true
				walk(next, path)
				been[next] = false
			}
		}
	}
	if walk(from, nil); len(paths) != 1 {
		return nil
	}
	return paths[0]
}

// bridges reports whether a switch passes packets on that are not for its own MAC address.
func (s *Switch) bridges() bool {
	main, _ := s.Config["switch"].(map[string]any)
	return !(slices.Contains(s.Graph, "l3") || usesStage(main, "l3")) || slices.Contains(s.Graph, "l2") || usesStage(main, "l2")
}

// flowTargets are the addresses that flows for the n-th host go to.
func flowTargets(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 19, byte(n), 0}), 24)
}

// flowSources are the source addresses of the flows that the n-th host sends.
func flowSources(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 18, byte(n % 64 << 2), 0}), 22)
}
