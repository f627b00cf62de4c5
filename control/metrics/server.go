package metrics

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/control"
)

// The bounds of the metrics' server.
const (
	maxScrapes  = 4        // at once
	maxHeader   = 16 << 10 // bytes
	requestWait = 5 * time.Second
	scrapeWait  = 10 * time.Second
	answerWait  = 30 * time.Second
	idleWait    = 2 * time.Minute // a scraper comes again
	healthWait  = 2 * time.Second
)

// Server serves /metrics and /healthz.
type Server struct {
	http  *http.Server
	ended chan error
}

// Listen listens for a Server; nil without an address.
func Listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("control.metrics: %w: choose an address of this machine and a port that is free", err)
	}
	return l, nil
}

// Serve answers what arrives at the listener, which is the server's from
// now on.
func Serve(l net.Listener, sw Switch, log *zap.Logger) *Server {
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(sw), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeWait, ErrorHandling: promhttp.ContinueOnError, ErrorLog: zap.NewStdLog(log),
	}))
	mux.Handle("GET /healthz", &health{sw: sw})
	s := &Server{ended: make(chan error, 1)}
	s.http = &http.Server{
		Handler: mux, MaxHeaderBytes: maxHeader, ErrorLog: zap.NewStdLog(log),
		ReadHeaderTimeout: requestWait, ReadTimeout: requestWait, WriteTimeout: answerWait, IdleTimeout: idleWait,
	}
	l = control.Bound(l)
	go func() { s.ended <- s.http.Serve(l) }()
	return s
}

// Close ends the server at once: a scrape can be repeated.
func (s *Server) Close() error {
	err := s.http.Close()
	if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	if err != nil {
		return fmt.Errorf("close the metrics' server: %w", err)
	}
	return nil
}

// health answers whether every worker answers: one that hangs in a stage does
// not.
type health struct {
	sw      Switch
	mu      sync.Mutex
	pending chan struct{} // of a question that is not answered; nil: none
}

// ServeHTTP implements http.Handler. Questions of many clients at once become one,
// so that a switch that hangs does not fill with them.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wait := time.NewTimer(healthWait)
	defer wait.Stop()
	select {
	case <-h.ask():
		_, _ = fmt.Fprintln(w, "ok")
	case <-wait.C:
		http.Error(w, fmt.Sprintf("the workers did not answer within %v", healthWait), http.StatusServiceUnavailable)
	case <-r.Context().Done():
	}
}

func (h *health) ask() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pending == nil {
		done := make(chan struct{})
		h.pending = done
		go func() {
			h.sw.Report()
			h.mu.Lock()
			h.pending = nil
			h.mu.Unlock()
			close(done)
		}()
	}
	return h.pending
}
