package main

import (
	"sync"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/export"
)

// exporting is the record path of one switch: its exporter and where that
// writes.
type exporting struct {
	*export.Exporter
	spool *export.Spool // nil: records are not kept
}

// newExporting joins the stages that measure, and other sources, to the spool, if one is configured.
func newExporting(c export.Config, sw config.Switch, chain []pipeline.Named, sources ...export.Source) (*exporting, error) {
	for _, n := range chain {
		if s, ok := n.Module.(export.Source); ok {
			sources = append(sources, s)
		}
	}
	e := &exporting{}
	var sink export.Sink // nil, not a nil *Spool in an interface
	if c.Spool != "" {
		var err error
		if e.spool, err = export.OpenSpool(c, sw.Name); err != nil {
			return nil, err
		}
		sink = e.spool
	}
	e.Exporter = export.New(sw.ID, sw.Name, sources, sink)
	return e, nil
}

// start polls in a goroutine of its own. The function that it returns ends that,
// collects what the workers, which have ended by then, left, and closes the spool.
func (e *exporting) start() (stop func() error) {
	end := make(chan struct{})
	var polling sync.WaitGroup
	polling.Go(func() { e.Run(end, taiNow) })
	return func() error {
		close(end)
		polling.Wait()
		return e.finish(taiNow())
	}
}

// finish collects what is left and closes the spool.
func (e *exporting) finish(now int64) error {
	e.Finish(now)
	if e.spool == nil {
		return nil
	}
	return e.spool.Close()
}
