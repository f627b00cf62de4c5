package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/telemetry/record"
)

// replayRecords are the record paths of a replay: of the one switch, or of each
// of a row.
type replayRecords []*exporting

// openRecords opens them. The switches of a row collect by themselves, as each
// has a clock of its own.
func (p *replayPlan) openRecords() (replayRecords, error) {
	if p.chained == nil {
		e, err := newExporting(p.telemetry, config.Switch{Name: p.name, ID: p.id, Hash: p.hash}, p.chain)
		if err != nil {
			return nil, err
		}
		return replayRecords{e}, nil
	}
	var r replayRecords
	network := p.chained.network
	for i := range p.chained.last + 1 {
		e, err := newExporting(p.telemetry, config.Switch{Name: fmt.Sprintf("s%d", i+1), ID: uint32(i + 1), Hash: p.hash}, network.Chain(i))
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

// finish collects what is left, behind the workers' end, closes the spools, and
// reports records that are not there: a replay has nobody else who would count them.
func (r replayRecords) finish() error {
	var errs []error
	for _, e := range r {
		errs = append(errs, e.finish(math.MaxInt64), e.complete())
	}
	return errors.Join(errs...)
}

// complete reports what a finished record path has lost.
func (e *exporting) complete() error {
	if e.spool == nil {
		return nil
	}
	var lost uint64
	for k := range 256 {
		lost += e.Counters(record.Kind(k)).Lost
	}
	switch dropped := e.spool.Dropped(); {
	case lost != 0:
		return fmt.Errorf("%d records could not be written: is the disk full?", lost)
	case dropped != 0:
		return fmt.Errorf("the first %d files of records went, to keep within telemetry.spool_bytes: raise it in a file given with -c", dropped)
	}
	return nil
}
