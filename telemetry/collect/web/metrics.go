package web

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/telemetry/collect"
	"github.com/weirswitch/weir/telemetry/record"
)

// Source is what metrics show. Its methods are called by many goroutines.
type Source interface {
	Status() collect.Status
	Counters(record.Kind) collect.Counters
	Store() StoreStatus
	// Set is what passes between the collectors that share the digests; false: there are none.
	Set() (collect.SetCounters, bool)
	// Archive is how the archive is; false: there is none.
	Archive() (collect.ArchiveStatus, bool)
	// Regions are those that questions ask, too.
	Regions() []collect.RegionStatus
	// Exported counts the heavy flows that went to an IPFIX collector, could not be sent, or
	// have no form there, and the windows that were left out.
	Exported() (sent, lost, skipped, missedWindows uint64)
}

// StoreStatus is what memory holds.
type StoreStatus struct {
	Bytes, MaxBytes int64
	Kinds           map[record.Kind]StoreKind
}

// StoreKind is what memory holds of a kind.
type StoreKind struct {
	Held, Evicted uint64 // records
	Bytes         uint64
	Digests       uint64
}

// Metrics shows a collector to Prometheus, as weir_collect_*.
type Metrics struct {
	source  Source
	server  *Server
	queries *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	info    prometheus.Collector
}

// NewMetrics returns the metrics of a collector; name is its own.
func NewMetrics(name string, source Source, server *Server) *Metrics {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "weir_collect_info", Help: "the collector, always 1", ConstLabels: prometheus.Labels{"name": name},
	})
	info.Set(1)
	return &Metrics{
		source: source, server: server, info: info,
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "weir_collect_queries_total", Help: "questions, by kind and what became of them",
		}, []string{"kind", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "weir_collect_query_seconds", Help: "time from a question's turn to its answer",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"kind"}),
	}
}

// Queried counts a question.
func (m *Metrics) Queried(kind, outcome string, took time.Duration) {
	m.queries.WithLabelValues(kind, outcome).Inc()
	m.seconds.WithLabelValues(kind).Observe(took.Seconds())
}

// The bounds of scrapes.
const (
	maxScrapes = 4
	scrapeWait = 10 * time.Second
)

// Handler serves the metrics.
func (m *Metrics) Handler(log *zap.Logger) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, m.info, m.queries, m.seconds, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeWait, ErrorHandling: promhttp.ContinueOnError, ErrorLog: zap.NewStdLog(log),
	})
}

// Describe implements prometheus.Collector. Which there are depends on the kinds that came.
func (m *Metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	e := emitter{ch}
	e.stream(m.source.Status())
	for _, k := range append([]record.Kind{0}, collect.Kinds...) {
		e.kind(collect.KindName(k), m.source.Counters(k))
	}
	e.store(m.source.Store())
	if c, some := m.source.Set(); some {
		e.set(&c)
	}
	if a, ok := m.source.Archive(); ok {
		e.archive(a)
	}
	for _, r := range m.source.Regions() {
		e.counter("region_asked_total", "questions for which a region was asked", r.Asked, "region", r.Name)
		e.counter("region_unreached_total", "questions to which a region is missing in the answer", r.Unreached, "region", r.Name)
		e.counter("region_received_bytes_total", "bytes of records from a region", r.ReceivedBytes, "region", r.Name)
	}
	sent, lost, skipped, missed := m.source.Exported()
	for _, f := range []struct {
		outcome string
		n       uint64
	}{{"sent", sent}, {"lost", lost}, {"skipped", skipped}} {
		e.counter("ipfix_flows_total", "heavy flows for an IPFIX collector, by what became of them", f.n, "outcome", f.outcome)
	}
	e.counter("ipfix_missed_windows_total", "windows whose heavy flows were not exported for want of time", missed)
	c := m.server.Counters()
	e.counter("http_refused_total", "connections closed at once: there were too many", c.Refused)
	e.counter("http_denied_total", "calls of admins by others", c.Denied)
	e.counter("http_misdirected_total", "requests under a name that is not this machine's", c.Misdirected)
}

type emitter struct{ ch chan<- prometheus.Metric }

func (e emitter) stream(s collect.Status) {
	e.gauge("stream_connected", "whether the stream can be read", bit(s.Connected))
	e.gauge("stream_drift", "whether somebody changed the stream's configuration", bit(s.Drift != ""))
	e.gauge("ready", "whether what the stream had at the start is read", bit(s.Ready))
	e.gauge("stream_messages", "messages that the stream keeps", float64(s.Messages))
	e.gauge("stream_bytes", "bytes that the stream keeps", float64(s.Bytes))
	e.gauge("stream_first_sequence", "number of the stream's oldest message", float64(s.FirstSequence))
	e.gauge("stream_last_sequence", "number of the stream's newest message", float64(s.LastSequence))
	e.gauge("read_sequence", "number of the last message that was read", float64(s.Read))
	e.gauge("pending_messages", "messages of the stream that are to be read", float64(s.Pending))
	e.gauge("lag_seconds", "age of the last message that was read, 0 if none is to be read", s.Lag.Seconds())
	e.counter("lost_messages_total", "messages that went from the stream before they were read", s.Lost)
	e.counter("passed_messages_total", "messages of partitions that others read, which came with what was far from the stream's end", s.Passed)
	e.counter("stream_restarts_total", "times that reading began anew", s.Restarts)
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// kind sends the counts of a kind: received = the sum of all outcomes.
func (e emitter) kind(name string, c collect.Counters) {
	if c.Received == 0 && name == collect.KindName(0) {
		return
	}
	e.counter("received_records_total", "messages read from the stream", c.Received, "kind", name)
	e.counter("received_bytes_total", "bytes of these", c.Bytes, "kind", name)
	for _, o := range collect.Outcomes() {
		e.counter("records_total", "messages read from the stream, by what became of them", c.By[o], "kind", name, "outcome", o.String())
	}
}

func (e emitter) set(c *collect.SetCounters) {
	for _, x := range []struct {
		outcome string
		n       uint64
	}{{"answered", c.Answered}, {"invalid", c.Invalid}, {"moved", c.Moved}, {"failed", c.Failed}, {"dropped", c.Dropped}} {
		e.counter("set_requests_total", "requests of other collectors for digests, by what became of them", x.n, "outcome", x.outcome)
	}
	e.counter("set_sent_bytes_total", "bytes of the answers to these", c.SentBytes)
	e.counter("set_asked_total", "requests to other collectors for digests", c.Asked)
	e.counter("set_received_bytes_total", "bytes of the answers to these", c.ReceivedBytes)
	e.counter("set_refused_total", "of these answers, those that could not be used", c.Refused)
	e.counter("set_unreached_total", "partitions that were missing in an answer to a question", c.Unreached)
	e.counter("set_strange_total", "messages under the subject of members that are none, or of one with the own name", c.Strange)
	e.gauge("set_partitions", "partitions for which this collector answers", float64(c.Held))
	e.gauge("set_members", "collectors that share the partitions, as far as this one hears them", float64(c.Members))
}

func (e emitter) store(s StoreStatus) {
	e.gauge("store_bytes", "memory that records take", float64(s.Bytes))
	e.gauge("store_limit_bytes", "memory that records may take", float64(s.MaxBytes))
	for _, k := range collect.Kinds {
		of := s.Kinds[k]
		e.gauge("store_records", "records in memory", float64(of.Held), "kind", k.String())
		e.gauge("store_kind_bytes", "memory that records take, by kind", float64(of.Bytes), "kind", k.String())
		e.counter("evicted_records_total", "records that left memory to make room", of.Evicted, "kind", k.String())
	}
	e.gauge("store_digests", "digests in memory", float64(s.Kinds[record.PINT].Digests))
}

func (e emitter) archive(a collect.ArchiveStatus) {
	e.gauge("archive_works", "whether records can be archived and read there", bit(a.Problem == ""))
	e.gauge("archive_files", "files of the archive, of all collectors", float64(a.Files))
	e.gauge("archive_bytes", "bytes of these", float64(a.Bytes))
	e.gauge("archive_lag_seconds", "how long the oldest record has been waiting that is read and not archived", a.Lag.Seconds())
	e.counter("archive_records_total", "records that this collector archived", a.Records)
	e.counter("archive_record_bytes_total", "bytes of these before compression", a.RecordBytes)
	e.counter("archive_written_files_total", "files that this collector wrote", a.WrittenFiles)
	e.counter("archive_written_bytes_total", "bytes of these", a.WrittenBytes)
	e.counter("archive_skipped_messages_total", "messages that are not archived for what they are", a.Skipped)
	e.counter("archive_lost_messages_total", "messages at most that went from the stream before they were archived", a.Lost)
	e.counter("archive_failures_total", "attempts to write, list or delete that failed", a.Failures)
	e.counter("archive_deleted_files_total", "files that retention deleted", a.Deleted)
	e.counter("archive_read_records_total", "records that questions read from the archive", a.Read)
	e.counter("archive_broken_records_total", "records of these whose checksum was wrong", a.Broken)
	e.gauge("archive_damaged_files", "files that questions found damaged, whose records are in no answer", float64(a.Damaged))
	e.gauge("archive_rollups", "coarse intervals that are rolled up, where this collector makes roll-ups", float64(a.Rollups))
	e.gauge("archive_rollup_bytes", "bytes of their files", float64(a.RollupBytes))
	e.gauge("archive_rollups_due", "coarse intervals that are to be rolled up", float64(a.RollupsDue))
	e.counter("archive_rolled_up_total", "coarse intervals that this collector rolled up for the first time", a.RolledUp)
	e.counter("archive_rolled_up_again_total", "coarse intervals that it rolled up again, as records of them came late", a.RolledUpAgain)
	e.counter("archive_cut_rollups_total", "coarse intervals of which records were deleted before they were rolled up", a.RollupsCut)
	e.counter("archive_deleted_rollups_total", "coarse intervals whose roll-ups retention deleted", a.RollupsDeleted)
	e.counter("archive_gone_files_total", "files that questions needed and another collector or somebody had deleted", a.Gone)
}

func (e emitter) counter(name, help string, n uint64, labels ...string) {
	e.send(name, help, float64(n), prometheus.CounterValue, labels...)
}

func (e emitter) gauge(name, help string, v float64, labels ...string) {
	e.send(name, help, v, prometheus.GaugeValue, labels...)
}

// send sends one value. labels are names and values in turn.
func (e emitter) send(name, help string, v float64, kind prometheus.ValueType, labels ...string) {
	var names, values []string
	for i := 0; i+1 < len(labels); i += 2 {
		names, values = append(names, labels[i]), append(values, labels[i+1])
	}
	e.ch <- prometheus.MustNewConstMetric(prometheus.NewDesc("weir_collect_"+name, help, names, nil), kind, v, values...)
}

// Health serves /healthz, whether the process answers, and /readyz, whether what the stream had
// at the start is read and it can be read now.
func Health(source Source) (healthz, readyz http.Handler) {
	healthz = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	readyz = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch s := source.Status(); {
		case !s.Connected:
			http.Error(w, "the stream cannot be read: "+s.Problem, http.StatusServiceUnavailable)
		case s.Drift != "":
			http.Error(w, "the stream is not as configured, and may lose records: "+s.Drift, http.StatusServiceUnavailable)
		case !s.Ready:
			http.Error(w, fmt.Sprintf("reading what the stream has: message %d of %d", s.Read, s.Target), http.StatusServiceUnavailable)
		default:
			if a, ok := source.Archive(); ok && a.Problem != "" {
				http.Error(w, "records are not archived, and the stream keeps them meanwhile: "+a.Problem, http.StatusServiceUnavailable)
				return
			}
			_, _ = fmt.Fprintln(w, "ready")
		}
	})
	return healthz, readyz
}
