package port

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	asavie "github.com/asavie/xdp"
	"golang.org/x/sys/unix"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Asavie is a network interface through github.com/asavie/xdp: a second
// implementation of AF_XDP beneath the same pipeline, for comparison and for
// tests. That library has one UMEM per socket, so each packet is copied from
// its UMEM into a frame of the pool and back. It panics when the interface is
// down; the driver then drops what is to be sent until it is up again.
//
// The XDP program is ours, for it vanishes with the process. As with XSK, it lives
// as long as the port, and what hangs on one interface is beneath it.
type Asavie struct {
	rings   DataplaneConfig
	space   *Space
	arrival arrival

	mu      sync.Mutex // guards what follows
	config  Config
	program *xdp.Program
	shaper  *shaper  // nil without a rate
	beneath *beneath // nil while the interface is gone
	queues  []*asavieQueue
	stopped bool
	absence          // while there is nothing beneath
	past    Counters // of interfaces that are gone, and all as of Close
	opening bool     // between Restore and Restored
	// reception is what a device beneath is told to let in.
	reception packet.Reception
}

// NewAsavie finds the interface, in the network namespace of the calling
// thread, and attaches the XDP program.
func NewAsavie(c Config, d DataplaneConfig) (*Asavie, error) {
	d.FrameSize = d.FrameSizeFor([]Config{c})
	a := &Asavie{config: c, rings: d, reception: packet.Reception{All: true}}
	if err := a.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), a.Close())
	}
	return a, nil
}

func (a *Asavie) open() (err error) {
	if a.space, err = CurrentSpace(); err != nil {
		return err
	}
	l, err := findLink(a.config.Interface)
	if err != nil {
		return err
	}
	var settings *nic.Held
	if a.config.Disabled {
		a.config.Queues, err = planQueues(l, &a.config)
	} else {
		settings, err = prepare(l, &a.config)
	}
	if err == nil {
		err = a.fits(l)
	}
	if err == nil {
		a.program, err = xdp.Load(xdp.Options{MaxQueues: a.config.Queues, Longest: a.rings.FrameSize - Headroom})
	}
	if err != nil {
		l.close()
		if settings != nil {
			err = errors.Join(err, settings.Release())
		}
		return err
	}
	if a.config.Disabled {
		a.last = l.info(a.config.Name, DriverAsavie, a.config.Queues)
		a.last.Index, a.disabled = 0, true
		l.close()
		return nil
	}
	if a.beneath, err = attach(a.program, l, settings, &a.config); err != nil {
		l.close()
		return errors.Join(err, settings.Release())
	}
	return a.beneath.member.set(a.reception)
}

func (a *Asavie) fits(l *link) error {
	return CheckMTU(&a.config, l.mtu, a.rings.FrameSize)
}

// Open implements Port.
func (a *Asavie) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.beneath == nil {
		return Down(), nil // a port that is off
	}
	index := a.beneath.link.index
	var socket *asavie.Socket
	// The library searches all frames for a free one, so their number is kept
	// as small as full rings allow.
	err := a.space.Do(func() error {
		return xsk.Patiently(unix.EBUSY, func() (err error) {
			socket, err = asavie.NewSocket(index, queue, &asavie.SocketOptions{
				NumFrames:              a.rings.FillRing + a.rings.TXRing,
				FrameSize:              a.rings.FrameSize,
				FillRingNumDescs:       a.rings.FillRing,
				CompletionRingNumDescs: a.rings.CompletionRing,
				RxRingNumDescs:         a.rings.RXRing,
				TxRingNumDescs:         a.rings.TXRing,
			})
			if err != nil && strings.HasSuffix(err.Error(), unix.EBUSY.Error()) { // the library passes on its text alone
				err = fmt.Errorf("bind: %w", unix.EBUSY)
			}
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("port %s: open queue %d of %s: %w: is another AF_XDP program using it, or is memory short (memlock)?",
			a.config.Name, queue, a.config.Interface, err)
	}
	q := &asavieQueue{socket: socket, frames: frames, port: number, number: uint8(queue)}
	if a.beneath.link.partialChecksums() {
		q.sums = &completer{pool: frames.Pool()}
	}
	switch {
	case a.stopped:
		err = errStopped
	case !a.opening:
		err = a.program.Register(queue, socket.FD())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", a.config.Name, err), socket.Close())
	}
	q.fill()
	a.queues = append(a.queues, q)
	if a.shaper == nil {
		a.shaper = newShaper(&a.config, a.beneath.link.maxFrame())
	}
	return a.shaper.shape(q, frames), nil
}

// Receive implements Receptive.
func (a *Asavie) Receive(r packet.Reception) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reception = r
	if a.beneath == nil {
		return nil
	}
	return a.beneath.member.set(r)
}

// Info implements Port.
func (a *Asavie) Info() Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.info()
}

func (a *Asavie) info() Info {
	if a.beneath == nil {
		return a.absence.info()
	}
	i := a.beneath.link.info(a.config.Name, DriverAsavie, a.config.Queues)
	if room := a.rings.FrameSize - Headroom; i.MaxFrame > room {
		i.MaxFrame = room
		i.Error = cutsMTU(DriverAsavie, i.MTU, room)
	}
	switch {
	case a.opening:
		i.State = StateRebuilding
	case i.State == StateGone:
		i.Error = missingInterface(a.config.Interface).Error()
	}
	i.Reception = describe(a.reception)
	a.beneath.describe(&i)
	if c, err := a.program.Counters(); err == nil && c.TooLong != 0 && i.Error == "" {
		i.Error = tooLong(c.TooLong, a.rings.FrameSize-Headroom)
	}
	i.Mode = a.beneath.attach.Mode().String() + ", copy into the pool" + a.arrival.String()
	return i
}

// Counters implements Port.
func (a *Asavie) Counters() Counters {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counters()
}

func (a *Asavie) counters() Counters {
	c := a.past
	if a.program == nil {
		return c
	}
	b := a.beneathCounters()
	c.Add(&b)
	if p, err := a.program.Counters(); err == nil {
		c.NoSocket, c.RxTooLong = p.NoSocket, p.TooLong
	}
	return c
}

// beneathCounters are those of the interface that there is now.
func (a *Asavie) beneathCounters() (c Counters) {
	for _, q := range a.queues {
		q.mu.Lock()
		k := q.readStats().KernelStats
		q.mu.Unlock()
		c.RxRingFull += k.Rx_ring_full
		c.RxInvalid += k.Rx_invalid_descs
		c.TxInvalid += k.Tx_invalid_descs
		c.addDropped(k.Rx_dropped, k.Rx_fill_ring_empty_descs)
		if q.sums != nil {
			c.ChecksumsCompleted += q.sums.completed.Load()
		}
	}
	if a.beneath != nil {
		c.LinkTxDrops, c.LinkRxErrors = a.beneath.link.losses()
	}
	return c
}

// StopReceive implements Port.
func (a *Asavie) StopReceive() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return nil
	}
	a.stopped = true
	return a.unregister()
}

func (a *Asavie) unregister() error {
	var errs []error
	for _, q := range a.queues {
		errs = append(errs, a.program.Unregister(int(q.number)))
	}
	return errors.Join(errs...)
}

// Close implements Port.
func (a *Asavie) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	var errs []error
	if a.program != nil {
		a.past = a.counters()
		if a.beneath != nil {
			a.last, a.why = a.info(), ""
			errs = append(errs, a.beneath.close())
			a.settings, a.beneath = a.beneath.settings, nil
		}
		errs = append(errs, a.giveBack(), a.program.Close())
		a.program, a.queues = nil, nil
	}
	if a.space != nil {
		a.space.Close()
		a.space = nil
	}
	return errors.Join(errs...)
}

// Lost implements Restorable.
func (a *Asavie) Lost() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.beneath != nil && a.beneath.lost()
}

// Pause implements Restorable.
func (a *Asavie) Pause() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.beneath == nil {
		return nil
	}
	err := a.unregister()
	xsk.GracePeriod()
	return err
}

// Detach implements Restorable.
func (a *Asavie) Detach(why error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.disabled = errors.Is(why, ErrDisabled)
	if a.beneath == nil {
		return nil
	}
	a.leave(a.info(), why)
	c := a.beneathCounters()
	a.past.Add(&c)
	err := errors.Join(a.unregister(), a.beneath.close())
	a.settings = a.beneath.settings
	a.beneath, a.queues, a.opening = nil, nil, false
	return err
}

// GiveBack implements Restorable.
func (a *Asavie) GiveBack() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.giveBack()
}

// Restore implements Restorable.
func (a *Asavie) Restore() error {
	var b *beneath
	err := a.space.Do(func() error {
		l, settings, err := findAgain(&a.config, &a.last, a.fits)
		if err == nil {
			if b, err = attach(a.program, l, settings, &a.config); err != nil {
				l.close()
				err = errors.Join(err, settings.Release())
			}
		}
		return err
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		if err = b.member.set(a.reception); err != nil {
			err = errors.Join(err, b.close(), b.settings.Release())
		}
	}
	if a.failed(err) {
		return err
	}
	a.beneath, a.opening = b, true
	return nil
}

// Configure implements Restorable.
func (a *Asavie) Configure(c Config) (before Config) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before = a.config
	a.config, a.shaper, a.disabled = before.with(c), nil, c.Disabled
	return before
}

// Restored implements Restorable.
func (a *Asavie) Restored() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return errStopped
	}
	for _, q := range a.queues {
		if err := a.program.Register(int(q.number), q.socket.FD()); err != nil {
			return err
		}
	}
	a.opening, a.present, a.why = false, false, ""
	return nil
}
