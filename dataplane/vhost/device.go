package vhost

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weirswitch/weir/dataplane/shmem"
	"github.com/weirswitch/weir/internal/socket"
)

// Config is a network device for one front-end at a time.
type Config struct {
	Socket string // path of the Unix socket
	Server bool   // listen on it; else connect to it
	Queues int    // pairs of rings
	// Offloads lets the guest leave checksums and segmentation to this device.
	Offloads bool
}

// Status is what a device reports.
type Status struct {
	Connected bool
	Rings     int    // that run and are enabled
	Features  uint64 // of virtio, as negotiated; see FeatureNames
	// Error is why no front-end is served, or why the last one was dismissed.
	Error string
	// Connections counts front-ends that were served.
	Connections uint64
}

// Device serves front-ends, one after the other, until Close.
type Device struct {
	config Config
	vrings []*Vring
	stop   chan struct{}
	done   sync.WaitGroup
	broken chan error // a worker found a ring broken; holds one

	// turn is had by the device's goroutines, but while they wait for the front-end.
	turn     *shmem.Turn
	listener *shmem.Listener // of a server
	begin    sync.Once
	entering bool // another process has the device still: see Adopt

	mu     sync.Mutex // guards what follows
	conn   *net.UnixConn
	status Status

	// The session's: for who has the turn, or has frozen it.
	mapped   mappings
	features uint64
	protocol uint64
	tracked  int // rings that have a part of the tracking of buffers in flight
	each     int // bytes of a part
	message  *message
}

// The time between two tries to connect, in client mode, grows from the first to the last.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = time.Second
	// endedWait is before the first of them where a connection has ended: servers of DPDK (22.11) crash where a client comes while they close.
	endedWait = 250 * time.Millisecond
)

// New begins to listen or to connect. A front-end may come at any time later.
func New(c Config) (*Device, error) {
	d, err := makeDevice(c)
	if err != nil {
		return nil, err
	}
	if c.Server {
		if err := socket.RemoveStale(c.Socket); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		if d.listener, err = shmem.Listen("unix", c.Socket); err != nil {
			return nil, errors.Join(fmt.Errorf("listen for a virtual machine on %s: %w", c.Socket, err), d.Close())
		}
	}
	d.Begin()
	return d, nil
}

func makeDevice(c Config) (*Device, error) {
	d := &Device{config: c, stop: make(chan struct{}), broken: make(chan error, 1), turn: shmem.NewTurn(), message: new(message)}
	for i := range 2 * c.Queues {
		v, err := newVring(d, i)
		if err != nil {
			return nil, errors.Join(err, d.Close())
		}
		d.vrings = append(d.vrings, v)
	}
	return d, nil
}

// Receive is the ring of packets from the guest, of a pair of rings; Transmit the one of packets to it.
func (d *Device) Receive(pair int) *Vring { return d.vrings[2*pair+1] }

// Transmit is the ring of packets to the guest, of a pair.
func (d *Device) Transmit(pair int) *Vring { return d.vrings[2*pair] }

// Status may be called at any time.
func (d *Device) Status() Status {
	rings := 0
	for _, v := range d.vrings {
		if v.Running() {
			rings++
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	s.Rings = rings
	return s
}

// Close ends the connection and the rings. No worker uses these any more. What another process has of the device stays as it is.
func (d *Device) Close() error {
	close(d.stop)
	theirs := d.entering || d.turn.Left()
	d.mu.Lock()
	var errs []error
	if d.listener != nil {
		if !theirs {
			_ = os.Remove(d.config.Socket)
		}
		errs = append(errs, d.listener.SetDeadline(time.Now()))
	}
	if d.conn != nil && !theirs {
		shmem.HangUp(d.conn)
	}
	d.mu.Unlock()
	d.done.Wait()
	if d.entering {
		if d.conn != nil {
			errs = append(errs, d.conn.Close())
		}
		d.message.close()
		errs = append(errs, d.forget())
	}
	if d.listener != nil {
		shmem.Part(d.listener, nil)
	}
	for _, v := range d.vrings {
		v.close()
	}
	return errors.Join(errs...)
}

// fail ends the connection, from a worker.
func (d *Device) fail(why error) {
	select {
	case d.broken <- why:
	default:
	}
}

func (d *Device) run() {
	defer d.turn.Give()
	d.turn.Take()
	if d.conn != nil { // of a front-end that another process has served
		d.serve()
		if !d.config.Server {
			d.pause(endedWait)
		}
	}
	if d.config.Server {
		d.runServer()
	} else {
		d.runClient()
	}
}

func (d *Device) runServer() {
	for !d.stopped() {
		c, err := d.listener.Accept(d.turn)
		switch {
		case err == nil:
			d.welcome(c)
			d.serve()
		case d.stopped():
		default:
			d.note(fmt.Errorf("accept a virtual machine on %s: %w", d.config.Socket, err))
			d.pause(lastWait)
		}
	}
}

func (d *Device) runClient() {
	wait := firstWait
	for !d.stopped() {
		c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: d.config.Socket, Net: "unix"})
		if err != nil {
			d.note(fmt.Errorf("connect to a virtual machine: %w", err))
			d.pause(wait)
			wait = min(2*wait, lastWait)
			continue
		}
		d.welcome(c)
		d.serve()
		wait = firstWait
		d.pause(endedWait)
	}
}

// stopped reports whether the goroutine's work is done.
func (d *Device) stopped() bool {
	select {
	case <-d.stop:
		return true
	default:
		return d.turn.Left()
	}
}

func (d *Device) pause(t time.Duration) {
	timer := time.NewTimer(t)
	defer timer.Stop()
	d.turn.Give()
	defer d.turn.Take()
	select {
	case <-d.stop:
	case <-timer.C:
	}
}

func (d *Device) note(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Error = err.Error()
}

// welcome begins with a front-end that has connected.
func (d *Device) welcome(c *net.UnixConn) {
	select {
	case <-d.broken: // of the one before
	default:
	}
	d.mu.Lock()
	d.conn = c
	d.status.Connected, d.status.Error = true, ""
	d.status.Connections++
	d.mu.Unlock()
	if d.stopped() {
		shmem.HangUp(c) // Close may have looked before
	}
}

// serve speaks with the front-end until one of both ends it.
func (d *Device) serve() {
	c, m := d.conn, d.message
	var why error
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case why = <-d.broken:
			if d.turn.Take() {
				shmem.HangUp(c)
			}
			d.turn.Give()
		case <-ended:
		}
	})
	err := d.converse(c, m)
	left := d.turn.Left() // the connection is the other process's
	d.mu.Lock()
	d.status = Status{Connections: d.status.Connections}
	d.mu.Unlock()
	if !left {
		shmem.HangUp(c)
	}
	err = errors.Join(err, d.forget())
	d.message = new(message)
	close(ended)
	d.turn.Give() // the other goroutine may wait for a device that is frozen
	watch.Wait()
	gone := shmem.Part(c, m.files)
	d.mu.Lock()
	if err = errors.Join(why, err); err != nil && !left {
		d.status.Error = err.Error()
	}
	d.mu.Unlock()
	select { // there is no next front-end before
	case <-gone:
	case <-d.stop:
	}
	d.turn.Take()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = nil
}

// converse handles messages until the connection ends. The descriptors of the last one are left.
func (d *Device) converse(c *net.UnixConn, m *message) error {
	for {
		err := m.read(c, d.turn)
		if err == nil {
			err = d.handle(c, m)
		}
		switch {
		case err == nil:
			m.close()
		case errors.Is(err, io.EOF), errors.Is(err, shmem.ErrLeft):
			return nil
		default:
			return fmt.Errorf("the front-end was dismissed: %w", err)
		}
	}
}

// forget stops all rings and gives the memory back.
func (d *Device) forget() error {
	for _, v := range d.vrings {
		v.gate.Lock()
		v.reset()
		v.gate.Unlock()
	}
	d.features, d.protocol, d.tracked, d.each = 0, 0, 0, 0
	return d.remap(mappings{}, false)
}

// remap replaces what is mapped. Rings that were started stop for it, and go on where they were once there is memory. What is not mapped any more
// is unmapped, also with an error. Where more memory may follow, a ring that is not in it waits.
func (d *Device) remap(next mappings, mayFollow bool) error {
	for _, v := range d.vrings {
		v.gate.Lock()
		v.stop()
		v.memory = nil
		v.gate.Unlock()
	}
	old := d.mapped
	d.mapped = next
	kept := map[*mapping]bool{}
	next.each(func(m *mapping) { kept[m] = true })
	var errs []error
	old.each(func(m *mapping) {
		if !kept[m] {
			errs = append(errs, m.unmap())
		}
	})
	memory, err := next.memory(d.features&logAll != 0)
	if errs = append(errs, err); memory == nil {
		return errors.Join(errs...)
	}
	for _, v := range d.vrings {
		v.gate.Lock()
		v.memory = memory
		if v.started {
			if err := v.start(); err != nil && !mayFollow {
				errs = append(errs, err)
			}
		}
		v.gate.Unlock()
	}
	return errors.Join(errs...)
}
