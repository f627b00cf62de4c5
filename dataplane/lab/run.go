package lab

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/weirswitch/weir/dataplane/lab/relay"
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
	// PlanFaults are switches whose plans of PINT differ under one id.
	PlanFaults []string `json:"plan_faults,omitempty"`
	// Answers are what the records tell beside what the far ends counted; nil: nobody asked.
	Answers Answers `json:"answers,omitempty"`
	// Page is the URL at which the collector's page was; empty without a collector.
	Page string `json:"page,omitempty"`

	config *Config // nil in an outcome that is no run's
}

// Evidence is what a run has left once its switches have ended, for whoever can read records.
type Evidence struct {
	Config  *Config
	Records string      // folder of the switches' records, and of what the lab knows; with a collector that has the records
	Truth   []LoadCount // of the loads of kind "flows"
	Relays  []relay.Truth
	// Collector is the unix socket of the lab's collector, which still runs; empty: there is none.
	Collector string
	Switches  []SwitchEnd
	Decoded   []Decoded // by PINT's sinks
	// Began and Ended are when the first load began and the last one ended.
	Began, Ended time.Time
}

// Answers are what was concluded from the evidence. As JSON they are part of the outcome.
type Answers interface {
	OK() bool // all answers are within their bounds
	WriteText(w io.Writer) error
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
	out := &Outcome{Name: c.Name, Page: l.state.pageURL(), config: c}
	l.rest(ctx)
	trafficBegan := time.Now()
	out.Traffic = l.loads(ctx)
	trafficEnded := time.Now()
	l.rest(ctx)
	l.progress.Step("counters settle")
	err = ctx.Err()
	if err == nil {
		err = l.settle(ctx)
	}
	kernel, readErr := l.readCounters()
	l.progress.Step("the switches end")
	ends, stopErr := l.stopSwitches()
	truth, writeErr := l.writeTruth(out.Traffic)
	relays, relayErr := l.relayTruths()
	err = errors.Join(err, readErr, stopErr, writeErr, relayErr)
	out.Switches, out.Decoded, out.PlanFaults = ends, c.decoded(ends), planFaults(ends)
	if err == nil && o.Examine != nil && l.records != "" {
		l.progress.Step("the records are asked")
		e := &Evidence{
			Config: c, Records: l.records, Truth: truth, Relays: relays,
			Switches: ends, Decoded: out.Decoded, Began: trafficBegan, Ended: trafficEnded,
		}
		if c.Collector != nil {
			e.Collector = collectorSocket(l.dir.path)
		}
		out.Answers, err = o.Examine(ctx, e)
	}
	l.progress.Step("taking the lab down")
	err = errors.Join(err, l.stopCollector(), l.remove())
	out.Account = account(c, kernel, ends)
	out.Account.checkRelays(c, out.Traffic, relays)
	out.OK = err == nil && out.Account.OK() && (out.Answers == nil || out.Answers.OK())
	out.OK = out.OK && len(out.PlanFaults) == 0
	for i := range out.Decoded {
		out.OK = out.OK && out.Decoded[i].Wrong == 0
	}
	for i := range out.Traffic {
		out.OK = out.OK && out.Traffic[i].okIn(c)
	}
	out.Seconds = time.Since(began).Seconds()
	return out, err
}

// rest lets nothing be sent for a while.
func (l *Lab) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(l.config.Quiet):
	}
}
