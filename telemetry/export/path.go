package export

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirswitch/weir/telemetry/hash"
	"github.com/weirswitch/weir/telemetry/jetstream"
)

// Path is the record path of one switch: an exporter, the spool to which it writes, and
// the shipper that empties the spool. Configure, Sending and the counters may be called
// from any goroutine.
type Path struct {
	*Exporter
	Spool *Spool // nil: records are not kept

	id     uint32
	name   string
	notify func(Status)
	assign func([]byte) // nil: nothing takes assignments

	turning sync.Mutex // one start or stop of the shipper at a time
	ended   bool       // guarded by turning
	left    bool       // guarded by turning

	mu      sync.Mutex
	shipper *Shipper // nil: records stay in the spool
	past    Status   // the counts and the last error of the shippers before it
}

// NewPath opens the spool, if one is configured, and joins the sources to it, and to a local store, if there is one. notify, if
// set, is called when the connection to the collector comes or goes.
func NewPath(c Config, id uint32, name string, family hash.Family, local Local, notify func(Status), sources ...Source) (*Path, error) {
	p := &Path{id: id, name: name, notify: notify}
	if notify == nil {
		p.notify = func(Status) {}
	}
	var sink Sink // nil, not a nil *Spool in an interface
	if c.Spool != "" {
		var err error
		if p.Spool, err = OpenSpool(c, name); err != nil {
			return nil, err
		}
		sink = p.Spool
	}
	p.Exporter = New(id, name, family, sources, sink, local)
	p.SetBudget(c.Budget)
	return p, nil
}

// OnAssignments has f called with what the collector sends to this switch: at most jetstream.MaxAssignments
// bytes, by one goroutine at a time. It is to be called before Configure.
func (p *Path) OnAssignments(f func([]byte)) { p.assign = f }

// stopGrace is how long the end of a switch may wait for records that are not sent yet.
const stopGrace = 3 * time.Second

// Start polls the sources in a goroutine until stop is called. stop is for the time
// behind the workers' end: it collects what they left, sends what it can of it, and
// closes the spool.
func (p *Path) Start(clock func() int64) (stop func() error) {
	end := make(chan struct{})
	var polling sync.WaitGroup
	polling.Go(func() { p.Run(end, clock) })
	return func() error {
		close(end)
		polling.Wait()
		return p.Close(clock())
	}
}

// Close collects what is left and closes the spool.
func (p *Path) Close(now int64) error {
	p.Finish(now)
	if p.Spool == nil {
		return nil
	}
	p.turning.Lock()
	defer p.turning.Unlock()
	p.ended = true
	grace := stopGrace
	if p.left {
		grace = 0
	}
	return errors.Join(p.stopSending(grace), p.Spool.Close())
}

// Leave has Close leave what is not sent to another process, which opens the spool when it is closed.
func (p *Path) Leave() {
	p.turning.Lock()
	defer p.turning.Unlock()
	p.left = true
}

// Expect has the sources work for a spool that Open will open. It is to be called before packets flow.
func (p *Path) Expect() { p.Exporter.listen() }

// Open gives a path that was made without a spool the one of c, if that names one. It is to be called before Start, and before anything else
// uses the path.
func (p *Path) Open(c Config) error {
	if c.Spool == "" {
		return nil
	}
	spool, err := OpenSpool(c, p.name)
	if err != nil {
		return err
	}
	p.Spool = spool
	p.Exporter.spoolTo(spool)
	return nil
}

// CheckSending reports what would keep records from being sent, by key.
func (c *Config) CheckSending() error {
	if len(c.Collector) == 0 {
		return nil
	}
	o := c.Options("")
	err := o.CheckFiles()
	if err == nil {
		return nil
	}
	var errs []error
	for _, e := range err.(interface{ Unwrap() []error }).Unwrap() { // CheckFiles joins
		errs = append(errs, fmt.Errorf("telemetry.%w", e))
	}
	return errors.Join(errs...)
}

// Configure sends records to the collector that c names, and to no earlier one; what was in
// flight to that one is sent again. It also sets the budget and the spool's bound.
func (p *Path) Configure(c Config) error {
	p.turning.Lock()
	defer p.turning.Unlock()
	if p.Spool == nil || p.ended {
		return nil
	}
	err := p.stopSending(0)
	p.SetBudget(c.Budget)
	p.Spool.setBound(c.SpoolBytes)
	if len(c.Collector) == 0 {
		return err
	}
	o := c.Options(p.name)
	o.Inbox = jetstream.Acks(p.id)
	shipper, shipErr := Ship(p.Spool, o, p.notify)
	if shipErr != nil {
		return errors.Join(err, shipErr)
	}
	if p.assign != nil {
		err = errors.Join(err, shipper.listen(jetstream.Assignments(p.id), jetstream.MaxAssignments, p.assign))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shipper = shipper
	return err
}

// stopSending ends the shipper. The caller has turning.
func (p *Path) stopSending(grace time.Duration) error {
	p.mu.Lock()
	shipper := p.shipper
	p.mu.Unlock()
	if shipper == nil {
		return nil
	}
	err := shipper.Stop(grace)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.past = shipper.Status().after(p.past)
	p.shipper = nil
	return err
}

// Sending is the status of the shipper, Off without one. Its counts are those of all shippers that there were: a new collector or
// the switch's end does not set them back.
func (p *Path) Sending() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shipper == nil {
		now := p.past
		now.State, now.Server, now.Since = Off, "", time.Time{}
		return now
	}
	return p.shipper.Status().after(p.past)
}
