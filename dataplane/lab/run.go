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
	// Answers are those of the collector or the records, compared with what the lab knows; nil: there are neither.
	Answers Answers `json:"answers,omitempty"`
	// Page is the URL at which the collector's page was; empty without a collector.
	Page string `json:"page,omitempty"`
	// Interrupted: the run was ended before all was sent, or asked; the outcome is of what there was until then.
	Interrupted bool `json:"interrupted,omitempty"`
	// Lingers: the page is still there.
	Lingers bool `json:"-"`

	config *Config // nil in an outcome that is no run's
}

// Evidence is what a run has left once its switches have ended, for a grader of the answers.
type Evidence struct {
	Config  *Config
	Records string      // folder of the switches' records, and of what the lab knows; with a collector that has the records
	Truth   []LoadCount // of the loads of kind "flows"
	Relays  []relay.Truth
	// Collector is the unix socket of the lab's collector, which still runs; empty: there is none.
	Collector string
	Page      string // URL of the collector's page
	Switches  []SwitchEnd
	// Step reports what the grader does next; nil: no progress is shown.
	Step func(format string, args ...any)
	// Begin starts a piece of the grader's work that takes a question for each flow, and returns what counts these; nil: no progress is shown.
	Begin func(what string, total int64) Meter
	// FlowsBegan and FlowsEnded are when the first load of kind "flows" began and the last one ended.
	FlowsBegan, FlowsEnded time.Time
}

// Answers are what was concluded from the evidence, or of it until the context ended. As JSON they are part of the outcome.
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
	kernel, err := l.work(ctx, out)
	l.progress.Step("the switches end")
	l.state.Ended = true
	saveErr := l.dir.save(l.state)
	ends, stopErr := l.stopSwitches()
	stopErr = errors.Join(saveErr, stopErr)
	late, lateErr := l.readCounters()
	truth, writeErr := l.writeTruth(out.Traffic)
	relays, relayErr := l.relayTruths()
	err = errors.Join(err, stopErr, lateErr, writeErr, relayErr)
	for i := range ends {
		ends[i].Late = l.waits.late(ends[i].Name, ends[i].Report)
	}
	out.Switches = ends
	out.Account = account(c, kernel, late, ends)
	out.Account.checkRelays(c, out.Traffic, relays)
	if err == nil && o.Examine != nil && l.records != "" {
		out.Answers, err = o.Examine(ctx, l.evidence(out, truth, relays))
	}
	out.Interrupted = ctx.Err() != nil && errors.Is(err, ctx.Err())
	out.judge(err)
	out.Seconds = time.Since(began).Seconds()
	if o.Linger != nil && err == nil && c.Collector != nil {
		o.Linger(ctx, out)
	}
	l.progress.Step("taking the lab down")
	stopErr = errors.Join(l.stopCollector(), l.remove())
	out.OK = out.OK && stopErr == nil
	return out, errors.Join(err, stopErr)
}

// work sends the traffic, and waits until all of it has arrived. The counters are the kernel's.
func (l *Lab) work(ctx context.Context, out *Outcome) (kernelCounters, error) {
	l.rest(ctx)
	out.Traffic = l.loads(ctx)
	l.rest(ctx)
	l.progress.Step("counters settle")
	err := ctx.Err()
	if err == nil {
		err = l.settle(ctx)
	}
	kernel, readErr := l.readCounters()
	return kernel, errors.Join(err, readErr)
}

// evidence is what the run has left so far.
func (l *Lab) evidence(out *Outcome, truth []LoadCount, relays []relay.Truth) *Evidence {
	e := &Evidence{
		Config: l.config, Records: l.records, Truth: truth, Relays: relays, Switches: out.Switches, Page: out.Page, Step: l.progress.Step, Begin: l.progress.Begin,
	}
	if l.config.Collector != nil {
		l.progress.Step("the collector is asked")
		e.Collector = collectorSocket(l.dir.path)
	}
	for i := range out.Traffic {
		r := &out.Traffic[i]
		if r.Kind != KindFlows {
			continue
		}
		if e.FlowsBegan.IsZero() || r.Began.Before(e.FlowsBegan) {
			e.FlowsBegan = r.Began
		}
		if r.Ended.After(e.FlowsEnded) {
			e.FlowsEnded = r.Ended
		}
	}
	return e
}

// judge says whether nothing was lost or wrong.
func (o *Outcome) judge(err error) {
	o.OK = err == nil && o.Account.OK() && (o.Answers == nil || o.Answers.OK())
	for i := range o.Traffic {
		o.OK = o.OK && o.Traffic[i].okIn(o.config)
	}
}

// rest lets nothing be sent for a while.
func (l *Lab) rest(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(l.config.Quiet):
	}
}
