package port

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/weirswitch/weir/dataplane/nic"
	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
	"github.com/weirswitch/weir/pipeline/packet"
)

// XSK is a network interface through AF_XDP with our own rings on the
// switch's one UMEM. The program and its counters live as long as the port; what
// hangs on one interface, which may vanish and return, is beneath them.
type XSK struct {
	config  Config
	memory  *UMEM
	space   *Space
	options xdp.Options // of program
	arrival arrival     // what TimeArrivals granted
	shaper  *shaper     // nil without a rate
	bound   bool        // program has been on an interface; if it was loaded for that one, it ends with it
	// hardware has devices time packets, where they do (takeHardware).
	hardware bool

	mu      sync.Mutex // guards what follows
	program *xdp.Program
	beneath *beneath // nil while the interface is gone
	queues  []*xskQueue
	stopped bool
	// reception is what a device beneath is told to let in.
	reception packet.Reception
	absence              // while there is nothing beneath
	past      Counters   // of interfaces that are gone, and all as of Close
	opening   bool       // between Restore and Restored
	taking    *xskTaking // what another process has given the port, until its workers have the queues; else nil
}

// UMEM is the packet memory of all xsk ports of a switch, with what the kernel
// decides once for all its sockets.
type UMEM struct {
	umem   *xsk.UMEM
	config DataplaneConfig
	huge   bool // granted
	// multiBuffer is set by the first port that needs it, before any queue opens.
	multiBuffer bool
	opened      atomic.Bool // a queue is open, or was
}

// admit settles whether sockets take packets of several frames, which is one
// decision for all of them.
func (m *UMEM) admit(jumbo bool) error {
	if !jumbo || m.multiBuffer {
		return nil
	}
	if m.opened.Load() {
		return errors.New("jumbo: no port had it when the switch started, and its memory is laid out without: restart the switch")
	}
	m.multiBuffer = true
	return nil
}

// NewUMEM makes the UMEM of a pool. The pool's memory is the caller's, and must
// live until all ports are closed.
func NewUMEM(pool *packet.Pool, c DataplaneConfig) (*UMEM, error) {
	size := pool.Frames() * pool.FrameSize()
	umem, err := xsk.NewUMEM(pool.Memory()[:size], xsk.UMEMConfig{FrameSize: pool.FrameSize()})
	if err != nil {
		return nil, err
	}
	return &UMEM{umem: umem, config: c, huge: pool.HugePages()}, nil
}

// pages continues Info.Mode where huge pages were asked for.
func (m *UMEM) pages() string {
	switch {
	case !m.config.HugePages:
		return ""
	case m.huge:
		return ", huge pages"
	}
	return ", no huge pages (too few are free: raise vm.nr_hugepages)"
}

// NewXSK finds the interface, in the network namespace of the calling thread,
// and attaches the XDP program. Packets pass on to the kernel until the queues
// are open. All ports of a switch are made before the first queue is opened.
func NewXSK(c Config, memory *UMEM) (*XSK, error) {
	x := &XSK{config: c, memory: memory, reception: packet.Reception{All: true}}
	if err := x.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), x.Close())
	}
	return x, nil
}

func (x *XSK) open() (err error) {
	if x.space, err = CurrentSpace(); err != nil {
		return err
	}
	l, err := findLink(x.config.Interface)
	if x.config.Optional && errors.As(err, new(missingInterface)) {
		return x.openWithout(err)
	}
	if err != nil {
		return err
	}
	var settings *nic.Held
	if x.config.Disabled {
		x.config.Queues, err = planQueues(l, &x.config)
	} else {
		settings, err = prepare(l, &x.config)
	}
	if err == nil {
		err = x.fits(l)
	}
	if err == nil {
		err = x.load(l)
	}
	if err != nil {
		l.close()
		if settings != nil {
			err = errors.Join(err, settings.Release())
		}
		return err
	}
	if x.config.Disabled {
		x.last = l.info(x.config.Name, DriverXSK, x.config.Queues)
		x.last.Index, x.disabled = 0, true
		l.close()
		return nil
	}
	if x.beneath, err = x.attach(l, settings); err != nil {
		return err
	}
	return x.beneath.member.set(x.reception)
}

// openWithout readies all that needs no interface. The MTU is a guess until
// there is one.
func (x *XSK) openWithout(why error) error {
	const mtu = 1500
	x.last = Info{
		Name: x.config.Name, Interface: x.config.Interface, Driver: DriverXSK,
		Queues: x.config.Queues, MTU: mtu, MaxFrame: mtu + ethernetOverhead,
	}
	x.why, x.disabled = why.Error(), x.config.Disabled
	return x.load(nil)
}

// fits refuses an MTU whose packets exceed what the port can take.
func (x *XSK) fits(l *link) error {
	return CheckMTU(&x.config, l.mtu, x.memory.umem.FrameSize())
}

// load loads the program: for the interface of l where its driver has VLAN tags for it. A nil l is not there yet.
func (x *XSK) load(l *link) error {
	if err := x.memory.admit(x.config.Jumbo); err != nil {
		return err
	}
	keep, err := xdp.ParseKeep(x.config.Keep)
	if err != nil {
		return err
	}
	x.options = xdp.Options{Keep: keep, MaxQueues: x.config.Queues, Frags: x.config.Jumbo, Longest: x.memory.umem.PacketRoom()}
	if l != nil && !x.config.Disabled {
		x.options.TagsOf, _ = x.tagsOf(l) // attach says why not
	}
	if x.program, err = xdp.Load(x.options); err != nil && x.options.TagsOf != 0 {
		x.options.TagsOf = 0
		x.program, err = xdp.Load(x.options)
	}
	return err
}

// Open implements Port.
func (x *XSK) Open(number uint16, queue int, frames *packet.Cache) (q Queue, err error) {
	x.mu.Lock()
	b, program := x.beneath, x.program
	x.mu.Unlock()
	if b == nil {
		return Down(), nil // an optional interface that is not there
	}
	var opened *xskQueue
	if err = x.space.Do(func() error {
		if x.taking != nil {
			opened, err = x.takeQueue(b, program, number, queue, frames)
			return err
		}
		opened, err = x.openQueue(b, program, number, queue, frames)
		return err
	}); err != nil {
		return nil, fmt.Errorf("port %s: %w", x.config.Name, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.queues = append(x.queues, opened)
	if x.shaper == nil {
		x.shaper = newShaper(&x.config, b.link.maxFrame())
	}
	return x.shaper.shape(opened, frames), nil
}

func (x *XSK) openQueue(b *beneath, program *xdp.Program, number uint16, queue int, frames *packet.Cache) (*xskQueue, error) {
	d := &x.memory.config
	mode, err := x.copyMode(b)
	if err != nil {
		return nil, err
	}
	socket, err := x.memory.umem.Open(b.link.index, queue, xsk.Config{
		FillSize:       d.FillRing,
		RXSize:         d.RXRing,
		TXSize:         d.TXRing,
		CompletionSize: d.CompletionRing,
		Mode:           mode,
		NeedWakeup:     d.NeedWakeup,
		MultiBuffer:    x.memory.multiBuffer,
		TXBudget:       min(x.txBudget(), d.TXRing),
		BusyPoll:       x.config.BusyPoll,
		BusyPollBudget: packet.BatchSize,
	})
	if err != nil {
		return nil, err
	}
	x.memory.opened.Store(true)
	q := newXSKQueue(socket, number, uint8(queue), frames)
	x.ready(q, b, program)
	if err := x.register(program, queue, socket.FD()); err != nil {
		_, closeErr := q.Close()
		return nil, errors.Join(err, closeErr)
	}
	return q, nil
}

// ready completes a queue by what the port knows of its interface and program.
func (x *XSK) ready(q *xskQueue, b *beneath, program *xdp.Program) {
	if b.link.partialChecksums() {
		q.sums = &completer{pool: q.pool}
	}
	q.stamps = stamps{tag: program.Tag(), monotonic: x.options.Timestamp == xdp.ClockMonotonic}
}

// register directs a queue's packets to its socket, unless the port receives
// nothing more, or Restored will do it.
func (x *XSK) register(program *xdp.Program, queue, socket int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.stopped:
		return errStopped
	case x.opening:
		return nil
	}
	return program.Register(queue, socket)
}

var errStopped = errors.New("the switch is closing")

// txBudget returns how many packets a system call shall send. With busy polling
// each call also polls the interface, so a whole batch goes in one.
func (x *XSK) txBudget() int {
	if x.config.TXBudget == 0 && x.config.BusyPoll != 0 {
		return packet.BatchSize
	}
	return x.config.TXBudget
}

// Receive implements Receptive.
func (x *XSK) Receive(r packet.Reception) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reception = r
	if x.beneath == nil {
		return nil
	}
	if err := x.beneath.member.set(r); err != nil {
		return fmt.Errorf("port %s: %w", x.config.Name, err)
	}
	return nil
}

// Info implements Port.
func (x *XSK) Info() Info {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.info()
}

func (x *XSK) info() Info {
	if x.beneath == nil {
		return x.absence.info()
	}
	i := x.beneath.link.info(x.config.Name, DriverXSK, x.config.Queues)
	if room := x.memory.umem.PacketRoom(); i.MaxFrame > room && !x.config.Jumbo {
		i.MaxFrame = room
		i.Error = cutsMTU(DriverXSK, i.MTU, room)
	}
	switch {
	case x.opening:
		i.State = StateRebuilding
	case i.State == StateGone:
		i.Error = missingInterface(x.config.Interface).Error()
	}
	if r := uint64(x.config.RateBits); r != 0 && (i.Speed == 0 || i.Speed > r) {
		i.Speed = r
	}
	i.Reception = describe(x.reception)
	x.beneath.describe(&i)
	if c, err := x.program.Counters(); err == nil && c.TooLong != 0 && i.Error == "" {
		i.Error = tooLong(c.TooLong, x.memory.umem.PacketRoom())
	}
	i.Mode = x.beneath.attach.Mode().String()
	if x.beneath.generic != "" {
		i.Fallbacks = append(i.Fallbacks, x.beneath.generic)
	}
	if why := x.beneath.attach.NoNative(); why != nil {
		i.Fallbacks = append(i.Fallbacks, why.Error())
	}
	if why := x.beneath.noTags; why != "" {
		i.Fallbacks = append(i.Fallbacks, why)
	}
	if len(x.queues) != 0 {
		i.Mode += ", " + x.queues[0].socket.Granted().String()
		if why := x.copies(); why != nil {
			i.Fallbacks = append(i.Fallbacks, why.Error())
		}
	}
	i.Mode += x.memory.pages() + x.arrivals().String() + x.beneath.renewal.String()
	return i
}

// copies is why queues have copy mode where zero-copy was tried, or would have been; nil if none has.
func (x *XSK) copies() error {
	if x.beneath.noZeroCopy != nil {
		return x.beneath.noZeroCopy
	}
	for n, q := range x.queues {
		switch why := q.socket.Granted().NoZeroCopy; {
		case why != nil && n != 0:
			return fmt.Errorf("queue %d and those after it: %w", q.number, why)
		case why != nil:
			return why
		}
	}
	return nil
}

// Counters implements Port.
func (x *XSK) Counters() Counters {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.counters()
}

func (x *XSK) counters() Counters {
	c := x.past
	if x.program == nil || x.left {
		return c
	}
	b := x.beneathCounters()
	c.Add(&b)
	if p, err := x.program.Counters(); err == nil {
		c.Kept, c.NoSocket, c.RxTooLong, c.RxTagLost = p.Kept, p.NoSocket, p.TooLong, p.TagLost
	}
	return c
}

// beneathCounters are those of the interface that there is now.
func (x *XSK) beneathCounters() (c Counters) {
	for _, q := range x.queues {
		// A closed socket has no statistics; they were read before it closed.
		q.readStats()
		c.RxRingFull += q.stats.RXRingFull
		c.RxInvalid += q.stats.RXInvalidDescs
		c.TxInvalid += q.stats.TXInvalidDescs
		c.addDropped(q.stats.RXDropped, q.stats.RXFillRingEmpty)
		if q.sums != nil {
			c.ChecksumsCompleted += q.sums.completed.Load()
		}
	}
	if x.beneath != nil {
		c.LinkTxDrops, c.LinkRxErrors = x.beneath.link.losses()
	}
	return c
}

// StopReceive implements Port.
func (x *XSK) StopReceive() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopped {
		return nil
	}
	x.stopped = true
	return x.unregister()
}

func (x *XSK) unregister() error {
	var errs []error
	for _, q := range x.queues {
		if x.left {
			break // the program is attached until the other process has put its own in its place
		}
		errs = append(errs, x.program.Unregister(int(q.number)))
	}
	return errors.Join(errs...)
}

// Close implements Port.
func (x *XSK) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopped = true
	var errs []error
	if x.program != nil {
		x.past = x.counters()
		if x.beneath != nil {
			x.last, x.why = x.info(), ""
			errs = append(errs, x.beneath.close())
			x.settings, x.beneath = x.beneath.settings, nil
		}
		errs = append(errs, x.giveBack(), x.program.Close())
		x.program, x.queues = nil, nil
	}
	if x.beneath != nil { // of a port that could not be taken over
		errs = append(errs, x.beneath.close())
		x.settings, x.beneath = x.beneath.settings, nil
		errs = append(errs, x.giveBack())
	}
	if x.taking != nil {
		errs = append(errs, x.taking.files.Close())
		x.taking = nil
	}
	if x.space != nil {
		x.space.Close()
		x.space = nil
	}
	return errors.Join(errs...)
}
