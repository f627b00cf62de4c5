package main

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/local"
	"github.com/weirswitch/weir/telemetry/record"
)

// replayRecords are the record paths of a replay: of the one switch, or of each
// of a row.
type replayRecords []*replayPath

// replayPath is the record path of one switch, and the memory for its digests.
type replayPath struct {
	*export.Path
	digests *local.Digests // nil: none
}

// openRecords opens them. The switches of a row collect by themselves, as each
// has its own clock.
func (p *replayPlan) openRecords() (replayRecords, error) {
	if p.chained == nil {
		e, err := newRecordPath(p.telemetry, p.id, p.name, p.hash, p.chain)
		if err != nil {
			return nil, err
		}
		return replayRecords{e}, nil
	}
	var r replayRecords
	network := p.chained.network
	for i := range p.chained.last + 1 {
		e, err := newRecordPath(p.telemetry, uint32(i+1), fmt.Sprintf("s%d", i+1), p.hash, network.Chain(i))
		if err != nil {
			return nil, errors.Join(err, r.finish())
		}
		r = append(r, e)
		network.OnTick(i, func(now int64) { e.Poll(now) })
	}
	return r, nil
}

// newRecordPath joins the stages that measure to a spool, and to memory for digests.
func newRecordPath(c export.Config, id uint32, name string, family hash.Family, chain []pipeline.Named) (*replayPath, error) {
	var sources []export.Source
	for _, n := range chain {
		if s, ok := n.Module.(export.Source); ok {
			sources = append(sources, s)
		}
	}
	digests, err := node.NewDigests(c, chain)
	if err != nil {
		return nil, err
	}
	path, err := export.NewPath(c, id, name, family, digests.Local(), nil, sources...)
	return &replayPath{path, digests}, err
}

// poll is what the replay's own worker calls behind a round of its stages' work
// by the clock.
func (r replayRecords) poll(now int64) {
	for _, e := range r {
		e.Poll(now)
	}
}

// finish collects what is left, behind the workers' end, closes the spools, and
// reports missing records: nothing else counts them in a replay.
func (r replayRecords) finish() error {
	var errs []error
	for _, e := range r {
		errs = append(errs, e.Close(math.MaxInt64), complete(e))
	}
	return errors.Join(errs...)
}

// complete reports what a finished record path has lost.
func complete(e *replayPath) error {
	if e.Spool == nil {
		return nil
	}
	var lost uint64
	for k := range 256 {
		lost += e.Counters(record.Kind(k)).Lost
	}
	switch dropped := e.Spool.Dropped(); {
	case lost != 0:
		return fmt.Errorf("%d records could not be written: is the disk full?", lost)
	case dropped != 0:
		return fmt.Errorf("the first %d files of records went, to keep within telemetry.spool_bytes: raise it in a file given with -c", dropped)
	}
	return nil
}
