package ipfix

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/query"
)

// Options are what an exporter needs beside its configuration.
type Options struct {
	// Ask answers questions, as query.Engine.Ask does.
	Ask func(context.Context, *query.Question) (any, error)
	// Clock reads the switches' clock (CLOCK_TAI) and UTC since 1970 at one moment, in ns.
	Clock func() (tai, utc int64)
	// Fault is called with what could not be asked or sent; nil: it is dropped.
	Fault func(error)
}

// Exporter asks for the heavy flows of one window after the other, and exports them.
type Exporter struct {
	config  Config
	options Options
	length  int64 // of a window, in ns: a power of two

	mu      sync.Mutex // guards the session
	session *session
	missed  uint64
}

// New returns an exporter of a configuration with a target.
func New(c Config, o Options) (*Exporter, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("ipfix: %w", err)
	}
	s, err := newSession(c)
	if err != nil {
		return nil, fmt.Errorf("ipfix: target: %w", err)
	}
	return &Exporter{config: c, options: o, session: s, length: 1 << bits.Len64(uint64(c.Interval-1))}, nil
}

// Window is the length of the windows.
func (e *Exporter) Window() time.Duration { return time.Duration(e.length) }

// Counters returns what became of flows so far, and how many windows were left out since
// exporting the ones before took too long.
func (e *Exporter) Counters() (c Counters, missedWindows uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session.counts, e.missed
}

// Run exports until ctx ends: each window once it is over and Delay has passed. It returns behind
// the end of the session.
func (e *Exporter) Run(ctx context.Context) {
	defer e.Close()
	tai, _ := e.options.Clock()
	for next := tai &^ (e.length - 1); ; next += e.length {
		tai, _ = e.options.Clock()
		due := next + e.length + int64(e.config.Delay)
		if late := (tai - due) / e.length; late > 0 {
			next, due = next+late*e.length, due+late*e.length
			e.mu.Lock()
			e.missed += uint64(late)
			e.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(due - tai)):
		}
		if err := e.Export(ctx, next, next+e.length); err != nil && ctx.Err() == nil && e.options.Fault != nil {
			e.options.Fault(err)
		}
	}
}

// Close ends the session.
func (e *Exporter) Close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session.close()
}

// Export exports the heavy flows of one window, in ns of CLOCK_TAI: those that are heavy in packets or in
// bytes. A window without records has none.
func (e *Exporter) Export(ctx context.Context, from, to int64) error {
	var flows []Flow
	at := map[query.Key]int{}
	confidence := 0.0
	for _, unit := range []string{"packets", "bytes"} {
		h, err := e.ask(ctx, unit, from, to)
		if errors.Is(err, query.ErrNoRecords) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the heavy flows to export: %w", err)
		}
		confidence = h.Confidence
		for i := range h.Flows {
			f := &h.Flows[i]
			n, known := at[f.Key]
			if !known {
				n = len(flows)
				at[f.Key] = n
				flows = append(flows, Flow{Key: f.Key})
			}
			if h.Unit == "bytes" {
				flows[n].Bytes = &f.Bounded
			} else {
				flows[n].Packets = &f.Bounded
			}
		}
	}
	// Records of a template next to each other share a set.
	slices.SortStableFunc(flows, func(a, b Flow) int {
		x, _ := templateOf(&a)
		y, _ := templateOf(&b)
		return int(x) - int(y)
	})
	tai, utc := e.options.Clock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.session.send(ctx, time.Unix(0, utc), flows, Window{Start: from - tai + utc, End: to - tai + utc, Confidence: confidence})
}

func (e *Exporter) ask(ctx context.Context, unit string, from, to int64) (*query.HeavyHitters, error) {
	answer, err := e.options.Ask(ctx, &query.Question{
		Kind: query.KindHeavyHitters, Unit: unit, Theta: e.config.Theta, Limit: query.MaxLimit, Start: from, End: to,
	})
	if err != nil {
		return nil, err
	}
	h, ok := answer.(*query.HeavyHitters)
	if !ok {
		return nil, fmt.Errorf("an answer of type %T", answer)
	}
	return h, nil
}
