package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages"
)

// restart is the remedy for what cannot change live.
const restart = "cannot change while the switch runs: restart it"

// Prepared is what Prepare made ready.
type Prepared struct {
	Changes []Change
	// Commit puts what changed of stages that stay into force, stage by stage between two batches, and cannot fail.
	Commit func()
	// Graph is the graph of the next configuration, which is checked and not joined: modules of stages that stay are those of before, the others are
	// made. It is nil if the graph stays as it is.
	Graph []pipeline.Named
}

// Prepare gets the modules of a running switch ready for another configuration.
// What cannot change while the switch runs is refused by full key,
// all at once; then nothing has changed. The log's level, the ports, where records go, and that the workers run another graph,
// are left to the caller.
//
// ports is called once all changed keys were found changeable; it opens the new
// ports and returns, by number, those that there will be. The stages are notified
// if ports come or go.
func Prepare(old, next *Config, chain []pipeline.Named, ports func() ([]pipeline.Port, error)) (*Prepared, error) {
	changes := Diff(old, next)
	f := &tomlfile.Faults{}
	stays := map[string]bool{}
	for _, n := range chain {
		stays[n.Name] = slices.Contains(next.Switch.Graph, n.Name)
	}
	touched := map[string]bool{}
	comeOrGo := old.portsComeOrGo(next)
	refusePorts(old, next, chain, f)
	for _, c := range changes {
		stage, inStage := strings.CutPrefix(c.Key, "stages.")
		stage, _, _ = strings.Cut(stage, ".")
		kind, known := stages.Kinds[stage]
		switch {
		case c.Key == "log.level" || strings.HasPrefix(c.Key, "port["):
		case c.Key == "switch.graph":
			refuseGraph(old, next, f)
		case strings.HasPrefix(c.Key, "telemetry.") && c.Key != "telemetry.spool" && c.Key != "telemetry.local_bytes":
		case inStage && (old.Stages[stage] == nil || next.Stages[stage] == nil): // follows from switch.graph
		case !inStage || !known || kind.Prepare == nil:
			f.Add(c.Key, restart)
		default:
			touched[stage] = true
		}
	}
	if !f.Empty() {
		return nil, f.Err("")
	}
	there, err := ports()
	if err != nil {
		return nil, err
	}
	p := &Prepared{Changes: changes}
	if !slices.Equal(old.Switch.Graph, next.Switch.Graph) {
		env := next.StageEnv()
		env.Ports = there
		p.Graph, err = stages.Rebuild(chain, next.Switch.Graph, next.Stages, env)
		f.AddAll("switch.graph", err)
		refuseArrival(next, chain, p.Graph, f)
	}
	var commits []func()
	for _, n := range chain {
		prepare := stages.Kinds[n.Name].Prepare
		config := stages.ConfigOf(n.Name, next.Switch.Graph, next.Stages)
		// What a stage learns from the configuration of another one may come or go with that.
		learns := p.Graph != nil && config != next.Stages[n.Name] || p.Graph != nil && stages.ConfigOf(n.Name, old.Switch.Graph, old.Stages) != old.Stages[n.Name]
		if !stays[n.Name] || prepare == nil || !touched[n.Name] && !comeOrGo && !learns {
			continue
		}
		commit, err := prepare(n.Module, config, there)
		if err != nil {
			f.AddAll("stages."+n.Name, err)
			continue
		}
		commits = append(commits, commit)
	}
	if !f.Empty() {
		return nil, f.Err("")
	}
	p.Commit = func() {
		for _, commit := range commits {
			commit()
		}
	}
	return p, nil
}

// refuseArrival refuses stages that would measure by other arrival times than the configuration asks for: ports get their times as they are opened.
func refuseArrival(next *Config, old, graph []pipeline.Named, f *tomlfile.Faults) {
	if next.Dataplane.Timestamps == port.TimestampsBatch || pipeline.Needs(old)&packet.NeedArrival != 0 {
		return
	}
	for i, n := range graph {
		if n.Module.Needs()&packet.NeedArrival != 0 {
			f.Add(fmt.Sprintf("switch.graph[%d]", i), "stage %q needs the times of arrival of dataplane.timestamps = %q, which ports do not have, as no stage needed them when the switch began: restart it",
				n.Name, next.Dataplane.Timestamps)
		}
	}
}

// refuseGraph refuses another first stage.
func refuseGraph(old, next *Config, f *tomlfile.Faults) {
	if len(old.Switch.Graph) != 0 && len(next.Switch.Graph) != 0 && old.Switch.Graph[0] != next.Switch.Graph[0] {
		f.Add("switch.graph[0]", "stage %q reads packets for those that stay: restart the switch to have %q in its place", old.Switch.Graph[0], next.Switch.Graph[0])
	}
}

// portsComeOrGo reports whether the names of the ports differ.
func (c *Config) portsComeOrGo(next *Config) bool {
	for i := range next.Ports {
		if c.PortNamed(next.Ports[i].Name) == nil {
			return true
		}
	}
	return len(next.Ports) != len(c.Ports)
}

// PortNamed finds a port by its name, nil if there is none.
func (c *Config) PortNamed(name string) *port.Config {
	for i := range c.Ports {
		if c.Ports[i].Name == name {
			return &c.Ports[i]
		}
	}
	return nil
}

// refusePorts names the keys of ports that cannot change while a port is open, and the
// ports that cannot come.
func refusePorts(old, next *Config, chain []pipeline.Named, f *tomlfile.Faults) {
	for i := range next.Ports {
		p, key := &next.Ports[i], fmt.Sprintf("port[%d]", i)
		if before := old.PortNamed(p.Name); before != nil {
			for _, k := range before.Fixed(p) {
				f.Add(key+"."+k, "cannot change while the port is there: remove the port, and add it anew")
			}
			continue
		}
		for j := range old.Ports {
			if o := &old.Ports[j]; o.Interface == p.Interface && p.Interface != "" && next.PortNamed(o.Name) == nil {
				f.Add(key+".name", "cannot change while the port is there: remove port %s, and add the other one then", o.Name)
			}
		}
		for _, n := range chain {
			if !slices.Contains(next.Switch.Graph, n.Name) {
				continue
			}
			if k := stages.Kinds[n.Name]; k.Prepare == nil && !k.Portless {
				f.Add(key, "stage %s learns of its ports when the switch starts: restart it", n.Name)
			}
		}
	}
}
