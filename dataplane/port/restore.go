package port

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
)

// beneath is what an XSK port has on one interface, and loses with it.
type beneath struct {
	link   *link
	attach *xdp.Attachment
	// device is the port's program for this interface's device; nil where there is none,
	// and noHardware says why, if it was asked for.
	device     *xdp.Program
	noHardware string
	// deferral gives the interface its interrupts back; nil without busy polling.
	deferral *deferral
}

// attach puts the program on the interface of l, which it takes over.
func (x *XSK) attach(l *link) (_ *beneath, err error) {
	b := &beneath{link: l}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	mode, err := xdp.ParseMode(x.config.Mode)
	if err != nil {
		return nil, err
	}
	if b.attach, err = x.program.Attach(l.index, mode); err != nil {
		return nil, err
	}
	if x.hardware {
		x.takeHardware(b)
	}
	if x.config.BusyPoll != 0 {
		if b.deferral, err = deferInterrupts(x.config.Interface); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// close lets go of an interface, which may be gone.
func (b *beneath) close() error {
	var errs []error
	if b.attach != nil {
		errs = append(errs, b.attach.Close())
	}
	if b.device != nil {
		errs = append(errs, b.device.Close())
	}
	if b.deferral != nil {
		errs = append(errs, b.deferral.restore())
	}
	b.link.close()
	return errors.Join(errs...)
}

// Lost implements Restorable. The kernel takes the program off an interface that
// is removed or moved to another namespace, which its link tells; an index
// alone might belong to another one by now.
func (x *XSK) Lost() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.beneath != nil && !x.beneath.attach.Alive()
}

// Pause implements Restorable.
func (x *XSK) Pause() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.beneath == nil {
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
	if x.beneath == nil {
		return nil
	}
	x.last = x.info()
	x.present, x.why = false, missingInterface(x.config.Interface).Error()
	if why != nil {
		x.present, x.why = true, why.Error()
	}
	c := x.beneathCounters()
	x.past.add(&c)
	err := errors.Join(x.unregister(), x.beneath.close())
	x.beneath, x.queues, x.opening = nil, nil, false
	return err
}

// Restore implements Restorable.
func (x *XSK) Restore() error {
	var b *beneath
	err := x.space.do(func() (err error) {
		b, err = x.findAgain()
		return err
	})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.disabled = false
	if err != nil {
		x.present, x.why = !errors.As(err, new(missingInterface)), err.Error()
		return err
	}
	x.beneath, x.opening = b, true
	return nil
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

// findAgain readies what is now the interface of our name, if it can do what the
// one before could.
func (x *XSK) findAgain() (*beneath, error) {
	l, err := findLink(x.config.Interface)
	if err != nil {
		return nil, err
	}
	if l.rx < x.config.Queues {
		err = fmt.Errorf("%s came back with %d queues, and had %d: give it as many (ethtool -L), or restart the switch", l.name, l.rx, x.config.Queues)
	} else {
		err = x.fits(l)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return x.attach(l)
}
