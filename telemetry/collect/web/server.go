package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/certs"
	"github.com/weirswitch/weir/telemetry/collect"
)

// Config is where a server listens, and for whom.
type Config struct {
	Listen string // HOST:PORT
	Socket string // path of a unix socket; empty: none
	// TLS has the certificates; none: plain HTTP, for this machine alone.
	TLS    collect.TLS
	Admins []string // common names of certificates
	// Readers are the common names of certificates that may read; none: all of the authority, unless it also signs those
	// of switches, which PublishersCA names.
	Readers      []string
	PublishersCA string
	// Users may read over plain TCP, beside root and the own user.
	Users []int
	// Connections at a time. What comes beyond is closed at once.
	Connections int
	Log         *zap.Logger

	patience time.Duration // instead of requestWait, for tests
}

// The bounds of what a client may take.
const (
	maxHeader = 16 << 10 // bytes
	// requestWait is for shaking hands, and then for saying what it wants.
	requestWait = 5 * time.Second
	// answerWait is for reading an answer; a handler that sends more often has the time anew.
	answerWait = 30 * time.Second
	idleWait   = time.Minute
	// closeWait is for answers in progress when the server closes.
	closeWait = 2 * time.Second
)

// Server is an HTTP server. Its handler is given to Serve.
type Server struct {
	config    Config
	log       *zap.Logger
	listeners []net.Listener
	servers   []*http.Server
	ended     chan error

	keeper   *certs.Keeper // nil: plain TCP
	anyReads bool          // any certificate of the authority
	idle     idle

	logged atomic.Int64 // the second of the last refusal in the log

	denied, refused, misdirected atomic.Uint64
}

// Listen opens what the server listens on; nothing is answered before Serve.
func Listen(c Config) (*Server, error) {
	s := &Server{config: c, log: c.Log, ended: make(chan error, 2)}
	if remote, err := collect.Remote(c.Listen); err == nil && remote && c.TLS == (collect.TLS{}) {
		return nil, fmt.Errorf("collect.listen: other machines reach %s, so both sides must have certificates: set [tls]", c.Listen)
	}
	l, err := s.listenTCP(c.Listen)
	if err != nil {
		return nil, err
	}
	s.listeners = append(s.listeners, l)
	if c.Socket != "" {
		l, err := s.listenUnix(c.Socket)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.listeners = append(s.listeners, l)
	}
	return s, nil
}

// Serve answers with a handler, in its own goroutines.
func (s *Server) Serve(h http.Handler) {
	h = s.local(s.identified(s.readers(h)))
	wait := cmp.Or(s.config.patience, requestWait)
	for _, l := range s.listeners {
		server := &http.Server{
			Handler: h, MaxHeaderBytes: maxHeader, ErrorLog: zap.NewStdLog(s.log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))),
			ReadHeaderTimeout: wait, ReadTimeout: 2 * wait, WriteTimeout: answerWait, IdleTimeout: idleWait,
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				switch {
				case c.LocalAddr().Network() == "unix":
					return context.WithValue(ctx, identityKey{}, peerOf(c))
				case s.keeper == nil:
					return context.WithValue(ctx, identityKey{}, ownerOf(c))
				}
				return ctx
			},
			ConnState: s.idle.note,
		}
		s.servers = append(s.servers, server)
		go func() { s.ended <- server.Serve(l) }()
	}
}

// local answers plain TCP only under the names of this machine: a page from elsewhere could
// else let its own name point here, and read what this machine alone may.
func (s *Server) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if r.TLS == nil && !IdentityOf(r).Socket && !hostHere(r.Host) {
			s.misdirected.Add(1)
			http.Error(w, "this collector is of this machine: ask it as localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostHere(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(trimBrackets(host))
	return host == "localhost" || ip != nil
}

func trimBrackets(host string) string {
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}

// Address is where the server listens over TCP.
func (s *Server) Address() string { return s.listeners[0].Addr().String() }

// Counters are what the server counts.
type Counters struct {
	Refused     uint64 // connections closed at once: there were too many
	Denied      uint64 // calls of admins by others
	Misdirected uint64 // requests under a name that is not this machine's
}

// Counters returns the present counts.
func (s *Server) Counters() Counters {
	return Counters{s.refused.Load(), s.denied.Load(), s.misdirected.Load()}
}

// Close lets answers in progress end, for a short time.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	var errs []error
	for _, server := range s.servers {
		err := server.Shutdown(ctx)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		errs = append(errs, err)
	}
	for range s.servers {
		if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
			errs = append(errs, end)
		}
	}
	if len(s.servers) == 0 {
		for _, l := range s.listeners {
			errs = append(errs, l.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the HTTP server: %w", err)
	}
	return nil
}

func who(id Identity) zap.Field { return zap.String("who", id.String()) }

// call names a request, bounded: a client may not fill the log with one line.
func call(r *http.Request) zap.Field {
	text := r.Method + " " + r.URL.Path
	return zap.String("call", text[:min(len(text), 200)])
}
