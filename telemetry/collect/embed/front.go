package embed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/weirswitch/weir/internal/certs"
	"github.com/weirswitch/weir/internal/socket"
)

// front is where clients connect: it hands their bytes to the NATS server, which has no bounds per client.
//
//	client ── TCP ──> front: who is it, how many, how fast ── pipe ──> NATS server: TLS, who may do what
//
// An address has at most a part of all connections, and a client (by its name, once the server knows it) so many, with
// one rate for all of them: who sends faster is read more slowly. Of a client that is over its share of
// the stream no connection is kept.
type front struct {
	listener net.Listener
	server   *Server
	keeper   *certs.Keeper // nil: no certificates
	local    bool          // only processes of the own user, and root's

	mu      sync.Mutex
	conns   map[uint64]*frontConn // by the server's number of the client
	clients map[string]*limits
	closed  bool
	works   sync.WaitGroup

	refused atomic.Uint64 // connections closed at once: too many, or of another user
}

// limits are those of a client with a name.
type limits struct {
	open   int
	bucket bucket
	over   bool // its share of the stream is used up
	free   bool // without bounds: a process of the own user
}

// frontConn is a connection of a client.
type frontConn struct {
	net.Conn
	limits atomic.Pointer[limits] // nil: not known yet
	name   string                 // guarded by front.mu
	number uint64
}

// firstBytes is what a connection may send before the server knows whose it is.
const firstBytes = 64 << 10

// bucket holds tokens, of a byte each.
type bucket struct {
	mu     sync.Mutex
	rate   float64 // bytes per second
	burst  float64
	tokens float64
	at     time.Time
}

// take takes n tokens and returns how long to wait until they are there.
func (b *bucket) take(n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.burst, b.tokens+now.Sub(b.at).Seconds()*b.rate)
	b.at = now
	if b.tokens -= float64(n); b.tokens >= 0 {
		return 0
	}
	return time.Duration(-b.tokens / b.rate * float64(time.Second))
}

// burstSeconds is for how long a client may send at any rate: what its spool holds is wanted soon.
const burstSeconds = 4

func newFront(s *Server, l net.Listener, k *certs.Keeper, local bool) *front {
	f := &front{server: s, keeper: k, local: local, conns: map[uint64]*frontConn{}, clients: map[string]*limits{}}
	slots := socket.NewSlots(maxClients, maxClients/4)
	f.listener = &socket.Bounded{Listener: l, Refused: func() { f.refused.Add(1) }, Take: slots.Take}
	return f
}

func (f *front) start() {
	f.works.Go(f.accept)
	if f.keeper != nil {
		f.works.Go(f.watchCertificates)
	}
}

func (f *front) accept() {
	for {
		c, err := f.listener.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // no descriptors, say
			time.Sleep(reconnectWait)
			continue
		}
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			_ = c.Close()
			return
		}
		f.works.Go(func() { f.serve(c) })
		f.mu.Unlock()
	}
}

// serve hands on a connection until one end closes it.
func (f *front) serve(c net.Conn) {
	defer c.Close()
	if f.local {
		uid, err := socket.OwnerOf(c)
		if err != nil || !socket.OwnUser(uid) {
			f.refused.Add(1)
			f.server.config.Log.Named("nats").Sugar().Warnf("refused: user %d is not the collector's (%v): without [[nats.client]] only its own processes and root's may connect", uid, err)
			_, _ = io.WriteString(c, "-ERR 'Authorization Violation'\r\n")
			return
		}
	}
	inner, err := f.server.nats.InProcessConn()
	if err != nil {
		return
	}
	defer inner.Close()
	x := &frontConn{Conn: c}
	info, err := f.greet(x, inner)
	if err != nil {
		return
	}
	defer f.leave(x)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = c.Write(info)
		_, _ = io.Copy(c, inner)
		_ = c.Close()
	}()
	f.send(x, inner)
	_ = inner.Close()
	_ = c.Close()
	<-done
}

// greet reads the first line of the server, which has its number of the client.
func (f *front) greet(x *frontConn, inner net.Conn) (info []byte, err error) {
	_ = inner.SetReadDeadline(time.Now().Add(authWait))
	one := make([]byte, 4096)
	for !bytes.Contains(info, []byte("\r\n")) {
		n, err := inner.Read(one)
		if info = append(info, one[:n]...); err != nil {
			return nil, err
		}
	}
	_ = inner.SetReadDeadline(time.Time{})
	_, text, found := bytes.Cut(info, []byte(`"client_id":`))
	digits := text
	for i, d := range text {
		if d < '0' || d > '9' {
			digits = text[:i]
			break
		}
	}
	if x.number, err = strconv.ParseUint(string(digits), 10, 64); !found || err != nil {
		return nil, errors.New("the NATS server does not number its clients")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, net.ErrClosed
	}
	f.conns[x.number] = x
	return info, nil
}

// send hands on what the client sends, as fast as it may.
func (f *front) send(x *frontConn, inner net.Conn) {
	buffer, sent := make([]byte, 64<<10), 0
	for {
		n, err := x.Read(buffer)
		if n > 0 {
			switch l := x.limits.Load(); {
			case l == nil:
				if sent += n; sent > firstBytes {
					return
				}
			case !l.free:
				time.Sleep(l.bucket.take(n))
			}
			if _, err := inner.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// admit notes whose a connection is, by its number; an error says why the client has no more of them.
func (f *front) admit(connection string, name string) error {
	_, text, found := strings.Cut(connection, "cid:")
	if i := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		text = text[:i]
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if !found || err != nil {
		return fmt.Errorf("%q is no client's connection", connection)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.conns[number]
	if x == nil {
		return errors.New("it did not come in by the listener")
	}
	if f.local {
		x.limits.Store(&limits{free: true})
		return nil
	}
	l := f.clients[name]
	if l == nil {
		rate := float64(f.server.config.NATS.ClientRate)
		l = &limits{bucket: bucket{rate: rate, burst: burstSeconds * rate, tokens: burstSeconds * rate, at: time.Now()}}
		f.clients[name] = l
	}
	switch {
	case x.limits.Load() != nil:
		return errors.New("the connection has a client already")
	case l.over:
		return errors.New("it has more than its share of the stream, which is full: its records stay in its spool")
	case l.open >= f.server.config.NATS.ClientConnections:
		return fmt.Errorf("it has %d connections, and may have no more", l.open)
	}
	l.open++
	x.name = name
	x.limits.Store(l)
	return nil
}

func (f *front) leave(x *frontConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, x.number)
	if l := x.limits.Load(); l != nil && !l.free {
		if l.open--; l.open == 0 && !l.over {
			if name := x.name; len(f.clients) > 1<<14 {
				delete(f.clients, name)
			}
		}
	}
}

// restrict says which clients have more than their share of the stream; their connections are closed.
func (f *front) restrict(over map[string]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name := range over {
		if f.clients[name] == nil {
			rate := float64(f.server.config.NATS.ClientRate)
			f.clients[name] = &limits{bucket: bucket{rate: rate, burst: burstSeconds * rate, at: time.Now()}}
		}
	}
	for name, l := range f.clients {
		if l.over != over[name] {
			l.over = over[name]
			f.server.config.Log.Warn("a client's share of the stream", zap.String("client", name), zap.Bool("used up", l.over))
		}
	}
	for _, x := range f.conns {
		if l := x.limits.Load(); l != nil && l.over {
			_ = x.Close()
		}
	}
}

// watchCertificates closes all connections when the certificates change: one of them may be revoked now, and the
// others come back at once.
func (f *front) watchCertificates() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	before := f.keeper.Generation()
	for {
		select {
		case <-f.server.stop:
			return
		case <-tick.C:
		}
		if now := f.keeper.Generation(); now != before {
			before = now
			f.server.config.Log.Info("the certificates have changed: clients connect anew")
			f.closeAll()
		}
	}
}

func (f *front) closeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.conns {
		_ = x.Close()
	}
}

// close ends all connections and waits for them.
func (f *front) close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	err := f.listener.Close()
	f.closeAll()
	f.works.Wait()
	return err
}
