package port

import (
	"errors"
	"fmt"
	"runtime"

	asavie "github.com/asavie/xdp"

	"github.com/weirswitch/weir/dataplane/xdp"
	"github.com/weirswitch/weir/pipeline/packet"
)

// Asavie is a network interface through github.com/asavie/xdp: a second
// implementation of AF_XDP beneath the same pipeline, for comparison and for
// tests. That library has one UMEM per socket, so each packet is copied from
// its UMEM into a frame of the pool and back. It panics when the interface is
// down; the driver then drops what is to be sent until it is up again.
//
// The XDP program is ours, for it vanishes with the process.
type Asavie struct {
	config  Config
	rings   DataplaneConfig
	link    *link
	program *xdp.Program
	attach  *xdp.Attachment
	queues  []*asavieQueue
	last    Counters
	arrival arrival
	shaper  *shaper // nil without a rate
}

// NewAsavie finds the interface, in the network namespace of the calling
// thread, and attaches the XDP program.
func NewAsavie(c Config, d DataplaneConfig) (*Asavie, error) {
	a := &Asavie{config: c, rings: d}
	if err := a.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", c.Name, err), a.Close())
	}
	return a, nil
}

func (a *Asavie) open() (err error) {
	if a.link, err = findLink(a.config.Interface); err != nil {
		return err
	}
	if a.config.Queues, err = a.link.queues(a.config.Queues); err != nil {
		return err
	}
	if room := a.rings.FrameSize - Headroom; a.link.maxFrame() > room {
		return fmt.Errorf("the MTU of %s is %d, but a frame holds a packet of %d bytes: set a larger frame_size, or the MTU to %d",
			a.config.Interface, a.link.mtu, room, room-ethernetOverhead)
	}
	mode, err := xdp.ParseMode(a.config.Mode)
	if err != nil {
		return err
	}
	if a.program, err = xdp.Load(xdp.Options{MaxQueues: a.config.Queues}); err != nil {
		return err
	}
	a.attach, err = a.program.Attach(a.link.index, mode)
	return err
}

// Open implements Port.
func (a *Asavie) Open(number uint16, queue int, frames *packet.Cache) (Queue, error) {
	// The library searches all frames for a free one, so their number is kept
	// as small as full rings allow.
	socket, err := asavie.NewSocket(a.link.index, queue, &asavie.SocketOptions{
		NumFrames:              a.rings.FillRing + a.rings.TXRing,
		FrameSize:              a.rings.FrameSize,
		FillRingNumDescs:       a.rings.FillRing,
		CompletionRingNumDescs: a.rings.CompletionRing,
		RxRingNumDescs:         a.rings.RXRing,
		TxRingNumDescs:         a.rings.TXRing,
	})
	if err != nil {
		return nil, fmt.Errorf("port %s: open queue %d of %s: %w: is another AF_XDP program using it, or is memory short (memlock)?",
			a.config.Name, queue, a.config.Interface, err)
	}
	q := &asavieQueue{socket: socket, frames: frames, port: number, number: uint8(queue)}
	if err := a.program.Register(queue, socket.FD()); err != nil {
		return nil, errors.Join(fmt.Errorf("port %s: %w", a.config.Name, err), socket.Close())
	}
	q.fill()
	a.queues = append(a.queues, q)
	if a.shaper == nil {
		a.shaper = newShaper(&a.config, a.link.maxFrame())
	}
	return a.shaper.shape(q, frames), nil
}

// Info implements Port.
func (a *Asavie) Info() Info {
	i := a.link.info(a.config.Name, DriverAsavie, a.config.Queues)
	i.Mode = a.attach.Mode().String() + ", copy into the pool" + a.arrival.String()
	return i
}

// Counters implements Port.
func (a *Asavie) Counters() Counters {
	if a.program == nil {
		return a.last
	}
	var c Counters
	for _, q := range a.queues {
		if !q.closed {
			if s, err := q.socket.Stats(); err == nil {
				q.stats = s
			}
		}
		k := q.stats.KernelStats
		c.RxRingFull += k.Rx_ring_full
		c.RxInvalid += k.Rx_invalid_descs
		c.TxInvalid += k.Tx_invalid_descs
		c.addDropped(k.Rx_dropped, k.Rx_fill_ring_empty_descs)
	}
	if p, err := a.program.Counters(); err == nil {
		c.NoSocket = p.NoSocket
	}
	c.LinkTxDrops, c.LinkRxErrors = a.link.losses()
	return c
}

// StopReceive implements Port.
func (a *Asavie) StopReceive() error {
	var errs []error
	for _, q := range a.queues {
		errs = append(errs, a.program.Unregister(int(q.number)))
	}
	return errors.Join(errs...)
}

// Close implements Port.
func (a *Asavie) Close() error {
	var errs []error
	if a.program != nil {
		a.last = a.Counters()
		if a.attach != nil {
			errs = append(errs, a.attach.Close())
		}
		errs = append(errs, a.program.Close())
		a.program = nil
	}
	if a.link != nil {
		a.link.close()
	}
	return errors.Join(errs...)
}

type asavieQueue struct {
	socket *asavie.Socket
	frames *packet.Cache
	port   uint16
	number uint8
	closed bool
	stats  asavie.Stats
	down   bool // the interface refused to send
	addrs  [packet.BatchSize]uint64
}

func (q *asavieQueue) fill() {
	if n := q.socket.NumFreeFillSlots(); n >= packet.BatchSize {
		q.socket.Fill(q.socket.GetDescs(n))
	}
}

// Receive implements Queue.
func (q *asavieQueue) Receive(b *packet.Batch) int {
	n := min(q.socket.NumReceived(), packet.BatchSize, cap(b.Pkts)-len(b.Pkts))
	if n == 0 {
		return 0
	}
	n = q.frames.Alloc(q.addrs[:n])
	for i, d := range q.socket.Receive(n) {
		addr := q.addrs[i] + Headroom
		copy(b.Mem[addr:], q.socket.GetFrame(d))
		p := b.Append()
		p.Addr, p.Len, p.WireLen = addr, d.Len, d.Len
		p.InPort, p.InQueue = q.port, q.number
	}
	q.fill()
	return n
}

// Transmit implements Queue.
func (q *asavieQueue) Transmit(b *packet.Batch, idx []uint16) int {
	if q.down {
		return 0
	}
	n := min(len(idx), q.socket.NumFreeTxSlots())
	descs := q.socket.GetDescs(n)
	n = len(descs)
	for k := range descs {
		p := &b.Pkts[idx[k]]
		descs[k].Len = p.Len
		copy(q.socket.GetFrame(descs[k]), b.Data(p))
		q.frames.FreePacket(p)
	}
	if n != 0 {
		q.send(descs)
	}
	return n
}

// send puts packets into the TX ring, where they stay if the interface is
// down, and has the kernel send.
func (q *asavieQueue) send(descs []asavie.Desc) {
	// It panics behind counting and queueing the packets. What the kernel sent
	// by then may be completed at once, so down is asked again in each Service.
	q.down = true
	defer func() {
		if fault, ok := recover().(runtime.Error); ok {
			panic(fault) // not the kernel's refusal, but a fault of the library or ours
		}
	}()
	q.socket.Transmit(descs)
	q.down = false
}

// Refusal implements Queue.
func (q *asavieQueue) Refusal() packet.Reason {
	if q.down {
		return packet.ReasonPortDown
	}
	return packet.ReasonTxFull
}

// Service implements Queue. The library sends at most the kernel's budget per
// call, so it is called again, with nothing new, while packets wait.
func (q *asavieQueue) Service() bool {
	if q.socket.NumTransmitted() == 0 && !q.down {
		return false
	}
	if n := q.socket.NumCompleted(); n != 0 {
		q.socket.Complete(n)
	}
	if q.socket.NumTransmitted() != 0 || q.down {
		q.send(nil)
		if n := q.socket.NumCompleted(); n != 0 {
			q.socket.Complete(n)
		}
	}
	return q.socket.NumTransmitted() != 0 || q.down
}

// Depth implements Queue.
func (q *asavieQueue) Depth() int { return q.socket.NumTransmitted() - q.socket.NumCompleted() }

// FD implements Queue.
func (q *asavieQueue) FD() int { return q.socket.FD() }

// Ended implements Queue: a network may always send something.
func (q *asavieQueue) Ended() bool { return false }

// Close implements Queue. The frames in its rings are the library's own.
func (q *asavieQueue) Close() (Rest, error) {
	if s, err := q.socket.Stats(); err == nil {
		q.stats = s
	}
	rest := Rest{Unsent: q.socket.NumTransmitted()}
	q.closed = true
	return rest, q.socket.Close()
}
