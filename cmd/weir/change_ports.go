package main

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/dataplane/worker"
	"github.com/weirswitch/weir/pipeline"
)

// portChange is what becomes of the ports in one change of the configuration: open,
// configure, install and finish, in this order, or abort in the place of install.
// Only open and configure can fail.
//
//	open       ports that come are open, and nobody knows them
//	configure  other settings of ports that stay
//	install    the workers send by ports that come
//	(stages)   know ports that come, and have forgotten those that go
//	finish     packets come in at ports that come; ports that go are closed
type portChange struct {
	s         *liveSwitch
	old, next *config.Config
	change    *worker.Change  // nil if no port comes or goes
	ports     []pipeline.Port // by number, as the stages will know them
	before    []port.Config   // of ports that have other settings already
}

// open opens the ports that come.
func (c *portChange) open() ([]pipeline.Port, error) {
	c.ports = slices.Clone(c.s.ports)
	var come []int
	for i := range c.next.Ports {
		if c.old.PortNamed(c.next.Ports[i].Name) == nil {
			come = append(come, i)
		}
	}
	if len(come) == 0 && len(c.removed()) == 0 {
		return c.ports, nil
	}
	if err := c.enoughFrames(come); err != nil {
		return nil, err
	}
	var err error
	if c.change, err = c.s.sw.Change(); err != nil {
		return nil, err
	}
	var errs []error
	for _, i := range come {
		if err := c.add(c.next.Ports[i]); err != nil {
			errs = append(errs, fmt.Errorf("port[%d]: %w", i, err))
		}
	}
	for _, name := range c.removed() {
		c.ports[slices.IndexFunc(c.ports, func(p pipeline.Port) bool { return p.Name == name })] = pipeline.Port{}
	}
	return c.ports, errors.Join(errs...)
}

// enoughFrames refuses ports whose rings the memory cannot fill: it is as large as it
// was at the start.
func (c *portChange) enoughFrames(come []int) error {
	queues := 0
	for _, p := range c.s.sw.Infos() {
		queues += p.Queues
	}
	var errs []error
	for _, i := range come {
		n, err := port.QueuesOf(c.next.Ports[i])
		if err != nil {
			errs = append(errs, fmt.Errorf("port[%d]: port %s: %w", i, c.next.Ports[i].Name, err))
		}
		queues += n
	}
	d := c.s.config.Dataplane
	d.Frames = c.s.pool.Frames()
	if err := d.CheckFrames(queues); err != nil && len(come) != 0 {
		errs = append(errs, fmt.Errorf("dataplane.%w, and restart the switch", err))
	}
	return errors.Join(errs...)
}

func (c *portChange) add(pc port.Config) error {
	detached := pc
	detached.Disabled = true
	p, err := openPort(detached, c.s.config.Dataplane, c.s.memory)
	if err != nil {
		return err
	}
	number, err := c.change.Add(p.(port.Restorable), pc)
	if err != nil {
		return err
	}
	for len(c.ports) <= number {
		c.ports = append(c.ports, pipeline.Port{})
	}
	c.ports[number] = stagePort(p.Info(), c.s.config)
	return nil
}

// stagePort is a port as stages see it.
func stagePort(i port.Info, c *config.Config) pipeline.Port {
	return pipeline.Port{Name: i.Name, MaxFrame: i.MaxFrame, MTU: i.MTU, BitsPerSecond: i.Speed, TxRing: c.Dataplane.TXRing}
}

// removed names the ports that go.
func (c *portChange) removed() (names []string) {
	for i := range c.old.Ports {
		if name := c.old.Ports[i].Name; c.next.PortNamed(name) == nil {
			names = append(names, name)
		}
	}
	return names
}

// configure gives ports that stay their settings, all or none.
func (c *portChange) configure() error {
	for i := range c.next.Ports {
		p := c.next.Ports[i]
		before := c.old.PortNamed(p.Name)
		if before == nil {
			continue
		}
		p.Disabled = before.Disabled // is switched in finish
		if reflect.DeepEqual(p, *before) {
			continue
		}
		if err := c.s.sw.SetConfig(p); err != nil {
			return fmt.Errorf("port[%d]: %w", i, err)
		}
		c.before = append(c.before, *before)
	}
	return nil
}

// abort leaves everything as it was.
func (c *portChange) abort() error {
	var errs []error
	for _, p := range c.before {
		errs = append(errs, c.s.sw.SetConfig(p))
	}
	if c.change != nil {
		errs = append(errs, c.change.Abort())
	}
	return errors.Join(errs...)
}

// install has the workers send by the ports that come.
func (c *portChange) install() {
	if c.change == nil {
		return
	}
	c.change.Install()
	names := slices.Clone(*c.s.names.Load())
	for i, p := range c.ports {
		if i >= len(names) {
			names = append(names, p.Name)
		}
		if p.Name != "" {
			names[i] = p.Name
		}
	}
	c.s.names.Store(&names)
}

// finish puts the rest into force. What goes wrong from now on is a fault of a port,
// which the log tells.
func (c *portChange) finish() {
	c.s.ports = c.ports
	var errs []error
	if c.change != nil {
		errs = append(errs, c.change.Finish(c.removed()))
	}
	for i := range c.next.Ports {
		p := &c.next.Ports[i]
		if before := c.old.PortNamed(p.Name); before != nil && before.Disabled != p.Disabled {
			errs = append(errs, c.s.sw.SetPort(p.Name, !p.Disabled))
		}
	}
	if err := errors.Join(errs...); err != nil {
		c.s.log.Warn("a port did not change as it should", zap.Error(err))
	}
}

// followPorts tells the stages what interfaces have become: their MTUs and speeds. It
// works until stop is closed.
func (s *liveSwitch) followPorts(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-s.portsChanged:
		}
		s.changing.Lock()
		ports := slices.Clone(s.ports)
		for i, info := range s.sw.Infos() {
			if i < len(ports) && ports[i].Name != "" {
				ports[i] = stagePort(info, s.config)
			}
		}
		if !slices.Equal(ports, s.ports) {
			s.ports = ports
			for _, n := range s.chain {
				if m, ok := n.Module.(pipeline.PortFollower); ok {
					m.FollowPorts(ports)
				}
			}
		}
		s.changing.Unlock()
	}
}
