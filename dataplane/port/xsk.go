package port

import (
	"errors"
	"fmt"

	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/dataplane/xsk"
	"github.com/weirswitch/weir/pipeline/packet"
)

// XSK is a network interface through AF_XDP with our own rings on the
// switch's one UMEM.
type XSK struct {
	config  Config
	memory  *UMEM
	link    *link
	options xdp.Options // of program
	program *xdp.Program
	attach  *xdp.Attachment
	queues  []*xskQueue
	stopped bool
	last    Counters // as of Close
	arrival arrival  // what TimeArrivals granted
	// deferral gives the interface its interrupts back; nil without busy polling.
	deferral *deferral
}

// UMEM is the packet memory of all xsk ports of a switch, with what the kernel
// decides once for all its sockets.
type UMEM struct {
	umem   *xsk.UMEM
	config DataplaneConfig
	huge   bool // granted
	// multiBuffer is set by the first port that needs it, before any queue opens.
	multiBuffer bool
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
	x := &XSK{config: c, memory: memory}
	if err := x.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), x.Close())
	}
	return x, nil
}

func (x *XSK) open() (err error) {
	if x.link, err = findLink(x.config.Interface); err != nil {
		return err
	}
	if x.config.Queues, err = x.link.queues(x.config.Queues); err != nil {
		return err
	}
	if room := x.memory.umem.PacketRoom(); x.link.maxFrame() > room && !x.config.Jumbo {
		return fmt.Errorf("the MTU of %s is %d, but a frame holds a packet of %d bytes: set jumbo = true, a larger frame_size, or the MTU to %d",
			x.config.Interface, x.link.mtu, room, room-ethernetOverhead)
	}
	x.memory.multiBuffer = x.memory.multiBuffer || x.config.Jumbo
	keep, err := xdp.ParseKeep(x.config.Keep)
	if err != nil {
		return err
	}
	mode, err := xdp.ParseMode(x.config.Mode)
	if err != nil {
		return err
	}
	x.options = xdp.Options{Keep: keep, MaxQueues: x.config.Queues, Frags: x.config.Jumbo}
	if x.program, err = xdp.Load(x.options); err != nil {
		return err
	}
	if x.attach, err = x.program.Attach(x.link.index, mode); err != nil {
		return err
	}
	if x.config.BusyPoll != 0 {
		x.deferral, err = deferInterrupts(x.config.Interface)
	}
	return err
}

// Open implements Port.
func (x *XSK) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	q, err := x.openQueue(number, queue, frames)
	if err != nil {
		return nil, fmt.Errorf("port %s: %w", x.config.Name, err)
	}
	x.queues = append(x.queues, q)
	return q, nil
}

func (x *XSK) openQueue(number uint16, queue int, frames *packet.Cache) (*xskQueue, error) {
	d := &x.memory.config
	mode, err := xsk.ParseMode(d.Copy)
	if err != nil {
		return nil, err
	}
	socket, err := x.memory.umem.Open(x.link.index, queue, xsk.Config{
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
	q := newXSKQueue(socket, number, uint8(queue), frames)
	q.stamps = stamps{tag: x.program.Tag(), monotonic: x.options.Timestamp == xdp.ClockMonotonic}
	if err := x.program.Register(queue, socket.FD()); err != nil {
		_, closeErr := q.Close()
		return nil, errors.Join(err, closeErr)
	}
	return q, nil
}

// txBudget returns how many packets a system call shall send. With busy polling
// each call also polls the interface, so a whole batch goes in one.
func (x *XSK) txBudget() int {
	if x.config.TXBudget == 0 && x.config.BusyPoll != 0 {
		return packet.BatchSize
	}
	return x.config.TXBudget
}

// Info implements Port.
func (x *XSK) Info() Info {
	i := x.link.info(x.config.Name, "xsk", x.config.Queues)
	if x.attach != nil {
		i.Mode = x.attach.Mode().String()
	}
	if len(x.queues) != 0 {
		i.Mode += ", " + x.queues[0].socket.Granted().String()
	}
	if p := x.program; p != nil {
		if c, err := p.Counters(); err == nil {
			x.arrival.untimed = c.Untimed
		}
	}
	i.Mode += x.memory.pages() + x.arrival.String()
	return i
}

// Counters implements Port.
func (x *XSK) Counters() Counters {
	if x.program == nil {
		return x.last
	}
	var c Counters
	for _, q := range x.queues {
		// A closed socket has no statistics; they were read before it closed.
		if s, err := q.socket.Stats(); err == nil {
			q.stats = s
		}
		c.RxRingFull += q.stats.RXRingFull
		c.RxInvalid += q.stats.RXInvalidDescs
		c.TxInvalid += q.stats.TXInvalidDescs
		c.addDropped(q.stats.RXDropped, q.stats.RXFillRingEmpty)
	}
	if p, err := x.program.Counters(); err == nil {
		c.Kept, c.NoSocket = p.Kept, p.NoSocket
	}
	c.LinkTxDrops, c.LinkRxErrors = x.link.losses()
	return c
}

// StopReceive implements Port.
func (x *XSK) StopReceive() error {
	if x.stopped {
		return nil
	}
	x.stopped = true
	var errs []error
	for _, q := range x.queues {
		errs = append(errs, x.program.Unregister(int(q.number)))
	}
	return errors.Join(errs...)
}

// Close implements Port.
func (x *XSK) Close() error {
	var errs []error
	if x.program != nil {
		x.last = x.Counters()
		if x.attach != nil {
			errs = append(errs, x.attach.Close())
		}
		errs = append(errs, x.program.Close())
		x.program = nil
	}
	if x.deferral != nil {
		errs = append(errs, x.deferral.restore())
		x.deferral = nil
	}
	if x.link != nil {
		x.link.close()
	}
	return errors.Join(errs...)
}
