package node

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
)

// portChange is the part of a change that concerns ports. Its phases run in this order,
// with abort in place of install if a phase failed. Only open and configure can fail.
//
//	open       ports that come are open; neither workers nor stages use them
//	configure  ports that stay have their new settings; those that are switched on are open
//	install    the workers send by ports that come
//	(stages)   know the ports that come, and have forgotten those that go
//	finish     packets come in at the ports that come; those that go or are switched off are closed
type portChange struct {
	n         *Node
	old, next *config.Config
	change    *worker.Change  // nil if no port comes or goes
	removed   []string        // names of the ports that go
	come      []port.Port     // that are open
	ports     []pipeline.Port // by number, as the stages will know them
	before    []port.Config   // of ports that have other settings already
	switched  []string        // names of the ports that are switched on already
}

// open opens the ports that come. It refuses ports whose rings the memory cannot fill,
// which is as large as it was at the start.
func (c *portChange) open() error {
	n := c.n
	c.ports = slices.Clone(n.ports)
	var errs []error
	for i := range c.old.Ports {
		before := &c.old.Ports[i]
		after := c.next.PortNamed(before.Name)
		if n.options.Ports[before.Name] != nil && (after == nil || !reflect.DeepEqual(before, after)) {
			errs = append(errs, fmt.Errorf("port[%d]: port %s is the program's, and stays as it is", i, before.Name))
		}
		if after == nil {
			c.removed = append(c.removed, before.Name)
		}
	}
	queues, held, grows := 0, 0, false
	for _, p := range n.sw.Infos() {
		if port.Deviceless(p.Driver) {
			continue
		}
		queues += p.Queues
		if next := c.next.PortNamed(p.Name); next != nil {
			held += p.Queues * next.Held()
			before := c.old.PortNamed(p.Name)
			grows = grows || before == nil || next.Held() > before.Held()
		}
	}
	var come []int
	for i := range c.next.Ports {
		p := c.next.Ports[i]
		if c.old.PortNamed(p.Name) != nil {
			continue
		}
		come = append(come, i)
		if port.Deviceless(p.Driver) {
			continue // it has no rings
		}
		count, err := port.QueuesOf(n.withWorkers(p))
		if err != nil {
			errs = append(errs, fmt.Errorf("port[%d]: port %s: %w", i, p.Name, err))
		}
		queues += count
		held += count * p.Held()
	}
	if len(come) != 0 || grows {
		d := n.config.Dataplane
		d.Frames = n.pool.Frames()
		if err := d.CheckFrames(queues, held); err != nil {
			errs = append(errs, fmt.Errorf("dataplane.%w, and restart the switch", err))
		}
	}
	if errs != nil || len(come)+len(c.removed) == 0 {
		return errors.Join(errs...)
	}
	var err error
	if c.change, err = n.sw.Change(); err != nil {
		return err
	}
	for _, i := range come {
		detached := c.next.Ports[i]
		detached.Disabled = true
		number := 0
		p, err := n.openPort(detached)
		if err == nil {
			number, err = c.change.Add(p.(port.Restorable), c.next.Ports[i])
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("port[%d]: %w", i, err))
			continue
		}
		for len(c.ports) <= number {
			c.ports = append(c.ports, pipeline.Port{})
		}
		c.come = append(c.come, p)
		c.ports[number] = stagePort(p.Info(), n.config)
	}
	for _, name := range c.removed {
		c.ports[slices.IndexFunc(c.ports, func(p pipeline.Port) bool { return p.Device() == name })] = pipeline.Port{}
	}
	c.next.CompletePorts(c.ports)
	return errors.Join(append(errs, checkMembers(c.ports, c.old))...)
}

// stagePort is a port as stages see it.
func stagePort(i port.Info, c *config.Config) pipeline.Port {
	down := i.State != port.StateUp && i.State != "" // ports of memory and captures have no state
	p := pipeline.Port{Name: i.Name, MaxFrame: i.MaxFrame, MTU: i.MTU, BitsPerSecond: i.Speed, TxRing: c.Dataplane.TXRing, Down: down}
	if hw, err := net.ParseMAC(i.MAC); err == nil {
		copy(p.MAC[:], hw)
	}
	return p
}

// configure gives ports that stay their settings, and opens those that are switched on, all or none.
func (c *portChange) configure() error {
	for i := range c.next.Ports {
		p := c.next.Ports[i]
		before := c.old.PortNamed(p.Name)
		if before == nil {
			continue
		}
		on := before.Disabled && !p.Disabled
		p.Disabled = before.Disabled // is switched on below, or off in finish
		if !reflect.DeepEqual(p, *before) {
			if err := c.n.sw.SetConfig(p); err != nil {
				return fmt.Errorf("port[%d]: %w", i, err)
			}
			c.before = append(c.before, *before)
		}
		if !on {
			continue
		}
		c.switched = append(c.switched, p.Name)
		// As at the start, an optional port comes with its interface.
		if err := c.n.sw.SetPort(p.Name, true); err != nil && !(p.Optional && port.IsMissing(err)) {
			return fmt.Errorf("port[%d]: %w", i, err)
		}
	}
	for _, info := range c.n.sw.Infos() {
		c.n.logSettings(info)
	}
	return nil
}

// abort leaves everything as it was.
func (c *portChange) abort() error {
	var errs []error
	for _, name := range c.switched {
		errs = append(errs, c.n.sw.SetPort(name, false))
	}
	for _, p := range c.before {
		errs = append(errs, c.n.sw.SetConfig(p))
	}
	if c.change != nil {
		errs = append(errs, c.change.Abort())
	}
	return errors.Join(errs...)
}

// install has the workers send by the ports that come. A removed port keeps its name in
// names.
func (c *portChange) install() {
	if c.change == nil {
		return
	}
	c.change.Install()
	for _, p := range c.come {
		c.n.addBond(p)
	}
	names := slices.Clone(*c.n.names.Load())
	for i, p := range c.ports {
		if i >= len(names) {
			names = append(names, p.Device())
		}
		if p.Device() != "" {
			names[i] = p.Device()
		}
	}
	c.n.names.Store(&names)
}

// finish puts the rest into force. What fails from now on is a fault of one port, and is
// logged.
func (c *portChange) finish() {
	c.n.ports = c.ports
	var errs []error
	if c.change != nil {
		errs = append(errs, c.change.Finish(c.removed))
		for _, name := range c.removed {
			c.n.bonds.Delete(name)
		}
	}
	for i := range c.next.Ports {
		p := &c.next.Ports[i]
		if before := c.old.PortNamed(p.Name); before != nil && !before.Disabled && p.Disabled {
			errs = append(errs, c.n.sw.SetPort(p.Name, false))
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.n.log.Warn("a port did not change as it should", zap.Error(err))
	}
}

// followPorts gives the stages new MTUs, speeds and states of interfaces, until stop is closed.
func (n *Node) followPorts(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-n.portsChanged:
		}
		n.kernel.Look()
		n.followBonds()
		n.changing.Lock()
		ports := slices.Clone(n.ports)
		for i, info := range n.sw.Infos() {
			if i < len(ports) && ports[i].Device() != "" {
				ports[i] = stagePort(info, n.config)
			}
		}
		n.inForce.Load().config.CompletePorts(ports)
		if !slices.Equal(ports, n.ports) {
			n.ports = ports
			for _, stage := range n.chain() {
				if m, ok := stage.Module.(pipeline.PortFollower); ok {
					m.FollowPorts(ports)
				}
			}
		}
		n.changing.Unlock()
	}
}
