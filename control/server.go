package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"

	"github.com/weirswitch/weir/control/api"
)

const (
	// maxRequest bounds a request. So far none carries anything.
	maxRequest = 64 << 10
	maxHeader  = 16 << 10
	// requestWait is how long a client may take to say what it wants.
	requestWait = 5 * time.Second
	// closeWait is how long answers under way may take when the server closes.
	closeWait = time.Second
)

// Server answers requests in goroutines of its own.
type Server struct {
	http  http.Server
	ended chan error
}

// Serve answers what arrives at the listener, which is the server's from now
// on. What the transport complains about goes to the log.
func Serve(l net.Listener, sw Switch, log *zap.Logger) *Server {
	mux := http.NewServeMux()
	mux.Handle(api.NewSwitchHandler(&reader{sw}, connect.WithReadMaxBytes(maxRequest)))
	s := &Server{ended: make(chan error, 1)}
	s.http = http.Server{
		Handler:           mux,
		MaxHeaderBytes:    maxHeader,
		ReadHeaderTimeout: requestWait,
		ReadTimeout:       requestWait,
		ErrorLog:          zap.NewStdLog(log),
	}
	go func() { s.ended <- s.http.Serve(l) }()
	return s
}

// Close lets answers under way end, within a second, and removes the socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close() // a client that does not read must not keep the switch
	}
	if end := <-s.ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	if err != nil {
		return fmt.Errorf("close the control socket: %w", err)
	}
	return nil
}
