package memif

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/weirswitch/weir/dataplane/shmem"
)

// Config is one interface, for one peer at a time.
type Config struct {
	Socket string // path of the Unix socket
	Server bool   // listen on it (master); else connect to it (slave)
	ID     uint32 // of the interface, unique among the servers of a socket
	Secret string // that the client must know, up to SecretSize bytes; empty: none
	Queues int    // pairs of rings
	// RingSize is how many descriptors each ring has, a power of two, 2 to 16384. The client decides.
	RingSize int
	Name     string // for the peer's reports
}

// Status is what a device reports.
type Status struct {
	Connected bool
	Peer      string // the peer's names of itself and of its interface
	Rings     int    // that run
	RingSize  int
	// Error is why no peer is connected, or why the last one was dismissed.
	Error string
	// Connections counts the peers that were connected.
	Connections uint64
}

// Device is an interface. It serves peers, one after the other, until Close.
type Device struct {
	config   Config
	receive  []*Queue
	transmit []*Queue
	stop     chan struct{}
	done     sync.WaitGroup
	broken   chan error // a worker found a ring broken; holds one
	listener *listener  // of a server
	// turn is had by all goroutines that speak with the peer, but while they wait for it.
	turn     *shmem.Turn
	begin    sync.Once
	entering bool     // another process has the device still: see Adopt
	session  *session // with the peer; for who has the turn, or has frozen it
	entered  *session // the one that another process had, from Enter to Begin

	mu     sync.Mutex // guards what follows
	closed bool
	conn   *net.UnixConn
	status Status
}

// The time between two tries to connect grows from the first to the last.
const (
	firstWait = 50 * time.Millisecond
	lastWait  = time.Second
	// endedWait is before the first of them where a connection has ended: servers of DPDK (22.11) crash where a client comes while they close.
	endedWait = 250 * time.Millisecond
)

// New begins to listen or to connect. A peer may come at any time later.
func New(c Config) (*Device, error) {
	if len(c.Secret) > SecretSize {
		return nil, fmt.Errorf("a secret of %d bytes: at most %d", len(c.Secret), SecretSize)
	}
	d, err := makeDevice(c)
	if err != nil {
		return nil, err
	}
	if c.Server {
		if err := listen(d); err != nil {
			return nil, errors.Join(err, d.Close())
		}
	}
	d.Begin()
	return d, nil
}

func makeDevice(c Config) (*Device, error) {
	d := &Device{config: c, stop: make(chan struct{}), broken: make(chan error, 1), turn: shmem.NewTurn()}
	for i := range c.Queues {
		for _, q := range []struct {
			list *[]*Queue
			name string
		}{{&d.receive, "received"}, {&d.transmit, "sent"}} {
			queue, err := newQueue(d, fmt.Sprintf("ring %d of packets that are %s", i, q.name))
			if err != nil {
				return nil, errors.Join(err, d.Close())
			}
			*q.list = append(*q.list, queue)
		}
	}
	return d, nil
}

// Receive is a queue of packets from the peer, Transmit one of packets to it.
func (d *Device) Receive(queue int) *Queue { return d.receive[queue] }

// Transmit is a queue of packets to the peer.
func (d *Device) Transmit(queue int) *Queue { return d.transmit[queue] }

// Status may be called at any time.
func (d *Device) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.status
	for i := range d.receive {
		for _, q := range []*Queue{d.receive[i], d.transmit[i]} {
			if q.Running() {
				s.Rings++
			}
		}
	}
	return s
}

// Close ends the connection and the rings. No worker uses these any more. What another process has of the device stays as it is.
func (d *Device) Close() error {
	d.mu.Lock()
	d.closed = true
	close(d.stop)
	conn := d.conn
	d.mu.Unlock()
	var err error
	if d.listener != nil {
		err = d.listener.leave(d)
	}
	if conn != nil && !d.entering && !d.turn.Left() {
		farewell(conn, errors.New("the port was closed"))
		shmem.HangUp(conn)
	}
	d.done.Wait()
	if d.entering && d.session != nil {
		err = errors.Join(err, d.session.conn.Close(), d.session.forget())
	}
	for i := range d.receive {
		d.receive[i].close()
	}
	for i := range d.transmit {
		d.transmit[i].close()
	}
	return err
}

// fail ends the connection, from a worker.
func (d *Device) fail(why error) {
	select {
	case d.broken <- why:
	default:
	}
}

func (d *Device) runClient() {
	defer d.turn.Give()
	d.turn.Take()
	wait := firstWait
	if d.session != nil { // with the peer that another process had
		d.serve(d.session, nil)
		d.pause(endedWait)
	}
	for !d.stopped() {
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: d.config.Socket, Net: "unixpacket"})
		if err != nil {
			d.note(fmt.Errorf("connect to the server: %w", err))
		} else if d.attach(c) != nil {
			shmem.Part(c, nil)
		} else {
			before := d.Status().Connections
			d.serve(&session{device: d, conn: c}, func(s *session) error { return s.introduce() })
			if d.Status().Connections != before {
				wait = firstWait
				d.pause(endedWait)
				continue
			}
		}
		d.pause(wait)
		wait = min(2*wait, lastWait)
	}
}

// pause waits without the turn, which the caller has.
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

// attach makes a connection the device's, if it has none. serve follows, which closes it.
func (d *Device) attach(c *net.UnixConn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return errors.New("the port was closed")
	case d.conn != nil:
		return fmt.Errorf("interface %d has a peer already", d.config.ID)
	}
	d.conn = c
	d.done.Add(1)
	return nil
}

// serve speaks with the peer of a connection that was attached, until one of both ends it. Without begin they are connected. The caller has the turn.
func (d *Device) serve(s *session, begin func(*session) error) {
	defer d.done.Done()
	c := s.conn
	d.session = s
	if begin != nil {
		select {
		case <-d.broken: // of the one before
		default:
		}
	}
	var why error
	ended := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case why = <-d.broken:
			if d.turn.Take() {
				farewell(c, why)
				shmem.HangUp(c)
			}
			d.turn.Give()
		case <-ended:
		}
	})
	var err error
	if begin != nil {
		err = begin(s)
	}
	if err == nil {
		err = s.stay()
	}
	d.session = nil
	theirs := d.turn.Left() && s.joined // the connection is the other process's
	d.mu.Lock()
	d.status = Status{Connections: d.status.Connections}
	d.mu.Unlock()
	close(ended)
	d.turn.Give() // the other goroutine may wait for a device that is frozen
	watch.Wait()
	d.turn.Take()
	if why != nil {
		err = why
	}
	switch {
	case d.stopped():
		err = nil // by Close
	case errors.Is(err, io.EOF):
		err = errors.New("the peer went away")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the peer said nothing for %v, and was dismissed", patience)
	case err != nil && why == nil && !errors.Is(err, errDisconnected):
		farewell(c, err)
		err = fmt.Errorf("the peer was dismissed: %w", err)
	}
	if !theirs {
		shmem.HangUp(c)
	}
	err = errors.Join(err, s.forget())
	d.mu.Lock()
	if err != nil {
		d.status.Error = err.Error()
	}
	d.mu.Unlock()
	gone := shmem.Part(c, s.m.files)
	d.turn.Give()
	select { // there is no next peer before
	case <-gone:
	case <-d.stop:
	}
	d.turn.Take()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.conn = nil
}

// stopped reports whether the device's goroutines are to end: it was closed, or another process has it.
func (d *Device) stopped() bool {
	select {
	case <-d.stop:
		return true
	default:
		return d.turn.Left()
	}
}

// farewell tells a peer why it is disconnected, as well as that works.
func farewell(c *net.UnixConn, why error) {
	m := newMessage(disconnect)
	m.putText(6, reasonSize, why.Error())
	_ = m.send(c, -1)
}
