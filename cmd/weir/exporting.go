package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline"
	"github.com/weirswitch/weir/telemetry/export"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// exporting is the record path of one switch: its exporter, the spool to which
// that writes, and the shipper that empties the spool.
type exporting struct {
	*export.Exporter
	spool *export.Spool // nil: records are not kept
	id    uint32
	name  string
	log   *zap.Logger

	turning sync.Mutex // one beginning or end of sending at a time
	ended   bool       // guarded by turning

	mu      sync.Mutex
	shipper *export.Shipper // nil: records stay in the spool
}

// newExporting joins the stages that measure, and other sources, to the spool, if one is configured.
func newExporting(c export.Config, sw config.Switch, chain []pipeline.Named, sources ...export.Source) (*exporting, error) {
	for _, n := range chain {
		if s, ok := n.Module.(export.Source); ok {
			sources = append(sources, s)
		}
	}
	e := &exporting{id: sw.ID, name: sw.Name, log: zap.NewNop()}
	var sink export.Sink // nil, not a nil *Spool in an interface
	if c.Spool != "" {
		var err error
		if e.spool, err = export.OpenSpool(c, sw.Name); err != nil {
			return nil, err
		}
		sink = e.spool
	}
	e.Exporter = export.New(sw.ID, sw.Name, sw.Hash, sources, sink)
	return e, nil
}

// sendGrace is how long the end of a switch may wait for what is not sent yet.
const sendGrace = 3 * time.Second

// start polls in a goroutine of its own, and begins to send. The function that it
// returns ends the polling, collects what the workers, which have ended by then,
// left, sends what it can of it, and closes the spool.
func (e *exporting) start(c export.Config) (stop func() error) {
	if err := e.send(c); err != nil {
		// The files were good when the switch was set up; a reload may mend it.
		e.log.Error("records are not sent", zap.Error(err))
	}
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
	e.turning.Lock()
	defer e.turning.Unlock()
	e.ended = true
	return errors.Join(e.stopSending(sendGrace), e.spool.Close())
}

// checkSending reports what would keep records from being sent, by key.
func checkSending(c export.Config) error {
	if len(c.Collector) == 0 {
		return nil
	}
	o := c.Options("")
	err := o.CheckFiles()
	if err == nil {
		return nil
	}
	var errs []error
	for _, err := range unjoin(err) {
		errs = append(errs, fmt.Errorf("telemetry.%w", err))
	}
	return errors.Join(errs...)
}

// send sends the records to the collector, if there is one, and no longer to an
// earlier one. What was in flight to that is sent again.
func (e *exporting) send(c export.Config) error {
	e.turning.Lock()
	defer e.turning.Unlock()
	if e.spool == nil || e.ended {
		return nil
	}
	err := e.stopSending(0)
	e.spool.SetBound(c.SpoolBytes)
	if len(c.Collector) == 0 {
		return err
	}
	o := c.Options(e.name)
	o.Inbox = jetstream.Acks(e.id)
	shipper, shipErr := export.Ship(e.spool, o, e.logSending)
	if shipErr != nil {
		return errors.Join(err, shipErr)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shipper = shipper
	return err
}

// stopSending ends the shipper. The caller has turning.
func (e *exporting) stopSending(grace time.Duration) error {
	e.mu.Lock()
	shipper := e.shipper
	e.mu.Unlock()
	if shipper == nil {
		return nil
	}
	err := shipper.Stop(grace)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shipper = nil
	return err
}

func (e *exporting) logSending(s export.Status) {
	if s.State == export.Connected {
		e.log.Info("records are sent", zap.String("server", s.Server))
		return
	}
	e.log.Warn("records wait in the spool", zap.String("reason", s.LastError))
}

// sendingOff is the state without a collector.
const sendingOff = "off"

// sending is the status of the shipper.
func (e *exporting) sending() export.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.shipper == nil {
		return export.Status{State: sendingOff}
	}
	return e.shipper.Status()
}
