package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/collect/embed"
	"github.com/weirswitch/weir/telemetry/collect/web"
	"github.com/weirswitch/weir/telemetry/jetstream"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/record"
	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/ipfix"
	"github.com/weirswitch/weir/telemetry/view/page"
)

// liveCollector is a collector with its servers.
type liveCollector struct {
	config  *config.Collect
	log     *zap.Logger
	level   zap.AtomicLevel
	started time.Time

	nats      *embed.Server // nil: the servers are elsewhere
	store     *store.Live
	switches  collect.Switches
	collector *collect.Collector
	asker     *collectAsker
	web       *web.Server
	metrics   *web.Metrics
	ipfix     *ipfix.Exporter // nil: none
	closing   chan struct{}   // ends watches
}

// newLiveCollector opens everything, all but the reading of the stream. On failure it
// returns what was opened, to be closed.
func newLiveCollector(c *config.Collect, log *zap.Logger, level zap.AtomicLevel) (*liveCollector, error) {
	l := &liveCollector{config: c, log: log, level: level, started: time.Now(), closing: make(chan struct{})}
	var err error
	if l.store, err = store.NewLive(store.LiveConfig{Bytes: c.Store.Bytes, Now: taiNow}); err != nil {
		return l, err
	}
	if l.asker, err = newCollectAsker(c, l.store); err != nil {
		return l, err
	}
	connect, err := l.connector()
	if err != nil {
		return l, err
	}
	if l.web, err = web.Listen(web.Config{
		Listen: c.Collect.Listen, Socket: c.Collect.Socket, TLS: c.Certificates(), Admins: c.TLS.Admins,
		Connections: c.Limits.Connections, Log: log,
	}); err != nil {
		return l, err
	}
	l.collector = collect.New(collect.Config{
		Connect: connect, Partitions: c.Partitions, Log: log,
		Stream: jetstream.StreamConfig{Age: c.Retention.Age, Bytes: c.Retention.Bytes, Replicas: c.NATS.Replicas},
	}, l)
	if err := l.exportFlows(); err != nil {
		return l, err
	}
	l.metrics = web.NewMetrics(c.Collect.Name, l, l.web)
	l.asker.queried = l.metrics.Queried
	return l, nil
}

// connector starts the collector's own server, or says how to reach others.
func (l *liveCollector) connector() (connect func(context.Context) (*nats.Conn, error), err error) {
	c := l.config
	if len(c.NATS.Servers) != 0 {
		return l.config.NATS.Connector(c.Collect.Name)
	}
	l.nats, err = embed.Start(embed.Config{
		Name: c.Collect.Name, Data: c.Collect.Data, NATS: c.NATS, Retention: c.Retention, Log: l.log,
	})
	if err != nil {
		return nil, err
	}
	return l.nats.Connect, nil
}

// exportFlows sets up the export of heavy flows, if there is a target.
func (l *liveCollector) exportFlows() (err error) {
	if l.config.IPFIX.Target == "" {
		return nil
	}
	l.ipfix, err = ipfix.New(l.config.IPFIX, ipfix.Options{
		Ask: func(ctx context.Context, q *query.Question) (any, error) {
			ctx, cancel := context.WithTimeout(ctx, l.config.Limits.QueryTime)
			defer cancel()
			return l.asker.Ask(ctx, q)
		},
		Clock: func() (tai, utc int64) { return taiNow(), time.Now().UnixNano() },
		Fault: func(err error) { l.log.Warn("heavy flows are not exported", zap.Error(err)) },
	})
	return err
}

// outcomes of the store, as the collector counts them.
var outcomes = map[store.Outcome]collect.Outcome{
	store.Taken: collect.Applied, store.Duplicate: collect.Duplicate, store.Conflict: collect.Conflict,
	store.Unreadable: collect.Unreadable, store.Unknown: collect.Unknown, store.Future: collect.Future, store.Late: collect.Late,
}

// Apply implements collect.Applier.
func (l *liveCollector) Apply(h record.Header, body []byte) collect.Outcome {
	o, ok := outcomes[l.store.Add(h, body)]
	if !ok {
		o = collect.Unknown
	}
	if o == collect.Applied {
		l.switches.Note(&h)
	}
	return o
}

// run collects and answers until ctx ends, and takes everything down.
func (l *liveCollector) run(ctx context.Context, tell *readiness) error {
	l.web.Serve(l.handler())
	l.log.Info("collecting", zap.String("collector", l.config.Collect.Name), zap.String("page", pageURL(l.config, l.web.Address())),
		zap.Strings("nats", l.servers()), zap.String("data", l.dataFolder()))
	work, end := context.WithCancel(context.Background())
	var works sync.WaitGroup
	works.Go(func() { l.collector.Run(work) })
	works.Go(func() { l.awaitReady(work, tell) })
	if l.ipfix != nil {
		works.Go(func() { l.ipfix.Run(work) })
	}
	<-ctx.Done()
	l.log.Info("ending")
	err := tell.stopping()
	close(l.closing)
	err = errors.Join(err, l.web.Close())
	l.web = nil
	end()
	works.Wait()
	return errors.Join(err, l.close())
}

// progressInterval is between two lines of how far the collector is.
const progressInterval = 2 * time.Second

// awaitReady says how far reading is, and tells whoever waits when it is done.
func (l *liveCollector) awaitReady(ctx context.Context, tell *readiness) {
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.collector.Ready():
			s := l.collector.Status()
			l.log.Info("ready", zap.Uint64("messages", s.Messages), zap.Duration("took", time.Since(l.started).Round(time.Millisecond)))
			if err := tell.ready(); err != nil {
				l.log.Warn("cannot tell that the collector is ready", zap.Error(err))
			}
			return
		case <-tick.C:
			s := l.collector.Status()
			share := 0.
			if s.Target >= s.FirstSequence && s.Read > s.FirstSequence {
				share = float64(s.Read-s.FirstSequence) / float64(s.Target-s.FirstSequence+1)
			}
			l.log.Info("reading what the stream has", zap.String("done", fmt.Sprintf("%.0f %%", 100*share)), zap.Uint64("pending", s.Pending))
		}
	}
}

// handler joins the faces.
func (l *liveCollector) handler() http.Handler {
	mux := http.NewServeMux()
	limits := l.config.Limits
	path, calls := api.NewHandler(api.Config{
		Ask: l.asker.Ask, Collector: l.status, Closing: l.closing, Log: l.log,
		Limits: api.Limits{Body: int(limits.RequestBytes), Questions: limits.Queries, Time: limits.QueryTime},
	})
	mux.Handle(path, forwarded(calls))
	mux.Handle(api.SchemaPath, api.Schema())
	mux.Handle("GET /metrics", l.metrics.Handler(l.log))
	healthz, readyz := web.Health(l)
	mux.Handle("GET /healthz", healthz)
	mux.Handle("GET /readyz", readyz)
	mux.Handle("/admin/log-level", l.web.Admins(http.HandlerFunc(l.logLevel)))
	mux.Handle("/", page.Handler(page.Config{}))
	return mux
}

// logLevel shows the log's level, and changes it by PUT ?level=debug.
func (l *liveCollector) logLevel(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPut:
		text := r.URL.Query().Get("level")
		if err := (&config.Log{Level: text, Format: "text"}).Validate(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := l.level.UnmarshalText([]byte(text)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "the level is read by GET and changed by PUT ?level=debug", http.StatusMethodNotAllowed)
		return
	}
	_, _ = fmt.Fprintln(w, l.level.String())
}

// servers are where the stream is.
func (l *liveCollector) servers() []string {
	if l.nats == nil {
		return l.config.NATS.Servers
	}
	scheme := "nats://"
	if l.config.NATS.TLS != (collect.TLS{}) {
		scheme = "tls://"
	}
	return []string{scheme + l.nats.Address()}
}

func (l *liveCollector) dataFolder() string {
	if l.nats == nil {
		return ""
	}
	return l.config.Collect.Data
}

// close gives back what is open.
func (l *liveCollector) close() error {
	var errs []error
	if l.web != nil {
		errs = append(errs, l.web.Close())
	}
	if l.nats != nil {
		errs = append(errs, l.nats.Close())
	}
	return errors.Join(errs...)
}

// versionText is the program's version, for a status.
func versionText() (version_, revision string) {
	v := version()
	return strings.TrimSpace(v.Version), v.Revision
}
