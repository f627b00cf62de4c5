package export

import "time"

// State is what a shipper does.
type State string

// The states.
const (
	Connecting State = "connecting" // no server answers
	Connected  State = "connected"
	Off        State = "off" // no collector is configured
)

// Status is what a shipper says of itself. Times are those of the wall clock.
type Status struct {
	State    State
	Server   string    // to which it is connected, "" if it is not
	Since    time.Time // of the state
	Connects uint64    // how often it connected

	Published    uint64 // records, each time
	Acknowledged uint64
	Retried      uint64 // published again
	Duplicates   uint64 // of the acknowledged ones: JetStream had them already

	LastError   string // "": there was none; never a secret
	LastErrorAt time.Time
}

// after returns a status with the counts of an earlier one added, and its last error where there was none since.
func (s Status) after(past Status) Status {
	s.Connects += past.Connects
	s.Published += past.Published
	s.Acknowledged += past.Acknowledged
	s.Retried += past.Retried
	s.Duplicates += past.Duplicates
	if s.LastError == "" {
		s.LastError, s.LastErrorAt = past.LastError, past.LastErrorAt
	}
	return s
}

// Status returns the shipper's status.
func (s *Shipper) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Shipper) count(f func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *Shipper) up(server string) {
	s.turn(func(c *Status) {
		c.State, c.Server, c.Since = Connected, server, time.Now()
		c.Connects++
		s.connected = true
	})
}

func (s *Shipper) down(err error) {
	s.turn(func(c *Status) {
		c.State, c.Server, c.Since = Connecting, "", time.Now()
		c.LastError, c.LastErrorAt = err.Error(), c.Since
	})
}

// turn changes the state.
func (s *Shipper) turn(f func(*Status)) {
	s.mu.Lock()
	f(&s.status)
	now := s.status
	s.mu.Unlock()
	s.changed(now)
	s.nudge()
}

func (s *Shipper) fault(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	first := s.status.LastError == "" && s.status.Connects == 0
	s.status.LastError, s.status.LastErrorAt = err.Error(), time.Now()
	now := s.status
	s.mu.Unlock()
	if first {
		s.changed(now)
	}
}
