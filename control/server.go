package control

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/control/api"
	queries "github.com/weirswitch/weir/telemetry/view/api"
)

// The bounds of what clients may ask of the server.
const (
	// maxRequest bounds a request that reads, maxChange one that changes: a
	// configuration of 65,536 rules has some megabytes.
	maxRequest = 64 << 10
	maxChange  = 16 << 20
	maxHeader  = 16 << 10
	// requestWait is how long a client may take to say what it wants, and to shake
	// hands before.
	requestWait = 5 * time.Second
	// answerWait is how long it may take to read an answer, or a piece of one.
	answerWait = 30 * time.Second
	// idleWait is how long a connection may wait for its next request.
	idleWait = 30 * time.Second
	// closeWait is how long answers in flight may take when the server closes.
	closeWait = time.Second
)

// Options are what a server has in addition to its socket and its switch. The zero value
// keeps no log.
type Options struct {
	Log    *zap.Logger  // of what the transport complains about, and of changes
	Audit  *Audit       // closed by the caller, after the server
	TCP    net.Listener // the API over TCP, from ListenTLS; nil: none. The server's from now on
	Admins []string     // the certificates' names that may change the switch
	// Readers are the certificates' names that may read beside these; none: all.
	Readers []string
}

// Server answers requests in its own goroutines.
type Server struct {
	servers []*http.Server
	ended   chan error
	closing chan struct{} // ends watches
	audit   *Audit
	log     *zap.Logger
	line    *line

	refused, denied atomic.Uint64
}

// Serve answers what arrives at the listener, which is the server's from now
// on.
func Serve(l net.Listener, sw Switch, o Options) *Server {
	s := &Server{ended: make(chan error, 2), closing: make(chan struct{}), audit: o.Audit, log: o.Log, line: newLine()}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if s.audit == nil {
		s.audit, _ = OpenAudit("")
	}
	mux := http.NewServeMux()
	mux.Handle(api.NewSwitchHandler(&reader{sw}, connect.WithReadMaxBytes(maxRequest)))
	path, changes := api.NewAdminHandler(&admin{sw, s.audit, s.log}, connect.WithReadMaxBytes(maxChange))
	mux.Handle(path, s.admins(whole(changes)))
	path, questions := queries.NewHandler(queries.Config{
		Ask: sw.Ask, Closing: s.closing, Log: s.log,
		Collector: func(context.Context) (*queries.CollectorStatus, error) {
			return nil, errors.New("this is a switch, and no collector: its state is in weir.v1.Switch/Report")
		},
		Limits: queries.Limits{Requests: 16, Questions: 1, Watches: 4}, // questions share the machine with the packets
	})
	mux.Handle(path, questions)
	handler := timed(inLine(mux))

	s.start(bound(l, &s.refused), handler, func(ctx context.Context, c net.Conn) context.Context {
		id := peerOf(c)
		ctx = context.WithValue(ctx, identityKey{}, id)
		return context.WithValue(ctx, placeKey{}, s.line.accepted(c, id.admin))
	})
	if o.TCP != nil {
		o.TCP.(*tlsListener).bounded.Refused = func() { s.refused.Add(1) }
		s.start(o.TCP, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			id := certified(r, o.Admins)
			var err error
			if keeper := o.TCP.(*tlsListener).keeper; keeper != nil && r.TLS != nil {
				err = keeper.Check(r.TLS.PeerCertificates)
			}
			if err == nil && len(o.Readers) != 0 && !id.admin && !slices.Contains(o.Readers, id.certificate) {
				err = errors.New(id.String() + " may not read: control.tls.readers does not name it")
			}
			if err != nil {
				s.denied.Add(1)
				_ = connect.NewErrorWriter().Write(w, r, connect.NewError(connect.CodePermissionDenied, err))
				return
			}
			ctx := context.WithValue(r.Context(), identityKey{}, id)
			handler.ServeHTTP(w, r.WithContext(ctx))
		}), func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, placeKey{}, s.line.accepted(c, false))
		})
	}
	return s
}

func (s *Server) start(l net.Listener, h http.Handler, note func(context.Context, net.Conn) context.Context) {
	server := &http.Server{
		Handler:           h,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: requestWait,
		ReadTimeout:       requestWait,
		IdleTimeout:       idleWait,
		ErrorLog:          zap.NewStdLog(s.log),
		ConnContext:       note,
		ConnState:         s.line.state,
	}
	s.servers = append(s.servers, server)
	go func() { s.ended <- server.Serve(l) }()
}

// timed bounds how long an answer may take to be read.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWait))
		next.ServeHTTP(w, r)
	})
}

// whole reads the request before the call begins, and then lifts the deadline for
// reading, which would end a call that takes longer. Each piece of a long answer
// has its own deadline.
func whole(next http.Handler) http.Handler {
	writer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxChange))
		if err != nil {
			err := connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the request has more than %d bytes, or did not arrive in time", maxChange))
			_ = writer.Write(w, r, err)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{})
		next.ServeHTTP(&patient{w, control}, r)
	})
}

// patient is a response whose deadline begins anew with each piece.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap lets http.ResponseController find the connection.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Flush implements http.Flusher, which streams need.
func (p *patient) Flush() { _ = p.control.Flush() }

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(answerWait))
	return p.ResponseWriter.Write(b)
}

// Counters are what the server and the audit log count.
type Counters struct {
	Refused   uint64 // connections closed at once: there were too many
	Denied    uint64 // calls of service Admin by others than admins
	AuditLost uint64 // lines of the audit log that could not be written
}

// Counters returns the present counts.
func (s *Server) Counters() Counters {
	return Counters{s.refused.Load(), s.denied.Load(), s.audit.Lost()}
}

// Metrics returns the counts as metrics of the API.
func (c Counters) Metrics() []*api.Metric {
	metric := func(name, help string, n uint64) *api.Metric {
		return &api.Metric{Stage: "control", Name: name, Help: help, Value: float64(n)}
	}
	return []*api.Metric{
		metric("refused_connections_total", "connections closed at once, since there were too many", c.Refused),
		metric("denied_calls_total", "calls that change the switch, by clients that may not", c.Denied),
		metric("lost_audit_lines_total", "lines of the audit log that could not be written", c.AuditLost),
	}
}

// Close lets answers in flight end, within a second, and removes the socket.
func (s *Server) Close() error {
	close(s.closing)
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var errs []error
	for _, server := range s.servers {
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close() // a client that does not read must not keep the switch
		}
		errs = append(errs, err)
	}
	for range s.servers {
		if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
			errs = append(errs, end)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the control socket: %w", err)
	}
	return nil
}
