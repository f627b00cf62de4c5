package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/weirswitch/weir/telemetry/query"
)

// Config is what a handler answers from. Ask and Collector are called by many
// goroutines at a time, and must give up when their context ends.
type Config struct {
	// Ask answers a question as query.Engine.Ask does.
	Ask func(context.Context, *query.Question) (any, error)
	// Collector reports the collector's state, in a message to which the
	// handler adds api.
	Collector func(context.Context) (*CollectorStatus, error)
	// Allow says why a client may not ask, before its request is read; nil: all may. Whoever
	// may read may make all calls: none of them changes the collector.
	Allow func(*http.Request) error
	// Client names who asks, for what a client may have under way at a time; nil: all are one.
	Client func(*http.Request) string
	// Limits of what clients may cost.
	Limits Limits
	// Closing ends all watches when it is closed, so that a server can shut down; nil: never.
	Closing <-chan struct{}
	// Log gets what went wrong inside, which clients do not get; nil: none.
	Log *zap.Logger
}

// NewHandler returns the API and the path, with a slash at its end, that it is to be
// served at.
func NewHandler(c Config) (path string, h http.Handler) {
	c.Limits = c.Limits.orDefault()
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	l := c.Limits
	s := &service{Config: c, questions: newTurns(l.Questions)}
	path, calls := NewQueryServiceHandler(s,
		connect.WithCodec(codec{"json"}), connect.WithCodec(codec{"json; charset=utf-8"}),
		connect.WithReadMaxBytes(l.Body), connect.WithSendMaxBytes(l.Answer), connect.WithCompressMinBytes(1<<10),
		connect.WithRecover(s.recovered))
	return path, http.NewCrossOriginProtection().Handler(&bounded{
		service: s, next: calls, errors: connect.NewErrorWriter(),
		requests: semaphore.NewWeighted(int64(l.Requests)), watches: semaphore.NewWeighted(int64(l.Watches)),
		each: share{most: max(1, l.Requests/2), of: map[string]int{}}, eachWatch: share{most: max(1, l.Watches/2), of: map[string]int{}},
	})
}

// bounded limits the requests at a time, reads them whole, and gives deadlines to clients.
type bounded struct {
	*service
	next              http.Handler
	requests, watches *semaphore.Weighted
	each, eachWatch   share
	errors            *connect.ErrorWriter
}

// ServeHTTP implements http.Handler.
func (b *bounded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(b.Limits.Sending))
	_ = control.SetWriteDeadline(time.Now().Add(b.Limits.Reading))
	if b.Allow != nil {
		if err := b.Allow(r); err != nil {
			b.refuse(w, r, connect.NewError(connect.CodePermissionDenied, err))
			return
		}
	}
	slots, most, what, each := b.requests, b.Limits.Requests, "requests", &b.each
	if strings.HasSuffix(r.URL.Path, "/Watch") {
		slots, most, what, each = b.watches, b.Limits.Watches, "watches", &b.eachWatch
	}
	if b.Client != nil {
		client := b.Client(r)
		if !each.take(client) {
			b.refuse(w, r, connect.NewError(connect.CodeResourceExhausted,
				fmt.Errorf("%d %s of %s are in progress, which is the limit of one client: ask again later", each.most, what, client)))
			return
		}
		defer each.leave(client)
		r = r.WithContext(context.WithValue(r.Context(), clientKey{}, client))
	}
	if !slots.TryAcquire(1) {
		b.refuse(w, r, connect.NewError(connect.CodeResourceExhausted,
			fmt.Errorf("%d %s are in progress, which is the limit: ask again later", most, what)))
		return
	}
	defer slots.Release(1)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(b.Limits.Body)))
	if err != nil {
		b.refuse(w, r, b.incomplete(err))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	// A read deadline that passes would end a call which takes longer.
	_ = control.SetReadDeadline(time.Time{})
	b.next.ServeHTTP(&patient{w, control, b.Limits.Reading}, r)
}

// incomplete says why a request was not read to its end.
func (b *bounded) incomplete(err error) error {
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("the request has more than %d bytes: ask about less", b.Limits.Body))
	}
	return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf("the request did not arrive whole within %v", b.Limits.Sending))
}

// refuse answers in the client's protocol, or in text.
func (b *bounded) refuse(w http.ResponseWriter, r *http.Request, err error) {
	b.refused.Add(1)
	if b.errors.IsSupported(r) {
		_ = b.errors.Write(w, r, err)
		return
	}
	status := http.StatusServiceUnavailable
	if connect.CodeOf(err) == connect.CodePermissionDenied {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

// patient is a response whose deadline begins anew with each piece.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
}

// Unwrap lets http.ResponseController find the connection.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Flush implements http.Flusher, which streams need.
func (p *patient) Flush() { _ = p.control.Flush() }

// Write implements io.Writer.
func (p *patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(p.wait))
	return p.ResponseWriter.Write(b)
}
