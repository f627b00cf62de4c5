package port

import (
	"errors"
	"fmt"
	"net"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// beneath is what an XSK port has on one interface, and loses with it.
type beneath struct {
	link   *link
	attach *xdp.Attachment
	// device is the program on this interface where it is not the port's first one, but one for this device, or for none; else nil.
	// noHardware says why it has no times of the device, if they were asked for.
	device     *xdp.Program
	noHardware string
	// settings are those of the interface that were changed for the port. They are put back behind
	// close and the queues: a driver removes no queue that a socket has.
	settings *nic.Held
	member   *membership
	renewal  renewal
	// noTags is why VLAN tags outside the packets are lost, empty where they are not, or where there are none.
	noTags string
	// generic is why the program does not run in a driver that takes it; empty if it may, or need not.
	generic string
	// noZeroCopy is why its sockets were not asked for zero-copy, or nil.
	noZeroCopy error
}

// attach puts a program on the interface of l. Of b its caller has l and settings where it fails.
func attach(program *xdp.Program, l *link, settings *nic.Held, c *Config) (_ *beneath, err error) {
	b := &beneath{link: l, settings: settings}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.detach())
		}
	}()
	mode, err := xdp.ParseMode(c.Mode)
	if err != nil {
		return nil, err
	}
	if why := nic.GenericOnly(l.module); why != "" {
		switch mode {
		case xdp.Native:
			return nil, fmt.Errorf("native XDP on %s: %s, or use mode = \"generic\"", l.name, why)
		case xdp.Auto:
			mode, b.generic = xdp.Generic, why
		}
	}
	if b.attach, err = program.Attach(l.index, mode); err != nil {
		return nil, err
	}
	l.countQueues() // some drivers add queues for XDP
	if b.member, err = openMembership(l.index); err != nil {
		return nil, err
	}
	return b, nil
}

// close lets go of an interface, which may be gone.
func (b *beneath) close() error {
	if b.settings != nil && b.attach != nil && b.attach.Alive() && b.link.info("", "", 0).State == StateGone {
		b.settings.Moved()
	}
	err := b.detach()
	b.link.close()
	return err
}

// detach is close, but for the link.
func (b *beneath) detach() error {
	var errs []error
	if b.attach != nil {
		errs = append(errs, b.attach.Close())
	}
	if b.device != nil {
		errs = append(errs, b.device.Close())
	}
	if b.renewal.twin != nil {
		errs = append(errs, b.renewal.twin.Close())
	}
	if b.member != nil {
		b.member.close()
	}
	return errors.Join(errs...)
}

// absence is what a port reports while it has no interface.
type absence struct {
	last     Info      // what it was before
	why      string    // why the interface is not back, or why it is not open
	settings *nic.Held // of the interface that was left, until GiveBack
	present  bool      // there is an interface of the name again, though it is not open
	disabled bool      // control has switched the port off
	left     bool      // another process has the port, or has it still (Takeable)
}

// leave notes what a port was, and why it is not so any more: why is nil if its
// interface is gone.
func (a *absence) leave(was Info, why error) {
	a.last = was
	a.present, a.why = false, missingInterface(was.Interface).Error()
	if why != nil {
		a.present, a.why = true, why.Error()
	}
}

// giveBack puts back the settings of the interface that was left.
func (a *absence) giveBack() error {
	if a.settings == nil {
		return nil
	}
	settings := a.settings
	a.settings = nil
	if a.left {
		return settings.Leave()
	}
	return settings.Release()
}

// failed notes what came of a try to be back.
func (a *absence) failed(err error) bool {
	a.disabled = false
	if err != nil {
		a.present, a.why = !IsMissing(err), err.Error()
	}
	return err != nil
}

func (a *absence) info() Info {
	i := a.last
	i.Up, i.State, i.Error = false, StateGone, a.why
	switch {
	case a.disabled:
		i.State, i.Error = StateDisabled, ""
	case a.present:
		i.State = StateRebuilding
	}
	return i
}

// lost reports whether the interface is gone. The kernel takes the program off one that is removed, which its link reports; an index
// alone might belong to another one by now. One that was moved to another namespace keeps the program, and has lost the sockets.
func (b *beneath) lost() bool {
	return !b.attach.Alive() || b.link.info("", "", 0).State == StateGone
}

// Lost implements Restorable.
func (x *XSK) Lost() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.beneath != nil && !x.left && x.beneath.lost()
}

// Pause implements Restorable.
func (x *XSK) Pause() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.beneath == nil || x.left {
		return nil
	}
	err := x.unregister()
	xsk.GracePeriod()
	return err
}

// Detach implements Restorable.
func (x *XSK) Detach(why error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.disabled = errors.Is(why, ErrDisabled)
	if x.beneath == nil || x.left {
		return nil
	}
	x.leave(x.info(), why)
	c := x.beneathCounters()
	x.past.Add(&c)
	err := errors.Join(x.unregister(), x.beneath.close())
	x.settings = x.beneath.settings
	x.beneath, x.queues, x.opening = nil, nil, false
	return err
}

// GiveBack implements Restorable.
func (x *XSK) GiveBack() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.giveBack()
}

// Restore implements Restorable.
func (x *XSK) Restore() error {
	x.mu.Lock()
	left := x.left
	x.mu.Unlock()
	if left {
		return errLeft
	}
	var b *beneath
	err := x.space.Do(func() error {
		l, settings, err := findAgain(&x.config, &x.last, x.fits)
		if err == nil {
			b, err = x.attach(l, settings)
		}
		return err
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	if err == nil {
		if err = b.member.set(x.reception); err != nil {
			err = errors.Join(err, b.close(), b.settings.Release())
		}
	}
	if x.failed(err) {
		return err
	}
	x.beneath, x.opening = b, true
	if b.device != nil && b.device.TagsOf() != 0 { // the one before ended with its interface
		var old *xdp.Program
		old, x.program, b.device = x.program, b.device, nil
		return old.Close()
	}
	return nil
}

// Configure implements Restorable.
func (x *XSK) Configure(c Config) (before Config) {
	x.mu.Lock()
	defer x.mu.Unlock()
	before = x.config
	x.config, x.shaper = before.with(c), nil
	x.disabled = c.Disabled
	return before
}

// Restored implements Restorable.
func (x *XSK) Restored() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopped {
		return errStopped
	}
	for _, q := range x.queues {
		if err := x.program.Register(int(q.number), q.socket.FD()); err != nil {
			return err
		}
	}
	x.opening, x.present, x.why = false, false, ""
	return nil
}

// findAgain finds what is now the interface of a port's name, if it can do what the
// one before could, and gives it the same settings. former is what that was.
func findAgain(c *Config, former *Info, fits func(*link) error) (*link, *nic.Held, error) {
	l, err := findLink(c.Interface)
	if IsMissing(err) {
		// A running port stays with an interface that is renamed, also when it is opened anew.
		if renamed, indexErr := net.InterfaceByIndex(former.Index); indexErr == nil && renamed.HardwareAddr.String() == former.MAC {
			l, err = findLink(renamed.Name)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if err = fits(l); err != nil { // before anything is changed
		l.close()
		return nil, nil, err
	}
	settings, err := nic.Take(l.name, c.NIC())
	if err != nil {
		l.close()
		return nil, nil, err
	}
	if l.countQueues(); l.rx < c.Queues {
		err = fmt.Errorf("%s came back with %d queues, and had %d: give it as many (ethtool -L), or restart the switch", l.name, l.rx, c.Queues)
		l.close()
		return nil, nil, errors.Join(err, settings.Release())
	}
	return l, settings, nil
}
