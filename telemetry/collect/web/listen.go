package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"github.com/weirswitch/weir/internal/socket"
	"github.com/weirswitch/weir/telemetry/collect"
)

// listenTCP listens on an address, with TLS where there are certificates.
func listenTCP(address string, t collect.TLS, slots *slots) (net.Listener, error) {
	var config *tls.Config
	if t != (collect.TLS{}) {
		own, pool, err := t.Load("tls")
		if err != nil {
			return nil, err
		}
		config = &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, NextProtos: []string{"http/1.1"},
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("collect.listen: %w: choose an address of this machine and a port that is free", err)
	}
	l = slots.bound(l)
	if config != nil {
		l = tls.NewListener(l, config)
	}
	return l, nil
}

// listenUnix makes a socket, replacing one without a listener. A file that is no
// socket, and one that a process answers at, stay.
func listenUnix(path string, slots *slots) (net.Listener, error) {
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
	return slots.bound(l), nil
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

// slots are those of connections: so many of all, half as many of one address.
type slots struct {
	most    int
	refused func()

	mu   sync.Mutex
	open int
	of   map[string]int
}

func newSlots(most int, refused func()) *slots {
	return &slots{most: most, refused: refused, of: map[string]int{}}
}

func (p *slots) take(from string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= p.most || p.of[from] >= max(1, p.most/2) {
		return false
	}
	p.open++
	p.of[from]++
	return true
}

func (p *slots) leave(from string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	if p.of[from]--; p.of[from] == 0 {
		delete(p.of, from)
	}
}

// bound gives a listener's connections these slots.
func (p *slots) bound(l net.Listener) net.Listener {
	take := func(c net.Conn) (leave func(), ok bool) {
		from, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			from = "unix"
		}
		return func() { p.leave(from) }, p.take(from)
	}
	return &socket.Bounded{Listener: l, Take: take, Refused: p.refused}
}
