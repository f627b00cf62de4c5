// Package stages is the one list of all stages: the name by which a
// configuration and a command line know a stage, its configuration, and how it
// is made. Everything that builds a graph does so from here, so that a switch, a
// replay and a simulator run the same stages.
package stages

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/pipeline/packet"
	"github.com/weirswitch/weir/stages/acl"
	"github.com/weirswitch/weir/stages/bond"
	"github.com/weirswitch/weir/stages/conntrack"
	"github.com/weirswitch/weir/stages/disketch"
	"github.com/weirswitch/weir/stages/guard"
	"github.com/weirswitch/weir/stages/l2"
	"github.com/weirswitch/weir/stages/l3"
	"github.com/weirswitch/weir/stages/lds"
	"github.com/weirswitch/weir/stages/lldp"
	"github.com/weirswitch/weir/stages/mirror"
	"github.com/weirswitch/weir/stages/oblivious"
	"github.com/weirswitch/weir/stages/parse"
	"github.com/weirswitch/weir/stages/patch"
	"github.com/weirswitch/weir/stages/pint"
	"github.com/weirswitch/weir/stages/policer"
	"github.com/weirswitch/weir/stages/sflow"
	"github.com/weirswitch/weir/stages/tunnel"
	"github.com/weirswitch/weir/stages/vlan"
)

// Kind is a stage as configuration knows it. A configuration passes through it
// as a pointer to the stage's own Config type, the one that Default returns;
// any other type is the caller's mistake, and panics.
type Kind struct {
	// Help says in one clause what the stage does.
	Help string
	// Default returns a pointer to a new default configuration, to decode
	// [stages.NAME] into.
	Default func() any
	// Validate reports all faults of a configuration for a switch with the
	// named ports, joined; each begins with its key inside [stages.NAME].
	Validate func(config any, ports []string) error
	// New makes the module of a configuration.
	New func(config any, env pipeline.Env) (pipeline.Module, error)
	// Prepare checks a new configuration for a module that runs, and for the ports
	// that there will be, and builds what it needs; commit puts it into force between two
	// batches, and cannot fail. Nil: the stage cannot change while the switch runs.
	// Prepare may be called again, without commit, but not two at a time.
	Prepare func(m pipeline.Module, config any, ports []pipeline.Port) (commit func(), err error)
	// Portless: the module keeps nothing by port, so ports may come while it runs. To
	// one that has Prepare they may anyway.
	Portless bool
}

// Kinds are all stages by name.
var Kinds = map[string]Kind{
	"pint":        kind("carries digests in packets: path, latency, congestion", pint.DefaultConfig, (*pint.Config).Validate, pint.New),
	"parse":       portless(kind("turns bytes into metadata", parse.DefaultConfig, (*parse.Config).Validate, parse.New)),
	"acl":         kind("permits or denies by ordered rules", acl.DefaultConfig, (*acl.Config).Validate, acl.New),
	"conntrack":   kind("follows connections, and permits by security groups of ports", conntrack.DefaultConfig, (*conntrack.Config).Validate, conntrack.New),
	"lldp":        kind("announces the switch to its neighbours, and learns of them (IEEE 802.1AB)", lldp.DefaultConfig, (*lldp.Config).Validate, lldp.New),
	"mirror":      kind("copies packets of watched ports to another port", mirror.DefaultConfig, (*mirror.Config).Validate, mirror.New),
	"policer":     kind("drops what exceeds a port's rate", policer.DefaultConfig, (*policer.Config).Validate, policer.New),
	"guard":       kind("drops what only DHCP servers and routers send, from ports where none is trusted", guard.DefaultConfig, (*guard.Config).Validate, guard.New),
	"patch":       kind("joins pairs of ports", patch.DefaultConfig, (*patch.Config).Validate, patch.New),
	"l2":          kind("bridges all ports, learning addresses, with VLANs", l2.DefaultConfig, (*l2.Config).Validate, l2.New),
	"l3":          kind("routes IPv4 and IPv6, with ECMP, ICMP and neighbour discovery", l3.DefaultConfig, (*l3.Config).Validate, l3.New),
	"irb":         portless(kind("sends on in its bridge domain what the router sends by a routed interface", l2.DefaultIRBConfig, (*l2.IRBConfig).Validate, l2.NewIRB)),
	"vlan":        kind("gives packets with a tag to the VLAN subinterface of a port", vlan.DefaultConfig, (*vlan.Config).Validate, vlan.New),
	"sflow":       kind("samples packets of ports, and counts, for tools that read sFlow", sflow.DefaultConfig, (*sflow.Config).Validate, sflow.New),
	"tag":         kind("puts tags on packets that leave by VLAN subinterfaces", vlan.DefaultTagConfig, (*vlan.TagConfig).Validate, vlan.NewTag),
	"bond":        kind("gives packets of a bond's members to the bond", bond.DefaultConfig, (*bond.Config).Validate, bond.New),
	"distribute":  portless(kind("chooses the members by which packets leave by bonds", bond.DefaultDistributeConfig, (*bond.DistributeConfig).Validate, bond.NewDistribute)),
	"tunnel":      kind("ends VXLAN and Geneve tunnels: decapsulates", tunnel.DefaultConfig, (*tunnel.Config).Validate, tunnel.New),
	"encap":       portless(kind("puts packets into the tunnels of the stage tunnel", tunnel.DefaultEncapConfig, (*tunnel.EncapConfig).Validate, tunnel.NewEncap)),
	"lds_ingress": kind("measures delay and loss per flow: what arrives at ports", lds.DefaultConfig, (*lds.Config).Validate, lds.NewIngress),
	"lds_egress":  kind("measures delay and loss per flow: what leaves by ports", lds.DefaultConfig, (*lds.Config).Validate, lds.NewEgress),
	"oblivious":   portless(kind("samples packets, so that the network's samples count each once", oblivious.DefaultConfig, (*oblivious.Config).Validate, oblivious.New)),
	"disketch":    kind("counts packets in fragments of disaggregated sketches", disketch.DefaultConfig, (*disketch.Config).Validate, disketch.New),
}

// kind joins a stage's functions to a Kind; it lets the compiler check that
// they agree on one Config type.
func kind[C any, M pipeline.Module](
	help string,
	defaults func() C,
	validate func(*C, []string) error,
	build func(C, pipeline.Env) (M, error),
) Kind {
	k := Kind{
		Help: help,
		Default: func() any {
			c := defaults()
			return &c
		},
		Validate: func(config any, ports []string) error { return validate(config.(*C), ports) },
		New: func(config any, env pipeline.Env) (pipeline.Module, error) {
			m, err := build(*config.(*C), env)
			if err != nil {
				return nil, err // not m: a nil pointer in an interface is not nil
			}
			return m, nil
		},
	}
	// What a module's type has is asked of its zero value.
	_, ok := any(*new(M)).(preparer[C])
	if _, old := any(*new(M)).(interface{ Prepare(C) (func(), error) }); old && !ok {
		panic("stages: Prepare must take the ports: " + help)
	}
	if ok {
		k.Prepare = func(m pipeline.Module, config any, ports []pipeline.Port) (func(), error) {
			return m.(preparer[C]).Prepare(*config.(*C), ports)
		}
	}
	return k
}

// Register adds a stage of another module to Kinds, under a name for graphs and [stages.NAME]; help says in one
// clause what it does, and the functions are those that Kind describes. Call it before a configuration is read,
// from one goroutine: at the beginning of main. It panics if the name is taken, or is none (a to z, digits and _).
// examples/stage is a module to begin with.
func Register[C any, M pipeline.Module](
	name, help string,
	defaults func() C,
	validate func(*C, []string) error,
	build func(C, pipeline.Env) (M, error),
) {
	if _, taken := Kinds[name]; taken || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		panic(fmt.Sprintf("stages: register %q: the name is taken, or has other characters than a to z, digits and _", name))
	}
	Kinds[name] = kind(help, defaults, validate, build)
}

func portless(k Kind) Kind {
	k.Portless = true
	return k
}

// preparer is a module that can change while it runs.
type preparer[C any] interface {
	Prepare(c C, ports []pipeline.Port) (commit func(), err error)
}

// Names returns the names of all stages, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Kinds)) }

// Build makes the modules of a graph from the names of its stages, in order,
// and checks the graph. A stage without an entry in configs has its default
// configuration. env.Needs is filled in: a module learns what the stages behind it
// need, so parse, in front, knows it of all. All faults are reported, joined.
func Build(names []string, configs map[string]any, env pipeline.Env) ([]pipeline.Named, error) {
	chain, err := Rebuild(nil, names, configs, env)
	if err != nil {
		return nil, err
	}
	if err := pipeline.Join(chain); err != nil {
		return nil, err
	}
	FollowRoutes(chain, chain)
	return chain, nil
}

// Rebuild is the part of Build that changes nothing of a graph that there is: stages that it has too, by name, keep their modules, whatever
// configs say of them, and the others' are made. The graph is checked and not joined: see pipeline.Join and FollowRoutes.
func Rebuild(old []pipeline.Named, names []string, configs map[string]any, env pipeline.Env) ([]pipeline.Named, error) {
	var errs []error
	for _, name := range names {
		if _, ok := Kinds[name]; !ok {
			errs = append(errs, fmt.Errorf("stage %q does not exist: choose among %s", name, strings.Join(Names(), ", ")))
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	chain := make([]pipeline.Named, len(names))
	needs := packet.Needs(0)
	for i, name := range slices.Backward(names) {
		if at := slices.IndexFunc(old, func(n pipeline.Named) bool { return n.Name == name }); at >= 0 {
			chain[i] = old[at]
			needs |= chain[i].Module.Needs()
			continue
		}
		env.Needs = needs
		m, err := Kinds[name].New(ConfigOf(name, names, configs), env)
		if err != nil {
			errs = append(errs, fmt.Errorf("stage %q: %w", name, err))
			continue
		}
		needs |= m.Needs()
		chain[i] = pipeline.Named{Name: name, Module: m}
	}
	if errs != nil {
		slices.Reverse(errs)
		return nil, errors.Join(errs...)
	}
	if err := pipeline.Check(chain); err != nil {
		return nil, err
	}
	return chain, nil
}

// ConfigOf is what the module of a stage of a graph has: its configuration, or the default one, and what it learns from those of others.
func ConfigOf(name string, graph []string, configs map[string]any) any {
	config := configs[name]
	if config == nil {
		config = Kinds[name].Default()
	}
	// disketch learns the edge ports from pint's configuration.
	if d, ok := config.(*disketch.Config); ok && slices.Contains(graph, "pint") {
		if p, ok := configs["pint"].(*pint.Config); ok {
			return d.WithEdge(p.Edge)
		}
	}
	return config
}

// FollowRoutes has those of some modules that follow routes follow the router of a graph, or none if it has none.
func FollowRoutes(some, graph []pipeline.Named) {
	var router pipeline.Router
	for _, n := range graph {
		if r, ok := n.Module.(pipeline.Router); ok {
			router = r
		}
	}
	for _, n := range some {
		if f, ok := n.Module.(pipeline.RouteFollower); ok {
			f.FollowRoutes(router)
		}
	}
}

// Inline makes all modules of a chain do their background work on the packet
// thread, by the batch's clock, so that the same packets give the same result.
// It is for graphs of one worker, before pipeline.NewGraph; Background.Run need
// not be started then.
func Inline(chain []pipeline.Named) {
	for _, n := range chain {
		if m, ok := n.Module.(interface{ Inline() }); ok {
			m.Inline()
		}
	}
}
