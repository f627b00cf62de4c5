package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/weirswitch/weir/dataplane/port"
	"github.com/weirswitch/weir/pipeline"
)

// SetPort switches a port on or off while the switch runs. What arrives at one
// that is off stays with the kernel, as if the switch did not have it; what is
// to leave there is dropped (port_down). It returns once the workers do so. The error says why a
// port is not open: it is tried again, as after a fault, until it is switched off.
func (s *Switch) SetPort(name string, on bool) error {
	k, err := s.keeperOf(name)
	if err != nil {
		return err
	}
	return k.order(func() error { return k.set(on) })
}

func (s *Switch) keeperOf(name string) (*keeper, error) {
	seat, err := s.member(name)
	if err != nil {
		return nil, err
	}
	if !s.running.Load() {
		return nil, errNotRunning
	}
	if seat.keeper == nil {
		return nil, fmt.Errorf("port %s is no network interface, so it stays as it is", name)
	}
	return seat.keeper, nil
}

// FollowGraph tells the ports what the graph's modules must receive, behind each
// change of these or of the ports.
func (s *Switch) FollowGraph() error { return s.receive(s.Chain()) }

func (s *Switch) receive(chain []pipeline.Named) error {
	var errs []error
	for _, seat := range s.members() {
		if r, ok := seat.port.(port.Receptive); ok {
			errs = append(errs, r.Receive(pipeline.ReceptionOf(chain, seat.number)))
		}
	}
	return errors.Join(errs...)
}

// SetConfig gives a port other settings while the switch runs, those that
// port.Config.Fixed does not name. The port is closed and opened with them: its packets
// stay with the kernel for that time. If it cannot be opened so, it is opened as it
// was, and the error says why.
func (s *Switch) SetConfig(c port.Config) error {
	k, err := s.keeperOf(c.Name)
	if err != nil {
		return err
	}
	return k.order(func() error { return k.configure(c) })
}

func (k *keeper) configure(c port.Config) error {
	open := k.attached
	if open {
		k.takeOut(nil)
	}
	before := k.port.Configure(c)
	if !open {
		return nil
	}
	err := k.restore()
	if err != nil {
		k.port.Configure(before)
		_ = k.restore() // it is tried again
	}
	return err
}

// Change is a change of the ports that a switch has, while it runs: ports come by
// Add, Install and Finish, and go by Finish. Its methods are called in that order,
// by one goroutine; Abort ends a change before Install.
type Change struct {
	sw    *Switch
	added []*admission
}

// admission is a port about to come.
type admission struct {
	seat   *seat
	opened *openQueues // nil if the port's interface is not there, or shall not be open
}

// Change begins a change of the ports. There is one at a time.
func (s *Switch) Change() (*Change, error) {
	s.changing.Lock()
	if !s.running.Load() {
		s.changing.Unlock()
		return nil, errNotRunning
	}
	if s.ending {
		s.changing.Unlock()
		return nil, errClosing
	}
	return &Change{sw: s}, nil
}

// Add opens a port that the workers do not use yet; its packets stay with the
// kernel. p was made detached (port.Config.Disabled), is the switch's from now on, and
// has the number that a port of its name had before, else a new one.
//
// A port that shall stay off is not opened, and one whose interface may be missing
// and is, comes without.
func (c *Change) Add(p port.Restorable, config port.Config) (number int, err error) {
	a, err := c.add(p, config)
	if err != nil {
		return 0, errors.Join(err, p.Close())
	}
	c.added = append(c.added, a)
	return a.seat.number, nil
}

func (c *Change) add(p port.Restorable, config port.Config) (*admission, error) {
	s := c.sw
	if err := s.prepare(p); err != nil {
		return nil, err
	}
	queues := p.Info().Queues
	number := c.number(config.Name)
	s.reseat(max(len(s.seats), number+1), queues)
	if err := s.connect(number, queues, config.Name); err != nil {
		return nil, err
	}
	p.Configure(config)
	k := s.newKeeper(number, p)
	k.off = config.Disabled
	a := &admission{seat: &seat{number: number, port: p, keeper: k}}
	if old := s.seats[number]; old != nil {
		a.seat.past = s.counted(old)
	}
	if config.Disabled {
		return a, nil
	}
	var err error
	if a.opened, err = k.open(); err != nil && !(config.Optional && port.IsMissing(err)) {
		return nil, err
	}
	return a, nil
}

// number chooses the number of a port that comes: the one that it had, else the
// first that no port has had yet. Stages may know ports by their numbers long
// after these are gone, so no number goes to another name.
func (c *Change) number(name string) int {
	fresh := -1
	for i, seat := range c.sw.seats {
		switch {
		case seat != nil && seat.port.Info().Name == name:
			return i
		case seat == nil && fresh < 0 && !slices.ContainsFunc(c.added, func(a *admission) bool { return a.seat.number == i }):
			fresh = i
		}
	}
	if fresh < 0 {
		return len(c.sw.seats)
	}
	return fresh
}

// reseat makes room for n ports, in the workers first, and shares the idle frames
// among more queues than there are.
func (s *Switch) reseat(n, more int) {
	bound := s.cacheBound(len(s.workers), more)
	for _, w := range s.workers {
		w.Do(func() { w.seat(n, bound) })
	}
	s.table.Lock()
	defer s.table.Unlock()
	for len(s.seats) < n {
		s.seats = append(s.seats, nil)
	}
}

// Install gives the ports that come to the workers, who send by them from now on.
// Nothing arrives yet.
func (c *Change) Install() {
	for _, a := range c.added {
		if a.opened != nil {
			a.seat.keeper.install(a.opened)
		}
		c.sw.table.Lock()
		c.sw.seats[a.seat.number] = a.seat
		c.sw.table.Unlock()
	}
}

// Finish has packets come in at the ports that come, whom the stages know by now, and
// takes out those that go: what these had received is forwarded, what comes later stays with
// the kernel, and what is to leave there is dropped (port_down). The number and the counts
// of a port that went stay, for one of its name that comes again.
//
// A port that comes can be in a fault by now, from which it recovers by itself. The error
// is of ports that went: of what they could not let go.
func (c *Change) Finish(remove []string) error {
	s := c.sw
	defer s.changing.Unlock()
	for _, a := range c.added {
		if a.opened != nil {
			_ = a.seat.keeper.admit() // Info says why it cannot be
		}
		s.table.Lock()
		s.start(a.seat.keeper)
		s.table.Unlock()
	}
	var errs []error
	for _, name := range remove {
		errs = append(errs, s.remove(name))
	}
	return errors.Join(errs...)
}

// Abort closes the ports that were to come.
func (c *Change) Abort() error {
	defer c.sw.changing.Unlock()
	var errs []error
	for _, a := range c.added {
		if a.opened != nil {
			a.seat.keeper.discard(a.opened, nil)
		}
		errs = append(errs, a.seat.port.Close())
	}
	return errors.Join(errs...)
}

// remove takes a port out and closes it.
func (s *Switch) remove(name string) error {
	old, err := s.member(name)
	if err != nil {
		return err
	}
	k, err := s.keeperOf(name)
	if err != nil {
		return err
	}
	if err := k.order(func() error {
		k.gone = true
		return k.set(false)
	}); err != nil {
		return err
	}
	<-k.ended
	err = old.port.Close()
	s.table.Lock()
	s.seats[old.number] = &seat{number: old.number, port: old.port, keeper: k, removed: true, past: old.past}
	s.table.Unlock()
	s.reseat(len(s.seats), 0) // caches may hold more again
	return err
}
