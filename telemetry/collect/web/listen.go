package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/socket"
	"github.com/weirswitch/weir/telemetry/collect"
)

// listenTCP listens on an address, with TLS where there are certificates.
func (s *Server) listenTCP(address string) (net.Listener, error) {
	if t := s.config.TLS; t != (collect.TLS{}) {
		var err error
		if s.keeper, err = t.Keep("tls", func(err error) { s.log.Error("tls", zap.Error(err)) }); err != nil {
			return nil, err
		}
		// A switch's certificate is for publishing. Where its authority signs readers' too, only names tell them apart.
		s.anyReads = len(s.config.Readers) == 0 && (s.config.PublishersCA == "" || !s.keeper.Shares(s.config.PublishersCA))
		if !s.anyReads && len(s.config.Readers) == 0 {
			s.log.Warn("only tls.admins may read, as the authority of tls.ca signs the switches' certificates too: name the readers in tls.readers, or give them another authority")
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("collect.listen: %w: choose an address of this machine and a port that is free", err)
	}
	l = s.bounded(l, s.config.Connections)
	if s.keeper != nil {
		l = tls.NewListener(l, s.keeper.Server("http/1.1"))
	}
	return l, nil
}

// listenUnix makes a socket, replacing one without a listener. A file that is no
// socket, and one that a process answers at, stay.
func (s *Server) listenUnix(path string) (net.Listener, error) {
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("collect.socket: %s: %w", path, err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("collect.socket: %w: choose a path in a folder that is there and may be written", err)
	}
	// Before this only the owner may connect, unless the umask is none.
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("collect.socket: %w", err), l.Close())
	}
	// Slots of their own, so that remote clients cannot lock the operator out.
	return s.bounded(l, 2*s.config.Connections), nil
}

func removeStale(path string) error {
	err := socket.RemoveStale(path)
	switch {
	case errors.Is(err, socket.ErrNotSocket):
		return fmt.Errorf("%w: remove it, or choose another path", err)
	case errors.Is(err, socket.ErrInUse):
		return fmt.Errorf("%w: stop it, or choose another path", err)
	}
	return err
}

// bounded gives a listener's connections slots. When none is free, the connection that has been idle for longest makes
// room: idle connections keep no client out.
func (s *Server) bounded(l net.Listener, most int) net.Listener {
	slots := socket.NewSlots(most, most/2)
	take := func(c net.Conn) (leave func(), ok bool) {
		if leave, ok = slots.Take(c); !ok && s.idle.closeOldest(c) {
			leave, ok = slots.Take(c)
		}
		return leave, ok
	}
	return &socket.Bounded{Listener: l, Take: take, Refused: func() { s.refused.Add(1) }}
}

// idle has the connections over which nothing is asked, the one that is so for longest first.
type idle struct {
	mu   sync.Mutex
	list []net.Conn
}

// note follows the state of a server's connections.
func (i *idle) note(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list = slices.DeleteFunc(i.list, func(x net.Conn) bool { return x == c })
	if state == http.StateNew || state == http.StateIdle {
		i.list = append(i.list, c)
	}
}

// closeOldest closes an idle connection from where another one comes; false: there is none.
func (i *idle) closeOldest(from net.Conn) bool {
	host := func(c net.Conn) string {
		h, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		return h
	}
	i.mu.Lock()
	at := slices.IndexFunc(i.list, func(c net.Conn) bool { return host(c) == host(from) })
	var c net.Conn
	if at >= 0 {
		c = i.list[at]
		i.list = slices.Delete(i.list, at, at+1)
	}
	i.mu.Unlock()
	return c != nil && c.Close() == nil
}
