package main

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/store"
	"github.com/weirswitch/weir/telemetry/view/api"
	"github.com/weirswitch/weir/telemetry/view/parquet"
)

// recordsWait is for reading a table of records, and one is sent at a time: it may be as large as all memory.
const recordsWait = 5 * time.Minute

// serveRecords sends what memory holds of a kind, as a Parquet file: GET /records/KIND?from_ns=&to_ns=&last_ns=
func (l *liveCollector) serveRecords() http.Handler {
	place := make(chan struct{}, 1)
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
		select {
		case place <- struct{}{}:
			defer func() { <-place }()
		default:
			http.Error(w, "another table of records is under way: ask again later", http.StatusTooManyRequests)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(recordsWait))
		w.Header().Set("Content-Type", "application/vnd.apache.parquet")
		s := l.asker.view()
		if err := parquet.WriteRecords(w, s, kind, recordWindow(s, times["from_ns"], times["to_ns"], times["last_ns"])); err != nil {
			l.log.Info("a table of records was not sent whole", zap.String("kind", kind), zap.Error(err))
			panic(http.ErrAbortHandler) // so that the client sees it, too
		}
	})
}

// recordWindow is the window between two times, or of so long before the newest record; 0: no bound.
func recordWindow(s *store.Store, from, to, last int64) store.Window {
	if last > 0 {
		return s.Last(time.Duration(last))
	}
	w := s.All()
	if from > 0 {
		w.From = from
	}
	if to > 0 {
		w.To = to
	}
	return w
}
