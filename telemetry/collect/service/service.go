package service

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	nats_js "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/archive"
	"github.com/weirswitch/weir/telemetry/collect/embed"
	"github.com/weirswitch/weir/telemetry/collect/set"
	"github.com/weirswitch/weir/telemetry/collect/web"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/ipfix"
)

// Options are what the program that runs a collector gives it beside its configuration. All may be zero.
type Options struct {
	// Log is the collector's log; nil: none. Level is its level, which administrators read and change at
	// /admin/log-level.
	Log   *zap.Logger
	Level zap.AtomicLevel
	// Ready is called once, when all that was in the stream has been read; Stopping when Run begins to end.
	Ready, Stopping func() error
}

// Collector is a collector with its servers.
type Collector struct {
	config  *config.Collect
	options Options
	log     *zap.Logger
	started time.Time
	url     string
	closing chan struct{} // closed when Run begins to end, which ends watches

	nats     *embed.Server // nil: the servers are elsewhere
	store    *store.Live
	switches collect.Switches
	reader   *collect.Collector
	asker    *asker
	set      *set.Member // nil: no other collector has digests
	web      *web.Server
	metrics  *web.Metrics
	archive  *archive.Archive // nil: none
	ipfix    *ipfix.Exporter  // nil: none
}

// New reads the files that a configuration names, starts the embedded NATS server, where the configuration names no
// other one, and listens. Its errors are of the configuration or the machine, and leave nothing open.
//
// The configuration has been checked by package config, with collect.data set where the server is embedded; it must
// not change afterwards. [Collector.Run] or [Collector.Close] gives back what is open.
func New(c *config.Collect, o Options) (_ *Collector, err error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Level == (zap.AtomicLevel{}) {
		o.Level = zap.NewAtomicLevel()
	}
	s := &Collector{config: c, options: o, log: o.Log, started: time.Now(), closing: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.store, err = store.NewLive(store.LiveConfig{Bytes: c.Store.Bytes, Now: clock.Kernel.TAI, Names: c.NATS.SwitchNames()}); err != nil {
		return nil, err
	}
	if s.asker, err = newAsker(c, s.store); err != nil {
		return nil, err
	}
	var connect func(context.Context) (*nats.Conn, error)
	if len(c.NATS.Servers) != 0 {
		connect, err = c.NATS.Connector(c.Collect.Name)
	} else if s.nats, err = embed.Start(embed.Config{
		Name: c.Collect.Name, Data: c.Collect.Data, NATS: c.NATS, Retention: c.Retention, Log: s.log,
	}); err == nil {
		connect = s.nats.Connect
	}
	if err != nil {
		return nil, err
	}
	if s.web, err = web.Listen(web.Config{
		Listen: c.Collect.Listen, Socket: c.Collect.Socket, TLS: c.Certificates(), Admins: c.TLS.Admins,
		Readers: c.TLS.Readers, PublishersCA: c.NATS.TLS.CA, Users: c.Collect.UserNumbers(),
		Connections: c.Limits.Connections, Log: s.log,
	}); err != nil {
		return nil, err
	}
	s.url = c.URL(s.web.Address())
	keyless := map[uint32]bool{}
	for _, sw := range c.Collect.Keyless {
		keyless[sw] = true
	}
	var begin func(context.Context, nats_js.Stream, collect.Mask) (uint64, time.Time)
	if c.Archive.URL != "" {
		if s.archive, err = archive.Open(archive.Config{
			Archive: c.Archive, Owner: c.Collect.Name, Connect: connect, Partitions: c.Partitions,
			Keyed: len(c.Collect.Keys) != 0, Keyless: keyless, RollUp: s.rollUp, Log: s.log,
		}); err != nil {
			return nil, err
		}
		begin = s.archive.Begin
	}
	s.reader = collect.New(collect.Config{
		Connect: connect, Begin: begin, Partitions: c.Partitions, Restrict: s.restrict, Log: s.log,
		Keyed: len(c.Collect.Keys) != 0, Keyless: keyless,
		Stream: jetstream.StreamConfig{Age: c.Retention.Age, Bytes: c.Retention.Bytes, Replicas: c.NATS.Replicas},
	}, (*applier)(s))
	if c.Partitions.Set() {
		member := set.Config{
			Name: c.Collect.Name, Connect: connect, Reader: s.reader, Share: c.Partitions.Share, View: s.asker.view, Renew: s.asker.renew,
			KeptFrom: func() int64 { return s.asker.past.keptFrom(s.store) }, Workers: c.Limits.Queries, Log: s.log,
		}
		if s.archive != nil {
			member.Archive = s.archive
		}
		s.set = set.New(member)
		s.asker.set = s.set
	}
	s.asker.history(s)
	if c.IPFIX.Target != "" {
		s.ipfix, err = ipfix.New(c.IPFIX, ipfix.Options{
			Ask: func(ctx context.Context, q *query.Question) (any, error) {
				ctx, cancel := context.WithTimeout(ctx, c.Limits.QueryTime)
				defer cancel()
				return s.Ask(ctx, q)
			},
			Clock: func() (tai, utc int64) { return clock.Kernel.TAI(), time.Now().UnixNano() },
			Fault: func(err error) { s.log.Warn("heavy flows are not exported", zap.Error(err)) },
		})
		if err != nil {
			return nil, err
		}
	}
	s.metrics = web.NewMetrics(c.Collect.Name, (*source)(s), s.web)
	return s, nil
}

// restrict takes nothing more from switches that have more than their share of the stream.
func (s *Collector) restrict(over map[uint32]bool) {
	if s.nats == nil {
		return
	}
	names := map[string]bool{}
	for sw, name := range s.config.NATS.SwitchNames() {
		if over[sw] {
			names[name] = true
		}
	}
	s.nats.Restrict(names)
}

// applier gives the records that the reader takes out of the stream to the store.
type applier Collector

// outcomes of the store, as the collector counts them.
var outcomes = map[store.Outcome]collect.Outcome{
	store.Taken: collect.Applied, store.Duplicate: collect.Duplicate, store.Conflict: collect.Conflict,
	store.Unreadable: collect.Unreadable, store.Unknown: collect.Unknown, store.Future: collect.Future, store.Late: collect.Late,
}

// Apply implements collect.Applier.
func (a *applier) Apply(h record.Header, body []byte, arrived time.Time) collect.Outcome {
	// The servers' clocks are of UTC, as the own one is; the leap seconds are those of now. It is the arrival that the archive has, to the ns.
	o, ok := outcomes[a.store.AddAt(h, body, arrived.UnixNano()+clock.UTCOffset())]
	if !ok {
		o = collect.Unknown
	}
	if o == collect.Applied {
		a.switches.Note(&h)
	}
	return o
}

// Run collects and answers until ctx ends, and closes the collector. It is called once.
func (s *Collector) Run(ctx context.Context) error {
	s.web.Serve(s.handler())
	data := ""
	if s.nats != nil {
		data = s.config.Collect.Data
	}
	s.log.Info("collecting", zap.String("collector", s.config.Collect.Name), zap.String("page", s.url),
		zap.Strings("nats", s.Servers()), zap.String("data", data))
	work, end := context.WithCancel(context.Background())
	var works sync.WaitGroup
	works.Go(func() { s.reader.Run(work) })
	works.Go(func() { s.awaitReady(work) })
	if s.set != nil {
		works.Go(func() { s.set.Run(work) })
	}
	if s.archive != nil {
		works.Go(func() { s.archive.Run(work) })
	}
	if s.config.Collect.Coordinate && !s.config.Partitions.Set() {
		works.Go(func() { s.coordinate(work) })
	}
	if s.ipfix != nil {
		works.Go(func() { s.ipfix.Run(work) })
	}
	<-ctx.Done()
	s.log.Info("ending")
	var err error
	if s.options.Stopping != nil {
		err = s.options.Stopping()
	}
	close(s.closing)
	if s.set != nil {
		s.set.Leave()
	}
	err = errors.Join(err, s.web.Close())
	s.web = nil
	end()
	works.Wait()
	return errors.Join(err, s.Close())
}

// progressInterval is the time between two lines of the log that say how much of the stream has been read.
const progressInterval = 2 * time.Second

// awaitReady logs how much of the stream has been read, and calls Ready when all has been.
func (s *Collector) awaitReady(ctx context.Context) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.reader.Ready():
			st := s.reader.Status()
			s.log.Info("ready", zap.Uint64("messages", st.Messages), zap.Duration("took", time.Since(s.started).Round(time.Millisecond)))
			if s.options.Ready == nil {
				return
			}
			if err := s.options.Ready(); err != nil {
				s.log.Warn("cannot notify that the collector is ready", zap.Error(err))
			}
			return
		case <-tick.C:
			st := s.reader.Status()
			share := 0.
			if st.Target >= st.FirstSequence && st.Read > st.FirstSequence {
				share = float64(st.Read-st.FirstSequence) / float64(st.Target-st.FirstSequence+1)
			}
			s.log.Info("reading the stream", zap.String("done", fmt.Sprintf("%.0f %%", 100*share)), zap.Uint64("pending", st.Pending))
		}
	}
}

// URL is the address of the page and the API.
func (s *Collector) URL() string { return s.url }

// Ask answers a question as query.Engine.Ask does: from the records in memory, and those that other collectors of a set have. It is safe for concurrent use, and gives up when ctx ends.
func (s *Collector) Ask(ctx context.Context, q *query.Question) (any, error) {
	began := time.Now()
	answer, err := s.asker.ask(ctx, q)
	s.metrics.Queried(string(q.Kind), outcome(err), time.Since(began))
	return answer, err
}

// Servers are the URLs of the NATS servers that have the stream.
func (s *Collector) Servers() []string {
	if s.nats == nil {
		return s.config.NATS.Servers
	}
	scheme := "nats://"
	if s.config.NATS.TLS != (collect.TLS{}) {
		scheme = "tls://"
	}
	return []string{scheme + s.nats.Address()}
}

// Close closes what is open of a collector that does not run.
func (s *Collector) Close() error {
	var errs []error
	if s.web != nil {
		errs = append(errs, s.web.Close())
	}
	if s.archive != nil {
		errs = append(errs, s.archive.Close())
	}
	if s.nats != nil {
		errs = append(errs, s.nats.Close())
	}
	return errors.Join(errs...)
}
