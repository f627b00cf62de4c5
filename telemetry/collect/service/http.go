package service

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/config"
	"github.com/weirswitch/weir/pipeline/clock"
	"github.com/weirswitch/weir/telemetry/collect/web"
	"github.com/weirswitch/weir/telemetry/query"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/page"
	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// handler serves the views, the metrics and what administrators change.
func (s *Collector) handler() http.Handler {
	mux := http.NewServeMux()
	limits := s.config.Limits
	path, calls := api.NewHandler(api.Config{
		Ask: s.Ask, Collector: s.status, Closing: s.closing, Log: s.log,
		Client: func(r *http.Request) string { return web.IdentityOf(r).String() },
		Limits: api.Limits{Body: int(limits.RequestBytes), Questions: limits.Queries, Time: limits.QueryTime},
	})
	mux.Handle(path, calls)
	mux.Handle(api.SchemaPath, api.Schema())
	mux.Handle("GET "+api.RecordsPath+"{kind}", s.records())
	mux.Handle("POST "+api.GatherPath, http.NewCrossOriginProtection().Handler(s.gatherHandler()))
	mux.Handle("GET /metrics", s.metrics.Handler(s.log))
	healthz, readyz := web.Health((*source)(s))
	mux.Handle("GET /healthz", healthz)
	mux.Handle("GET /readyz", readyz)
	mux.Handle("/admin/log-level", s.web.Admins(http.HandlerFunc(s.logLevel)))
	mux.Handle("/", page.Handler(page.Config{}))
	return mux
}

// logLevel shows the log's level, and changes it by PUT ?level=debug.
func (s *Collector) logLevel(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPut:
		text := r.URL.Query().Get("level")
		if err := (&config.Log{Level: text, Format: "text"}).Validate(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if err := s.options.Level.UnmarshalText([]byte(text)); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	default:
		w.Header().Set("Allow", "GET, PUT")
		http.Error(w, "the level is read by GET and changed by PUT ?level=debug", http.StatusMethodNotAllowed)
		return
	}
	_, _ = fmt.Fprintln(w, s.options.Level.String())
}

// records sends the records of a kind that are in memory as a Parquet file, one file at a time:
// GET /records/KIND?from_ns=&to_ns=&last_ns=
func (s *Collector) records() http.Handler {
	var sending sync.Mutex
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kind := r.PathValue("kind")
		if !slices.Contains(parquet.RecordKinds(), kind) {
			http.Error(w, fmt.Sprintf("records of kind %q: choose one of %q", kind, parquet.RecordKinds()), http.StatusNotFound)
			return
		}
		times := map[string]int64{}
		for name, values := range r.URL.Query() {
			n, err := strconv.ParseInt(values[0], 10, 64)
			if !slices.Contains(api.RecordTimes, name) || err != nil || n < 0 {
				http.Error(w, fmt.Sprintf("%s=%q: choose nanoseconds from 0 for one of %q", name, values[0], api.RecordTimes), http.StatusBadRequest)
				return
			}
			times[name] = n
		}
		if !sending.TryLock() { // a table may be as large as the store
			http.Error(w, "another table of records is being sent: ask again later", http.StatusTooManyRequests)
			return
		}
		defer sending.Unlock()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(api.RecordsTimeout))
		w.Header().Set("Content-Type", "application/vnd.apache.parquet")
		view, now := s.asker.view(), clock.Kernel.TAI()
		window := view.Range(times["from_ns"], times["to_ns"])
		if last := times["last_ns"]; last > 0 {
			window = view.LastBefore(time.Duration(last), now)
		}
		switch err := parquet.WriteRecords(w, view, kind, window, now); {
		case errors.Is(err, query.ErrNoRecords): // nothing was written
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			s.log.Info("a table of records was not sent whole", zap.String("kind", kind), zap.Error(err))
			panic(http.ErrAbortHandler) // so that the client sees it, too
		}
	})
}
