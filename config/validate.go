package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/printable"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages"
)

// validate collects what is wrong with the values, table by table and across.
func (c *Config) validate(f *tomlfile.Faults) {
	if !printable.IsName(c.Switch.Name) && !f.Under("switch.name") {
		f.Add("switch.name", "%q is not a name: use 1 to 32 letters, digits, '.', '_' and '-'", c.Switch.Name)
	}
	f.AddAll("dataplane", c.Dataplane.Validate())
	f.AddAll("workers", c.Workers.Validate())
	f.AddAll("telemetry", c.Telemetry.Validate())
	f.AddAll("control", c.Control.Validate())
	f.AddAll("log", c.Log.Validate())
	c.validatePorts(f)
	c.validateStages(f)
}

func (c *Config) validatePorts(f *tomlfile.Faults) {
	if len(c.Ports) == 0 {
		f.Add("port", "is missing: add a table [[port]] for each port")
	}
	names, interfaces, sockets, queues, held := map[string]int{}, map[string]int{}, map[string]int{}, 0, 0
	for i := range c.Ports {
		p := &c.Ports[i]
		key := fmt.Sprintf("port[%d]", i)
		if !port.Deviceless(p.Driver) {
			queues += max(p.Queues, 1) // 0 is all that the interface has; the switch checks again when it knows
			held += max(p.Queues, 1) * p.Held()
		}
		f.AddAll(key, p.Validate())
		if p.Name != "" && !printable.IsName(p.Name) {
			f.Add(key+".name", "%q is not a name: use 1 to 32 letters, digits, '.', '_' and '-'", p.Name)
		}
		address := p.Socket
		if p.Driver == port.DriverMemif {
			address = fmt.Sprintf("%s id %d", p.Socket, p.ID)
		}
		if j, ok := interfaces[p.Interface]; ok && p.Interface != "" {
			f.Add(key+".interface", "port[%d] is on %q already: an interface has one port, name another", j, p.Interface)
		} else if j, ok := sockets[address]; ok && p.Socket != "" {
			f.Add(key+".socket", "port[%d] is on %q already: a socket has one port, name another (with memif, one for each id)", j, address)
		} else if j, ok := names[p.Name]; ok && p.Name != "" {
			f.Add(key+".name", "port[%d] is called %q already: choose another name", j, p.Name)
		}
		interfaces[p.Interface], sockets[address], names[p.Name] = i, i, i
		if t := c.Dataplane.Timestamps; p.Driver != port.DriverXSK && !port.Deviceless(p.Driver) && (t == port.TimestampsXDP || t == port.TimestampsHardware) {
			f.Add(key+".driver", "%s knows no arrival times: use driver = %q, or dataplane.timestamps = %q", p.Driver, port.DriverXSK, port.TimestampsAuto)
		}
		if ring := c.Dataplane.TXRing; p.TXBudget > ring {
			f.Add(key+".tx_budget", "%d exceeds the TX ring: choose up to dataplane.tx_ring = %d", p.TXBudget, ring)
		}
	}
	c.validateBonds(f)
	c.validateVirtual(f)
	if !f.Under("dataplane") {
		f.AddAll("dataplane", c.Dataplane.CheckFrames(queues, held))
	}
}

// validateStages checks each stage's configuration and, if all are good, the
// graph of them.
func (c *Config) validateStages(f *tomlfile.Faults) {
	// What would only follow from another fault is not said.
	graphInDoubt := f.Under("switch.graph")
	f.AddAll("switch.hash", c.Switch.Hash.Check())
	namesInDoubt := f.Has("port")
	for i := range c.Ports {
		key := fmt.Sprintf("port[%d]", i)
		namesInDoubt = namesInDoubt || f.Has(key) || f.Has(key+".name") || c.Ports[i].Name == "" ||
			f.Has(key+".interface") && c.Ports[i].Name == c.Ports[i].Interface
	}
	if len(c.Switch.Graph) == 0 {
		graphInDoubt = true
		f.Add("switch.graph", "is missing: name the stages, as in [\"parse\", \"patch\"]; there are %s", strings.Join(stages.Names(), ", "))
	}
	inGraph := map[string]bool{}
	for i, name := range c.Switch.Graph {
		inGraph[name] = true
		if _, ok := stages.Kinds[name]; !ok {
			f.Add(fmt.Sprintf("switch.graph[%d]", i), "there is no stage %q: %s", name, tomlfile.Suggest(name, stages.Names()))
		}
	}
	names := make([]string, len(c.Ports))
	for i := range c.Ports {
		names[i] = c.Ports[i].Name
	}
	for _, name := range slices.Sorted(maps.Keys(c.Stages)) {
		key := "stages." + name
		switch {
		case inGraph[name]:
			err := c.validateStage(name, names)
			if namesInDoubt {
				err = notOfPorts(err)
			}
			f.AddAll(key, err)
		case !inGraph[name] && !graphInDoubt:
			f.Add(key, "is set, but the graph has no such stage: add %q to switch.graph or remove the table", name)
		}
	}
	c.validateRouted(f)
	c.validateGraph(f, names)
}

// validateStage checks the configuration of a stage. It does not know ports that have no packets for it: those of routed interfaces neither
// arrive nor leave but between the bridge and the router, and those of a bond's members are the bond's.
func (c *Config) validateStage(name string, ports []string) error {
	known, why, bonds := slices.Clone(ports), map[string]string{}, c.bondsOf()
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Name == "" {
			continue
		}
		if bond := bonds[p.Name]; bond != "" {
			known[i] = ""
			why[p.Name] = fmt.Sprintf("%q is a member of %q: name the bond", p.Name, bond)
		} else if p.Driver == port.DriverIRB && name != "l2" && name != "l3" {
			known[i] = ""
			why[p.Name] = fmt.Sprintf("%q is a routed interface, which has no packets of its own: name the ports of its domain", p.Name)
		}
	}
	err := stages.Kinds[name].Validate(c.Stages[name], known)
	if err == nil || len(why) == 0 {
		return err
	}
	text := err.Error()
	for name, why := range why {
		text = strings.ReplaceAll(text, pipeline.UndefinedPort(name).Error(), why)
	}
	var faults []error
	for line := range strings.SplitSeq(text, "\n") {
		faults = append(faults, errors.New(line))
	}
	return errors.Join(faults...)
}

// notOfPorts leaves out the faults of a stage that a name of a port may cause.
func notOfPorts(err error) error {
	if err == nil {
		return nil
	}
	var rest []error
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.Contains(text, "port") {
			rest = append(rest, errors.New(text))
		}
	}
	return errors.Join(rest...)
}

// StageEnv is what modules get of the configuration, but for the ports.
func (c *Config) StageEnv() pipeline.Env {
	return pipeline.Env{
		Name: c.Switch.Name, ID: c.Switch.ID, Workers: c.Workers.Count, Hash: c.Switch.Hash,
		Shared: c.Control.Takeover, HugePages: c.Dataplane.HugePages, Audit: c.Dataplane.Audit,
	}
}

// validateGraph builds the modules, as the switch will, to check their order. Where something is wrong already it builds
// those stages alone that are good, and what they say is passed over: it may follow from that.
func (c *Config) validateGraph(f *tomlfile.Faults, ports []string) {
	env := c.StageEnv()
	for _, name := range ports {
		env.Ports = append(env.Ports, pipeline.Port{Name: name})
	}
	c.CompletePorts(env.Ports)
	if !f.Under("switch") && !f.Under("stages") && !f.Under("port") {
		_, err := stages.Build(c.Switch.Graph, c.Stages, env)
		f.AddAll("switch.graph", err)
		return
	}
	if len(c.Switch.Graph) == 0 || f.Has("switch.graph") {
		return
	}
	env.Hash = 0 // a key may be missing, and no order depends on it
	chain := make([]pipeline.Named, len(c.Switch.Graph))
	for i, name := range c.Switch.Graph {
		chain[i].Name = name
		if kind, ok := stages.Kinds[name]; ok && !f.Under("stages."+name) {
			if m, err := kind.New(c.Stages[name], env); err == nil {
				chain[i].Module = m
			}
		}
	}
	f.AddAll("switch.graph", pipeline.Check(chain))
}
