package replay

import (
	"errors"
	"fmt"
	"math"

	"github.com/weirswitch/weir/node"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/local"
	"github.com/weirswitch/weir/telemetry/record"
)

// recordPath is the record path of one switch, and the memory for its digests.
type recordPath struct {
	*export.Path
	digests *local.Digests // nil: none
}

// openRecords opens the record path of each switch. The switches of a row poll theirs themselves, as each has its own
// clock.
func (r *Replay) openRecords() error {
	sw := &r.config.Switch.Switch
	if r.row == nil {
		return r.openPath(sw.ID, sw.Name, r.chain)
	}
	for i := range r.config.Chain {
		if err := r.openPath(uint32(i+1), fmt.Sprintf("s%d", i+1), r.row.network.Chain(i)); err != nil {
			return err
		}
		r.row.network.OnTick(i, func(now int64) { r.records[i].Poll(now) })
	}
	return nil
}

func (r *Replay) openPath(id uint32, name string, chain []pipeline.Named) error {
	c := r.config.Switch.Telemetry
	c.Spool = r.config.Records // not the switch's own, to which a running one may be writing
	c.Budget = r.config.Budget // a capture's time is not that of the switch
	var sources []export.Source
	for _, n := range chain {
		if s, ok := n.Module.(export.Source); ok {
			sources = append(sources, s)
		}
	}
	digests, err := node.NewDigests(c, chain)
	if err != nil {
		return err
	}
	path, err := export.NewPath(c, id, name, r.config.Switch.Switch.Hash, digests.Local(), nil, sources...)
	if err != nil {
		return err
	}
	r.records = append(r.records, &recordPath{path, digests})
	return nil
}

// closeRecords takes what is left, behind the workers' end, closes the spools, and reports records that were lost,
// which no other counter shows.
func (r *Replay) closeRecords() error {
	if r.recordsClosed {
		return nil
	}
	r.recordsClosed = true
	var errs []error
	for _, p := range r.records {
		errs = append(errs, p.Close(math.MaxInt64))
		if p.Spool == nil {
			continue
		}
		var lost uint64
		for k := range 256 {
			lost += p.Counters(record.Kind(k)).Lost
		}
		switch dropped := p.Spool.Dropped(); {
		case lost != 0:
			errs = append(errs, fmt.Errorf("%d records could not be written: is the disk full?", lost))
		case dropped != 0:
			errs = append(errs, fmt.Errorf("the first %d files of records went, to keep within telemetry.spool_bytes: raise it in the configuration", dropped))
		}
	}
	return errors.Join(errs...)
}
