package export

import (
	"errors"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/jetstream"
)

// The bounds of what is published and not acknowledged yet. A record larger than
// the bytes goes alone.
const (
	maxInFlight      = 512
	maxInFlightBytes = 8 << 20
)

// The times of a shipper.
const (
	// ackWait is how long no acknowledgement of what is in flight may arrive before all of it is published again; it
	// doubles up to maxAckWait while nothing comes. A cluster needs some seconds to find a new leader.
	ackWait    = 2 * time.Second
	maxAckWait = 30 * time.Second
	// saveEvery bounds how much is published again after a kill, which JetStream then discards. A switch whose records come one by one writes
	// its state so often.
	saveEvery = 4 * time.Second
	// lookAgain bounds every wait, so that no lost event stops the shipper.
	lookAgain = time.Second
)

// maxRefusals is how often one record may be refused for what it is.
const maxRefusals = 8

// Shipper sends the records of a spool, in order, and says again what was not
// acknowledged.
type Shipper struct {
	spool  *Spool
	conn   interface{ Close() }
	listen func(subject string, most int, f func([]byte)) error
	out    *jetstream.Publisher
	limit  limits

	window     // belongs to run
	wake       chan struct{}
	stop       chan struct{}
	ended      chan struct{}
	grace      time.Duration // set before stop is closed
	saveFailed bool

	changed func(Status)

	mu        sync.Mutex // guards what the connection's goroutines report
	acks      []jetstream.Ack
	status    Status
	connected bool // there is a new connection
}

// limits are maxInFlight and maxInFlightBytes, smaller in tests.
type limits struct{ records, bytes int }

// Ship begins to send the records of a spool, and goes on until Stop. The error is
// a fault of the options: a server that is away is none. changed is called when the
// state has changed, and when the first attempt to connect fails; it must not wait, nor
// ask the shipper.
func Ship(spool *Spool, o jetstream.Options, changed func(Status)) (*Shipper, error) {
	return ship(spool, o, limits{maxInFlight, maxInFlightBytes}, changed)
}

func ship(spool *Spool, o jetstream.Options, l limits, changed func(Status)) (*Shipper, error) {
	s := &Shipper{
		spool: spool, limit: l, changed: changed,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		status: Status{State: Connecting, Since: time.Now()},
	}
	events := jetstream.Events{Up: s.up, Down: s.down, Fault: s.fault}
	conn, err := o.Dial(events.Options()...)
	if err != nil {
		return nil, err
	}
	if s.out, err = jetstream.NewPublisher(conn, spool.secret, s.acked); err != nil {
		conn.Close()
		return nil, err
	}
	s.conn = conn
	s.listen = func(subject string, most int, f func([]byte)) error { return jetstream.Listen(conn, subject, most, f) }
	go s.run()
	return s, nil
}

// Stop ends the shipper: once all is sent, after the grace, or at once if it is not
// connected. What is left stays in the spool.
func (s *Shipper) Stop(grace time.Duration) error {
	s.grace = grace
	close(s.stop)
	<-s.ended
	return s.spool.save()
}

// acked, up, down and fault are called by the connection.

func (s *Shipper) acked(a jetstream.Ack) {
	s.mu.Lock()
	s.acks = append(s.acks, a)
	s.mu.Unlock()
	s.nudge()
}

func (s *Shipper) nudge() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run is the shipper's goroutine.
func (s *Shipper) run() {
	defer close(s.ended)
	defer s.conn.Close()
	defer func() { s.spool.putBack(s.left()) }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var end time.Time // once stopped
	stop := s.stop
	for {
		now := time.Now()
		s.takeAcks(now)
		s.publish(now)
		s.keepState(now)
		if !end.IsZero() && (s.idle() || now.After(end) || s.Status().State != Connected) {
			return
		}
		timer.Reset(s.pause(now))
		select {
		case <-stop:
			stop, end = nil, time.Now().Add(s.grace)
		case <-s.wake:
		case <-s.spool.more:
		case <-timer.C:
		}
	}
}

// idle reports whether nothing is in flight and nothing waits.
func (s *Shipper) idle() bool {
	if len(s.flights) != 0 {
		return false
	}
	for _, c := range s.spool.Counts() {
		if c.Waiting.Records != 0 {
			return false
		}
	}
	return true
}

// keepState saves how far all is settled.
func (s *Shipper) keepState(now time.Time) {
	if now.Sub(s.saved) < saveEvery {
		return
	}
	s.saved = now
	err := s.spool.save()
	if err != nil && !s.saveFailed {
		s.fault(err)
	}
	s.saveFailed = err != nil
}

// takeAcks takes what servers said, and settles what is at the window's head.
func (s *Shipper) takeAcks(now time.Time) {
	s.mu.Lock()
	acks := s.acks
	s.acks = nil
	if s.connected {
		s.connected, s.hold = false, time.Time{}
	}
	s.mu.Unlock()
	for _, a := range acks {
		s.takeAck(a, now)
	}
	for len(s.flights) > 0 && s.flights[0].settled {
		f := s.pop()
		s.spool.settle(&f.shipment, f.reason)
	}
}

func (s *Shipper) takeAck(a jetstream.Ack, now time.Time) {
	f := s.find(a.Number)
	if f == nil || f.settled {
		return // it was acknowledged before
	}
	switch {
	case a.Err == nil:
		f.settled = true
		s.heard(now)
		s.count(func(c *Status) {
			c.Acknowledged++
			if a.Duplicate {
				c.Duplicates++
			}
		})
		return
	case errors.Is(a.Err, jetstream.ErrTooLarge):
		f.settled, f.reason = true, DropTooLarge
	case errors.Is(a.Err, jetstream.ErrDisconnected):
		f.due = true // it may be lost; it is published again as soon as there is a connection
		return
	case errors.Is(a.Err, jetstream.ErrRefused):
		if f.refusals++; f.refusals >= maxRefusals {
			f.settled, f.reason = true, DropRefused
		}
	}
	s.fault(a.Err)
	if !f.settled {
		f.due = true
		s.back(now)
	}
}

// publish sends what is due again, and then as much of what waits as may be in
// flight.
func (s *Shipper) publish(now time.Time) {
	if s.Status().State != Connected || now.Before(s.hold) {
		return
	}
	if len(s.flights) == 0 {
		s.faults = 0 // no server is left to try
	}
	s.overdue(now)
	for i := range s.flights {
		if f := &s.flights[i]; f.due && (!s.send(f, now) || s.faults > 0) {
			return
		}
	}
	for s.faults == 0 && len(s.flights) < s.limit.records && s.bytes < s.limit.bytes {
		taken, err := s.spool.take()
		if err != nil {
			s.fault(err)
			continue // what could not be read is gone, so this ends
		}
		if len(taken) == 0 {
			return
		}
		if len(s.flights) == 0 {
			s.heardAt = now
		}
		first := len(s.flights)
		for _, x := range taken {
			s.push(x)
		}
		for i := first; i < len(s.flights); i++ {
			if !s.send(&s.flights[i], now) {
				return
			}
		}
	}
}

// send publishes a record. It returns false if the connection takes none now.
func (s *Shipper) send(f *flight, now time.Time) bool {
	err := s.out.Publish(f.number, &f.header, f.encoded)
	if errors.Is(err, jetstream.ErrTooLarge) {
		f.settled, f.due, f.reason = true, false, DropTooLarge
		s.fault(err)
		s.nudge()
		return true
	}
	if err != nil {
		if !errors.Is(err, jetstream.ErrDisconnected) { // then there was a reason for that
			s.fault(err)
		}
		s.back(now)
		return false
	}
	again := f.published
	f.due, f.published, f.sentAt = false, true, now
	s.count(func(c *Status) {
		c.Published++
		if again {
			c.Retried++
		}
	})
	return true
}
