package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/netns"
	"github.com/weirswitch/weir/dataplane/lab/process"
)

// Names of interfaces that the lab makes.
const (
	hostInterface = "eth0"
	bridgeName    = "br0"
)

// Options are for [Up] and [Run].
type Options struct {
	// File is the lab file's path, for the state only.
	File string
	// Command starts a switch; "-c FILE --report json" is appended. Empty: this
	// program's own "switch" command.
	Command []string
	// Progress, if not nil, receives each step.
	Progress Progress
	// Keep is an empty or a new folder in which the switches' records are left; empty: they go with the lab.
	Keep string
	// Examine, if not nil, is called by [Run] to examine the records, before they are removed. With an error it may return what
	// it found until then.
	Examine func(context.Context, *Evidence) (Answers, error)
	// Linger, if not nil, is called by [Run] with the outcome while a collector's page is still there, and returns when that
	// may go.
	Linger func(context.Context, *Outcome)
}

// Lab is a lab that is up. It belongs to one goroutine. The process that holds it holds the run directory's lock.
type Lab struct {
	config   *Config
	dir      *runDirectory
	state    *state
	spaces   map[string]*netns.Namespace // by node
	switches map[string]*switchProcess   // started by this process
	command  []string
	program  string // this one, for what is no switch
	progress Progress
	keep     string // Options.Keep
	records  string // folder of the switches' records; empty: none are kept
	waits    waits

	silencing sync.Mutex
	silent    map[string]net.PacketConn // sockets that keep hosts from answering generated packets, by host and address
}

// NamespaceName is the name of a node's namespace.
func NamespaceName(lab, node string) string { return "weir-" + lab + "-" + node }

// Up makes the lab and returns when every switch forwards and every host is on line. If it
// fails, or ctx ends, nothing remains. The error is [ErrUp] if the lab exists.
//
// The caller ends with [Lab.Down], or with [Lab.Release], which leaves the lab running.
func Up(ctx context.Context, c *Config, o Options) (l *Lab, err error) {
	dir, err := makeRunDirectory(c.Name)
	if err != nil {
		return nil, err
	}
	l = &Lab{
		config: c, dir: dir,
		state:    &state{Version: stateVersion, Name: c.Name, File: o.File, Creator: process.Self(), Began: time.Now()},
		spaces:   map[string]*netns.Namespace{},
		switches: map[string]*switchProcess{},
		command:  o.Command, program: "/proc/self/exe", progress: o.Progress, keep: o.Keep,
	}
	if len(l.command) == 0 {
		l.command = []string{"/proc/self/exe", "switch"}
	}
	if l.progress == nil {
		l.progress = silent{}
	}
	if err := l.make(ctx); err != nil {
		_, downErr := l.Down()
		return nil, errors.Join(err, downErr)
	}
	return l, nil
}

func (l *Lab) make(ctx context.Context) error {
	if err := l.makeRecords(); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{
		l.makeNamespaces, l.makeCables, l.startCollector, l.startSwitches, l.connectHosts,
	} {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("make lab %s: %w", l.config.Name, err)
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	l.state.Up = true
	return l.dir.save(l.state)
}

func (l *Lab) makeNamespaces(context.Context) error {
	add := func(kind, name string) error {
		full := NamespaceName(l.config.Name, name)
		// Nothing of this name may be there: Down deletes what the state lists.
		if old, err := netns.Open(full); err == nil {
			old.Close()
			return fmt.Errorf("make node %s: namespace %s exists and is not of this lab: delete it, or rename the lab", name, full)
		}
		l.state.Nodes = append(l.state.Nodes, nodeState{Name: name, Kind: kind, Namespace: full})
		if err := l.dir.save(l.state); err != nil {
			return err
		}
		ns, err := netns.Create(full)
		if err != nil {
			return err
		}
		l.spaces[name] = ns
		if kind == "host" {
			return ns.Quiet()
		}
		return ns.DisableIPv6()
	}
	for _, h := range l.config.Hosts {
		if err := add("host", h.Name); err != nil {
			return err
		}
	}
	for _, s := range l.config.Switches {
		if err := add("switch", s.Name); err != nil {
			return err
		}
	}
	for _, b := range l.config.Bridges {
		if err := add("bridge", b.Name); err != nil {
			return err
		}
	}
	for _, r := range l.config.Relays {
		if err := add("relay", r.Name); err != nil {
			return err
		}
	}
	if l.config.Collector != nil {
		return add(collectorName, collectorName)
	}
	return nil
}

// cableEnd is one end of a cable.
type cableEnd struct {
	node, iface string
	ns          *netns.Namespace
	host        bool
}

func (l *Lab) cableEnd(endpoint string) cableEnd {
	node, port := splitEndpoint(endpoint)
	if port == "" {
		return cableEnd{node, hostInterface, l.spaces[node], true}
	}
	return cableEnd{node, port, l.spaces[node], false}
}

func (l *Lab) makeCables(context.Context) error {
	for i, link := range l.config.Links {
		a, b := l.cableEnd(link.Endpoints[0]), l.cableEnd(link.Endpoints[1])
		// Fixed addresses keep captures of two runs equal.
		macA, macB := netns.HardwareAddr(uint32(2*i)), netns.HardwareAddr(uint32(2*i+1))
		err := netns.AddVeth(netns.End{Namespace: a.ns, Name: a.iface, MAC: macA},
			netns.End{Namespace: b.ns, Name: b.iface, MAC: macB},
			netns.Veth{Queues: link.Queues, MTU: link.MTU})
		if err != nil {
			return err
		}
		for _, end := range []cableEnd{a, b} {
			if err := end.ns.SetHostOffloads(end.iface); err != nil {
				return err
			}
			// Without this queue a cable drops when its far end is slow; a
			// kernel without queueing disciplines has none to offer.
			_ = end.ns.AddQueue(end.iface)
			if !end.host {
				if err := end.ns.SetUp(end.iface); err != nil {
					return err
				}
			}
		}
	}
	for _, b := range l.config.Bridges {
		var ports []string
		for _, end := range l.config.portEnds(b.Name) {
			ports = append(ports, end.name)
		}
		if err := l.spaces[b.Name].AddBridge(bridgeName, ports...); err != nil {
			return err
		}
	}
	return nil
}

// upWait is far more than an interface needs to come up.
const upWait = time.Minute

func (l *Lab) startSwitches(ctx context.Context) error {
	if err := l.startRelays(); err != nil {
		return err
	}
	for i, s := range l.config.Switches {
		text, err := l.config.switchConfig(i, l.dir.path, l.spool())
		if err != nil {
			return err
		}
		if err := os.WriteFile(configPath(l.dir.path, s.Name), text, 0o644); err != nil {
			return fmt.Errorf("write the configuration of switch %s: %w", s.Name, err)
		}
		p, err := startSwitch(l.spaces[s.Name], l.commandOf(&s), l.dir.path, s.Name)
		if err != nil {
			return err
		}
		l.switches[s.Name] = p
		l.node(s.Name).Process = p.id
		if err := l.dir.save(l.state); err != nil {
			return err
		}
	}
	for _, r := range l.config.Relays {
		l.progress.Step("relay %s starts", r.Name)
		if err := l.switches[r.Name].waitReady(ctx, l.dir.path); err != nil {
			return err
		}
	}
	for _, s := range l.config.Switches {
		l.progress.Step("switch %s starts", s.Name)
		if s.Kind == KindBMv2 {
			l.switches[s.Name].patience = compileWait
		}
		if err := l.switches[s.Name].waitReady(ctx, l.dir.path); err != nil {
			return err
		}
	}
	return nil
}

// commandOf starts a switch: the program itself, or what runs BMv2 instead.
func (l *Lab) commandOf(s *Switch) []string {
	if s.Kind != KindBMv2 {
		return l.command
	}
	command := append(slices.Clone(l.command[:len(l.command)-1]), "p4", "switch")
	if s.Program != "" {
		command = append(command, "--program", s.Program)
	}
	return append(command, s.queueArguments()...)
}

func (l *Lab) node(name string) *nodeState {
	for i := range l.state.Nodes {
		if l.state.Nodes[i].Name == name {
			return &l.state.Nodes[i]
		}
	}
	return nil
}

// connectHosts brings the hosts on line, after the switches, so that a switch receives
// everything that a host has ever sent.
func (l *Lab) connectHosts(ctx context.Context) error {
	for i := range l.config.Hosts {
		h := &l.config.Hosts[i]
		ns := l.spaces[h.Name]
		if h.MTU != 0 {
			if err := ns.SetMTU(hostInterface, h.MTU); err != nil {
				return err
			}
		}
		if l.config.Static {
			if err := ns.SetARP(hostInterface, false); err != nil {
				return err
			}
		}
		for _, p := range h.prefixes() {
			if err := ns.AddAddress(hostInterface, p); err != nil {
				return err
			}
		}
		if err := ns.SetUp(hostInterface); err != nil {
			return err
		}
		for _, text := range []string{h.Gateway, h.Gateway6} {
			gateway, err := netip.ParseAddr(text)
			if err != nil {
				continue // empty: it was validated
			}
			if err := ns.AddRoute(hostInterface, netip.PrefixFrom(gateway, 0), gateway); err != nil {
				return err
			}
		}
	}
	if l.config.Static {
		if err := l.introduceHosts(); err != nil {
			return err
		}
	}
	return l.waitCables(ctx)
}

// waitCables waits until every cable carries packets.
func (l *Lab) waitCables(ctx context.Context) error {
	for _, link := range l.config.Links {
		for _, endpoint := range link.Endpoints {
			end := l.cableEnd(endpoint)
			if err := end.ns.AwaitUp(ctx, end.iface, upWait); err != nil {
				return err
			}
		}
	}
	return nil
}

// introduceHosts gives every host a permanent neighbour entry for all others.
func (l *Lab) introduceHosts() error {
	macs := map[string]net.HardwareAddr{}
	for _, h := range l.config.Hosts {
		mac, err := l.spaces[h.Name].MAC(hostInterface)
		if err != nil {
			return err
		}
		macs[h.Name] = mac
	}
	for _, h := range l.config.Hosts {
		for i := range l.config.Hosts {
			other := &l.config.Hosts[i]
			for _, p := range other.prefixes() {
				if other.Name == h.Name {
					continue
				}
				if err := l.spaces[h.Name].AddNeighbour(hostInterface, p.Addr(), macs[other.Name]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Namespace returns a node's namespace, or nil. It is closed with the lab.
func (l *Lab) Namespace(node string) *netns.Namespace { return l.spaces[node] }

// Release lets go of the lab and leaves it running.
func (l *Lab) Release() {
	for _, ns := range l.spaces {
		ns.Close()
	}
	l.dir.unlock()
}
