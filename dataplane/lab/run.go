package lab

import (
	"context"
	"errors"
	"time"
)

// Outcome is everything that a run has shown.
type Outcome struct {
	Name     string      `json:"name"`
	OK       bool        `json:"ok"` // nothing was lost or wrong
	Seconds  float64     `json:"seconds"`
	Traffic  []Result    `json:"traffic"`
	Switches []SwitchEnd `json:"switches"`
	Account  Account     `json:"account"`
	// Decoded is what sinks of PINT say, beside the truth; by host.
	Decoded []Decoded `json:"decoded,omitempty"`
}

// Run brings the lab up, carries out its traffic, and takes it down. The outcome says what became
// of the packets; the error says that the lab itself did not work. Nothing of it remains in either case, also
// when ctx ends early.
func Run(ctx context.Context, c *Config, o Options) (*Outcome, error) {
	began := time.Now()
	l, err := Up(ctx, c, o)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Name: c.Name}
	for _, t := range c.Traffic {
		if ctx.Err() != nil {
			break
		}
		out.Traffic = append(out.Traffic, l.Traffic(ctx, t))
	}
	l.progress.Step("counters settle")
	err = ctx.Err()
	if err == nil {
		err = l.settle(ctx)
	}
	kernel, readErr := l.readCounters()
	l.progress.Step("taking the lab down")
	ends, stopErr := l.stopSwitches()
	err = errors.Join(err, readErr, stopErr, l.remove())
	out.Switches = ends
	out.Account = account(c, kernel, ends)
	out.Decoded = c.decoded(ends)
	out.OK = err == nil && out.Account.OK()
	for i := range out.Decoded {
		out.OK = out.OK && out.Decoded[i].Wrong == 0
	}
	for i := range out.Traffic {
		out.OK = out.OK && out.Traffic[i].OK()
	}
	out.Seconds = time.Since(began).Seconds()
	return out, err
}
