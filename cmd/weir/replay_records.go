package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirswitch/weir/config"
)

// replayRecords are the record paths of a replay: of the one switch, or of each
// of a row.
type replayRecords []*exporting

// openRecords opens them. The switches of a row collect by themselves, as each
// has a clock of its own.
func (p *replayPlan) openRecords() (replayRecords, error) {
	if p.chained == nil {
		e, err := newExporting(p.telemetry, config.Switch{Name: p.name, ID: p.id}, p.chain)
		if err != nil {
			return nil, err
		}
		return replayRecords{e}, nil
	}
	var r replayRecords
	network := p.chained.network
	for i := range p.chained.last + 1 {
		e, err := newExporting(p.telemetry, config.Switch{Name: fmt.Sprintf("s%d", i+1), ID: uint32(i + 1)}, network.Chain(i))
		if err != nil {
			return nil, errors.Join(err, r.finish())
		}
		r = append(r, e)
		network.OnTick(i, func(now int64) { e.Poll(now) })
	}
	return r, nil
}

// poll is what the replay's own worker calls behind a round of its stages' work
// by the clock.
func (r replayRecords) poll(now int64) {
	for _, e := range r {
		e.Poll(now)
	}
}

// finish collects what is left, behind the workers' end, and closes the spools.
func (r replayRecords) finish() error {
	var errs []error
	for _, e := range r {
		errs = append(errs, e.finish(math.MaxInt64))
	}
	return errors.Join(errs...)
}
