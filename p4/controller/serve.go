package controller

import (
	"context"
	"errors"
	"time"

	"github.com/weirswitch/weir/p4/bmv2"
)

const (
	// tick is how often the control plane looks at the clock, if nothing holds it up.
	tick = 20 * time.Millisecond
	// LeastEpochBits is the shortest epoch that [Controller.Serve] writes schedules for: 2^27 ns, 134 ms. They are
	// there one epoch ahead, so a machine that is busy may hold the control plane up for as long.
	LeastEpochBits = 27
	// deathWait is how soon a process is known to have ended that has closed its connections.
	deathWait = time.Second
)

// Source is what a running switch sends its control plane: a [bmv2.Switch].
type Source interface {
	Learned(wait time.Duration) (bmv2.Learned, error)
	Expired() (bmv2.Expired, bool)
	Ended() <-chan struct{}
	Err() error
}

// Serve is the control plane's loop, until ctx ends. now is ns of CLOCK_TAI. If the switch ends before, the error
// says what it said last.
func (c *Controller) Serve(ctx context.Context, s Source, now func() int64) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.Ended():
			return s.Err()
		default:
		}
		err := c.step(s, now)
		if err == nil {
			continue
		}
		select { // A switch that ends closes its connections first, which is what a step finds.
		case <-s.Ended():
			return s.Err()
		case <-ctx.Done():
			return nil
		case <-time.After(deathWait):
			return err
		}
	}
}

// step takes in what the switch sends within a tick, and writes what the clock asks for.
func (c *Controller) step(s Source, now func() int64) error {
	l, err := s.Learned(tick)
	if err == nil {
		err = c.Learn(l)
	} else if errors.Is(err, bmv2.ErrQuiet) {
		err = nil
	}
	if err != nil {
		return err
	}
	for e, ok := s.Expired(); ok; e, ok = s.Expired() {
		if err := c.expire(e); err != nil {
			return err
		}
	}
	return c.Tick(uint64(now()))
}
