package config

import (
	"fmt"
	"strings"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/internal/tomlfile"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/stages"
)

// restart is the remedy for what cannot change live.
const restart = "cannot change while the switch runs: restart it"

// Prepare gets the modules of a running switch ready for another configuration.
// commit puts what changed into force, stage by stage between two batches, and
// cannot fail. What cannot change while the switch runs is refused by full key,
// all at once; then nothing has changed. The log's level, the ports and where records go, which are no
// module's, are left to the caller.
//
// ports is called once all changed keys were found changeable; it opens the new
// ports and returns, by number, those that there will be. The stages are notified
// if ports come or go.
func Prepare(old, next *Config, chain []pipeline.Named, ports func() ([]pipeline.Port, error)) (changes []Change, commit func(), err error) {
	changes = Diff(old, next)
	f := &tomlfile.Faults{}
	touched := map[string]bool{}
	comeOrGo := old.portsComeOrGo(next)
	refusePorts(old, next, chain, f)
	for _, c := range changes {
		stage, inStage := strings.CutPrefix(c.Key, "stages.")
		stage, _, _ = strings.Cut(stage, ".")
		kind, known := stages.Kinds[stage]
		switch {
		case c.Key == "log.level" || strings.HasPrefix(c.Key, "port["):
		case strings.HasPrefix(c.Key, "telemetry.") && c.Key != "telemetry.spool" && c.Key != "telemetry.local_bytes":
		case inStage && (old.Stages[stage] == nil || next.Stages[stage] == nil): // follows from switch.graph
		case !inStage || !known || kind.Prepare == nil:
			f.Add(c.Key, restart)
		default:
			touched[stage] = true
		}
	}
	if !f.Empty() {
		return changes, nil, f.Err("")
	}
	there, err := ports()
	if err != nil {
		return changes, nil, err
	}
	var commits []func()
	for _, n := range chain {
		prepare := stages.Kinds[n.Name].Prepare
		if !touched[n.Name] && (!comeOrGo || prepare == nil) {
			continue
		}
		commit, err := prepare(n.Module, next.Stages[n.Name], there)
		if err != nil {
			f.AddAll("stages."+n.Name, err)
			continue
		}
		commits = append(commits, commit)
	}
	if !f.Empty() {
		return changes, nil, f.Err("")
	}
	return changes, func() {
		for _, commit := range commits {
			commit()
		}
	}, nil
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
		if p.Driver == port.DriverTunnel {
			f.Add(key, "a tunnel's port comes when the switch starts: restart it")
			continue
		}
		for j := range old.Ports {
			if o := &old.Ports[j]; o.Interface == p.Interface && p.Interface != "" && next.PortNamed(o.Name) == nil {
				f.Add(key+".name", "cannot change while the port is there: remove port %s, and add the other one then", o.Name)
			}
		}
		for _, n := range chain {
			if k := stages.Kinds[n.Name]; k.Prepare == nil && !k.Portless {
				f.Add(key, "stage %s learns of its ports when the switch starts: restart it", n.Name)
			}
		}
	}
}
